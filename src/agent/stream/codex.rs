//! `codex exec --json`: the final message is the last agent message of a completed turn.

use super::talk::Talk;
use super::{Dialect, Entry, fault, say_text, say_tool};
use crate::agent::{Said, Usage};
use crate::json::Json;

pub(super) const DIALECT: Dialect = Dialect { body: "item", outcome: None, line };

fn line(talk: &mut Talk, Entry { kind, body, line }: Entry<'_>, say: &mut dyn FnMut(Said<'_>)) {
    match kind {
        "turn.started" => talk.starts_over(),
        "item.started" if body.is_some_and(is_work) => talk.goes_on(),
        "item.completed" => {
            if let Some(item) = body {
                completed(talk, item, say);
            }
        }
        "turn.completed" => {
            if let Some(used) = line.at("usage") {
                let count = |key| used.count_at(&[key]);
                let used = Usage {
                    input: count("input_tokens"),
                    cached: count("cached_input_tokens"),
                    output: count("output_tokens"),
                    ..Usage::default()
                };
                talk.usage = talk.usage.plus(&used);
            }
            talk.ends();
        }
        "turn.failed" => talk.fails(fault(None, &line.text_at(&["error", "message"]).unwrap_or_default())),
        // Not the end: it tries again by itself, and says so.
        "error" => talk.tries_again(fault(None, &line.text_at(&["message"]).unwrap_or_default())),
        _ => {}
    }
}

/// Whether an item is something that is done. A list of what is to do is kept up to date until the very end of a turn.
fn is_work(item: Json<'_>) -> bool {
    !matches!(item.text_at(&["type"]).as_deref(), Some("agent_message" | "reasoning" | "todo_list" | "error") | None)
}

fn completed(talk: &mut Talk, item: Json<'_>, say: &mut dyn FnMut(Said<'_>)) {
    match item.text_at(&["type"]).as_deref() {
        Some("agent_message") => {
            let text = item.text_at(&["text"]).unwrap_or_default();
            talk.goes_on();
            talk.says(&text);
            say_text(&text, say);
        }
        // A warning, for instance about a model that it does not know; what it is thinking.
        Some("error" | "reasoning" | "todo_list") => {}
        // It went on when it was started; at the end of a turn what is still under way is closed.
        Some("file_change") => {
            if let Some(changes) = item.at("changes") {
                changes.each(|change| say_tool("edit", Some(change), say));
            }
        }
        Some(kind) => say_tool(kind, Some(item), say),
        None => {}
    }
}
