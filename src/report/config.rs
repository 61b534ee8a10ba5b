//! The settings with their values and origins, as text and as JSON, for `git ralph config`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::clean;
use crate::config::{Listed, Origin};

/// The settings for people: one line per value.
#[must_use]
pub fn config_text(settings: &[Listed]) -> String {
    let width = settings.iter().map(|setting| setting.key.chars().count()).max().unwrap_or(0);
    let value_width = settings.iter().flat_map(shown).map(|value| value.chars().count()).filter(|width| *width <= 40).max().unwrap_or(0);
    let mut text = String::new();
    for setting in settings {
        let origin = match &setting.origin {
            _ if setting.problem.is_some() => console::style(format!("{}, bad value", clean(&setting.origin.to_string()))).red(),
            Origin::Default => console::style(setting.origin.to_string()).dim(),
            _ => console::style(clean(&setting.origin.to_string())).cyan(),
        };
        for value in shown(setting) {
            let _ = writeln!(text, "{:<width$}  {value:<value_width$}  {origin}", clean(&setting.key));
        }
    }
    text
}

fn shown(setting: &Listed) -> Vec<String> {
    match setting.instead {
        Some(words) => vec![format!("({words})")],
        None => setting.values.iter().map(|value| clean(value)).collect(),
    }
}

/// The settings for programs.
#[must_use]
pub fn config_json(change: Option<&str>, settings: &[Listed]) -> Value {
    let settings: Vec<Value> = settings
        .iter()
        .map(|setting| json!({ "key": setting.key, "values": setting.values, "default": setting.instead, "origin": origin(&setting.origin), "problem": setting.problem }))
        .collect();
    json!({ "schema": 1, "change": change, "settings": settings })
}

fn origin(origin: &Origin) -> Value {
    match origin {
        Origin::Flag(name) => json!({ "kind": "option", "place": name }),
        Origin::Command => json!({ "kind": "command" }),
        Origin::ChangeFile(path) => json!({ "kind": "change-file", "place": path }),
        Origin::Git { scope, place } => json!({ "kind": "git-config", "scope": scope.to_string(), "place": place }),
        Origin::Default => json!({ "kind": "default" }),
    }
}
