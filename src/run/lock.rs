//! The lock on a work tree: the kernel holds it as long as this process or any of its children lives.
//!
//! Children inherit the descriptor on purpose. If the lock is held but its owner is dead, orphans of a killed run are still alive.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use tokio::time::sleep;

use crate::process::{self, Identity, lockers_of};
use crate::safe_read;
use crate::vault::private_dirs;

const ROUNDS: u32 = 20;
const ORPHAN_GRACE: Duration = Duration::from_secs(5);

/// A lock that this process holds.
#[derive(Debug)]
pub struct Lock {
    file: File,
    owner_file: Option<PathBuf>,
}

/// The holder of a lock.
#[derive(Debug, PartialEq, Eq)]
pub enum Holder {
    /// A living git-ralph process.
    Owner(u32),
    /// Processes that a dead git-ralph left. Empty if the system does not tell which processes hold a lock.
    Orphans(Vec<u32>),
}

impl Lock {
    /// Takes the lock, or returns its holder. A process may have deleted the lock file while git-ralph holds the lock. So the owner is also
    /// recorded in `owner_file`, outside of the repository.
    pub fn take(path: &Path, owner_file: Option<PathBuf>) -> Result<Result<Lock, Holder>> {
        let cannot = || format!("cannot lock {}", path.display());
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).with_context(cannot)?;
        }
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).with_context(cannot)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Err(holder(path, owner_file.as_deref()))),
            Err(error) => return Err(error).with_context(cannot),
        }
        if let Some(owner) = owner_file.as_deref().and_then(owner_in).filter(|owner| *owner != Identity::own()) {
            return Ok(Err(Holder::Owner(owner.pid)));
        }
        file.set_len(0)?;
        file.write_all(format!("{}\n", Identity::own()).as_bytes())?;
        fcntl_setfd(&file, FdFlags::empty()).with_context(cannot)?;
        let owner_file = owner_file.filter(|file| note_owner(file).is_ok());
        process::record_groups_in(owner_file.clone());
        Ok(Ok(Lock { file, owner_file }))
    }

    /// Takes the lock. If orphans of a dead owner still hold it, they are ended.
    pub async fn take_over(path: &Path, owner_file: Option<&Path>) -> Result<Result<Lock, Holder>> {
        let take = || Lock::take(path, owner_file.map(Path::to_owned));
        for _ in 0..ROUNDS {
            match take()? {
                // Several rounds are needed, because a process that is being ended may start others. Without a list of the holders,
                // git-ralph can only wait.
                Err(Holder::Orphans(pids)) if pids.is_empty() => sleep(ORPHAN_GRACE / ROUNDS).await,
                Err(Holder::Orphans(pids)) => process::end(&pids, ORPHAN_GRACE).await,
                other => return Ok(other),
            }
        }
        take()
    }

    /// The process id of the living git-ralph that holds the lock, if there is one. The lock itself is not touched.
    #[must_use]
    pub fn owner(path: &Path) -> Option<u32> {
        owner_in(path).filter(|owner| owner.holds(path)).map(|owner| owner.pid)
    }

    /// The process id of the living owner that is recorded outside of the repository.
    #[must_use]
    pub fn noted_owner(owner_file: &Path) -> Option<u32> {
        owner_in(owner_file).map(|owner| owner.pid)
    }
}

/// The process that a file names, if it is alive.
fn owner_in(file: &Path) -> Option<Identity> {
    let identity: Identity = safe_read::text(file).ok()?.lines().next()?.parse().ok()?;
    identity.is_alive().then_some(identity)
}

fn note_owner(file: &Path) -> io::Result<()> {
    if let Some(dir) = file.parent() {
        private_dirs(dir)?;
    }
    fs::write(file, format!("{}\n", Identity::own()))
}

impl Drop for Lock {
    fn drop(&mut self) {
        process::record_groups_in(None);
        if let Some(file) = &self.owner_file {
            let _ = fs::remove_file(file);
        }
        // A child that is still alive has inherited the descriptor and must not keep the lock.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// The holder of a lock. A git-ralph process among the holders is the owner, even if the file does not name it yet.
fn holder(path: &Path, owner_file: Option<&Path>) -> Holder {
    if let Some(owner) = Lock::owner(path) {
        return Holder::Owner(owner);
    }
    let holders = lockers_of(path);
    match holders.iter().find(|pid| process::is_same_program(**pid)) {
        Some(owner) => Holder::Owner(*owner),
        None if holders.is_empty() => {
            let noted = owner_file.and_then(|file| safe_read::text(file).ok()).unwrap_or_default();
            Holder::Orphans(process::recorded_groups(&noted))
        }
        None => Holder::Orphans(holders),
    }
}
