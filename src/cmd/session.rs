//! The code that `start` and `resume` share: planning the loop, and choosing its output.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Result, bail};

use super::attend;
use super::context::{Context, no_story};
use super::ending::{EndingOptions, after_loop};
use super::log::summary;
use super::report::{page_maker, renew_page};
use crate::agent::Agent;
use crate::cli::RunOptions;
use crate::config::{Bell, Environment, Flags, ReportWhen};
use crate::error::{ExitStatus, Problem};
use crate::remote::WorkerRunner;
use crate::report::{
    JsonLines, Line, Lines, Screen, Tee, Terminal, Tone, Verbosity, end_words, output, page_text, ring, saved_text, summary_text,
};
use crate::run::{End, LoadedChange, OpenRun, Opening, Reporter, RunDir, RunState, Work};
use crate::runner::Runner;
use crate::story::Change;

/// Resolves options, change file and configuration, and finds the agent.
pub fn plan(context: &Context, loaded: &LoadedChange, change: &Change, flags: &Flags, limit: Option<u32>) -> Result<Work> {
    let name = &change.name;
    let settings = loaded.settings(flags, &context.config)?;
    let Some(choice) = &settings.agent else {
        bail!(
            Problem::fatal("no agent is configured")
                .hint(format!("git ralph start {name} -- ./my-agent   with any command that reads the prompt on stdin"))
                .hint("git ralph doctor   to see which agents git-ralph knows")
        );
    };
    let model = settings.model.as_ref().map(|model| model.value.as_str());
    let agent = Agent::resolve(&choice.value, model, &context.config)?;
    if WorkerRunner::of(Runner::of_gates(&settings).words())?.is_some() {
        bail!(
            Problem::fatal("gates run where the run is: 'git ralph worker' cannot be their runner")
                .hint("git ralph config   to see where it is set")
        );
    }
    let is_remote = WorkerRunner::of(Runner::of_agents(&settings).words())?.is_some();
    if !is_remote {
        // A worker looks for the agent on its own machine.
        agent.find(&context.environment, &context.repo.place.top)?;
    }
    for runner in [Runner::of_agents(&settings), Runner::of_gates(&settings)] {
        runner.find(&context.environment, &context.repo.place.top)?;
    }
    let known = |text: &String| {
        let found = change.stories.iter().find(|story| story.id.as_str() == text).map(|story| story.id.clone());
        found.ok_or_else(|| no_story(name, text, &change.stories))
    };
    let only = flags.only.iter().map(known).collect::<Result<_, _>>()?;
    let work = Work { settings, agent, only, limit, template: context.template()? };
    work.check_prompts(change)?;
    Ok(work)
}

/// The error for a worker in a run whose agents work in the user's checkout; `hint` is the command that makes an isolated run.
pub fn needs_isolation(hint: String) -> Problem {
    Problem::refused("agents on other machines need an isolated run: their work is brought into private clones").hint(hint)
}

/// Warns before the first attempt if the agent does not report what a budget needs.
fn warn_of_budget(work: &Work) {
    let (settings, agent) = (&work.settings, &work.agent);
    let warn = |option: &str, what: &str, other: &str| {
        let text = format!("{} does not report {what}, so {option} cannot be enforced{other}", agent.name);
        output::message(&Line::new(Tone::Warning, text));
    };
    if settings.max_cost.is_some() && !agent.format.tells_cost() {
        let other = if agent.format.tells_tokens() { "; use --max-tokens" } else { "" };
        warn("--max-cost", "its cost", other);
    }
    if settings.max_tokens.is_some() && !agent.format.tells_tokens() {
        warn("--max-tokens", "its tokens", "");
    }
}

/// The reporter of a loop, according to its options.
pub fn reporter(context: &Context, options: &RunOptions) -> Box<dyn Reporter> {
    let verbosity = match (options.quiet, options.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    };
    // JSON events on the same terminal would garble a live view.
    let is_shared = options.json && context.environment.display;
    let human: Box<dyn Reporter> = if context.environment.can_draw() && verbosity > Verbosity::Quiet && !is_shared {
        Box::new(Terminal::new(verbosity))
    } else {
        Box::new(Lines::new(verbosity))
    };
    if options.json { Box::new(Tee(vec![Box::new(JsonLines), human])) } else { human }
}

/// The reporter of a short command.
pub fn brief(quiet: bool) -> Box<dyn Reporter> {
    Box::new(Lines::new(if quiet { Verbosity::Quiet } else { Verbosity::Normal }))
}

/// Takes up a run. Without a git identity, warns under which name commits are made.
pub async fn take_up(context: &Context, run: RunDir, state: &RunState, reporter: Box<dyn Reporter>) -> Result<OpenRun> {
    let lock = state.opening.as_ref().map_or_else(|| context.repo.place.worktree_id(), Opening::lock_name);
    let open = OpenRun::take_up(context.site(), run, &lock, reporter).await?;
    if context.anonymous {
        output::message(&Line::new(
            Tone::Warning,
            "no name and email are configured, so commits are made as git-ralph <git-ralph@localhost>",
        ));
    }
    Ok(open)
}

/// Works until the loop ends, then finishes the run as the settings or the user ask for.
pub async fn work(context: &Context, mut open: OpenRun, work: &Work, loaded: LoadedChange, options: &RunOptions) -> Result<ExitStatus> {
    let listening = open.listen()?;
    let page = Rc::new(RefCell::new(None));
    if work.settings.report.value == ReportWhen::Always {
        open.make_page(page_maker(context, &open.dir, &page));
    }
    warn_of_budget(work);
    let (live, stop) = (open.reporter().live(), open.stop_handle());
    let end = tokio::select! {
        end = open.work(work, loaded) => end?,
        never = attend::attend(live, stop) => match never? {},
    };
    open.reporter().rest();
    call_the_user(&context.environment, &end, &open.state, work.settings.bell.value).await;
    drop(listening);
    let summary = summary(context, &open.dir, &open.state).await?;
    if !options.quiet {
        let page = page.take().map(|path: PathBuf| page_text(&context.changes.shown(&path))).unwrap_or_default();
        let text = summary_text(&summary) + &saved_text(&summary) + &page;
        text.lines().for_each(|line| output::message(&Line::new(Tone::Plain, line)));
    }
    let ending = EndingOptions { finish: work.settings.finish.value, quiet: options.quiet };
    let run = open.dir.clone();
    let status = after_loop(context, open, &end, &summary, ending).await;
    if run.state().is_ok_and(|state| state.is_closed()) {
        renew_page(context, &run).await;
    }
    status
}

/// Rings the terminal's bell for a user who is looking elsewhere, but not if the user has stopped the loop.
async fn call_the_user(environment: &Environment, end: &End, state: &RunState, bell: Bell) {
    if !environment.screen || matches!(end, End::Stopped | End::Interrupted { .. }) {
        return;
    }
    let screen = Screen::named(environment.get("TERM").and_then(|term| term.to_str()).unwrap_or_default());
    // Without a terminal on standard input no question follows that the user could notice.
    let bell = if bell == Bell::Auto && !environment.interactive { Bell::Ring } else { bell };
    let text = end_words(end, state);
    let _ = tokio::task::spawn_blocking(move || ring(bell, screen, &text)).await;
}
