//! Decides whether a run uses a sandbox, and checks that it works, before anything is created.

use anyhow::{Result, bail};

use super::context::Context;
use crate::agent::Agent;
use crate::config::{Advice, SandboxMode, Settings};
use crate::error::Problem;
use crate::process::Program;
use crate::remote::WorkerRunner;
use crate::report::{Line, Tone, output};
use crate::run::{Work, additions, needs_of};
use crate::runner::{NoSandbox, Runner, Sandbox, SandboxPlace, probe};

/// Checks that the command and the working directory are visible in the sandbox.
const TRIAL: &str = "command -v -- \"$1\" >/dev/null || { echo \"$1 cannot be seen in the sandbox\" >&2; exit 1; }";

/// Resolves the setting `auto`. Afterwards the setting is `off` or names the program of the sandbox.
///
/// # Errors
/// If a sandbox is required and does not work.
pub async fn decide(context: &Context, work: &mut Work) -> Result<()> {
    let mode = work.settings.sandbox.value;
    if mode == SandboxMode::Off {
        return Ok(());
    }
    if has_worker(&work.settings)? {
        return go_without(mode, &mut work.settings);
    }
    if work.settings.hooks.value && !work.wants_isolation() {
        bail!(
            Problem::fatal("in the sandbox the git directory is read-only, so hooks cannot be run as gates in your checkout")
                .hint("git ralph start --isolate --sandbox")
                .hint("git config ralph.hooks false")
        );
    }
    let found = try_sandbox(context, &work.settings, Some(&work.agent)).await;
    work.settings.sandbox.value = match (mode, found) {
        (SandboxMode::Auto, Ok(())) => {
            output::message(&Line::new(Tone::Plain, format!("sandbox: {}", mode.program().title())));
            SandboxMode::requiring(mode.program())
        }
        (SandboxMode::Auto, Err(NoSandbox { why, remedy })) => {
            output::message(&Line::new(Tone::Warning, format!("no sandbox: {why}")));
            output::advise(Advice::NextStep, &[remedy]);
            SandboxMode::Off
        }
        (_, Ok(())) => mode,
        (_, Err(NoSandbox { why, remedy })) => {
            let problem = Problem::fatal(format!("the sandbox does not work here: {why}")).hint(remedy);
            bail!(problem.hint("git ralph doctor   to check it again"));
        }
    };
    Ok(())
}

/// What a worker means for a sandbox.
pub const NOT_ON_WORKERS: &str = "a worker on another machine does not run its agent in a sandbox";

/// Whether the agents run on a worker, where git-ralph has no sandbox for them.
///
/// # Errors
/// A [`Problem`] if the worker's options lack `--hub`.
pub fn has_worker(settings: &Settings) -> Result<bool> {
    Ok(WorkerRunner::of(Runner::of_agents(settings).words())?.is_some())
}

/// Turns the sandbox off for a run with a worker, if the user left the choice to git-ralph.
fn go_without(mode: SandboxMode, settings: &mut Settings) -> Result<()> {
    if mode.is_required() {
        let problem = Problem::fatal(NOT_ON_WORKERS).hint("git config ralph.sandbox off");
        bail!(problem.hint("git ralph start --sandbox=off   for this run only"));
    }
    output::message(&Line::new(Tone::Warning, format!("no sandbox: {NOT_ON_WORKERS}")));
    settings.sandbox.value = SandboxMode::Off;
    Ok(())
}

/// Runs a trivial command in the sandbox of this checkout, with the command line of an attempt.
///
/// # Errors
/// Why the sandbox does not work.
pub async fn try_sandbox(context: &Context, settings: &Settings, agent: Option<&Agent>) -> Result<(), NoSandbox> {
    let place = &context.repo.place;
    let client = agent.map(needs_of).unwrap_or_default();
    let sandbox = Sandbox::new(settings.sandbox.value.program(), &context.environment, &place.top, client, additions(settings));
    // The program is named as in an attempt: it is looked up on PATH, where symbolic links may lead to a directory that is hidden
    // in the sandbox.
    let named = agent.and_then(Agent::first_program).unwrap_or("sh");
    let program = if named.contains('/') { place.top.join(named).into_os_string() } else { named.into() };
    let command = Program {
        program: "sh".into(),
        args: ["-c".into(), TRIAL.into(), "sh".into(), program].to_vec(),
        env: context.environment.for_children(&[]),
        cwd: place.top.clone(),
    };
    let at = SandboxPlace { workspace: &place.top, root: &place.top, git_dir: &place.git_dir, common_dir: &place.common_dir, files: &[] };
    probe(&sandbox, command, &at).await
}
