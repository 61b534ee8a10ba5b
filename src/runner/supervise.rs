//! Supervises a program behind its runner: removes the shim's reports from the output, starts the time limits when the program starts, and
//! determines how the program itself ended.

use std::io;
use std::time::Duration;

use super::Shim;
use super::reports::{Heard, Progress, Reports};
use crate::process::{self, Flow, Place, Program, Stop, Supervised, Watch};

/// A program to start, with or without a runner.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The whole command line, including the runner.
    pub program: Program,
    /// The shim that reports from behind the runner, if there is a runner.
    pub shim: Option<Shim>,
    /// How long the runner may take to start the program.
    pub start_limit: Option<Duration>,
}

impl Launch {
    /// The runner's name if git-ralph had to kill it. A program that it started elsewhere may then still be running.
    #[must_use]
    pub fn left_running(&self, ran: &Supervised) -> Option<&str> {
        self.shim.as_ref().filter(|_| ran.killed).map(Shim::runner)
    }
}

/// Runs a program with `input` on its standard input, passes all output to `sink`, and enforces the time limits.
///
/// # Errors
/// If `sink` fails. The program has then been ended.
pub async fn supervise(
    launch: &Launch,
    input: &[u8],
    watch: Watch,
    stop: &mut Stop,
    mut sink: impl FnMut(Heard<'_>) -> io::Result<Flow>,
) -> io::Result<Supervised> {
    let Some(shim) = &launch.shim else {
        return process::supervise(&launch.program, input, watch, stop, |stream, bytes| sink(Heard::Output(stream, bytes))).await;
    };
    let mut reports = Reports::new(shim);
    let watch = Watch { place: Place::Behind { limit: launch.start_limit }, ..watch };
    let mut ran = process::supervise(&launch.program, input, watch, stop, |stream, bytes| {
        let mut flow = Flow::Going;
        reports.feed(stream, bytes, &mut |heard| sink(heard).map(|next| flow = next))?;
        Ok(match reports.progress {
            Progress::Waiting => Flow::Waiting,
            Progress::Running => flow,
            // After the program's end, the runner is not needed any more.
            Progress::Ended(_) => Flow::Over,
        })
    })
    .await?;
    reports.rest(&mut |heard| sink(heard).map(drop))?;
    ran.exit = reports.exit(ran.exit);
    Ok(ran)
}
