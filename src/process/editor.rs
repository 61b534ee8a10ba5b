//! Runs an editor, which shares git-ralph's terminal until the user leaves it.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// Opens a file with the user's editor command. Returns whether it exited successfully.
pub async fn edit(command: &str, env: Vec<(OsString, OsString)>, cwd: &Path, file: &Path) -> io::Result<bool> {
    #[expect(clippy::disallowed_methods, reason = "the one door to commands")]
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{command} \"$@\""), command]).arg(file).env_clear().envs(env).current_dir(cwd);
    // Ctrl-C belongs to the editor.
    let _ours = signal(SignalKind::interrupt());
    Ok(shell.spawn()?.wait().await?.success())
}
