//! Begins runs in private clones, and saves the work of an attempt, either for the landing queue or for the user.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::begin::Beginning;
use super::land::{Staged, TURNED_SPARSE};
use super::{Begun, Branch, Gathered, RolledBack, Style, has_begun};
use crate::config::EmptyDiff;
use crate::error::Problem;
use crate::free_name::free_name;
use crate::git::{Head, Merge, Oid, PathChange, RefList, RefUpdate};
use crate::names::attempt_label;
use crate::shell_word::quoted;
use crate::story::StoryId;
use crate::workspace::{AgentsCommits, Notice, Origin, Snapshot, Workspace};

/// The result of saving an accepted attempt.
#[derive(Debug)]
pub enum Saved {
    /// The work is in a commit under a ref of the landing queue.
    Queued {
        /// The commit. Its parents are the commit that the attempt began from, and the agent's own last commit.
        commit: Oid,
        /// What it changes.
        changes: Vec<PathChange>,
        /// Whether it changes nothing.
        empty: bool,
        /// Notices about moved or omitted files.
        notices: Vec<Notice>,
    },
    /// The work cannot land; the attempt has failed for this reason.
    Impossible(String),
}

/// An attempt in a private clone.
#[derive(Clone, Copy, Debug)]
pub struct CloneAttempt<'a> {
    /// The clone.
    pub(crate) workspace: &'a Workspace,
    /// The repository that the clone was made from.
    pub(crate) origin: &'a Origin,
    /// The story.
    pub story: &'a StoryId,
    /// The number of the attempt.
    pub attempt: u32,
    /// The commit that it began from.
    pub base: &'a Oid,
}

/// A story that the user did by hand in the checkout of an isolated run.
#[derive(Clone, Copy, Debug)]
pub struct ByHand<'a> {
    /// The story.
    pub story: &'a StoryId,
    /// The number of the attempt that the user's edits count as.
    pub attempt: u32,
    /// A commit of the checkout's content before the edits.
    pub since: &'a Oid,
    /// The last checkpoint.
    pub tip: &'a Oid,
}

/// The user's edits, saved as commits.
#[derive(Debug)]
pub struct SavedEdits {
    /// The commit of the edits on top of the last checkpoint.
    pub commit: Oid,
    /// A commit of the checkout's entire content.
    pub checkout: Oid,
    /// Whether the edits change nothing.
    pub empty: bool,
}

impl Branch {
    /// Begins isolated run number `run`. The user's checkout is not changed.
    pub async fn begin_isolated(&self, checkout: &Workspace, original: &Head, run: u32, beginning: Beginning) -> Result<Begun> {
        let mut refs = self.repo.refs().await?;
        let begun_before = beginning == Beginning::Again && has_begun(&refs, &self.names, checkout.dir());
        if let Some(initial) = refs.get(&self.names.initial()).filter(|_| begun_before).cloned() {
            return Ok(Begun { initial, leftover: None, notices: Vec::new() });
        }
        if self.archive(&refs, run).await? {
            refs = self.repo.refs().await?;
        }
        let parents: Vec<&Oid> = original.oid().into_iter().collect();
        let (tree, staged) = checkout.look_only(&parents).await?;
        let initial = self.repo.commit(&tree, &parents, "initial state\n").await?;
        let leftover = self.create_refs(original.oid(), &staged, &initial, run, &refs).await?;
        Ok(Begun { initial, leftover, notices: Vec::new() })
    }

    /// Before the gates: if the agent ended on another line of history, merges its work with the commit that the attempt began
    /// from, as a landing would.
    pub async fn gather_in_clone(&self, attempt: CloneAttempt<'_>) -> Result<Gathered> {
        let CloneAttempt { workspace, base, .. } = attempt;
        if !workspace.is_there() {
            return Ok(Gathered::Impossible("the agent has deleted or replaced the directory that it worked in".to_owned()));
        }
        if workspace.turned_sparse().await? {
            return Ok(Gathered::Impossible(TURNED_SPARSE.to_owned()));
        }
        let commits = self.commits_of(attempt).await?;
        let Some(head) = commits.head else { return Ok(Gathered::Whole) };
        if self.repo.is_ancestor(base, &head).await? {
            return Ok(Gathered::Whole);
        }
        let label = attempt_label(attempt.story, attempt.attempt);
        let mut notices = Vec::new();
        let snapshot = workspace.snapshot_of_work(base, &label, &mut notices).await?;
        let work = self.repo.commit(&snapshot.tree, &[&head], "work on another line of history\n").await?;
        match self.all_together(base, commits.branch.as_ref(), &work).await? {
            Ok(tree) => {
                workspace.turn_into(&snapshot.tree, &tree, &mut notices).await?;
                Ok(Gathered::Brought(Notice::BroughtOver { from: head.short().to_owned() }))
            }
            Err(paths) => {
                let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                Ok(Gathered::Impossible(format!(
                    "the agent worked on {}, which conflicts with the last checkpoint in {}",
                    head.short(),
                    paths.join(", ")
                )))
            }
        }
    }

