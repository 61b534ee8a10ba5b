//! Defines the arguments of `git ralph done`.

use clap::Args;

/// Mark a story as done by hand. Your uncommitted edits become its checkpoint; no gate is run.
#[derive(Debug, Args)]
pub struct Done {
    /// The story (default: the one that is in progress or has failed)
    pub story: Option<String>,
    /// Text to add to the commit message
    #[arg(short, long, value_name = "TEXT")]
    pub message: Option<String>,
    /// The change (default: the one with the open run in this work tree)
    #[arg(long, value_name = "NAME")]
    pub change: Option<String>,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}
