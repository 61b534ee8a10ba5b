//! Ends an isolated run: merges its result into the user's checkout, including uncommitted changes there, or leaves it under a
//! ref.

use anyhow::{Result, bail};

use super::Branch;
use crate::error::Problem;
use crate::free_name::free_name;
use crate::git::{Head, Merge, Oid, Reach, RefUpdate};
use crate::shell_word::quoted;
use crate::workspace::{Notice, Switch, Workspace, under_way_problem};

/// A conflict-free merge of the run's result into the checkout, before any file is changed.
#[derive(Debug)]
pub struct CheckoutMerge {
    /// The current tree of the checkout.
    from: Oid,
    /// The merged tree.
    to: Oid,
}

impl Branch {
    /// Merges the run's result with the current state of the checkout. `since` is the merge base: the initial state, or the state
    /// of the checkout when a story was last done by hand.
    ///
    /// # Errors
    /// A [`Problem`] if the checkout is not on the original branch, or the merge has conflicts. No file has been changed then.
    pub async fn plan_checkout_merge(&self, checkout: &Workspace, original: &Head, since: &Oid, result: &Oid) -> Result<CheckoutMerge> {
        self.check_free(checkout, original).await?;
        checkout.recover_switch().await?;
        let here = checkout.current_tree().await?;
        let (before, landed) = (self.repo.tree_of(since).await?, self.repo.tree_of(result).await?);
        match self.merge_trees(&before, &here, &landed).await? {
            Merge::Clean(tree) => Ok(CheckoutMerge { from: here, to: tree }),
            Merge::Conflict(paths) => {
                let list: Vec<String> = paths.iter().map(|path| format!("\n\t{}", path.display())).collect();
                let words: Vec<String> = paths.iter().map(|path| quoted(&path.display().to_string())).collect();
                let (short, change, start, words) = (self.names.short_branch(), self.names.change(), since.short(), words.join(" "));
                bail!(
                    Problem::refused(format!("your checkout conflicts with the result of the run in:{}", list.concat()))
                        .hint(format!("git diff {start} -- {words}   to see your edits since the start of the run"))
                        .hint(format!("git restore --source={start} -- {words}   to discard those edits, then finish again"))
                        .hint(format!("git ralph finish --keep {change}   and git merge {short}, to resolve the conflicts yourself"))
                        .hint(
                            "git stash -u                      to put your uncommitted changes and untracked files aside, then finish again"
                        )
                )
            }
        }
    }

    /// Merges two trees with a third as the merge base.
    pub(super) async fn merge_trees(&self, base: &Oid, ours: &Oid, theirs: &Oid) -> Result<Merge> {
        let base = self.repo.commit(base, &[], "before\n").await?;
        let ours = self.repo.commit(ours, &[&base], "one side\n").await?;
        let theirs = self.repo.commit(theirs, &[&base], "the other side\n").await?;
        self.repo.merge(&ours, &theirs).await
    }

    /// Refuses a checkout with a git operation under way, or on another branch than at the start.
    pub(super) async fn check_free(&self, checkout: &Workspace, original: &Head) -> Result<()> {
        if let Some(operation) = checkout.repo.under_way().await? {
            bail!(under_way_problem(operation));
        }
        let refs = self.repo.refs().await?;
        let head = checkout.repo.head(&refs).await?;
        self.check_on_original(original, &head, refs.get(original.branch().unwrap_or_default()).is_some())
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
                    .hint(format!("git branch {} {} && git switch {0}   to recreate it", quoted(&was), oid.short()))
                    .hint(keep)
            );
        }
        let back = match original {
            Head::Detached { oid } => format!("git switch --detach {}", oid.short()),
            Head::Branch { .. } | Head::Unborn { .. } => format!("git switch {}", quoted(&was)),
        };
        bail!(Problem::refused(format!("this checkout is on {}, and the run was started on {was}", head.words())).hint(back).hint(keep))
    }

    /// Writes the merged files into the checkout. Its index is left alone, so staged changes stay staged.
    ///
    /// # Errors
    /// If git fails. The files of the checkout are then still there or named in a notice.
    pub async fn apply_checkout_merge(&self, checkout: &Workspace, plan: &CheckoutMerge) -> Result<Vec<Notice>> {
        let mut notices = Vec::new();
        let changes = self.repo.diff_trees(&plan.from, &plan.to).await?;
        let switch = Switch { from: &plan.from, to: &plan.to, changes: &changes, reach: Reach::AsConfigured, label: "finish" };
        checkout.switch(&switch, &mut notices).await?;
        notices.extend(checkout.stage_submodules(&changes).await?);
        Ok(notices)
    }

    /// Saves the run's last state under a ref.
    pub async fn keep_result(&self, result: &Oid) -> Result<String> {
        let kept = self.names.done();
        self.repo.update_refs(&[RefUpdate::Set { name: kept.clone(), to: result.clone() }], "git ralph finish").await?;
        Ok(kept)
    }

    /// Saves commits on the branch of an isolated run that are not part of `result`, before the branch is moved or deleted. The
    /// user may have made them at any time.
    pub async fn keep_tip(&self, result: &Oid) -> Result<Option<Notice>> {
        let refs = self.repo.refs().await?;
        let Some(tip) = refs.get(&self.names.branch()).filter(|tip| *tip != result) else { return Ok(None) };
        if self.repo.is_ancestor(tip, result).await? {
            return Ok(None);
        }
        let wanted = self.names.moved_branch();
        let is_taken = |name: &String| refs.get(name).is_some_and(|oid| oid != tip);
        let kept = free_name(wanted.clone(), |number| format!("{wanted}.{number}"), is_taken);
        self.repo.update_refs(&[RefUpdate::Set { name: kept.clone(), to: tip.clone() }], "git ralph").await?;
        Ok(Some(Notice::CommitsKept { kept }))
    }

    /// Deletes the branch and the refs that only an open run needs.
    pub async fn drop_run_refs(&self) -> Result<()> {
        let refs = self.repo.refs().await?;
        self.drop_refs(&refs).await
    }

    /// The same after an abort of run number `run`. A branch of this name that existed before the run is restored; its tip is
    /// returned.
    pub async fn drop_aborted_refs(&self, run: u32) -> Result<Option<Oid>> {
        let refs = self.repo.refs().await?;
        self.drop_refs_of_aborted(&refs, run).await
    }
}