    /// The agent's commits in the clone. Its work in submodules is saved first.
    async fn commits_of(&self, attempt: CloneAttempt<'_>) -> Result<AgentsCommits> {
        let label = attempt_label(attempt.story, attempt.attempt);
        attempt.workspace.save_submodules(attempt.origin, attempt.base, &label).await?;
        let added = attempt.workspace.save_added_submodules(attempt.origin, attempt.base).await?;
        let mut commits = attempt.origin.agents_commits(&attempt.workspace.repo.place.top, attempt.base, attempt.workspace.dir()).await?;
        commits.all.extend(added);
        Ok(commits)
    }

    /// The agent's commit that the work in the clone is based on, if the agent made one.
    pub async fn committed_in_clone(&self, attempt: CloneAttempt<'_>) -> Result<Option<Oid>> {
        let head = self.commits_of(attempt).await?.head;
        self.above(attempt.base, head.as_ref()).await
    }

    /// Saves the work of an accepted attempt under a ref of the landing queue. Repeating it is harmless.
    pub async fn queue(&self, attempt: CloneAttempt<'_>, style: &Style) -> Result<Saved> {
        let CloneAttempt { story, base, .. } = attempt;
        let label = attempt_label(story, attempt.attempt);
        let mut notices = Vec::new();
        let commits = self.commits_of(attempt).await?;
        let committed = self.above(base, commits.head.as_ref()).await?;
        let snapshot = attempt.workspace.snapshot_above(committed.as_ref(), base, &label, &mut notices).await?;
        if let Some(trouble) = snapshot.trouble() {
            return Ok(Saved::Impossible(format!("git could not add every file: {trouble}")));
        }
        let empty = !snapshot.changes.iter().any(|change| Some(&change.path) != style.marked.as_ref());
        if empty && style.on_empty == EmptyDiff::Fail {
            return Ok(Saved::Impossible("the agent said that it is done, but nothing has changed".to_owned()));
        }
        self.set_nested_aside(attempt, &snapshot, &label, &mut notices)?;
        let staged = self.staged_in_clone(&commits, &snapshot, base).await?;
        let parents: Vec<&Oid> = [base].into_iter().chain(&commits.head).collect();
        let commit = self.repo.commit(&snapshot.tree, &parents, &self.names.rescue_message(story, attempt.attempt)).await?;
        let mut updates = vec![RefUpdate::Set { name: self.names.queued(story, attempt.attempt), to: commit.clone() }];
        let kept: Vec<&Oid> = parents.iter().copied().chain([&commit]).collect();
        let refs = self.repo.refs().await?;
        let (abandoned, notice) = self.keep_abandoned(commits.all, staged, &kept, &refs, story, attempt.attempt).await?;
        updates.extend(abandoned);
        notices.extend(notice);
        self.repo.update_refs(&updates, &format!("git ralph: {story} queued")).await?;
        Ok(Saved::Queued { commit, changes: snapshot.changes, empty, notices })
    }

    /// Saves the user's edits in the checkout under a ref of the landing queue, for a story that the user did by hand. `since` is
    /// the checkout's content before the edits, which are put on top of `tip`. Repeating it is harmless.
    ///
    /// # Errors
    /// A [`Problem`] if a git operation is under way in the checkout, the checkout is on another branch than at the start, or the edits
    /// conflict with landed work. Nothing has been changed then.
    pub async fn queue_checkout(&self, checkout: &Workspace, original: &Head, edits: ByHand<'_>) -> Result<SavedEdits> {
        let ByHand { story, attempt, since, tip } = edits;
        self.check_free(checkout, original).await?;
        let (tree, landed) = (checkout.current_tree().await?, self.repo.tree_of(tip).await?);
        let merged = match self.merge_trees(&self.repo.tree_of(since).await?, &landed, &tree).await? {
            Merge::Clean(merged) => merged,
            Merge::Conflict(paths) => bail!(self.conflict_by_hand(story, &paths)),
        };
        let held = self.repo.commit(&tree, &[since], &self.names.rescue_message(story, attempt)).await?;
        let commit = self.repo.commit(&merged, &[tip], &self.names.rescue_message(story, attempt)).await?;
        let updates = [
            RefUpdate::Set { name: self.names.queued(story, attempt), to: commit.clone() },
            RefUpdate::Set { name: self.names.by_hand(), to: held.clone() },
        ];
        self.repo.update_refs(&updates, &format!("git ralph: {story} queued")).await?;
        Ok(SavedEdits { commit, checkout: held, empty: merged == landed })
    }

    fn conflict_by_hand(&self, story: &StoryId, paths: &[PathBuf]) -> Problem {
        let list: Vec<String> = paths.iter().map(|path| format!("\n\t{}", path.display())).collect();
        let words: Vec<String> = paths.iter().map(|path| quoted(&path.display().to_string())).collect();
        let (short, change) = (self.names.short_branch(), self.names.change());
        Problem::refused(format!("your edits for '{story}' conflict with landed stories in:{}", list.concat()))
            .hint(format!("git diff {short} -- {}   to see what differs", words.join(" ")))
            .hint(format!("git ralph finish --keep {change}   and git merge {short}, to resolve the conflicts yourself"))
    }

