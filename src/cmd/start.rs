//! `git ralph start`: checks everything, creates the initial state, runs the loop, and offers to finish.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::context::Context;
use super::session::{brief, needs_isolation, plan, reporter, take_up, work};
use super::{resume, sandbox_choice};
use crate::agent::Agent;
use crate::branch::{check_index_is_free, dry_run, has_begun, preflight};
use crate::cli::{Resume, Start};
use crate::config::{Advice, AgentChoice, Environment, Flags, Settings, unedited};
use crate::error::{ExitStatus, Problem};
use crate::names::Names;
use crate::remote::{WorkerRunner, preconditions};
use crate::report::{Line, Tone, ask, clean, count, output};
use crate::run::{Gates, LoadedChange, NewRun, OpenRun, Phase, RunDir, RunState, Work, lock_name};
use crate::runner::Runner;
use crate::shell_word::{git_ralph, quoted};
use crate::story::{Change, ChangeName, Order, Story, StoryId};
use crate::workspace::{check_case, check_outside, workspace_directory};

/// Starts a run and works on it.
pub async fn run(args: Start, environment: Environment) -> Result<ExitStatus> {
    let context = Context::open_to_work(environment).await?;
    let Some(name) = chosen(&context, args.change.as_deref()).await? else { return Ok(ExitStatus::NotPossible) };
    let flags = absolute(args.run.flags(), &context.environment);
    // Errors in the stories are reported before the first question.
    let loaded = context.changes.load(&name)?;
    let change = loaded.change(None)?;
    check_edited(&loaded, &change)?;
    let Some(flags) = with_agent(&context, &loaded, flags).await? else { return Ok(ExitStatus::NotPossible) };
    let mut planned = plan(&context, &loaded, &change, &flags, args.run.limit)?;
    sandbox_choice::decide(&context, &mut planned).await?;
    if args.run.dry_run {
        if !args.restart && context.store.last(&name)?.is_some_and(|(_, state)| !state.is_closed()) {
            bail!(is_open(&name));
        }
        preflight(&context.repo, &Names::new(&name)).await?;
        let isolation = isolation(&context, &name, &planned).await?;
        output::data(&dry_run_text(&context, &change, &planned, isolation.as_deref(), args.run.verbose)?);
        return Ok(ExitStatus::Done);
    }
    if !args.restart && !may_be_done_again(&context, &change, &planned).await? {
        return Ok(ExitStatus::NotPossible);
    }
    if !args.run.quiet {
        say_what_was_found(&loaded, &change);
    }
    warn_of_list(&change, &planned);
    let reporter = reporter(&context, &args.run);
    let isolation = isolation(&context, &name, &planned).await?;
    let lock_name = lock_name(&name, &context.repo.place.worktree_id(), isolation.is_some());
    // Refuses if another loop is working here. The lock is not held while a question is open.
    drop(context.site().lock(&lock_name).await?);
    let (context, lock) = match old_run(&context, &name, args.restart, isolation.is_some()).await? {
        Old::None => {
            let lock = context.site().lock(&lock_name).await?;
            if find_old_run(&context, &name, isolation.is_some()).await?.is_some() {
                bail!(is_open(&name));
            }
            (context, lock)
        }
        Old::Restart(run, state) => {
            let mut old = take_up(&context, run, &state, brief(args.run.quiet)).await?;
            old.abort().await?;
            drop(old.into_lock());
            let context = Context::open_to_work(context.environment).await?;
            let lock = context.site().lock(&lock_name).await?;
            (context, lock)
        }
        Old::Resume => {
            let args = Resume { change: Some(name.to_string()), run: args.run };
            return resume::run(args, context.environment).await;
        }
        Old::Cancel => return Ok(ExitStatus::NotPossible),
    };
    preflight(&context.repo, &Names::new(&name)).await?;
    if isolation.is_none() {
        check_index_is_free(&context.repo)?;
    }
    let new = NewRun { flags, anonymous: context.anonymous, workspaces: isolation };
    let open = OpenRun::begin(context.site(), &loaded, new, reporter, lock).await?;
    work(&context, open, &planned, loaded, &args.run).await
}

/// Refuses a template that was never edited, because the agent would cost money for nothing.
fn check_edited(loaded: &LoadedChange, change: &Change) -> Result<()> {
    let Some((story, words)) = change.stories.iter().find_map(|story| Some((story, unedited(story)?))) else { return Ok(()) };
    let (file, name) = (&loaded.shown, &loaded.name);
    bail!(
        Problem::refused(format!("story '{}' of {file} still says \"{words}\"", story.id))
            .hint(format!("git ralph edit {name} && git ralph start {name}"))
    )
}

