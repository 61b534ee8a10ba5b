//! Defines the arguments of `git ralph log`.

use clap::Args;

use super::count;

/// Show the history of a run and the work saved from failed attempts.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// The change (default: the one with the open run in this work tree)
    pub change: Option<String>,
    /// Only this story; it can be given without the change
    pub story: Option<String>,
    /// Show run N of the change (default: the latest)
    #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true)]
    pub run: Option<u32>,
    /// Print the transcript of attempt N of the story
    #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true, conflicts_with = "follow")]
    pub attempt: Option<u32>,
    /// With --attempt: print the agent's output byte for byte
    #[arg(long, requires = "attempt", conflicts_with = "json")]
    pub raw: bool,
    /// Draw the timeline of the run
    #[arg(long, conflicts_with_all = ["follow", "attempt"])]
    pub stat: bool,
    /// Print the run from the beginning and follow it until the loop ends
    #[arg(short, long)]
    pub follow: bool,
    /// Print JSON; with --follow one event per line
    #[arg(long)]
    pub json: bool,
}
