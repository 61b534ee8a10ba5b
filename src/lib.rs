//! git-ralph lets an AI coding agent work through a change, story by story, unattended, while git keeps every step.
//!
//! # Theory of operation
//!
//! **An attempt is a transaction on the repository**: it is either landed as a checkpoint commit or rolled back, and in
//! both cases nothing that anybody wrote is lost. Everything else follows from how that is kept true when an agent
//! does whatever it likes to the repository, and when the machine loses power in the middle.
//!
//! [`run::Event`] is the spine: a past fact, plain data. The [`run::Journal`] stores events, [`run::RunState`] is a
//! fold of them, reporters render them. The machine ([`run::RunState::next`]) looks at the state and offers steps; the
//! orchestrator performs them and turns what came of them into events. What is about to be done is in the
//! journal before it is done, so a process that finds the journal of a killed one knows what may be half-done, and
//! every half-done thing can be done again.
//!
//! What is true is in [`branch`], the run's branch and refs; what is on the disk is in [`workspace`], the directory that an
//! attempt works in. Both trust recorded ids and a private index, never HEAD or the index that the agent may have touched.

pub mod agent;
pub mod branch;
pub mod cli;
mod cmd;
mod complete;
pub mod config;
pub mod cost;
pub mod error;
mod fence;
mod free_name;
pub mod git;
pub mod install;
mod json;
pub mod names;
mod nearest;
mod portable_word;
pub mod process;
mod relocate;
pub mod remote;
pub mod report;
pub mod run;
pub mod runner;
mod safe_read;
mod safe_write;
mod shell_word;
mod stamp;
pub mod story;
pub mod vault;
pub mod worker;
pub mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use error::{ExitStatus, Problem};
use report::output;

/// Parses the command line, does what it says, and turns the ending into an exit status.
pub fn main() -> ExitCode {
    if let Some(answer) = complete::answer() {
        output::data(&answer);
        return ExitCode::from(ExitStatus::Done.code());
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let cli = match cli::Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(cmd::usage_error(&error, &words).code()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ending = match runtime {
        Ok(runtime) => {
            let ending = runtime.block_on(cmd::dispatch(cli));
            // A question that was withdrawn must not keep the process.
            runtime.shutdown_background();
            ending
        }
        Err(error) => Err(error.into()),
    };
    let mut ending = ending.unwrap_or_else(|error| report_error(&error, &words));
    if let Some(trouble) = output::trouble() {
        output::failure("fatal", &format!("cannot write to standard output: {trouble}"), &[]);
        ending = ExitStatus::Fatal;
    }
    ExitCode::from(ending.code())
}

fn report_error(error: &anyhow::Error, words: &[OsString]) -> ExitStatus {
    let words: Vec<String> = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let environment = config::Environment::capture().ok();
    // Where the configuration could be read, this has been settled by it.
    output::set_usual_style(environment.as_ref());
    if let Some(quit) = error.downcast_ref::<run::Quit>() {
        output::failure("error", &format!("{error}"), std::slice::from_ref(&quit.again));
        return ExitStatus::Interrupted;
    }
    let problem = error.chain().find_map(|cause| cause.downcast_ref::<Problem>());
    let (ending, mut hints) = problem.map_or((ExitStatus::Fatal, Vec::new()), |problem| (problem.ending, problem.hints(&words)));
    if hints.is_empty() {
        hints.extend(cmd::remedy(error, environment.as_ref()));
    }
    let label = if ending == ExitStatus::Fatal { "fatal" } else { "error" };
    output::failure(label, &error::words(error), &hints);
    ending
}
