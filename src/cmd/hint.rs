//! `git ralph hint`: gives advice for the next attempts at a story.

use anyhow::{Context as _, Result, bail};

use super::steering::Steering;
use crate::cli::Hint;
use crate::config::Environment;
use crate::error::{ExitStatus, Problem};
use crate::run::Wish;

/// Adds a hint to a story.
pub async fn run(args: Hint, environment: Environment) -> Result<ExitStatus> {
    let text = match args.message {
        Some(text) => text,
        None if environment.interactive => {
            bail!(Problem::usage("the hint is missing: give it with -m or on standard input").hint("git ralph hint -m '<text>'"))
        }
        None => tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin())).await?.context("cannot read the hint")?,
    };
    if text.trim().is_empty() {
        bail!(Problem::usage("the hint is empty").hint("git ralph hint -m '<text>'"));
    }
    if text.trim() == "<answer>" {
        bail!(Problem::usage("'<answer>' is a placeholder: replace it with your answer").hint("git ralph hint -m '<text>'"));
    }
    let steering = Steering::open(environment, args.change.as_deref(), args.quiet).await?;
    let story = args.story.map(|story| steering.story(&story)).transpose()?;
    steering.ask(vec![Wish::Hint { story, text: text.trim().to_owned(), now: args.now }]).await
}
