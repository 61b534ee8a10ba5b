//! The types of settings: how a value is read from text and TOML, shown, and kept in the journal. One `impl` per type.
//!
//! A type is a name in the table of settings and not the type of its value, because two of them can share one: a command must
//! not be empty, a text may. Where a value is one of a few words, `choices.rs` has the type.

use std::num::ParseIntError;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::duration;
use super::git_config::{boolean, gathered};
use super::toml_value::{self, TomlValue, Wrong};
use crate::cost::Cost;

/// What a setting of this type can be.
pub trait SettingType {
    /// The value that the code works with.
    type Value: Clone + Serialize + DeserializeOwned;
    /// The form of a value, as the manual writes it.
    const FORM: &'static str;
    /// Every word that a value can be, with its meaning, for completion; empty where a value is free.
    const WORDS: &'static [(&'static str, &'static str)] = &[];
    /// Whether several values add up; otherwise the last one counts.
    const IS_LIST: bool = false;
    /// Whether the option takes no value: naming it means yes.
    const IS_SWITCH: bool = false;

    /// Reads one value as it is written in git's configuration, and the default.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    fn from_text(text: &str) -> Result<Self::Value, String>;

    /// Reads all values that git's configuration has in one layer, weakest first.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    fn from_git(texts: &[&str]) -> Result<Self::Value, String> {
        Self::from_text(texts.last().copied().unwrap_or_default())
    }

    /// Reads all values that an option was given.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    fn from_option(texts: &[String]) -> Result<Self::Value, String> {
        Self::from_text(texts.last().map_or("", String::as_str))
    }

    /// Reads a value of the change file.
    ///
    /// # Errors
    /// What is wrong with it.
    fn from_toml(value: &TomlValue) -> Result<Self::Value, Wrong> {
        let text = toml_value::text(value)?;
        Self::from_text(&text).map_err(|why| Wrong::text(value, &why))
    }

    /// The value as `from_text` reads it; a list has one text per element.
    fn shown(value: &Self::Value) -> Vec<String>;

    /// A value's text as it stands in the change file.
    fn toml(text: &str) -> String {
        toml::Value::String(text.to_owned()).to_string()
    }

    /// The value as the journal keeps it.
    fn to_json(value: &Self::Value) -> serde_json::Value {
        serde_json::to_value(value).unwrap_or_default()
    }

    /// Reads it back.
    ///
    /// # Errors
    /// If it was written by something else.
    fn from_json(json: serde_json::Value) -> serde_json::Result<Self::Value> {
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

/// A command for a shell, not empty.
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

/// Texts that add up; an empty value clears those before it, as git has it.
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

    fn shown(value: &Vec<String>) -> Vec<String> {
        value.clone()
    }
}

/// A whole number.
pub enum Number {}

impl SettingType for Number {
    type Value = u32;
    const FORM: &'static str = "<n>";

    /// As git has it: `5k` is 5120.
    fn from_text(text: &str) -> Result<u32, String> {
        let wrong = || format!("'{text}' is not a whole number");
        let (digits, factor) = match text.trim().to_lowercase() {
            t if t.ends_with('k') => (t[..t.len() - 1].to_owned(), 1024),
            t if t.ends_with('m') => (t[..t.len() - 1].to_owned(), 1024 * 1024),
            t => (t, 1),
        };
        digits.parse::<u32>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(wrong)
    }

    /// An option takes digits only.
    fn from_option(texts: &[String]) -> Result<u32, String> {
        let number: i64 = texts.last().map_or("", String::as_str).parse().map_err(|error: ParseIntError| error.to_string())?;
        u32::try_from(number).map_err(|_| format!("{number} is not in 0..={}", u32::MAX))
    }

    fn from_toml(value: &TomlValue) -> Result<u32, Wrong> {
        toml_value::number(value)
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

    /// `500000`, `500k`, `2M`: tokens are counted in thousands, unlike git's numbers.
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

    fn shown(value: &u64) -> Vec<String> {
        vec![value.to_string()]
    }
}

/// An amount of money, more than nothing.
pub enum Dollars {}

impl SettingType for Dollars {
    type Value = Cost;
    const FORM: &'static str = "<dollars>";

    fn from_text(text: &str) -> Result<Cost, String> {
        text.parse()
    }

    fn from_toml(value: &TomlValue) -> Result<Cost, Wrong> {
        Self::from_text(&toml_value::amount(value)?).map_err(|why| Wrong::text(value, &why))
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

    fn shown(value: &bool) -> Vec<String> {
        vec![value.to_string()]
    }

    fn toml(text: &str) -> String {
        text.to_owned()
    }
}

/// A time limit that can be lifted: `0`, `none` and `never` mean no limit.
pub enum TimeLimit {}

impl SettingType for TimeLimit {
    type Value = Option<Duration>;
    const FORM: &'static str = "<duration>|none";

    fn from_text(text: &str) -> Result<Option<Duration>, String> {
        match text.trim() {
            "none" | "never" => Ok(None),
            text => Ok(Some(duration::parse(text)?).filter(|limit| !limit.is_zero())),
        }
    }

    /// An option takes durations only, 0 for none.
    fn from_option(texts: &[String]) -> Result<Option<Duration>, String> {
        let limit = duration::parse(texts.last().map_or("", String::as_str))?;
        Ok(Some(limit).filter(|limit| !limit.is_zero()))
    }

    fn shown(value: &Option<Duration>) -> Vec<String> {
        vec![value.map_or_else(|| "none".to_owned(), duration::shown)]
    }

    /// No limit is written as no time, because nothing at all is how an option that was not given is written.
    fn to_json(value: &Option<Duration>) -> serde_json::Value {
        serde_json::to_value(value.unwrap_or_default()).unwrap_or_default()
    }

    fn from_json(json: serde_json::Value) -> serde_json::Result<Option<Duration>> {
        let limit: Duration = serde_json::from_value(json)?;
        Ok(Some(limit).filter(|limit| !limit.is_zero()))
    }
}

/// A time that there must be.
pub enum Time {}

impl SettingType for Time {
    type Value = Duration;
    const FORM: &'static str = "<duration>";

    fn from_text(text: &str) -> Result<Duration, String> {
        TimeLimit::from_text(text)?.ok_or_else(|| "a limit is needed here".to_owned())
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
        assert!(Number::from_text("-1").is_err());
    }

    #[test]
    fn a_limit_can_be_lifted_and_a_time_cannot() {
        for text in ["0", "none", "never"] {
            assert_eq!(TimeLimit::from_text(text), Ok(None), "{text}");
            assert!(Time::from_text(text).is_err(), "{text}");
        }
    }
}
