//! The lock on a work tree: held by the kernel as long as this process or any of its children lives.
//!
//! The descriptor is inherited on purpose. A lock that is held while its owner is dead means orphans of a killed run.

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

/// A lock that is held.
#[derive(Debug)]
pub struct Lock {
    file: File,
    owner_file: Option<PathBuf>,
}

/// Who has a lock that we want.
#[derive(Debug, PartialEq, Eq)]
pub enum Holder {
    /// A git-ralph that is alive.
    Owner(u32),
    /// What a dead one left; none, if the system does not say which processes hold a lock.
    Orphans(Vec<u32>),
}

impl Lock {
    /// Takes the lock, or says who has it. Somebody may have deleted the file while a git-ralph holds it: who that is stands in
    /// `owner_file` too, outside of the repository.
    ///
    /// # Errors
    /// If the file cannot be used.
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

    /// Takes the lock; ends the orphans of a dead owner that still hold it.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub async fn take_over(path: &Path, owner_file: Option<&Path>) -> Result<Result<Lock, Holder>> {
        let take = || Lock::take(path, owner_file.map(Path::to_owned));
        for _ in 0..ROUNDS {
            match take()? {
                // While some are being ended, others may be born.
                Err(Holder::Orphans(pids)) if pids.is_empty() => sleep(ORPHAN_GRACE / ROUNDS).await,
                Err(Holder::Orphans(pids)) => process::end(&pids, ORPHAN_GRACE).await,
                other => return Ok(other),
            }
        }
        take()
    }

    /// Whether a living git-ralph has the lock, and which process it is; asks without touching the lock.
    #[must_use]
    pub fn owner(path: &Path) -> Option<u32> {
        owner_in(path).filter(|owner| owner.holds(path)).map(|owner| owner.pid)
    }

    /// The same, by what stands outside of the repository.
    #[must_use]
    pub fn noted_owner(owner_file: &Path) -> Option<u32> {
        owner_in(owner_file).map(|owner| owner.pid)
    }
}

/// The living process that a file names.
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
        // A child that was let live must not keep what we give back.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// A git-ralph among the holders is the owner, whatever the file says: it may be about to write itself down.
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
