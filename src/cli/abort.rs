//! `git ralph abort`.

use clap::Args;

/// Give a run up; what it did stays reachable under refs/ralph/.
#[derive(Debug, Args)]
pub struct Abort {
    /// The change; the open run of this work tree if none is named
    pub change: Option<String>,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}
