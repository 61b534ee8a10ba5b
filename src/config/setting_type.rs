//! The types of settings: how a value is read from text and TOML, displayed, and stored in the journal. One `impl` per
//! type.
//!
//! A type is a name in the table of settings, not the Rust type of its value, because two setting types can share one
//! Rust type: a command must not be empty, a text may be. Settings with a fixed set of words have their types in `choices.rs`.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::duration;
use super::git_config::{boolean, gathered};
use super::toml_value::{self, TomlValue, Wrong};
use crate::cost::Cost;
use crate::shell_word;

/// How values of this type are read, displayed and stored.
pub trait SettingType {
    /// The Rust type of a value.
    type Value: Clone + Serialize + DeserializeOwned;
    /// The form of a value in the manual.
    const FORM: &'static str;
    /// All words that a value can be, with their meanings, for completion; empty if any value is possible.
    const WORDS: &'static [(&'static str, &'static str)] = &[];
    /// Whether several values add up to a list; otherwise the last one counts.
    const IS_LIST: bool = false;
    /// Whether the option takes no value and means `true`.
    const IS_SWITCH: bool = false;
    /// What the option means without a value; `None` if it needs one.
    const BARE: Option<&'static str> = None;
    /// Whether a value is a number or a duration: after such an option, `-5` is an invalid value and not another option.
    const IS_AMOUNT: bool = false;

    /// Reads one value from git's configuration, or the default.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    fn from_text(text: &str) -> Result<Self::Value, String>;

    /// Reads all values in one layer of git's configuration, weakest first.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    fn from_git(texts: &[&str]) -> Result<Self::Value, String> {
        Self::from_text(texts.last().copied().unwrap_or_default())
    }

    /// Reads all values that were given for an option.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    fn from_option(texts: &[String]) -> Result<Self::Value, String> {
        Self::from_text(texts.last().map_or("", String::as_str))
    }

    /// Reads a value of the change file.
    ///
    /// # Errors
    /// What is wrong with the value.
    fn from_toml(value: &TomlValue) -> Result<Self::Value, Wrong> {
        let text = toml_value::text(value)?;
        Self::from_text(&text).map_err(|why| Wrong::text(value, &why))
    }

    /// The JSON schema of a value in the change file.
    fn schema() -> Value {
        if Self::WORDS.is_empty() {
            return json!({ "type": "string" });
        }
        json!({ "enum": Self::WORDS.iter().map(|(word, _)| *word).collect::<Vec<_>>() })
    }

    /// The value as text that `from_text` can read; a list has one text per element.
    fn shown(value: &Self::Value) -> Vec<String>;

    /// A value's text in TOML syntax, for the change file.
    fn toml(text: &str) -> String {
        toml::Value::String(text.to_owned()).to_string()
    }

    /// The value in the form that the journal stores.
    fn to_json(value: &Self::Value) -> Value {
        serde_json::to_value(value).unwrap_or_default()
    }

    /// Reads a value back from the journal.
    fn from_json(json: Value) -> serde_json::Result<Self::Value> {
        serde_json::from_value(json)
    }
}

/// Any text.
pub enum Text {}

impl SettingType for Text {
    type Value = String;
    const FORM: &'static str = "<text>";

    fn from_text(text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }

    fn shown(value: &String) -> Vec<String> {
        vec![value.clone()]
    }
}

/// A shell command; must not be empty.
pub enum ShellCommand {}

impl SettingType for ShellCommand {
    type Value = String;
    const FORM: &'static str = "<command>";

    fn from_text(text: &str) -> Result<String, String> {
        if text.trim().is_empty() { Err("a command is needed here".to_owned()) } else { Ok(text.to_owned()) }
    }

    fn shown(value: &String) -> Vec<String> {
        vec![value.clone()]
    }
}

/// A command with its arguments that is put in front of another command and started without a shell.
pub enum CommandPrefix {}

/// The placeholders in a runner's command; their values differ between attempts.
pub const RUNNER_PLACEHOLDERS: [&str; 5] = ["workspace", "change", "story", "attempt", "slot"];

