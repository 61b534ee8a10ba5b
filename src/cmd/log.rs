//! `git ralph log`: shows the history of a run, or one attempt.

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::context::Context;
use super::follow::{Telling, follow};
use crate::agent::{Agent, Format, Profile, Said};
use crate::cli::LogArgs;
use crate::config::{AgentChoice, Environment};
use crate::error::{ExitStatus, Problem};
use crate::names::Names;
use crate::report::{
    AttemptPage, Chronicle, CommandPlace, History, Kept, LogView, RunView, Summary, Timeline, attempt_json, attempt_text, log_json,
    log_text, output, said_line, timeline_text,
};
use crate::run::{RunDir, RunState, Transcript};
use crate::safe_read;
use crate::shell_word::git_ralph;
use crate::story::{ChangeName, StoryId};

/// How many bytes from the end of a gate's output or of standard error are shown.
const TAIL: u64 = 64 * 1024;

/// The width of a timeline that is not shown on a terminal.
const COLUMNS: u16 = 80;

/// The run to show, and the story if one is named.
struct Subject {
    run: RunDir,
    state: RunState,
    story: Option<StoryId>,
}

/// Prints the history of a run.
pub async fn run(args: &LogArgs, environment: Environment) -> Result<ExitStatus> {
    let context = Context::open(environment).await?;
    let subject = in_run(&context, subject(&context, args.change.as_deref(), args.story.as_deref())?, args.run)?;
    let Subject { run, state, story } = &subject;
    if args.follow {
        let telling = if args.json { Telling::Json } else { Telling::Words };
        return follow(&context, run, story.as_ref(), telling).await;
    }
    let chronicle = chronicle(run)?;
    if let Some(number) = args.attempt {
        return attempt(&context, &subject, &chronicle, number, args).await;
    }
    let kept = kept(&context, &run.change, &chronicle, story.as_ref()).await?;
    let owner = context.store.owner(state);
    // The summary covers the whole run, so it is left out if a story is named.
    let whole = if story.is_none() { Some(summary(&context, run, state).await?) } else { None };
    let stories = context.changes.stories(run, state);
    let view = LogView::new(&chronicle, &stories, story.as_ref(), owner, kept)
        .with_summary(whole)
        .with_timeline(timeline(&context, run, args)?)
        .after(earlier(&context, run)?);
    if args.json {
        output::data(&log_json(&view));
    } else {
        context.page(&log_text(&view)).await;
    }
    Ok(ExitStatus::Done)
}

/// The timeline of a run as text, if the user asked for it.
fn timeline(context: &Context, run: &RunDir, args: &LogArgs) -> Result<Option<String>> {
    if !args.stat || args.json {
        return Ok(None);
    }
    let mut history = History::new();
    run.replay(|record| history.take(record))?;
    let columns = if context.environment.display { console::Term::stdout().size().1 } else { COLUMNS };
    Ok(Some(timeline_text(&Timeline::of(&history), usize::from(columns))))
}

/// The attempts in the journal of a run.
pub fn chronicle(run: &RunDir) -> Result<Chronicle> {
    let mut chronicle = Chronicle::default();
    run.replay(|record| chronicle.take(record))?;
    Ok(chronicle)
}

/// The summary of a run.
pub async fn summary(context: &Context, run: &RunDir, state: &RunState) -> Result<Summary> {
    let stories = context.changes.stories(run, state);
    let changes = match (&state.initial, &state.base) {
        // Commits that were pruned cannot be compared.
        (Some(initial), Some(base)) => context.repo.diff_stat(initial, &base.checkpoint).await.ok(),
        _ => None,
    };
    let (refs, names) = (context.repo.refs().await?, Names::new(&run.change));
    let prefix = names.prefix();
    let saved = refs.below(&prefix).map(|entry| entry.name.as_str());
    let summary = Summary::new(&run.change, state, &stories).within(chronicle(run)?.milliseconds());
    Ok(summary.with_changes(changes).with_saved(&names, saved))
}

