//! git-ralph lets an AI coding agent work through a change, story by story and unattended, while git keeps every step.
//!
//! # Theory of operation
//!
//! **An attempt is a transaction on the repository**: git-ralph either lands it as a checkpoint commit or rolls it back. In both cases no
//! work of the user or the agent is lost. The rest of the design keeps this true when an agent does whatever it likes to the repository,
//! and when the machine loses power at any moment.
//!
//! [`run::Event`] is the central type: a past fact, plain data. The [`run::Journal`] stores events, [`run::RunState`] is a fold of them,
//! and reporters render them. The state machine ([`run::RunState::next`]) looks at the state and offers steps. The orchestrator performs
//! the steps and turns their results into events. An intention is in the journal before git-ralph acts on it. So a process that finds the
//! journal of a killed one knows which step may be half done, and every half-done step can be repeated.
//!
//! [`branch`] manages the run's branch and refs. [`workspace`] manages files on the disk: the directory that an attempt works in. Both
//! trust recorded object ids and a private index, and never HEAD or the index that the agent may have touched.

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
pub mod sandbox_program;
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

/// Parses the command line, runs the command and returns its exit status.
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
            // A question that was withdrawn still blocks a thread; do not wait for it.
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
    // This is for errors that occurred before the configuration was read. Otherwise the configuration has already set the style.
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
