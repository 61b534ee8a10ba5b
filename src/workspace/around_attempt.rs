//! Around an attempt: what is the user's is recorded before it, and compared after it.

use std::sync::PoisonError;

use anyhow::{Context, Result};

use super::{AttemptEnd, Findings, Notice, Workspace, WorkspaceKind};
use crate::git::{Oid, RefList};
use crate::story::StoryId;

impl Workspace {
    /// Copies small ignored files, keeps submodules, and where the agent shares the user's git records what steers that. `label` is
    /// that of the attempt, `checkpoint` where it starts from.
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

    /// Whether this process was there when the attempt with this label began.
    pub(super) fn has_watched(&self, label: &str) -> bool {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).contains(label)
    }

    /// Records what the user's refs are, where the agent can change them.
    pub(crate) async fn record_refs(&self, refs: &RefList) -> Result<()> {
        match self.kind {
            WorkspaceKind::InPlace => self.guard_refs(refs).await,
            WorkspaceKind::Isolated => Ok(()),
        }
    }

    /// Compares with what was recorded, and repairs what needs no ref transaction: tag objects, configuration and hooks, unless
    /// they are known to be untouched. What has to be done about refs and the stash is in the findings.
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

    /// Puts back what an attempt has done to settings that name commands or steer a run, and to hooks, where it shares the user's.
    pub(crate) async fn put_back_steering(&self, story: &StoryId, attempt: u32) -> Result<Vec<Notice>> {
        match self.kind {
            WorkspaceKind::InPlace => {
                // A configuration that git cannot read cannot be compared either.
                let mut notices = self.restore_unreadable_config().await?;
                notices.extend(self.put_back_commands(story, attempt).await?);
                Ok(notices)
            }
            WorkspaceKind::Isolated => Ok(Vec::new()),
        }
    }

    /// Whether the attempt has turned sparse checkout on or off.
    pub(crate) async fn turned_sparse(&self) -> Result<bool> {
        match self.kind {
            WorkspaceKind::InPlace => self.sparse_differs().await,
            WorkspaceKind::Isolated => Ok(false),
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
