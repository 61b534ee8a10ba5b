//! The inbox of a run: requests of the user that wait for the process that works on the run.
//!
//! It is in the vault, outside of the repository, so that an agent that writes to the git directory cannot forge requests. Only an isolated
//! run without a vault has its inbox in the run's directory.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{Request, RunDir, RunState};
use crate::safe_read;
use crate::vault::private_dirs;

const POLL: Duration = Duration::from_millis(200);

/// The file that names the process that handles requests.
const READER: &str = "reader";

/// The directory for requests, one file per request.
#[derive(Clone, Debug)]
pub struct Inbox {
    dir: PathBuf,
    /// The files of requests that wait until an attempt is over.
    waiting: BTreeSet<PathBuf>,
}

impl Inbox {
    /// The inbox of a run. A run in place without a vault has none, because an agent could write to any other directory.
    #[must_use]
    pub fn of(run: &RunDir, state: &RunState) -> Option<Self> {
        let isolated = state.opening.as_ref().filter(|_| state.is_isolated());
        let dir = match isolated {
            Some(opening) => opening.inbox.clone().unwrap_or_else(|| Inbox::place(run)),
            None => in_vault(run)?,
        };
        Some(Inbox { dir, waiting: BTreeSet::new() })
    }

    /// The directory for the inbox of a new isolated run.
    pub(super) fn place(run: &RunDir) -> PathBuf {
        in_vault(run).unwrap_or_else(|| run.path().join("inbox"))
    }

    /// Announces that this process handles requests, until the return value is dropped.
    pub(super) fn attend(&self) -> io::Result<Attending> {
        private_dirs(&self.dir)?;
        let file = self.dir.join(READER);
        fs::write(&file, std::process::id().to_string())?;
        Ok(Attending(file))
    }

    /// Whether a process handles the requests of this run.
    #[must_use]
    pub fn is_attended_by(&self, process: u32) -> bool {
        safe_read::text(&self.dir.join(READER)).is_ok_and(|text| text.trim() == process.to_string())
    }

    /// Whether the inbox has no requests.
    pub(super) fn is_empty(&self) -> bool {
        self.files().is_empty()
    }

    /// Adds a request. Returns its file, which exists until the request is handled.
    pub fn leave(&self, request: &Request) -> io::Result<PathBuf> {
        private_dirs(&self.dir)?;
        let (draft, file) = (self.dir.join(format!("{}.new", request.id)), self.dir.join(format!("{}.json", request.id)));
        fs::write(&draft, serde_json::to_vec(request)?)?;
        fs::rename(draft, &file)?;
        Ok(file)
    }

    /// The requests in the inbox, oldest first.
    pub(super) fn requests(&self) -> Vec<(PathBuf, Request)> {
        let read = |file: PathBuf| {
            let request = serde_json::from_str(&safe_read::text(&file).ok()?).ok()?;
            Some((file, request))
        };
        self.files().into_iter().filter_map(read).collect()
    }

    fn files(&self) -> BTreeSet<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return BTreeSet::new() };
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.extension().is_some_and(|ext| ext == "json")).collect()
    }

    /// Removes a request that was followed and whose event is in the journal.
    pub(super) fn remove(&mut self, file: &PathBuf) {
        let _ = fs::remove_file(file);
        self.waiting.remove(file);
    }

    /// Records that a request has to wait for the end of an attempt.
    pub(super) fn put_off(&mut self, file: PathBuf) {
        self.waiting.insert(file);
    }

    /// Waits until there is a request that was not postponed.
    pub(super) async fn arrived(&self) {
        loop {
            tokio::time::sleep(POLL).await;
            if self.requests().iter().any(|(file, _)| !self.waiting.contains(file)) {
                return;
            }
        }
    }
}

/// Marks this process as the one that handles requests, until it is dropped.
#[derive(Debug)]
pub(super) struct Attending(PathBuf);

impl Drop for Attending {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn in_vault(run: &RunDir) -> Option<PathBuf> {
    run.vault().filter(|vault| vault.exists()).map(|vault| vault.path("inbox"))
}

/// Waits for a request. Waits forever if there is no inbox.
pub(super) async fn arrived(inbox: Option<&Inbox>) {
    match inbox {
        Some(inbox) => inbox.arrived().await,
        None => std::future::pending().await,
    }
}
