//! Rolls an attempt back: saves its work under a ref, then restores the work tree to the state before the attempt.

use anyhow::Result;

use super::{Base, Branch};
use crate::free_name::free_name;
use crate::git::RefUpdate;
use crate::names::attempt_label;
use crate::story::StoryId;
use crate::workspace::{Aftermath, AttemptEnd, GITLINK, Moment, Notice, SubmoduleRecord, Treatment, Workspace};

/// The result of a rollback.
#[derive(Debug)]
pub struct RolledBack {
    /// The ref that saves the attempt's work.
    pub rescue: String,
    /// The number of paths in it that differ from the state before the attempt.
    pub files: usize,
    /// Notices about repaired or moved things.
    pub notices: Vec<Notice>,
}

impl Branch {
    /// Rolls an attempt back. Repeating it is harmless: the current state is saved again before anything changes.
    ///
    /// # Errors
    /// If git fails. The attempt's work is then still in the work tree or under the ref.
    pub async fn roll_back(&self, workspace: &Workspace, story: &StoryId, attempt: u32, base: &Base) -> Result<RolledBack> {
        let label = attempt_label(story, attempt);
        // Checked before the scan, which writes file times into the private index.
        let staged = !workspace.index_is_ours();
        let Aftermath { refs, looked, head, tip, walked, untouched, mut notices } = workspace.aftermath(&base.checkpoint).await?;
        let mut findings = workspace.inspect(&refs, story, attempt, AttemptEnd::RollingBack, untouched).await?;
        let quiet = findings.leave_refs_alone();
        notices.append(&mut findings.notices);
        let snapshot = workspace.snapshot_to_leave(walked, &base.snapshot, &label, &mut notices).await?;
        let staged = if staged { workspace.staged(&snapshot.tree, &base.snapshot).await? } else { None };
        let mut parents = self.rescue_parents(tip.as_ref(), head.as_ref(), staged.as_ref(), &base.checkpoint);
        let loose = self.repo.loose_commits(std::mem::take(&mut findings.pins), &parents).await?;
        parents.extend(&loose);
        let rescue = self.repo.commit(&snapshot.tree, &parents, &self.names.rescue_message(story, attempt)).await?;
        // An interrupted rollback has used the name already.
        let wanted = self.names.attempt(story, attempt);
        let name = free_name(wanted.clone(), |number| format!("{wanted}.{number}"), |name| refs.get(name).is_some());
        let mut updates = vec![RefUpdate::Create { name: name.clone(), to: rescue }];
        let reason = format!("reset: attempt {attempt} of {story} rolled back");
        // In an isolated workspace the agent cannot move the branch.
        let mut back = if workspace.shares_refs() { self.move_branch_to(&refs, &base.checkpoint) } else { Vec::new() };
        if findings.updates.is_empty() {
            updates.append(&mut back);
        }
        // A branch whose name conflicts with ours must be deleted before ours can be restored.
        updates.append(&mut findings.updates);
        self.repo.update_refs(&updates, &reason).await?;
        self.repo.update_refs(&back, &reason).await?;
        workspace.restore_refs(&findings, &reason).await?;

        notices.extend(workspace.clean_git_state(head.as_ref(), &label).await?);
        // A submodule that the attempt added would remain as a repository that `.gitmodules` does not list.
        let added = snapshot.changes.iter().filter(|change| change.new_mode == GITLINK && change.old_mode == 0).map(|change| &change.path);
        let added = added.filter(|path| workspace.repo.place.top.join(path).exists());
        for path in snapshot.nested.iter().chain(added) {
            let to = workspace.move_aside(path, &label)?;
            notices.push(Notice::NestedMoved { path: path.display().to_string(), to: to.display().to_string() });
        }
        workspace.restore(&snapshot.tree, &snapshot.changes, &base.snapshot, &label, Moment::Attempt, &mut notices).await?;
        notices.extend(workspace.restore_submodules(SubmoduleRecord::Of(Moment::Attempt), &name).await?);
        notices.extend(workspace.restore_nested(Treatment::BackTo(Moment::Attempt), &label)?);
        notices.extend(workspace.move_planted_git_dirs(&label)?);
        workspace.install_index(&workspace.private_index()).await?;
        if quiet {
            self.remember_refs(refs.after(&updates), looked);
        }
        Ok(RolledBack { rescue: name, files: snapshot.changes.len(), notices })
    }
}
