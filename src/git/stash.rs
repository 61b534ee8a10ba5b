//! Reads, rebuilds and drops entries of the stash; each entry is checked right before it is dropped.

use anyhow::{Result, bail};

use super::{Oid, RefList, Repo};
use crate::error::Problem;

/// One entry of the stash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StashEntry {
    /// The number in `stash@{n}`. 0 is the newest; the number changes when a newer entry is dropped.
    pub index: usize,
    /// The commit.
    pub oid: Oid,
    /// The message that `git stash list` shows.
    pub message: String,
}

impl StashEntry {
    fn parse(lines: &str) -> Vec<Self> {
        let entry = |(index, line): (usize, &str)| {
            let (oid, message) = line.split_once(' ').unwrap_or((line, ""));
            Some(StashEntry { index, oid: oid.parse().ok()?, message: message.to_owned() })
        };
        lines.lines().enumerate().filter_map(entry).collect()
    }

    /// The entry as a line of a record.
    #[must_use]
    pub fn line(&self) -> String {
        format!("stash {} {}\n", self.oid, self.message)
    }

    /// Parses the entries in a record, which may contain other lines.
    #[must_use]
    pub fn from_lines(record: &str) -> Vec<Self> {
        let lines: String = record.lines().filter_map(|line| line.strip_prefix("stash ")).map(|line| format!("{line}\n")).collect();
        Self::parse(&lines)
    }

    /// Whether it was created on the given branch.
    #[must_use]
    pub fn is_from(&self, branch: &str) -> bool {
        self.message.starts_with(&format!("WIP on {branch}:")) || self.message.starts_with(&format!("On {branch}:"))
    }

    /// The message without the branch that git puts before it.
    #[must_use]
    pub fn words(&self) -> &str {
        self.message.strip_prefix("On ").and_then(|rest| rest.split_once(": ")).map_or(&self.message, |(_, words)| words)
    }
}

impl Repo {
    /// The entries of the stash, newest first. If `refs` shows that there is no stash, no git process is needed.
    pub async fn stash(&self, refs: &RefList) -> Result<Vec<StashEntry>> {
        let Some(tip) = refs.get("refs/stash") else { return Ok(Vec::new()) };
        let mut entries = self.stashes().await?;
        if entries.first().is_none_or(|entry| entry.oid != *tip) {
            // The entry has expired from the reflog, from which git makes the list, but the ref still points to it.
            let message = self.message(tip).await?.lines().next().unwrap_or_default().to_owned();
            entries.iter_mut().for_each(|entry| entry.index += 1);
            entries.insert(0, StashEntry { index: 0, oid: tip.clone(), message });
        }
        Ok(entries)
    }

    /// The entries of the stash, newest first.
    pub async fn stashes(&self) -> Result<Vec<StashEntry>> {
        let output = self.git.call(["stash", "list", "--format=%H %gs"]).working().output().await?;
        Ok(StashEntry::parse(&String::from_utf8_lossy(&output)))
    }

    /// Replaces the stash by these entries, newest first. Meanwhile, each entry must be reachable from another ref.
    pub async fn rebuild_stash(&self, entries: &[StashEntry]) -> Result<()> {
        self.git.call(["update-ref", "-d", "refs/stash"]).output().await?;
        for entry in entries.iter().rev() {
            self.git.call(["stash", "store", "-m", &entry.message, entry.oid.as_str()]).output().await?;
        }
        Ok(())
    }

    /// Drops entries, the oldest first so that the others keep their numbers. Each is checked again right before.
    ///
    /// # Errors
    /// If git fails, or an entry has changed. That entry and the remaining ones are not dropped.
    pub async fn drop_stashes(&self, entries: &[StashEntry]) -> Result<()> {
        let mut entries: Vec<&StashEntry> = entries.iter().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.index));
        for entry in entries {
            let name = format!("stash@{{{}}}", entry.index);
            if self.stashes().await?.get(entry.index) != Some(entry) {
                bail!(Problem::refused(format!("{name} is not what it was, it is left alone")).hint("git stash list"));
            }
            self.git.call(["stash", "drop", "-q", &name]).working().output().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::StashEntry;

    #[test]
    fn the_branch_is_not_part_of_the_message() {
        let words = |message: &str| StashEntry::parse(&format!("{} {message}", "0".repeat(40)))[0].words().to_owned();
        assert_eq!(words("On main: ralph:work:1"), "ralph:work:1");
        assert_eq!(words("On (no branch): ralph:work:1: x"), "ralph:work:1: x");
        assert_eq!(words("ralph:work:1"), "ralph:work:1");
        assert_eq!(words("WIP on main: 123 ralph:work:1"), "WIP on main: 123 ralph:work:1");
    }
}
