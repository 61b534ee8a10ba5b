//! Plain lines on standard error: what there is without a terminal.

use super::words::callback_words;
use super::{Activity, Reporter, Tone, event_lines, output};
use crate::run::{Record, RunState};

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Warnings and errors.
    Quiet,
    /// What happens.
    Normal,
    /// Also what the agent says.
    Verbose,
}

/// Tells events as lines.
#[derive(Debug)]
pub struct Lines {
    verbosity: Verbosity,
    said: std::cell::RefCell<String>,
}

impl Lines {
    /// With the given verbosity.
    #[must_use]
    pub fn new(verbosity: Verbosity) -> Self {
        Lines { verbosity, said: std::cell::RefCell::default() }
    }
}

impl Reporter for Lines {
    fn event(&self, record: &Record, state: &RunState) {
        for line in event_lines(&record.event, state) {
            if self.verbosity > Verbosity::Quiet || line.tone != Tone::Plain {
                output::message(&line);
            }
        }
    }

    fn activity(&self, activity: &Activity<'_>) {
        if let Activity::CallbackFailed { failure } = activity {
            output::message(&super::Line::new(Tone::Warning, callback_words(failure)));
        }
        if self.verbosity < Verbosity::Verbose {
            return;
        }
        let text = match activity {
            Activity::Said { story, line } if !line.is_empty() => format!("{story}| {}", super::clean(line)),
            Activity::Did { story, tool, target } => format!("{story}> {}", super::clean(&format!("{tool} {target}"))),
            _ => return,
        };
        let mut said = self.said.borrow_mut();
        if *said != text {
            output::message(&super::Line::new(Tone::Plain, text.clone()));
            *said = text;
        }
    }
}
