//! Defines the arguments of `git ralph skip`.

use clap::Args;

/// Leave out a story and the stories that depend on it. An attempt in progress is ended and rolled back.
#[derive(Debug, Args)]
pub struct Skip {
    /// The story
    pub story: String,
    /// The change (default: the one with the open run in this work tree)
    #[arg(long, value_name = "NAME")]
    pub change: Option<String>,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}
