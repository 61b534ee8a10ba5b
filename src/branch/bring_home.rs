//! The end of an isolated run: its result is merged into the user's checkout, whatever is uncommitted there, or is left under a ref.

use anyhow::{Result, bail};

use super::Branch;
use crate::error::Problem;
use crate::git::{Head, Merge, Oid, Reach, RefUpdate};
use crate::shell_word::quoted;
use crate::workspace::{Notice, Switch, Workspace, under_way_problem};

/// A merge of the run's result into the checkout that is known to be free of conflicts: nothing has been touched yet.
#[derive(Debug)]
pub struct HomePlan {
    /// What the checkout holds.
    from: Oid,
    /// What it will hold.
    to: Oid,
}

impl Branch {
    /// Merges what the run did since its initial state with what the checkout holds now.
    ///
    /// # Errors
    /// A [`Problem`] if the checkout is not on the original branch, or the merge has conflicts; then nothing has been touched.
    pub async fn plan_home(&self, checkout: &Workspace, original: &Head, initial: &Oid, result: &Oid) -> Result<HomePlan> {
        if let Some(operation) = checkout.repo.under_way().await? {
            bail!(under_way_problem(operation));
        }
        let refs = self.repo.refs().await?;
        let head = checkout.repo.head(&refs).await?;
        self.check_on_original(original, &head, refs.get(original.branch().unwrap_or_default()).is_some())?;
        checkout.recover_switch().await?;
        let here = checkout.current_tree().await?;
        let base = self.repo.commit(&self.repo.tree_of(initial).await?, &[], "initial state\n").await?;
        let ours = self.repo.commit(&here, &[&base], "the checkout\n").await?;
        let theirs = self.repo.commit(&self.repo.tree_of(result).await?, &[&base], "the run\n").await?;
        match self.repo.merge(&ours, &theirs).await? {
            Merge::Clean(tree) => Ok(HomePlan { from: here, to: tree }),
            Merge::Conflict(paths) => {
                let list: Vec<String> = paths.iter().map(|path| format!("\n\t{}", path.display())).collect();
                let (short, change) = (self.names.short_branch(), self.names.change());
                bail!(
                    Problem::refused(format!("what is in your checkout conflicts with the run in:{}", list.concat()))
                        .hint(format!("git ralph finish --keep {change}   and git merge {short}, to resolve the conflicts yourself"))
                        .hint("git stash                         to put your uncommitted changes aside, then finish again")
                )
            }
        }
    }

    fn check_on_original(&self, original: &Head, head: &Head, exists: bool) -> Result<()> {
        let is_there = match (original, head) {
            (Head::Detached { .. }, Head::Detached { .. }) => true,
            (Head::Branch { name, .. } | Head::Unborn { name }, Head::Branch { name: now, .. } | Head::Unborn { name: now }) => name == now,
            _ => false,
        };
        if is_there {
            return Ok(());
        }
        let (was, change) = (original.words(), self.names.change());
        let keep = format!("git ralph finish --keep {change}   to leave the result on {}", self.names.short_branch());
        if let (Head::Branch { oid, .. }, false) = (original, exists) {
            bail!(
                Problem::refused(format!("the original branch '{was}' no longer exists"))
                    .hint(format!("git branch {} {} && git switch {0}   to bring it back where it was", quoted(&was), oid.short()))
                    .hint(keep)
            );
        }
        let back = match original {
            Head::Detached { oid } => format!("git switch --detach {}", oid.short()),
            Head::Branch { .. } | Head::Unborn { .. } => format!("git switch {}", quoted(&was)),
        };
        bail!(Problem::refused(format!("this checkout is on {}, and the run was started on {was}", head.words())).hint(back).hint(keep))
    }

    /// Writes the merged files into the checkout. Its index stays as it is, so what is staged stays staged.
    ///
    /// # Errors
    /// If git fails; what was in the checkout is still there or named in a notice.
    pub async fn bring_home(&self, checkout: &Workspace, plan: &HomePlan) -> Result<Vec<Notice>> {
        let mut notices = Vec::new();
        let changes = self.repo.diff_trees(&plan.from, &plan.to).await?;
        let switch = Switch { from: &plan.from, to: &plan.to, changes: &changes, reach: Reach::AsConfigured, label: "finish" };
        checkout.switch(&switch, &mut notices).await?;
        notices.extend(checkout.stage_submodules(&changes).await?);
        Ok(notices)
    }

    /// Keeps the run's last state under a ref.
    ///
    /// # Errors
    /// If git fails.
    pub async fn keep_result(&self, result: &Oid) -> Result<String> {
        let kept = self.names.done();
        self.repo.update_refs(&[RefUpdate::Set { name: kept.clone(), to: result.clone() }], "git ralph finish").await?;
        Ok(kept)
    }

    /// Deletes the branch and the refs that only an open run needs.
    ///
    /// # Errors
    /// If git fails.
    pub async fn drop_run_refs(&self) -> Result<()> {
        let refs = self.repo.refs().await?;
        self.drop_refs(&refs).await
    }
}
