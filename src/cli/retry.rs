//! Defines the arguments of `git ralph retry`.

use clap::Args;

/// Give a story a fresh set of retries. This also includes a skipped story again and wakes a blocked one.
#[derive(Debug, Args)]
pub struct Retry {
    /// The story (default: every story that has failed or is blocked)
    pub story: Option<String>,
    /// The change (default: the one with the open run in this work tree)
    #[arg(long, value_name = "NAME")]
    pub change: Option<String>,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}
