//! Lands accepted attempts from the queue: merges each with the tip of the branch and commits it as one checkpoint.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;

use super::{Branch, Signature};
use crate::git::{Oid, RefList, RefUpdate};
use crate::story::{Story, StoryId};

/// The maximum length, in bytes, of conflicting hunks in a prompt.
const LONGEST_HUNKS: usize = 8 * 1024;
/// The number of context lines around a hunk.
const AROUND: usize = 3;

/// An attempt in the landing queue.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Its story.
    pub story: Story,
    /// Its number.
    pub attempt: u32,
    /// The commit that it began from.
    pub base: Oid,
    /// The commit of its work; its parents after the first are the agent's own commits.
    pub commit: Oid,
    /// The message of its checkpoint.
    pub message: String,
}

/// A checkpoint that is committed but not yet on the branch.
#[derive(Clone, Debug)]
pub struct Stacked {
    /// The attempt that it was made from.
    pub waiting: Waiting,
    /// The checkpoint.
    pub commit: Oid,
    /// Whether it is a merge on which no gate has run.
    pub merged: bool,
    /// How many files it changes.
    pub files: usize,
}

/// A merge with conflicts.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The paths that conflict.
    pub paths: Vec<String>,
    /// The conflicting hunks.
    pub hunks: String,
}

/// A checkpoint that is on the branch although the journal does not mention it, because the process died in between.
#[derive(Clone, Debug)]
pub struct LandedBefore {
    /// Its story.
    pub story: StoryId,
    /// Its attempt.
    pub attempt: u32,
    /// The checkpoint.
    pub commit: Oid,
    /// How many files it changes.
    pub files: usize,
}

/// The result of putting attempts on top of the branch.
#[derive(Debug)]
pub enum Stack {
    /// Some of them landed before, in a landing that was interrupted after its ref transaction.
    Landed(Vec<LandedBefore>),
    /// The user has committed on the branch; this is its new tip.
    Adopted(Oid),
    /// Checkpoints, one on top of the other, up to the first attempt that conflicts.
    Ready(Vec<Stacked>),
    /// The first attempt conflicts with the tip.
    Conflict(Box<Conflict>),
}

/// The result of putting an attempt on top of a commit.
enum Merged {
    /// The tree, and whether it is a merge on which no gate has run.
    Clean {
        tree: Oid,
        merged: bool,
    },
    Conflict(Box<Conflict>),
}

impl Branch {
    /// Commits a checkpoint for each attempt, on top of the tip and of each other, without moving a ref. `mark` returns the tree
    /// with the marks of the story, if the story's source is in the tree.
    ///
    /// # Errors
    /// If git fails, or the branch has lost the last checkpoint.
    pub async fn stack<M: AsyncFn(&StoryId, &Oid, &Oid) -> Result<Oid>>(
        &self,
        waiting: Vec<Waiting>,
        tip: &Oid,
        signature: Signature,
        mark: M,
    ) -> Result<Stack> {
        let refs = self.repo.refs().await?;
        if let Some(found) = self.moved_since(&waiting, tip, &refs).await? {
            return Ok(found);
        }
        let mut stacked: Vec<Stacked> = Vec::new();
        for attempt in waiting {
            let top = stacked.last().map_or(tip, |last| &last.commit).clone();
            let (tree, merged) = match self.on_top_of(&top, &attempt).await? {
                Merged::Clean { tree, merged } => (tree, merged),
                Merged::Conflict(conflict) if stacked.is_empty() => return Ok(Stack::Conflict(conflict)),
                Merged::Conflict(_) => break,
            };
            let tree = mark(&attempt.story.id, &top, &tree).await?;
            let parents = self.parents_of(&attempt, &top).await?;
            let commit = self.repo.commit_as(signature, &tree, &parents.iter().collect::<Vec<_>>(), &attempt.message).await?;
            let files = self.repo.diff_trees(&top, &commit).await?.len();
            stacked.push(Stacked { waiting: attempt, commit, merged, files });
        }
        Ok(Stack::Ready(stacked))
    }

