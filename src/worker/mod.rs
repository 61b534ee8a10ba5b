//! The worker: performs an attempt on another machine. It fetches the base, runs the agent, pushes all of the agent's work, and cleans up.
//!
//! The worker lives as long as the connection that started it. When the connection breaks, the worker ends the agent and every process that
//! the agent started. It still pushes the work so far.

mod connection;
mod order;
mod scratch;
mod workspace;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::sleep;

use connection::Input;
use scratch::Scratch;
use workspace::RemoteWorkspace;

use crate::config::Environment;
use crate::error::Problem;
use crate::process::{
    Adoption, Exit, Flow, Place, Program, Stop, Stream, Supervised, Trail, Urgency, Watch, stop_channel, supervise, watch_signals,
};
use crate::remote::RemoteResult;
use crate::{safe_read, safe_write};

pub use order::Order;

/// How long the worker waits after an agent was killed by a signal. The end of the connection may kill the agent before the worker notices
/// it, and that is not a failure of the agent.
const SIGNALS: Duration = Duration::from_secs(1);
/// How many bytes that an agent adds to the learnings are sent back.
const MOST_LEARNINGS: u64 = 64 * 1024;

/// Performs the order, until the connection breaks or a stop is requested. Returns how the agent ended.
///
/// # Errors
/// If the agent was not started, or its work could not be pushed.
pub async fn work(order: &Order, environment: &Environment) -> Result<Exit> {
    let (handle, stop) = stop_channel();
    let signals = watch_signals(handle.clone()).context("cannot listen to signals")?;
    let watch = async {
        tokio::join!(signals, async {
            connection::closed().await;
            handle.raise(Urgency::Terminate);
        })
    };
    tokio::select! {
        done = attempt(order, environment, stop) => done,
        _ = watch => bail!("nothing is left to watch the connection"),
    }
}

async fn attempt(order: &Order, environment: &Environment, stop: Stop) -> Result<Exit> {
    let _adoption = Adoption::begin();
    let scratch = unless_stopped(&stop, Scratch::make(&order.dir)).await?;
    let made = async {
        let both = tokio::join!(
            connection::input(order.learnings_bytes, order.prompt_bytes),
            RemoteWorkspace::fetch(order, environment, &scratch)
        );
        Ok((both.0?, both.1?))
    };
    let (input, workspace) = unless_stopped(&stop, made).await?;
    let worker = Worker { order, environment, learnings: scratch.join("learnings").into(), top: workspace.top().to_owned() };
    safe_write::write(Path::new(&worker.learnings), &input.learnings).context("cannot write the learnings")?;
    for command in &order.setup {
        worker.set_up(command, stop.clone()).await?;
    }
    workspace.hand_over().await?;
    let result = worker.run(&input, stop).await?;
    let exit = result.exit.clone();
    let commit = workspace.commit(result).await?;
    workspace.push(&commit).await?;
    // Everything is pushed; the run needs nothing more from this machine.
    order.tell(&format!("end-{}", status(&exit)));
    Ok(exit)
}

/// The exit status for an agent's ending, by the conventions of a shell.
#[must_use]
pub fn status(exit: &Exit) -> u8 {
    match exit {
        Exit::Success | Exit::Lingered => 0,
        Exit::Code { code } => u8::try_from(*code).unwrap_or(u8::MAX),
        Exit::Signal { signal } => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        Exit::CouldNotStart { .. } => 127,
        _ => 130,
    }
}

/// Does preparatory work before the agent runs. A stop cancels it, and no work is lost by that.
async fn unless_stopped<T>(stop: &Stop, work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut stop = stop.clone();
    tokio::select! {
        done = work => done,
        _ = stop.reached(Urgency::Now) => bail!(ended_early()),
    }
}

fn ended_early() -> Problem {
    Problem::fatal("the connection has ended before the agent was started")
}

/// Runs commands in the workspace.
struct Worker<'a> {
    order: &'a Order,
    environment: &'a Environment,
    learnings: OsString,
    top: std::path::PathBuf,
}

