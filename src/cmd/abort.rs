//! `git ralph abort`: restores the state from before the start. The work of the run stays under a ref.

use anyhow::Result;

use super::context::Context;
use super::report::renew_page;
use super::session::{brief, take_up};
use crate::cli::Abort;
use crate::config::Environment;
use crate::error::ExitStatus;

/// Aborts a run.
pub async fn run(args: &Abort, environment: Environment) -> Result<ExitStatus> {
    let context = Context::open_to_work(environment).await?;
    let (run, state) = context.open_run(args.change.as_deref())?;
    take_up(&context, run.clone(), &state, brief(args.quiet)).await?.abort().await?;
    renew_page(&context, &run).await;
    Ok(ExitStatus::Done)
}
