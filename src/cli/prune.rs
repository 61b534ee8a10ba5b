//! Defines the arguments of `git ralph prune`.

use clap::Args;

/// Delete the refs, transcripts and old stash entries of finished and aborted runs. This cannot be undone.
#[derive(Debug, Args)]
pub struct Prune {
    /// Delete only these refs; a branch that you kept and that a later run moved is deleted only if it is named here
    #[arg(value_name = "REF", conflicts_with = "change")]
    pub refs: Vec<String>,
    /// Delete only what belongs to this change
    #[arg(long, value_name = "NAME")]
    pub change: Option<String>,
    /// List what would be deleted and do nothing
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Delete without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}
