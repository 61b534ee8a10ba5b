//! The reporter without a terminal: prints plain lines to standard error.

use super::words::activity_lines;
use super::{Tone, event_lines, output};
use crate::run::{Activity, Record, Reporter, RunState};

/// How much is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Warnings and errors.
    Quiet,
    /// All events.
    Normal,
    /// Also the agent's output.
    Verbose,
}

/// Reports events as lines.
#[derive(Debug)]
pub struct Lines {
    verbosity: Verbosity,
    said: std::cell::RefCell<String>,
}

impl Lines {
    /// Creates a reporter with the given verbosity.
    #[must_use]
    pub fn new(verbosity: Verbosity) -> Self {
        Lines { verbosity, said: std::cell::RefCell::default() }
    }
}

impl Reporter for Lines {
    fn event(&self, record: &Record, state: &RunState) {
        for line in event_lines(&record.event, state) {
            if self.verbosity > Verbosity::Quiet || line.tone.is_urgent() {
                output::message(&line);
            }
        }
    }

    fn activity(&self, activity: &Activity<'_>) {
        for line in activity_lines(activity).iter().filter(|line| self.verbosity > Verbosity::Quiet || line.tone == Tone::Warning) {
            output::message(line);
        }
        if self.verbosity < Verbosity::Verbose {
            return;
        }
        let Some(text) = said_text(activity) else { return };
        let mut said = self.said.borrow_mut();
        if *said != text {
            output::message(&super::Line::new(Tone::Plain, text.clone()));
            *said = text;
        }
    }
}

/// What the agent says or does, as a line.
pub(super) fn said_text(activity: &Activity<'_>) -> Option<String> {
    match activity {
        Activity::Said { story, line } if !line.is_empty() => Some(format!("{story}| {}", super::clean(line))),
        Activity::Did { story, tool, target } => Some(format!("{story}> {}", super::clean(&format!("{tool} {target}")))),
        Activity::Planned { .. }
        | Activity::Working { .. }
        | Activity::Heard { .. }
        | Activity::Said { .. }
        | Activity::Waiting { .. }
        | Activity::WaitingForRunner { .. }
        | Activity::Begun { .. }
        | Activity::CallbackFailed { .. }
        | Activity::SourceNotCarried { .. }
        | Activity::Landing { .. }
        | Activity::SettingUp { .. }
        | Activity::NotCopied { .. }
        | Activity::SourceEdited { .. }
        | Activity::GateStarted { .. } => None,
    }
}
