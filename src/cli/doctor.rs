//! Defines the arguments of `git ralph doctor`.

use clap::Args;

/// Check that everything a run needs is in place, and say how to fix what is not.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Check only what this change needs (default: every change)
    pub change: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
