//! Manages the run's branch and refs, which are the source of truth: begin, land, roll back, adopt, undo, leave. The files on
//! disk are in [`crate::workspace`].
//!
//! An attempt is a transaction: either it lands as a checkpoint on the branch, or its work is saved under a ref and its workspace
//! is restored. The caller passes the workspace to every function here, so nothing depends on where the workspace is.

mod adopt;
mod begin;
mod checkout_merge;
pub mod dry_run;
mod gather;
mod isolated;
mod land;
mod landing_queue;
mod leave;
mod leave_fast;
mod original_index;
mod ref_cache;
mod roll_back;
mod undo;

pub use adopt::Adopted;
pub use begin::{Beginning, Begun, check_index_is_free, has_begun, preflight};
pub use checkout_merge::CheckoutMerge;
pub use gather::Gathered;
pub use isolated::{ByHand, CloneAttempt, Saved, SavedEdits};
pub use land::{Landed, Style};
pub use landing_queue::{Conflict, LandedBefore, Stack, Stacked, Waiting};
pub use leave::{LeavePlan, LeaveResult, Leaving, Route};
pub use roll_back::RolledBack;
pub use undo::UndoResult;

use anyhow::{Result, bail};
use gather::Above;
use ref_cache::RefCache;

use crate::error::Problem;
pub use crate::git::Signature;
use crate::git::{Head, Oid, RefList, RefUpdate, Repo};
use crate::names::Names;

/// The commits that a run is based on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The last checkpoint, or the initial commit. The branch points to it between attempts.
    pub checkpoint: Oid,
    /// The content of the work tree between attempts: the checkpoint, or a snapshot with the user's edits on top of it.
    pub snapshot: Oid,
}

/// The branch of one run, with the run's refs.
#[derive(Clone, Debug)]
pub struct Branch {
    /// The user's repository.
    pub repo: Repo,
    /// The names of the run's refs.
    pub names: Names,
    ref_cache: RefCache,
    above: Above,
}

impl Branch {
    /// The branch of the run with these names.
    #[must_use]
    pub fn new(repo: Repo, names: Names) -> Self {
        Branch { repo, names, ref_cache: RefCache::default(), above: Above::default() }
    }

    /// The updates that move the branch to a commit from its position in `refs`. If something else has moved it since, the
    /// transaction fails, so no commit is lost.
    fn move_branch_to(&self, refs: &RefList, to: &Oid) -> Vec<RefUpdate> {
        let update = |name: String| match refs.get(&name) {
            Some(from) if from == to => None,
            Some(from) => Some(RefUpdate::Move { name, to: to.clone(), from: from.clone() }),
            // The ref is gone, or broken and therefore not listed.
            None => Some(RefUpdate::Set { name, to: to.clone() }),
        };
        [self.names.branch(), self.names.checkpoint()].into_iter().filter_map(update).collect()
    }

    /// Refuses to continue if HEAD is not on the run's branch.
    fn check_head(&self, head: Option<&Head>) -> Result<()> {
        let short = self.names.short_branch();
        if head.and_then(Head::branch) == Some(self.names.branch().as_str()) {
            return Ok(());
        }
        let at = head.map_or_else(|| "nothing".to_owned(), Head::words);
        bail!(Problem::refused(format!("HEAD is on {at}, not on {short}")).hint(format!("git switch {short}")))
    }

    /// Refuses to continue if the branch has lost the last checkpoint. `hint` is an additional hint.
    async fn check_holds_checkpoint(&self, tip: &Oid, base: &Base, hint: Option<&str>) -> Result<()> {
        if *tip == base.checkpoint || self.repo.is_ancestor(&base.checkpoint, tip).await? {
            return Ok(());
        }
        let (short, checkpoint) = (self.names.short_branch(), base.checkpoint.short());
        let problem = Problem::refused(format!("{short} is at {}, which does not contain the last checkpoint {checkpoint}", tip.short()))
            .hint(format!("git reset --keep {checkpoint}   to go back to the checkpoint"));
        bail!(hint.into_iter().fold(problem, |problem, hint| problem.hint(hint)))
    }

    /// The parents of a commit that saves everything: the checkpoint, HEAD, the branch, and what is staged.
    fn rescue_parents<'a>(
        &self,
        tip: Option<&'a Oid>,
        head: Option<&'a Head>,
        staged: Option<&'a Oid>,
        checkpoint: &'a Oid,
    ) -> Vec<&'a Oid> {
        let mut parents = vec![checkpoint];
        for oid in [head.and_then(Head::oid), tip, staged].into_iter().flatten() {
            if !parents.contains(&oid) {
                parents.push(oid);
            }
        }
        parents
    }
}
