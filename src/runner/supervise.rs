//! A program behind its runner: its output without the shim's reports, its clocks from when it starts, its own way to end.

use std::io;
use std::time::Duration;

use super::Shim;
use super::reports::{Heard, Progress, Reports};
use crate::process::{self, Flow, Place, Program, Stop, Supervised, Watch};

/// A program as it is started: behind a runner, or as it is.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The command line.
    pub program: Program,
    /// What reports from the other side of the runner, if there is one.
    pub shim: Option<Shim>,
    /// How long a runner may take to start the program.
    pub start_limit: Option<Duration>,
}

impl Launch {
    /// The runner that did not end when it was asked to: what it started may still be running.
    #[must_use]
    pub fn left_running(&self, ran: &Supervised) -> Option<&str> {
        self.shim.as_ref().filter(|_| ran.killed).map(Shim::runner)
    }
}

/// Runs a program with `input` on its standard input, hands every piece of output to `sink` and ends it in time.
///
/// # Errors
/// If `sink` fails; the program has been ended then.
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
            // The runner has nothing left to do.
            Progress::Ended(_) => Flow::Over,
        })
    })
    .await?;
    reports.rest(&mut |heard| sink(heard).map(drop))?;
    ran.exit = reports.exit(ran.exit);
    Ok(ran)
}
