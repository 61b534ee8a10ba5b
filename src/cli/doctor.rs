//! `git ralph doctor`.

use clap::Args;

/// Check what a run needs, and say how to mend what is missing.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
