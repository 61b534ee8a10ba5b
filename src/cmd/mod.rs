//! The commands, one file per command. Each file only connects the other modules.

mod abort;
mod attend;
mod config;
mod context;
mod demo;
mod demo_agent;
mod denied;
mod doctor;
mod done;
mod edit;
mod ending;
mod finish;
mod follow;
mod hint;
mod list;
mod log;
mod new;
mod prune;
mod report;
mod resume;
mod retry;
mod revive;
mod sandbox_choice;
mod session;
mod setup;
mod skip;
mod start;
mod status;
mod steering;
mod stop;
mod undo;
mod usage;
mod worker;

use anyhow::{Context as _, Result, bail};

use crate::cli::{Cli, Command, Status};
use crate::config::Environment;
use crate::error::{ExitStatus, Problem};
use crate::run::child_program;

pub use denied::remedy;
pub use usage::usage_error;

/// The name of a command, if it changes anything. An agent and its gates may call only commands that do not.
fn changing(command: &Command) -> Option<&'static str> {
    match command {
        Command::New(_) => Some("new"),
        Command::Edit(_) => Some("edit"),
        Command::Start(_) => Some("start"),
        Command::Resume(_) => Some("resume"),
        Command::Finish(_) => Some("finish"),
        Command::Abort(_) => Some("abort"),
        Command::Undo(_) => Some("undo"),
        Command::Hint(_) => Some("hint"),
        Command::Skip(_) => Some("skip"),
        Command::Retry(_) => Some("retry"),
        Command::Done(_) => Some("done"),
        Command::Stop(_) => Some("stop"),
        Command::Prune(_) => Some("prune"),
        Command::Setup(_) => Some("setup"),
        // The demo and a worker use their own repositories.
        Command::Demo(_) | Command::DemoAgent { .. } | Command::Worker(_) => None,
        Command::List(_) | Command::Status(_) | Command::Log(_) | Command::Report(_) | Command::Config(_) | Command::Doctor(_) => None,
    }
}

/// Runs the command that the user typed.
pub async fn dispatch(cli: Cli) -> Result<ExitStatus> {
    let environment = Environment::capture().context("cannot find out the current directory")?;
    if let (Some(_), Some(name)) = (environment.get(child_program::MARK), cli.command.as_ref().and_then(changing)) {
        bail!(
            Problem::refused(format!("'git ralph {name}' cannot be called from inside an attempt (RALPH_RUN is set)"))
                .hint("git ralph status")
        );
    }
    match cli.command.unwrap_or(Command::Status(Status::default())) {
        Command::New(args) => new::run(&args, environment).await,
        Command::Edit(args) => edit::run(&args, environment).await,
        Command::List(args) => list::run(&args, environment).await,
        Command::Start(args) => start::run(*args, environment).await,
        Command::Resume(args) => resume::run(*args, environment).await,
        Command::Finish(args) => finish::run(&args, environment).await,
        Command::Abort(args) => abort::run(&args, environment).await,
        Command::Undo(args) => undo::run(&args, environment).await,
        Command::Hint(args) => hint::run(args, environment).await,
        Command::Skip(args) => skip::run(&args, environment).await,
        Command::Retry(args) => retry::run(&args, environment).await,
        Command::Done(args) => done::run(args, environment).await,
        Command::Status(args) => status::run(&args, environment).await,
        Command::Log(args) => log::run(&args, environment).await,
        Command::Report(args) => report::run(&args, environment).await,
        Command::Stop(args) => stop::run(&args, environment).await,
        Command::Prune(args) => prune::run(&args, environment).await,
        Command::Config(args) => config::run(&args, environment).await,
        Command::Doctor(args) => doctor::run(&args, environment).await,
        Command::Setup(args) => setup::run(&args, &environment),
        Command::Demo(args) => demo::run(args, environment).await,
        Command::Worker(args) => worker::run(*args, &environment).await,
        Command::DemoAgent { slowly } => demo_agent::run(&environment, slowly).await,
    }
}
