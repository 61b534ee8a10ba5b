//! Keeps a hard link to every file that a run needs, outside of the run's directory, which an agent may delete.
//!
//! With hard links nothing is copied, and lines that are appended to the journal appear in both places.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{RunDir, Store};
use crate::free_name::free_name;

/// Files and directories without hard links: they can be recreated or are too large.
const LEFT_OUT: [&str; 9] = ["attempts", MOVED, "index", "stop", "question", "question.stop", "stale-locks", "set-aside", "walk"];
/// The directory for files that git cannot store.
const MOVED: &str = "moved";

/// The hard links to the files of one run.
#[derive(Clone, Debug)]
pub struct StateBackup {
    dir: PathBuf,
    run: PathBuf,
    others: Vec<(PathBuf, PathBuf)>,
    lock: (PathBuf, PathBuf),
}

impl StateBackup {
    /// The backup of a run in a store, with its change file and the lock of its work tree.
    #[must_use]
    pub fn new(store: &Store, run: &RunDir, worktree: &str) -> Self {
        let dir = backup_root(store.root()).join(run.change.as_str()).join(run.number.to_string());
        let lock = (store.lock_file(worktree), dir.join("lock"));
        let others = vec![(store.change_file(&run.change), dir.join("change.toml")), lock.clone()];
        StateBackup { run: run.path().to_owned(), others, lock, dir }
    }

    /// Creates the hard links that do not exist yet.
    pub fn keep(&self) -> io::Result<()> {
        link_all(&self.run, &self.dir.join("run"), is_left_out)?;
        link_moved(&self.run.join(MOVED), &self.dir.join("run").join(MOVED));
        self.others.iter().try_for_each(|(from, to)| link(from, to))
    }

    /// Restores files that were deleted or replaced. Returns whether there were any.
    pub fn restore(&self) -> io::Result<bool> {
        let (lock, held) = &self.lock;
        if held.exists() && inode(lock) != inode(held) {
            // No process holds a lock on the file that is there now.
            let _ = fs::remove_file(lock);
        }
        let replaced = move_foreign(&self.dir.join("run"), &self.run, &self.run.join("moved/foreign"), is_written_meanwhile)?;
        let lost =
            replaced || !self.run.join("journal.jsonl").exists() || self.others.iter().any(|(from, to)| to.exists() && !from.exists());
        if lost {
            link_missing(&self.dir.join("run"), &self.run)?;
            for (from, to) in &self.others {
                link_missing(to, from)?;
            }
        }
        Ok(lost)
    }

    /// Removes the hard links, because the run is over.
    pub fn discard(&self) {
        let _ = fs::remove_dir_all(&self.dir);
        if let Some(change) = self.dir.parent() {
            let _ = fs::remove_dir(change);
            let _ = change.parent().map(fs::remove_dir);
        }
    }

    /// Restores runs whose directory was deleted while no git-ralph was running.
    pub fn revive(store: &Store) -> io::Result<()> {
        let Ok(changes) = fs::read_dir(backup_root(store.root())) else { return Ok(()) };
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

/// Files that other processes may write during an attempt: the journal, which checks itself; the learnings; a stop request; the question of
/// another process.
fn is_written_meanwhile(name: &str) -> bool {
    is_left_out(name) || ["journal.jsonl", "stop", "question"].iter().any(|own| name.starts_with(own)) || name == "learnings.md"
}

/// Moves foreign files in the run's directory aside: symbolic links, and files that replace others.
fn move_foreign(kept: &Path, run: &Path, aside: &Path, leave_alone: fn(&str) -> bool) -> io::Result<bool> {
    let Ok(entries) = fs::read_dir(run) else { return Ok(false) };
    let Ok(known) = inodes_in(kept) else { return Ok(false) };
    let mut found = false;
    for entry in entries {
        let entry = entry?;
        let (name, here) = (entry.file_name(), entry.path());
        if leave_alone(&name.to_string_lossy()) || is_known(&entry, &known) {
            continue;
        }
        let (is, was) = (here.symlink_metadata()?, kept.join(&name).symlink_metadata().ok());
        match was {
            Some(was) if is.is_dir() && was.is_dir() => found |= move_foreign(&kept.join(&name), &here, &aside.join(&name), |_| false)?,
            Some(was) if !is.is_dir() && was.ino() == is.ino() => {}
            _ => {
                fs::create_dir_all(aside)?;
                let wanted = aside.join(&name);
                let numbered = |number| aside.join(format!("{}.{number}", name.to_string_lossy()));
                fs::rename(&here, free_name(wanted, numbered, |path| path.symlink_metadata().is_ok()))?;
                found = true;
            }
        }
    }
    Ok(found)
}

/// The names in a directory with their inode numbers.
fn inodes_in(dir: &Path) -> io::Result<HashMap<OsString, u64>> {
    fs::read_dir(dir)?.map(|entry| entry.map(|entry| (entry.file_name(), entry.ino()))).collect()
}

/// Whether a file still has its hard link, as far as the directory listings show. On some file systems, a listing has other inode numbers
/// than `stat`.
fn is_known(entry: &fs::DirEntry, known: &HashMap<OsString, u64>) -> bool {
    known.get(&entry.file_name()) == Some(&entry.ino()) && entry.file_type().is_ok_and(|kind| !kind.is_dir())
}

fn inode(path: &Path) -> Option<u64> {
    path.symlink_metadata().ok().map(|meta| meta.ino())
}

fn backup_root(root: &Path) -> PathBuf {
    root.with_file_name("ralph-spare")
}

/// Whether a name at the top of the run's directory gets no hard link. Further down, a copy of a file of the user may have any name.
fn is_left_out(name: &str) -> bool {
    LEFT_OUT.contains(&name) || name.ends_with(".lock")
}

fn link_all(from: &Path, to: &Path, leave_out: fn(&str) -> bool) -> io::Result<()> {
    let known = match inodes_in(to) {
        Ok(known) => known,
        Err(_) => fs::create_dir_all(to).map(|()| HashMap::new())?,
    };
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if leave_out(&name.to_string_lossy()) || is_known(&entry, &known) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            link_all(&entry.path(), &to.join(name), |_| false)?;
        } else {
            link(&entry.path(), &to.join(name))?;
        }
    }
    Ok(())
}

/// Links files that were moved aside. They may be of any type and owner, so a file that cannot be linked is ignored.
fn link_moved(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            link_moved(&from, &to);
        } else if to.symlink_metadata().is_err() {
            let _ = to.parent().map(fs::create_dir_all);
            let _ = fs::hard_link(&from, &to);
        }
    }
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    // Some copies are symbolic links. The hard link is to the symbolic link itself.
    let Ok(meta) = from.symlink_metadata() else { return Ok(()) };
    match to.symlink_metadata() {
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
