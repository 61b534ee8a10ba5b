//! `git ralph abort`: everything as before the start; what the run did stays under a ref.

use anyhow::Result;

use super::context::Context;
use super::session::{Session, brief};
use crate::cli::Abort;
use crate::config::Environment;
use crate::error::Ending;

/// Gives a run up.
pub async fn run(args: &Abort, environment: Environment) -> Result<Ending> {
    let context = Context::open_to_work(environment).await?;
    let (run, _) = context.open_run(args.change.as_deref())?;
    let mut session = Session::take_up(context, run, brief(args.quiet)).await?;
    session.abort().await?;
    Ok(Ending::Done)
}
