//! Runs a pager, which shares git-ralph's terminal.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// Shows a text with the user's pager command. Returns whether the command could be started.
pub async fn page(command: &str, env: Vec<(OsString, OsString)>, cwd: &Path, text: &str) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the one door to commands")]
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env_clear().envs(env).current_dir(cwd).stdin(Stdio::piped());
    // Ctrl-C belongs to the pager: git-ralph must not end before the pager has restored the terminal.
    let _ours = signal(SignalKind::interrupt());
    let Ok(mut child) = shell.spawn() else { return false };
    if let Some(mut pipe) = child.stdin.take() {
        // The user may quit the pager before the end of the text.
        let _ = pipe.write_all(text.as_bytes()).await;
        let _ = pipe.shutdown().await;
    }
    // The shell exits with 127 if it does not find the program.
    child.wait().await.is_ok_and(|status| status.code() != Some(127))
}
