//! Begins a run: checks the preconditions without changing anything, then commits the initial state on a new branch.

use std::path::Path;

use anyhow::{Result, bail};

use super::Branch;
use crate::error::Problem;
use crate::git::{Head, Oid, RefList, RefUpdate, Repo, stale};
use crate::names::{BRANCHES, Names, REFS};
use crate::shell_word::quoted;
use crate::workspace::{FirstLook, Notice, Workspace, has_looked, under_way_problem};

/// Whether a run begins for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// It begins for the first time.
    Fresh,
    /// An earlier process died while it was beginning the run.
    Again,
}

/// A run that has begun.
#[derive(Debug)]
pub struct Begun {
    /// The commit "initial state".
    pub initial: Oid,
    /// The ref that saves the branch of an earlier run, with its tip.
    pub leftover: Option<(String, Oid)>,
    /// Messages for the user.
    pub notices: Vec<Notice>,
}

/// Refuses, without changing anything, if a run of this change cannot begin here.
///
/// # Errors
/// A [`Problem`] with the reason and a hint.
pub async fn preflight(repo: &Repo, names: &Names) -> Result<()> {
    let unmerged = repo.git.call(["ls-files", "-u", "-z"]).working();
    let (under_way, unmerged, refs, elsewhere) =
        tokio::join!(repo.under_way(), unmerged.output(), repo.refs(), repo.checked_out_elsewhere());
    if let Some(operation) = under_way? {
        bail!(under_way_problem(operation));
    }
    if !unmerged?.is_empty() {
        bail!(Problem::refused("the index has conflicts that are not resolved").hint("git status"));
    }
    let refs = refs?;
    if refs.get(BRANCHES.trim_end_matches('/')).is_some() {
        bail!(Problem::refused("a branch named 'ralph' is in the way of branches named 'ralph/…'").hint("git branch -m ralph ralph-old"));
    }
    let kept = names.prefix();
    for name in [REFS.trim_end_matches('/'), kept.trim_end_matches('/')] {
        if let Some(oid) = refs.get(name) {
            let problem = Problem::refused(format!("the ref '{name}' is in the way of refs below it, under which git-ralph saves work"));
            bail!(problem.hint(format!("git branch {} {} && git update-ref -d {name}", name.replace('/', "-"), oid.short())));
        }
    }
    let branch = names.branch();
    let below = format!("{branch}/");
    if let Some(entry) = refs.below(&below).next() {
        let short = entry.name.strip_prefix("refs/heads/").unwrap_or(&entry.name);
        bail!(Problem::refused(format!("the branch '{short}' is in the way of '{}'", names.short_branch())).hint(format!(
            "git branch -m {} {}",
            quoted(short),
            quoted(&short.replace('/', "-"))
        )));
    }
    if let Some((_, path)) = elsewhere?.into_iter().find(|(name, _)| *name == branch) {
        bail!(
            Problem::refused(format!("'{}' is checked out at {path}", names.short_branch()))
                .hint(format!("git -C {} switch --detach", quoted(&path)))
        );
    }
    if repo.place.head.branch() == Some(branch.as_str()) {
        bail!(
            Problem::refused(format!("'{}' is checked out here, but no run of it is open", names.short_branch()))
                .hint("git switch -   to return to the branch that you were on before")
        );
    }
    Ok(())
}

/// Refuses, having touched nothing, while another git process works on the index of this work tree: moving HEAD would make it fail.
///
/// # Errors
/// A [`Problem`] that says so.
pub fn check_index_is_free(repo: &Repo) -> Result<()> {
    let lock = repo.place.git_dir.join("index.lock");
    if stale::is_held(&lock) {
        let problem =
            Problem::refused(format!("another git process holds {}; it may be a git commit whose editor is open", lock.display()));
        bail!(problem.hint("git ralph start --isolate   to start now, in a private clone"));
    }
    Ok(())
}

/// Whether an interrupted start had changed anything. The ref of the initial state alone does not prove it: an earlier run keeps
/// that ref until the next start has moved it. Only after that does a start record the work tree.
#[must_use]
pub fn has_begun(refs: &RefList, names: &Names, run_dir: &Path) -> bool {
    refs.get(&names.initial()).is_some() && has_looked(run_dir)
}

