//! Making room before git writes: what is in the way and in no tree is renamed into the run's directory.

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

/// Above this many files a full walk is hardly slower.
const FEW: usize = 500;

impl Workspace {
    /// Clears the way for changing the work tree by `changes` (from what is there now to what shall be there).
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
                // Below something that is not a directory there is nothing of ours: a link may lead out of the repository.
                break;
            }
        }
        Ok(moved)
    }

    /// Whether a directory holds nothing but files that are about to leave.
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

    /// Moves something out of the work tree into the run's directory, which may be on another file system.
    pub(crate) fn move_aside(&self, path: &Path, label: &str) -> Result<PathBuf> {
        let (from, to) = (self.repo.place.top.join(path), self.free_place(path, label)?);
        relocate(&from, &to).with_context(|| format!("cannot move {} to {}", from.display(), to.display()))?;
        Ok(to)
    }

    /// A place in the run's directory that something can be renamed to.
    pub(super) fn free_place(&self, path: &Path, label: &str) -> Result<PathBuf> {
        let dir = self.moved_dir(label);
        let numbered = |number: u32| dir.join(number.to_string()).join(path);
        let to = free_name(dir.join(path), numbered, |to| to.symlink_metadata().is_ok());
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(to)
    }

    /// A read-only directory would stop git half-way.
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

    /// Whether every file that is to be changed is as the run left it, and nothing is where new ones will be.
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

/// `a`, `a/b`, `a/b/c` for `a/b/c`.
fn parts(path: &Path) -> impl Iterator<Item = PathBuf> {
    let mut at = PathBuf::new();
    path.components().map(move |component| {
        at.push(component);
        at.clone()
    })
}
