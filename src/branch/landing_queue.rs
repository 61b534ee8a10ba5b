//! Landing accepted attempts from the queue: each is merged with the tip of the branch, and becomes one checkpoint on it.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;

use super::{Branch, Signature};
use crate::git::{Oid, RefList, RefUpdate};
use crate::story::{Story, StoryId};

/// How much of the conflicting hunks a prompt carries.
const LONGEST_HUNKS: usize = 8 * 1024;
/// Lines around a hunk.
const AROUND: usize = 3;

/// An attempt that waits in the queue.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Its story.
    pub story: Story,
    /// Its number.
    pub attempt: u32,
    /// The commit that it began from.
    pub base: Oid,
    /// The commit with its work; its further parents are the agent's own commits.
    pub commit: Oid,
    /// The message of its checkpoint.
    pub message: String,
}

/// A checkpoint that is made, and not yet on the branch.
#[derive(Clone, Debug)]
pub struct Stacked {
    /// What it is made of.
    pub waiting: Waiting,
    /// The checkpoint.
    pub commit: Oid,
    /// Whether it is a merge that no gate has seen.
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

/// A checkpoint that was on the branch already, though the journal does not know it: the process died in between.
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

/// What was found when attempts were put on top of the branch.
#[derive(Debug)]
pub enum Stack {
    /// An earlier landing of some of them was cut short behind the refs.
    Landed(Vec<LandedBefore>),
    /// The user has committed on the branch; this is its tip now.
    Adopted(Oid),
    /// Checkpoints, one on top of the other. Those behind one that conflicts are left out.
    Ready(Vec<Stacked>),
    /// The first attempt conflicts with the tip.
    Conflict(Box<Conflict>),
}

/// An attempt on top of a commit.
enum Merged {
    /// The tree; and whether it is a merge, which no gate has seen.
    Clean {
        tree: Oid,
        merged: bool,
    },
    Conflict(Box<Conflict>),
}

impl Branch {
    /// Makes a checkpoint of each attempt, on top of the tip and of each other; no ref is moved. `mark` gives the tree with the marks of
    /// the story, if its source is in it.
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

    /// The work of an attempt on top of a commit.
    async fn on_top_of(&self, top: &Oid, attempt: &Waiting) -> Result<Merged> {
        if attempt.base == *top {
            return Ok(Merged::Clean { tree: self.repo.tree_of(&attempt.commit).await?, merged: false });
        }
        // What the attempt has changed since its base counts. Commits of the agent's could bring another merge base along, and with it
        // a merge that takes back what another story has landed.
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

    /// The tip, and the agent's own commits. Where those go on from the tip, they alone.
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

    /// What has happened to the branch since the last checkpoint that the journal knows, if anything has.
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

    /// The checkpoints that a landing has made whose process died behind the refs. In one transaction it moved the branch and the ref
    /// of the last checkpoint, and deleted the refs in the queue: what messages say is not enough, for agents write messages, too.
    async fn landed_before(&self, waiting: &[Waiting], tip: &Oid, now: &Oid, refs: &RefList) -> Result<Vec<LandedBefore>> {
        // One that was taken out of the queue is under another ref.
        let gone = |it: &&Waiting| {
            refs.get(&self.names.queued(&it.story.id, it.attempt)).is_none() && !refs.iter().any(|entry| entry.oid == it.commit)
        };
        let gone: Vec<&Waiting> = waiting.iter().filter(gone).collect();
        let Some(last) = refs.get(&self.names.checkpoint()).filter(|last| *last != tip && !gone.is_empty()) else { return Ok(Vec::new()) };
        if last != now && !self.repo.is_ancestor(last, now).await? {
            return Ok(Vec::new());
        }
        // Each stands on the one before. Below the first one there may be commits of its agent's.
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

    /// Refuses to go on if the branch has lost the last checkpoint.
    async fn check_holds(&self, now: &Oid, tip: &Oid) -> Result<()> {
        let base = super::Base { checkpoint: tip.clone(), snapshot: tip.clone() };
        self.check_holds_checkpoint(now, &base, None).await
    }

    /// Moves the branch to the last of the checkpoints, in one transaction. Says whether that was possible: something else may have
    /// moved the branch meanwhile.
    ///
    /// # Errors
    /// If git fails for another reason.
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

    /// Takes an attempt out of the queue; its work stays under the ref that is given.
    ///
    /// # Errors
    /// If git fails.
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

    /// Whether what an attempt changed and what has landed since it began touch the same files.
    ///
    /// # Errors
    /// If git fails.
    pub async fn overlaps(&self, waiting: &Waiting, tip: &Oid) -> Result<bool> {
        let landed: std::collections::HashSet<PathBuf> =
            self.repo.diff_trees(&waiting.base, tip).await?.into_iter().map(|change| change.path).collect();
        Ok(self.repo.diff_trees(&waiting.base, &waiting.commit).await?.iter().any(|change| landed.contains(&change.path)))
    }

    /// The parts of files that conflict, with a few lines around each.
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
