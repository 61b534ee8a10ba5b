//! Landing: everything in the work tree becomes a checkpoint on the branch, above the agent's own commits.

use std::path::PathBuf;

use anyhow::Result;

use super::gather::{Lines, words};
use super::{Base, Branch};
use crate::config::EmptyDiff;
use crate::free_name::free_name;
use crate::git::{Head, Oid, PathChange, RefList, RefUpdate, Signature};
use crate::names::attempt_label;
use crate::story::{Story, StoryId};
use crate::workspace::{Aftermath, AttemptEnd, Notice, Snapshot, Workspace};

/// What came of landing.
#[derive(Debug)]
pub enum Landed {
    /// The checkpoint, and what was put right or left out on the way.
    Checkpoint {
        /// Its id.
        commit: Oid,
        /// What it changed.
        changes: Vec<PathChange>,
        /// Whether that is nothing, but for the marks of its story.
        empty: bool,
        /// What was put right or left out.
        notices: Vec<Notice>,
    },
    /// It cannot be a checkpoint; the attempt has failed for this reason.
    Impossible(String),
}

/// What a checkpoint looks like, and when there is none.
#[derive(Clone, Debug)]
pub struct Style {
    /// Its message.
    pub message: String,
    /// Whether it is signed.
    pub signature: Signature,
    /// What an attempt that has changed nothing comes to.
    pub on_empty: EmptyDiff,
    /// A file in which nothing has changed but the marks of the story: that is no work of the agent's.
    pub marked: Option<PathBuf>,
}

impl Branch {
    /// Lands an attempt whose gates have passed. Doing it twice is harmless.
    ///
    /// # Errors
    /// If git fails.
    pub async fn land(&self, workspace: &Workspace, story: &Story, attempt: u32, base: &Base, style: &Style) -> Result<Landed> {
        // Before the walk: it writes times into our own index.
        let stage_is_ours = workspace.index_is_ours();
        let Aftermath { refs, looked, head, tip, walked, untouched, mut notices } = workspace.aftermath(&base.checkpoint).await?;
        let label = attempt_label(&story.id, attempt);
        if let Some(commit) = self.already_landed(story, attempt, base, &refs).await? {
            let cut_short = CutShort { commit, stage_is_ours, refs: &refs, head: head.as_ref(), notices, style };
            return self.complete(workspace, story, attempt, base, cut_short).await;
        }
        let mut findings = workspace.inspect(&refs, &story.id, attempt, AttemptEnd::Landing, untouched).await?;
        if findings.sparse {
            return Ok(Landed::Impossible("the attempt turned on sparse checkout, which hides files of the work tree from git".to_owned()));
        }
        let lines = Lines::new(tip, head.as_ref(), base);
        let goes_on_from = self.goes_on_from(&lines, base).await?;
        let committed = goes_on_from.as_ref().filter(|oid| **oid != base.checkpoint);
        if let Some(oid) = committed {
            // What the agent has committed is tracked, even if it is ignored.
            workspace.repo.read_tree(&workspace.private_index(), oid).await?;
        }
        let walked = walked.filter(|_| committed.is_none());
        let snapshot = workspace.snapshot_from_walk(walked, &base.checkpoint).await?;
        if let Some(unkept) = snapshot.trouble() {
            return Ok(Landed::Impossible(format!("git could not add every file: {unkept}")));
        }
        let parents = match goes_on_from {
            Some(oid) => vec![oid],
            None if lines.are_together(workspace, &label) => {
                self.independent(&base.checkpoint, [Some(lines.branch.clone()), lines.head.clone()]).await?
            }
            None => {
                return Ok(Landed::Impossible(format!("the work tree is that of {}, without the last checkpoint", words(head.as_ref()))));
            }
        };
        let empty = self.is_empty(&snapshot, base, style).await?;
        if empty && style.on_empty == EmptyDiff::Fail {
            return Ok(Landed::Impossible("the agent said that it is done, but nothing has changed".to_owned()));
        }
        let quiet = findings.leave_refs_alone();
        notices.append(&mut findings.notices);
        notices.extend(snapshot.nested.iter().map(|path| Notice::NestedLeftOut { path: path.display().to_string() }));
        workspace.keep_more_raw_bytes(&snapshot.changes).await?;
        let parents: Vec<&Oid> = parents.iter().collect();
        let commit = self.repo.commit_as(style.signature, &snapshot.tree, &parents, &style.message).await?;
        let kept: Vec<&Oid> = parents.iter().copied().chain([&commit]).collect();
        let at = head.as_ref().and_then(Head::oid).unwrap_or(&base.checkpoint);
        let staged = self.staged_beside(workspace, stage_is_ours, &snapshot, at).await?;
        // Commits on the branch that the work tree does not go on from are abandoned as well.
        let pins = std::mem::take(&mut findings.pins).into_iter().chain([lines.branch]).collect();
        let (abandoned, notice) = self.keep_abandoned(pins, staged, &kept, &refs, &story.id, attempt).await?;
        notices.extend(notice);
        findings.updates.extend(abandoned);
        let reason = format!("commit: checkpoint: {}", story.id);
        // A branch that is in the way of ours must be gone before ours can come back.
        workspace.restore_refs(&findings, &reason).await?;
        let moves = self.move_branch_to(&refs, &commit);
        self.repo.update_refs(&moves, &reason).await?;
        // From here on everything can be done again: a landing that is cut short behind the refs is completed by the same call.
        notices.extend(workspace.follow_landing(&snapshot, head.as_ref(), &label).await?);
        if quiet {
            self.remember_refs(refs.after(&findings.updates).after(&moves), looked);
        }
        Ok(Landed::Checkpoint { commit, changes: snapshot.changes, empty, notices })
    }

