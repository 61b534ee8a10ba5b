//! Which agent to use: a configured name, or a command with its arguments.

use serde::{Deserialize, Serialize};

use super::setting_type::SettingType;

/// Which agent to use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentChoice {
    /// A program with its arguments.
    Command(Vec<String>),
    /// A known client, or an agent configured under this name.
    Named(String),
}

/// Text is always a name. Only `-- CMD…` and the key `command` of the change file set a command, because it has several words.
impl SettingType for AgentChoice {
    type Value = Self;
    const FORM: &'static str = "<name>";

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(AgentChoice::Named(text.to_owned()))
    }

    fn shown(value: &Self) -> Vec<String> {
        vec![match value {
            AgentChoice::Named(name) => name.clone(),
            AgentChoice::Command(words) => format!("-- {}", words.join(" ")),
        }]
    }
}
