//! The commit that a worker pushes: its tree has the files that the agent left, and its message describes everything else.

use serde::{Deserialize, Serialize};

use crate::git::Oid;
use crate::process::Exit;

const SUBJECT: &str = "what the agent left";

/// The message of the commit. Every commit that it names is an ancestor of the pushed commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RemoteResult {
    /// The mark of the attempt on the machine of the run.
    pub token: String,
    /// How the agent ended.
    pub exit: Exit,
    /// How many bytes the agent wrote to standard output.
    pub stdout: u64,
    /// The commit at HEAD when the agent ended. `None` if it is the base of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Oid>,
    /// Other commits that the agent made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Oid>,
    /// A commit of the agent's index, if that differs from the files that it left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<Oid>,
    /// The text that the agent added to the learnings.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub learnings: String,
    /// The processes that the agent left running. The worker has ended them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub survivors: Vec<String>,
    /// Warnings about work that the commit does not contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl RemoteResult {
    /// The commit message.
    #[must_use]
    pub fn message(&self) -> String {
        format!("{SUBJECT}\n\n{}\n", serde_json::to_string(self).unwrap_or_default())
    }

    /// Parses a commit message. `None` if no worker wrote it.
    #[must_use]
    pub fn read(message: &str) -> Option<Self> {
        let body = message.strip_prefix(SUBJECT)?;
        serde_json::from_str(body.trim()).ok()
    }

    /// The commits that the message names.
    pub fn commits(&self) -> impl Iterator<Item = &Oid> {
        self.head.iter().chain(&self.others).chain(&self.staged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let oid = |n: u32| format!("{n:040x}").parse::<Oid>().unwrap();
        let result = RemoteResult {
            token: "run/1/2/".into(),
            exit: Exit::Code { code: 3 },
            stdout: 17,
            head: Some(oid(1)),
            others: vec![oid(2)],
            staged: None,
            learnings: "- a line\n\n\"quoted\"\n".into(),
            survivors: Vec::new(),
            warnings: Vec::new(),
        };
        let message = result.message();
        assert_eq!(message.lines().count(), 3, "{message}");
        assert_eq!(RemoteResult::read(&message), Some(result));
        for other in ["", "what the agent left\n", "checkpoint: 1\n\n{}", "what the agent left\n\n{\"token\":1}"] {
            assert_eq!(RemoteResult::read(other), None, "{other}");
        }
    }
}
