//! Defines the arguments of `git ralph list`.

use clap::Args;

/// List the changes of this repository and the state of each.
#[derive(Debug, Args)]
pub struct List {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
