//! `git ralph start`: checks, the initial state, the loop, the completion choice.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::context::Context;
use super::resume;
use super::session::{brief, plan, reporter, take_up, work};
use crate::agent::Agent;
use crate::branch::{dry_run, has_begun, preflight};
use crate::cli::{Resume, Start};
use crate::config::{Advice, AgentChoice, Environment, Flags};
use crate::error::{ExitStatus, Problem};
use crate::names::Names;
use crate::report::{Line, Tone, ask, output};
use crate::run::{Gates, LoadedChange, NewRun, OpenRun, Phase, RunDir, RunState, Work, lock_name};
use crate::shell_word::quoted;
use crate::story::{Change, ChangeName, Order};
use crate::workspace::{check_outside, workspace_directory};

/// Begins a run and works on it.
pub async fn run(args: Start, environment: Environment) -> Result<ExitStatus> {
    let context = Context::open_to_work(environment).await?;
    let Some(name) = chosen(&context, args.change.as_deref()).await? else { return Ok(ExitStatus::NotPossible) };
    let flags = absolute(args.run.flags(), &context.environment);
    // What is wrong with the stories is said before anything is asked.
    let loaded = context.changes.load(&name)?;
    let change = loaded.change(None)?;
    let Some(flags) = with_agent(&context, &loaded, flags).await? else { return Ok(ExitStatus::NotPossible) };
    let planned = plan(&context, &loaded, &change, &flags, args.run.limit)?;
    if args.run.dry_run {
        if !args.restart && context.store.last(&name)?.is_some_and(|(_, state)| !state.is_closed()) {
            bail!(is_open(&name));
        }
        preflight(&context.repo, &Names::new(&name)).await?;
        let isolation = isolation(&context, &name, &planned).await?;
        output::data(&dry_run_text(&context, &change, &planned, isolation.as_deref(), args.run.verbose)?);
        return Ok(ExitStatus::Done);
    }
    warn_of_list(&change, &planned, &loaded.shown);
    let reporter = reporter(&context, &args.run);
    let isolation = isolation(&context, &name, &planned).await?;
    let worktree = context.repo.place.worktree_id();
    let lock = context.site().lock(&lock_name(&name, &worktree, isolation.is_some())).await?;
    let (context, lock) = match old_run(&context, &name, args.restart, isolation.is_some()).await? {
        Old::None => (context, lock),
        Old::Restart(run, state) => {
            drop(lock);
            let mut old = take_up(&context, run, &state, brief(args.run.quiet)).await?;
            old.abort().await?;
            drop(old.into_lock());
            let context = Context::open_to_work(context.environment).await?;
            let lock = context.site().lock(&lock_name(&name, &worktree, isolation.is_some())).await?;
            (context, lock)
        }
        Old::Resume => {
            drop(lock);
            let args = Resume { change: Some(name.to_string()), run: args.run };
            return resume::run(args, context.environment).await;
        }
        Old::Cancel => return Ok(ExitStatus::NotPossible),
    };
    preflight(&context.repo, &Names::new(&name)).await?;
    let new = NewRun { flags, anonymous: context.anonymous, workspaces: isolation };
    let mut open = OpenRun::begin(context.site(), &loaded, new, reporter, lock).await?;
    work(&context, &mut open, &planned, loaded).await
}

/// Where the workspaces of an isolated run go; none if the agent works in the checkout. What cannot work is said before anything is made.
async fn isolation(context: &Context, name: &ChangeName, work: &Work) -> Result<Option<PathBuf>> {
    if !work.wants_isolation() {
        return Ok(None);
    }
    let configured = work.settings.workspace_dir.as_ref().map(|dir| context.environment.expanded(&dir.value));
    let dir = workspace_directory(&context.repo.place.top, name.as_str(), configured.as_deref())?;
    check_outside(&dir, &context.as_user()).await?;
    Ok(Some(dir))
}

/// Stories that form a list are worked on one after the other, however many jobs there are: that is said before the first one starts.
fn warn_of_list(change: &Change, work: &Work, file: &str) {
    if work.settings.jobs.value > 1 && change.order == Order::List && change.stories.len() > 1 {
        let text = format!("the stories of '{}' form a list and are worked on one after the other", change.name);
        output::message(&Line::new(Tone::Warning, text));
        output::advise(
            Advice::NextStep,
            &[format!("order = \"any\"   in {file}, if they do not need each other; or say 'after' where they do")],
        );
    }
}

/// The named change, the only one there is, or the one that the user picks.
async fn chosen(context: &Context, named: Option<&str>) -> Result<Option<ChangeName>> {
    if let Some(name) = named {
        return Context::name(name).map(Some);
    }
    let names: Vec<String> = context.changes.known()?.iter().map(ToString::to_string).collect();
    if names.is_empty() {
        bail!(Problem::refused("there is no change to start").hint("git ralph new <change>"));
    }
    if !context.environment.interactive {
        bail!(
            Problem::usage("which change? none is named, and there is no terminal to ask on")
                .hint(format!("git ralph start {}", names.join(" | ")))
        );
    }
    match ask::which_change(names).await? {
        ask::Answer::Chosen(name) => Context::name(&name).map(Some),
        ask::Answer::Later | ask::Answer::Interrupted => Ok(None),
    }
}

