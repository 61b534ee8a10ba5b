//! Defines the arguments of `git ralph hint`.

use clap::Args;

/// Give advice to the next attempts of a story. It also wakes a blocked story.
#[derive(Debug, Args)]
#[command(override_usage = "git ralph hint [<options>] [<story>] -m <text>\n       git ralph hint [<options>] [<story>] < <file>")]
pub struct Hint {
    /// The story (default: every story)
    pub story: Option<String>,
    /// The advice (default: read from standard input)
    #[arg(short, long, value_name = "TEXT")]
    pub message: Option<String>,
    /// End the current attempt and start it again with the advice; this uses no retry
    #[arg(long)]
    pub now: bool,
    /// The change (default: the one with the open run in this work tree)
    #[arg(long, value_name = "NAME")]
    pub change: Option<String>,
    /// Print errors and warnings only
    #[arg(short, long)]
    pub quiet: bool,
}
