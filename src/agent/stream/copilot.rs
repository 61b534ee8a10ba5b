//! Reads `copilot --output-format json`. The final message is the assistant's last message that requests no tool.

use std::borrow::Cow;

use super::stream_state::StreamState;
use super::{Dialect, Entry, fault, say_text, say_tool};
use crate::agent::Said;
use crate::json::Json;

pub(super) const DIALECT: Dialect = Dialect { body: "data", outcome: None, line };

fn line(state: &mut StreamState, Entry { kind, body, line }: Entry<'_>, say: &mut dyn FnMut(Said<'_>)) {
    let Some(data) = body else {
        if kind == "result" {
            result(state, line);
        }
        return;
    };
    if is_helper(line, data) {
        return;
    }
    match kind {
        "assistant.message" => {
            let text = data.text_at(&["content"]).unwrap_or_default();
            say_text(&text, say);
            state.goes_on();
            // A message that requests a tool is not the final one.
            if !data.at("toolRequests").is_some_and(Json::has_items) {
                state.says(&text);
            }
        }
        "assistant.turn_start" => state.starts_over(),
        "tool.execution_start" => {
            state.goes_on();
            say_tool(&data.text_at(&["toolName"]).unwrap_or_default(), data.at("arguments"), say);
        }
        "model.call_failure" => state.tries_again(fault(data.at("statusCode").and_then(Json::count), "")),
        "session.error" => {
            let message = data.text_at(&["message"]).unwrap_or_default();
            let status = data.at("statusCode").and_then(Json::count).or_else(|| message.contains("prompt as too long").then_some(400));
            state.fails(fault(status, &message));
        }
        _ => {}
    }
}

/// Whether a line comes from a sub-agent. The envelope names it; older versions name the tool call that it works for.
fn is_helper(line: Json<'_>, data: Json<'_>) -> bool {
    let named = |name: Option<Cow<'_, str>>| name.is_some_and(|name| !name.is_empty());
    named(line.text_at(&["agentId"])) || named(data.text_at(&["parentToolCallId"]))
}

fn result(state: &mut StreamState, line: Json<'_>) {
    match line.at("exitCode").and_then(Json::count) {
        Some(0) => state.ends(),
        _ if state.has_failed() => {}
        _ => state.fails(fault(None, "ended with an error")),
    }
}
