//! Reads single values of a change file from TOML, with errors that name the file, the line and the key. Pure.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::setting_type::SettingType;

/// A TOML value with its position in the text.
pub type TomlValue<'i> = Spanned<DeValue<'i>>;

/// What is wrong with a value. A setting type does not know its key, so this holds only the part of the message after the key.
pub struct Wrong {
    offset: usize,
    after_key: String,
}

impl Wrong {
    /// The value has the wrong TOML type.
    pub fn kind(value: &TomlValue, expected: &str) -> Self {
        let found = value.get_ref().type_str();
        Self::at(value, format!(" must be {expected}, not {} {found}", article(found)))
    }

    /// The value has the right type but is out of range.
    pub fn range(value: &TomlValue, expected: &str) -> Self {
        Self::at(value, format!(" must be {expected}"))
    }

    /// The text of the value is invalid; `why` is a complete sentence.
    pub fn text(value: &TomlValue, why: &str) -> Self {
        Self::at(value, format!(": {why}"))
    }

    fn at(value: &TomlValue, after_key: String) -> Self {
        Wrong { offset: value.span().start, after_key }
    }
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// Reads a string.
pub fn text(value: &TomlValue) -> Result<String, Wrong> {
    value.get_ref().as_str().map(str::to_owned).ok_or_else(|| Wrong::kind(value, "a string"))
}

/// Reads a list of strings; an error points to the element with the wrong type.
pub fn texts(value: &TomlValue) -> Result<Vec<String>, Wrong> {
    let expected = "a list of strings";
    let list = value.get_ref().as_array().ok_or_else(|| Wrong::kind(value, expected))?;
    list.iter().map(|value| value.get_ref().as_str().map(str::to_owned).ok_or_else(|| Wrong::kind(value, expected))).collect()
}

/// Reads a whole number of at least `least`.
pub fn number(value: &TomlValue, least: u32) -> Result<u32, Wrong> {
    let integer = value.get_ref().as_integer().ok_or_else(|| Wrong::kind(value, "a whole number"))?;
    let number = u32::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|number| *number >= least);
    number.ok_or_else(|| Wrong::range(value, &format!("a whole number from {least} to {}", u32::MAX)))
}

/// Reads the text of a duration, which may also be a number of seconds: `"45m"`, `90`.
pub fn duration(value: &TomlValue) -> Result<String, Wrong> {
    match value.get_ref() {
        DeValue::Integer(seconds) => Ok(seconds.to_string()),
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err(Wrong::kind(value, "a duration such as \"45m\"")),
    }
}

/// Reads a boolean.
pub fn boolean(value: &TomlValue) -> Result<bool, Wrong> {
    value.get_ref().as_bool().ok_or_else(|| Wrong::kind(value, "true or false"))
}

/// Reads the text of a number, which may also be a string: `5000`, `20.0`, `"5M"`.
pub fn amount(value: &TomlValue) -> Result<String, Wrong> {
    match value.get_ref() {
        DeValue::Integer(number) => Ok(number.to_string()),
        DeValue::Float(number) => Ok(number.to_string()),
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err(Wrong::kind(value, "a number")),
    }
}

/// The text and the name of a change file, for errors.
pub struct Reader<'a> {
    /// The whole text, for counting lines.
    pub text: &'a str,
    /// The name of the file in errors.
    pub file: &'a str,
}

impl Reader<'_> {
    /// Formats an error at an offset in the text.
    pub fn at(&self, offset: usize, what: &str) -> String {
        let line = self.text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1;
        format!("{}:{line}: {what}", self.file)
    }

    /// Formats an error about the value of a key.
    pub fn wrong(&self, key: &str, wrong: &Wrong) -> String {
        self.at(wrong.offset, &format!("'{key}'{}", wrong.after_key))
    }

    /// The offset of a key's value, or 0 if the key is missing.
    pub fn offset(table: &DeTable, key: &str) -> usize {
        table.get(key).map_or(0, |value| value.span().start)
    }

    /// The value of a key, if the key exists, read by `read`.
    pub fn get<T>(&self, table: &DeTable, key: &str, read: impl Fn(&TomlValue) -> Result<T, Wrong>) -> Result<Option<T>, String> {
        table.get(key).map(|value| read(value).map_err(|wrong| self.wrong(key, &wrong))).transpose()
    }

    /// The value of a key as a setting of the given type.
    pub fn setting<T: SettingType>(&self, table: &DeTable, key: &str) -> Result<Option<T::Value>, String> {
        self.get(table, key, T::from_toml)
    }

    /// Rejects a table with an unknown key.
    pub fn known_keys(&self, table: &DeTable, known: &[&str]) -> Result<(), String> {
        match table.keys().find(|key| !known.contains(&key.get_ref().as_ref())) {
            Some(key) => {
                let near = crate::nearest::suggestion(key.get_ref(), known.iter().copied());
                Err(self.at(key.span().start, &format!("unknown key '{}'{near}", key.get_ref().escape_debug())))
            }
            None => Ok(()),
        }
    }
}
