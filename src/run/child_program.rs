//! The programs that steps start: agents, gates and setup commands, each with its environment, its sandbox and its runner.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::Event;
use super::gates::Gates;
use super::step_runner::{Ground, StepRunner};
use crate::agent::Agent;
use crate::config::Settings;
use crate::process::{Program, Supervised, Trail};
use crate::runner::{Additions, ClientNeeds, Launch, Placeholders, Runner, Sandbox, SandboxPlace, Shim};
use crate::story::{Story, StoryId};
use crate::workspace::Notice;

/// The environment variable that marks every process of an attempt.
pub(crate) const MARK: &str = "RALPH_RUN";

impl StepRunner<'_> {
    /// The agent of an attempt.
    pub(super) fn agent_program(&self, ground: &Ground, story: &Story, attempt: u32, agent: &Agent, runner: &Runner) -> Launch {
        let program = agent.program(self.child_environment(ground, story, attempt), &ground.workspace.repo.place.top);
        let program = if is_sandboxed(self.settings) { self.in_sandbox(program, runner, ground, None) } else { program };
        self.behind_runner(program, runner, ground, &story.id.as_component(), attempt)
    }

    /// A gate of an attempt.
    pub(super) fn gate_program(&self, ground: &Ground, story: &Story, attempt: u32, command: &str, gates: &Gates) -> Launch {
        let runner = &gates.runner();
        let program = shell(command, self.child_environment(ground, story, attempt), ground);
        let message = gates.hooks.then(|| self.message_file(story, attempt));
        let program = if gates.sandbox { self.in_sandbox(program, runner, ground, message) } else { program };
        self.behind_runner(program, runner, ground, &story.id.as_component(), attempt)
    }

    /// A command that sets up a private clone. It belongs to no story and no attempt.
    pub(super) fn setup_program(&self, ground: &Ground, command: &str) -> Launch {
        let runner = &Runner::of_setup(self.settings);
        let program = shell(command, self.setup_environment(ground), ground);
        let program = if is_sandboxed(self.settings) { self.in_sandbox(program, runner, ground, None) } else { program };
        self.behind_runner(program, runner, ground, Placeholders::SETUP, 0)
    }

    /// Puts a command into the sandbox. No other function does that. The runner is added outside of it. `file` is writable, too.
    fn in_sandbox(&self, program: Program, runner: &Runner, ground: &Ground, file: Option<PathBuf>) -> Program {
        let place = &self.workspace.repo.place;
        let client = self.agent.map_or_else(ClientNeeds::default, |setup| needs_of(setup.agent));
        let sandbox = Sandbox::new(self.settings.sandbox.value.program(), self.environment, &place.top, client, additions(self.settings));
        let files: Vec<PathBuf> = file.into_iter().chain([self.run.learnings()]).collect();
        let at = SandboxPlace {
            workspace: &ground.workspace.repo.place.top,
            root: &place.top,
            git_dir: &place.git_dir,
            common_dir: &place.common_dir,
            files: &files,
        };
        if runner.is_none() { sandbox.wrap(program, &at) } else { sandbox.wrap_for_runner(program, &at) }
    }

    /// Puts a runner before a command. No other function does that.
    fn behind_runner(&self, program: Program, runner: &Runner, ground: &Ground, story: &str, attempt: u32) -> Launch {
        let shim = runner.words().first().map(|program| Shim::new(program));
        let program = match &shim {
            Some(shim) => shim.wrap(program),
            None => program,
        };
        self.launch(program, runner, shim, ground, (story, attempt))
    }

    fn launch(&self, program: Program, runner: &Runner, shim: Option<Shim>, ground: &Ground, (story, attempt): (&str, u32)) -> Launch {
        let workspace = &ground.workspace.repo.place.top;
        let at = Placeholders { workspace, change: self.run.change.as_str(), story, attempt, slot: ground.slot };
        Launch {
            program: runner.wrap(program, &at, &self.workspace.repo.place.top),
            shim,
            start_limit: self.settings.runner_timeout.as_ref().and_then(|limit| limit.value),
        }
    }

    /// A worker behind its runner. The worker writes the reports of a shim itself. `words` returns the rest of its command line, given the
    /// mark of the reports.
    pub(super) fn behind_worker(
        &self,
        ground: &Ground,
        story: &Story,
        attempt: u32,
        runner: &Runner,
        words: impl FnOnce(&str) -> Vec<OsString>,
    ) -> Launch {
        let shim = Shim::new(runner.words().first().map_or("", String::as_str));
        let mut words = words(shim.mark()).into_iter();
        let env = self.child_environment(ground, story, attempt);
        let top = ground.workspace.repo.place.top.clone();
        let program = Program { program: words.next().unwrap_or_default(), args: words.collect(), env, cwd: top };
        self.launch(program, runner, Some(shim), ground, (&story.id.as_component(), attempt))
    }

    /// A notice that a runner had to be killed, so the program that it started elsewhere may still be running.
    pub(super) fn left_running(&self, launch: &Launch, ran: &Supervised, story: &Story) -> Option<Event> {
        let runner = launch.left_running(ran)?.to_owned();
        Some(Event::Noticed { notice: Notice::MayStillRun { story: story.id.clone(), runner } })
    }

    /// The mark of an attempt's processes.
    pub(super) fn mark(&self, story: &StoryId, attempt: u32) -> String {
        format!("{}/{}/{attempt}/", self.id, story.as_component())
    }

    /// The environment of agents and gates.
    pub(super) fn child_environment(&self, ground: &Ground, story: &Story, attempt: u32) -> Vec<(OsString, OsString)> {
        let own = [
            ("RALPH_STORY", story.id.as_str().into()),
            ("RALPH_ATTEMPT", attempt.to_string().into()),
            (MARK, self.mark(&story.id, attempt).into()),
        ];
        self.environment.for_children(&self.common_variables(ground).into_iter().chain(own).collect::<Vec<_>>())
    }

    /// The environment of setup commands.
    pub(super) fn setup_environment(&self, ground: &Ground) -> Vec<(OsString, OsString)> {
        let mark = (MARK, format!("{}/setup/{}/", self.id, ground.slot).into());
        self.environment.for_children(&self.common_variables(ground).into_iter().chain([mark]).collect::<Vec<_>>())
    }

    fn common_variables(&self, ground: &Ground) -> Vec<(&'static str, OsString)> {
        vec![
            ("RALPH_CHANGE", self.run.change.as_str().into()),
            ("RALPH_RUN_DIR", self.run.path().into()),
            ("RALPH_LEARNINGS", self.run.learnings().into()),
            ("RALPH_ROOT", self.workspace.repo.place.top.clone().into()),
            ("RALPH_WORKSPACE", ground.workspace.repo.place.top.clone().into()),
            ("RALPH_SLOT", ground.slot.to_string().into()),
        ]
    }
}

