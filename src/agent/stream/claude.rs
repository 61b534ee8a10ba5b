//! Reads `stream-json` of Claude Code and Qwen Code. The final message is in the `result` line.

use jiff::Timestamp;

use super::stream_state::StreamState;
use super::{Dialect, Entry, fault, say_text, say_tool};
use crate::agent::{Said, Usage};
use crate::cost::Cost;
use crate::json::Json;

pub(super) const DIALECT: Dialect = Dialect { body: "message", outcome: Some(br#"{"type":"user""#), line };

fn line(state: &mut StreamState, Entry { kind, body, line }: Entry<'_>, say: &mut dyn FnMut(Said<'_>)) {
    match kind {
        "assistant" => assistant(state, body, is_late_helper(state, line), say),
        "user" if is_late_helper(state, line) => {}
        "user" => state.goes_on(),
        "system" if line.is("subtype", "api_retry") || line.is("subtype", "retry") => {
            let reason = line.text_at(&["error"]).unwrap_or_default();
            state.tries_again(fault(line.at("error_status").and_then(Json::count), &reason));
        }
        "rate_limit_event" => {
            let info = line.at("rate_limit_info");
            if let Some(info) = info.filter(|info| info.is("status", "rejected")) {
                state.resets(info.at("resetsAt").and_then(Json::count).and_then(epoch));
            }
        }
        "result" if is_foreign(state, line) => {}
        "result" => result(state, line),
        // The first line names the session of the stream.
        "system" if line.is("subtype", "init") => {
            is_foreign(state, line);
        }
        _ => {}
    }
}

/// Whether a line comes from a sub-agent that still works after the client's `result`. Such a line does not revoke the result.
fn is_late_helper(state: &StreamState, line: Json<'_>) -> bool {
    state.has_ended() && is_helper(line)
}

fn is_helper(line: Json<'_>) -> bool {
    line.text_at(&["parent_tool_use_id"]).is_some_and(|parent| !parent.is_empty())
}

/// Whether a line comes from a sub-agent or another session.
fn is_foreign(state: &mut StreamState, line: Json<'_>) -> bool {
    is_helper(line) || state.is_foreign(line.text_at(&["session_id"]))
}

fn assistant(state: &mut StreamState, message: Option<Json<'_>>, late_helper: bool, say: &mut dyn FnMut(Said<'_>)) {
    let Some(message) = message else { return };
    let [model, id, used, content] = message.take(["model", "id", "usage", "content"]);
    let mut complaint = false;
    if let Some(content) = content {
        content.each(|part| complaint |= hear(part, say));
    }
    // A message that the client makes up in the model's place does not show that the model works.
    let own = complaint || model.and_then(Json::text).as_deref() == Some("<synthetic>");
    match (late_helper, own) {
        (true, _) => {}
        (false, true) => state.starts_over(),
        (false, false) => state.goes_on(),
    }
    // Every part of a message repeats its usage, so it is counted once. The sum counts until the `result` line has the exact usage.
    let id = id.and_then(Json::text).unwrap_or_default();
    if let Some(used) = used.filter(|_| state.is_new(&id)) {
        state.usage = state.usage.plus(&usage(used));
    }
}

/// Reports a part of a message for display. Returns whether it is an error that the client presents as text of the model.
fn hear(part: Json<'_>, say: &mut dyn FnMut(Said<'_>)) -> bool {
    let [kind, text, name, input] = part.take(["type", "text", "name", "input"]);
    let text = text.and_then(Json::text).unwrap_or_default();
    match kind.and_then(Json::text).as_deref() {
        Some("text") => say_text(&text, say),
        Some("tool_use") => say_tool(&name.and_then(Json::text).unwrap_or_default(), input, say),
        _ => {}
    }
    text.starts_with("[API Error:")
}

fn result(state: &mut StreamState, line: Json<'_>) {
    state.starts_over();
    // A result without token counts still has a cost, which counts towards the budget.
    let tokens = line.at("usage").map_or_else(|| state.usage.clone(), usage);
    let turns = line.at("num_turns").and_then(Json::count);
    let cost = line.at("total_cost_usd").and_then(Json::number).and_then(Cost::reported);
    state.usage = Usage { turns: turns.or(tokens.turns), cost: cost.or(tokens.cost), ..tokens };
    let words = line.text_at(&["result"]).or_else(|| line.text_at(&["error", "message"]));
    let subtype = line.text_at(&["subtype"]).unwrap_or_default();
    // An API error also has the subtype "success".
    if line.at("is_error").is_some_and(Json::is_true) || subtype != "success" {
        let message = words.as_deref().unwrap_or(&subtype);
        state.fails(fault(line.at("api_error_status").and_then(Json::count), message));
    } else {
        state.says(&words.unwrap_or_default());
        state.ends();
    }
}

fn usage(used: Json<'_>) -> Usage {
    let count = |key| used.count_at(&[key]);
    let cached = count("cache_read_input_tokens");
    // Qwen Code includes cached tokens in the input and also has a total. Claude Code counts them separately.
    let beside = if used.at("total_tokens").is_some() { 0 } else { cached.saturating_add(count("cache_creation_input_tokens")) };
    Usage { input: count("input_tokens").saturating_add(beside), cached, output: count("output_tokens"), ..Usage::default() }
}

fn epoch(seconds: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use crate::agent::{Format, Reader};
    use crate::cost::Cost;

    #[test]
    fn the_cost_of_a_result_without_token_counts_is_counted() {
        let mut reader = Reader::new(Format::Claude);
        reader.feed(b"{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"done\",\"total_cost_usd\":0.25}\n", &mut |_| {});
        assert_eq!(reader.usage().cost, Cost::reported(0.25));
    }
}
