//! Adopts the user's commits on the branch and edits in the work tree since a clean stop, before the run continues.

use std::time::Instant;

use anyhow::{Context, Result};

use super::{Base, Branch};
use crate::git::{Oid, RefList, RefUpdate};
use crate::workspace::{Moment, Workspace};

/// What the user did since the run's last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// Nothing has changed.
    Same,
    /// The user committed on the branch; that commit becomes the checkpoint.
    Commits {
        /// The new checkpoint.
        checkpoint: Oid,
    },
    /// The user edited files; attempts start from a snapshot of them.
    Edits {
        /// The checkpoint, which may have moved too.
        checkpoint: Oid,
        /// The snapshot.
        base: Oid,
        /// The number of changed paths; zero if the user has only staged something.
        files: usize,
    },
}

impl Branch {
    /// Checks that HEAD is on the run's branch and that the branch contains the checkpoint. Returns the tip if the user has
    /// committed on it.
    ///
    /// # Errors
    /// A [`Problem`](crate::error::Problem) if HEAD is elsewhere or the branch has lost the checkpoint.
    pub async fn verify_branch(&self, workspace: &Workspace, base: &Base) -> Result<Option<Oid>> {
        self.verify_branch_in(workspace, &self.repo.refs().await?, base).await
    }

    /// Verifies the branch, then records everything of the user's that must survive the attempt. Called right before the agent of
    /// the attempt with this label starts.
    ///
    /// # Errors
    /// As [`Branch::verify_branch`].
    pub async fn ready_for_attempt(&self, workspace: &Workspace, base: &Base, label: &str) -> Result<Option<Oid>> {
        let (verified, guarded) = tokio::join!(self.verified_refs(workspace, base), workspace.record_files(label, &base.checkpoint));
        let (refs, moved) = verified?;
        guarded?;
        workspace.reset_private_index_to(moved.as_ref()).await?;
        workspace.note_baseline(Moment::Attempt)?;
        workspace.record_refs(&refs).await?;
        Ok(moved)
    }

    /// The refs, after the branch is verified, and the branch's tip if the user has committed on it.
    async fn verified_refs(&self, workspace: &Workspace, base: &Base) -> Result<(RefList, Option<Oid>)> {
        if let Some(refs) = self.cached_refs(workspace, base) {
            return Ok((refs, None));
        }
        let refs = self.repo.refs().await?;
        let moved = self.verify_branch_in(workspace, &refs, base).await?;
        Ok((refs, moved))
    }

    async fn verify_branch_in(&self, workspace: &Workspace, refs: &RefList, base: &Base) -> Result<Option<Oid>> {
        let head = workspace.repo.head(refs).await?;
        self.check_head(Some(&head))?;
        let tip = head.oid().with_context(|| format!("{} has no commit", self.names.short_branch()))?;
        self.check_holds_checkpoint(tip, base, Some("git ralph abort   to give the run up; nothing is lost")).await?;
        Ok(Some(tip.clone()).filter(|tip| *tip != base.checkpoint))
    }

    /// Verifies the branch, and adopts the user's commits on it and edits in the work tree.
    ///
    /// # Errors
    /// As [`Branch::verify_branch`], or if a git operation is under way.
    pub async fn adopt(&self, workspace: &Workspace, base: &Base) -> Result<Adopted> {
        let looked = Instant::now();
        // Checked before the scan, which writes file times into the private index.
        let stage_is_theirs = !workspace.index_is_ours();
        let refs = self.repo.refs().await?;
        let moved = self.verify_branch_in(workspace, &refs, base).await?;
        workspace.check_nothing_under_way().await?;
        workspace.reset_private_index_to(moved.as_ref()).await?;
        let tip = moved.as_ref().unwrap_or(&base.checkpoint);
        let snapshot = workspace.snapshot(tip).await?;
        snapshot.check_whole()?;
        let staged = if stage_is_theirs { workspace.staged(&snapshot.tree, tip).await? } else { None };
        if snapshot.changes.is_empty() && staged.is_none() {
            if refs.get(&self.names.checkpoint()) != Some(tip) {
                self.save_adopted(tip, None).await?;
            }
            self.remember_refs(refs, looked);
            let same = moved.is_none() && base.snapshot == base.checkpoint;
            return Ok(if same { Adopted::Same } else { Adopted::Commits { checkpoint: tip.clone() } });
        }
        workspace.keep_more_raw_bytes(&snapshot.changes).await?;
        let parents: Vec<&Oid> = [Some(tip), staged.as_ref()].into_iter().flatten().collect();
        let base = self.repo.commit(&snapshot.tree, &parents, "the user's edits\n").await?;
        self.save_adopted(tip, Some(&base)).await?;
        Ok(Adopted::Edits { checkpoint: tip.clone(), base, files: snapshot.changes.len() })
    }

    /// Adopts commits that the user has made on the branch of an isolated run. Returns its tip if there are any.
    ///
    /// # Errors
    /// A [`Problem`](crate::error::Problem) if the branch has lost the checkpoint.
    pub async fn adopt_commits(&self, checkpoint: &Oid) -> Result<Option<Oid>> {
        let refs = self.repo.refs().await?;
        let tip = refs.get(&self.names.branch()).cloned().unwrap_or_else(|| checkpoint.clone());
        if tip == *checkpoint && refs.get(&self.names.branch()).is_some() {
            return Ok(None);
        }
        let base = Base { checkpoint: checkpoint.clone(), snapshot: checkpoint.clone() };
        self.check_holds_checkpoint(&tip, &base, Some("git ralph abort   to give the run up; nothing is lost")).await?;
        self.repo.update_refs(&self.move_branch_to(&refs, &tip), "git ralph resume").await?;
        Ok(Some(tip).filter(|tip| tip != checkpoint))
    }

    pub(super) async fn save_adopted(&self, checkpoint: &Oid, adopted: Option<&Oid>) -> Result<()> {
        let mut updates = vec![RefUpdate::Set { name: self.names.checkpoint(), to: checkpoint.clone() }];
        updates.extend(adopted.map(|base| RefUpdate::Set { name: self.names.adopted(base), to: base.clone() }));
        self.repo.update_refs(&updates, "git ralph resume").await
    }
}
