//! Reads `codex exec --json`. The final message is the last agent message of a completed turn.

use super::stream_state::StreamState;
use super::{Dialect, Entry, fault, say_text, say_tool};
use crate::agent::{Said, Usage};
use crate::json::Json;

pub(super) const DIALECT: Dialect = Dialect { body: "item", outcome: None, line };

fn line(state: &mut StreamState, Entry { kind, body, line }: Entry<'_>, say: &mut dyn FnMut(Said<'_>)) {
    match kind {
        // Earlier lines belong to another thread or turn.
        "thread.started" | "turn.started" => {
            state.forgets_ids();
            state.starts_over();
        }
        "item.started" if body.is_some_and(is_work) => {
            works_on(state, body);
            state.goes_on();
        }
        "item.updated" if body.is_some_and(is_work) => works_on(state, body),
        "item.completed" => {
            if let Some(item) = body {
                completed(state, item, say);
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
                state.usage = state.usage.plus(&used);
            }
            state.ends();
        }
        "turn.failed" => state.fails(fault(None, &line.text_at(&["error", "message"]).unwrap_or_default())),
        // This is not the end: codex reports the error and retries by itself.
        "error" => state.tries_again(fault(None, &line.text_at(&["message"]).unwrap_or_default())),
        _ => {}
    }
}

/// Whether an item is work. A to-do list is not, because codex updates it until the very end of a turn.
fn is_work(item: Json<'_>) -> bool {
    !matches!(item.text_at(&["type"]).as_deref(), Some("agent_message" | "reasoning" | "todo_list" | "error") | None)
}

/// A new item shows that the agent is working. At the end of a turn codex closes the open items, which shows nothing new.
fn works_on(state: &mut StreamState, item: Option<Json<'_>>) {
    let id = item.and_then(|item| item.text_at(&["id"])).unwrap_or_default();
    if id.is_empty() || state.is_new(&id) {
        state.goes_on();
    }
}

fn completed(state: &mut StreamState, item: Json<'_>, say: &mut dyn FnMut(Said<'_>)) {
    match item.text_at(&["type"]).as_deref() {
        Some("agent_message") => {
            let text = item.text_at(&["text"]).unwrap_or_default();
            state.goes_on();
            state.says(&text);
            say_text(&text, say);
        }
        // A warning (for instance about an unknown model), or the agent's reasoning or to-do list.
        Some("error" | "reasoning" | "todo_list") => {}
        Some("file_change") => {
            works_on(state, Some(item));
            if let Some(changes) = item.at("changes") {
                changes.each(|change| say_tool("edit", Some(change), say));
            }
        }
        Some(kind) => {
            works_on(state, Some(item));
            say_tool(kind, Some(item), say);
        }
        None => {}
    }
}
