//! The stash as a list of commits with their messages.

use super::Oid;

/// One entry, newest first in every list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StashEntry {
    /// The commit.
    pub oid: Oid,
    /// What `git stash list` shows.
    pub message: String,
}

impl StashEntry {
    /// The arguments that list them.
    pub const QUERY: [&str; 5] = ["log", "-g", "--format=%H %gs", "refs/stash", "--"];

    /// Parses the answer to [`StashEntry::QUERY`].
    #[must_use]
    pub fn parse(output: &[u8]) -> Vec<Self> {
        let entry = |line: &str| {
            let (oid, message) = line.split_once(' ')?;
            Some(StashEntry { oid: oid.parse().ok()?, message: message.to_owned() })
        };
        String::from_utf8_lossy(output).lines().filter_map(entry).collect()
    }

    /// The entry as a line of a record.
    #[must_use]
    pub fn line(&self) -> String {
        format!("stash {} {}\n", self.oid, self.message)
    }

    /// The entries in a record, among other lines.
    #[must_use]
    pub fn from_lines(record: &str) -> Vec<Self> {
        let lines: String = record.lines().filter_map(|line| line.strip_prefix("stash ")).map(|line| format!("{line}\n")).collect();
        Self::parse(lines.as_bytes())
    }

    /// Whether it was made on the given branch.
    #[must_use]
    pub fn is_from(&self, branch: &str) -> bool {
        self.message.starts_with(&format!("WIP on {branch}:")) || self.message.starts_with(&format!("On {branch}:"))
    }
}