/// With no agent configured the first known one that is installed is proposed.
async fn with_agent(context: &Context, loaded: &LoadedChange, flags: Flags) -> Result<Option<Flags>> {
    let name = &loaded.name;
    if loaded.settings(&flags, &context.config)?.agent.is_some() {
        return Ok(Some(flags));
    }
    let Some(found) = Agent::installed(&context.environment, &context.repo.place.top) else {
        bail!(
            Problem::fatal("no agent is configured, and none of the known ones is installed")
                .hint(format!("git ralph start {name} -- <command that reads the prompt on stdin>"))
                .hint("git config ralph.agent <name>, see git ralph doctor")
        );
    };
    if context.environment.interactive {
        let question = format!("No agent is configured. Use {found}, which is installed?");
        match ask::agreed(question).await? {
            ask::Answer::Chosen(()) => {}
            ask::Answer::Later | ask::Answer::Interrupted => return Ok(None),
        }
    } else {
        output::message(&Line::new(Tone::Plain, format!("no agent is configured, using {found}")));
        output::advise(Advice::NextStep, &[format!("git config ralph.agent {}", quoted(found))]);
    }
    Ok(Some(Flags { agent: Some(AgentChoice::Named(found.to_owned())), ..flags }))
}

/// A program named by a relative path is meant from where it was typed, but runs at the top of the work tree.
pub(super) fn absolute(mut flags: Flags, environment: &Environment) -> Flags {
    if let Some(AgentChoice::Command(words)) = &mut flags.agent
        && let Some(program) = words.first_mut()
        && program.contains('/')
    {
        *program = environment.cwd.join(&program).to_string_lossy().into_owned();
    }
    flags
}

enum Old {
    None,
    Resume,
    Restart(RunDir, Box<RunState>),
    Cancel,
}

/// An unfinished run is never thrown away by accident.
async fn old_run(context: &Context, name: &ChangeName, restart: bool, isolated: bool) -> Result<Old> {
    let worktree = context.repo.place.worktree_id();
    // Isolated runs are in nobody's way.
    let here =
        |state: &RunState| !isolated && !state.is_isolated() && state.opening.as_ref().is_some_and(|opening| opening.worktree == worktree);
    let mut open = context.store.open_runs()?;
    let mine = open.iter().position(|(run, _)| run.change == *name).map(|at| open.swap_remove(at));
    if let Some((other, _)) = open.iter().find(|(_, state)| here(state)) {
        let other = &other.change;
        bail!(
            Problem::refused(format!("a run of '{other}' is open in this work tree"))
                .hint(format!("git ralph resume {other}"))
                .hint(format!("git ralph finish {other}"))
                .hint(format!("git ralph abort {other}"))
        );
    }
    let Some((run, state)) = mine else { return Ok(Old::None) };
    if state.phase == Phase::Starting && !has_begun(&context.repo.refs().await?, &Names::new(name), run.path()) {
        // It died before it touched anything.
        return Ok(Old::None);
    }
    if restart {
        return Ok(Old::Restart(run, Box::new(state)));
    }
    if context.environment.interactive {
        return Ok(match ask::open_run(name.as_str()).await? {
            ask::Answer::Chosen(ask::OpenRun::Resume) => Old::Resume,
            ask::Answer::Chosen(ask::OpenRun::Restart) => Old::Restart(run, Box::new(state)),
            ask::Answer::Later | ask::Answer::Interrupted => Old::Cancel,
        });
    }
    bail!(is_open(name))
}

fn is_open(name: &ChangeName) -> Problem {
    Problem::refused(format!("a run of '{name}' is open"))
        .hint(format!("git ralph resume {name}            to go on with it"))
        .hint(format!("git ralph start --restart {name}   to keep it under refs/ralph/{name}/ and begin again"))
}

/// What `--dry-run` prints.
fn dry_run_text(context: &Context, change: &Change, work: &Work, isolation: Option<&Path>, verbose: bool) -> Result<String> {
    let (mut text, names) = (String::new(), Names::new(&change.name));
    let begin = match isolation {
        Some(dir) => dry_run::start_isolated(&names, &context.repo.place.head, dir, &work.settings.setup.value),
        None => dry_run::start(&names),
    };
    for command in begin {
        let _ = writeln!(text, "{command}");
    }
    if let Some(dir) = isolation {
        let jobs = work.policy(true).jobs;
        let at_once = if jobs > 1 && change.order != Order::List { format!(", {jobs} stories at a time") } else { String::new() };
        let _ = writeln!(text, "\n# the following is done in workspaces below {}{at_once}", dir.display());
    }
    for story in change.stories.iter().filter(|story| work.only.is_empty() || work.only.contains(&story.id)) {
        let _ = writeln!(text, "\n# story {}: {}", story.id, story.title);
        let _ = writeln!(text, "{}", work.agent.words());
        for gate in &Gates::of(&work.settings, story).commands {
            let _ = writeln!(text, "sh -c '{gate}'");
        }
        let _ = writeln!(text, "git add -A\ngit commit --allow-empty -m \"checkpoint: {}\"", story.id);
        if verbose {
            for line in work.prompt(change, story)?.lines() {
                let _ = writeln!(text, "    {line}");
            }
        }
    }
    if isolation.is_some() {
        let _ = writeln!(text);
        for command in dry_run::land_isolated(&names) {
            let _ = writeln!(text, "{command}");
        }
    }
    let _ = writeln!(text, "\n# an attempt that fails is kept under refs/ralph/{}/attempts/ and rolled back:", change.name);
    let _ = writeln!(
        text,
        "# git reset --hard <checkpoint> && git clean -fd, at most {} times a story",
        work.settings.max_retries.value.saturating_add(1)
    );
    Ok(text)
}
