//! `git ralph demo`.

use clap::{Args, ValueHint};

/// Show the whole loop in a scratch repository, with a built-in scripted agent.
#[derive(Debug, Args)]
pub struct Demo {
    /// Where to put the scratch repository; a new temporary directory if not given
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<std::path::PathBuf>,
    /// Delete the scratch repository at the end
    #[arg(long)]
    pub clean: bool,
    /// Do not take time to be watched; the default without a terminal
    #[arg(long)]
    pub fast: bool,
}
