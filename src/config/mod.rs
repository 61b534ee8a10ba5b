//! Settings with their layers and origins, the change file, and the only code that reads environment variables.
//!
//! `table.rs` defines every setting and describes how to add one.

mod agent_choice;
mod change_file;
mod choices;
mod define;
mod duration;
mod environment;
mod flags;
pub mod git_config;
mod key;
mod layers;
mod listing;
mod output_style;
mod schema;
mod setting;
mod setting_type;
mod table;
mod template;
mod toml_value;

pub use agent_choice::AgentChoice;
pub use change_file::{ChangeFile, parse as parse_change_file};
pub use choices::{Bell, EmptyDiff, Finish, LimitWait, MergeGates, ReportWhen, SandboxMode};
pub use duration::parse as parse_duration;
pub use environment::{Environment, completion_word};
pub use git_config::{BadValue, Entry, GitConfig, Scope};
pub use key::Key;
pub use layers::git_timeout;
pub use listing::{Listed, list_bad, resolve_without_bad, unknown_entries};
pub use output_style::{Advice, OutputStyle, Wanted};
pub use schema::{SCHEMA_FILE, change_file_schema};
pub use setting::{Origin, Setting};
#[cfg(test)]
pub(crate) use setting_type::YesNo;
pub use setting_type::{RUNNER_PLACEHOLDERS, placeholders, whole_number};
pub use table::{FileSettings, Flags, KEYS, Settings};
pub use template::{change_file as change_file_template, sourced_change_file, unedited};
