//! Identifies a process by its id and its start time, so that a reused id is not mistaken for it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::platform::{self, Stat, executable_of};

/// A process, identified uniquely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its id.
    pub pid: u32,
    /// The start time, in the unit of the system.
    born: u64,
}

impl Identity {
    /// This process.
    #[must_use]
    pub fn own() -> Self {
        let pid = std::process::id();
        Identity { pid, born: born(pid).unwrap_or_default() }
    }

    /// The process that has this id now.
    pub(super) fn of(pid: u32) -> Option<Self> {
        born(pid).map(|born| Identity { pid, born })
    }

    /// Whether the process exists, even if it has ended and has not been reaped.
    pub(super) fn exists(&self) -> bool {
        born(self.pid) == Some(self.born)
    }

    /// Whether the process has not ended.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.exists() && super::is_alive(self.pid)
    }

    /// Whether the process has a lock file open. Where the system cannot tell, whether any process holds the lock.
    #[must_use]
    pub fn holds(&self, path: &Path) -> bool {
        platform::holds(self.pid, path)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.born)
    }
}

impl FromStr for Identity {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (pid, born) = text.trim().split_once(' ').ok_or(())?;
        Ok(Identity { pid: pid.parse().map_err(|_| ())?, born: born.parse().map_err(|_| ())? })
    }
}

fn born(pid: u32) -> Option<u64> {
    Stat::of(pid).map(|stat| stat.born)
}

/// Whether a process runs the same executable as this one.
#[must_use]
pub fn is_same_program(pid: u32) -> bool {
    executable_of(std::process::id()).is_some_and(|own| executable_of(pid) == Some(own))
}
