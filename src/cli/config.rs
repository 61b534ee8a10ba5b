//! `git ralph config`.

use clap::Args;

/// List every setting, its value and where it was set.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// The change whose file counts too; that of the open run of this work tree if none is named
    pub change: Option<String>,
    /// Print the JSON schema of the change file, for editors
    #[arg(long, conflicts_with_all = ["json", "change"])]
    pub schema: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
