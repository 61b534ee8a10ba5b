//! A pager: the one child that shares our terminal.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// Shows a text through a command line of the user's; says whether that could be started.
pub async fn page(command: &str, env: Vec<(OsString, OsString)>, cwd: &Path, text: &str) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the one door to commands")]
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env_clear().envs(env).current_dir(cwd).stdin(Stdio::piped());
    // Ctrl-C is the pager's: it must not end us before it has given the terminal back.
    let _ours = signal(SignalKind::interrupt());
    let Ok(mut child) = shell.spawn() else { return false };
    if let Some(mut pipe) = child.stdin.take() {
        // Whoever quits before the end has seen enough.
        let _ = pipe.write_all(text.as_bytes()).await;
        let _ = pipe.shutdown().await;
    }
    // A shell that does not find the program says so by this status.
    child.wait().await.is_ok_and(|status| status.code() != Some(127))
}
