//! Returns to the original branch: a cleanup brings the run's work along as uncommitted changes, an abort leaves it under a ref.

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{Result, bail};

use super::{Base, Branch};
use crate::error::Problem;
use crate::git::{Head, Merge, Oid, Reach, RefList, RefUpdate};
use crate::shell_word::quoted;
use crate::workspace::{Moment, Notice, Snapshot, SubmoduleRecord, Switch, Treatment, Workspace};

/// The suffix of our reflog messages. A repeated finish uses it to tell our move of HEAD from a `git switch` by the user.
const BY_US: &str = " (git ralph)";

/// The two ways to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Bring the run's work along as uncommitted changes.
    Cleanup,
    /// Restore the work tree and the index from before the start.
    Abort,
}

/// The result of returning to the original branch.
#[derive(Debug)]
pub struct LeaveResult {
    /// The ref that saves the run's last state.
    pub kept: String,
    /// The commit of the original branch, if that has moved since the start.
    pub moved_to: Option<Oid>,
    /// The tip of an earlier run's branch, if an abort has restored it.
    pub put_back: Option<Oid>,
    /// Notices about moved files.
    pub notices: Vec<Notice>,
}

/// The parameters of a return.
#[derive(Clone, Debug)]
pub struct Leaving<'a> {
    /// The way to return.
    pub route: Route,
    /// HEAD when the run started.
    pub original: &'a Head,
    /// The commit "initial state".
    pub initial: &'a Oid,
    /// The commits that the run is based on.
    pub base: &'a Base,
    /// Whether an earlier cleanup or abort was interrupted, so that HEAD may be on either branch.
    pub again: bool,
    /// The number of the run.
    pub run: u32,
}

/// Problems of the scan of the work tree.
#[derive(Debug, Default)]
pub struct WalkTrouble {
    /// git's messages about paths that it could not store.
    pub unkept: Option<String>,
    /// The reason why files were stored byte for byte, if they were.
    pub unconverted: Option<String>,
    /// The number of files that the user has edited since an interrupted return, and that conflict with the target tree.
    pub conflicting: usize,
    /// Nested repositories that are not in the records of the run.
    pub nested: Vec<PathBuf>,
}

/// A plan for the return. Nothing has been changed yet.
#[derive(Debug)]
pub enum LeavePlan {
    /// An earlier return was completed.
    Done,
    /// The return is still to be done.
    Go {
        /// The current tree of the work tree.
        here: Oid,
        /// The target tree of the work tree.
        target: Oid,
        /// The commit of the run's last state, to be saved.
        tip: Oid,
        /// The current HEAD.
        head: Option<Head>,
        /// The commit of the original branch, if that has moved since the start.
        moved_to: Option<Oid>,
        /// The current refs.
        refs: RefList,
        /// Problems of the scan.
        trouble: Box<WalkTrouble>,
    },
}

