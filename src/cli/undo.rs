//! Defines the arguments of `git ralph undo`.

use clap::Args;

/// Remove the last checkpoint from the branch and save it under refs/ralph/.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// The change (default: the one with the open run in this work tree)
    pub change: Option<String>,
    /// Remove every checkpoint after the one of STORY
    #[arg(long, value_name = "STORY")]
    pub to: Option<String>,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}
