//! A second name for every file that a run cannot do without, outside of the directory that an agent may delete.
//!
//! Hard links: nothing is copied, and what is appended to the journal is in both places.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{RunDir, Store};

/// What can be made again, or is too much to keep twice.
const LEFT_OUT: [&str; 5] = ["attempts", "moved", "index", "stop", "stale-locks"];

/// The second names of one run.
#[derive(Clone, Debug)]
pub struct Spare {
    dir: PathBuf,
    run: PathBuf,
    others: Vec<(PathBuf, PathBuf)>,
}

impl Spare {
    /// For a run in a store, with the change file and the lock of its work tree.
    #[must_use]
    pub fn new(store: &Store, run: &RunDir, worktree: &str) -> Self {
        let dir = spares(store.root()).join(run.change.as_str()).join(run.number.to_string());
        let others = vec![(store.change_file(&run.change), dir.join("change.toml")), (store.lock_file(worktree), dir.join("lock"))];
        Spare { run: run.path().to_owned(), others, dir }
    }

    /// Gives every file that has none its second name.
    ///
    /// # Errors
    /// If a link cannot be made.
    pub fn keep(&self) -> io::Result<()> {
        link_all(&self.run, &self.dir.join("run"))?;
        self.others.iter().try_for_each(|(from, to)| link(from, to))
    }

    /// Gives every file that has lost its first name that name again; says whether any had.
    ///
    /// # Errors
    /// If a link cannot be made.
    pub fn restore(&self) -> io::Result<bool> {
        let lost = !self.run.join("journal.jsonl").exists() || self.others.iter().any(|(from, to)| to.exists() && !from.exists());
        if lost {
            link_missing(&self.dir.join("run"), &self.run)?;
            for (from, to) in &self.others {
                link_missing(to, from)?;
            }
        }
        Ok(lost)
    }

    /// Lets go of the second names: the run is over.
    pub fn discard(&self) {
        let _ = fs::remove_dir_all(&self.dir);
        if let Some(change) = self.dir.parent() {
            let _ = fs::remove_dir(change);
            let _ = change.parent().map(fs::remove_dir);
        }
    }

    /// Brings runs back whose directory was deleted while nobody watched.
    ///
    /// # Errors
    /// If a link cannot be made.
    pub fn revive(store: &Store) -> io::Result<()> {
        let Ok(changes) = fs::read_dir(spares(store.root())) else { return Ok(()) };
        for change in changes.flatten() {
            for run in fs::read_dir(change.path())?.flatten() {
                let (name, number) = (change.file_name(), run.file_name());
                link_missing(&run.path().join("run"), &store.root().join("runs").join(&name).join(&number))?;
                link_missing(&run.path().join("change.toml"), &store.root().join(format!("{}.toml", name.to_string_lossy())))?;
            }
        }
        Ok(())
    }
}

fn spares(root: &Path) -> PathBuf {
    root.with_file_name("ralph-spare")
}

fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if LEFT_OUT.iter().any(|left_out| name == *left_out) || name.to_string_lossy().ends_with(".lock") {
            continue;
        }
        if entry.file_type()?.is_dir() {
            link_all(&entry.path(), &to.join(name))?;
        } else {
            link(&entry.path(), &to.join(name))?;
        }
    }
    Ok(())
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(meta) = from.metadata() else { return Ok(()) };
    match to.metadata() {
        Ok(other) if other.ino() == meta.ino() => return Ok(()),
        Ok(_) => fs::remove_file(to)?,
        Err(_) => {}
    }
    fs::hard_link(from, to)
}

fn link_missing(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(meta) = from.symlink_metadata() else { return Ok(()) };
    if meta.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            link_missing(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if to.symlink_metadata().is_ok() {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::hard_link(from, to)
}