/// The earlier runs of the change.
fn earlier(context: &Context, run: &RunDir) -> Result<Vec<RunView>> {
    let runs = context.store.runs(&run.change)?;
    runs.iter().filter(|earlier| earlier.number < run.number).map(|earlier| Ok(chronicle(earlier)?.view())).collect()
}

/// Replaces the run by the one that `--run` names, if it was given.
fn in_run(context: &Context, subject: Subject, number: Option<u32>) -> Result<Subject> {
    let (run, state) = numbered(context, (subject.run, subject.state), number)?;
    Ok(Subject { run, state, story: subject.story })
}

/// The run of the same change with the given number; without a number, the given run.
fn numbered(context: &Context, (last, state): (RunDir, RunState), number: Option<u32>) -> Result<(RunDir, RunState)> {
    let Some(number) = number.filter(|number| *number != last.number) else { return Ok((last, state)) };
    let runs = context.store.runs(&last.change)?;
    let numbers: Vec<String> = runs.iter().map(|run| run.number.to_string()).collect();
    let Some(run) = runs.into_iter().find(|run| run.number == number) else {
        bail!(Problem::fatal(format!("'{}' has no run {number}, only {}", last.change, numbers.join(", "))).hint("git ralph log"))
    };
    let state = run.state()?;
    Ok((run, state))
}

/// The run with the given change name and number, each of which may be missing.
pub fn run_looked_at(context: &Context, change: Option<&str>, number: Option<u32>) -> Result<(RunDir, RunState)> {
    let subject = subject(context, change, None)?;
    if let (Some(name), Some(_)) = (change, &subject.story) {
        bail!(Problem::fatal(format!("there is no change '{}'", name.escape_debug())).hint("git ralph list"));
    }
    numbered(context, (subject.run, subject.state), number)
}

/// The output format of the agent with this name.
pub fn format_of(context: &Context, agent: &str) -> Format {
    let configured = Agent::resolve(&AgentChoice::Named(agent.to_owned()), None, &context.config).ok().map(|agent| agent.format);
    configured.or_else(|| Profile::of(agent).map(|profile| profile.format)).unwrap_or(Format::Text)
}

/// Prints one attempt.
async fn attempt(context: &Context, subject: &Subject, chronicle: &Chronicle, number: u32, args: &LogArgs) -> Result<ExitStatus> {
    let run = &subject.run;
    let story = match &subject.story {
        Some(story) => story.clone(),
        None => only_story(run, chronicle, number)?,
    };
    let Some(view) = chronicle.attempt(&story, number) else {
        let numbers: Vec<String> = chronicle.numbers(&story).iter().map(u32::to_string).collect();
        let known = if numbers.is_empty() { "none yet".to_owned() } else { format!("only {}", numbers.join(", ")) };
        bail!(
            Problem::fatal(format!("'{story}' has no attempt {number}, {known}"))
                .hint(git_ralph("log", &[run.change.as_str(), story.as_str()]))
        )
    };
    let dir = run.attempt(&story, number);
    let stdout = dir.join("stdout");
    let missing = || format!("the transcript of attempt {number} of '{story}' is missing: cannot read {}", stdout.display());
    if args.raw {
        let mut file = File::open(&stdout).with_context(missing)?;
        output::copy(&mut file);
        return Ok(ExitStatus::Done);
    }
    let mut said = Vec::new();
    Transcript::open(&stdout, format_of(context, &view.agent)).with_context(missing)?.rest(&mut |line| {
        said.push(match line {
            Said::Text(text) => said_line(None, text),
            Said::Tool { name, target } => said_line(Some(name), target),
        });
    })?;
    let running = context.store.owner(&subject.state).is_some();
    let page = AttemptPage {
        story: &story,
        view,
        running,
        said,
        errors: tail(&dir.join("stderr")),
        gates: gates(&dir, "gate"),
        merge_gates: gates(&dir, "merge-gate"),
    };
    if args.json {
        output::data(&output::json(&attempt_json(&page)));
    } else {
        context.page(&attempt_text(&page)).await;
    }
    Ok(ExitStatus::Done)
}

