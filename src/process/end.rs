//! Every way in which a child process can end.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a process did, as opposed to what it said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Exit {
    /// Exit status 0.
    Success,
    /// Another exit status.
    Code {
        /// The status.
        code: i32,
    },
    /// Died of a signal that we did not send.
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// Ended by us: the time for the whole attempt was up.
    TimedOut {
        /// The limit, in seconds.
        seconds: u64,
    },
    /// Ended by us: no output for too long.
    Stalled {
        /// The limit, in seconds.
        seconds: u64,
    },
    /// Ended by us: it had said its last word and did not go.
    Lingered,
    /// Ended by us: the user asked.
    Interrupted,
    /// It never ran.
    CouldNotStart {
        /// What the system said.
        error: String,
    },
    /// It never ran: the runner that should start it did not.
    NotStarted {
        /// How the runner ended, and what it printed last.
        message: String,
    },
    /// The runner that started it ended without reporting how it ended. It may still be running.
    Lost {
        /// How the runner ended, and what was printed last.
        message: String,
    },
}

impl Exit {
    /// Reads the status that the kernel reports.
    #[must_use]
    pub fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(0), _) => Exit::Success,
            (Some(code), _) => Exit::Code { code },
            (None, signal) => Exit::Signal { signal: signal.unwrap_or_default() },
        }
    }

    /// The ending of a process whose time was up.
    #[must_use]
    pub fn timed_out(limit: Duration) -> Self {
        Exit::TimedOut { seconds: limit.as_secs().max(1) }
    }

    /// The ending of a process that fell silent.
    #[must_use]
    pub fn stalled(limit: Duration) -> Self {
        Exit::Stalled { seconds: limit.as_secs().max(1) }
    }
}
