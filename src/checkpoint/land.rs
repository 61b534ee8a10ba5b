//! Landing: everything in the work tree becomes a checkpoint on the branch, above the agent's own commits.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use super::guard::Verdict;
use super::snapshot::Snapshot;
use super::{Footing, Keeper, Notice};
use crate::git::{Answer, Head, Merge, Oid, Reach, RefList, RefUpdate, Signature};
use crate::story::{Story, StoryId};

/// What came of landing.
#[derive(Debug)]
pub enum Landed {
    /// The checkpoint, and what was put right or left out on the way.
    Checkpoint {
        /// Its id.
        commit: Oid,
        /// How many paths it changed.
        files: usize,
        /// What was put right or left out.
        notices: Vec<Notice>,
    },
    /// It cannot be a checkpoint; the attempt has failed for this reason.
    Impossible(String),
}

/// What a checkpoint looks like.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// Another message than the usual one: a hook may have edited it.
    pub message: Option<String>,
    /// Whether it is signed.
    pub signature: Signature,
}

/// What an attempt has left, at the first look.
pub(super) struct Aftermath {
    pub refs: RefList,
    /// When they were listed.
    pub looked: Instant,
    /// What git answered to the walk, if it has been made.
    pub walked: Option<Answer>,
    /// Whether configuration and hooks are known to be what they were.
    pub untouched: bool,
}

impl Keeper {
    /// Lands an attempt whose gates are green. Doing it twice is harmless.
    ///
    /// # Errors
    /// If git fails.
    pub async fn land(&self, story: &Story, attempt: u32, footing: &Footing, style: &Style) -> Result<Landed> {
        self.revive_head()?;
        let Aftermath { refs, looked, walked, untouched } = self.look_behind(footing).await?;
        let head = self.head_after_agent(&refs).await?;
        if let Some(commit) = self.already_landed(story, attempt, footing, &refs).await? {
            self.reattach(head.as_ref()).await?;
            self.settle_index(&commit).await?;
            return Ok(Landed::Checkpoint { commit, files: 0, notices: Vec::new() });
        }
        let label = format!("{}-{attempt}", story.id.as_component());
        let mut findings = self.inspect(&refs, &story.id, attempt, Verdict::Landing, untouched).await?;
        findings.pins.extend(self.new_operation_commits());
        if findings.sparse {
            return Ok(Landed::Impossible("the attempt turned on sparse checkout, which hides files of the work tree from git".to_owned()));
        }
        let lines = self.lines(&refs, head.as_ref(), footing).await?;
        let committed = if let Lines::Single(oid) = &lines { Some(oid).filter(|oid| **oid != footing.checkpoint) } else { None };
        if let Some(oid) = committed {
            // What the agent has committed is tracked, even if it is ignored.
            self.repo.read_tree(&self.private_index(), oid).await?;
        }
        let walked = walked.filter(|_| committed.is_none());
        let mut snapshot = self.snapshot_after(walked, &footing.checkpoint).await?;
        if let Some(unkept) = &snapshot.unkept {
            return Ok(Landed::Impossible(format!("git could not add every file: {unkept}")));
        }
        let quiet = findings.are_none();
        let mut notices = std::mem::take(&mut findings.notices);
        let parents = match lines {
            Lines::Single(oid) => vec![oid],
            Lines::Apart { branch, head: elsewhere } => {
                let merged = self.bring_together(&branch, elsewhere.as_ref(), &snapshot, footing, &label).await?;
                match merged {
                    Ok(brought) => snapshot = brought,
                    Err(paths) => return Ok(Landed::Impossible(conflict(head.as_ref(), &paths))),
                }
                notices.push(Notice::BroughtOver { from: words(head.as_ref()) });
                self.independent(&footing.checkpoint, [Some(branch), elsewhere]).await?
            }
        };
        notices.extend(snapshot.nested.iter().map(|path| Notice::NestedLeftOut { path: path.display().to_string() }));
        self.keep_more_keepsakes(&snapshot.changes).await?;
        let parents: Vec<&Oid> = parents.iter().collect();
        let message = style.message.clone().unwrap_or_else(|| self.names.checkpoint_message(story, attempt));
        let commit = self.repo.commit_as(style.signature, &snapshot.tree, &parents, &message).await?;
        let kept: Vec<&Oid> = parents.iter().copied().chain([&commit]).collect();
        let (abandoned, notice) = self.keep_abandoned(std::mem::take(&mut findings.pins), &kept, &story.id, attempt).await?.unzip();
        notices.extend(notice);
        let updates: Vec<RefUpdate> = abandoned.into_iter().chain(self.branch_to(&refs, &commit)).collect();
        let reason = format!("commit: checkpoint: {}", story.id);
        // A branch that is in the way of ours must be gone before ours can come back.
        self.restore_refs(&findings, &reason).await?;
        self.repo.update_refs(&updates, &reason).await?;
        notices.extend(self.put_right(head.as_ref(), &label).await?);
        notices.extend(self.restore_ignored()?);
        self.install_index(&self.private_index()).await?;
        self.take_note_of(&snapshot).await?;
        if quiet {
            self.remember_refs(refs, looked);
        }
        Ok(Landed::Checkpoint { commit, files: snapshot.changes.len(), notices })
    }

