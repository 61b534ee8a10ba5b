//! `git ralph status`.

use clap::Args;

/// Show where the run stands and what to type next.
#[derive(Debug, Default, Args)]
pub struct Status {
    /// The change; the open run of this work tree if none is named
    pub change: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
