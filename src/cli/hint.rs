//! `git ralph hint`.

use clap::Args;

/// Give advice to the next attempts of a story. A story that waits for you goes on with it.
#[derive(Debug, Args)]
#[command(override_usage = "git ralph hint [<options>] [<story>] -m <text>\n       git ralph hint [<options>] [<story>] < <file>")]
pub struct Hint {
    /// The story; every story if none is named
    pub story: Option<String>,
    /// The advice; read from standard input if it is not given
    #[arg(short, long, value_name = "TEXT")]
    pub message: Option<String>,
    /// End the attempt that is under way and begin again with the advice; no retry is spent
    #[arg(long)]
    pub now: bool,
    /// The change; the open run of this work tree if none is named
    #[arg(long, value_name = "NAME")]
    pub change: Option<String>,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}