impl Branch {
    /// Plans the return without changing anything.
    ///
    /// # Errors
    /// A [`Problem`] if the original branch is gone, checked out elsewhere, or conflicts with the result.
    pub async fn plan_leaving(&self, workspace: &Workspace, leaving: &Leaving<'_>) -> Result<LeavePlan> {
        workspace.recover_switch().await?;
        let refs = self.repo.refs().await?;
        let kept = refs.get(&self.names.done());
        // The branch may exist again: an abort restores the branch of an earlier run.
        if leaving.again && kept.is_some() && (refs.get(&self.names.branch()).is_none() || !self.has_run_refs(&refs)) {
            return Ok(LeavePlan::Done);
        }
        let head = workspace.head_after_agent(&refs).await?;
        self.check_leaving(leaving, &refs, head.as_ref()).await?;
        let current = self.destination(leaving.original, &refs)?;
        let moved_to = current.filter(|current| Some(*current) != leaving.original.oid());
        if let Some(way) = self.fast_plan(workspace, leaving, &refs, head.as_ref(), moved_to).await? {
            return Ok(way);
        }
        // Checked before the scan, which writes file times into the private index.
        let staged = !workspace.index_is_ours();
        let here = workspace.snapshot(&leaving.base.checkpoint).await?;
        let recorded = kept.filter(|_| leaving.again);
        let tip = match recorded {
            Some(tip) => tip.clone(),
            None => self.last_state(workspace, &here, staged, &refs, head.as_ref(), leaving.base).await?,
        };
        let source = match leaving.route {
            Route::Cleanup => &tip,
            Route::Abort => leaving.initial,
        };
        let target = match moved_to {
            Some(current) => self.merged(current, source, leaving.original).await?,
            None => source.clone(),
        };
        let (target, tip, conflicting) = match recorded {
            Some(recorded) => {
                let (target, tip, conflicting) =
                    self.with_later_edits(workspace, &here.tree, recorded, &target, current, head.as_ref()).await?;
                let tip = self.with_later_stage(workspace, &here.tree, tip, current, &refs, staged).await?;
                (target, self.with_later_commits(tip, &refs, head.as_ref()).await?, conflicting)
            }
            None => (target, tip, 0),
        };
        let moved_to = moved_to.cloned();
        let Snapshot { tree, unkept, unopened, unconverted, nested, .. } = here;
        let unkept = unkept.or(unopened);
        let trouble = Box::new(WalkTrouble { unkept, unconverted, conflicting, nested });
        Ok(LeavePlan::Go { here: tree, target, tip, head, moved_to, refs, trouble })
    }

    /// Returns to the original branch. After a kill at any point, planning and leaving again gives the same result.
    ///
    /// # Errors
    /// If git fails. The run's last state is under a ref by then.
    pub async fn leave(&self, workspace: &Workspace, leaving: &Leaving<'_>, plan: LeavePlan) -> Result<LeaveResult> {
        let Leaving { route, original, run, .. } = *leaving;
        let kept = self.names.done();
        let mut notices = Vec::new();
        let LeavePlan::Go { here, target, tip, head, moved_to, refs, trouble } = plan else {
            return Ok(LeaveResult { kept, moved_to: None, put_back: None, notices });
        };
        self.repo.update_refs(&[RefUpdate::Set { name: kept.clone(), to: tip }], "git ralph finish").await?;
        let WalkTrouble { unkept, unconverted, conflicting, nested } = *trouble;
        if conflicting > 0 {
            notices.push(Notice::EditsTakenOut { files: conflicting, kept: kept.clone() });
        }
        notices.extend(unconverted.map(|error| Notice::Unconverted { error }));
        match unkept {
            Some(errors) if route == Route::Abort => workspace.move_unkept_aside(&errors, "finish", &mut notices).await?,
            other => notices.extend(other.map(|error| Notice::Unkept { error })),
        }
        let back = self.repo.diff_trees(&here, &target).await?;
        if !back.is_empty() {
            let reach = if route == Route::Abort { Reach::Everywhere } else { Reach::AsConfigured };
            let switch = Switch { from: &here, to: &target, changes: &back, reach, label: "finish" };
            workspace.switch(&switch, &mut notices).await?;
        }
        if route == Route::Cleanup {
            workspace.restore_raw_bytes(&back).await?;
            // Files that were not rewritten keep their permissions, which the user may have changed meanwhile.
            workspace.restore_modes_of(&back)?;
        } else {
            workspace.restore_beyond_trees(&back, Moment::Start, Moment::Start, "finish", &mut notices).await?;
            notices.extend(workspace.restore_submodules(SubmoduleRecord::Of(Moment::Start), &kept).await?);
            notices.extend(workspace.restore_nested(Treatment::BackTo(Moment::Start), "finish")?);
            notices.extend(workspace.nested_since_start(nested));
            notices.extend(workspace.restore_ignored(Treatment::BackTo(Moment::Start), "finish")?);
            notices.extend(workspace.changed_ignored_directories());
            if !notices.iter().any(|notice| matches!(notice, Notice::OutOfReach { .. })) {
                notices.extend(workspace.still_out_of_reach(&target, Vec::new()));
            }
        }
        notices.extend(workspace.clear_operations("finish")?);
        self.head_back(workspace, original, head.as_ref()).await?;
        self.index_back(workspace, moved_to.as_ref(), &target, &refs, &mut notices).await?;
        let put_back = match route {
            Route::Cleanup => self.drop_refs(&refs).await.map(|()| None)?,
            Route::Abort => self.drop_refs_of_aborted(&refs, run).await?,
        };
        Ok(LeaveResult { kept, moved_to, put_back, notices })
    }