    /// Puts the work of an attempt on top of a commit.
    async fn on_top_of(&self, top: &Oid, attempt: &Waiting) -> Result<Merged> {
        if attempt.base == *top {
            return Ok(Merged::Clean { tree: self.repo.tree_of(&attempt.commit).await?, merged: false });
        }
        // Only the attempt's changes since its base are merged. With the agent's commits as parents, git could choose another
        // merge base and revert what another story has landed.
        let mut work = attempt.commit.clone();
        if self.repo.parents(&work).await?.len() > 1 {
            let tree = self.repo.tree_of(&work).await?;
            work = self.repo.commit(&tree, &[&attempt.base], &attempt.message).await?;
        }
        let (tree, paths) = self.repo.merge_with_markers(top, &work).await?;
        if paths.is_empty() {
            return Ok(Merged::Clean { tree, merged: true });
        }
        let hunks = self.hunks(&tree, &paths).await?;
        let paths = paths.iter().map(|path| path.display().to_string()).collect();
        Ok(Merged::Conflict(Box::new(Conflict { paths, hunks })))
    }

    /// The tip and the agent's own commits as parents. Agent commits that contain the tip replace it.
    async fn parents_of(&self, attempt: &Waiting, tip: &Oid) -> Result<Vec<Oid>> {
        let own = self.repo.parents(&attempt.commit).await?.into_iter().skip(1);
        let mut parents = vec![tip.clone()];
        for commit in own {
            if self.repo.is_ancestor(tip, &commit).await? {
                parents = vec![commit];
            } else {
                parents.push(commit);
            }
        }
        Ok(parents)
    }

    /// What has happened to the branch since the last checkpoint in the journal, if anything.
    async fn moved_since(&self, waiting: &[Waiting], tip: &Oid, refs: &RefList) -> Result<Option<Stack>> {
        let Some(now) = refs.get(&self.names.branch()).filter(|now| *now != tip) else { return Ok(None) };
        self.check_holds(now, tip).await?;
        let landed = self.landed_before(waiting, tip, now, refs).await?;
        if !landed.is_empty() {
            return Ok(Some(Stack::Landed(landed)));
        }
        self.save_adopted(now, None).await?;
        Ok(Some(Stack::Adopted(now.clone())))
    }

    /// The checkpoints of a landing whose process died after the ref transaction. That transaction moved the branch and the ref
    /// of the last checkpoint, and deleted the refs in the queue. Commit messages alone would not prove it, because agents write
    /// messages too.
    async fn landed_before(&self, waiting: &[Waiting], tip: &Oid, now: &Oid, refs: &RefList) -> Result<Vec<LandedBefore>> {
        // An attempt that was taken out of the queue is under another ref.
        let gone = |it: &&Waiting| {
            refs.get(&self.names.queued(&it.story.id, it.attempt)).is_none() && !refs.iter().any(|entry| entry.oid == it.commit)
        };
        let gone: Vec<&Waiting> = waiting.iter().filter(gone).collect();
        let Some(last) = refs.get(&self.names.checkpoint()).filter(|last| *last != tip && !gone.is_empty()) else { return Ok(Vec::new()) };
        if last != now && !self.repo.is_ancestor(last, now).await? {
            return Ok(Vec::new());
        }
        // Each checkpoint is on top of the previous one. Below the first one there may be commits of its agent.
        let commits = self.repo.commits_since(tip, last).await?;
        let stacked = commits.iter().skip(commits.len().saturating_sub(gone.len()));
        let (mut landed, mut before) = (Vec::new(), tip.clone());
        for (attempt, (commit, _)) in gone.iter().zip(stacked) {
            let files = self.repo.diff_trees(&before, commit).await?.len();
            before = commit.clone();
            landed.push(LandedBefore { story: attempt.story.id.clone(), attempt: attempt.attempt, commit: commit.clone(), files });
        }
        Ok(if landed.len() == gone.len() { landed } else { Vec::new() })
    }

