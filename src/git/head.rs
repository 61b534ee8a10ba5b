//! Describes HEAD: on a branch, detached, or on a branch without commits.

use serde::{Deserialize, Serialize};

use super::Oid;

/// The state of HEAD; branch names are full ref names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Head {
    /// On a branch with commits.
    Branch {
        /// `refs/heads/…`.
        name: String,
        /// Its tip.
        oid: Oid,
    },
    /// Detached at a commit.
    Detached {
        /// The commit.
        oid: Oid,
    },
    /// On a branch without commits.
    Unborn {
        /// `refs/heads/…`.
        name: String,
    },
}

impl Head {
    /// The commit, if there is one.
    #[must_use]
    pub fn oid(&self) -> Option<&Oid> {
        match self {
            Head::Branch { oid, .. } | Head::Detached { oid } => Some(oid),
            Head::Unborn { .. } => None,
        }
    }

    /// The full name of the branch; none if HEAD is detached.
    #[must_use]
    pub fn branch(&self) -> Option<&str> {
        match self {
            Head::Branch { name, .. } | Head::Unborn { name } => Some(name),
            Head::Detached { .. } => None,
        }
    }

    /// The short name for messages.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Head::Branch { name, .. } | Head::Unborn { name } => name.strip_prefix("refs/heads/").unwrap_or(name).to_owned(),
            Head::Detached { oid } => oid.short().to_owned(),
        }
    }
}
