//! What `start` and `resume` share: the plan of a loop, who is told of it, and the question at its end.

use anyhow::{Result, bail};

use super::context::Context;
use crate::agent::Agent;
use crate::cli::RunOptions;
use crate::config::{Advice, Bell, Environment, Finish, Flags};
use crate::error::{ExitStatus, Problem};
use crate::names::Names;
use crate::process::Urgency;
use crate::report::{JsonLines, Line, Lines, Screen, Tee, Terminal, Tone, Verbosity, ask, end_words, head_words, output, ring};
use crate::run::{End, LoadedChange, OpenRun, Opening, Reporter, RunDir, RunState, StopKind, Work};
use crate::story::{Change, ChangeName};

/// Works out what flags, change file and configuration say, and finds the agent.
pub fn plan(context: &Context, loaded: &LoadedChange, change: &Change, flags: &Flags, limit: Option<u32>) -> Result<Work> {
    let name = &change.name;
    let settings = loaded.settings(flags, &context.config)?;
    let Some(choice) = &settings.agent else {
        bail!(
            Problem::fatal("no agent is configured")
                .hint(format!("git ralph start {name} -- <command that reads the prompt on stdin>"))
                .hint("git config ralph.<name>.cmd <command>, and git config ralph.agent <name>")
        );
    };
    let model = settings.model.as_ref().map(|model| model.value.as_str());
    let agent = Agent::resolve(&choice.value, model, &context.config)?;
    agent.find(&context.environment, &context.repo.place.top)?;
    let known = |text: &String| {
        let found = change.stories.iter().find(|story| story.id.as_str() == text).map(|story| story.id.clone());
        found.ok_or_else(|| {
            let suggestion = crate::nearest::suggestion(text, change.stories.iter().map(|story| story.id.as_str()));
            Problem::fatal(format!("'{name}' has no story '{text}'{suggestion}"))
        })
    };
    let only = flags.only.iter().map(known).collect::<Result<_, _>>()?;
    let work = Work { settings, agent, only, limit, template: context.template()? };
    work.check_prompts(change)?;
    Ok(work)
}

/// What an agent does not tell cannot be held to a budget: that is said before the first one starts.
fn warn_of_budget(work: &Work) {
    let (settings, agent) = (&work.settings, &work.agent);
    let warn = |option: &str, what: &str, other: &str| {
        let text = format!("{} does not tell {what}, so {option} cannot be kept{other}", agent.name);
        output::message(&Line::new(Tone::Warning, text));
    };
    if settings.max_cost.is_some() && !agent.format.tells_cost() {
        let other = if agent.format.tells_tokens() { "; use --max-tokens" } else { "" };
        warn("--max-cost", "what its work costs", other);
    }
    if settings.max_tokens.is_some() && !agent.format.tells_tokens() {
        warn("--max-tokens", "how many tokens it uses", "");
    }
}

/// Who is told about a loop, by its options.
pub fn reporter(context: &Context, options: &RunOptions) -> Box<dyn Reporter> {
    let verbosity = match (options.quiet, options.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    };
    let human: Box<dyn Reporter> = if context.environment.screen && verbosity == Verbosity::Normal {
        Box::new(Terminal::default())
    } else {
        Box::new(Lines::new(verbosity))
    };
    if options.json { Box::new(Tee(vec![Box::new(JsonLines), human])) } else { human }
}

/// Who is told about a command that is over quickly.
pub fn brief(quiet: bool) -> Box<dyn Reporter> {
    Box::new(Lines::new(if quiet { Verbosity::Quiet } else { Verbosity::Normal }))
}

/// Takes up a run. Without a git identity, warns under which name commits are made.
pub async fn take_up(context: &Context, run: RunDir, state: &RunState, reporter: Box<dyn Reporter>) -> Result<OpenRun> {
    let lock = state.opening.as_ref().map_or_else(|| context.repo.place.worktree_id(), Opening::lock_name);
    let open = OpenRun::take_up(context.site(), run, &lock, reporter).await?;
    if context.anonymous {
        output::message(&Line::new(Tone::Warning, "no identity is configured, commits are made as git-ralph <git-ralph@localhost>"));
    }
    Ok(open)
}

