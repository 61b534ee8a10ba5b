//! `git ralph resume`: whatever was half-done is made whole, then the loop goes on.

use anyhow::Result;

use super::context::Context;
use super::session::{plan, reporter, take_up, work};
use crate::cli::Resume;
use crate::config::Environment;
use crate::error::ExitStatus;
use crate::report::output;
use crate::run::HalfDone;

/// Takes a run up again.
pub async fn run(args: Resume, environment: Environment) -> Result<ExitStatus> {
    let mut context = Context::open_to_work(environment).await?;
    let (run, state) = context.open_run(args.change.as_deref())?;
    let reporter = reporter(&context, &args.run);
    if args.run.dry_run {
        output::data(&format!(
            "the run of {}: {} stories have a checkpoint\n",
            run.change,
            state.stories.keys().filter(|id| state.has_landed(id)).count()
        ));
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
    let flags = super::start::absolute(args.run.flags(), &context.environment).over(open.opening()?.flags.clone());
    if open.state.half_done() == Some(HalfDone::Start) {
        open.settle_run().await?;
    }
    let loaded = open.load_change().await?;
    let change = loaded.change_of_run(&open.dir, &open.state)?;
    let planned = plan(&context, &loaded, &change, &flags, args.run.limit)?;
    open.reopen().await?;
    work(&context, open, &planned, loaded, &args.run).await
}
