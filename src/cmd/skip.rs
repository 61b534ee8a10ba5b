//! `git ralph skip`: leaves a story out of the run.

use anyhow::Result;

use super::steering::Steering;
use crate::cli::Skip;
use crate::config::Environment;
use crate::error::ExitStatus;
use crate::run::Wish;

/// Leaves a story out of the run.
pub async fn run(args: &Skip, environment: Environment) -> Result<ExitStatus> {
    let steering = Steering::open(environment, args.change.as_deref(), args.quiet).await?;
    let story = steering.story(&args.story)?;
    steering.ask(vec![Wish::Skip { story }]).await
}