impl Worker<'_> {
    fn variables(&self) -> Vec<(OsString, OsString)> {
        let own = [
            (Order::MARK, self.order.mark().into()),
            ("RALPH_WORKSPACE", self.top.clone().into()),
            ("RALPH_LEARNINGS", self.learnings.clone()),
        ];
        let given = self.order.env.iter().map(|(name, value)| (name.as_str(), value.clone()));
        self.environment.for_children(&given.chain(own).collect::<Vec<_>>())
    }

    fn watch(&self) -> Watch {
        // The process of the run enforces the time limits of an attempt.
        Watch { limit: None, idle: None, linger: self.order.grace, grace: self.order.grace, place: Place::Here }
    }

    /// Runs a setup command in the workspace. Its output goes to standard error.
    async fn set_up(&self, command: &OsString, mut stop: Stop) -> Result<()> {
        let program =
            Program { program: "sh".into(), args: vec!["-c".into(), command.clone()], env: self.variables(), cwd: self.top.clone() };
        let sink = |_, bytes: &[u8]| Ok(if connection::pass_on(io::stderr(), bytes) { Flow::Going } else { Flow::Unwanted });
        match supervise(&program, b"", self.watch(), &mut stop, sink).await?.exit {
            Exit::Success => Ok(()),
            Exit::Interrupted => bail!(ended_early()),
            _ => bail!(Problem::fatal(format!("the setup command '{}' failed on the worker", command.display()))),
        }
    }

    /// Runs the agent, forwards its input and output, and ends all processes that it leaves running.
    async fn run(&self, input: &Input, mut stop: Stop) -> Result<RemoteResult> {
        let Some((program, args)) = self.order.agent.split_first() else { bail!(Problem::fatal("there is no agent to start")) };
        // A relative path is relative to the workspace, as everywhere.
        let is_path = program.as_encoded_bytes().contains(&b'/');
        let program = if is_path { self.top.join(program).into() } else { program.clone() };
        let program = Program { program, args: args.to_vec(), env: self.variables(), cwd: self.top.clone() };
        let mut stdout = 0;
        let sink = |stream, bytes: &[u8]| {
            let arrived = match stream {
                Stream::Stdout => {
                    stdout += u64::try_from(bytes.len()).unwrap_or_default();
                    connection::pass_on(io::stdout(), bytes)
                }
                Stream::Stderr => connection::pass_on(io::stderr(), bytes),
            };
            Ok(if arrived { Flow::Going } else { Flow::Unwanted })
        };
        self.order.tell("start");
        let trail = Trail::begin(Order::MARK, &self.order.mark());
        let Supervised { mut exit, .. } = supervise(&program, &input.prompt, self.watch(), &mut stop, sink).await?;
        if matches!(exit, Exit::Signal { .. } | Exit::Code { code: 129.. }) {
            sleep(SIGNALS).await;
        }
        if exit != Exit::Success && (connection::is_closed() || stop.urgency() > Urgency::None) {
            exit = Exit::Interrupted;
        }
        let survivors = trail.end_after_child(self.order.grace).await;
        Ok(RemoteResult {
            token: self.order.token(),
            exit,
            stdout,
            head: None,
            others: Vec::new(),
            staged: None,
            learnings: self.added(&input.learnings),
            survivors,
            warnings: Vec::new(),
        })
    }

    /// The text that the agent has added to the learnings.
    fn added(&self, before: &[u8]) -> String {
        let most = MOST_LEARNINGS.saturating_add(u64::try_from(before.len()).unwrap_or_default());
        let now = safe_read::tail(Path::new(&self.learnings), most).unwrap_or_default();
        let added = now.strip_prefix(before).unwrap_or(&now);
        let start = added.len().saturating_sub(usize::try_from(MOST_LEARNINGS).unwrap_or_default());
        String::from_utf8_lossy(&added[start..]).into_owned()
    }
}
