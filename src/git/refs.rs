//! Refs: all of them in one question, several of them in one transaction.

use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::Oid;

/// One ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefEntry {
    /// Its full name.
    pub name: String,
    /// What it points at.
    pub oid: Oid,
    /// Whether HEAD is on it.
    pub head: bool,
}

/// All refs of a repository.
#[derive(Clone, Debug, Default)]
pub struct RefList(Vec<RefEntry>);

impl RefList {
    /// The arguments of the one question.
    pub const QUERY: [&str; 2] = ["for-each-ref", "--format=%(objectname) %(HEAD) %(refname)"];

    /// Parses the answer to [`RefList::QUERY`].
    ///
    /// # Errors
    /// If git answers in another form.
    pub fn parse(output: &[u8]) -> Result<Self> {
        let parse = |line: &str| {
            let (oid, rest) = line.split_once(' ').context("no object id")?;
            let (head, name) = (rest.starts_with('*'), rest.get(2..).context("no ref name")?);
            Ok(RefEntry { name: name.to_owned(), oid: oid.parse()?, head })
        };
        let text = String::from_utf8_lossy(output);
        let entries = text.lines().map(parse).collect::<Result<_>>().context("git for-each-ref answered in an unknown form")?;
        Ok(RefList(entries))
    }

    /// What a full ref name points at.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Oid> {
        self.0.iter().find(|entry| entry.name == name).map(|entry| &entry.oid)
    }

    /// The branch that HEAD is on, if it has commits.
    #[must_use]
    pub fn head(&self) -> Option<&RefEntry> {
        self.0.iter().find(|entry| entry.head)
    }

    /// The refs below a prefix that ends in a slash.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a RefEntry> {
        self.0.iter().filter(move |entry| entry.name.starts_with(prefix))
    }
}

/// One line of a ref transaction; an old value makes it fail if the ref has moved.
#[derive(Clone, Debug)]
pub enum RefUpdate {
    /// Sets a ref, whatever it was.
    Set {
        /// Full name.
        name: String,
        /// New value.
        to: Oid,
    },
    /// Moves a ref from a known value.
    Move {
        /// Full name.
        name: String,
        /// New value.
        to: Oid,
        /// The value it must have.
        from: Oid,
    },
    /// Creates a ref that must not exist.
    Create {
        /// Full name.
        name: String,
        /// New value.
        to: Oid,
    },
    /// Deletes a ref, if it still has the given value.
    Delete {
        /// Full name.
        name: String,
        /// The value it must have.
        from: Oid,
    },
}

impl RefUpdate {
    /// The whole transaction as `git update-ref --stdin` reads it.
    #[must_use]
    pub fn transaction(updates: &[RefUpdate]) -> String {
        let mut text = "start\n".to_owned();
        for update in updates {
            let _ = match update {
                RefUpdate::Set { name, to } => writeln!(text, "update {name} {to}"),
                RefUpdate::Move { name, to, from } => writeln!(text, "update {name} {to} {from}"),
                RefUpdate::Create { name, to } => writeln!(text, "create {name} {to}"),
                RefUpdate::Delete { name, from } => writeln!(text, "delete {name} {from}"),
            };
        }
        text.push_str("prepare\ncommit\n");
        text
    }
}
