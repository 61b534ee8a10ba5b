//! Reads `gemini -o stream-json`. The final message is the assistant's text after the last tool call; the prompt is echoed.

use super::stream_state::StreamState;
use super::{Dialect, Entry, fault, say_text, say_tool};
use crate::agent::{Said, Usage};
use crate::json::Json;

pub(super) const DIALECT: Dialect = Dialect { body: "content", outcome: Some(br#"{"type":"tool_result""#), line };

fn line(state: &mut StreamState, Entry { kind, body, line }: Entry<'_>, say: &mut dyn FnMut(Said<'_>)) {
    match kind {
        "message" if line.is("role", "assistant") => {
            let text = body.and_then(Json::text).unwrap_or_default();
            if !line.at("delta").is_some_and(Json::is_true) {
                state.goes_on();
            }
            state.says(&text);
            say_text(&text, say);
        }
        "message" => state.starts_over(),
        "tool_result" => state.goes_on(),
        // A warning may come between two pieces of one message and does not separate them.
        "error" => {}
        "tool_use" => {
            state.goes_on();
            say_tool(&line.text_at(&["tool_name"]).unwrap_or_default(), line.at("parameters"), say);
        }
        "result" => {
            if let Some(stats) = line.at("stats") {
                let count = |key| stats.count_at(&[key]);
                state.usage =
                    Usage { input: count("input_tokens"), cached: count("cached"), output: count("output_tokens"), ..Usage::default() };
            }
            if line.is("status", "success") {
                state.ends();
            } else {
                state.fails(fault(None, &line.text_at(&["error", "message"]).unwrap_or("the model's answer was cut off".into())));
            }
        }
        _ => {}
    }
}
