//! `git ralph resume`: whatever was half-done is made whole, then the loop goes on.

use anyhow::Result;

use super::context::Context;
use super::session::{Session, Work, reporter};
use crate::cli::Resume;
use crate::config::Environment;
use crate::error::Ending;
use crate::report::output;
use crate::run::Phase;

/// Takes a run up again.
pub async fn run(args: Resume, environment: Environment) -> Result<Ending> {
    let context = Context::open_to_work(environment).await?;
    let (run, state) = context.open_run(args.change.as_deref())?;
    let reporter = reporter(&context, &args.run);
    if args.run.dry_run {
        output::data(&format!(
            "git ralph resume {}: {} stories have a checkpoint\n",
            run.change,
            state.stories.keys().filter(|id| state.has_landed(id)).count()
        ));
        return Ok(Ending::Done);
    }
    let mut session = Session::take_up(context, run, reporter).await?;
    match *session.phase() {
        Phase::Finishing(mode) => {
            session.finish(mode).await?;
            return Ok(Ending::Done);
        }
        Phase::Aborting => {
            session.abort().await?;
            return Ok(Ending::Done);
        }
        _ => {}
    }
    let opening = session.opening()?.clone();
    let flags = super::start::absolute(args.run.flags(), &session.context().environment).over(opening.flags);
    let change = session.context().change_of_run(&session.run, &session.state)?;
    let work = Work::plan(session.context(), &change, &flags, args.run.limit)?;
    session.reopen().await?;
    session.work(work).await
}
