//! The result of `git ralph doctor`: one line per check, and the command that fixes a failed one.

use std::fmt::Write as _;

use serde::Serialize;

use super::clean;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// As it should be.
    Green,
    /// Worth knowing, but not a problem.
    Note,
    /// `start` would fail.
    Red,
}

/// One check.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// The result.
    pub health: Health,
    /// What was found.
    pub found: String,
    /// The command that fixes it.
    pub fix: Option<String>,
}

impl Check {
    /// Creates a check without a fix.
    pub fn new(name: impl Into<String>, health: Health, found: impl Into<String>) -> Self {
        Check { name: name.into(), health, found: found.into(), fix: None }
    }

    /// Adds the command that fixes the problem.
    #[must_use]
    pub fn fixed_by(mut self, command: impl Into<String>) -> Self {
        self.fix = Some(command.into());
        self
    }
}

/// The checks for people.
#[must_use]
pub fn doctor_text(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let mark = match check.health {
            Health::Green => console::style("ok").green(),
            Health::Note => console::style("--").dim(),
            Health::Red => console::style("!!").red(),
        };
        let _ = writeln!(text, "{mark}  {:<width$}  {}", check.name, clean(&check.found));
        if let Some(fix) = &check.fix {
            let _ = writeln!(text, "    {:<width$}  fix: {}", "", clean(fix));
        }
    }
    text
}

/// The checks for programs.
#[must_use]
pub fn doctor_json(checks: &[Check]) -> String {
    super::output::json(&serde_json::json!({ "schema": 1, "checks": checks }))
}
