//! Output for the user: turns events into text on a terminal, plain lines or JSON. It also contains the only code that asks
//! questions.
//!
//! This module never decides anything.

pub mod ask;
mod bell;
mod block;
mod cells;
mod clean;
mod config;
mod doctor;
mod fitted;
mod go_on;
mod json;
mod kept;
mod keyboard;
mod lines;
mod live_view;
mod log;
mod menu;
pub mod output;
mod page;
mod prune;
mod secrets;
mod status;
mod summary;
mod terminal;
mod transcript;
mod words;

pub use bell::{Screen, ring};
pub use clean::clean;
pub use config::{config_json, config_text};
pub use doctor::{Check, Health, doctor_json, doctor_text};
pub use go_on::go_on_commands;
pub use json::JsonLines;
pub use kept::{CommandPlace, Kept};
pub use keyboard::{Key, Keyboard};
pub use lines::{Lines, Verbosity};
pub use log::{AttemptView, Chronicle, LogView, RunView, attempt_words, log_json, log_text};
pub use page::{
    Findings, History, MARK as REPORT_MARK, Page, Timeline, comparisons, page_html, page_junit, page_markdown, patch_limits, timeline_text,
};
pub use prune::{prune_text, prune_words};
pub use secrets::{Mask, mask_json, masked_words};
pub use status::{StatusView, StoryView, state_styled, status_json, status_text};
pub use summary::{Summary, effort_text, page_text, question_words, run_word, saved_text, summary_text};
pub use terminal::Terminal;
pub use transcript::{AttemptPage, attempt_json, attempt_text, said_line};
pub use words::{Line, Tone, count, end_words, event_lines, head_words, wish_words};

use std::rc::Rc;

use crate::run::{Activity, Live, Record, Reporter, RunState};

/// Passes everything to several reporters.
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

    fn live(&self) -> Option<Rc<dyn Live>> {
        self.0.iter().find_map(|reporter| reporter.live())
    }
}
