//! The ways in which a child process can end.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a process ended, as opposed to what it reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Exit {
    /// Exit status 0.
    Success,
    /// An exit status other than 0.
    Code {
        /// The status.
        code: i32,
    },
    /// A signal that git-ralph did not send.
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// git-ralph ended it: the total time limit was reached.
    TimedOut {
        /// The limit, in seconds.
        seconds: u64,
    },
    /// git-ralph ended it: there was no output for too long.
    Stalled {
        /// The limit, in seconds.
        seconds: u64,
    },
    /// git-ralph ended it: it had finished its work and did not exit.
    Lingered,
    /// git-ralph ended it at the user's request.
    Interrupted,
    /// The system could not start it.
    CouldNotStart {
        /// The error of the system.
        error: String,
    },
    /// It never ran, because its runner did not start it.
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

    /// The exit of a process that reached its total time limit.
    #[must_use]
    pub fn timed_out(limit: Duration) -> Self {
        Exit::TimedOut { seconds: limit.as_secs().max(1) }
    }

    /// The exit of a process without output for too long.
    #[must_use]
    pub fn stalled(limit: Duration) -> Self {
        Exit::Stalled { seconds: limit.as_secs().max(1) }
    }
}