impl CommandPrefix {
    /// Rejects unknown placeholders. Other braces are ordinary text.
    fn checked(words: Vec<String>) -> Result<Vec<String>, String> {
        if words.first().is_some_and(|program| program.trim().is_empty()) {
            return Err("the program is empty".to_owned());
        }
        let unknown = words.iter().flat_map(|word| placeholders(word)).find(|name| !RUNNER_PLACEHOLDERS.contains(name)).map(str::to_owned);
        match unknown {
            None => Ok(words),
            Some(name) => {
                let known = RUNNER_PLACEHOLDERS.map(|name| format!("{{{name}}}")).join(", ");
                Err(format!("'{{{name}}}' is not a placeholder; the placeholders are {known}"))
            }
        }
    }
}

/// The names in braces in a text, such as `story` in `--name={story}`.
pub fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || matches!(c, '-' | '_'));
    text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).filter(move |name| is_name(name))
}

impl SettingType for CommandPrefix {
    type Value = Vec<String>;
    const FORM: &'static str = "<command>";

    /// Splits the text into words like a shell. No shell runs the command.
    fn from_text(text: &str) -> Result<Vec<String>, String> {
        Self::checked(shell_word::split(text)?)
    }

    fn from_toml(value: &TomlValue) -> Result<Vec<String>, Wrong> {
        Self::checked(toml_value::texts(value)?).map_err(|why| Wrong::text(value, &why))
    }

    fn schema() -> Value {
        TextList::schema()
    }

    fn shown(value: &Vec<String>) -> Vec<String> {
        vec![shell_word::joined(value)]
    }
}

/// The template for the subject of a commit.
pub enum SubjectTemplate {}

impl SettingType for SubjectTemplate {
    type Value = String;
    const FORM: &'static str = "<template>";

    fn from_text(text: &str) -> Result<String, String> {
        let mut rest = text;
        while let Some((name, after)) = rest.split_once('{').and_then(|(_, found)| found.split_once('}')) {
            if !matches!(name, "id" | "title") {
                return Err(format!("'{{{name}}}' is not a placeholder; there are {{id}} and {{title}}"));
            }
            rest = after;
        }
        if text.trim().is_empty() { Err("a subject is needed here".to_owned()) } else { Ok(text.to_owned()) }
    }

    fn schema() -> Value {
        let placeholders = r"^([^{]|\{(id|title)\})*(\{[^}]*)?$";
        json!({ "type": "string", "allOf": [{ "pattern": r"\S" }, { "pattern": placeholders }] })
    }

    fn shown(value: &String) -> Vec<String> {
        vec![value.clone()]
    }
}

/// A list of texts; an empty value clears those before it, as in git's configuration.
pub enum TextList {}

impl SettingType for TextList {
    type Value = Vec<String>;
    const FORM: &'static str = "<text>";
    const IS_LIST: bool = true;

    fn from_text(text: &str) -> Result<Vec<String>, String> {
        Ok(vec![text.to_owned()])
    }

    fn from_git(texts: &[&str]) -> Result<Vec<String>, String> {
        Ok(gathered(texts.iter().copied()))
    }

    fn from_option(texts: &[String]) -> Result<Vec<String>, String> {
        Ok(texts.to_vec())
    }

    fn from_toml(value: &TomlValue) -> Result<Vec<String>, Wrong> {
        toml_value::texts(value)
    }

    fn schema() -> Value {
        json!({ "type": "array", "items": { "type": "string" } })
    }

    fn shown(value: &Vec<String>) -> Vec<String> {
        value.clone()
    }
}

/// Reads a whole number of at least `least`, like git: `5k` is 5120.
///
/// # Errors
/// A sentence that says what is expected.
pub fn whole_number(text: &str, least: u32) -> Result<u32, String> {
    let text = text.trim();
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1024),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1024 * 1024),
        _ => (text, 1),
    };
    let is_number = digits.strip_prefix('-').unwrap_or(digits).bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse::<i128>() {
        Err(_) if !is_number || !digits.ends_with(|c: char| c.is_ascii_digit()) => Err(format!("'{text}' is not a whole number")),
        Ok(number) if number < i128::from(least) => Err(format!("{text} is too small, the least is {least}")),
        Ok(number) => number.checked_mul(factor).and_then(|n| u32::try_from(n).ok()).ok_or_else(|| too_large(text)),
        Err(_) => Err(too_large(text)),
    }
}

fn too_large(text: &str) -> String {
    format!("{text} is too large, the most is {}", u32::MAX)
}

/// A whole number.
pub enum Number {}

impl SettingType for Number {
    type Value = u32;
    const FORM: &'static str = "<n>";
    const IS_AMOUNT: bool = true;

