//! Defines the arguments of `git ralph report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::count;

/// Make a page of a run: what happened, when, at what cost, and what came of it.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The change; the open run of this work tree if none is named
    pub change: Option<String>,
    /// The page of run N of the change, not of its last one
    #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true)]
    pub run: Option<u32>,
    /// Write to this file, - for standard output
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
    /// One HTML file that needs no other
    Html,
    /// Markdown for the description of a pull request
    Markdown,
    /// JUnit XML for the pages of a CI server
    Junit,
}
