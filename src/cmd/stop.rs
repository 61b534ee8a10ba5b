//! `git ralph stop`: leaves a stop request for the loop in this work tree.

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
    let request = if args.now { StopRequest::Now } else { StopRequest::AfterAttempt };
    let (process, what) = if let Some(owner) = context.store.owner(&state) {
        request.leave(&run.stop_file()).with_context(|| format!("cannot write {}", run.stop_file().display()))?;
        (owner, if args.now { "stop now" } else { "stop after the current attempt" })
    } else if let Some(asker) = run.asker() {
        run.withdraw_question(asker).with_context(|| format!("cannot write to {}", run.path().display()))?;
        (asker.pid, "withdraw its question; the run stays open")
    } else {
        bail!(Problem::refused(format!("the run of '{}' is not running", run.change)).hint(format!("git ralph resume {}", run.change)));
    };
    if !args.quiet {
        output::message(&Line::new(Tone::Plain, format!("asked process {process} to {what}")));
    }
    Ok(ExitStatus::Done)
}