    /// Whether the attempt has changed nothing but the marks of its story.
    async fn is_empty(&self, snapshot: &Snapshot, base: &Base, style: &Style) -> Result<bool> {
        let is_work = |change: &PathChange| Some(&change.path) != style.marked.as_ref();
        if base.snapshot == base.checkpoint || !snapshot.changes.iter().any(is_work) {
            return Ok(!snapshot.changes.iter().any(is_work));
        }
        // The user's edits are part of the checkpoint, but nothing that the agent has done.
        Ok(!self.repo.diff_trees(&base.snapshot, &snapshot.tree).await?.iter().any(is_work))
    }

    /// Completes a landing that was cut short behind its refs.
    async fn complete(&self, workspace: &Workspace, story: &Story, attempt: u32, base: &Base, landing: CutShort<'_>) -> Result<Landed> {
        let CutShort { commit, stage_is_ours, refs, head, mut notices, style } = landing;
        let snapshot = workspace.snapshot_of_checkpoint(&commit, &base.checkpoint).await?;
        // Somebody may have staged something since.
        let staged = self.staged_beside(workspace, stage_is_ours, &snapshot, &commit).await?;
        let (kept, notice) = self.keep_abandoned(Vec::new(), staged, &[&commit], refs, &story.id, attempt).await?;
        self.repo.update_refs(&kept, "git ralph").await?;
        notices.extend(workspace.follow_landing(&snapshot, head, &attempt_label(&story.id, attempt)).await?);
        notices.extend(notice);
        let empty = self.is_empty(&snapshot, base, style).await?;
        Ok(Landed::Checkpoint { commit, changes: snapshot.changes, empty, notices })
    }

