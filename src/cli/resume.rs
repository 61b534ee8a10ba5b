//! `git ralph resume`.

use clap::Args;

use super::RunOptions;

/// Go on with an unfinished run. Options of `start` are remembered; those given here go first.
#[derive(Debug, Args)]
#[command(override_usage = "git ralph resume [<options>] [<change>] [-- <cmd>...]")]
pub struct Resume {
    /// The change; the open run of this work tree if none is named
    pub change: Option<String>,
    /// How the loop is to run.
    #[command(flatten)]
    pub run: RunOptions,
}
