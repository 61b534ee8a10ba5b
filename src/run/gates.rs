//! The gates of a story: the commands that must pass, in their order, before the story counts as done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::child_program::{MARK, end_leftovers, is_sandboxed, milliseconds};
use super::gate::{self, GateRun};
use super::step_runner::{Ground, StepRunner};
use super::{Activity, Event, Outcome, RunDir};
use crate::config::Settings;
use crate::process::{Exit, Trail, Urgency};
use crate::runner::Runner;
use crate::safe_write;
use crate::shell_word::quoted;
use crate::story::Story;

/// The gates of one story.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gates {
    /// The commands: first those for every story, then those of the story.
    pub commands: Vec<String>,
    /// Whether the repository's hooks are run after the commands.
    pub hooks: bool,
    /// The words of the runner for the gates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runner: Vec<String>,
    /// Whether the gates are run in the sandbox.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sandbox: bool,
}

impl Gates {
    /// The gates from the settings and the story.
    #[must_use]
    pub fn of(settings: &Settings, story: &Story) -> Self {
        let commands = settings.verify.value.iter().chain(&story.verify).cloned().collect();
        Gates {
            commands,
            hooks: settings.hooks.value,
            runner: Runner::of_gates(settings).words().to_vec(),
            sandbox: is_sandboxed(settings),
        }
    }

    /// The runner that the gates are started with.
    #[must_use]
    pub fn runner(&self) -> Runner {
        Runner::new(self.runner.clone())
    }

    /// Whether there are no gates.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty() && !self.hooks
    }
}

impl StepRunner<'_> {
    /// Runs the gates in turn until one fails. Returns the outcome of the failed one. `prefix` begins the names of the files for their
    /// output.
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
        let hooks = if gates.hooks { self.hooks(story, attempt).await? } else { Vec::new() };
        for (number, command) in gates.commands.iter().cloned().chain(hooks).enumerate() {
            self.reporter.activity(&Activity::GateStarted { story: &story.id, command: &command });
            let log = dir.join(format!("{prefix}gate-{}", number + 1));
            let mut tries = 0;
            let GateRun { ran, output } = loop {
                tries += 1;
                let gated = self.run_gate(ground, story, attempt, &command, gates, &log, &mut events).await?;
                match gate::again_after(&gated.ran.exit, tries) {
                    Some(wait) if self.wait_in_step(story, wait).await => {}
                    _ => break gated,
                }
            };
            if let Some(outcome) = outcome(command, ran.exit, output) {
                return Ok((events, Some(outcome)));
            }
        }
        Ok((events, None))
    }

    /// Runs one gate once.
    #[expect(clippy::too_many_arguments, reason = "a gate is known by where, for what, which, by what and where to")]
    async fn run_gate(
        &self,
        ground: &Ground,
        story: &Story,
        attempt: u32,
        command: &str,
        gates: &Gates,
        log: &Path,
        events: &mut Vec<Event>,
    ) -> Result<GateRun> {
        let launch = self.gate_program(ground, story, attempt, command, gates);
        let (handle, mut stop) = self.agents.stop(&story.id);
        self.workspace.expect_foreign_writes();
        let trail = Trail::begin(MARK, &self.mark(&story.id, attempt));
        let (limit, grace) = (self.settings.verify_timeout.value, self.settings.grace.value);
        let gated = tokio::select! {
            gated = gate::run(&launch, limit, grace, &mut stop, log) => gated,
            never = self.pass_stop_on(&handle) => match never {},
        };
        end_leftovers(&trail, &gates.runner(), grace).await;
        let gated = gated?;
        events.extend(self.left_running(&launch, &gated.ran, story));
        events.push(Event::GateEnded {
            story: story.id.clone(),
            attempt,
            command: command.to_owned(),
            exit: gated.ran.exit.clone(),
            milliseconds: milliseconds(gated.ran.duration),
            output: gated.last_lines(),
        });
        Ok(gated)
    }

    /// Waits inside a step. Returns `false` if the user asks to end the step or the loop meanwhile.
    async fn wait_in_step(&self, story: &Story, wait: Duration) -> bool {
        let (mut own, mut all) = (self.agents.stop(&story.id).1, self.stop.clone());
        tokio::select! {
            () = tokio::time::sleep(wait) => true,
            _ = own.reached(Urgency::Now) => false,
            _ = all.reached(Urgency::Now) => false,
        }
    }

    /// The repository's hooks as gates. The message of the checkpoint is in a file, as for `git commit`.
    async fn hooks(&self, story: &Story, attempt: u32) -> Result<Vec<String>> {
        let file = self.message_file(story, attempt);
        self.attempt_dir(story, attempt)?;
        safe_write::write(&file, self.usual_message(story, attempt, None).as_bytes())
            .with_context(|| format!("cannot write {}", file.display()))?;
        // A private clone has no hooks of its own, so the hooks of the user's checkout are used.
        let git = if self.pool.is_some() { format!("git -c core.hooksPath={}", self.users_hooks().await?) } else { "git".to_owned() };
        Ok(vec![
            format!("git add -A && {git} hook run --ignore-missing pre-commit"),
            format!("{git} hook run --ignore-missing commit-msg -- {}", quoted(&file.display().to_string())),
        ])
    }

    /// The directory of an attempt. It is created again if an agent has deleted it.
    fn attempt_dir(&self, story: &Story, attempt: u32) -> Result<PathBuf> {
        let below = RunDir::attempt_below(&story.id, attempt);
        let dir = safe_write::real_dirs(self.run.path(), &below);
        dir.with_context(|| format!("cannot create {}", self.run.path().join(below).display()))
    }

    pub(super) fn message_file(&self, story: &Story, attempt: u32) -> PathBuf {
        self.run.attempt(&story.id, attempt).join("message")
    }
}

/// The outcome of the attempt if a gate ended like this. `None` if the gate passed.
fn outcome(command: String, exit: Exit, output: String) -> Option<Outcome> {
    match exit {
        Exit::Success => None,
        Exit::Interrupted => Some(Outcome::Interrupted),
        Exit::Lost { message } => Some(Outcome::Lost { message: format!("gate '{command}': {message}") }),
        Exit::NotStarted { message } => Some(Outcome::NotStarted { message: format!("gate '{command}': {message}") }),
        exit => Some(Outcome::GateFailed { command, exit, output }),
    }
}
