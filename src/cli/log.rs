//! `git ralph log`.

use clap::Args;

use super::count;

/// Show the history of a run and the work saved from failed attempts.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// The change; the open run of this work tree if none is named
    pub change: Option<String>,
    /// Only this story; can be named alone
    pub story: Option<String>,
    /// Look at run N of the change, not at its last one
    #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true)]
    pub run: Option<u32>,
    /// Print what the agent said and did in attempt N of the story
    #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true, conflicts_with = "follow")]
    pub attempt: Option<u32>,
    /// With --attempt: what the agent printed, byte for byte
    #[arg(long, requires = "attempt", conflicts_with = "json")]
    pub raw: bool,
    /// Print what happens, as it happens, until the loop ends
    #[arg(short, long)]
    pub follow: bool,
    /// Print JSON; with --follow one event per line
    #[arg(long)]
    pub json: bool,
}