impl Branch {
    /// Begins run number `run` from `original`. Until the ref transaction, nothing of the user's is changed.
    pub async fn begin(&self, workspace: &Workspace, original: &Head, run: u32, beginning: Beginning) -> Result<Begun> {
        let mut refs = self.repo.refs().await?;
        let begun_before = beginning == Beginning::Again && has_begun(&refs, &self.names, workspace.dir());
        let recorded = refs.get(&self.names.initial()).filter(|_| begun_before).cloned();
        let begun = match recorded {
            Some(initial) => {
                self.keep_later_stage(workspace, &initial, &refs).await?;
                self.keep_detached(&initial, original, &refs).await?;
                Begun { initial, leftover: None, notices: Vec::new() }
            }
            None => {
                if self.archive(&refs, run).await? {
                    refs = self.repo.refs().await?;
                }
                self.record_initial_state(workspace, original, run, &refs).await?
            }
        };
        workspace.enter(original, &begun.initial).await?;
        Ok(begun)
    }

    /// Saves what the user has staged since the interrupted start, because the index is about to be replaced by the initial
    /// state.
    async fn keep_later_stage(&self, workspace: &Workspace, initial: &Oid, refs: &RefList) -> Result<()> {
        let Some(staged) = workspace.staged(initial, initial).await? else { return Ok(()) };
        if let Some(known) = refs.get(&self.names.index())
            && self.repo.diff_trees(known, &staged).await?.is_empty()
        {
            return Ok(());
        }
        self.repo.update_refs(&[RefUpdate::Set { name: self.names.adopted(&staged), to: staged }], "git ralph start").await
    }

    /// Saves commits that the user has made on a detached HEAD since the interrupted start, because HEAD is about to move to the
    /// branch.
    async fn keep_detached(&self, initial: &Oid, original: &Head, refs: &RefList) -> Result<()> {
        let Head::Detached { oid } = self.repo.head(refs).await? else { return Ok(()) };
        if oid == *initial || Some(&oid) == original.oid() {
            return Ok(());
        }
        self.repo.update_refs(&[RefUpdate::Set { name: self.names.adopted(&oid), to: oid }], "git ralph start").await
    }

    async fn record_initial_state(&self, workspace: &Workspace, original: &Head, run: u32, refs: &RefList) -> Result<Begun> {
        let parents: Vec<&Oid> = original.oid().into_iter().collect();
        let FirstLook { tree, staged, notices } = workspace.first_look(original).await?;
        let initial = self.repo.commit(&tree, &parents, "initial state\n").await?;
        let leftover = self.create_refs(original.oid(), &staged, &initial, run, refs).await?;
        Ok(Begun { initial, leftover, notices })
    }

    pub(super) async fn create_refs(
        &self,
        base: Option<&Oid>,
        staged: &Oid,
        initial: &Oid,
        run: u32,
        refs: &RefList,
    ) -> Result<Option<(String, Oid)>> {
        let (branch, names) = (self.names.branch(), &self.names);
        let create = |name: String, to: &Oid| RefUpdate::Create { name, to: to.clone() };
        let mut updates = vec![create(names.index(), staged), create(names.initial(), initial), create(names.checkpoint(), initial)];
        updates.extend(base.map(|base| create(names.base(), base)));
        let leftover = refs.get(&branch).map(|tip| (names.leftover(run), tip.clone()));
        match &leftover {
            Some((name, tip)) => {
                updates.push(create(name.clone(), tip));
                updates.push(RefUpdate::Move { name: branch, to: initial.clone(), from: tip.clone() });
            }
            None => updates.push(create(branch, initial)),
        }
        self.repo.update_refs(&updates, &format!("git ralph start {}", names.short_branch())).await?;
        Ok(leftover)
    }

    /// Moves the refs of earlier runs of the change out of the way, so that they stay reachable. Returns whether there were any.
    pub(super) async fn archive(&self, refs: &RefList, run: u32) -> Result<bool> {
        let prefix = self.names.prefix();
        let mut updates = Vec::new();
        for entry in refs.below(&prefix) {
            if let Some(name) = self.names.archived(&entry.name, run - 1) {
                updates.push(RefUpdate::Set { name, to: entry.oid.clone() });
                updates.push(RefUpdate::Delete { name: entry.name.clone(), from: entry.oid.clone() });
            }
        }
        self.repo.update_refs(&updates, "git ralph start: earlier run").await?;
        Ok(!updates.is_empty())
    }
}
