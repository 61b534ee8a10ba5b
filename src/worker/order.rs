//! What a worker is asked to do.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::connection;
use crate::git::Oid;
use crate::remote::{Hub, HubRef};

/// One attempt, as a worker gets to know it.
#[derive(Debug)]
pub struct Order {
    /// The repository that both machines can reach.
    pub hub: Hub,
    /// The commit that the attempt begins from.
    pub base: Oid,
    /// The ref of the hub that has it.
    pub base_ref: Option<HubRef>,
    /// The ref of the hub that the result is pushed to.
    pub result: HubRef,
    /// How many commits of history to fetch.
    pub depth: Option<u32>,
    /// Where workspaces are made.
    pub dir: PathBuf,
    /// Between TERM and KILL.
    pub grace: Duration,
    /// Variables for the agent.
    pub env: Vec<(String, OsString)>,
    /// Shell commands that set the workspace up.
    pub setup: Vec<OsString>,
    /// The name and the address of the agent's commits.
    pub identity: Option<(String, String)>,
    /// How many bytes of learnings stand before the prompt.
    pub learnings_bytes: u64,
    /// How many bytes the prompt has.
    pub prompt_bytes: Option<u64>,
    /// What begins the reports that the agent starts and has ended.
    pub report: Option<String>,
    /// The agent with its arguments.
    pub agent: Vec<OsString>,
}

impl Order {
    /// The variable that marks every process of an attempt.
    pub const MARK: &'static str = "RALPH_RUN";

    /// What the end where the run is calls the attempt.
    #[must_use]
    pub fn token(&self) -> String {
        let given = self.env.iter().find(|(name, _)| name == Self::MARK);
        given.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// What marks the processes of the attempt here. It is not the mark of the other end: both may be on one machine.
    #[must_use]
    pub fn mark(&self) -> String {
        format!("worker/{}/{}", std::process::id(), self.token())
    }

    /// Reports how far the attempt has come, on standard error, if the other end wants to know.
    pub(super) fn tell(&self, what: &str) {
        if let Some(mark) = &self.report {
            connection::pass_on(io::stderr(), format!("{mark}-{what}\n").as_bytes());
        }
    }
}
