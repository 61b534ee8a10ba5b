//! Defines the arguments of `git ralph edit`.

use clap::Args;

/// Open the file of a change in your editor. It is checked when you leave the editor; a running loop picks up the edit.
#[derive(Debug, Args)]
pub struct Edit {
    /// The change (default: the one with the open run, or the only one)
    pub change: Option<String>,
}
