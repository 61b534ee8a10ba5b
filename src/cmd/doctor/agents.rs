//! Checks the agents: which are installed or configured, and which one `start` would use.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::super::context::Context;
use crate::agent::{Agent, PROFILES, Profile};
use crate::config::AgentChoice;
use crate::process::{Exit, Program, capture};
use crate::report::{Check, Health};
use crate::shell_word::quoted;

/// A client that takes longer to print its version counts as broken.
const TRIAL: Duration = Duration::from_secs(20);

/// One check per agent that is installed or configured, and one for the agent that `start` would use.
pub async fn checks(context: &Context) -> Vec<Check> {
    let chosen = context.config.last("ralph.agent").map(|setting| setting.value);
    let configured: BTreeSet<&str> = context.config.subsections_with("cmd").collect();
    let mut names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
    names.extend(configured.iter().filter(|name| Profile::of(name).is_none()));
    let (mut checks, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        let wanted = configured.contains(name) || chosen.as_deref() == Some(name);
        match agent(context, name).await {
            Some(check) => checks.push(check),
            None if wanted => checks.push(
                Check::new(format!("agent {name}"), Health::Red, "its program is not installed")
                    .fixed_by(format!("git config {} '<command that reads the prompt on stdin>'", quoted(&format!("ralph.{name}.cmd")))),
            ),
            None => missing.push(name),
        }
    }
    if !missing.is_empty() {
        checks.push(Check::new("not installed", Health::Note, missing.join(", ")));
    }
    checks.push(default_agent(context, chosen.as_deref()));
    checks
}

/// Checks the agent that is used for a change that names none.
fn default_agent(context: &Context, chosen: Option<&str>) -> Check {
    let name = "default agent";
    match (chosen, Agent::installed(&context.environment, &context.repo.place.top)) {
        (Some(chosen), _) => match Agent::resolve(&AgentChoice::Named(chosen.to_owned()), None, &context.config) {
            Ok(agent) => Check::new(name, Health::Green, format!("{chosen}: {}", agent.words())),
            Err(error) => Check::new(name, Health::Red, crate::error::words(&error)).fixed_by("git config ralph.agent <name>"),
        },
        (None, Some(found)) => Check::new(name, Health::Green, format!("none is configured, {found} would be used")),
        (None, None) => Check::new(name, Health::Red, "none is configured, and none of the known ones is installed")
            .fixed_by("git config ralph.agent <name>, and git config ralph.<name>.cmd '<command>'"),
    }
}

/// Checks one agent; `None` if its program is not installed.
async fn agent(context: &Context, name: &str) -> Option<Check> {
    let label = format!("agent {name}");
    let top = &context.repo.place.top;
    let agent = match Agent::resolve(&AgentChoice::Named(name.to_owned()), None, &context.config) {
        Ok(agent) => agent,
        Err(error) => {
            return Some(
                Check::new(label, Health::Red, crate::error::words(&error))
                    .fixed_by(format!("git config --unset {}", quoted(&format!("ralph.{name}.format")))),
            );
        }
    };
    let found = match agent.find(&context.environment, top) {
        Ok(Some(path)) => path,
        Ok(None) => return Some(Check::new(label, Health::Green, format!("{}, format {}", agent.words(), agent.format.name()))),
        Err(_) => return None,
    };
    let place = format!("{}, format {}", found.display(), agent.format.name());
    // Only for known clients is it certain that `--version` does nothing else.
    let known = found.file_name().and_then(|name| Profile::of(name.to_str()?));
    if known.is_none() {
        return Some(Check::new(label, Health::Green, place));
    }
    Some(match trial(context, &found, top).await {
        Ok(version) => Check::new(label, Health::Green, format!("{version}, {place}")),
        Err(why) => Check::new(label, Health::Red, format!("{place}: {why}"))
            .fixed_by(format!("{} --version", quoted(&found.display().to_string()))),
    })
}

/// Starts a client with `--version`.
async fn trial(context: &Context, program: &Path, top: &Path) -> Result<String, String> {
    let program = Program {
        program: program.into(),
        args: vec!["--version".into()],
        env: context.environment.for_children(&[]),
        cwd: top.to_owned(),
    };
    let ran = capture(&program, None, Some(TRIAL)).await.map_err(|error| format!("cannot be started: {error}"))?;
    let first =
        |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned();
    match ran.exit {
        Exit::Success => Ok(first(&ran.stdout)),
        Exit::Code { code } => Err(format!("a trial start ended with exit status {code}: {}", first(&ran.stderr))),
        Exit::TimedOut { seconds } => Err(format!("a trial start did not end within {seconds} s")),
        other => Err(format!("a trial start {}", crate::run::abnormal(&other))),
    }
}
