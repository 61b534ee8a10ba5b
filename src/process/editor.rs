//! An editor: a child that shares our terminal until the user leaves it.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// Opens a file with a command line of the user's; says whether that ended well.
///
/// # Errors
/// If it cannot be started.
pub async fn edit(command: &str, env: Vec<(OsString, OsString)>, cwd: &Path, file: &Path) -> io::Result<bool> {
    #[expect(clippy::disallowed_methods, reason = "the one door to commands")]
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{command} \"$@\""), command]).arg(file).env_clear().envs(env).current_dir(cwd);
    // Ctrl-C is the editor's.
    let _ours = signal(SignalKind::interrupt());
    Ok(shell.spawn()?.wait().await?.success())
}