    async fn check_leaving(&self, leaving: &Leaving<'_>, refs: &RefList, head: Option<&Head>) -> Result<()> {
        if !leaving.again {
            self.check_head(head)?;
        }
        if let Some(tip) = refs.get(&self.names.branch()) {
            self.check_holds_checkpoint(tip, leaving.base, None).await?;
        }
        let Some(original) = leaving.original.branch() else { return Ok(()) };
        if let Some((_, path)) = self.repo.checked_out_elsewhere().await?.into_iter().find(|(name, _)| name == original) {
            bail!(
                Problem::refused(format!("the original branch '{}' is checked out at {path}", leaving.original.words()))
                    .hint(format!("git -C {} switch --detach", quoted(&path)))
                    .hint("git ralph finish --keep   to stay on the run's branch")
            );
        }
        Ok(())
    }

    /// The current commit of the original branch.
    fn destination<'a>(&self, original: &'a Head, refs: &'a RefList) -> Result<Option<&'a Oid>> {
        match original {
            Head::Detached { oid } => Ok(Some(oid)),
            Head::Branch { name, oid } => match refs.get(name) {
                Some(current) => Ok(Some(current)),
                None => bail!(
                    Problem::refused(format!("the original branch '{}' no longer exists", original.words()))
                        .hint(format!("git branch {} {}   to recreate it", quoted(&original.words()), oid.short()))
                        .hint("git ralph finish --keep   to stay on the run's branch")
                ),
            },
            Head::Unborn { name } => match refs.get(name) {
                None => Ok(None),
                Some(_) => bail!(
                    Problem::refused(format!("the original branch '{}' had no commit at the start and has one now", original.words()))
                        .hint("git ralph finish --keep   to stay on the run's branch")
                ),
            },
        }
    }

    /// A commit of the entire state: the branch's tip, if there is nothing besides it.
    async fn last_state(
        &self,
        workspace: &Workspace,
        here: &Snapshot,
        staged: bool,
        refs: &RefList,
        head: Option<&Head>,
        base: &Base,
    ) -> Result<Oid> {
        let staged = if staged { workspace.staged(&here.tree, &base.checkpoint).await? } else { None };
        let parents = self.rescue_parents(refs.get(&self.names.branch()), head, staged.as_ref(), &base.checkpoint);
        if here.changes.is_empty() && parents.len() == 1 {
            return Ok(base.checkpoint.clone());
        }
        self.repo.commit(&here.tree, &parents, "last state of the run\n").await
    }

