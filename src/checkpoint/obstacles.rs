//! Making room before git writes: what is in the way and in no tree is renamed into the run's directory.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Keeper;
use crate::git::PathChange;

impl Keeper {
    /// Clears the way for changing the work tree by `changes` (from what is there now to what shall be there).
    pub(super) fn make_room(&self, changes: &[PathChange], label: &str) -> Result<Vec<PathBuf>> {
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

    /// Renames something out of the work tree into the run's directory.
    pub(super) fn move_aside(&self, path: &Path, label: &str) -> Result<PathBuf> {
        let from = self.repo.place.top.join(path);
        let dir = self.moved_dir(label);
        let mut to = dir.join(path);
        let mut copy = 1;
        while to.symlink_metadata().is_ok() {
            copy += 1;
            to = dir.join(format!("{copy}")).join(path);
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::rename(&from, &to).with_context(|| format!("cannot move {} to {}", from.display(), to.display()))?;
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
}

/// `a`, `a/b`, `a/b/c` for `a/b/c`.
fn parts(path: &Path) -> impl Iterator<Item = PathBuf> {
    let mut at = PathBuf::new();
    path.components().map(move |component| {
        at.push(component);
        at.clone()
    })
}
