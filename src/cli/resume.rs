//! Defines the arguments of `git ralph resume`.

use clap::Args;

use super::RunOptions;

/// Continue an open run. Options of `start` are remembered; options given here override them.
#[derive(Debug, Args)]
#[command(override_usage = "git ralph resume [<options>] [<change>] [-- <cmd>...]")]
pub struct Resume {
    /// The change (default: the one with the open run in this work tree)
    pub change: Option<String>,
    /// How the loop is to run.
    #[command(flatten)]
    pub run: RunOptions,
}
