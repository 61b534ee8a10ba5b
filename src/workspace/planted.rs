//! Finds git directories beside tracked files. git neither lists nor stores them, so a rollback has to move away those that an attempt made.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::path_set::PathSet;
use super::{Notice, Workspace};
use crate::git::tracked_paths;

/// The file that lists the git directories from before the run.
const KNOWN: &str = "git-dirs";

impl Workspace {
    fn known_git_dirs(&self) -> PathBuf {
        self.dir.join(KNOWN)
    }

    /// Records the git directories beside tracked files before the run: they are the user's.
    pub(super) fn note_git_dirs(&self) -> Result<()> {
        let file = self.known_git_dirs();
        PathSet::new(self.git_dirs()).save(&file).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Moves git directories beside tracked files into the run's directory, except those from before the run.
    pub(crate) fn move_planted_git_dirs(&self, label: &str) -> Result<Vec<Notice>> {
        let moved = self.planted_git_dirs().into_iter().map(|path| {
            let to = self.move_aside(&path, label)?;
            Ok(Notice::NestedMoved { path: path.display().to_string(), to: to.display().to_string() })
        });
        moved.collect()
    }

    /// The git directories beside tracked files that did not exist before the run.
    pub(super) fn planted_git_dirs(&self) -> Vec<PathBuf> {
        let Ok(known) = PathSet::load(&self.known_git_dirs()) else { return Vec::new() };
        self.git_dirs().into_iter().filter(|path| !known.covers(path)).collect()
    }

    /// Every `.git` in a directory with tracked files, except that of the work tree itself.
    fn git_dirs(&self) -> Vec<PathBuf> {
        let tracked = fs::read(self.private_index()).ok().and_then(|index| tracked_paths(&index)).unwrap_or_default();
        let mut dirs = BTreeSet::new();
        for path in &tracked {
            for dir in Path::new(OsStr::from_bytes(path)).ancestors().skip(1).take_while(|dir| !dir.as_os_str().is_empty()) {
                // The directories above this one are in the set already.
                if !dirs.insert(dir.to_owned()) {
                    break;
                }
            }
        }
        dirs.into_iter().map(|dir| dir.join(".git")).filter(|path| self.repo.place.top.join(path).symlink_metadata().is_ok()).collect()
    }
}
