//! What is known about one setting, as plain data: a row of the table in `table.rs`.

use serde_json::Value;

use super::setting_type::SettingType;
use super::table::KEYS;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name of its field in `Settings`, and of its option for clap.
    pub id: &'static str,
    /// Its key in git's configuration; `<name>` stands for the name of an agent.
    pub name: &'static str,
    /// The form of its value.
    pub value: &'static str,
    /// Its default, in words where that is no value.
    pub default: &'static str,
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// The option of `start` and `resume` that goes before it.
    pub option: Option<&'static str>,
    /// Its place in the help, among all options of the command.
    pub option_place: usize,
    /// What the help calls the option's value.
    pub option_value: &'static str,
    /// The key of the change file that goes before it.
    pub change_file: Option<&'static str>,
    /// The comment above it in a new change file; without one it joins the setting before it.
    pub comment: Option<&'static str>,
    /// Every word that its value can be, with its meaning.
    pub words: &'static [(&'static str, &'static str)],
    /// Whether several values add up.
    pub is_list: bool,
    /// Whether its option takes no value.
    pub is_switch: bool,
    /// What its option means without a value, if it can do without.
    pub bare: Option<&'static str>,
    /// Whether a value is a number or a time.
    pub is_amount: bool,
    is_value: bool,
    option_help: &'static str,
    example: Option<&'static str>,
    check: fn(&str) -> Result<(), String>,
    toml: fn(&str) -> String,
    schema: fn() -> Value,
}

/// Building a row; only the table does.
impl Key {
    pub(crate) const fn new<T: SettingType>(id: &'static str, name: &'static str, meaning: &'static str) -> Key {
        Key {
            id,
            name,
            value: T::FORM,
            default: "",
            meaning,
            option: None,
            option_place: 0,
            option_value: "",
            change_file: None,
            comment: None,
            words: T::WORDS,
            is_list: T::IS_LIST,
            is_switch: T::IS_SWITCH,
            bare: T::BARE,
            is_amount: T::IS_AMOUNT,
            is_value: false,
            option_help: "",
            example: None,
            check: |text| T::from_option(&[text.to_owned()]).map(drop),
            toml: T::toml,
            schema: T::schema,
        }
    }

    pub(super) const fn form(self, value: &'static str) -> Key {
        Key { value, ..self }
    }

    /// The default is a value.
    pub(crate) const fn default(self, default: &'static str) -> Key {
        Key { default, is_value: true, ..self }
    }

    /// There is no value by default; these are the words for what happens then.
    pub(super) const fn otherwise(self, words: &'static str) -> Key {
        Key { default: words, ..self }
    }

    pub(crate) const fn option(self, name: &'static str, place: usize, help: &'static str) -> Key {
        Key { option: Some(name), option_place: place, option_help: help, ..self }
    }

    pub(super) const fn option_value(self, name: &'static str) -> Key {
        Key { option_value: name, ..self }
    }

    pub(super) const fn change_file(self, name: &'static str) -> Key {
        Key { change_file: Some(name), ..self }
    }

    pub(super) const fn example(self, toml: &'static str) -> Key {
        Key { example: Some(toml), ..self }
    }

    pub(super) const fn comment(self, comment: &'static str) -> Key {
        Key { comment: Some(comment), ..self }
    }
}

impl Key {
    /// The one that a name stands for, written in any case.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.is(name))
    }

    /// Whether a name stands for this key.
    fn is(&self, name: &str) -> bool {
        match self.name.split_once("<name>") {
            None => name.eq_ignore_ascii_case(self.name),
            Some((before, after)) => {
                let rest = name.get(..before.len()).filter(|head| head.eq_ignore_ascii_case(before)).map(|_| &name[before.len()..]);
                rest.and_then(|rest| rest.rsplit_once('.')).is_some_and(|(agent, variable)| {
                    !agent.is_empty() && after.strip_prefix('.').is_some_and(|after| after.eq_ignore_ascii_case(variable))
                })
            }
        }
    }

    /// The help of its option; a switch is off by default, which need not be said.
    #[must_use]
    pub fn option_help(&self) -> String {
        let default = if self.is_value && !self.is_switch { format!(" [default: {}]", self.default) } else { String::new() };
        format!("{}{default}", self.option_help)
    }

    /// Whether its option can take this value.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    pub fn check_option(&self, text: &str) -> Result<(), String> {
        (self.check)(text)
    }

    /// The JSON schema of its value in the change file.
    #[must_use]
    pub fn schema(&self) -> Value {
        (self.schema)()
    }

    /// A value for a new change file: an example, or the default.
    #[must_use]
    pub fn toml_example(&self) -> String {
        self.example.map_or_else(|| (self.toml)(self.default), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_any_case_and_of_any_agent_finds_its_key() {
        assert_eq!(Key::of("ralph.maxretries").unwrap().name, "ralph.maxRetries");
        assert_eq!(Key::of("ralph.My.Agent.CMD").unwrap().name, "ralph.<name>.cmd");
        for name in ["ralph.cmd", "ralph..cmd", "ralph.x.colour", "ralph", "ralph.ä", ""] {
            assert!(Key::of(name).is_none(), "{name}");
        }
    }
}
