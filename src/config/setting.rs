//! A value together with its origin, which errors and listings show.

use std::fmt;

use super::git_config::Scope;

/// Where a value was set, strongest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A command-line option.
    Flag(&'static str),
    /// `git -c key=value`.
    Command,
    /// The change file with this path.
    ChangeFile(String),
    /// A git configuration file.
    Git {
        /// The scope: worktree, local, global or system.
        scope: Scope,
        /// The file as git names it: `file:.git/config`.
        place: String,
    },
    /// The built-in default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(name) => write!(f, "option {name}"),
            Origin::Command => f.write_str("git -c"),
            Origin::ChangeFile(path) => write!(f, "{path}"),
            Origin::Git { scope, place } => write!(f, "{scope} git config ({place})"),
            Origin::Default => f.write_str("built-in default"),
        }
    }
}

/// A value and where it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it was set.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// Pairs a value with its origin.
    pub fn new(value: T, origin: Origin) -> Self {
        Setting { value, origin }
    }
}