    /// Refuses to continue if the branch has lost the last checkpoint.
    async fn check_holds(&self, now: &Oid, tip: &Oid) -> Result<()> {
        let base = super::Base { checkpoint: tip.clone(), snapshot: tip.clone() };
        self.check_holds_checkpoint(now, &base, None).await
    }

    /// Moves the branch to the last of the checkpoints, in one transaction. Returns false if something else has moved the branch
    /// meanwhile.
    pub async fn land_stack(&self, stacked: &[Stacked], tip: &Oid) -> Result<bool> {
        let Some(last) = stacked.last() else { return Ok(true) };
        let refs = self.repo.refs().await?;
        if refs.get(&self.names.branch()).is_some_and(|now| now != tip) {
            return Ok(false);
        }
        let mut updates = self.move_branch_to(&refs, &last.commit);
        updates.extend(stacked.iter().filter_map(|it| self.unqueue(&refs, &it.waiting.story.id, it.waiting.attempt)));
        let stories: Vec<&str> = stacked.iter().map(|it| it.waiting.story.id.as_str()).collect();
        let moved = self.repo.update_refs(&updates, &format!("commit: checkpoint: {}", stories.join(", "))).await;
        match moved {
            Ok(()) => Ok(true),
            Err(error) => {
                let now = self.repo.refs().await?;
                if now.get(&self.names.branch()) == Some(tip) { Err(error) } else { Ok(false) }
            }
        }
    }

    fn unqueue(&self, refs: &RefList, story: &StoryId, attempt: u32) -> Option<RefUpdate> {
        let name = self.names.queued(story, attempt);
        refs.get(&name).cloned().map(|from| RefUpdate::Delete { name, from })
    }

    /// Takes an attempt out of the queue. Returns the ref that saves its work, and the number of files in it.
    pub async fn take_out_of_queue(&self, story: &StoryId, attempt: u32, commit: &Oid) -> Result<(String, usize)> {
        let refs = self.repo.refs().await?;
        let kept = self.free_attempt_name(story, attempt).await?;
        let mut updates = vec![RefUpdate::Create { name: kept.clone(), to: commit.clone() }];
        updates.extend(self.unqueue(&refs, story, attempt));
        self.repo.update_refs(&updates, &format!("git ralph: {story} taken out of the queue")).await?;
        let base = self.repo.parents(commit).await?.into_iter().next();
        let files = match base {
            Some(base) => self.repo.diff_trees(&base, commit).await?.len(),
            None => 0,
        };
        Ok((kept, files))
    }

    /// Whether the attempt and the work landed since it began change the same files.
    pub async fn overlaps(&self, waiting: &Waiting, tip: &Oid) -> Result<bool> {
        let landed: std::collections::HashSet<PathBuf> =
            self.repo.diff_trees(&waiting.base, tip).await?.into_iter().map(|change| change.path).collect();
        Ok(self.repo.diff_trees(&waiting.base, &waiting.commit).await?.iter().any(|change| landed.contains(&change.path)))
    }

    /// The conflicting parts of files, with context lines around each.
    async fn hunks(&self, tree: &Oid, paths: &[PathBuf]) -> Result<String> {
        let mut text = String::new();
        for path in paths {
            let bytes = self.repo.blob_at(tree, path).await?.unwrap_or_default();
            let content = String::from_utf8_lossy(&bytes).into_owned();
            let lines: Vec<&str> = content.lines().collect();
            let _ = writeln!(text, "{}:", path.display());
            let mut shown = 0;
            for (at, _) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("<<<<<<< ")) {
                let end = lines.iter().skip(at).position(|line| line.starts_with(">>>>>>> ")).map_or(lines.len(), |more| at + more + 1);
                let (from, to) = (at.saturating_sub(AROUND).max(shown), (end + AROUND).min(lines.len()));
                lines.iter().take(to).skip(from).for_each(|line| {
                    let _ = writeln!(text, "    {line}");
                });
                shown = to;
            }
            if text.len() > LONGEST_HUNKS {
                text.truncate(text.floor_char_boundary(LONGEST_HUNKS));
                text.push_str("\n    …\n");
                break;
            }
        }
        Ok(text)
    }
}
