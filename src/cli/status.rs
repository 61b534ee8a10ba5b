//! Defines the arguments of `git ralph status`.

use clap::Args;

/// Show the state of the run and what to type next.
#[derive(Debug, Default, Args)]
pub struct Status {
    /// The change (default: the one with the open run in this work tree)
    pub change: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
