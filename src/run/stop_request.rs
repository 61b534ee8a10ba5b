//! The request of `git ralph stop`: a file in the run's directory that the loop polls.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::process::{StopHandle, Urgency};
use crate::{safe_read, safe_write};

const POLL: Duration = Duration::from_millis(200);

/// How the loop should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopRequest {
    /// Stop when the current attempt has ended.
    AfterAttempt,
    /// End the current attempt.
    Now,
}

impl StopRequest {
    /// Writes the request to the file that the loop polls.
    pub fn leave(self, file: &std::path::Path) -> io::Result<()> {
        let word = match self {
            StopRequest::AfterAttempt => "after-attempt\n",
            StopRequest::Now => "now\n",
        };
        let draft = file.with_extension("new");
        safe_write::draft(&draft, word.as_bytes())?;
        fs::rename(draft, file)
    }
}

/// Passes requests on, for as long as the future is polled.
pub async fn watch(file: PathBuf, handle: StopHandle) {
    let mut ticks = tokio::time::interval(POLL);
    loop {
        ticks.tick().await;
        match safe_read::text(&file).as_deref().map(str::trim) {
            Ok("now") => handle.raise(Urgency::Now),
            Ok(_) => handle.raise(Urgency::AfterAttempt),
            Err(_) => {}
        }
    }
}