fn tail(path: &Path) -> String {
    String::from_utf8_lossy(&safe_read::tail(path, TAIL).unwrap_or_default()).into_owned()
}

fn gates(dir: &Path, name: &str) -> Vec<String> {
    (1..).map(|number| dir.join(format!("{name}-{number}"))).take_while(|path| path.exists()).map(|path| tail(&path)).collect()
}

/// The story that is meant if only one has an attempt with this number.
fn only_story(run: &RunDir, chronicle: &Chronicle, number: u32) -> Result<StoryId> {
    let stories: Vec<&StoryId> = chronicle.stories_with(number).collect();
    match stories.as_slice() {
        [only] => Ok((*only).clone()),
        [] => bail!(Problem::fatal(format!("no story of '{}' has an attempt {number}", run.change)).hint("git ralph log")),
        several => {
            let problem = Problem::fatal(format!("attempt {number} of which story?"));
            bail!(several.iter().take(5).fold(problem, |problem, story| {
                problem.hint(git_ralph(&format!("log --attempt {number}"), &[run.change.as_str(), story.as_str()]))
            }))
        }
    }
}

/// The saved work under the refs of the change, without that of other stories if one is named.
async fn kept(context: &Context, change: &ChangeName, chronicle: &Chronicle, story: Option<&StoryId>) -> Result<Vec<Kept>> {
    let refs = context.repo.refs().await?;
    let place = CommandPlace { change, refs: &refs, at_top: context.environment.cwd == context.repo.place.top };
    let names = Names::new(change);
    let mut kept = Vec::new();
    for entry in context.repo.described_refs(&names.prefix()).await? {
        if story.is_some_and(|story| !chronicle.is_about(&entry.name, &names, story)) {
            continue;
        }
        let changes = match &entry.parent {
            Some(parent) => context.repo.diff_trees(parent, &entry.oid).await?,
            None => context.repo.files_of(&entry.oid).await?,
        };
        kept.extend(Kept::new(&entry, &changes, &place));
    }
    Ok(kept)
}

fn subject(context: &Context, first: Option<&str>, story: Option<&str>) -> Result<Subject> {
    let Some(first) = first else {
        let (run, state) = usual(context)?;
        return Ok(Subject { run, state, story: None });
    };
    let changes = context.changes.known()?;
    if let Some(name) = changes.iter().find(|name| name.as_str() == first) {
        let Some((run, state)) = context.store.last(name)? else {
            bail!(Problem::refused(format!("'{name}' has never been started")).hint(format!("git ralph start {name}")));
        };
        let story = story.map(|text| context.story(&run, &state, text)).transpose()?;
        return Ok(Subject { run, state, story });
    }
    let here = if story.is_none() { usual(context).ok() } else { None };
    let mut candidates: Vec<String> = changes.iter().map(ToString::to_string).collect();
    if let Some((run, state)) = here {
        let stories = context.changes.stories(&run, &state);
        if let Some(story) = stories.iter().find(|story| story.id.as_str() == first) {
            return Ok(Subject { run, state, story: Some(story.id.clone()) });
        }
        candidates.extend(stories.iter().map(|story| story.id.to_string()));
    }
    let near = crate::nearest::to(first, candidates.iter().map(String::as_str));
    let problem = Problem::fatal(format!("there is no change and no story '{}'{}", first.escape_debug(), crate::nearest::said(near)));
    bail!(problem.hint("git ralph list").mistyped(first, near))
}

/// The open run of this work tree, or else the run with the latest event.
fn usual(context: &Context) -> Result<(RunDir, RunState)> {
    if let Ok(open) = context.open_run(None) {
        return Ok(open);
    }
    let mut runs = Vec::new();
    for name in context.store.changes_with_runs()? {
        if let Some((run, state)) = context.store.last(&name)? {
            runs.push((chronicle(&run)?.last(), run, state));
        }
    }
    match runs.into_iter().max_by_key(|(last, ..)| *last) {
        Some((_, run, state)) => Ok((run, state)),
        None => bail!(Problem::refused("there is no run yet").hint("git ralph list")),
    }
}
