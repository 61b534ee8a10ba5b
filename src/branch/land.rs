//! Lands an attempt: commits the entire work tree as a checkpoint on the branch, on top of the agent's own commits.

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

/// Why an attempt cannot land that switched sparse checkout on or off.
pub(super) const TURNED_SPARSE: &str = "the attempt changed sparse checkout, which hides files of the work tree from git";

/// The result of landing.
#[derive(Debug)]
pub enum Landed {
    /// The attempt has landed.
    Checkpoint {
        /// The id of the checkpoint.
        commit: Oid,
        /// The files that it changes.
        changes: Vec<PathChange>,
        /// Whether it changes nothing except the marks of its story.
        empty: bool,
        /// Notices about repaired or omitted things.
        notices: Vec<Notice>,
    },
    /// The work cannot become a checkpoint; the attempt has failed for this reason.
    Impossible(String),
}

/// How checkpoints are made, and when none is made.
#[derive(Clone, Debug)]
pub struct Style {
    /// The commit message.
    pub message: String,
    /// Whether the commit is signed.
    pub signature: Signature,
    /// What to do with an attempt that has changed nothing.
    pub on_empty: EmptyDiff,
    /// A file in which only the marks of the story have changed, so it does not count as work of the agent.
    pub marked: Option<PathBuf>,
}

impl Branch {
    /// Lands an attempt whose gates have passed. Repeating it is harmless.
    pub async fn land(&self, workspace: &Workspace, story: &Story, attempt: u32, base: &Base, style: &Style) -> Result<Landed> {
        // Checked before the scan, which writes file times into the private index.
        let stage_is_ours = workspace.index_is_ours();
        let Aftermath { refs, looked, head, tip, walked, untouched, mut notices } = workspace.aftermath(&base.checkpoint).await?;
        let label = attempt_label(&story.id, attempt);
        if let Some(commit) = self.already_landed(story, attempt, base, &refs).await? {
            let cut_short = CutShort { commit, stage_is_ours, refs: &refs, head: head.as_ref(), notices, style };
            return self.complete(workspace, story, attempt, base, cut_short).await;
        }
        let mut findings = workspace.inspect(&refs, &story.id, attempt, AttemptEnd::Landing, untouched).await?;
        if findings.sparse {
            return Ok(Landed::Impossible(TURNED_SPARSE.to_owned()));
        }
        let lines = Lines::new(tip, head.as_ref(), base);
        let goes_on_from = self.goes_on_from(&lines, base).await?;
        let committed = goes_on_from.as_ref().filter(|oid| **oid != base.checkpoint);
        if let Some(oid) = committed {
            // Files that the agent has committed are tracked, even if they are ignored.
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
        // Commits on the branch that the work tree is not based on count as abandoned too.
        let pins = std::mem::take(&mut findings.pins).into_iter().chain([lines.branch]).collect();
        let (abandoned, notice) = self.keep_abandoned(pins, staged, &kept, &refs, &story.id, attempt).await?;
        notices.extend(notice);
        findings.updates.extend(abandoned);
        let reason = format!("commit: checkpoint: {}", story.id);
        // A branch whose name conflicts with ours must be deleted before ours can be restored.
        workspace.restore_refs(&findings, &reason).await?;
        let moves = self.move_branch_to(&refs, &commit);
        self.repo.update_refs(&moves, &reason).await?;
        // The rest can be repeated: a landing that is interrupted after the ref transaction is completed by calling this function
        // again.
        notices.extend(workspace.follow_landing(&snapshot, head.as_ref(), &label).await?);
        if quiet {
            self.remember_refs(refs.after(&findings.updates).after(&moves), looked);
        }
        Ok(Landed::Checkpoint { commit, changes: snapshot.changes, empty, notices })
    }

    /// Whether the attempt has changed nothing except the marks of its story.
    async fn is_empty(&self, snapshot: &Snapshot, base: &Base, style: &Style) -> Result<bool> {
        let is_work = |change: &PathChange| Some(&change.path) != style.marked.as_ref();
        if base.snapshot == base.checkpoint || !snapshot.changes.iter().any(is_work) {
            return Ok(!snapshot.changes.iter().any(is_work));
        }
        // The user's edits are part of the checkpoint, but they are not the agent's work.
        Ok(!self.repo.diff_trees(&base.snapshot, &snapshot.tree).await?.iter().any(is_work))
    }

    /// Completes a landing that was interrupted after its ref transaction.
    async fn complete(&self, workspace: &Workspace, story: &Story, attempt: u32, base: &Base, landing: CutShort<'_>) -> Result<Landed> {
        let CutShort { commit, stage_is_ours, refs, head, mut notices, style } = landing;
        let snapshot = workspace.snapshot_of_checkpoint(&commit, &base.checkpoint).await?;
        // The user may have staged something since.
        let staged = self.staged_beside(workspace, stage_is_ours, &snapshot, &commit).await?;
        let (kept, notice) = self.keep_abandoned(Vec::new(), staged, &[&commit], refs, &story.id, attempt).await?;
        self.repo.update_refs(&kept, "git ralph").await?;
        notices.extend(workspace.follow_landing(&snapshot, head, &attempt_label(&story.id, attempt)).await?);
        notices.extend(notice);
        let empty = self.is_empty(&snapshot, base, style).await?;
        Ok(Landed::Checkpoint { commit, changes: snapshot.changes, empty, notices })
    }

    /// Saves commits that the agent made and abandoned (detached, amended, rebased, an autostash), and what is staged, under a
    /// ref.
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
        // An interrupted landing may have used the name already.
        let wanted = self.names.abandoned(story, attempt);
        let name = free_name(wanted.clone(), |number| format!("{wanted}.{number}"), |name| refs.get(name).is_some());
        let notice = match (has_commits, is_missing) {
            (true, _) => Some(Notice::CommitsKept { kept: name.clone() }),
            (false, true) => Some(Notice::StagedKept { kept: name.clone() }),
            // What is staged is an earlier version of files in the checkpoint, and not worth a notice.
            (false, false) => None,
        };
        Ok((vec![RefUpdate::Set { name, to }], notice))
    }