    /// Looks at the refs; and walks at the same time, if the agent seems to have left git alone. What the refs say decides.
    pub(super) async fn look_behind(&self, footing: &Footing) -> Result<Aftermath> {
        let looked = Instant::now();
        let alone = self.stands_on(footing) && self.private_index().exists() && self.settings_are_kept();
        if !alone {
            return Ok(Aftermath { refs: self.repo.refs().await?, looked, walked: None, untouched: false });
        }
        let index = self.private_index();
        let hooks = async { Ok(self.hooks_are_kept()) };
        let (refs, walked, untouched) = tokio::try_join!(self.repo.refs(), self.add_patiently(&index), hooks)?;
        Ok(Aftermath { refs, looked, walked: Some(walked), untouched })
    }

    /// Commits that the agent made and left behind (detached, amended, rebased, an autostash) are kept under a ref.
    async fn keep_abandoned(&self, pins: Vec<Oid>, kept: &[&Oid], story: &StoryId, attempt: u32) -> Result<Option<(RefUpdate, Notice)>> {
        let loose = self.repo.loose_commits(pins, kept).await?;
        if loose.is_empty() {
            return Ok(None);
        }
        let tree = self.repo.empty_tree().await?;
        let to = self.repo.commit(&tree, &loose.iter().collect::<Vec<_>>(), &self.names.rescue_message(story, attempt)).await?;
        let name = self.names.abandoned(story, attempt);
        Ok(Some((RefUpdate::Set { name: name.clone(), to }, Notice::CommitsKept { kept: name })))
    }

    /// Nothing left under way, HEAD on the branch.
    pub(super) async fn put_right(&self, head: Option<&Head>, label: &str) -> Result<Vec<Notice>> {
        let mut notices: Vec<Notice> = self.clear_operations(label)?.into_iter().collect();
        if self.reattach(head).await? {
            notices.push(Notice::HeadReattached { from: words(head) });
        }
        Ok(notices)
    }

    /// Which commits the agent has left: on the branch, under HEAD, or both.
    async fn lines(&self, refs: &RefList, head: Option<&Head>, footing: &Footing) -> Result<Lines> {
        let branch = refs.get(&self.names.branch()).unwrap_or(&footing.checkpoint).clone();
        let head = head.and_then(Head::oid);
        if head == Some(&footing.checkpoint) && branch == footing.checkpoint {
            return Ok(Lines::Single(branch));
        }
        let Some(head) = head else { return Ok(Lines::Apart { branch, head: None }) };
        let above = |oid: Oid| async move {
            Ok::<_, anyhow::Error>(oid == footing.checkpoint || self.repo.is_ancestor(&footing.checkpoint, &oid).await?)
        };
        let contains_branch = *head == branch || self.repo.is_ancestor(&branch, head).await?;
        if contains_branch && above(head.clone()).await? {
            return Ok(Lines::Single(head.clone()));
        }
        Ok(Lines::Apart { branch, head: Some(head.clone()) })
    }

    /// Merges what the agent did on different lines of history onto the checkpoint, and makes the work tree that.
    async fn bring_together(
        &self,
        branch: &Oid,
        head: Option<&Oid>,
        snapshot: &Snapshot,
        footing: &Footing,
        label: &str,
    ) -> Result<Result<Snapshot, Vec<PathBuf>>> {
        let mut tree = None;
        let mut ours = footing.checkpoint.clone();
        let work = self.repo.commit(&snapshot.tree, &head.into_iter().collect::<Vec<_>>(), "work tree of an attempt\n").await?;
        for theirs in [branch, &work] {
            if *theirs == ours {
                continue;
            }
            match self.repo.merge(&ours, theirs).await? {
                Merge::Clean(merged) => {
                    ours = self.repo.commit(&merged, &[&ours, theirs], "lines of an attempt\n").await?;
                    tree = Some(merged);
                }
                Merge::Conflict(paths) => return Ok(Err(paths)),
            }
        }
        let tree = tree.unwrap_or_else(|| snapshot.tree.clone());
        let changes = self.repo.diff_trees(&snapshot.tree, &tree).await?;
        self.make_room(&changes, label)?;
        self.repo.switch_tree(&self.private_index(), &snapshot.tree, &tree, Reach::Everywhere).await?;
        let changes = self.repo.diff_trees(&footing.checkpoint, &tree).await?;
        Ok(Ok(Snapshot { tree, changes, nested: snapshot.nested.clone(), unkept: None }))
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

    /// A checkpoint that was made before a crash, but not yet written down: branch and ref moved in one transaction.
    async fn already_landed(&self, story: &Story, attempt: u32, footing: &Footing, refs: &RefList) -> Result<Option<Oid>> {
        let Some(tip) = refs.get(&self.names.checkpoint()) else { return Ok(None) };
        if *tip == footing.checkpoint || refs.get(&self.names.branch()) != Some(tip) {
            return Ok(None);
        }
        let same = self.repo.trailer(tip, "Ralph-Story").await? == story.id.as_str()
            && self.repo.trailer(tip, "Ralph-Attempt").await? == attempt.to_string();
        Ok(same.then(|| tip.clone()))
    }
}

/// What an agent has left, as commits.
enum Lines {
    /// One commit that contains the checkpoint and everything on the branch.
    Single(Oid),
    /// The branch's tip, and a HEAD that does not contain it.
    Apart {
        /// The tip of the branch; the checkpoint, if the branch is gone.
        branch: Oid,
        /// Where HEAD is, if it is anywhere.
        head: Option<Oid>,
    },
}

fn words(head: Option<&Head>) -> String {
    head.map_or_else(|| "a broken HEAD".to_owned(), Head::words)
}

fn conflict(head: Option<&Head>, paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    format!("the work was done on {} and conflicts with the checkpoint in {}", words(head), paths.join(", "))
}
