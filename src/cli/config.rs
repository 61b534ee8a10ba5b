//! Defines the arguments of `git ralph config`.

use clap::Args;

/// List every setting, its value and where it was set.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Include this change's file (default: the change of the open run in this work tree)
    pub change: Option<String>,
    /// Print the JSON schema of the change file, for editors
    #[arg(long, conflicts_with_all = ["json", "change"])]
    pub schema: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
