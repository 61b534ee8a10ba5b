//! One file a command: each wires the parts together and does nothing else.

mod abort;
mod config;
mod context;
mod demo;
mod demo_agent;
mod doctor;
mod finish;
mod follow;
mod list;
mod log;
mod new;
mod prune;
mod resume;
mod revive;
mod session;
mod setup;
mod start;
mod status;
mod stop;
mod undo;

use anyhow::{Result, bail};

use crate::cli::{Cli, Command, Status};
use crate::config::Environment;
use crate::error::{ExitStatus, Problem};
use crate::run::attempt;

/// The name of a command, if it changes something. An agent and its gates may look at their run, and do nothing to it.
fn changing(command: &Command) -> Option<&'static str> {
    match command {
        Command::New(_) => Some("new"),
        Command::Start(_) => Some("start"),
        Command::Resume(_) => Some("resume"),
        Command::Finish(_) => Some("finish"),
        Command::Abort(_) => Some("abort"),
        Command::Undo(_) => Some("undo"),
        Command::Stop(_) => Some("stop"),
        Command::Prune(_) => Some("prune"),
        Command::Setup(_) => Some("setup"),
        // The demo has a repository of its own.
        Command::Demo(_) | Command::DemoAgent => None,
        Command::List(_) | Command::Status(_) | Command::Log(_) | Command::Config(_) | Command::Doctor(_) => None,
    }
}

/// Does what the command line says.
pub async fn dispatch(cli: Cli) -> Result<ExitStatus> {
    let environment = Environment::capture()?;
    if let (Some(_), Some(name)) = (environment.get(attempt::MARK), cli.command.as_ref().and_then(changing)) {
        bail!(
            Problem::refused(format!("'git ralph {name}' cannot be called from inside an attempt (RALPH_RUN is set)"))
                .hint("git ralph status")
        );
    }
    match cli.command.unwrap_or(Command::Status(Status::default())) {
        Command::New(args) => new::run(&args, environment).await,
        Command::List(args) => list::run(&args, environment).await,
        Command::Start(args) => start::run(*args, environment).await,
        Command::Resume(args) => resume::run(*args, environment).await,
        Command::Finish(args) => finish::run(&args, environment).await,
        Command::Abort(args) => abort::run(&args, environment).await,
        Command::Undo(args) => undo::run(&args, environment).await,
        Command::Status(args) => status::run(&args, environment).await,
        Command::Log(args) => log::run(&args, environment).await,
        Command::Stop(args) => stop::run(&args, environment).await,
        Command::Prune(args) => prune::run(&args, environment).await,
        Command::Config(args) => config::run(&args, environment).await,
        Command::Doctor(args) => doctor::run(&args, environment).await,
        Command::Setup(args) => setup::run(&args, &environment),
        Command::Demo(args) => demo::run(args, environment).await,
        Command::DemoAgent => demo_agent::run(&environment).await,
    }
}
