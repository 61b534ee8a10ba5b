//! Reads `opencode run --format json`. The final message is the text of the step that finished with the reason `stop`.

use super::stream_state::StreamState;
use super::{Dialect, Entry, fault, say_text, say_tool};
use crate::agent::{Said, Usage};
use crate::cost::Cost;
use crate::json::Json;

pub(super) const DIALECT: Dialect = Dialect { body: "part", outcome: None, line };

fn line(state: &mut StreamState, Entry { kind, body: part, line }: Entry<'_>, say: &mut dyn FnMut(Said<'_>)) {
    // Another session belongs to a sub-agent.
    if state.is_foreign(line.text_at(&["sessionID"])) {
        return;
    }
    match kind {
        // opencode may continue after an error, for instance with a shorter context.
        "step_start" => state.goes_on(),
        "tool_use" => {
            state.goes_on();
            let name = part.and_then(|part| part.text_at(&["tool"])).unwrap_or_default();
            say_tool(&name, part.and_then(|part| part.find(&["state", "input"])), say);
        }
        "text" => {
            let text = part.and_then(|part| part.text_at(&["text"])).unwrap_or_default();
            state.says(&text);
            state.ends_part();
            say_text(&text, say);
        }
        "step_finish" => {
            let Some(part) = part else { return };
            state.usage = state.usage.plus(&usage(part));
            if part.is("reason", "stop") {
                state.ends();
            } else {
                state.goes_on();
            }
        }
        "error" => {
            let Some(error) = line.at("error") else { return };
            let name = error.text_at(&["name"]).unwrap_or_default();
            let message = error.text_at(&["data", "message"]).unwrap_or_else(|| name.clone());
            let wait = error.text_at(&["data", "responseHeaders", "retry-after"]);
            let message = wait.map_or_else(|| message.to_string(), |seconds| format!("{message} (retry after {seconds}s)"));
            let status = error.find(&["data", "statusCode"]).and_then(Json::count);
            state.fails(fault(status.or_else(|| status_by(&name)), &message));
        }
        _ => {}
    }
}

/// The HTTP status that corresponds to an error name, for errors without an HTTP response.
fn status_by(name: &str) -> Option<u64> {
    match name {
        "ContextOverflowError" => Some(400),
        "ProviderAuthError" => Some(401),
        "ProviderModelNotFoundError" => Some(404),
        _ => None,
    }
}

fn usage(part: Json<'_>) -> Usage {
    let count = |path: &[&str]| part.count_at(path);
    let cached = count(&["tokens", "cache", "read"]);
    Usage {
        input: count(&["tokens", "input"]).saturating_add(cached).saturating_add(count(&["tokens", "cache", "write"])),
        cached,
        output: count(&["tokens", "output"]).saturating_add(count(&["tokens", "reasoning"])),
        turns: Some(1),
        cost: part.at("cost").and_then(Json::number).and_then(Cost::reported),
    }
}
