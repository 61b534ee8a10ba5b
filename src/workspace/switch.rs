//! Switches the work tree from one tree to another without overwriting edits that are made meanwhile.
//!
//! git first checks all files and then writes them; an edit in between is lost. So git-ralph first renames the files that are
//! about to change out of the work tree, and then checks them once more. A file that differs from the snapshot has been edited,
//! and is kept.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};

use super::snapshot::GITLINK;
use super::{Notice, Workspace};
use crate::git::{Oid, PathChange, Reach};

/// How many times the switch is tried if files are written where git is about to write.
const TRIES: u32 = 5;

/// A switch from one tree to another.
pub(crate) struct Switch<'a> {
    /// The current tree of the work tree, by the last snapshot.
    pub from: &'a Oid,
    /// The wanted tree.
    pub to: &'a Oid,
    /// The changes between them.
    pub changes: &'a [PathChange],
    pub reach: Reach,
    /// The label of the directory that obstacles are moved to.
    pub label: &'a str,
}

/// When the last scan began, by the clock of the file system; none if unknown.
#[derive(Clone, Debug, Default)]
pub(super) struct WalkBegan(Arc<Mutex<Option<(i64, i64)>>>);

/// A file that was renamed out of the work tree.
struct Aside {
    path: PathBuf,
    /// The metadata right before the rename, if the snapshot is known to contain the file in that state.
    in_snapshot: Option<Metadata>,
}

impl Aside {
    /// Whether the file is still as in the snapshot, judged by its metadata without git.
    fn is_unchanged(&self, dir: &Path) -> bool {
        let looks = |meta: &Metadata| (meta.ino(), meta.len(), meta.mode(), meta.mtime(), meta.mtime_nsec());
        let now = dir.join(&self.path).symlink_metadata();
        self.in_snapshot.as_ref().is_some_and(|before| now.is_ok_and(|now| looks(&now) == looks(before)))
    }
}

impl Workspace {
    /// Notes the time before a scan: the snapshot contains every file whose ctime is earlier, in its current state.
    pub(super) fn note_walk(&self) {
        let file = self.dir.join("walk");
        let _ = fs::remove_file(&file);
        let began = File::create_new(&file).and_then(|file| file.metadata()).map(|meta| (meta.ctime(), meta.ctime_nsec()));
        *self.walk_began.0.lock().unwrap_or_else(PoisonError::into_inner) = began.ok();
    }

    fn set_aside_dir(&self) -> PathBuf {
        self.dir.join("set-aside")
    }

    /// A hard link to the private index from before the switch. git replaces an index last, so a difference shows that git was
    /// done.
    fn index_before(&self) -> PathBuf {
        self.dir.join("index.switch")
    }

    /// Switches the work tree, except for files in directories of another user.
    pub(crate) async fn switch(&self, switch: &Switch<'_>, notices: &mut Vec<Notice>) -> Result<()> {
        let Some(reach) = self.permitted_switch(switch).await? else { return self.switch_all(switch, notices).await };
        self.switch_all(&Switch { to: &reach.to, changes: &reach.changes, ..*switch }, notices).await?;
        notices.extend(self.leave_out_of_reach(switch.to, reach).await?);
        Ok(())
    }

    /// Switches the work tree. Edits made since the snapshot are moved to the label's directory of moved files.
    async fn switch_all(&self, switch: &Switch<'_>, notices: &mut Vec<Notice>) -> Result<()> {
        let (index, before) = (self.private_index(), self.index_before());
        let _ = fs::remove_file(&before);
        let can_tell = fs::hard_link(&index, &before).is_ok();
        let mut aside = Vec::new();
        for left in (0..TRIES).rev() {
            for path in self.make_room(switch.changes, switch.label)? {
                let to = self.moved_dir(switch.label).display().to_string();
                notices.push(Notice::ObstacleMoved { path: path.display().to_string(), to });
            }
            if aside.is_empty() && can_tell {
                aside = self.set_aside(switch.changes)?;
            }
            let Err(error) = self.switch_by_git(switch, notices).await else { break };
            // Retry if a file was written where git is about to write; otherwise git failed for a different reason.
            if left == 0 || self.has_switched() || !self.move_written_aside(&aside, switch.label, notices)? {
                self.recover_switch().await?;
                return Err(error).context("cannot restore the work tree");
            }
        }
        self.keep_late_edits(&aside, switch.label, notices).await
    }

    /// Completes an interrupted switch if git had finished its part, and reverts it otherwise.
    pub(crate) async fn recover_switch(&self) -> Result<()> {
        let aside: Vec<Aside> = files_below(&self.set_aside_dir()).into_iter().map(|path| Aside { path, in_snapshot: None }).collect();
        if self.has_switched() { self.keep_late_edits(&aside, "set-aside", &mut Vec::new()).await } else { self.return_aside(&aside) }
    }

