//! `git ralph stop`: leaves a request for the loop that is at work in this work tree.

use anyhow::{Context as _, Result, bail};

use super::context::Context;
use crate::cli::StopArgs;
use crate::config::Environment;
use crate::error::{ExitStatus, Problem};
use crate::report::{Line, Tone, output};
use crate::run::StopRequest;

/// Asks a running loop to stop.
pub async fn run(args: &StopArgs, environment: Environment) -> Result<ExitStatus> {
    let context = Context::open(environment).await?;
    let (run, state) = context.open_run(args.change.as_deref())?;
    let Some(owner) = context.store.owner(&state) else {
        bail!(Problem::refused(format!("the run of '{}' is not running", run.change)).hint(format!("git ralph resume {}", run.change)));
    };
    let request = if args.now { StopRequest::Now } else { StopRequest::AfterAttempt };
    request.leave(&run.stop_file()).with_context(|| format!("cannot write {}", run.stop_file().display()))?;
    let when = if args.now { "now" } else { "after the attempt that is under way" };
    if !args.quiet {
        output::message(&Line::new(Tone::Plain, format!("asked process {owner} to stop {when}")));
    }
    Ok(ExitStatus::Done)
}
