//! `git ralph edit`.

use clap::Args;

/// Open the file of a change in your editor. It is checked when you leave the editor; a running loop follows the edit.
#[derive(Debug, Args)]
pub struct Edit {
    /// The change; that of the open run, or the only one, if none is named
    pub change: Option<String>,
}
