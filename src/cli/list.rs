//! Defines the arguments of `git ralph list`.

use clap::Args;

/// List the changes of this repository and where each stands.
#[derive(Debug, Args)]
pub struct List {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
