//! `git ralph doctor`.

use clap::Args;

/// Check what a run needs, and say how to mend what is missing.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Only what this change needs; every change if none is named
    pub change: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
