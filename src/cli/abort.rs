//! Defines the arguments of `git ralph abort`.

use clap::Args;

/// Give up the run and restore branch, work tree and index to their state before `start`. The work of the run is saved under refs/ralph/.
#[derive(Debug, Args)]
pub struct Abort {
    /// The change (default: the one with the open run in this work tree)
    pub change: Option<String>,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}
