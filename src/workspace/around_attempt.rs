//! Records the user's files, refs and configuration before an attempt, and compares them afterwards.

use std::sync::PoisonError;

use anyhow::{Context, Result};

use super::{AttemptEnd, Findings, Notice, Workspace, WorkspaceKind};
use crate::git::{Oid, RefList};
use crate::story::StoryId;

impl Workspace {
    /// Copies small ignored files and saves submodules. If the agent shares the user's git directory, also records its
    /// configuration and hooks. `label` names the attempt; `checkpoint` is the commit that the attempt starts from.
    pub(crate) async fn record_files(&self, label: &str, checkpoint: &Oid) -> Result<()> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).insert(label.to_owned());
        let made = self.list_ignored().await?;
        self.copy_ignored(label, made).context("cannot copy ignored files")?;
        self.copy_repositories(label)?;
        self.keep_submodules_before(checkpoint, label).await?;
        self.copy_git_dirs(label)?;
        match self.kind {
            WorkspaceKind::InPlace => self.guard_git_files(),
            WorkspaceKind::Isolated => Ok(()),
        }
    }

    /// Whether this process recorded the files before the attempt with this label.
    pub(super) fn has_watched(&self, label: &str) -> bool {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).contains(label)
    }

    /// Records the user's refs, if the agent can change them.
    pub(crate) async fn record_refs(&self, refs: &RefList) -> Result<()> {
        match self.kind {
            WorkspaceKind::InPlace => self.guard_refs(refs).await,
            WorkspaceKind::Isolated => Ok(()),
        }
    }

    /// Compares the repository with the record, and repairs what needs no ref transaction: tag objects, and (unless they are
    /// known to be untouched) configuration and hooks. The findings list the repairs that refs and the stash still need.
    pub(crate) async fn inspect(
        &self,
        refs: &RefList,
        story: &StoryId,
        attempt: u32,
        end: AttemptEnd,
        untouched: bool,
    ) -> Result<Findings> {
        match self.kind {
            WorkspaceKind::InPlace => {
                let mut findings = self.compare_git(refs, story, attempt, end, untouched).await?;
                findings.pins.extend(self.new_operation_commits());
                Ok(findings)
            }
            WorkspaceKind::Isolated => Ok(Findings::default()),
        }
    }

    /// Restores hooks, settings that name commands or steer a run, and the view of history, if the agent shares the user's git directory.
    pub(crate) async fn put_back_steering(&self, story: &StoryId, attempt: u32) -> Result<Vec<Notice>> {
        match self.kind {
            WorkspaceKind::InPlace => {
                // Settings can only be compared once git can read the configuration.
                let mut notices = self.restore_unreadable_config().await?;
                notices.extend(self.put_back_commands(story, attempt).await?);
                notices.extend(self.put_back_replacements(story, attempt).await?);
                Ok(notices)
            }
            WorkspaceKind::Isolated => Ok(Vec::new()),
        }
    }

    /// Whether the attempt switched sparse checkout on or off.
    pub(crate) async fn turned_sparse(&self) -> Result<bool> {
        match self.kind {
            WorkspaceKind::InPlace => self.sparse_differs().await,
            WorkspaceKind::Isolated => self.hides_files().await,
        }
    }

    /// Whether the agent can move the refs of the user's repository, the run's own branch among them.
    pub(crate) fn shares_refs(&self) -> bool {
        match self.kind {
            WorkspaceKind::InPlace => true,
            WorkspaceKind::Isolated => false,
        }
    }
}