    fn from_text(text: &str) -> Result<u32, String> {
        whole_number(text, 0)
    }

    fn from_toml(value: &TomlValue) -> Result<u32, Wrong> {
        toml_value::number(value, 0)
    }

    fn schema() -> Value {
        json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
    }

    fn shown(value: &u32) -> Vec<String> {
        vec![value.to_string()]
    }

    fn toml(text: &str) -> String {
        text.to_owned()
    }
}

/// A whole number, at least one.
pub enum Count {}

impl SettingType for Count {
    type Value = u32;
    const FORM: &'static str = "<n>";
    const IS_AMOUNT: bool = true;

    fn from_text(text: &str) -> Result<u32, String> {
        whole_number(text, 1)
    }

    fn from_toml(value: &TomlValue) -> Result<u32, Wrong> {
        toml_value::number(value, 1)
    }

    fn schema() -> Value {
        json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX })
    }

    fn shown(value: &u32) -> Vec<String> {
        vec![value.to_string()]
    }

    fn toml(text: &str) -> String {
        text.to_owned()
    }
}

/// A number of tokens, at least one.
pub enum Tokens {}

impl SettingType for Tokens {
    type Value = u64;
    const FORM: &'static str = "<n>[k|M]";
    const IS_AMOUNT: bool = true;

