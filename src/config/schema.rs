//! Generates the JSON schema of the change file from the table of settings and the keys in `change_file.rs`.

use serde_json::{Map, Value, json};

use super::change_file::{OWN_KEYS, OwnKey, STORY_KEYS};
use super::table::KEYS;

/// The name of the schema file next to the change files; the first line of a new change file refers to it.
pub const SCHEMA_FILE: &str = "schema.json";

/// The JSON schema of the change file, for editors.
#[must_use]
pub fn change_file_schema() -> Value {
    let own = OWN_KEYS.iter().map(|key| (key.name, described(&key.schema(&story_schema()), key.about)));
    let settings = KEYS.iter().filter_map(|key| Some((key.change_file?, described(&key.schema(), key.meaning))));
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A change of git-ralph",
        "type": "object",
        "properties": properties(own.chain(settings)),
        "additionalProperties": false,
        "oneOf": [{ "required": ["source"] }, { "required": ["story"] }],
        "not": { "required": ["agent", "command"] },
    })
}

fn story_schema() -> Value {
    let keys = STORY_KEYS.iter().map(|key| (key.name, described(&key.schema(&Value::Null), key.about)));
    json!({ "type": "object", "properties": properties(keys), "additionalProperties": false, "required": ["id"] })
}

fn properties(keys: impl Iterator<Item = (&'static str, Value)>) -> Value {
    Value::Object(keys.map(|(name, schema)| (name.to_owned(), schema)).collect::<Map<_, _>>())
}

fn described(schema: &Value, about: &str) -> Value {
    let mut schema = schema.clone();
    schema["description"] = about.into();
    schema
}

impl OwnKey {
    fn schema(&self, story: &Value) -> Value {
        (self.kind)(story)
    }
}

/// The schemas of values that are not settings, used by the tables of keys.
pub(super) mod kinds {
    use serde_json::{Value, json};

    use crate::config::setting_type::{SettingType, TextList, TimeLimit};

    pub fn text(_: &Value) -> Value {
        json!({ "type": "string" })
    }

    pub fn path(_: &Value) -> Value {
        json!({ "type": "string", "minLength": 1 })
    }

    /// One line without control characters and without leading or trailing blanks.
    pub fn id(_: &Value) -> Value {
        json!({ "type": "string", "maxLength": 200, "pattern": r"^[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$" })
    }

    pub fn texts(_: &Value) -> Value {
        TextList::schema()
    }

    pub fn ids(story: &Value) -> Value {
        json!({ "type": "array", "items": id(story) })
    }

    pub fn command(_: &Value) -> Value {
        json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 })
    }

    pub fn order(_: &Value) -> Value {
        json!({ "enum": ["list", "any"] })
    }

    pub fn time_limit(_: &Value) -> Value {
        TimeLimit::schema()
    }

    pub fn stories(story: &Value) -> Value {
        json!({ "type": "array", "items": story, "minItems": 1 })
    }
}
