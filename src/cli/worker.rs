//! Defines the arguments of `git ralph worker`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Run one attempt's agent on this machine: fetch a commit from a hub, run the agent on it, push the result to the hub.
///
/// A runner such as `ssh host git-ralph worker --hub URL` starts this command. git-ralph adds the other options itself.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// The repository that both machines can reach: a URL or a path
    #[arg(long, value_name = "URL")]
    pub hub: OsString,
    /// The commit that the attempt begins from
    #[arg(long, value_name = "COMMIT")]
    pub base: String,
    /// The ref of the hub that has this commit; without it the hub must allow fetching a commit by its id
    #[arg(long, value_name = "REF")]
    pub base_ref: Option<String>,
    /// The ref of the hub that the result is pushed to, below `refs/ralph/<change>/`
    #[arg(long, value_name = "REF")]
    pub result: String,
    /// How many commits of history to fetch (default: all)
    #[arg(long, value_name = "N", value_parser = super::count)]
    pub depth: Option<u32>,
    /// Where to make workspaces (default: the directory for temporary files)
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// How long the agent may take to end after SIGTERM, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub grace: u64,
    /// A variable for the agent
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<OsString>,
    /// A shell command that sets the workspace up before the agent starts
    #[arg(long, value_name = "COMMAND")]
    pub setup: Vec<OsString>,
    /// The name and address of the agent's commits
    #[arg(long, value_name = "NAME <ADDRESS>")]
    pub identity: Option<OsString>,
    /// The length of the learnings, which come before the prompt on standard input
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub learnings_bytes: u64,
    /// The length of the prompt; if standard input ends before that, the agent is not started
    #[arg(long, value_name = "BYTES")]
    pub prompt_bytes: Option<u64>,
    /// Report the start and the end of the agent on standard error, in lines that begin with MARK
    #[arg(long, value_name = "MARK")]
    pub report: Option<String>,
    /// The values of --env, --setup and --identity and the agent's command line are encoded, with `%20` for a space
    #[arg(long)]
    pub encoded: bool,
    /// The agent
    #[arg(last = true, required = true, value_name = "AGENT")]
    pub agent: Vec<OsString>,
}
