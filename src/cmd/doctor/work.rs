//! Checks the settings, whether changes can be started, and whether gates can run.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::super::context::Context;
use super::super::session::plan;
use crate::branch::preflight;
use crate::config::{Flags, Settings, unknown_entries};
use crate::error::Problem;
use crate::names::Names;
use crate::process::{Exit, Program, capture};
use crate::report::{Check, Health, count};
use crate::run::LoadedChange;
use crate::shell_word::quoted;
use crate::story::ChangeName;

const PATIENCE: Duration = Duration::from_secs(10);

/// All checks of settings, changes and gates; only of one change if it is named.
pub async fn checks(context: &Context, only: Option<&str>) -> Result<Vec<Check>> {
    let mut checks = settings(context);
    let names: Vec<ChangeName> = match only {
        Some(name) => vec![Context::name(name)?],
        None => context.changes.known()?.into_iter().collect(),
    };
    if names.is_empty() {
        checks.push(Check::new("changes", Health::Note, "there is none yet").fixed_by("git ralph new my-change"));
        checks.extend(gates(context, None).await);
    }
    for name in &names {
        checks.push(change(context, name).await);
        checks.extend(gates(context, Some(name)).await);
    }
    Ok(checks)
}

fn settings(context: &Context) -> Vec<Check> {
    let name = "settings";
    let read = Settings::resolve(&Flags::default(), None, &context.config);
    let mut checks: Vec<Check> =
        unknown_entries(&context.config)
            .map(|(entry, near)| {
                let suggestion = crate::nearest::said(near);
                Check::new(name, Health::Note, format!("'{}' in {} is not a setting{suggestion}", entry.key, entry.origin()))
                    .fixed_by(format!("git config --{} --unset-all {}", entry.scope, quoted(&entry.key)))
            })
            .collect();
    checks.push(match read {
        Ok(_) => Check::new(name, Health::Green, "can be read; git ralph config lists them"),
        Err(error) => Check::new(name, Health::Red, crate::error::words(&error))
            .fixed_by("git config --edit   to correct the value, in the file named above"),
    });
    checks
}

/// Checks whether a change can be started or resumed.
async fn change(context: &Context, name: &ChangeName) -> Check {
    let label = format!("change {name}");
    let fix = |problem: &anyhow::Error| {
        problem.chain().find_map(|cause| cause.downcast_ref::<Problem>()).and_then(|problem| problem.hints(&[]).first().cloned())
    };
    let red = |error: &anyhow::Error, otherwise: &str| {
        Check::new(&label, Health::Red, crate::error::words(error)).fixed_by(fix(error).unwrap_or_else(|| otherwise.to_owned()))
    };
    if let Ok(Some((_, state))) = context.store.last(name)
        && !state.is_closed()
    {
        return Check::new(&label, Health::Note, "a run of it is open").fixed_by(format!("git ralph resume {name}"));
    }
    let planned = |loaded: LoadedChange| {
        let change = loaded.change(None)?;
        // If no agent is named, `start` proposes an installed one. Another check says whether there is one.
        if loaded.settings(&Flags::default(), &context.config)?.agent.is_some() {
            plan(context, &loaded, &change, &Flags::default(), None)?;
        }
        Ok(change.stories.len())
    };
    let stories = match context.changes.load(name).and_then(planned) {
        Ok(stories) => stories,
        // A change without a file is known only by its runs, and is not meant to be started.
        Err(_) if !context.store.change_file(name).exists() && context.store.last(name).is_ok_and(|last| last.is_some()) => {
            return Check::new(&label, Health::Note, "its file is gone, but the data of its runs is still there")
                .fixed_by("git ralph prune");
        }
        Err(error) => return red(&error, &format!("edit {}", context.shown(&context.store.change_file(name)))),
    };
    if let Ok((other, _)) = context.open_run(None) {
        let found = format!("cannot be started while a run of '{}' is open in this work tree", other.change);
        return Check::new(&label, Health::Note, found).fixed_by(format!("git ralph finish {}", other.change));
    }
    match preflight(&context.repo, &Names::new(name)).await {
        Ok(()) => Check::new(&label, Health::Green, format!("can be started, {}", count(stories, "story"))),
        Err(error) => red(&error, "git status"),
    }
}

/// Checks the gates of a change, or of all changes. A missing program would make every story fail.
async fn gates(context: &Context, name: Option<&ChangeName>) -> Vec<Check> {
    let loaded = name.map(|name| context.changes.load(name)).transpose();
    let settings = loaded.as_ref().ok().map(|loaded| match loaded {
        Some(loaded) => loaded.settings(&Flags::default(), &context.config),
        None => Settings::resolve(&Flags::default(), None, &context.config),
    });
    // Settings and changes that cannot be read have already been reported.
    let (Some(Ok(settings)), Ok(loaded)) = (settings, loaded) else { return Vec::new() };
    let label = name.map_or_else(|| "gates".to_owned(), |name| format!("gates of {name}"));
    let stories = loaded.and_then(|loaded| loaded.change(None).ok()).map(|change| change.stories).unwrap_or_default();
    let gates: Vec<&String> = settings.verify.value.iter().chain(stories.iter().flat_map(|story| &story.verify)).collect();
    if gates.is_empty() {
        let found = "none: a story counts as done when the agent says so";
        return vec![Check::new(label, Health::Note, found).fixed_by("git config --add ralph.verify '<command>'")];
    }
    let mut checks = Vec::new();
    for gate in &gates {
        if let Some(program) = first_word(gate)
            && !is_there(context, program).await
        {
            let found = format!("'{gate}': there is no '{program}'");
            let fix = if program.contains('/') { format!("write {program}, and chmod +x {program}") } else { format!("install {program}") };
            checks.push(Check::new(&label, Health::Red, found).fixed_by(fix));
        }
    }
    if checks.is_empty() {
        let words = gates.iter().map(|gate| gate.as_str()).collect::<Vec<_>>().join("; ");
        checks.push(Check::new(label, Health::Green, format!("{words} ({})", settings.verify.origin)));
    }
    checks
}

/// The program that a command line begins with, if it can be determined without a shell.
fn first_word(command: &str) -> Option<&str> {
    let word = command.split_whitespace().next()?;
    word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./+".contains(c)).then_some(word)
}

/// Whether the shell that runs the gates finds the program.
async fn is_there(context: &Context, program: &str) -> bool {
    let top: &Path = &context.repo.place.top;
    let program = Program {
        program: "sh".into(),
        args: ["-c", "command -v -- \"$1\"", "sh", program].map(Into::into).to_vec(),
        env: context.environment.for_children(&[]),
        cwd: top.to_owned(),
    };
    capture(&program, None, Some(PATIENCE)).await.is_ok_and(|ran| ran.exit == Exit::Success)
}
