//! One attempt in detail, for `git ralph log --attempt`: its outcome, the agent's output, and the output of its gates.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::secrets::{masked_document, masked_text};
use super::{AttemptView, attempt_words, clean};
use crate::story::StoryId;

/// Everything that `git ralph log --attempt` shows.
#[derive(Debug)]
pub struct AttemptPage<'a> {
    /// The story.
    pub story: &'a StoryId,
    /// The outcome of the attempt.
    pub view: &'a AttemptView,
    /// Whether a loop is working on the run.
    pub running: bool,
    /// The agent's output and tool calls, one line each, as formatted by [`said_line`].
    pub said: Vec<String>,
    /// The end of the agent's standard error.
    pub errors: String,
    /// The end of each gate's output.
    pub gates: Vec<String>,
    /// The same for the gates that ran on the merge with the branch, before the landing.
    pub merge_gates: Vec<String>,
}

/// A line of the agent's text, or a tool call.
#[must_use]
pub fn said_line(tool: Option<&str>, text: &str) -> String {
    match tool {
        Some(tool) => clean(format!("> {tool} {text}").trim_end()),
        None => clean(text),
    }
}

/// The attempt for people, with secrets masked.
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

/// The attempt for programs, with secrets masked.
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
