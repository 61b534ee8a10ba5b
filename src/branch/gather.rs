//! Merges, before the gates, work that an attempt did beside the run's branch, so that the gates see what would land.
//!
//! If HEAD contains the checkpoint, the work tree is the attempt's result as it is; commits that the agent left on other lines of
//! history are not part of it. If HEAD does not contain the checkpoint, the work tree lacks the work of earlier stories, and
//! landing it would revert that work.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use super::{Base, Branch};
use crate::free_name::free_name;
use crate::git::{Head, Merge, Oid, Reach, RefUpdate};
use crate::names::attempt_label;
use crate::story::StoryId;
use crate::workspace::{Notice, Snapshot, Workspace};

/// The result of the check before the gates.
#[derive(Debug)]
pub enum Gathered {
    /// The work tree is based on the checkpoint.
    Whole,
    /// The work tree was not based on the checkpoint, and has been merged with it.
    Brought(Notice),
    /// The merge has conflicts; the attempt has failed for this reason.
    Impossible(String),
}

/// The two lines of history that an attempt has left.
#[derive(Debug)]
pub(super) struct Lines {
    /// The tip of the branch, or the checkpoint if the branch is gone.
    pub branch: Oid,
    /// The commit of HEAD, if it has one.
    pub head: Option<Oid>,
}

/// A checkpoint, and a commit that is known to contain it.
#[derive(Clone, Debug, Default)]
pub(super) struct Above(Arc<Mutex<Option<(Oid, Oid)>>>);

impl Above {
    fn known(&self) -> MutexGuard<'_, Option<(Oid, Oid)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    pub fn new(tip: Option<Oid>, head: Option<&Head>, base: &Base) -> Self {
        Lines { branch: tip.unwrap_or_else(|| base.checkpoint.clone()), head: head.and_then(Head::oid).cloned() }
    }

    fn record(&self, label: &str) -> String {
        format!("{label} {} {}\n", self.branch, self.head.as_ref().map_or("-", Oid::as_str))
    }

    /// Whether the work tree is the merge of both lines.
    pub fn are_together(&self, workspace: &Workspace, label: &str) -> bool {
        fs::read_to_string(note(workspace)).is_ok_and(|text| text == self.record(label))
    }
}

/// The file that records which lines have been merged.
fn note(workspace: &Workspace) -> PathBuf {
    workspace.dir().join("gathered")
}

impl Branch {
    /// Merges the checkpoint and the branch into the work tree, if the agent ended on another line of history. Repeating it is
    /// harmless.
    pub async fn gather(&self, workspace: &Workspace, story: &StoryId, attempt: u32, base: &Base) -> Result<Gathered> {
        if workspace.stands_on(&base.checkpoint) || self.head_is_above(workspace, &base.checkpoint).await? {
            return Ok(Gathered::Whole);
        }
        // An agent that deletes refs may also have deleted the objects.
        workspace.revive_object(&base.checkpoint).await?;
        let refs = self.repo.refs().await?;
        let head = workspace.head_after_agent(&refs).await?;
        let lines = Lines::new(refs.get(&self.names.branch()).cloned(), head.as_ref(), base);
        let label = attempt_label(story, attempt);
        let brought = Notice::BroughtOver { from: words(head.as_ref()) };
        if lines.are_together(workspace, &label) {
            return Ok(Gathered::Brought(brought));
        }
        if workspace.turned_sparse().await? {
            // With sparse checkout, missing files cannot be told from deleted ones. The landing reports this.
            return Ok(Gathered::Whole);
        }
        let snapshot = workspace.snapshot(&base.checkpoint).await?;
        let work = self.repo.commit(&snapshot.tree, &lines.head.iter().collect::<Vec<_>>(), "work tree of an attempt\n").await?;
        // Merging overwrites files, so their content is saved under a ref first.
        let wanted = self.names.abandoned(story, attempt);
        let name = free_name(wanted.clone(), |number| format!("{wanted}.{number}"), |name| refs.get(name).is_some());
        self.repo.update_refs(&[RefUpdate::Create { name, to: work.clone() }], "git ralph").await?;
        match self.all_together(&base.checkpoint, Some(&lines.branch), &work).await? {
            Err(paths) => Ok(Gathered::Impossible(conflict(head.as_ref(), &paths))),
            Ok(tree) => {
                self.switch(workspace, &snapshot, &tree, &label).await?;
                fs::write(note(workspace), lines.record(&label)).context("cannot write the merged tree")?;
                Ok(Gathered::Brought(brought))
            }
        }
    }

    async fn head_is_above(&self, workspace: &Workspace, checkpoint: &Oid) -> Result<bool> {
        let head = workspace.head_in_files();
        let above = workspace.repo.head_contains(checkpoint).await?;
        if let Some(head) = head.filter(|_| above) {
            *self.above.known() = Some((checkpoint.clone(), head));
        }
        Ok(above)
    }

    /// Whether a commit contains the checkpoint. Uses the answer from before the gates if it is still valid.
    pub(super) async fn is_above(&self, checkpoint: &Oid, commit: &Oid) -> Result<bool> {
        let known = *self.above.known() == Some((checkpoint.clone(), commit.clone()));
        Ok(known || checkpoint == commit || self.repo.is_ancestor(checkpoint, commit).await?)
    }

    /// HEAD, if it is a commit above the checkpoint.
    pub(super) async fn above(&self, checkpoint: &Oid, head: Option<&Oid>) -> Result<Option<Oid>> {
        let Some(head) = head.filter(|head| *head != checkpoint) else { return Ok(None) };
        Ok(self.is_above(checkpoint, head).await?.then(|| head.clone()))
    }

    /// The agent's commit that the work tree is based on, if the agent made one above the checkpoint.
    pub async fn committed(&self, workspace: &Workspace, checkpoint: &Oid) -> Result<Option<Oid>> {
        let head = workspace.head_after_agent(&self.repo.refs().await?).await?;
        self.above(checkpoint, head.as_ref().and_then(Head::oid)).await
    }

    /// The merged tree of the checkpoint, the branch and the work tree, or the conflicting paths.
    pub(super) async fn all_together(&self, checkpoint: &Oid, branch: Option<&Oid>, work: &Oid) -> Result<Result<Oid, Vec<PathBuf>>> {
        let mut ours = checkpoint.clone();
        let mut tree = None;
        for theirs in branch.into_iter().chain([work]) {
            if *theirs == ours {
                continue;
            }
            match self.repo.merge(&ours, theirs).await? {
                Merge::Clean(merged) => {
                    ours = self.repo.commit(&merged, &[&ours, theirs], "lines of an attempt\n").await?;
                    tree = Some(merged);
                }
                Merge::Conflict(paths) => return Ok(Err(paths)),
            }
        }
        match tree {
            Some(tree) => Ok(Ok(tree)),
            None => self.repo.tree_of(work).await.map(Ok),
        }
    }

    async fn switch(&self, workspace: &Workspace, snapshot: &Snapshot, tree: &Oid, label: &str) -> Result<()> {
        let changes = self.repo.diff_trees(&snapshot.tree, tree).await?;
        workspace.make_room(&changes, label)?;
        workspace.repo.switch_tree(&workspace.private_index(), &snapshot.tree, tree, Reach::Everywhere).await.map(drop)
    }
}

pub(super) fn words(head: Option<&Head>) -> String {
    head.map_or_else(|| "a broken HEAD".to_owned(), Head::words)
}

fn conflict(head: Option<&Head>, paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    format!("the work was done on {} and conflicts with the checkpoint in {}", words(head), paths.join(", "))
}
