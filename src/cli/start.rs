//! Defines the arguments of `git ralph start`.

use clap::Args;

use super::RunOptions;

/// Start a run.
#[derive(Debug, Args)]
#[command(override_usage = "git ralph start [<options>] [<change>] [-- <cmd>...]")]
pub struct Start {
    /// The change (default: the only one; if there are several, you are asked on a terminal)
    pub change: Option<String>,
    /// Set the unfinished run aside (under refs/ralph/) and start over, or run a finished change again
    #[arg(long)]
    pub restart: bool,
    /// How the loop is to run.
    #[command(flatten)]
    pub run: RunOptions,
}
