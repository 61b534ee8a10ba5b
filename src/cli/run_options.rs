//! The options that `start` and `resume` share.

use std::time::Duration;

use clap::Args;

use crate::config::git_config::tokens;
use crate::config::{AgentChoice, Finish, Flags, parse_duration};
use crate::cost::Cost;

/// How a loop is to run.
#[derive(Debug, Default, Args)]
pub struct RunOptions {
    /// The agent: claude, codex, opencode, gemini, qwen, aider, goose, copilot, or one of your own, see `ralph.<name>.cmd`
    #[arg(long, value_name = "NAME", conflicts_with = "agent_command")]
    pub agent: Option<String>,
    /// The model that the agent is told to use
    #[arg(long, value_name = "MODEL", conflicts_with = "agent_command")]
    pub model: Option<String>,
    /// Start no more agents once the run has cost this many dollars
    #[arg(long, value_name = "USD", value_parser = str::parse::<Cost>)]
    pub max_cost: Option<Cost>,
    /// Start no more agents once the run has used this many tokens, such as 500k or 2M
    #[arg(long, value_name = "N", value_parser = tokens)]
    pub max_tokens: Option<u64>,
    /// Retries after a story's first attempt [default: 3]
    #[arg(long, value_name = "N")]
    pub max_retries: Option<u32>,
    /// A command that must succeed before a story counts as done; may be given more than once
    #[arg(long, value_name = "CMD")]
    pub verify: Vec<String>,
    /// Time limit for an attempt, 0 for none [default: 60m]
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub attempt_timeout: Option<Duration>,
    /// Time limit without output, 0 for none [default: 15m]
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub idle_timeout: Option<Duration>,
    /// Work on this story only; may be given more than once
    #[arg(long, value_name = "STORY")]
    pub only: Vec<String>,
    /// Stop after this many stories
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// What happens at the end: ask, cleanup or keep [default: ask]
    #[arg(long, value_name = "MODE", value_parser = str::parse::<Finish>)]
    pub finish: Option<Finish>,
    /// Print one event a line on standard output
    #[arg(long, conflicts_with = "dry_run")]
    pub json: bool,
    /// Print the plan and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Say only what is wrong
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also say what the agent says; with --dry-run also the prompt
    #[arg(short, long)]
    pub verbose: bool,
    /// A command to use as the agent; the prompt comes on its standard input
    #[arg(last = true, value_name = "CMD")]
    pub agent_command: Vec<String>,
}

impl RunOptions {
    /// What of it can be set elsewhere too.
    #[must_use]
    pub fn flags(&self) -> Flags {
        let limit = |duration: Duration| Some(duration).filter(|duration| !duration.is_zero());
        let command = (!self.agent_command.is_empty()).then(|| AgentChoice::Command(self.agent_command.clone()));
        Flags {
            agent: command.or_else(|| self.agent.clone().map(AgentChoice::Named)),
            model: self.model.clone(),
            max_cost: self.max_cost,
            max_tokens: self.max_tokens,
            max_retries: self.max_retries,
            verify: (!self.verify.is_empty()).then(|| self.verify.clone()),
            attempt_timeout: self.attempt_timeout.map(limit),
            idle_timeout: self.idle_timeout.map(limit),
            finish: self.finish,
            only: self.only.clone(),
        }
    }
}
