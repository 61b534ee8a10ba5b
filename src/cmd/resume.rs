//! `git ralph resume`: completes what was interrupted, then continues the loop.

use anyhow::{Context as _, Result, bail};

use super::context::Context;
use super::sandbox_choice;
use super::session::{needs_isolation, plan, reporter, take_up, work};
use super::start::story_steps;
use crate::cli::Resume;
use crate::config::{Environment, Flags};
use crate::error::ExitStatus;
use crate::remote::WorkerRunner;
use crate::report::{count, output};
use crate::run::{End, HalfDone, Opening, RunDir, RunState};
use crate::runner::Runner;
use crate::story::{Change, Story};

/// Resumes a run.
pub async fn run(args: Resume, environment: Environment) -> Result<ExitStatus> {
    let mut context = Context::open_to_work(environment).await?;
    let (run, state) = context.open_run(args.change.as_deref())?;
    let reporter = reporter(&context, &args.run);
    if args.run.dry_run {
        output::data(&dry_run_text(&context, &args, &run, &state)?);
        return Ok(ExitStatus::Done);
    }
    let mut open = take_up(&context, run, &state, reporter).await?;
    if open.complete_closing().await? {
        return Ok(ExitStatus::Done);
    }
    if open.state.unjudged().is_some() {
        open.put_steering_back().await?;
        open.reread_config().await?;
        context.config = open.config().clone();
    }
    let opening = open.opening()?.clone();
    if open.state.half_done() == Some(HalfDone::Start) {
        open.settle_run().await?;
    }
    let loaded = open.load_change().await?;
    let change = loaded.change_of_run(&open.dir, &open.state)?;
    let flags = flags(&context, &args, &opening, &open.state, &change);
    let mut planned = plan(&context, &loaded, &change, &flags, args.run.limit)?;
    sandbox_choice::decide(&context, &mut planned).await?;
    if !open.state.is_isolated() && WorkerRunner::of(Runner::of_agents(&planned.settings).words())?.is_some() {
        bail!(needs_isolation(format!("git ralph start --restart --isolate {}", change.name)));
    }
    open.reopen().await?;
    work(&context, open, &planned, loaded, &args.run).await
}

/// The given options, completed with those of the run's start. If the stories selected at the start are done, or wait for stories
/// outside of the selection, the selection is dropped and the run continues with the other stories.
fn flags(context: &Context, args: &Resume, opening: &Opening, state: &RunState, change: &Change) -> Flags {
    let given = args.run.flags();
    let mut remembered = opening.flags.clone();
    let is_over = state.is_selection_done(&remembered.only, &change.stories) || matches!(state.end, Some(End::Blocked { .. }));
    if given.only.is_empty() && is_over {
        remembered.only.clear();
    }
    super::start::absolute(given, &context.environment).over(remembered)
}

/// The output of `--dry-run`: the remaining stories with the steps for each.
fn dry_run_text(context: &Context, args: &Resume, run: &RunDir, state: &RunState) -> Result<String> {
    let opening = state.opening.as_ref().context("the run has not been started")?;
    let loaded = context.changes.load(&run.change)?;
    let change = loaded.change_of_run(run, state)?;
    let planned = plan(context, &loaded, &change, &flags(context, args, opening, state, &change), args.run.limit)?;
    let done = change.stories.iter().filter(|story| state.is_done(story)).count();
    let mut text = format!("# run {} of {}: {done} of {} done\n", run.number, run.change, count(change.stories.len(), "story"));
    let left_out = state.left_out(&change.stories);
    let is_wanted = |story: &&Story| planned.only.is_empty() || planned.only.contains(&story.id);
    let is_open = |story: &&Story| !state.is_done(story) && !left_out.contains(&story.id);
    for story in change.stories.iter().filter(is_wanted).filter(is_open) {
        text.push_str(&story_steps(&change, story, &planned, args.run.verbose)?);
    }
    Ok(text)
}
