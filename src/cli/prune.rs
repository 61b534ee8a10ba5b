//! `git ralph prune`.

use clap::Args;

/// Delete what finished and aborted runs keep: refs, transcripts, old stash entries. There is no way back.
#[derive(Debug, Args)]
pub struct Prune {
    /// Only these refs; a branch that you kept and a later run moved aside is deleted only if it is named here
    #[arg(value_name = "REF", conflicts_with = "change")]
    pub refs: Vec<String>,
    /// Only of this change
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