    /// Adds edits that the user made since an interrupted return to the target tree and to the run's last state. If they conflict
    /// with the target, they are only added to the last state. Returns the target, the last state and the number of conflicting
    /// files.
    async fn with_later_edits(
        &self,
        workspace: &Workspace,
        here: &Oid,
        recorded: &Oid,
        target: &Oid,
        current: Option<&Oid>,
        head: Option<&Head>,
    ) -> Result<(Oid, Oid, usize)> {
        let from_run: HashSet<PathBuf> = self.repo.diff_trees(recorded, here).await?.into_iter().map(|change| change.path).collect();
        let from_target = self.repo.diff_trees(target, here).await?;
        let edited = from_target.iter().filter(|change| from_run.contains(&change.path)).count();
        if edited == 0 {
            // Every file is either as the run left it or already as in the target.
            return Ok((target.clone(), recorded.clone(), 0));
        }
        let from_original = match current {
            Some(current) => self.repo.diff_trees(current, here).await?.len(),
            None => usize::MAX,
        };
        // The work tree stems from the run's last state, unless the user has switched to the original branch.
        let left = head.and_then(Head::branch) != Some(self.names.branch().as_str())
            && !workspace.repo.last_move_of_head().await?.ends_with(BY_US);
        let ancestor = current.filter(|_| left && from_original < from_run.len()).unwrap_or(recorded);
        let tip = self.repo.commit(&self.tree(here).await?, &[recorded], "edits since the finish was interrupted\n").await?;
        let common = self.repo.commit(&self.tree(ancestor).await?, &[], "common\n").await?;
        let ours = self.repo.commit(&self.tree(target).await?, &[&common], "target\n").await?;
        let theirs = self.repo.commit(&self.tree(here).await?, &[&common], "here\n").await?;
        match self.repo.merge(&ours, &theirs).await? {
            Merge::Clean(tree) => Ok((tree, tip, 0)),
            Merge::Conflict(_) => Ok((target.clone(), tip, edited)),
        }
    }

    /// Adds what the user has staged since an interrupted return to the run's last state.
    async fn with_later_stage(
        &self,
        workspace: &Workspace,
        here: &Oid,
        tip: Oid,
        current: Option<&Oid>,
        refs: &RefList,
        staged: bool,
    ) -> Result<Oid> {
        let Some(staged) = (if staged { workspace.staged(here, &tip).await? } else { None }) else { return Ok(tip) };
        // The interrupted return may itself have installed this index: that of the start, or that of the moved original branch.
        for known in [refs.get(&self.names.index()), current].into_iter().flatten() {
            if self.repo.diff_trees(known, &staged).await?.is_empty() {
                return Ok(tip);
            }
        }
        self.repo.commit(&self.tree(&tip).await?, &[&tip, &staged], "last state of the run\n").await
    }

    /// Adds commits that the user made on the run's branch or on a detached HEAD since an interrupted return to the run's last
    /// state, because HEAD is about to leave them and the branch is about to be deleted.
    async fn with_later_commits(&self, tip: Oid, refs: &RefList, head: Option<&Head>) -> Result<Oid> {
        let detached = head.filter(|head| head.branch().is_none()).and_then(Head::oid);
        let left: Vec<Oid> = refs.get(&self.names.branch()).into_iter().chain(detached).cloned().collect();
        let loose = self.repo.loose_commits(left, &[&tip]).await?;
        if loose.is_empty() {
            return Ok(tip);
        }
        let parents: Vec<&Oid> = [&tip].into_iter().chain(&loose).collect();
        self.repo.commit(&self.tree(&tip).await?, &parents, "last state of the run\n").await
    }

    async fn tree(&self, treeish: &Oid) -> Result<Oid> {
        self.repo.tree_of(treeish).await
    }

    pub(super) async fn merged(&self, current: &Oid, source: &Oid, original: &Head) -> Result<Oid> {
        match self.repo.merge(current, source).await? {
            Merge::Clean(tree) => Ok(tree),
            Merge::Conflict(paths) => {
                let list: Vec<String> = paths.iter().map(|path| format!("\n\t{}", path.display())).collect();
                let short = self.names.short_branch();
                bail!(
                    Problem::refused(format!(
                        "'{}' has moved and conflicts with the result of the run in:{}",
                        original.words(),
                        list.concat()
                    ))
                    .hint(format!("git merge {}   on {short} to resolve it there, then finish again", quoted(&original.words())))
                    .hint("git ralph finish --keep   to stay on the run's branch")
                )
            }
        }
    }

