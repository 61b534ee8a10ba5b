//! Undoes checkpoints: removes them from the branch after saving them and the work tree under a ref.

use anyhow::Result;

use super::{Base, Branch};
use crate::git::{Head, Oid, RefList, RefUpdate};
use crate::story::StoryId;
use crate::workspace::{Moment, Notice, Snapshot, SubmoduleRecord, Workspace};

/// The result of an undo.
#[derive(Debug)]
pub struct UndoResult {
    /// The ref that saves what was removed.
    pub kept: String,
    /// Notices about moved files.
    pub notices: Vec<Notice>,
}

/// The ref that saves what an undo removes. `create` is the commit to point it at, if the ref does not exist yet.
struct Keep {
    name: String,
    create: Option<Oid>,
    notice: Option<Notice>,
}

impl Branch {
    /// The branches, local and remote-tracking, that contain a commit, except the run's own.
    pub async fn also_in(&self, commit: &Oid) -> Result<Vec<String>> {
        let mut names = self.repo.branches_with(commit).await?;
        names.retain(|name| *name != self.names.branch());
        let short = |name: &String| name.strip_prefix("refs/heads/").or(name.strip_prefix("refs/remotes/")).unwrap_or(name).to_owned();
        Ok(names.iter().map(short).collect())
    }

    /// Resets the branch and the work tree to `to`. After a kill at any point, repeating it gives the same result.
    ///
    /// # Errors
    /// A [`Problem`](crate::error::Problem) if HEAD is elsewhere or a git operation is under way. If git fails, everything is saved by
    /// then.
    pub async fn undo(&self, workspace: &Workspace, to: &Oid, stories: &[StoryId], base: &Base) -> Result<UndoResult> {
        workspace.recover_switch().await?;
        let refs = self.repo.refs().await?;
        let head = workspace.repo.head(&refs).await?;
        self.check_head(Some(&head))?;
        workspace.check_nothing_under_way().await?;
        // The branch and this ref move in one transaction, so the ref shows whether an interrupted undo got that far.
        let again = refs.get(&self.names.checkpoint()) == Some(to);
        if !again {
            self.verify_branch(workspace, base).await?;
        }
        let from = if again { to } else { &base.checkpoint };
        let snapshot = workspace.snapshot(from).await?;
        let keep = if again && head.oid() == Some(to) { self.kept_before(workspace, &refs, &snapshot, to, base).await? } else { None };
        let keep = match keep {
            Some(keep) => keep,
            None => self.keep_all(workspace, &refs, &snapshot, &head, from, stories).await?,
        };
        let label = keep.name.strip_prefix(&self.names.prefix()).unwrap_or(&keep.name).replace('/', "-");
        let mut updates: Vec<RefUpdate> = keep.create.map(|to| RefUpdate::Create { name: keep.name.clone(), to }).into_iter().collect();
        updates.extend(self.move_branch_to(&refs, to));
        self.repo.update_refs(&updates, &format!("reset: undo of {}", words(stories))).await?;

        let mut notices: Vec<Notice> = keep.notice.into_iter().collect();
        notices.extend(snapshot.unkept.map(|error| Notice::Unkept { error }));
        let changes = self.repo.diff_trees(to, &snapshot.tree).await?;
        workspace.restore(&snapshot.tree, &changes, to, &label, Moment::Start, &mut notices).await?;
        notices.extend(workspace.restore_submodules(SubmoduleRecord::At(to), &keep.name).await?);
        workspace.install_index(&workspace.private_index()).await?;
        Ok(UndoResult { kept: keep.name, notices })
    }

    /// Resets the branch of an isolated run to `to`. Workspaces follow when they are used again. Repeating it is harmless.
    pub async fn undo_isolated(&self, to: &Oid, stories: &[StoryId], tip: &Oid) -> Result<UndoResult> {
        let refs = self.repo.refs().await?;
        let last = self.names.last_undone(&refs);
        if refs.get(&self.names.checkpoint()) == Some(to)
            && let Some((number, _)) = last
        {
            return Ok(UndoResult { kept: self.names.undone(number), notices: Vec::new() });
        }
        let kept = self.names.undone(last.map_or(0, |(number, _)| number) + 1);
        let mut updates = vec![RefUpdate::Create { name: kept.clone(), to: tip.clone() }];
        updates.extend(self.move_branch_to(&refs, to));
        self.repo.update_refs(&updates, &format!("reset: undo of {}", words(stories))).await?;
        Ok(UndoResult { kept, notices: Vec::new() })
    }

    /// The ref of an interrupted undo, if it already covers everything in the work tree and the index.
    async fn kept_before(&self, workspace: &Workspace, refs: &RefList, snapshot: &Snapshot, to: &Oid, base: &Base) -> Result<Option<Keep>> {
        let Some((number, oid)) = self.names.last_undone(refs) else { return Ok(None) };
        if !snapshot.changes.is_empty() && !self.same_tree(&oid, &snapshot.tree).await? {
            return Ok(None);
        }
        // The index may still be the one from before the undo.
        if let Some(staged) = workspace.staged(&snapshot.tree, &oid).await?
            && !self.same_tree(&staged, &base.checkpoint).await?
            && !self.same_tree(&staged, to).await?
        {
            return Ok(None);
        }
        Ok(Some(Keep { name: self.names.undone(number), create: None, notice: None }))
    }

    async fn same_tree(&self, one: &Oid, other: &Oid) -> Result<bool> {
        Ok(self.repo.diff_trees(one, other).await?.is_empty())
    }

    /// Saves the entire state: as the branch's tip, if there is nothing besides it, or else as a commit on top of it.
    async fn keep_all(
        &self,
        workspace: &Workspace,
        refs: &RefList,
        snapshot: &Snapshot,
        head: &Head,
        from: &Oid,
        stories: &[StoryId],
    ) -> Result<Keep> {
        let name = self.names.undone(self.names.last_undone(refs).map_or(0, |(number, _)| number) + 1);
        let tip = head.oid().unwrap_or(from);
        let edits = self.repo.diff_trees(tip, &snapshot.tree).await?.len();
        let staged = workspace.staged(&snapshot.tree, tip).await?;
        if edits == 0 && staged.is_none() {
            return Ok(Keep { name, create: Some(tip.clone()), notice: None });
        }
        // The tip contains the checkpoint, so the saved commit has the history of the branch.
        let parents: Vec<&Oid> = [Some(tip), staged.as_ref()].into_iter().flatten().collect();
        let message = format!("edits at the undo of {}\n", words(stories));
        let commit = self.repo.commit(&snapshot.tree, &parents, &message).await?;
        let notice = Notice::EditsTakenOut { files: edits.max(1), kept: name.clone() };
        Ok(Keep { name, create: Some(commit), notice: Some(notice) })
    }
}

fn words(stories: &[StoryId]) -> String {
    stories.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
