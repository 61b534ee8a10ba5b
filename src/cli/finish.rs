//! Defines the arguments of `git ralph finish`.

use clap::Args;

use crate::config::Finish;

/// Finish a run. If neither --cleanup nor --keep is given, it asks on a terminal.
#[derive(Debug, Args)]
pub struct FinishArgs {
    /// The change (default: the one with the open run in this work tree)
    pub change: Option<String>,
    /// Return to the original branch, with the result as uncommitted changes
    #[arg(long, conflicts_with = "keep")]
    pub cleanup: bool,
    /// Stay on the run's branch
    #[arg(long)]
    pub keep: bool,
    /// Print the plan and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}

impl FinishArgs {
    /// The mode that was chosen, if any.
    #[must_use]
    pub fn mode(&self) -> Option<Finish> {
        match (self.cleanup, self.keep) {
            (true, _) => Some(Finish::Cleanup),
            (_, true) => Some(Finish::Keep),
            _ => None,
        }
    }
}
