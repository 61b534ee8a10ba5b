//! Before work goes on: what the user did on the branch or in the work tree since a clean stop is taken in, not lost.

use std::time::Instant;

use anyhow::{Result, bail};

use super::submodules::Moment;
use super::{Footing, Keeper};
use crate::error::Problem;
use crate::git::{Head, Oid, RefList, RefUpdate};

/// What was found between two pieces of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Nothing: everything is as we left it.
    Same,
    /// The user committed on the branch: his commit is the checkpoint now.
    Commits {
        /// The new checkpoint.
        checkpoint: Oid,
    },
    /// The user edited files: a snapshot of them is what attempts start from.
    Edits {
        /// The checkpoint, which may have moved too.
        checkpoint: Oid,
        /// The snapshot.
        base: Oid,
        /// How many paths.
        files: usize,
    },
}

impl Keeper {
    /// Checks that the branch is active and at the checkpoint; gives the tip if the user has committed on it.
    ///
    /// # Errors
    /// A [`Problem`] if HEAD is elsewhere or the branch has lost the checkpoint.
    pub async fn verify_branch(&self, footing: &Footing) -> Result<Option<Oid>> {
        self.verify_branch_in(&self.repo.refs().await?, footing).await
    }

    /// The same, and everything that is the user's is recorded: an agent is about to be started.
    ///
    /// # Errors
    /// As [`Keeper::verify_branch`].
    pub async fn ready_for_attempt(&self, footing: &Footing) -> Result<Option<Oid>> {
        let (verified, guarded) = tokio::join!(self.verified_refs(footing), self.guard_files());
        let (refs, moved) = verified?;
        guarded?;
        self.follow(moved.as_ref()).await?;
        self.note_baseline(Moment::Attempt)?;
        self.guard_refs(&refs).await?;
        Ok(moved)
    }

    /// The refs, with the branch verified; and its tip, if the user has committed on it.
    async fn verified_refs(&self, footing: &Footing) -> Result<(RefList, Option<Oid>)> {
        if let Some(refs) = self.refs_of_lately(footing) {
            return Ok((refs, None));
        }
        let refs = self.repo.refs().await?;
        let moved = self.verify_branch_in(&refs, footing).await?;
        Ok((refs, moved))
    }

    async fn verify_branch_in(&self, refs: &RefList, footing: &Footing) -> Result<Option<Oid>> {
        let (branch, short) = (self.names.branch(), self.names.short_branch());
        let head = self.repo.head(refs).await?;
        let tip = match &head {
            Head::Branch { name, oid } if *name == branch => oid,
            _ => bail!(Problem::refused(format!("HEAD is on {}, not on {short}", head.words())).hint(format!("git switch {short}"))),
        };
        if *tip == footing.checkpoint {
            return Ok(None);
        }
        if !self.repo.is_ancestor(&footing.checkpoint, tip).await? {
            let checkpoint = footing.checkpoint.short();
            bail!(
                Problem::refused(format!("{short} is at {}, which does not contain the last checkpoint {checkpoint}", tip.short()))
                    .hint(format!("git reset --keep {checkpoint}   to go back to the checkpoint"))
                    .hint("git ralph abort   to give the run up; nothing is lost")
            );
        }
        Ok(Some(tip.clone()))
    }

    /// What the user has committed is tracked, even if it is ignored: the private index must know it as git's own does.
    async fn follow(&self, moved: Option<&Oid>) -> Result<()> {
        match moved {
            Some(tip) => self.repo.read_tree(&self.private_index(), tip).await,
            None => Ok(()),
        }
    }

    /// Verifies the branch and takes in what the user did on it and in the work tree.
    ///
    /// # Errors
    /// As [`Keeper::verify_branch`], or if an operation of git is under way.
    pub async fn settle(&self, footing: &Footing) -> Result<Settled> {
        let looked = Instant::now();
        let refs = self.repo.refs().await?;
        let moved = self.verify_branch_in(&refs, footing).await?;
        self.check_nothing_under_way().await?;
        self.follow(moved.as_ref()).await?;
        let tip = moved.as_ref().unwrap_or(&footing.checkpoint);
        let snapshot = self.snapshot(tip).await?;
        snapshot.check_whole()?;
        if snapshot.changes.is_empty() {
            if refs.get(&self.names.checkpoint()) != Some(tip) {
                self.note(tip, None).await?;
            }
            self.remember_refs(refs, looked);
            let same = moved.is_none() && footing.base == footing.checkpoint;
            return Ok(if same { Settled::Same } else { Settled::Commits { checkpoint: tip.clone() } });
        }
        self.keep_more_keepsakes(&snapshot.changes).await?;
        let staged = self.staged(&snapshot.tree, tip).await?;
        let parents: Vec<&Oid> = [Some(tip), staged.as_ref()].into_iter().flatten().collect();
        let base = self.repo.commit(&snapshot.tree, &parents, "the user's edits\n").await?;
        self.note(tip, Some(&base)).await?;
        Ok(Settled::Edits { checkpoint: tip.clone(), base, files: snapshot.changes.len() })
    }

    /// Refuses while the user is in the middle of a merge, a rebase or the like.
    pub(super) async fn check_nothing_under_way(&self) -> Result<()> {
        if let Some(operation) = self.repo.under_way().await? {
            bail!(
                Problem::refused(format!("a {operation} is under way in this work tree"))
                    .hint(format!("finish or abort the {operation} first; 'git status' says how"))
            );
        }
        Ok(())
    }

    async fn note(&self, checkpoint: &Oid, adopted: Option<&Oid>) -> Result<()> {
        let mut updates = vec![RefUpdate::Set { name: self.names.checkpoint(), to: checkpoint.clone() }];
        updates.extend(adopted.map(|base| RefUpdate::Set { name: self.names.adopted(base), to: base.clone() }));
        self.repo.update_refs(&updates, "git ralph resume").await
    }

    /// The private index and the repository's at a commit that is already in the work tree.
    pub(super) async fn settle_index(&self, commit: &Oid) -> Result<()> {
        self.repo.read_tree(&self.private_index(), commit).await?;
        self.install_index(&self.private_index()).await
    }
}
