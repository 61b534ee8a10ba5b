//! One attempt as a page: what came of it, what the agent said and did, what its gates printed.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::secrets::{masked_document, masked_text};
use super::{AttemptView, attempt_words, clean};
use crate::story::StoryId;

/// Everything that `log --attempt` shows.
#[derive(Debug)]
pub struct AttemptPage<'a> {
    /// The story.
    pub story: &'a StoryId,
    /// What came of it.
    pub view: &'a AttemptView,
    /// Whether the run is at work.
    pub running: bool,
    /// What the agent said and did, a line each, as [`said_line`] has it.
    pub said: Vec<String>,
    /// The end of its standard error.
    pub errors: String,
    /// What each gate printed, the last part of it.
    pub gates: Vec<String>,
    /// The same of the gates that ran on the merge with the branch, before it landed.
    pub merge_gates: Vec<String>,
}

/// A line of the agent's own, or the use of a tool.
#[must_use]
pub fn said_line(tool: Option<&str>, text: &str) -> String {
    match tool {
        Some(tool) => clean(format!("> {tool} {text}").trim_end()),
        None => clean(text),
    }
}

/// The page for people, with its secrets masked.
#[must_use]
pub fn attempt_text(page: &AttemptPage<'_>) -> String {
    masked_text(&whole_text(page))
}

fn whole_text(page: &AttemptPage<'_>) -> String {
    let agent = if page.view.agent.is_empty() { String::new() } else { format!(" by {}", clean(&page.view.agent)) };
    let head = format!("{}{agent}: {}", page.story, attempt_words(page.view, page.running));
    let mut text = format!("{}\n\n", console::style(head).bold());
    for line in &page.said {
        match line.starts_with("> ") {
            true => writeln!(text, "{}", console::style(line).cyan()),
            false => writeln!(text, "{line}"),
        }
        .unwrap_or_default();
    }
    let mut section = |name: &str, body: &str| {
        if !body.trim().is_empty() {
            let _ = writeln!(text, "\n{}", console::style(name).bold());
            for line in body.lines() {
                let _ = writeln!(text, "{}", clean(line));
            }
        }
    };
    section("standard error", &page.errors);
    for (number, gate) in page.gates.iter().enumerate() {
        section(&format!("gate {}", number + 1), gate);
    }
    for (number, gate) in page.merge_gates.iter().enumerate() {
        section(&format!("gate {} on the merge", number + 1), gate);
    }
    text
}

/// The page for programs, with its secrets masked.
#[must_use]
pub fn attempt_json(page: &AttemptPage<'_>) -> Value {
    masked_document(&json!({
        "schema": 1,
        "story": page.story,
        "attempt": page.view,
        "running": page.running,
        "said": page.said,
        "standard-error": page.errors,
        "gates": page.gates,
        "merge-gates": page.merge_gates,
    }))
}
