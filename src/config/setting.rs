//! A value that remembers where it was set, so that an error or a listing can say so.

use std::fmt;

use super::git_config::Scope;

/// Where a value came from, strongest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An option of this command.
    Flag(&'static str),
    /// `git -c key=value`.
    Command,
    /// The change file, by its path.
    ChangeFile(String),
    /// A git configuration file.
    Git {
        /// worktree, local, global or system.
        scope: Scope,
        /// As git names it, `file:.git/config`.
        place: String,
    },
    /// Built in.
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
