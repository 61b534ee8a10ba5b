//! The temporary directory of one worker. If a worker is killed, the next worker removes its directory.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::getuid;

use crate::error::Problem;
use crate::free_name::free_name;
use crate::relocate;
use crate::run::{Holder, Lock};

/// The lock file. It is locked while the worker, or a process that it started, uses the directory.
const LOCK: &str = "lock";
/// Prefix of a directory's name until the directory is locked.
const NEW: &str = "new-";
/// A directory that is still not locked after this time belongs to a worker that was killed.
const LOCKED_BY_THEN: Duration = Duration::from_secs(3600);

/// A temporary directory that is removed when the worker ends.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Held as long as the worker or a process that it started lives.
    _lock: Lock,
}

impl Scratch {
    /// Creates a directory below `parent`. First it removes the directories of dead workers and ends the processes that still work in them.
    ///
    /// # Errors
    /// If the directory cannot be created, or other users can access the directory around it.
    pub async fn make(parent: &Path) -> Result<Self> {
        let root = parent.join(format!("git-ralph-worker-{}", getuid().as_raw()));
        let cannot = || format!("cannot create {}", root.display());
        match DirBuilder::new().mode(0o700).create(&root) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error).with_context(cannot),
            _ => check_private(&root)?,
        }
        let root = root.canonicalize().with_context(cannot)?;
        remove_stale(&root).await;
        let name = |prefix: &str, number: u32| root.join(format!("{prefix}{}.{number}", std::process::id()));
        let is_taken = |path: &PathBuf| path.symlink_metadata().is_ok();
        let draft = free_name(name(NEW, 0), |number| name(NEW, number), is_taken);
        DirBuilder::new().mode(0o700).create(&draft).with_context(cannot)?;
        let Ok(lock) = Lock::take(&draft.join(LOCK), None)? else { bail!("{} is in use", draft.display()) };
        let path = free_name(name("", 0), |number| name("", number), is_taken);
        fs::rename(&draft, &path).with_context(cannot)?;
        Ok(Scratch { path, _lock: lock })
    }

    /// A path in the directory.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next worker retries what cannot be removed now.
        let _ = relocate::remove_anything(&self.path);
    }
}

/// Checks that other users of the machine cannot put anything into the directory.
fn check_private(dir: &Path) -> Result<()> {
    let meta = dir.symlink_metadata().with_context(|| format!("cannot use {}", dir.display()))?;
    if meta.is_dir() && meta.uid() == getuid().as_raw() && meta.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    bail!(Problem::fatal(format!("{} is not a directory that only you can use: name another one with --dir", dir.display())))
}

/// Removes the directories of dead workers and ends the processes that they left running.
async fn remove_stale(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if !is_stale_candidate(&path) {
            continue;
        }
        match Lock::take_over(&path.join(LOCK), None).await {
            Ok(Ok(_lock)) => drop(relocate::remove_anything(&path)),
            // The worker is running, or it has just removed its directory.
            Ok(Err(Holder::Owner(_) | Holder::Orphans(_))) | Err(_) => {}
        }
    }
}

fn is_stale_candidate(path: &Path) -> bool {
    let Ok(meta) = path.symlink_metadata() else { return false };
    let is_new = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NEW));
    let age = meta.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
    meta.is_dir() && (!is_new || age > LOCKED_BY_THEN)
}
