//! Defines the arguments of `git ralph demo`.

use clap::{Args, ValueHint};

/// Show the whole loop in a scratch repository, with a built-in scripted agent.
#[derive(Debug, Args)]
pub struct Demo {
    /// Where to put the scratch repository (default: a new temporary directory)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<std::path::PathBuf>,
    /// Delete the scratch repository at the end
    #[arg(long)]
    pub clean: bool,
    /// Do not slow down for the reader (default without a terminal)
    #[arg(long)]
    pub fast: bool,
}
