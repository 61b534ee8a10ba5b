//! `opencode run --format json`: the final message is the text of the step that finished with the reason `stop`.

use super::talk::Talk;
use super::{Dialect, Entry, fault, say_text, say_tool};
use crate::agent::{Said, Usage};
use crate::cost::Cost;
use crate::json::Json;

pub(super) const DIALECT: Dialect = Dialect { body: "part", outcome: None, line };

fn line(talk: &mut Talk, Entry { kind, body: part, line }: Entry<'_>, say: &mut dyn FnMut(Said<'_>)) {
    match kind {
        // It may go on by itself after an error, for instance with a shorter context.
        "step_start" => talk.goes_on(),
        "tool_use" => {
            talk.goes_on();
            let name = part.and_then(|part| part.text_at(&["tool"])).unwrap_or_default();
            say_tool(&name, part.and_then(|part| part.find(&["state", "input"])), say);
        }
        "text" => {
            let text = part.and_then(|part| part.text_at(&["text"])).unwrap_or_default();
            talk.says(&text);
            talk.ends_part();
            say_text(&text, say);
        }
        "step_finish" => {
            let Some(part) = part else { return };
            talk.usage = talk.usage.plus(&usage(part));
            if part.is("reason", "stop") {
                talk.ends();
            } else {
                talk.goes_on();
            }
        }
        "error" => {
            let Some(error) = line.at("error") else { return };
            let name = error.text_at(&["name"]).unwrap_or_default();
            let message = error.text_at(&["data", "message"]).unwrap_or_else(|| name.clone());
            let wait = error.text_at(&["data", "responseHeaders", "retry-after"]);
            let message = wait.map_or_else(|| message.to_string(), |seconds| format!("{message} (retry after {seconds}s)"));
            let status = error.find(&["data", "statusCode"]).and_then(Json::count);
            talk.fails(fault(status.or_else(|| name.contains("ContextOverflow").then_some(400)), &message));
        }
        _ => {}
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
        cost: part.at("cost").and_then(Json::number).and_then(Cost::told),
    }
}
