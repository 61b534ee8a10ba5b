//! Defines the options that `start` and `resume` share.

use clap::Args;

use super::count;
use crate::config::{AgentChoice, Flags};

/// How to run a loop. A number sets the place of each option in the help, because most options come from the table of settings.
#[derive(Debug, Default, Args)]
pub struct RunOptions {
    /// The options that are also settings; `only` is filled in by [`RunOptions::flags`].
    #[command(flatten)]
    pub settings: Flags,
    /// Work on this story only; may be repeated
    #[arg(long, value_name = "STORY", display_order = 90)]
    pub only: Vec<String>,
    /// Stop after this many stories
    #[arg(long, value_name = "N", value_parser = count, allow_hyphen_values = true, display_order = 100)]
    pub limit: Option<u32>,
    /// Print one event per line on standard output
    #[arg(long, conflicts_with = "dry_run", display_order = 200)]
    pub json: bool,
    /// Print the plan and do nothing
    #[arg(long, display_order = 210)]
    pub dry_run: bool,
    /// Print errors and warnings only
    #[arg(short, long, conflicts_with = "verbose", display_order = 220)]
    pub quiet: bool,
    /// Also show the agent's output; with --dry-run also the prompt
    #[arg(short, long, display_order = 230)]
    pub verbose: bool,
    /// A command to use as the agent; the prompt comes on its standard input
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["agent", "model"])]
    pub agent_command: Vec<String>,
}

impl RunOptions {
    /// The options that `start` records for `resume`.
    #[must_use]
    pub fn flags(&self) -> Flags {
        let mut flags = Flags { only: self.only.clone(), ..self.settings.clone() };
        if !self.agent_command.is_empty() {
            flags.agent = Some(AgentChoice::Command(self.agent_command.clone()));
        }
        flags
    }
}
