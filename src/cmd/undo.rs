//! `git ralph undo`: takes checkpoints back; what they held stays under a ref.

use anyhow::{Context as _, Result, bail};

use super::context::Context;
use super::session::{Session, brief};
use crate::checkpoint::Notice;
use crate::cli::UndoArgs;
use crate::config::Environment;
use crate::error::{Ending, Problem};
use crate::run::{Event, NoUndo, Phase, UndoPlan};
use crate::story::StoryId;

/// Takes checkpoints back.
pub async fn run(args: &UndoArgs, environment: Environment) -> Result<Ending> {
    let context = Context::open_to_work(environment).await?;
    let (run, state) = context.open_run(args.change.as_deref())?;
    let to = match &args.to {
        Some(text) => Some(context.story(&run, &state, text)?),
        None => None,
    };
    let mut session = Session::take_up(context, run, brief(args.quiet)).await?;
    // Who repeats an undo that was cut short wants that one, not one more.
    if session.complete_undo().await? && to.as_ref().is_none_or(|story| session.plan_undo(Some(story)).is_err()) {
        return Ok(Ending::Done);
    }
    session.undo(to.as_ref()).await?;
    Ok(Ending::Done)
}

impl Session {
    async fn undo(&mut self, to: Option<&StoryId>) -> Result<()> {
        self.check_nothing_half_done()?;
        let plan = self.plan_undo(to)?;
        if let Some(checkpoint) = self.keeper.verify_branch(&self.footing()?).await? {
            self.record(Event::CommitsAdopted { checkpoint }).await?;
        }
        let branches = self.keeper.also_in(&plan.oldest).await?;
        if !branches.is_empty() {
            self.record(Event::Noticed { notice: Notice::AlsoIn { branches } }).await?;
        }
        self.record(Event::UndoStarted { to: plan.to, stories: plan.stories }).await?;
        self.complete_undo().await.map(drop)
    }

    /// Completes an undo that is written down as begun; says whether there was one.
    pub(super) async fn complete_undo(&mut self) -> Result<bool> {
        let Some((to, stories)) = self.state.undoing.clone() else { return Ok(false) };
        let taken = self.keeper.undo(&to, &stories, &self.footing()?).await?;
        self.record_notices(taken.notices).await?;
        if let Some(last) = self.state.line.adopted_after(&to).cloned() {
            self.record(Event::Noticed { notice: Notice::CommitsTakenOut { last, kept: taken.kept.clone() } }).await?;
        }
        self.record(Event::Undone { to, stories, kept: taken.kept }).await?;
        Ok(true)
    }

    fn plan_undo(&self, to: Option<&StoryId>) -> Result<UndoPlan> {
        let change = &self.run.change;
        let initial = self.state.initial.as_ref().context("the journal has no initial state")?;
        let story = to.map_or_else(String::new, ToString::to_string);
        self.state.line.undo(initial, to).map_err(|why| {
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
        let change = &self.run.change;
        let half = match self.state.phase {
            Phase::Open if self.state.is_busy() => "an attempt",
            Phase::Starting => "the start",
            Phase::Finishing(_) => "a 'git ralph finish'",
            Phase::Aborting => "a 'git ralph abort'",
            Phase::Open | Phase::Finished(_) | Phase::Aborted => return Ok(()),
        };
        bail!(
            Problem::refused(format!("{half} of the run of '{change}' was cut short"))
                .hint(format!("git ralph resume {change}   to complete it first"))
        )
    }
}
