//! Defines the arguments of `git ralph new`.

use clap::{Args, ValueHint};

/// Write `.git/ralph/<change>.toml`, from a source of stories or as a commented template.
#[derive(Debug, Args)]
pub struct New {
    /// The name of the change: letters, digits, '.', '_' and '-'
    pub change: String,
    /// Where the stories are: an OpenSpec change, a spec-kit feature, a prd.json, a Markdown plan or a checklist
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub from: Option<String>,
}