/// A shell command in a workspace.
fn shell(command: &str, env: Vec<(OsString, OsString)>, ground: &Ground) -> Program {
    Program { program: "sh".into(), args: vec!["-c".into(), command.into()], env, cwd: ground.workspace.repo.place.top.clone() }
}

/// Ends the processes that a program left running and returns their names. A runner may have started processes that are not our
/// descendants, so with a runner, all processes on the machine are searched for the mark.
pub(super) async fn end_leftovers(trail: &Trail, runner: &Runner, grace: Duration) -> Vec<String> {
    if runner.is_none() { trail.end_after_child(grace).await } else { trail.end(grace).await }
}

/// Whether agents, gates and setup commands run in the sandbox.
pub(super) fn is_sandboxed(settings: &Settings) -> bool {
    settings.sandbox.value.is_required()
}

/// The needs of an agent client in a sandbox.
#[must_use]
pub fn needs_of(agent: &Agent) -> ClientNeeds {
    agent.profile().map_or_else(ClientNeeds::default, |profile| ClientNeeds { state: profile.state, variables: profile.variables })
}

/// What the user's settings allow in a sandbox in addition.
#[must_use]
pub fn additions(settings: &Settings) -> Additions<'_> {
    Additions { write: &settings.sandbox_write.value, pass: &settings.pass_env.value }
}

/// A duration for the journal.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
