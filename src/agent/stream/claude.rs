//! `stream-json` of Claude Code and Qwen Code: the final message is the `result` of the line of that type.

use jiff::Timestamp;

use super::talk::Talk;
use super::{Dialect, Entry, fault, say_text, say_tool};
use crate::agent::{Said, Usage};
use crate::cost::Cost;
use crate::json::Json;

pub(super) const DIALECT: Dialect = Dialect { body: "message", outcome: Some(br#"{"type":"user""#), line };

fn line(talk: &mut Talk, Entry { kind, body, line }: Entry<'_>, say: &mut dyn FnMut(Said<'_>)) {
    match kind {
        "assistant" => assistant(talk, body, say),
        "user" => talk.goes_on(),
        "system" if line.is("subtype", "api_retry") || line.is("subtype", "retry") => {
            let reason = line.text_at(&["error"]).unwrap_or_default();
            talk.tries_again(fault(line.at("error_status").and_then(Json::count), &reason));
        }
        "rate_limit_event" => {
            let info = line.at("rate_limit_info");
            if let Some(info) = info.filter(|info| info.is("status", "rejected")) {
                talk.resets(info.at("resetsAt").and_then(Json::count).and_then(epoch));
            }
        }
        "result" => result(talk, line),
        _ => {}
    }
}

fn assistant(talk: &mut Talk, message: Option<Json<'_>>, say: &mut dyn FnMut(Said<'_>)) {
    let Some(message) = message else { return };
    let [model, id, used, content] = message.take(["model", "id", "usage", "content"]);
    let mut complaint = false;
    if let Some(content) = content {
        content.each(|part| complaint |= hear(part, say));
    }
    // What the client itself says in the model's place is no sign of work.
    if complaint || model.and_then(Json::text).as_deref() == Some("<synthetic>") {
        talk.starts_over();
    } else {
        talk.goes_on();
    }
    // Every part of a message repeats its usage. The sum stands until the result has the right one.
    let id = id.and_then(Json::text).unwrap_or_default();
    if let Some(used) = used.filter(|_| talk.is_new(&id)) {
        talk.usage = talk.usage.plus(&usage(used));
    }
}

/// Tells a part of a message; says whether it is an error that the client puts into the model's mouth.
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
