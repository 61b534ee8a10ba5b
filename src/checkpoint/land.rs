//! Landing: everything in the work tree becomes a checkpoint on the branch, above the agent's own commits.

use std::path::PathBuf;

use anyhow::Result;

use super::snapshot::Snapshot;
use super::{Footing, Keeper, Notice};
use crate::git::{Head, Merge, Oid, RefList, RefUpdate};
use crate::story::Story;

/// What came of landing.
#[derive(Debug)]
pub enum Landed {
    /// The checkpoint, and what was put right or left out on the way.
    Checkpoint {
        /// Its id.
        commit: Oid,
        /// How many paths it changed.
        files: usize,
        /// What was put right or left out.
        notices: Vec<Notice>,
    },
    /// It cannot be a checkpoint; the attempt has failed for this reason.
    Impossible(String),
}

impl Keeper {
    /// Lands an attempt whose gates are green. Doing it twice is harmless.
    ///
    /// # Errors
    /// If git fails.
    pub async fn land(&self, story: &Story, attempt: u32, footing: &Footing) -> Result<Landed> {
        let refs = self.repo.refs().await?;
        let head = self.head_after_agent(&refs).await;
        if let Some(commit) = self.already_landed(story, attempt, footing, &refs).await? {
            self.reattach(head.as_ref()).await?;
            self.settle_index(&commit).await?;
            return Ok(Landed::Checkpoint { commit, files: 0, notices: Vec::new() });
        }
        let label = format!("{}-{attempt}", story.id.as_component());
        let mut notices = Vec::new();
        let agent = head.as_ref().and_then(Head::oid).filter(|oid| **oid != footing.checkpoint);
        let above = match agent {
            Some(oid) if self.repo.is_ancestor(&footing.checkpoint, oid).await? => Some(oid),
            _ => None,
        };
        if let Some(oid) = above {
            self.repo.read_tree(&self.private_index(), oid).await?;
        }
        let mut snapshot = self.snapshot(&footing.checkpoint).await?;
        if let Some(unkept) = &snapshot.unkept {
            return Ok(Landed::Impossible(format!("git could not add every file: {unkept}")));
        }
        if let (Some(elsewhere), None) = (agent, above) {
            match self.bring_over(elsewhere, &snapshot, footing, &label).await? {
                Ok(brought) => {
                    notices.push(Notice::BroughtOver { from: words(head.as_ref()) });
                    snapshot = brought;
                }
                Err(paths) => return Ok(Landed::Impossible(conflict(head.as_ref(), &paths))),
            }
        }
        notices.extend(snapshot.nested.iter().map(|path| Notice::NestedLeftOut { path: path.display().to_string() }));
        let message = self.names.checkpoint_message(story, attempt);
        let parents: Vec<&Oid> = match (above, agent) {
            (Some(above), _) => vec![above],
            (None, Some(elsewhere)) => vec![&footing.checkpoint, elsewhere],
            (None, None) => vec![&footing.checkpoint],
        };
        let commit = self.repo.commit(&snapshot.tree, &parents, &message).await?;
        self.move_branch(&refs, &commit, &format!("commit: checkpoint: {}", story.id)).await?;
        notices.extend(self.put_right(head.as_ref(), &label).await?);
        self.install_index(&self.private_index()).await?;
        Ok(Landed::Checkpoint { commit, files: snapshot.changes.len(), notices })
    }

    async fn move_branch(&self, refs: &RefList, to: &Oid, reason: &str) -> Result<()> {
        let updates: Vec<RefUpdate> = self.branch_to(refs, to);
        self.repo.update_refs(&updates, reason).await
    }

    /// Nothing left under way, HEAD on the branch.
    pub(super) async fn put_right(&self, head: Option<&Head>, label: &str) -> Result<Vec<Notice>> {
        let mut notices: Vec<Notice> = self.clear_operations(label)?.into_iter().collect();
        if self.reattach(head).await? {
            notices.push(Notice::HeadReattached { from: words(head) });
        }
        Ok(notices)
    }

    /// Merges what the agent did on another line of history onto the checkpoint.
    async fn bring_over(
        &self,
        elsewhere: &Oid,
        snapshot: &Snapshot,
        footing: &Footing,
        label: &str,
    ) -> Result<Result<Snapshot, Vec<PathBuf>>> {
        let work = self.repo.commit(&snapshot.tree, &[elsewhere], "work tree of an attempt\n").await?;
        let tree = match self.repo.merge(&footing.checkpoint, &work).await? {
            Merge::Clean(tree) => tree,
            Merge::Conflict(paths) => return Ok(Err(paths)),
        };
        let changes = self.repo.diff_trees(&snapshot.tree, &tree).await?;
        self.make_room(&changes, label)?;
        self.repo.switch_tree(&self.private_index(), &snapshot.tree, &tree).await?;
        let changes = self.repo.diff_trees(&footing.checkpoint, &tree).await?;
        Ok(Ok(Snapshot { tree, changes, nested: snapshot.nested.clone(), unkept: None }))
    }

    /// A checkpoint that was made before a crash, but not yet written down: branch and ref moved in one transaction.
    async fn already_landed(&self, story: &Story, attempt: u32, footing: &Footing, refs: &RefList) -> Result<Option<Oid>> {
        let Some(tip) = refs.get(&self.names.checkpoint()) else { return Ok(None) };
        if *tip == footing.checkpoint || refs.get(&self.names.branch()) != Some(tip) {
            return Ok(None);
        }
        let same = self.repo.trailer(tip, "Ralph-Story").await? == story.id.as_str()
            && self.repo.trailer(tip, "Ralph-Attempt").await? == attempt.to_string();
        Ok(same.then(|| tip.clone()))
    }
}

fn words(head: Option<&Head>) -> String {
    head.map_or_else(|| "a broken HEAD".to_owned(), Head::words)
}

fn conflict(head: Option<&Head>, paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    format!("the work was done on {} and conflicts with the checkpoint in {}", words(head), paths.join(", "))
}
