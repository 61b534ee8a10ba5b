//! Rolling back: first everything is kept under a ref, then the work tree returns to what the attempt started from.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::guard::Verdict;
use super::land::Aftermath;
use super::repair::is_verdict;
use super::snapshot::GITLINK;
use super::submodules::Moment;
use super::{Footing, Keeper, Notice};
use crate::git::{Head, Oid, PathChange, Reach, RefList, RefUpdate, TreeEntry, stale, without_slash};
use crate::story::StoryId;

/// A work tree that is back where the attempt found it.
#[derive(Debug)]
pub struct RolledBack {
    /// The ref that keeps what was taken out.
    pub rescue: String,
    /// How many paths it holds beside the checkpoint's.
    pub files: usize,
    /// What was put right or moved.
    pub notices: Vec<Notice>,
}

impl Keeper {
    /// Rolls an attempt back. Doing it twice is harmless: what is there is kept again before anything moves.
    ///
    /// # Errors
    /// If git fails; what was there is still there or under the ref.
    pub async fn roll_back(&self, story: &StoryId, attempt: u32, footing: &Footing) -> Result<RolledBack> {
        let label = format!("{}-{attempt}", story.as_component());
        self.revive_head()?;
        // Before the walk: it writes times into our own index.
        let staged = !self.nothing_is_staged();
        let Aftermath { refs, looked, walked, untouched } = self.look_behind(footing).await?;
        let head = self.head_after_agent(&refs).await?;
        let mut findings = self.inspect(&refs, story, attempt, Verdict::RollingBack, untouched).await?;
        findings.pins.extend(self.new_operation_commits());
        let quiet = findings.are_none();
        let snapshot = self.snapshot_after(walked, &footing.base).await?;
        let staged = if staged { self.staged(&snapshot.tree, &footing.base).await? } else { None };
        let mut parents = self.everything(&refs, head.as_ref(), staged.as_ref(), &footing.checkpoint);
        let loose = self.repo.loose_commits(std::mem::take(&mut findings.pins), &parents).await?;
        parents.extend(&loose);
        let rescue = self.repo.commit(&snapshot.tree, &parents, &self.names.rescue_message(story, attempt)).await?;
        let name = free_name(&refs, &self.names.attempt(story, attempt));
        let mut updates = vec![RefUpdate::Create { name: name.clone(), to: rescue }];
        let reason = format!("reset: attempt {attempt} of {story} rolled back");
        if findings.updates.is_empty() {
            updates.extend(self.branch_to(&refs, &footing.checkpoint));
            self.repo.update_refs(&updates, &reason).await?;
        } else {
            // A branch that was in the way of ours must be gone before ours can come back.
            updates.append(&mut findings.updates);
            self.repo.update_refs(&updates, &reason).await?;
            self.repo.update_refs(&self.branch_to(&refs, &footing.checkpoint), &reason).await?;
        }
        self.restore_refs(&findings, &reason).await?;

        let mut notices = findings.notices;
        notices.extend(self.put_right(head.as_ref(), &label).await?);
        // A submodule that the attempt has added would stay behind as a repository that nobody knows.
        let added = snapshot.changes.iter().filter(|change| change.new_mode == GITLINK && change.old_mode == 0).map(|change| &change.path);
        let added = added.filter(|path| self.repo.place.top.join(path).exists());
        for path in snapshot.nested.iter().chain(added) {
            let to = self.move_aside(path, &label)?;
            notices.push(Notice::NestedMoved { path: path.display().to_string(), to: to.display().to_string() });
        }
        notices.extend(snapshot.unkept.map(|error| Notice::Unkept { error }));
        self.restore(&snapshot.tree, &snapshot.changes, &footing.base, &label, Moment::Attempt, &mut notices).await?;
        notices.extend(self.restore_submodules(Moment::Attempt, &name).await?);
        self.install_index(&self.private_index()).await?;
        if quiet {
            self.remember_refs(refs, looked);
        }
        Ok(RolledBack { rescue: name, files: snapshot.changes.len(), notices })
    }

