//! The rules for a loop, from the settings and the options of a command.

use std::time::Duration;

use crate::agent::Usage;
use crate::config::LimitWait;
use crate::cost::Cost;
use crate::story::{Order, StoryId};

/// The rules for a loop. They may change between two commands.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The number of retries after the first attempt.
    pub max_retries: u32,
    /// Whether the loop goes on with other stories when one has no retries left.
    pub keep_going: bool,
    /// The number of attempts at the same time.
    pub jobs: usize,
    /// The order in which stories may start.
    pub order: Order,
    /// How many stories this command should land.
    pub limit: Option<u32>,
    /// The stories to work on. Empty means all.
    pub only: Vec<StoryId>,
    /// The current agent.
    pub agent: Option<String>,
    /// Whether to wait for a usage limit.
    pub limit_wait: LimitWait,
    /// The first wait for a usage limit whose reset time is not known.
    pub limit_pause: Duration,
    /// How often in a row to wait for a usage limit without any progress.
    pub limit_waits: LimitWaits,
    /// How often in a row the runner may fail.
    pub runner_failures: RunnerFailures,
    /// The budget of the run in money.
    pub max_cost: Option<Cost>,
    /// The budget of the run in tokens.
    pub max_tokens: Option<u64>,
    /// The usage of the running agents, as far as they have reported it.
    pub in_flight: Usage,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            max_retries: 3,
            keep_going: false,
            jobs: 1,
            order: Order::Graph,
            limit: None,
            only: Vec::new(),
            agent: None,
            limit_wait: LimitWait::Wait,
            limit_pause: Duration::from_secs(300),
            limit_waits: LimitWaits::default(),
            runner_failures: RunnerFailures::default(),
            max_cost: None,
            max_tokens: None,
            in_flight: Usage::default(),
        }
    }
}

/// How often in a row the loop waits for a usage limit. A wait costs no retry, so without this limit a run whose agent always reports a
/// usage limit would never end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitWaits {
    /// If the last error message had a reset time. This ends the waits for a client that keeps reporting a wrong time.
    pub announced: u32,
    /// If it had none. This is long enough for a quota that is renewed once per day.
    pub guessed: u32,
}

impl Default for LimitWaits {
    fn default() -> Self {
        LimitWaits { announced: 10, guessed: 30 }
    }
}

/// How often in a row a runner may fail before the loop ends. Such a failure costs no retry, so nothing else would end the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerFailures {
    /// If the runner did not start an agent the last time. It is then often misconfigured, and retries do not help.
    pub not_started: u32,
    /// If the runner lost a running agent, because a job was cancelled or a node failed.
    pub lost: u32,
}

impl Default for RunnerFailures {
    fn default() -> Self {
        RunnerFailures { not_started: 3, lost: 10 }
    }
}
