//! `git ralph stop`.

use clap::Args;

/// Ask a running loop to stop after the attempt that is under way.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// The change; the running one of this work tree if none is named
    pub change: Option<String>,
    /// End the attempt that is under way
    #[arg(long)]
    pub now: bool,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}
