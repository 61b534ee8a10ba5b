//! The gates of a story: the commands that must succeed before it counts as done, in their order.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::child_program::{MARK, end_leftovers};
use super::step_runner::{Ground, StepRunner};
use super::{Activity, Event, Outcome, RunDir, gate};
use crate::config::{SandboxMode, Settings};
use crate::process::{Exit, Trail};
use crate::runner::Runner;
use crate::safe_write;
use crate::shell_word::quoted;
use crate::story::Story;

/// The gates of one story.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gates {
    /// The commands: those for every story, then its own.
    pub commands: Vec<String>,
    /// Whether the repository's hooks are run after them.
    pub hooks: bool,
    /// The words of the runner that they are started with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runner: Vec<String>,
    /// Whether they are run in a sandbox.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sandbox: bool,
}

impl Gates {
    /// What the settings and the story ask for.
    #[must_use]
    pub fn of(settings: &Settings, story: &Story) -> Self {
        let commands = settings.verify.value.iter().chain(&story.verify).cloned().collect();
        Gates {
            commands,
            hooks: settings.hooks.value,
            runner: Runner::of_gates(settings).words().to_vec(),
            sandbox: settings.sandbox.value == SandboxMode::Bwrap,
        }
    }

    /// Whether nothing is run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty() && !self.hooks
    }
}

impl StepRunner<'_> {
    /// Runs gate after gate until one fails; the outcome is that of the failed one.
    /// `prefix` begins the names of the files that their output goes to.
    pub(super) async fn run_gates(
        &self,
        ground: &Ground,
        story: &Story,
        attempt: u32,
        gates: &Gates,
        prefix: &str,
    ) -> Result<(Vec<Event>, Option<Outcome>)> {
        let mut events = Vec::new();
        let dir = self.attempt_dir(story, attempt)?;
        let runner = Runner::new(gates.runner.clone());
        let hooks = if gates.hooks { self.hooks(story, attempt).await? } else { Vec::new() };
        for (number, command) in gates.commands.iter().cloned().chain(hooks).enumerate() {
            self.reporter.activity(&Activity::GateStarted { story: &story.id, command: &command });
            let log = dir.join(format!("{prefix}gate-{}", number + 1));
            let program = self.gate_program(ground, story, attempt, &command, gates);
            let (handle, mut stop) = self.agents.stop(&story.id);
            self.workspace.expect_foreign_writes();
            let trail = Trail::begin(MARK, &self.mark(story, attempt));
            let (limit, grace) = (self.settings.verify_timeout.value, self.settings.grace.value);
            let ran = tokio::select! {
                ran = gate::run(&program, limit, grace, &mut stop, &log) => ran,
                never = self.pass_stop_on(&handle) => match never {},
            };
            end_leftovers(&trail, &runner, grace).await;
            let ran = ran?;
            events.push(Event::GateEnded {
                story: story.id.clone(),
                attempt,
                command: command.clone(),
                exit: ran.exit.clone(),
                milliseconds: u64::try_from(ran.duration.as_millis()).unwrap_or(u64::MAX),
                output: ran.last_lines(),
            });
            if ran.exit == Exit::Interrupted {
                return Ok((events, Some(Outcome::Interrupted)));
            }
            if !ran.is_green() {
                return Ok((events, Some(Outcome::GateRed { command, exit: ran.exit, output: ran.output })));
            }
        }
        Ok((events, None))
    }

    /// The repository's hooks as gates: the message of the checkpoint is in a file, as for `git commit`.
    async fn hooks(&self, story: &Story, attempt: u32) -> Result<Vec<String>> {
        let file = self.message_file(story, attempt);
        self.attempt_dir(story, attempt)?;
        safe_write::write(&file, self.usual_message(story, attempt, None).as_bytes())
            .with_context(|| format!("cannot write {}", file.display()))?;
        // A private clone has no hooks: those of the user's checkout are run.
        let git = if self.pool.is_some() { format!("git -c core.hooksPath={}", self.users_hooks().await?) } else { "git".to_owned() };
        Ok(vec![
            format!("git add -A && {git} hook run --ignore-missing pre-commit"),
            format!("{git} hook run --ignore-missing commit-msg -- {}", quoted(&file.display().to_string())),
        ])
    }

    /// The directory of an attempt; an agent may have deleted it.
    fn attempt_dir(&self, story: &Story, attempt: u32) -> Result<PathBuf> {
        let below = RunDir::attempt_below(&story.id, attempt);
        let dir = safe_write::real_dirs(self.run.path(), &below);
        dir.with_context(|| format!("cannot create {}", self.run.path().join(below).display()))
    }

    pub(super) fn message_file(&self, story: &Story, attempt: u32) -> PathBuf {
        self.run.attempt(&story.id, attempt).join("message")
    }
}
