//! Defines the arguments of `git ralph setup`.

use clap::{Args, ValueHint};

/// Install the manual and shell completion for this user, and say what to add to the shell's start file.
#[derive(Debug, Args)]
pub struct Setup {
    /// Remove the files that setup installed
    #[arg(long)]
    pub uninstall: bool,
    /// Install into DIR/share instead, for packages
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub prefix: Option<std::path::PathBuf>,
    /// Also overwrite files of the same name that git-ralph did not write
    #[arg(long, conflicts_with = "uninstall")]
    pub force: bool,
    /// Print what would be done and do nothing
    #[arg(long)]
    pub dry_run: bool,
}
