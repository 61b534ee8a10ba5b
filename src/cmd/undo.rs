//! `git ralph undo`: undoes checkpoints. Their commits stay under a ref.

use anyhow::Result;

use super::context::Context;
use super::session::{brief, take_up};
use crate::cli::UndoArgs;
use crate::config::Environment;
use crate::error::ExitStatus;

/// Undoes checkpoints.
pub async fn run(args: &UndoArgs, environment: Environment) -> Result<ExitStatus> {
    let context = Context::open_to_work(environment).await?;
    let (run, state) = context.open_run(args.change.as_deref())?;
    let to = match &args.to {
        Some(text) => Some(context.story(&run, &state, text)?),
        None => None,
    };
    take_up(&context, run, &state, brief(args.quiet)).await?.undo(to.as_ref()).await?;
    Ok(ExitStatus::Done)
}
