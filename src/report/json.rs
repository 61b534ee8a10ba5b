//! One event a line on standard output.

use super::{Activity, Reporter, output};
use crate::run::{Record, RunState};

/// Tells events as JSON.
#[derive(Debug)]
pub struct Json;

impl Reporter for Json {
    fn event(&self, record: &Record, _: &RunState) {
        if let Ok(line) = serde_json::to_string(record) {
            output::data(&format!("{line}\n"));
        }
    }

    fn activity(&self, _: &Activity<'_>) {}
}
