//! `copilot --output-format json`: the final message is the last one of the assistant that asks for no tool.

use super::talk::Talk;
use super::{Dialect, Entry, fault, say_text, say_tool};
use crate::agent::Said;
use crate::json::Json;

pub(super) const DIALECT: Dialect = Dialect { body: "data", outcome: None, line };

fn line(talk: &mut Talk, Entry { kind, body, line }: Entry<'_>, say: &mut dyn FnMut(Said<'_>)) {
    let Some(data) = body else {
        if kind == "result" {
            result(talk, line);
        }
        return;
    };
    match kind {
        "assistant.message" => {
            let text = data.text_at(&["content"]).unwrap_or_default();
            say_text(&text, say);
            // With a parent it is the word of a helper.
            if data.text_at(&["parentToolCallId"]).is_some() {
                return;
            }
            talk.goes_on();
            // With a tool to use it is not the last word.
            if !data.at("toolRequests").is_some_and(Json::has_items) {
                talk.says(&text);
            }
        }
        "assistant.turn_start" => talk.starts_over(),
        "tool.execution_start" => {
            talk.goes_on();
            say_tool(&data.text_at(&["toolName"]).unwrap_or_default(), data.at("arguments"), say);
        }
        "model.call_failure" => talk.tries_again(fault(data.at("statusCode").and_then(Json::count), "")),
        "session.error" => {
            let message = data.text_at(&["message"]).unwrap_or_default();
            let status = data.at("statusCode").and_then(Json::count).or_else(|| message.contains("prompt as too long").then_some(400));
            talk.fails(fault(status, &message));
        }
        _ => {}
    }
}

fn result(talk: &mut Talk, line: Json<'_>) {
    match line.at("exitCode").and_then(Json::count) {
        Some(0) => talk.ends(),
        _ if talk.has_failed() => {}
        _ => talk.fails(fault(None, "ended with an error")),
    }
}