    /// Turns the work tree, which is `tree`, into `base`, from which it differs by `changes`; nobody wrote to it before `since`.
    pub(super) async fn restore(
        &self,
        tree: &Oid,
        changes: &[PathChange],
        base: &Oid,
        label: &str,
        since: Moment,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        let back: Vec<PathChange> = changes.iter().map(PathChange::reversed).collect();
        for path in self.make_room(&back, label)? {
            notices.push(Notice::ObstacleMoved { path: path.display().to_string(), to: self.moved_dir(label).display().to_string() });
        }
        self.repo.switch_tree(&self.private_index(), tree, base, Reach::Everywhere).await.context("cannot restore the work tree")?;
        self.restore_beyond_trees(&back, since, Moment::Attempt, label, notices).await?;
        notices.extend(self.restore_ignored()?);
        if changes.iter().any(|change| change.path.file_name().is_some_and(|name| name == ".gitignore")) {
            // With the agent's ignore rules gone, files that they hid are untracked now.
            self.move_untracked_aside(label, notices).await?;
        }
        Ok(())
    }

    /// What no tree holds, after the work tree was switched by `back`: bytes, empty directories, permissions as they were at the
    /// moment `modes`, and what a sparse checkout leaves out.
    pub(super) async fn restore_beyond_trees(
        &self,
        back: &[PathChange],
        since: Moment,
        modes: Moment,
        label: &str,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        self.restore_keepsakes(back).await?;
        self.restore_converted(since, back).await?;
        self.restore_empty_directories();
        self.restore_modes(modes)?;
        self.move_left_out_aside(since, label, notices).await
    }

    async fn move_untracked_aside(&self, label: &str, notices: &mut Vec<Notice>) -> Result<()> {
        for entry in self.repo.status(&self.private_index()).await? {
            if let TreeEntry::Untracked(path) = entry
                && !self.known_nested().covers(without_slash(&path))
                && !self.protected().covers(without_slash(&path))
            {
                let to = self.move_aside(without_slash(&path), label)?;
                notices.push(Notice::HiddenMoved { path: path.display().to_string(), to: to.display().to_string() });
            }
        }
        Ok(())
    }

    /// The parents of a commit that shall keep everything: the checkpoint, HEAD, the branch, what is staged.
    pub(super) fn everything<'a>(
        &self,
        refs: &'a RefList,
        head: Option<&'a Head>,
        staged: Option<&'a Oid>,
        checkpoint: &'a Oid,
    ) -> Vec<&'a Oid> {
        let mut parents = vec![checkpoint];
        for oid in [head.and_then(Head::oid), refs.get(&self.names.branch()), staged].into_iter().flatten() {
            if !parents.contains(&oid) {
                parents.push(oid);
            }
        }
        parents
    }

    /// What is staged in the repository's own index, if that is neither what is in the work tree nor what was there before.
    pub(super) async fn staged(&self, work: &Oid, base: &Oid) -> Result<Option<Oid>> {
        let (index, copy) = (self.repo.place.git_dir.join("index"), self.dir.join("index.agent"));
        if !index.exists() {
            return Ok(None);
        }
        fs::copy(&index, &copy).with_context(|| format!("cannot copy {}", index.display()))?;
        let Some(tree) = self.tree_of_index(&copy).await? else {
            // Garbage, or full of conflicts: no tree, but a file that may be looked into.
            stale::move_aside(&copy, &self.moved_dir("index"))?;
            return Ok(None);
        };
        fs::remove_file(&copy)?;
        if tree == *work || self.repo.diff_trees(base, &tree).await?.is_empty() {
            return Ok(None);
        }
        self.repo.commit(&tree, &[base], "what was staged\n").await.map(Some)
    }

    /// The tree that an index stands for; none if git says twice that it stands for none.
    async fn tree_of_index(&self, index: &Path) -> Result<Option<Oid>> {
        for _ in 0..2 {
            match self.repo.write_tree(index).await {
                Ok(tree) => return Ok(Some(tree)),
                Err(error) if !is_verdict(&error) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(None)
    }
}

/// A rollback that was cut short has used the name already.
fn free_name(refs: &RefList, wanted: &str) -> String {
    let mut name = wanted.to_owned();
    let mut copy = 1;
    while refs.get(&name).is_some() {
        copy += 1;
        name = format!("{wanted}.{copy}");
    }
    name
}
