//! `git ralph undo`.

use clap::Args;

/// Take the last checkpoint back; what it held stays reachable under refs/ralph/.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// The change; the open run of this work tree if none is named
    pub change: Option<String>,
    /// Take back every checkpoint after that of STORY
    #[arg(long, value_name = "STORY")]
    pub to: Option<String>,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}
