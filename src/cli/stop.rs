//! Defines the arguments of `git ralph stop`.

use clap::Args;

/// Ask a running loop to stop after the current attempt.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// The change (default: the one that is running in this work tree)
    pub change: Option<String>,
    /// End the current attempt instead of waiting for it
    #[arg(long)]
    pub now: bool,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}