    async fn head_back(&self, workspace: &Workspace, original: &Head, head: Option<&Head>) -> Result<()> {
        if head.and_then(Head::branch) != Some(self.names.branch().as_str()) && head.map(Head::words) == Some(original.words()) {
            return Ok(());
        }
        let reason = format!("checkout: moving from {} to {}{BY_US}", self.names.short_branch(), original.words());
        match original {
            Head::Branch { name, .. } | Head::Unborn { name } => workspace.repo.attach_head(name, &reason).await,
            Head::Detached { oid } => workspace.repo.detach_head(oid, &reason).await,
        }
    }

    /// Restores the user's index from before the start. If the original branch has moved, merges what was staged with its new
    /// commit.
    async fn index_back(
        &self,
        workspace: &Workspace,
        moved_to: Option<&Oid>,
        here: &Oid,
        refs: &RefList,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        let Some(current) = moved_to else {
            return self.original_index_back(workspace, here, refs, notices).await;
        };
        let tree = match refs.get(&self.names.index()) {
            Some(staged) => match self.repo.merge(current, staged).await? {
                Merge::Clean(tree) => tree,
                Merge::Conflict(_) => {
                    notices.push(Notice::NotStagedAgain { kept: self.names.index() });
                    current.clone()
                }
            },
            None => current.clone(),
        };
        // Setting the few entries that differ is faster than reading an entire tree into the index.
        let changes = self.repo.diff_trees(here, &tree).await?;
        workspace.index_repo().set_entries(&workspace.private_index(), &changes).await?;
        workspace.install_index(&workspace.private_index()).await
    }

    /// Deletes the branch and the refs that only an open run needs, in one transaction. Refs that save work stay.
    pub(super) async fn drop_refs(&self, refs: &RefList) -> Result<()> {
        let name = self.names.branch();
        let branch = refs.get(&name).map(|tip| RefUpdate::Delete { name, from: tip.clone() });
        let updates: Vec<RefUpdate> = branch.into_iter().chain(self.internal_refs(refs)).collect();
        self.repo.update_refs(&updates, "git ralph finish").await
    }

    /// The same, but restores a branch of this name that existed before the run, and returns its tip. A repeated abort has
    /// nothing to do.
    pub(super) async fn drop_refs_of_aborted(&self, refs: &RefList, run: u32) -> Result<Option<Oid>> {
        if !self.has_run_refs(refs) {
            return Ok(None);
        }
        let leftover = self.names.leftover(run);
        let Some(old) = refs.get(&leftover).cloned() else { return self.drop_refs(refs).await.map(|()| None) };
        let name = self.names.branch();
        let branch = match refs.get(&name) {
            Some(tip) => RefUpdate::Move { name, to: old.clone(), from: tip.clone() },
            None => RefUpdate::Create { name, to: old.clone() },
        };
        let moved = RefUpdate::Delete { name: leftover, from: old.clone() };
        let updates: Vec<RefUpdate> = [branch, moved].into_iter().chain(self.internal_refs(refs)).collect();
        self.repo.update_refs(&updates, "git ralph abort").await?;
        Ok(Some(old))
    }

    fn internal_refs(&self, refs: &RefList) -> Vec<RefUpdate> {
        let is_internal = |name: &str| self.names.kind(name).is_some_and(|own| own.run.is_none() && own.kind.is_internal());
        let prefix = self.names.prefix();
        let own = refs.below(&prefix).filter(|entry| is_internal(&entry.name));
        own.map(|entry| RefUpdate::Delete { name: entry.name.clone(), from: entry.oid.clone() }).collect()
    }

    /// Whether refs exist that only an open run has. They are deleted in one transaction with its branch.
    fn has_run_refs(&self, refs: &RefList) -> bool {
        [self.names.initial(), self.names.checkpoint()].iter().any(|name| refs.get(name).is_some())
    }
}
