//! Values of a change file: TOML to data, purely, with errors that name file, line and key.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::setting_type::SettingType;

/// A value and where it stands in the text.
pub type TomlValue<'i> = Spanned<DeValue<'i>>;

/// What is wrong with a value. Types of settings know no key, so the text is what follows the key in the message.
pub struct Wrong {
    offset: usize,
    after_key: String,
}

impl Wrong {
    /// It is of another TOML type than expected.
    pub fn kind(value: &TomlValue, expected: &str) -> Self {
        let found = value.get_ref().type_str();
        Self::at(value, format!(" must be {expected}, not {} {found}", article(found)))
    }

    /// Its type is right, but it is out of range.
    pub fn range(value: &TomlValue, expected: &str) -> Self {
        Self::at(value, format!(" must be {expected}"))
    }

    /// Its text cannot be read; `why` is a sentence of its own.
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

/// A string.
pub fn text(value: &TomlValue) -> Result<String, Wrong> {
    value.get_ref().as_str().map(str::to_owned).ok_or_else(|| Wrong::kind(value, "a string"))
}

/// A list of strings; an element of another type is where the error points to.
pub fn texts(value: &TomlValue) -> Result<Vec<String>, Wrong> {
    let expected = "a list of strings";
    let list = value.get_ref().as_array().ok_or_else(|| Wrong::kind(value, expected))?;
    list.iter().map(|value| value.get_ref().as_str().map(str::to_owned).ok_or_else(|| Wrong::kind(value, expected))).collect()
}

/// A whole number that is at least `least`.
pub fn number(value: &TomlValue, least: u32) -> Result<u32, Wrong> {
    let integer = value.get_ref().as_integer().ok_or_else(|| Wrong::kind(value, "a whole number"))?;
    let number = u32::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|number| *number >= least);
    number.ok_or_else(|| Wrong::range(value, &format!("a whole number from {least} to {}", u32::MAX)))
}

/// The text of a duration, which may also be written as a number of seconds: `"45m"`, `90`.
pub fn duration(value: &TomlValue) -> Result<String, Wrong> {
    match value.get_ref() {
        DeValue::Integer(seconds) => Ok(seconds.to_string()),
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err(Wrong::kind(value, "a duration such as \"45m\"")),
    }
}

/// Yes or no.
pub fn boolean(value: &TomlValue) -> Result<bool, Wrong> {
    value.get_ref().as_bool().ok_or_else(|| Wrong::kind(value, "true or false"))
}

/// The text of a number, which may also be written as a string: `5000`, `20.0`, `"5M"`.
pub fn amount(value: &TomlValue) -> Result<String, Wrong> {
    match value.get_ref() {
        DeValue::Integer(number) => Ok(number.to_string()),
        DeValue::Float(number) => Ok(number.to_string()),
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err(Wrong::kind(value, "a number")),
    }
}

/// A change file's text and name, for errors.
pub struct Reader<'a> {
    /// The whole text, to count lines in.
    pub text: &'a str,
    /// What errors call the file.
    pub file: &'a str,
}

impl Reader<'_> {
    /// An error at an offset of the text.
    pub fn at(&self, offset: usize, what: &str) -> String {
        let line = self.text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1;
        format!("{}:{line}: {what}", self.file)
    }

    /// An error about a key's value.
    pub fn wrong(&self, key: &str, wrong: &Wrong) -> String {
        self.at(wrong.offset, &format!("'{key}'{}", wrong.after_key))
    }

    /// Where a key's value stands, or the beginning of the file.
    pub fn offset(table: &DeTable, key: &str) -> usize {
        table.get(key).map_or(0, |value| value.span().start)
    }

    /// A key's value, if the key is there, read by `read`.
    pub fn get<T>(&self, table: &DeTable, key: &str, read: impl Fn(&TomlValue) -> Result<T, Wrong>) -> Result<Option<T>, String> {
        table.get(key).map(|value| read(value).map_err(|wrong| self.wrong(key, &wrong))).transpose()
    }

    /// A key's value as a setting of the given type.
    pub fn setting<T: SettingType>(&self, table: &DeTable, key: &str) -> Result<Option<T::Value>, String> {
        self.get(table, key, T::from_toml)
    }

    /// Refuses a table with a key that nothing reads.
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
