//! `git ralph retry`: resets the retries of a story.

use anyhow::{Result, bail};

use super::steering::Steering;
use crate::cli::Retry;
use crate::config::Environment;
use crate::error::{ExitStatus, Problem};
use crate::run::Wish;

/// Resets the retries of one story, or of all that have failed.
pub async fn run(args: &Retry, environment: Environment) -> Result<ExitStatus> {
    let steering = Steering::open(environment, args.change.as_deref(), args.quiet).await?;
    let stories = match &args.story {
        Some(text) => vec![steering.story(text)?],
        None => steering.state.troubled(),
    };
    if stories.is_empty() {
        bail!(Problem::refused("no story has failed and none is waiting for you").hint(steering.status()));
    }
    steering.ask(stories.into_iter().map(|story| Wish::Retry { story }).collect()).await
}
