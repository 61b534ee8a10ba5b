//! Settings with their origin, layered; the change file; and the only place that reads the environment.

mod change_file;
mod duration;
mod environment;
pub mod git_config;
mod keys;
mod listing;
mod manners;
mod setting;
mod settings;
mod template;

pub use change_file::{ChangeFile, parse as parse_change_file};
pub use duration::parse as parse_duration;
pub use environment::{Environment, completion_word};
pub use git_config::{Entry, GitConfig, Scope};
pub use keys::{KEYS, Key};
pub use listing::{Listed, listing, strangers};
pub use manners::{Advice, Manners, Wanted};
pub use setting::{Origin, Setting};
pub use settings::{AgentChoice, Bell, Finish, Flags, LimitWait, Settings, git_timeout};
pub use template::{change_file as change_file_template, sourced_change_file};
