//! The reporter for `--json`: prints one event per line to standard output.

use super::output;
use crate::run::{Activity, Record, Reporter, RunState};

/// Reports events as JSON.
#[derive(Debug)]
pub struct JsonLines;

impl Reporter for JsonLines {
    fn event(&self, record: &Record, _: &RunState) {
        if let Ok(line) = serde_json::to_string(record) {
            output::data(&format!("{line}\n"));
        }
    }

    fn activity(&self, _: &Activity<'_>) {}
}
