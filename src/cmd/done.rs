//! `git ralph done`: marks a story as done by hand.

use anyhow::{Result, bail};

use super::steering::Steering;
use crate::cli::Done;
use crate::config::Environment;
use crate::error::ExitStatus;
use crate::run::Wish;

/// Marks a story as done.
pub async fn run(args: Done, environment: Environment) -> Result<ExitStatus> {
    let steering = Steering::open(environment, args.change.as_deref(), args.quiet).await?;
    let story = match &args.story {
        Some(text) => steering.story(text)?,
        None => match &steering.state.meant()[..] {
            [story] => story.clone(),
            [] => bail!(steering.name_a_story("none is named, and none is under way or has failed", "done", &[])),
            several => bail!(steering.name_a_story("none is named, and it could be more than one", "done", several)),
        },
    };
    steering.ask(vec![Wish::Done { story, text: args.message }]).await
}
