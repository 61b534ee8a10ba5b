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
mod session;
mod setup;
mod start;
mod status;
mod stop;
mod undo;

use anyhow::Result;

use crate::cli::{Cli, Command, Status};
use crate::config::Environment;
use crate::error::Ending;

/// Does what the command line says.
pub async fn dispatch(cli: Cli) -> Result<Ending> {
    let environment = Environment::capture()?;
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