    fn has_switched(&self) -> bool {
        let id = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
        let before = id(&self.index_before());
        before.is_some() && before != id(&self.private_index())
    }

    /// Renames the files that are about to change out of the work tree.
    fn set_aside(&self, changes: &[PathChange]) -> Result<Vec<Aside>> {
        let is_file = |mode: u32| mode != 0 && mode != GITLINK;
        let walk_began = *self.walk_began.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut aside = Vec::new();
        for change in changes.iter().filter(|change| is_file(change.old_mode)) {
            let (from, to) = (self.repo.place.top.join(&change.path), self.set_aside_dir().join(&change.path));
            let Some(meta) = from.symlink_metadata().ok().filter(|meta| meta.is_file() || meta.is_symlink()) else { continue };
            let in_snapshot = walk_began.is_some_and(|began| (meta.ctime(), meta.ctime_nsec()) < began).then_some(meta);
            fs::create_dir_all(to.parent().unwrap_or(&self.dir))?;
            match fs::rename(&from, &to) {
                Ok(()) => aside.push(Aside { path: change.path.clone(), in_snapshot }),
                // The run's directory is on another file system, so git's own check has to suffice.
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => break,
                Err(_) => {}
            }
        }
        Ok(aside)
    }

    /// Moves files away that were written where others had been set aside. Returns whether there were any.
    fn move_written_aside(&self, aside: &[Aside], label: &str, notices: &mut Vec<Notice>) -> Result<bool> {
        let mut found = false;
        for path in aside
            .iter()
            .map(|aside| &aside.path)
            .filter(|path| self.repo.place.top.join(path).symlink_metadata().is_ok_and(|meta| !meta.is_dir()))
        {
            let to = self.move_aside(path, label)?;
            notices.push(Notice::LateEdit { path: path.display().to_string(), to: to.display().to_string() });
            found = true;
        }
        Ok(found)
    }

    /// Saves those of the files set aside that differ from the snapshot's index, and deletes the others.
    async fn keep_late_edits(&self, aside: &[Aside], label: &str, notices: &mut Vec<Notice>) -> Result<()> {
        let (dir, before) = (self.set_aside_dir(), self.index_before());
        if !aside.is_empty() {
            for path in self.late_edits(aside, &dir, &before).await {
                let to = self.free_place(&path, label)?;
                fs::rename(dir.join(&path), &to).with_context(|| format!("cannot move {}", path.display()))?;
                notices.push(Notice::LateEdit { path: path.display().to_string(), to: to.display().to_string() });
            }
            fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        let _ = fs::remove_file(before);
        Ok(())
    }

    /// The files set aside that differ from the snapshot's index. git is only called where the metadata do not decide it.
    async fn late_edits(&self, aside: &[Aside], dir: &Path, index: &Path) -> Vec<PathBuf> {
        if aside.iter().all(|aside| aside.is_unchanged(dir)) {
            return Vec::new();
        }
        let mut edited = self.index_repo().edited_in(dir, index).await;
        if edited.is_err() {
            edited = self.index_repo().edited_in(dir, index).await;
        }
        // If git cannot tell, all of them are kept.
        let is_late = |path: &PathBuf| edited.as_ref().map_or(true, |edited| edited.contains(path));
        aside.iter().map(|aside| aside.path.clone()).filter(is_late).collect()
    }

    /// Moves the files set aside back. If a path is taken, the file goes to the directory of moved files.
    fn return_aside(&self, aside: &[Aside]) -> Result<()> {
        for Aside { path, .. } in aside {
            let (from, place) = (self.set_aside_dir().join(path), self.repo.place.top.join(path));
            let is_free = place.symlink_metadata().is_err() && place.parent().is_some_and(|parent| fs::create_dir_all(parent).is_ok());
            let to = if is_free { place } else { self.free_place(path, "set-aside")? };
            fs::rename(&from, &to).with_context(|| format!("cannot move {} to {}", from.display(), to.display()))?;
        }
        let _ = fs::remove_dir_all(self.set_aside_dir());
        let _ = fs::remove_file(self.index_before());
        Ok(())
    }
}

/// Every file below a directory, relative to it.
fn files_below(top: &Path) -> Vec<PathBuf> {
    let (mut files, mut dirs) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(top.join(&dir)).into_iter().flatten().flatten() {
            let path = dir.join(entry.file_name());
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir { &mut dirs } else { &mut files }.push(path);
        }
    }
    files
}
