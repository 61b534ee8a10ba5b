//! `git ralph doctor`.

use clap::Args;

/// Check that everything a run needs is in place, and how to fix what is not.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Only what this change needs; every change if none is named
    pub change: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
