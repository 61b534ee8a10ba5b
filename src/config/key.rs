//! The description of one setting as plain data: a row of the table in `table.rs`.

use serde_json::Value;

use super::setting_type::SettingType;
use super::table::KEYS;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name of the setting's field in `Settings`, and the id of its option for clap.
    pub id: &'static str,
    /// The key in git's configuration; `<name>` stands for the name of an agent.
    pub name: &'static str,
    /// The form of a value.
    pub value: &'static str,
    /// The default, as a description if there is no default value.
    pub default: &'static str,
    /// What the setting means, in one sentence.
    pub meaning: &'static str,
    /// The option of `start` and `resume` that overrides the setting.
    pub option: Option<&'static str>,
    /// The position of the option in the help.
    pub option_place: usize,
    /// The name of the option's value in the help.
    pub option_value: &'static str,
    /// The key in the change file that overrides git's configuration files.
    pub change_file: Option<&'static str>,
    /// The comment above the setting in a new change file; without one it joins the setting before it.
    pub comment: Option<&'static str>,
    /// All words that a value can be, with their meanings.
    pub words: &'static [(&'static str, &'static str)],
    /// Whether several values add up to a list.
    pub is_list: bool,
    /// Whether the option takes no value.
    pub is_switch: bool,
    /// What the option means without a value, if the value is optional.
    pub bare: Option<&'static str>,
    /// Whether a value is a number or a duration.
    pub is_amount: bool,
    is_value: bool,
    option_help: &'static str,
    example: Option<&'static str>,
    check: fn(&str) -> Result<(), String>,
    toml: fn(&str) -> String,
    schema: fn() -> Value,
}

/// Constructors of a row, used only by the table.
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

    /// Sets the default to a value.
    pub(crate) const fn default(self, default: &'static str) -> Key {
        Key { default, is_value: true, ..self }
    }

    /// Describes what happens without a value; there is no default value.
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
    /// The setting with the given key, in any letter case.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.is(name))
    }

    /// Whether a name is this key.
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

    /// The help text of the option. It omits the default of a switch, which is always off.
    #[must_use]
    pub fn option_help(&self) -> String {
        let default = if self.is_value && !self.is_switch { format!(" [default: {}]", self.default) } else { String::new() };
        format!("{}{default}", self.option_help)
    }

    /// Checks whether a value is valid for the option.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    pub fn check_option(&self, text: &str) -> Result<(), String> {
        (self.check)(text)
    }

    /// The JSON schema of a value in the change file.
    #[must_use]
    pub fn schema(&self) -> Value {
        (self.schema)()
    }

    /// A value for a new change file: an example, or else the default.
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
