//! `stream-json` of Claude Code and Qwen Code: the final message is the `result` of the line of that type.

use jiff::Timestamp;

use super::talk::Talk;
use super::{fault, say_text, say_tool};
use crate::agent::{Said, Usage};
use crate::cost::Cost;
use crate::json::Json;

pub(super) fn line(talk: &mut Talk, line: Json<'_>, say: &mut dyn FnMut(Said<'_>)) {
    let [kind, message] = line.take(["type", "message"]);
    match kind.and_then(Json::text).as_deref() {
        Some("assistant") => assistant(talk, message, say),
        Some("user") => talk.goes_on(),
        Some("system") if line.is("subtype", "api_retry") || line.is("subtype", "retry") => {
            let reason = line.text_at(&["error"]).unwrap_or_default();
            talk.tries_again(fault(line.at("error_status").and_then(Json::count), &reason));
        }
        Some("rate_limit_event") => {
            let info = line.at("rate_limit_info");
            if let Some(info) = info.filter(|info| info.is("status", "rejected")) {
                talk.resets = info.at("resetsAt").and_then(Json::count).and_then(epoch);
            }
        }
        Some("result") => result(talk, line),
        _ => {}
    }
}

fn assistant(talk: &mut Talk, message: Option<Json<'_>>, say: &mut dyn FnMut(Said<'_>)) {
    let Some(message) = message else { return };
    let [model, id, used, content] = message.take(["model", "id", "usage", "content"]);
    // What the client itself says in the model's place is no sign of work.
    if model.and_then(Json::text).as_deref() == Some("<synthetic>") || is_complaint(content) {
        talk.starts_over();
    } else {
        talk.goes_on();
    }
    // Every part of a message repeats its usage. The sum stands until the result has the right one.
    let id = id.and_then(Json::text).unwrap_or_default();
    if let Some(used) = used.filter(|_| talk.is_new(&id)) {
        talk.usage = talk.usage.plus(&usage(used));
    }
    if let Some(content) = content {
        content.each(|part| {
            let [kind, text, name, input] = part.take(["type", "text", "name", "input"]);
            match kind.and_then(Json::text).as_deref() {
                Some("text") => say_text(&text.and_then(Json::text).unwrap_or_default(), say),
                Some("tool_use") => say_tool(&name.and_then(Json::text).unwrap_or_default(), input, say),
                _ => {}
            }
        });
    }
}

/// Whether a message is an error that is put into the model's mouth.
fn is_complaint(content: Option<Json<'_>>) -> bool {
    let mut complaint = false;
    if let Some(content) = content {
        content.each(|part| complaint |= part.text_at(&["text"]).is_some_and(|text| text.starts_with("[API Error:")));
    }
    complaint
}

fn result(talk: &mut Talk, line: Json<'_>) {
    talk.starts_over();
    if let Some(used) = line.at("usage") {
        talk.usage = Usage {
            turns: line.at("num_turns").and_then(Json::count),
            cost: line.at("total_cost_usd").and_then(Json::number).and_then(Cost::told),
            ..usage(used)
        };
    }
    let words = line.text_at(&["result"]).or_else(|| line.text_at(&["error", "message"]));
    let subtype = line.text_at(&["subtype"]).unwrap_or_default();
    // An API error has the subtype "success".
    if line.at("is_error").is_some_and(Json::is_true) || subtype != "success" {
        let message = words.as_deref().unwrap_or(&subtype);
        talk.fails(fault(line.at("api_error_status").and_then(Json::count), message));
    } else {
        talk.says(&words.unwrap_or_default());
        talk.ends();
    }
}

fn usage(used: Json<'_>) -> Usage {
    let count = |key| used.count_at(&[key]);
    let cached = count("cache_read_input_tokens");
    // One client counts what came from its cache as input, the other beside it; the one that does also has a total.
    let beside = if used.at("total_tokens").is_some() { 0 } else { cached.saturating_add(count("cache_creation_input_tokens")) };
    Usage { input: count("input_tokens").saturating_add(beside), cached, output: count("output_tokens"), ..Usage::default() }
}

fn epoch(seconds: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}