/// Whether stories that a finished run has done may be done again. On a terminal the user is asked; otherwise `--restart` is required.
async fn may_be_done_again(context: &Context, change: &Change, work: &Work) -> Result<bool> {
    let last = context.store.last(&change.name)?.filter(|(_, state)| matches!(state.phase, Phase::Finished(_)));
    let Some((run, state)) = last else { return Ok(true) };
    let selected = |story: &&Story| work.only.is_empty() || work.only.contains(&story.id);
    let again = change.stories.iter().filter(selected).filter(|story| !story.done && state.has_landed(&story.id));
    let again: Vec<&str> = again.map(|story| story.id.as_str()).collect();
    if again.is_empty() {
        return Ok(true);
    }
    let name = &change.name;
    let text = format!("run {} of '{name}' is finished, and these stories would be done again: {}", run.number, again.join(", "));
    if !context.environment.interactive {
        let problem = Problem::refused(text).hint(format!("git ralph start --restart {name}   to do them again"));
        bail!(only_the_others(change, &again).into_iter().fold(problem, Problem::hint));
    }
    output::message(&Line::new(Tone::Plain, text));
    Ok(ask::sure("Do them again?".to_owned()).await? == ask::Answer::Chosen(()))
}

/// The command that does only the stories that are not done yet, if there are any and they do not depend on the others.
fn only_the_others(change: &Change, again: &[&str]) -> Option<String> {
    let is_again = |id: &StoryId| again.contains(&id.as_str());
    let others: Vec<&Story> = change.stories.iter().filter(|story| !story.done && !is_again(&story.id)).collect();
    if others.is_empty() || others.iter().any(|story| story.after.iter().any(is_again)) {
        return None;
    }
    let only: Vec<String> = others.iter().map(|story| format!(" --only {}", quoted(story.id.as_str()))).collect();
    Some(format!("{}   to do only the others", git_ralph(&format!("start{}", only.concat()), &[change.name.as_str()])))
}

/// Prints where the stories come from and how many there are, before the first agent starts.
fn say_what_was_found(loaded: &LoadedChange, change: &Change) {
    let place = loaded.file.source.as_ref().unwrap_or(&loaded.shown);
    let total = change.stories.len();
    let done = match change.stories.iter().filter(|story| story.done).count() {
        0 => String::new(),
        done => format!(", {done} of them done already"),
    };
    output::message(&Line::new(Tone::Plain, format!("{}: {} in {}{done}", loaded.name, count(total, "story"), clean(place))));
}

/// The directory for the workspaces of an isolated run, or `None` if the agent works in the checkout. Problems are reported before
/// anything is created.
async fn isolation(context: &Context, name: &ChangeName, work: &Work) -> Result<Option<PathBuf>> {
    let worker = WorkerRunner::of(Runner::of_agents(&work.settings).words())?;
    match (&worker, work.wants_isolation()) {
        (None, false) => return Ok(None),
        (Some(_), false) => bail!(needs_isolation(format!("git ralph start --isolate {name}"))),
        (Some(worker), true) => preconditions::check(&context.repo, &worker.hub).await?,
        (None, true) => {}
    }
    let configured = work.settings.workspace_dir.as_ref().map(|dir| context.environment.expanded(&dir.value));
    let dir = workspace_directory(&context.repo.place.top, name.as_str(), configured.as_deref())?;
    check_outside(&dir, &context.as_user()).await?;
    check_case(&dir, &context.repo).await?;
    Ok(Some(dir))
}

/// Warns before the first story that the stories form a list, so they run one after the other in spite of `--jobs` and `--keep-going`.
fn warn_of_list(change: &Change, work: &Work) {
    let wants_others = work.settings.jobs.value > 1 || work.settings.keep_going.value;
    if wants_others && change.order == Order::List && change.stories.len() > 1 {
        let why = if work.settings.jobs.value > 1 { "are worked on one after the other" } else { "each waits for the one before it" };
        let text = format!("the stories of '{}' form a list and {why}", change.name);
        output::message(&Line::new(Tone::Warning, text));
        output::advise(
            Advice::NextStep,
            &[format!("git ralph edit {}   to add order = \"any\", or 'after' where a story needs another one", change.name)],
        );
    }
}

/// The named change, the only one there is, or the one that the user chooses.
async fn chosen(context: &Context, named: Option<&str>) -> Result<Option<ChangeName>> {
    if let Some(name) = named {
        return Context::name(name).map(Some);
    }
    let names: Vec<String> = context.changes.known()?.iter().map(ToString::to_string).collect();
    if names.is_empty() {
        bail!(Problem::refused("there is no change to start").hint("git ralph new my-change"));
    }
    if !context.environment.interactive {
        let problem = Problem::usage("which change? none is named, and there is no terminal to ask on");
        bail!(names.iter().fold(problem, |problem, name| problem.hint(git_ralph("start", &[name]))));
    }
    match ask::which_change(names).await? {
        ask::Answer::Chosen(name) => Context::name(&name).map(Some),
        ask::Answer::Later | ask::Answer::Interrupted => Ok(None),
    }
}

