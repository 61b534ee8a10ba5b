//! Restores the work tree to an earlier state, after its snapshot is under a ref.

use anyhow::Result;

use super::ignored_copies::Treatment;
use super::switch::Switch;
use super::{Moment, Notice, Workspace};
use crate::git::{Oid, PathChange, Reach, Written, without_slash};

impl Workspace {
    /// Switches the work tree from `tree` to `base`, which differ by `changes`. The raw bytes of files that were written after
    /// `since` are restored too.
    pub(crate) async fn restore(
        &self,
        tree: &Oid,
        changes: &[PathChange],
        base: &Oid,
        label: &str,
        since: Moment,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        let back: Vec<PathChange> = changes.iter().map(PathChange::reversed).collect();
        let switch = Switch { from: tree, to: base, changes: &back, reach: Reach::Everywhere, label };
        self.switch(&switch, notices).await?;
        self.restore_beyond_trees(&back, since, Moment::Attempt, label, notices).await?;
        let ignored = if since == Moment::Attempt { Treatment::BackTo(since) } else { Treatment::KeepEdits };
        notices.extend(self.restore_ignored(ignored, label)?);
        self.move_unhidden_aside(changes, label, notices).await
    }

    /// Switches the work tree by `changes`, without filters and encodings where those fail.
    pub(super) async fn switch_by_git(&self, switch: &Switch<'_>, notices: &mut Vec<Notice>) -> Result<()> {
        let Switch { from, to, changes, reach, .. } = *switch;
        // A filter that failed or hung once is not tried again.
        let plain = self.is_unconverted();
        let written = self.index_repo().switch_tree(&self.private_index(), from, to, reach).await?;
        let paths = if plain || written == Written::Unfiltered { self.not_copied(changes) } else { Vec::new() };
        if !paths.is_empty() {
            notices.push(Notice::Unfiltered { paths: paths.iter().map(|path| path.display().to_string()).collect() });
        }
        Ok(())
    }

    /// Restores what a tree cannot hold after the work tree was switched by `back`: raw bytes, empty directories, the permissions
    /// of the moment `modes`, and the absence of files that a sparse checkout leaves out.
    pub(crate) async fn restore_beyond_trees(
        &self,
        back: &[PathChange],
        since: Moment,
        modes: Moment,
        label: &str,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        self.restore_raw_bytes(back).await?;
        self.restore_converted(since, back).await?;
        self.restore_empty_directories();
        self.restore_modes(modes)?;
        self.move_left_out_aside(since, label, notices).await
    }

    /// Moves files aside that the ignore rules of an attempt hid. They are untracked now that its `changes` are undone.
    pub(super) async fn move_unhidden_aside(&self, changes: &[PathChange], label: &str, notices: &mut Vec<Notice>) -> Result<()> {
        if !changes.iter().any(|change| change.path.file_name().is_some_and(|name| name == ".gitignore")) {
            return Ok(());
        }
        // `git status` would run filters on files that are not in the index.
        for path in self.index_repo().untracked(&self.private_index()).await? {
            if !self.known_nested().covers(without_slash(&path)) && !self.protected().covers(without_slash(&path)) {
                let to = self.move_aside(without_slash(&path), label)?;
                notices.push(Notice::HiddenMoved { path: path.display().to_string(), to: to.display().to_string() });
            }
        }
        Ok(())
    }
}
