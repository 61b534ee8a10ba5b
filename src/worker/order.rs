//! The order of a worker: one attempt, with everything that the worker has to know about it.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::connection;
use crate::git::Oid;
use crate::remote::{Hub, HubRef};

/// One attempt for a worker, from its command line.
#[derive(Debug)]
pub struct Order {
    /// The repository that both machines can reach.
    pub hub: Hub,
    /// The commit that the attempt starts from.
    pub base: Oid,
    /// The ref on the hub that points to this commit.
    pub base_ref: Option<HubRef>,
    /// The ref on the hub that the worker pushes the result to.
    pub result: HubRef,
    /// How many commits of history to fetch. `None` for all.
    pub depth: Option<u32>,
    /// The directory for workspaces.
    pub dir: PathBuf,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Environment variables for the agent.
    pub env: Vec<(String, OsString)>,
    /// Shell commands that set the workspace up.
    pub setup: Vec<OsString>,
    /// The author name and email address for the agent's commits.
    pub identity: Option<(String, String)>,
    /// How many bytes of learnings precede the prompt on standard input.
    pub learnings_bytes: u64,
    /// The length of the prompt. `None` if the prompt ends with standard input.
    pub prompt_bytes: Option<u64>,
    /// The text that begins the worker's reports of the agent's start and end. `None` if no reports are wanted.
    pub report: Option<String>,
    /// The agent's program and its arguments.
    pub agent: Vec<OsString>,
}

impl Order {
    /// The environment variable that marks every process of an attempt.
    pub const MARK: &'static str = "RALPH_RUN";

    /// The mark of the attempt on the machine of the run.
    #[must_use]
    pub fn token(&self) -> String {
        let given = self.env.iter().find(|(name, _)| name == Self::MARK);
        given.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The mark for the processes of the attempt on this machine. It differs from the mark of the run, because both may be on one machine.
    #[must_use]
    pub fn mark(&self) -> String {
        format!("worker/{}/{}", std::process::id(), self.token())
    }

    /// Reports the progress of the attempt on standard error, if reports are wanted.
    pub(super) fn tell(&self, what: &str) {
        if let Some(mark) = &self.report {
            connection::pass_on(io::stderr(), format!("{mark}-{what}\n").as_bytes());
        }
    }
}