/// If no agent is configured, proposes the first known one that is installed.
async fn with_agent(context: &Context, loaded: &LoadedChange, flags: Flags) -> Result<Option<Flags>> {
    let (name, settings) = (&loaded.name, loaded.settings(&flags, &context.config)?);
    if settings.agent.is_some() {
        return Ok(Some(flags));
    }
    let Some(found) = Agent::installed(&context.environment, &context.repo.place.top) else {
        bail!(
            Problem::fatal("no agent is configured, and none of the known ones is installed")
                .hint(format!("git ralph start {name} -- ./my-agent   with any command that reads the prompt on stdin"))
                .hint("git ralph doctor   to see which agents git-ralph knows")
        );
    };
    warn_of_rights(found, &settings);
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

/// Warns what the agent may do, because the user has not chosen it.
fn warn_of_rights(agent: &str, settings: &Settings) {
    let rights = format!("{agent} runs with its permission prompts switched off: it can run any command and change any file that you can");
    let clone = "it works in a private clone and leaves your checkout alone, but a clone is not a sandbox";
    let checkout = "it works in your checkout; with --isolate it works in a private clone, but a clone is not a sandbox";
    let lines = match (settings.sandbox.value.is_required(), settings.wants_isolation()) {
        (true, _) => vec![format!(
            "{agent} runs with its permission prompts switched off, in a sandbox: it can write to its workspace and to its own state"
        )],
        (false, is_isolated) => {
            vec![
                rights,
                if is_isolated { clone } else { checkout }.to_owned(),
                "with --sandbox it can write to little more than its workspace".to_owned(),
            ]
        }
    };
    lines.into_iter().for_each(|line| output::message(&Line::new(Tone::Warning, line)));
}

/// Makes the relative path of an agent program absolute: the user means it relative to the current directory, but it runs at the
/// top of the work tree.
pub(super) fn absolute(mut flags: Flags, environment: &Environment) -> Flags {
    if let Some(AgentChoice::Command(words)) = &mut flags.agent
        && let Some(program) = words.first_mut()
        && program.contains('/')
    {
        // Via components, which removes the `.` of `./agent`.
        *program = environment.cwd.join(&program).components().collect::<PathBuf>().to_string_lossy().into_owned();
    }
    flags
}

enum Old {
    None,
    Resume,
    Restart(RunDir, Box<RunState>),
    Cancel,
}

/// Finds an unfinished run and asks what to do with it, so that it is never discarded by accident.
async fn old_run(context: &Context, name: &ChangeName, restart: bool, isolated: bool) -> Result<Old> {
    let Some((run, state)) = find_old_run(context, name, isolated).await? else { return Ok(Old::None) };
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

/// The open run of the change, if there is one. Refuses if a run of another change is open in this work tree.
async fn find_old_run(context: &Context, name: &ChangeName, isolated: bool) -> Result<Option<(RunDir, RunState)>> {
    let worktree = context.repo.place.worktree_id();
    // An isolated run conflicts with no other run in this work tree.
    let here =
        |state: &RunState| !isolated && !state.is_isolated() && state.opening.as_ref().is_some_and(|opening| opening.worktree == worktree);
    let mut open = context.store.open_runs()?;
    let mine = open.iter().position(|(run, _)| run.change == *name).map(|at| open.swap_remove(at));
    if let Some((other, _)) = open.iter().find(|(_, state)| here(state)) {
        let other = &other.change;
        bail!(
            Problem::refused(format!("a run of '{other}' is open in this work tree"))
                .hint(git_ralph("resume", &[other.as_str()]))
                .hint(git_ralph("finish", &[other.as_str()]))
                .hint(git_ralph("abort", &[other.as_str()]))
        );
    }
    let Some((run, state)) = mine else { return Ok(None) };
    if state.phase == Phase::Starting && !has_begun(&context.repo.refs().await?, &Names::new(name), run.path()) {
        // The run died before it changed anything.
        return Ok(None);
    }
    Ok(Some((run, state)))
}

fn is_open(name: &ChangeName) -> Problem {
    Problem::refused(format!("a run of '{name}' is open"))
        .hint(format!("git ralph resume {name}   to continue it"))
        .hint(format!("git ralph start --restart {name}   to set it aside (under refs/ralph/{name}/) and start over"))
}

/// The steps for a story, as commands; with its prompt if `verbose`.
pub fn story_steps(change: &Change, story: &Story, work: &Work, verbose: bool) -> Result<String> {
    let mut text = format!("\n# story {}: {}\n{}\n", story.id, story.title, work.agent.words());
    for gate in &Gates::of(&work.settings, story).commands {
        let _ = writeln!(text, "sh -c '{gate}'");
    }
    let subject = Names::new(&change.name).checkpoint_subject(story, &work.settings.subject.value);
    let _ = writeln!(text, "git add -A\ngit commit --allow-empty -m \"{subject}\"");
    if verbose {
        for line in work.prompt(change, story)?.lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    Ok(text)
}

/// The output of `--dry-run`.
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
        text.push_str(&story_steps(change, story, work, verbose)?);
    }
    if isolation.is_some() {
        let _ = writeln!(text);
        for command in dry_run::land_isolated(&names) {
            let _ = writeln!(text, "{command}");
        }
    }
    let _ = writeln!(text, "\n# a failed attempt is saved under refs/ralph/{}/attempts/ and rolled back:", change.name);
    let _ = writeln!(
        text,
        "# git reset --hard <checkpoint> && git clean -fd, at most {} times per story",
        work.settings.max_retries.value.saturating_add(1)
    );
    Ok(text)
}
