//! Handles files in directories of another user, such as those left by a container that ran as root. They can be read and stored,
//! but neither removed nor replaced. The work tree is switched without them, and a notice lists them with the command to fix it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::fs::{Access, access};
use rustix::process::geteuid;

use super::path_set::PathSet;
use super::switch::Switch;
use super::{Notice, Workspace};
use crate::git::{Oid, PathChange};

/// A switch of the work tree, reduced to the changes that we have permission for.
pub(super) struct PermittedSwitch {
    /// The resulting tree: the wanted tree, except that inaccessible files are as they are.
    pub to: Oid,
    pub changes: Vec<PathChange>,
    /// The changes that we have no permission for.
    left: Vec<PathChange>,
}

impl Workspace {
    /// The part of a switch that is possible; none if all of it is.
    pub(super) async fn permitted_switch(&self, switch: &Switch<'_>) -> Result<Option<PermittedSwitch>> {
        let (left, changes): (Vec<PathChange>, Vec<PathChange>) =
            switch.changes.iter().cloned().partition(|change| self.closed_dir(&change.path).is_some());
        if left.is_empty() {
            return Ok(None);
        }
        let index = self.dir.join("index.reach");
        let _ = fs::remove_file(&index);
        let repo = self.index_repo();
        repo.read_tree(&index, switch.to).await?;
        repo.set_entries(&index, &left.iter().map(PathChange::reversed).collect::<Vec<_>>()).await?;
        let to = repo.write_tree(&index).await?;
        fs::remove_file(index)?;
        Ok(Some(PermittedSwitch { to, changes, left }))
    }

    /// After such a switch: sets the private index to the wanted tree. Files that could not be removed are excluded from later
    /// checkpoints.
    pub(super) async fn leave_out_of_reach(&self, wanted: &Oid, reach: PermittedSwitch) -> Result<Option<Notice>> {
        self.index_repo().read_tree(&self.private_index(), wanted).await?;
        let (remaining, changed): (Vec<PathChange>, Vec<PathChange>) = reach.left.into_iter().partition(|change| change.new_mode == 0);
        let paths: Vec<PathBuf> = remaining.into_iter().map(|change| change.path).collect();
        let mut protected = self.protected();
        protected.extend(paths.iter().cloned());
        self.save_protected(&protected)?;
        let mut remembered = self.remembered();
        remembered.extend(paths);
        remembered.save(&self.remembered_file())?;
        Ok(self.still_out_of_reach(wanted, changed.into_iter().map(|change| change.path).collect()))
    }

    /// Reports the files that differ from the tree `wanted` for lack of permission: `changed`, and files of attempts that still
    /// exist.
    pub(crate) fn still_out_of_reach(&self, wanted: &Oid, changed: Vec<PathBuf>) -> Option<Notice> {
        let is_there = |path: &&PathBuf| self.repo.place.top.join(path).symlink_metadata().is_ok() && self.closed_dir(path).is_some();
        let mut remaining: Vec<PathBuf> = self.remembered().paths().filter(is_there).cloned().collect();
        remaining.sort();
        let directories: BTreeSet<PathBuf> = remaining.iter().chain(&changed).filter_map(|path| self.closed_dir(path)).collect();
        if directories.is_empty() {
            return None;
        }
        let names = |paths: Vec<PathBuf>| paths.iter().map(|path| path.display().to_string()).collect();
        Some(Notice::OutOfReach {
            directories: names(directories.into_iter().collect()),
            owner: geteuid().as_raw(),
            remaining: names(remaining),
            changed: names(changed),
            wanted: wanted.clone(),
        })
    }

    fn remembered_file(&self) -> PathBuf {
        self.dir.join("out-of-reach")
    }

    /// Files of attempts that could not be removed.
    fn remembered(&self) -> PathSet {
        PathSet::load(&self.remembered_file()).unwrap_or_default()
    }

    /// The topmost directory on the way to a path that belongs to another user and is not writable for us. None if the path's
    /// nearest existing directory is writable or ours.
    fn closed_dir(&self, path: &Path) -> Option<PathBuf> {
        let top = &self.repo.place.top;
        let is_closed = |dir: &Path| {
            let at = top.join(dir);
            let is_others = at.symlink_metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() != geteuid().as_raw());
            is_others && access(&at, Access::WRITE_OK | Access::EXEC_OK).is_err()
        };
        let last = path.ancestors().skip(1).find(|dir| top.join(dir).symlink_metadata().is_ok())?;
        if !is_closed(last) {
            return None;
        }
        last.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && is_closed(dir)).last().map(Path::to_owned)
    }
}
