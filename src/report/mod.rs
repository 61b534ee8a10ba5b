//! Telling: events into words, on a terminal, as plain lines or as JSON; and the only place that asks.
//!
//! Never decides anything.

pub mod ask;
mod bell;
mod clean;
mod config;
mod doctor;
mod json;
mod kept;
mod lines;
mod log;
pub mod output;
mod prune;
mod status;
mod terminal;
mod transcript;
mod words;

pub use bell::{Screen, ring};
pub use clean::clean;
pub use config::{config_json, config_text};
pub use doctor::{Check, Health, doctor_json, doctor_text};
pub use json::Json;
pub use kept::{Kept, Spot, quoted};
pub use lines::{Lines, Verbosity};
pub use log::{AttemptView, Chronicle, LogView, RunView, attempt_words, log_json, log_text};
pub use prune::{prune_text, prune_words};
pub use status::{StatusView, StoryView, state_styled, status_json, status_text};
pub use terminal::Terminal;
pub use transcript::{AttemptPage, attempt_json, attempt_text, said_line};
pub use words::{Line, Tone, end_words, event_lines, head_words};

use jiff::Timestamp;

use crate::run::{CallbackFailure, Record, RunState};
use crate::story::StoryId;

/// What happens between two events: worth showing, not worth keeping.
#[derive(Debug)]
pub enum Activity<'a> {
    /// The stories were read.
    Planned {
        /// How many are done.
        done: usize,
        /// Of how many.
        total: usize,
    },
    /// The agent has printed something; this is its last line.
    Said {
        /// For which story.
        story: &'a StoryId,
        /// As it wrote it.
        line: &'a str,
    },
    /// The agent uses a tool.
    Did {
        /// For which story.
        story: &'a StoryId,
        /// Its name.
        tool: &'a str,
        /// What it is used on.
        target: &'a str,
    },
    /// No agent is started before that time.
    Waiting {
        /// After which story's attempt.
        story: &'a StoryId,
        /// The time.
        until: Timestamp,
    },
    /// A command of the user's that was told of an event did not do well.
    CallbackFailed {
        /// Which, and how.
        failure: &'a CallbackFailure,
    },
    /// A gate is running.
    GateStarted {
        /// For which story.
        story: &'a StoryId,
        /// The command.
        command: &'a str,
    },
}

/// Somebody who is told.
pub trait Reporter {
    /// Something has happened.
    fn event(&self, record: &Record, state: &RunState);

    /// Something is going on.
    fn activity(&self, activity: &Activity<'_>);

    /// Nothing more will come: the screen is free for others.
    fn rest(&self) {}
}

/// Tells several.
pub struct Tee(pub Vec<Box<dyn Reporter>>);

impl Reporter for Tee {
    fn event(&self, record: &Record, state: &RunState) {
        self.0.iter().for_each(|reporter| reporter.event(record, state));
    }

    fn activity(&self, activity: &Activity<'_>) {
        self.0.iter().for_each(|reporter| reporter.activity(activity));
    }

    fn rest(&self) {
        self.0.iter().for_each(|reporter| reporter.rest());
    }
}
