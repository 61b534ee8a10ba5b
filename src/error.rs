//! Errors that decide the exit status or carry hints; every other error is fatal and plain `anyhow`.

use std::fmt;

/// How a command ended, as its exit status tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// What was asked for is done.
    Done,
    /// The run stopped short: retries spent, stopped, gates red.
    StoppedShort,
    /// Nothing to do, or not possible in this state.
    NotPossible,
    /// An error that the command could not get past.
    Fatal,
    /// The command line was wrong.
    Usage,
    /// Ended by a signal from the user.
    Interrupted,
}

impl ExitStatus {
    /// The number for the shell.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            ExitStatus::Done => 0,
            ExitStatus::StoppedShort => 1,
            ExitStatus::NotPossible => 2,
            ExitStatus::Fatal => 128,
            ExitStatus::Usage => 129,
            ExitStatus::Interrupted => 130,
        }
    }
}

/// An error with an exit status of its own and, where there is one, the next command to type.
#[derive(Debug)]
pub struct Problem {
    /// The exit status that it means.
    pub ending: ExitStatus,
    message: String,
    hints: Vec<String>,
}

impl Problem {
    /// Something that is not possible in this state: exit status 2.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::with(ExitStatus::NotPossible, message)
    }

    /// Something that nothing can be done about here: exit status 128.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self::with(ExitStatus::Fatal, message)
    }

    /// A command line that makes no sense: exit status 129.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::with(ExitStatus::Usage, message)
    }

    fn with(ending: ExitStatus, message: impl Into<String>) -> Self {
        Problem { ending, message: message.into(), hints: Vec::new() }
    }

    /// Adds a line that names what to type next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The lines that name what to type next.
    #[must_use]
    pub fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}
