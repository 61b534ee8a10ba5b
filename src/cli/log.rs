//! `git ralph log`.

use clap::Args;

/// Say what has happened in a run, and what was taken out and is kept.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// The change; the open run of this work tree if none is named
    pub change: Option<String>,
    /// Only this story; can be named alone
    pub story: Option<String>,
}
