//! Clears the way before git writes files: obstacles that are in no tree are renamed into the run's directory.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Workspace;
use super::snapshot::GITLINK;
use crate::free_name::free_name;
use crate::git::PathChange;
use crate::relocate::relocate;

/// For more files than this, a full scan of the work tree is hardly slower.
const FEW: usize = 500;

impl Workspace {
    /// Clears the way for the changes from the current work tree to the wanted one. Returns the paths of the moved obstacles.
    pub(crate) fn make_room(&self, changes: &[PathChange], label: &str) -> Result<Vec<PathBuf>> {
        let top = &self.repo.place.top;
        let leaving: HashSet<&Path> = changes.iter().filter(|c| c.new_mode == 0 || c.status == 'M').map(|c| c.path.as_path()).collect();
        let mut moved = Vec::new();
        for change in changes {
            self.make_writable(&change.path);
        }
        for change in changes.iter().filter(|change| change.old_mode == 0) {
            for part in parts(&change.path) {
                let Ok(meta) = top.join(&part).symlink_metadata() else { break };
                if part != change.path && meta.is_dir() {
                    continue;
                }
                let goes_by_itself = leaving.contains(part.as_path()) || (meta.is_dir() && self.holds_only(&part, &leaving));
                if !goes_by_itself {
                    self.move_aside(&part, label)?;
                    moved.push(part);
                }
                // Stop here: below a symbolic link, paths may lead out of the repository.
                break;
            }
        }
        Ok(moved)
    }

    /// Whether a directory contains only files that git is about to remove.
    fn holds_only(&self, dir: &Path, leaving: &HashSet<&Path>) -> bool {
        let Ok(entries) = fs::read_dir(self.repo.place.top.join(dir)) else { return false };
        entries.into_iter().all(|entry| {
            entry.is_ok_and(|entry| {
                let path = dir.join(entry.file_name());
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_dir { self.holds_only(&path, leaving) } else { leaving.contains(path.as_path()) }
            })
        })
    }

    /// Moves a file or directory from the work tree into the run's directory, which may be on another file system.
    pub(crate) fn move_aside(&self, path: &Path, label: &str) -> Result<PathBuf> {
        let (from, to) = (self.repo.place.top.join(path), self.free_place(path, label)?);
        relocate(&from, &to).with_context(|| format!("cannot move {} to {}", from.display(), to.display()))?;
        Ok(to)
    }

    /// An unused path in the run's directory that something can be renamed to.
    pub(super) fn free_place(&self, path: &Path, label: &str) -> Result<PathBuf> {
        let dir = self.moved_dir(label);
        let numbered = |number: u32| dir.join(number.to_string()).join(path);
        let to = free_name(dir.join(path), numbered, |to| to.symlink_metadata().is_ok());
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(to)
    }

    /// Makes the directories of a path writable, because a read-only one would stop git halfway.
    fn make_writable(&self, path: &Path) {
        for part in parts(path) {
            let dir = self.repo.place.top.join(&part);
            let Ok(meta) = dir.symlink_metadata() else { return };
            if !meta.is_dir() {
                return;
            }
            let mode = meta.permissions().mode();
            if mode & 0o700 != 0o700 {
                let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(mode | 0o700));
            }
        }
    }

    /// Whether every file to be changed is as the run left it, and the paths of all new files are free.
    pub(crate) async fn is_free(&self, changes: &[PathChange]) -> Result<bool> {
        let link = |change: &PathChange| change.old_mode == GITLINK || change.new_mode == GITLINK;
        if changes.len() > FEW || changes.iter().any(link) {
            return Ok(false);
        }
        let (new, known): (Vec<&PathChange>, Vec<&PathChange>) = changes.iter().partition(|change| change.old_mode == 0);
        if new.iter().any(|change| self.is_taken(&change.path)) {
            return Ok(false);
        }
        let known: Vec<PathBuf> = known.into_iter().map(|change| change.path.clone()).collect();
        Ok(known.is_empty() || self.repo.edited(&self.private_index(), &known).await?.is_empty())
    }

    fn is_taken(&self, path: &Path) -> bool {
        let top = &self.repo.place.top;
        let free = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let blocked = |dir: &Path| match top.join(dir).symlink_metadata() {
            Ok(meta) => !meta.is_dir(),
            Err(error) => !free(&error),
        };
        let dirs = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
        dirs.into_iter().any(blocked) || top.join(path).symlink_metadata().as_ref().err().is_none_or(|error| !free(error))
    }
}

/// The path's prefixes: `a`, `a/b`, `a/b/c` for `a/b/c`.
fn parts(path: &Path) -> impl Iterator<Item = PathBuf> {
    let mut at = PathBuf::new();
    path.components().map(move |component| {
        at.push(component);
        at.clone()
    })
}
