//! `git ralph start`.

use clap::Args;

use super::RunOptions;

/// Begin a run.
#[derive(Debug, Args)]
#[command(override_usage = "git ralph start [<options>] [<change>] [-- <cmd>...]")]
pub struct Start {
    /// The change; asked for on a terminal if none is named
    pub change: Option<String>,
    /// Keep an unfinished run under refs/ralph/ and begin again
    #[arg(long)]
    pub restart: bool,
    /// How the loop is to run.
    #[command(flatten)]
    pub run: RunOptions,
}