    /// Commits that the agent made and left behind (detached, amended, rebased, an autostash) are kept under a ref, and with them what
    /// is staged.
    pub(super) async fn keep_abandoned(
        &self,
        pins: Vec<Oid>,
        staged: Option<Staged>,
        kept: &[&Oid],
        refs: &RefList,
        story: &StoryId,
        attempt: u32,
    ) -> Result<(Vec<RefUpdate>, Option<Notice>)> {
        let mut loose = self.repo.loose_commits(pins, kept).await?;
        let has_commits = !loose.is_empty();
        let is_missing = staged.as_ref().is_some_and(|staged| staged.is_missing);
        loose.extend(staged.map(|staged| staged.commit));
        if loose.is_empty() {
            return Ok((Vec::new(), None));
        }
        let tree = self.repo.empty_tree().await?;
        let to = self.repo.commit(&tree, &loose.iter().collect::<Vec<_>>(), &self.names.rescue_message(story, attempt)).await?;
        // A landing that was cut short may have used the name already.
        let wanted = self.names.abandoned(story, attempt);
        let name = free_name(wanted.clone(), |number| format!("{wanted}.{number}"), |name| refs.get(name).is_some());
        let notice = match (has_commits, is_missing) {
            (true, _) => Some(Notice::CommitsKept { kept: name.clone() }),
            (false, true) => Some(Notice::StagedKept { kept: name.clone() }),
            // An earlier version of files that are in the checkpoint.
            (false, false) => None,
        };
        Ok((vec![RefUpdate::Set { name, to }], notice))
    }

    /// What is staged and neither part of the checkpoint nor of the commit that the index was made from.
    async fn staged_beside(&self, workspace: &Workspace, is_ours: bool, snapshot: &Snapshot, at: &Oid) -> Result<Option<Staged>> {
        let staged = if is_ours { None } else { workspace.staged(&snapshot.tree, at).await? };
        let Some(commit) = staged else { return Ok(None) };
        let beside = self.repo.diff_trees(&snapshot.tree, &commit).await?;
        Ok(Some(Staged { commit, is_missing: beside.iter().any(|change| change.old_mode == 0) }))
    }

    /// The one commit that the work tree goes on from, if it goes on from the checkpoint.
    async fn goes_on_from(&self, lines: &Lines, base: &Base) -> Result<Option<Oid>> {
        let Some(head) = &lines.head else { return Ok(None) };
        Ok(self.is_above(&base.checkpoint, head).await?.then(|| head.clone()))
    }

    /// The checkpoint and the given commits, without those that others of them contain.
    async fn independent(&self, checkpoint: &Oid, others: [Option<Oid>; 2]) -> Result<Vec<Oid>> {
        let mut parents = vec![checkpoint.clone()];
        for oid in others.into_iter().flatten() {
            let mut kept = Vec::new();
            let mut contained = false;
            for parent in parents {
                contained |= parent == oid || self.repo.is_ancestor(&oid, &parent).await?;
                if contained || !self.repo.is_ancestor(&parent, &oid).await? {
                    kept.push(parent);
                }
            }
            if !contained {
                kept.push(oid);
            }
            parents = kept;
        }
        Ok(parents)
    }

    /// Finds a checkpoint that landed before a crash but is missing from the journal: branch and ref moved in one transaction.
    async fn already_landed(&self, story: &Story, attempt: u32, base: &Base, refs: &RefList) -> Result<Option<Oid>> {
        let Some(tip) = refs.get(&self.names.checkpoint()) else { return Ok(None) };
        if *tip == base.checkpoint || refs.get(&self.names.branch()) != Some(tip) {
            return Ok(None);
        }
        // A hook may have added text behind the trailers, which are none for git then.
        let message = self.repo.message(tip).await?;
        let says = |line: String| message.lines().any(|found| found.trim_end() == line);
        let same = says(format!("Ralph-Story: {}", story.id)) && says(format!("Ralph-Attempt: {attempt}"));
        Ok(same.then(|| tip.clone()))
    }
}

/// A landing that was cut short behind its refs.
struct CutShort<'a> {
    commit: Oid,
    stage_is_ours: bool,
    refs: &'a RefList,
    head: Option<&'a Head>,
    notices: Vec<Notice>,
    style: &'a Style,
}

/// What is staged beside a checkpoint.
pub(super) struct Staged {
    pub commit: Oid,
    /// Whether it has files that are not in the checkpoint at all.
    pub is_missing: bool,
}