    /// Staged content that is part of neither the checkpoint nor the commit that the index was based on.
    async fn staged_beside(&self, workspace: &Workspace, is_ours: bool, snapshot: &Snapshot, at: &Oid) -> Result<Option<Staged>> {
        let staged = if is_ours { None } else { workspace.staged(&snapshot.tree, at).await? };
        let Some(commit) = staged else { return Ok(None) };
        let beside = self.repo.diff_trees(&snapshot.tree, &commit).await?;
        Ok(Some(Staged { commit, is_missing: beside.iter().any(|change| change.old_mode == 0) }))
    }

    /// The commit that the work tree is based on, if that commit contains the checkpoint.
    async fn goes_on_from(&self, lines: &Lines, base: &Base) -> Result<Option<Oid>> {
        let Some(head) = &lines.head else { return Ok(None) };
        Ok(self.is_above(&base.checkpoint, head).await?.then(|| head.clone()))
    }

    /// The checkpoint and the given commits, without those that are ancestors of others.
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
        // A hook may have appended text to the message. git then no longer recognises the trailers, so single lines are compared.
        let message = self.repo.message(tip).await?;
        let says = |line: String| message.lines().any(|found| found.trim_end() == line);
        let same = says(format!("Ralph-Story: {}", story.id)) && says(format!("Ralph-Attempt: {attempt}"));
        Ok(same.then(|| tip.clone()))
    }
}

/// A landing that was interrupted after its ref transaction.
struct CutShort<'a> {
    commit: Oid,
    stage_is_ours: bool,
    refs: &'a RefList,
    head: Option<&'a Head>,
    notices: Vec<Notice>,
    style: &'a Style,
}

/// Staged content that differs from a checkpoint.
pub(super) struct Staged {
    pub commit: Oid,
    /// Whether it has files that are not in the checkpoint at all.
    pub is_missing: bool,
}