/// Works until the loop is over, then completes the run as the settings or the user say.
pub async fn work(context: &Context, open: &mut OpenRun, work: &Work, loaded: LoadedChange) -> Result<ExitStatus> {
    let _listening = open.listen()?;
    warn_of_budget(work);
    let end = open.work(work, loaded).await?;
    open.reporter().rest();
    call_the_user(&context.environment, &end, &open.state, work.settings.bell.value).await;
    let asked = complete(context, open, &end, work.settings.finish.value).await?;
    Ok(match (&end, asked) {
        (End::Interrupted { .. }, _) | (_, Completion::Interrupted) => ExitStatus::Interrupted,
        (End::AllDone | End::SelectionDone | End::LimitReached, _) => ExitStatus::Done,
        (
            End::RetriesSpent { .. }
            | End::BudgetSpent { .. }
            | End::Misconfigured { .. }
            | End::UsageLimit { .. }
            | End::StillLimited { .. }
            | End::Blocked { .. }
            | End::Stopped,
            _,
        ) => ExitStatus::StoppedShort,
    })
}

/// The terminal's bell, for a user who is looking elsewhere; who stops the loop is there.
async fn call_the_user(environment: &Environment, end: &End, state: &RunState, bell: Bell) {
    if !environment.screen || matches!(end, End::Stopped | End::Interrupted { .. }) {
        return;
    }
    let screen = Screen::named(environment.get("TERM").and_then(|term| term.to_str()).unwrap_or_default());
    // Without a terminal on standard input no question follows that could be seen.
    let bell = if bell == Bell::Auto && !environment.interactive { Bell::Ring } else { bell };
    let text = end_words(end, state);
    let _ = tokio::task::spawn_blocking(move || ring(bell, screen, &text)).await;
}

/// What became of the choice at the end of a loop.
enum Completion {
    Finished,
    Open,
    Interrupted,
}

async fn complete(context: &Context, open: &mut OpenRun, end: &End, finish: Finish) -> Result<Completion> {
    let terminated = matches!(end, End::Interrupted { how: StopKind::Terminate });
    let mode = match finish {
        Finish::Cleanup | Finish::Keep => Some(finish),
        Finish::Ask if context.environment.interactive && !terminated => {
            let mut stop = open.stop();
            let answer = tokio::select! {
                answer = ask_completion(open) => answer?,
                _ = stop.reached(Urgency::Terminate) => ask::withdraw(),
            };
            match answer {
                ask::Answer::Chosen(mode) => Some(mode),
                ask::Answer::Later => None,
                ask::Answer::Interrupted => {
                    say_what_to_type(open);
                    return Ok(Completion::Interrupted);
                }
            }
        }
        Finish::Ask => None,
    };
    match mode {
        Some(mode) => open.finish(mode).await.map(|()| Completion::Finished),
        None => {
            say_what_to_type(open);
            Ok(Completion::Open)
        }
    }
}

/// Asks for the completion choice.
pub async fn ask_completion(open: &OpenRun) -> Result<ask::Answer<Finish>> {
    let (branch, original) = (open.branch.names.short_branch(), head_words(&open.opening()?.original));
    let choices = if open.state.is_isolated() { ask::Choices::isolated(&branch) } else { ask::Choices::in_place(&branch, &original) };
    ask::completion(choices).await
}

/// The commands that finish a run, with what each of them does.
pub fn finish_commands(change: &ChangeName, is_isolated: bool) -> [String; 2] {
    let branch = Names::new(change).short_branch();
    let (cleanup, keep) = if is_isolated {
        ("to merge the result into this checkout, uncommitted".to_owned(), format!("to leave the result on {branch}"))
    } else {
        ("to have everything uncommitted on the original branch".to_owned(), format!("to stay on {branch}"))
    };
    [format!("git ralph finish --cleanup {change}   {cleanup}"), format!("git ralph finish --keep {change}      {keep}")]
}

fn say_what_to_type(open: &OpenRun) {
    let change = open.change();
    let unfinished = open.state.end != Some(End::AllDone);
    let more = unfinished.then(|| format!("git ralph resume {change}             to go on"));
    let is_isolated = open.state.is_isolated();
    let abort = if is_isolated { "to discard the run; this checkout stays as it is" } else { "to have everything as it was before" };
    let abort = format!("git ralph abort {change}              {abort}");
    output::message(&Line::new(Tone::Plain, "the run is open"));
    let lines = more.into_iter().chain(finish_commands(change, is_isolated)).chain([abort]);
    output::advise(Advice::NextStep, &lines.collect::<Vec<_>>());
}
