//! `git ralph new`.

use clap::Args;

/// Write `.git/ralph/<change>.toml`: a commented template.
#[derive(Debug, Args)]
pub struct New {
    /// The name of the change: letters, digits, '.', '_' and '-'
    pub change: String,
}
