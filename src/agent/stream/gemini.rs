//! `gemini -o stream-json`: the final message is what the assistant said after the last tool; the prompt is echoed.

use super::talk::Talk;
use super::{Dialect, Entry, fault, say_text, say_tool};
use crate::agent::{Said, Usage};
use crate::json::Json;

pub(super) const DIALECT: Dialect = Dialect { body: "content", outcome: Some(br#"{"type":"tool_result""#), line };

fn line(talk: &mut Talk, Entry { kind, body, line }: Entry<'_>, say: &mut dyn FnMut(Said<'_>)) {
    match kind {
        "message" if line.is("role", "assistant") => {
            let text = body.and_then(Json::text).unwrap_or_default();
            if !line.at("delta").is_some_and(Json::is_true) {
                talk.goes_on();
            }
            talk.says(&text);
            say_text(&text, say);
        }
        "message" => talk.starts_over(),
        "tool_result" => talk.goes_on(),
        // A warning between two pieces of a message.
        "error" => talk.ends_part(),
        "tool_use" => {
            talk.goes_on();
            say_tool(&line.text_at(&["tool_name"]).unwrap_or_default(), line.at("parameters"), say);
        }
        "result" => {
            if let Some(stats) = line.at("stats") {
                let count = |key| stats.count_at(&[key]);
                talk.usage =
                    Usage { input: count("input_tokens"), cached: count("cached"), output: count("output_tokens"), ..Usage::default() };
            }
            if line.is("status", "success") {
                talk.ends();
            } else {
                talk.fails(fault(None, &line.text_at(&["error", "message"]).unwrap_or("the model's answer was cut off".into())));
            }
        }
        _ => {}
    }
}
