//! A question about a run that waits for its answer. No lock is held meanwhile, and `git ralph stop` withdraws the question.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinHandle;

use super::RunDir;
use crate::process::{Identity, Stop, StopHandle, Urgency, stop_channel, watch_signals};
use crate::{safe_read, safe_write};

const POLL: Duration = Duration::from_millis(200);

/// A question on the screen. Meanwhile a file in the run's directory names the process that asks.
pub struct Question {
    dir: RunDir,
    /// The length of the journal when the question was asked.
    journal: Option<u64>,
    requests: Stop,
    signals: Stop,
    watchers: [JoinHandle<()>; 2],
}

/// Why a question was withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// `git ralph stop`.
    Stopped,
    /// SIGTERM or SIGHUP.
    Terminated,
}

impl Question {
    /// Records that this process asks about the run. The caller must have released the lock.
    pub fn ask(dir: &RunDir) -> Result<Self> {
        let (request_handle, requests) = stop_channel();
        let (signal_handle, signals) = stop_channel();
        let watchers = [tokio::spawn(watch_withdrawal(dir.withdrawal_file(), request_handle)), tokio::spawn(watch_signals(signal_handle)?)];
        // Without the file `status` shows less. The question itself does not need it.
        let _ = safe_write::draft(&dir.question_file(), format!("{}\n", Identity::own()).as_bytes());
        Ok(Question { journal: length(&dir.journal()), dir: dir.clone(), requests, signals, watchers })
    }

    /// Waits until the question has to be withdrawn.
    pub async fn withdrawn(&mut self) -> Withdrawn {
        tokio::select! {
            _ = self.requests.reached(Urgency::AfterAttempt) => Withdrawn::Stopped,
            _ = self.signals.reached(Urgency::Terminate) => Withdrawn::Terminated,
        }
    }

    /// Whether another command has changed the run since the question was asked.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        length(&self.dir.journal()) != self.journal
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.watchers.iter().for_each(JoinHandle::abort);
        for file in [self.dir.question_file(), self.dir.withdrawal_file()] {
            // Leave the files of another process that asks about the same run.
            if named_in(&file) == Some(Identity::own()) {
                let _ = fs::remove_file(file);
            }
        }
    }
}

impl RunDir {
    /// The file that names the process that asks about the run.
    fn question_file(&self) -> PathBuf {
        self.path().join("question")
    }

    /// The file that names the process that should withdraw its question. It differs from the stop request, because the loop of another
    /// process may be running while the question waits.
    fn withdrawal_file(&self) -> PathBuf {
        self.path().join("question.stop")
    }

    /// The living process that asks about the run and waits for the answer, if there is one.
    #[must_use]
    pub fn asker(&self) -> Option<Identity> {
        named_in(&self.question_file()).filter(Identity::is_alive)
    }

    /// Requests that a process withdraws its question.
    pub fn withdraw_question(&self, asker: Identity) -> io::Result<()> {
        let (file, draft) = (self.withdrawal_file(), self.withdrawal_file().with_extension("new"));
        safe_write::draft(&draft, format!("{asker}\n").as_bytes())?;
        fs::rename(draft, file)
    }
}

/// Waits for the request to withdraw the question of this process and passes it on.
async fn watch_withdrawal(file: PathBuf, handle: StopHandle) {
    let mut ticks = tokio::time::interval(POLL);
    loop {
        ticks.tick().await;
        if named_in(&file) == Some(Identity::own()) {
            handle.raise(Urgency::AfterAttempt);
        }
    }
}

/// The process that a file names.
fn named_in(file: &Path) -> Option<Identity> {
    safe_read::text(file).ok()?.parse().ok()
}

fn length(journal: &Path) -> Option<u64> {
    Some(journal.symlink_metadata().ok()?.len())
}
