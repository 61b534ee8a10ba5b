//! Defines the arguments of `git ralph report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::count;

/// Make a page about a run: what happened, when, at what cost, and with what result.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The change (default: the one with the open run in this work tree)
    pub change: Option<String>,
    /// Show run N of the change (default: the latest)
    #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true)]
    pub run: Option<u32>,
    /// Write to this file; - means standard output
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// The format of the page
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "html")]
    pub format: ReportFormat,
    /// Open the page in the browser
    #[arg(long)]
    pub open: bool,
    /// Include what the agents said and did
    #[arg(long)]
    pub with_transcripts: bool,
}

/// A format of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One HTML file that needs no other files
    Html,
    /// Markdown for the description of a pull request
    Markdown,
    /// JUnit XML for a CI server
    Junit,
}