    /// Saves the work of a failed attempt under a ref. The clone is cleaned when it is used again. Repeating it is harmless.
    pub async fn save_failed(&self, attempt: CloneAttempt<'_>) -> Result<RolledBack> {
        let CloneAttempt { story, base, .. } = attempt;
        let label = attempt_label(story, attempt.attempt);
        let mut notices = Vec::new();
        let commits = self.commits_of(attempt).await?;
        let snapshot = attempt.workspace.snapshot_of_work(base, &label, &mut notices).await?;
        self.set_nested_aside(attempt, &snapshot, &label, &mut notices)?;
        notices.extend(attempt.workspace.move_added_aside(attempt.origin, base, &label).await?);
        let staged = self.staged_in_clone(&commits, &snapshot, base).await?.map(|staged| staged.commit);
        let mut loose = self.repo.loose_commits(commits.all, &[base]).await?;
        loose.extend(staged);
        let parents: Vec<&Oid> = [base].into_iter().chain(&loose).collect();
        let commit = self.repo.commit(&snapshot.tree, &parents, &self.names.rescue_message(story, attempt.attempt)).await?;
        let rescue = self.free_attempt_name(story, attempt.attempt).await?;
        let updates = [RefUpdate::Create { name: rescue.clone(), to: commit }];
        self.repo.update_refs(&updates, &format!("git ralph: attempt {} of {story} failed", attempt.attempt)).await?;
        Ok(RolledBack { rescue, files: snapshot.changes.len(), notices })
    }

    /// What the agent has staged in its clone, if that differs from the files.
    async fn staged_in_clone(&self, commits: &AgentsCommits, snapshot: &Snapshot, base: &Oid) -> Result<Option<Staged>> {
        let Some(tree) = commits.staged.as_ref().filter(|tree| **tree != snapshot.tree) else { return Ok(None) };
        let commit = self.repo.commit(tree, &[base], "what was staged\n").await?;
        let beside = self.repo.diff_trees(&snapshot.tree, tree).await?;
        Ok(Some(Staged { commit, is_missing: beside.iter().any(|change| change.old_mode == 0) }))
    }

    /// Saves the content and the commits of a clone that this process does not know, if they differ from what git-ralph left
    /// there: a user may have worked in it.
    pub(crate) async fn save_unknown(
        &self,
        workspace: &Workspace,
        origin: &Origin,
        base: &Oid,
        slot: u32,
        refs: &RefList,
    ) -> Result<Option<Notice>> {
        if !workspace.is_strange() {
            return Ok(None);
        }
        let left = workspace.last_tree();
        let snapshot = workspace.snapshot_of_work(base, "unknown", &mut Vec::new()).await?;
        if workspace.is_explained(&snapshot.tree, left.as_ref()).await? {
            return Ok(None);
        }
        let commits = origin.agents_commits(&workspace.repo.place.top, base, workspace.dir()).await?;
        let staged = self.staged_in_clone(&commits, &snapshot, base).await?.map(|staged| staged.commit);
        let kept: Vec<&Oid> = refs.iter().map(|entry| &entry.oid).filter(|oid| *oid != base).chain([base]).collect();
        let mut loose = self.repo.loose_commits(commits.all.into_iter().chain(commits.head).collect(), &kept).await?;
        loose.extend(staged);
        let parents: Vec<&Oid> = [base].into_iter().chain(&loose).collect();
        let commit = self.repo.commit(&snapshot.tree, &parents, "edits in a workspace\n").await?;
        let wanted = self.names.workspace_edits(slot);
        let name = free_name(wanted.clone(), |number| format!("{wanted}.{number}"), |name| refs.get(name).is_some());
        self.repo.update_refs(&[RefUpdate::Create { name: name.clone(), to: commit }], "git ralph").await?;
        Ok(Some(Notice::WorkspaceSaved { path: workspace.repo.place.top.display().to_string(), kept: name }))
    }

    /// An unused ref name for the work of an attempt. An interrupted process may have used the first one already.
    pub(super) async fn free_attempt_name(&self, story: &StoryId, attempt: u32) -> Result<String> {
        let (refs, wanted) = (self.repo.refs().await?, self.names.attempt(story, attempt));
        Ok(free_name(wanted.clone(), |number| format!("{wanted}.{number}"), |name| refs.get(name).is_some()))
    }

    /// Moves repositories that the agent created inside of its clone into the run's directory, because they cannot be committed.
    fn set_nested_aside(&self, attempt: CloneAttempt<'_>, snapshot: &Snapshot, label: &str, notices: &mut Vec<Notice>) -> Result<()> {
        let workspace = attempt.workspace;
        for path in &snapshot.nested {
            let to = workspace.move_aside(path, label)?;
            notices.push(Notice::NestedMoved { path: path.display().to_string(), to: to.display().to_string() });
        }
        Ok(())
    }
}