    /// Reads `500000`, `500k`, `2M`: here `k` is 1000, unlike in git's numbers.
    fn from_text(text: &str) -> Result<u64, String> {
        let text = text.trim();
        let (digits, factor) = match text.as_bytes().last() {
            Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
            Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
            _ => (text, 1),
        };
        let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).filter(|n| *n > 0);
        number.ok_or_else(|| format!("'{text}' is not a number of tokens, such as 500000, 500k or 2M"))
    }

    fn from_toml(value: &TomlValue) -> Result<u64, Wrong> {
        Self::from_text(&toml_value::amount(value)?).map_err(|why| Wrong::text(value, &why))
    }

    fn schema() -> Value {
        json!({ "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "string", "pattern": r"^\s*\+?[0-9]*[1-9][0-9]*[kKmM]?\s*$" }] })
    }

    fn shown(value: &u64) -> Vec<String> {
        vec![value.to_string()]
    }
}

/// An amount of money; must be more than zero.
pub enum Dollars {}

impl SettingType for Dollars {
    type Value = Cost;
    const FORM: &'static str = "<dollars>";
    const IS_AMOUNT: bool = true;

    fn from_text(text: &str) -> Result<Cost, String> {
        text.parse()
    }

    fn from_toml(value: &TomlValue) -> Result<Cost, Wrong> {
        Self::from_text(&toml_value::amount(value)?).map_err(|why| Wrong::text(value, &why))
    }

    fn schema() -> Value {
        let text = r"^\s*\$*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$";
        json!({ "anyOf": [{ "type": "number", "exclusiveMinimum": 0 }, { "type": "string", "pattern": text }] })
    }

    fn shown(value: &Cost) -> Vec<String> {
        vec![value.as_dollars().to_string()]
    }
}

/// Yes or no.
pub enum YesNo {}

impl SettingType for YesNo {
    type Value = bool;
    const FORM: &'static str = "true|false";
    const IS_SWITCH: bool = true;

    fn from_text(text: &str) -> Result<bool, String> {
        boolean(text)
    }

    fn from_toml(value: &TomlValue) -> Result<bool, Wrong> {
        toml_value::boolean(value)
    }

    fn schema() -> Value {
        json!({ "type": "boolean" })
    }

    fn shown(value: &bool) -> Vec<String> {
        vec![value.to_string()]
    }

    fn toml(text: &str) -> String {
        text.to_owned()
    }
}

/// A time limit that can be disabled: `0`, `none` and `never` mean no limit.
pub enum TimeLimit {}

impl SettingType for TimeLimit {
    type Value = Option<Duration>;
    const FORM: &'static str = "<duration>|none";
    const IS_AMOUNT: bool = true;

    fn from_text(text: &str) -> Result<Option<Duration>, String> {
        match text.trim() {
            "none" | "never" => Ok(None),
            text => Ok(Some(duration::parse(text)?).filter(|limit| !limit.is_zero())),
        }
    }

    /// A bare number means seconds, as in all settings.
    fn from_toml(value: &TomlValue) -> Result<Option<Duration>, Wrong> {
        Self::from_text(&toml_value::duration(value)?).map_err(|why| Wrong::text(value, &why))
    }

    fn schema() -> Value {
        json!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": r"^\s*(none|never|\+?[0-9Pp].*)$" }] })
    }

    fn shown(value: &Option<Duration>) -> Vec<String> {
        vec![value.map_or_else(|| "none".to_owned(), duration::shown)]
    }

    /// "No limit" is stored as a duration of zero, because `null` means that the option was not given.
    fn to_json(value: &Option<Duration>) -> Value {
        serde_json::to_value(value.unwrap_or_default()).unwrap_or_default()
    }

    fn from_json(json: Value) -> serde_json::Result<Option<Duration>> {
        let limit: Duration = serde_json::from_value(json)?;
        Ok(Some(limit).filter(|limit| !limit.is_zero()))
    }
}

/// A duration that must not be zero.
pub enum Time {}

impl SettingType for Time {
    type Value = Duration;
    const FORM: &'static str = "<duration>";
    const IS_AMOUNT: bool = true;

    fn from_text(text: &str) -> Result<Duration, String> {
        TimeLimit::from_text(text)?.ok_or_else(|| format!("'{text}' is too short: a time such as '10s' is needed here"))
    }

    fn shown(value: &Duration) -> Vec<String> {
        vec![duration::shown(*value)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_gits() {
        assert_eq!(Number::from_text("5k"), Ok(5120));
        assert_eq!(Number::from_text("0"), Ok(0));
    }

    #[test]
    fn text_that_is_not_a_number_is_distinguished_from_a_number_out_of_range() {
        for (text, least, expected) in [
            ("many", 0, "'many' is not a whole number"),
            ("", 0, "'' is not a whole number"),
            ("-", 0, "'-' is not a whole number"),
            ("1.5", 0, "'1.5' is not a whole number"),
            ("k", 0, "'k' is not a whole number"),
            ("-1", 0, "-1 is too small, the least is 0"),
            ("0", 1, "0 is too small, the least is 1"),
            ("4294967296", 0, "4294967296 is too large, the most is 4294967295"),
            ("4294967295k", 0, "4294967295k is too large, the most is 4294967295"),
        ] {
            assert_eq!(whole_number(text, least), Err(expected.to_owned()));
        }
        for longest in ["9".repeat(38) + "m", "9".repeat(50)] {
            assert_eq!(whole_number(&longest, 0), Err(too_large(&longest)));
        }
    }

    #[test]
    fn an_option_is_read_as_git_config_is() {
        for text in ["none", "never", "0"] {
            assert_eq!(TimeLimit::from_option(&[text.to_owned()]), Ok(None), "{text}");
        }
        assert_eq!(Number::from_option(&["5k".to_owned()]), Ok(5120));
    }

    #[test]
    fn a_subject_has_no_other_placeholders_than_id_and_title() {
        for text in ["checkpoint: {id}", "{title} ({id})", "fixed", "a } b {"] {
            assert_eq!(SubjectTemplate::from_text(text), Ok(text.to_owned()));
        }
        for text in ["{story}", "{id} {Title}", "{}", "{ id }", " "] {
            assert!(SubjectTemplate::from_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_runner_has_no_other_placeholders_than_the_known_ones() {
        let words = CommandPrefix::from_text("docker run --name=r-{story}-{attempt} -v {workspace}:/w '{\"a\": {}}' {{.ID}}");
        assert_eq!(words.unwrap()[2..], ["--name=r-{story}-{attempt}", "-v", "{workspace}:/w", "{\"a\": {}}", "{{.ID}}"]);
        assert_eq!(CommandPrefix::from_text(""), Ok(Vec::new()));
        let why = CommandPrefix::from_text("srun {stroy}").unwrap_err();
        assert_eq!(why, "'{stroy}' is not a placeholder; the placeholders are {workspace}, {change}, {story}, {attempt}, {slot}");
        for text in ["a {Story}", "a {{slots}}", "'' a", "a 'b"] {
            assert!(CommandPrefix::from_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_can_be_lifted_and_a_time_cannot() {
        for text in ["0", "none", "never"] {
            assert_eq!(TimeLimit::from_text(text), Ok(None), "{text}");
            assert!(Time::from_text(text).is_err(), "{text}");
        }
    }
}
