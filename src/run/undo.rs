//! Undoes checkpoints: decides which ones, records that, and then removes them. An undo that was interrupted is completed.

use anyhow::{Context, Result, bail};

use super::{Closing, Event, HalfDone, NoUndo, OpenRun, UndoPlan};
use crate::error::Problem;
use crate::story::StoryId;
use crate::workspace::Notice;

impl OpenRun {
    /// Removes the last checkpoint, or all checkpoints after the one of a story.
    ///
    /// # Errors
    /// A [`Problem`] if there is nothing to undo, or something else is half done.
    pub async fn undo(&mut self, to: Option<&StoryId>) -> Result<()> {
        // Repeating an interrupted undo completes it. It does not undo another checkpoint.
        if self.complete_undo().await? && to.is_none_or(|story| self.plan_undo(Some(story)).is_err()) {
            return Ok(());
        }
        self.take_back(to).await
    }

    async fn take_back(&mut self, to: Option<&StoryId>) -> Result<()> {
        self.follow_inbox(Closing::Finish).await?;
        self.check_nothing_half_done()?;
        let plan = self.plan_undo(to)?;
        if self.state.is_isolated() {
            self.adopt_commits().await?;
        } else if let Some(checkpoint) = self.branch.verify_branch(&self.workspace, &self.base()?).await? {
            self.record(Event::CommitsAdopted { checkpoint }).await?;
        }
        let branches = self.branch.also_in(&plan.oldest).await?;
        if !branches.is_empty() {
            self.record(Event::Noticed { notice: Notice::AlsoIn { branches } }).await?;
        }
        self.record(Event::UndoStarted { to: plan.to, stories: plan.stories }).await?;
        self.complete_undo().await.map(drop)
    }

    /// Completes an undo that was recorded as begun. Returns whether there was one.
    pub(super) async fn complete_undo(&mut self) -> Result<bool> {
        let Some((to, stories)) = self.state.undoing.clone() else { return Ok(false) };
        let taken = if self.state.is_isolated() {
            let notice = self.branch.keep_tip(&self.base()?.checkpoint).await?;
            self.record_notices(notice.into_iter().collect()).await?;
            self.branch.undo_isolated(&to, &stories, &self.base()?.checkpoint).await?
        } else {
            self.branch.undo(&self.workspace, &to, &stories, &self.base()?).await?
        };
        self.record_notices(taken.notices).await?;
        if let Some(last) = self.state.checkpoints.adopted_after(&to).cloned() {
            self.record(Event::Noticed { notice: Notice::CommitsTakenOut { last, kept: taken.kept.clone() } }).await?;
        }
        self.record(Event::Undone { to, stories, kept: taken.kept }).await?;
        Ok(true)
    }

    fn plan_undo(&self, to: Option<&StoryId>) -> Result<UndoPlan> {
        let change = &self.dir.change;
        let initial = self.state.initial.as_ref().context("the journal has no initial state")?;
        let story = to.map_or_else(String::new, ToString::to_string);
        self.state.checkpoints.undo(initial, to).map_err(|why| {
            let problem = match why {
                NoUndo::NoCheckpoint => Problem::refused(format!("the run of '{change}' has no checkpoint to undo")),
                NoUndo::NotLanded => Problem::refused(format!("'{story}' has no checkpoint to go back to")),
                NoUndo::IsLast => {
                    Problem::refused(format!("the checkpoint of '{story}' is the last one: there is nothing after it to undo"))
                }
            };
            problem.hint(format!("git ralph status {change}")).into()
        })
    }

    fn check_nothing_half_done(&self) -> Result<()> {
        let change = &self.dir.change;
        let half = match self.state.half_done() {
            Some(HalfDone::Undo) | None => return Ok(()),
            Some(half) => half.words(),
        };
        bail!(
            Problem::refused(format!("{half} of the run of '{change}' was interrupted"))
                .hint(format!("git ralph resume {change}   to complete it first"))
        )
    }
}
