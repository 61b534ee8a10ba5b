//! Reads `goose run --output-format stream-json`. The final message is the assistant's last message before `complete`.

use super::stream_state::StreamState;
use super::{Dialect, Entry, fault, say_text, say_tool};
use crate::agent::{Said, Usage};
use crate::json::Json;

/// The beginning of an error message of goose itself, after which it still exits with 0.
const ERROR: &str = "Ran into this error";

pub(super) const DIALECT: Dialect = Dialect { body: "message", outcome: None, line };

fn line(state: &mut StreamState, Entry { kind, body, line }: Entry<'_>, say: &mut dyn FnMut(Said<'_>)) {
    match kind {
        "message" => {
            let Some(message) = body else { return };
            let id = message.text_at(&["id"]).unwrap_or_default();
            // A message may come in several pieces with the same id.
            if id.is_empty() {
                state.starts_over();
            } else if state.id != id || !message.is("role", "assistant") {
                state.goes_on();
            }
            state.id = id.into_owned();
            if message.is("role", "assistant") {
                assistant(state, message, say);
            }
        }
        "complete" => {
            let count = |key| line.count_at(&[key]);
            let total = count("total_tokens");
            // Older versions report only a total.
            let input = if line.at("input_tokens").is_some() { count("input_tokens") } else { total };
            state.usage = Usage { input, output: count("output_tokens"), ..Usage::default() };
            state.ends();
        }
        "error" => state.fails(fault(None, &line.text_at(&["error"]).unwrap_or_default())),
        _ => {}
    }
}

fn assistant(state: &mut StreamState, message: Json<'_>, say: &mut dyn FnMut(Said<'_>)) {
    let Some(content) = message.at("content") else { return };
    // Messages of the model have an id, messages of goose itself do not.
    let own = state.id.is_empty();
    content.each(|part| match part.text_at(&["type"]).as_deref() {
        Some("text") => {
            let text = part.text_at(&["text"]).unwrap_or_default();
            if own && text.starts_with(ERROR) {
                let words = text.split_once(": ").map_or(&*text, |(_, words)| words);
                state.fails(fault(None, words.split("\n\n").next().unwrap_or_default()));
            } else {
                state.says(&text);
            }
            say_text(&text, say);
        }
        Some("toolRequest") => {
            state.goes_on();
            let call = part.find(&["toolCall", "value"]);
            let name = call.and_then(|call| call.text_at(&["name"])).unwrap_or_default();
            say_tool(&name, call.and_then(|call| call.at("arguments")), say);
        }
        _ => {}
    });
}
