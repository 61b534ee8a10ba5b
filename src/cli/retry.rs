//! `git ralph retry`.

use clap::Args;

/// Give a story a fresh set of retries. A story that is skipped, or waits for you, goes on, too.
#[derive(Debug, Args)]
pub struct Retry {
    /// The story; every story that failed or waits for you if none is named
    pub story: Option<String>,
    /// The change; the open run of this work tree if none is named
    #[arg(long, value_name = "NAME")]
    pub change: Option<String>,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}
