//! `git ralph finish`: finishes a run with `--cleanup` or `--keep`, and asks if neither is given.

use anyhow::{Result, bail};

use super::context::Context;
use super::ending::{Asked, ask_completion, finish_commands, say_what_follows};
use super::log::summary;
use super::report::renew_page;
use super::session::{brief, take_up};
use crate::branch::dry_run;
use crate::cli::FinishArgs;
use crate::config::{Environment, Finish};
use crate::error::{ExitStatus, Problem};
use crate::git::Oid;
use crate::names::Names;
use crate::report::output;

/// Finishes a run.
pub async fn run(args: &FinishArgs, environment: Environment) -> Result<ExitStatus> {
    let context = Context::open_to_work(environment).await?;
    let (run, state) = context.open_run(args.change.as_deref())?;
    let name = run.change.clone();
    if args.dry_run {
        let names = Names::new(&name);
        let commands = match (&state.opening, args.mode()) {
            (Some(_), Some(Finish::Cleanup) | None) if state.is_isolated() => {
                dry_run::merge_into_checkout(&names, state.initial.as_ref().map_or("HEAD", Oid::short))
            }
            _ if state.is_isolated() => dry_run::keep_isolated(&names),
            (Some(opening), Some(Finish::Cleanup) | None) => dry_run::cleanup(&names, &opening.original),
            _ => dry_run::keep(&names),
        };
        output::data(&(commands.join("\n") + "\n"));
        return Ok(ExitStatus::Done);
    }
    let interactive = context.environment.interactive;
    if args.mode().is_none() && !interactive {
        let problem = Problem::refused("cleanup or keep? neither is given, and there is no terminal to ask on");
        bail!(finish_commands(&name, &state).into_iter().fold(problem, Problem::hint));
    }
    let mode = match args.mode() {
        Some(mode) => mode,
        None => match ask_completion(&run, &state, &summary(&context, &run, &state).await?).await? {
            Asked::Chosen(mode) => mode,
            Asked::Later { .. } => return Ok(ExitStatus::NotPossible),
            Asked::Interrupted { .. } => return Ok(ExitStatus::Interrupted),
        },
    };
    let mut open = take_up(&context, run, &state, brief(args.quiet)).await?;
    open.finish(mode).await?;
    renew_page(&context, &open.dir).await;
    if !args.quiet {
        say_what_follows(mode, &open.state, &name);
    }
    Ok(ExitStatus::Done)
}
