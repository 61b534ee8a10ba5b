//! Defines the command line with clap, one file per command, and nothing else.

mod abort;
mod config;
mod demo;
mod doctor;
mod done;
mod edit;
mod finish;
mod hint;
mod list;
mod log;
mod new;
mod prune;
mod report;
mod resume;
mod retry;
mod run_options;
mod setting_options;
mod setup;
mod skip;
mod start;
mod status;
mod stop;
mod undo;
mod worker;

use clap::{Parser, Subcommand};

use crate::config::whole_number;

pub use abort::Abort;
pub use config::ConfigArgs;
pub use demo::Demo;
pub use doctor::Doctor;
pub use done::Done;
pub use edit::Edit;
pub use finish::FinishArgs;
pub use hint::Hint;
pub use list::List;
pub use log::LogArgs;
pub use new::New;
pub use prune::Prune;
pub use report::{ReportArgs, ReportFormat};
pub use resume::Resume;
pub use retry::Retry;
pub use run_options::RunOptions;
pub use setup::Setup;
pub use skip::Skip;
pub use start::Start;
pub use status::Status;
pub use stop::StopArgs;
pub use undo::UndoArgs;
pub use worker::WorkerArgs;

/// Lets an AI coding agent work through a change, story by story, while git keeps every step.
#[derive(Debug, Parser)]
#[command(name = "git-ralph", bin_name = "git ralph", version, disable_help_subcommand = false)]
pub struct Cli {
    /// The command; `status` if none is given.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write the file of a new change
    New(New),
    /// Open the file of a change in your editor
    Edit(Edit),
    /// List the changes of this repository and the state of each
    List(List),
    /// Start a run
    Start(Box<Start>),
    /// Continue an open run, after a stop, a crash or a kill
    Resume(Box<Resume>),
    /// Finish a run, with the result uncommitted (--cleanup) or on its branch (--keep)
    Finish(FinishArgs),
    /// Give up the run and restore branch, work tree and index to their state before `start`
    Abort(Abort),
    /// Remove the last checkpoint and save it under a ref
    Undo(UndoArgs),
    /// Give advice to the next attempts of a story
    Hint(Hint),
    /// Leave a story out
    Skip(Skip),
    /// Give a story a fresh set of retries
    Retry(Retry),
    /// Mark a story as done by hand, with your edits as its checkpoint
    Done(Done),
    /// Show the state of the run and what to type next
    Status(Status),
    /// Show the history of a run and the work saved from failed attempts
    Log(LogArgs),
    /// Make a page about a run: what happened, when, at what cost, and with what result
    Report(ReportArgs),
    /// Ask a running loop in another terminal to stop
    Stop(StopArgs),
    /// Delete the saved work and the records of finished and aborted runs
    Prune(Prune),
    /// List every setting, its value and where it was set
    Config(ConfigArgs),
    /// Check that everything a run needs is in place, and say how to fix what is not
    Doctor(Doctor),
    /// Install the manual and shell completion
    Setup(Setup),
    /// Show the whole loop in a scratch repository, with a built-in scripted agent
    Demo(Demo),
    /// Run one attempt's agent on this machine, for a git-ralph on another one
    Worker(Box<WorkerArgs>),
    /// The scripted agent of the demo
    #[command(hide = true)]
    DemoAgent {
        /// Take time between two steps
        #[arg(long)]
        slowly: bool,
    },
}

/// A number that counts from 1.
fn count(text: &str) -> Result<u32, String> {
    whole_number(text, 1)
}
