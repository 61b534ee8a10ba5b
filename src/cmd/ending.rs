//! Decides what follows a loop: git-ralph finishes the run, asks the user, or prints the commands to type next.

use anyhow::{Result, bail};

use super::context::Context;
use crate::config::{Advice, Finish};
use crate::error::{ExitStatus, Problem};
use crate::names::Names;
use crate::report::{Line, Summary, Tone, ask, go_on_commands, head_words, output, question_words};
use crate::run::{End, OpenRun, Opening, Question, RunDir, RunState, StopKind, Withdrawn};
use crate::shell_word::{git_ralph, quoted};
use crate::story::ChangeName;

/// What the command line and the settings ask for at the end of a loop.
#[derive(Clone, Copy)]
pub struct EndingOptions {
    /// How to finish the run.
    pub finish: Finish,
    /// Whether to print errors and warnings only.
    pub quiet: bool,
}

/// Finishes a run after its loop, as the settings or the user ask for. `--finish` applies only if every story is done.
pub async fn after_loop(context: &Context, mut open: OpenRun, end: &End, summary: &Summary, options: EndingOptions) -> Result<ExitStatus> {
    let EndingOptions { finish, quiet } = options;
    let change = open.change().clone();
    let terminated = matches!(end, End::Interrupted { how: StopKind::Terminate });
    match finish {
        Finish::Cleanup | Finish::Keep if *end == End::AllDone => {
            open.finish(finish).await?;
            if !quiet {
                say_what_follows(finish, &open.state, &change);
            }
            Ok(ExitStatus::Done)
        }
        Finish::Cleanup | Finish::Keep => {
            let interrupted = matches!(end, End::Interrupted { .. });
            let why = if interrupted { "the loop was interrupted" } else { "not every story is done" };
            output::message(&Line::new(Tone::Warning, format!("the run stays open, because {why}")));
            if !quiet {
                say_commands(&open.state, &change);
            }
            Ok(match exit_status(end) {
                ExitStatus::Done => ExitStatus::StoppedShort,
                other => other,
            })
        }
        Finish::Ask if context.environment.interactive && !terminated => ask_and_finish(context, open, end, summary, quiet).await,
        Finish::Ask => {
            if !quiet {
                say_what_to_type(&open.state, &change);
            }
            Ok(exit_status(end))
        }
    }
}

/// Asks how to finish the run, and finishes it. Other commands can work on the run while the question is open.
async fn ask_and_finish(context: &Context, open: OpenRun, end: &End, summary: &Summary, quiet: bool) -> Result<ExitStatus> {
    let (dir, state, change) = (open.dir.clone(), open.state.clone(), open.change().clone());
    let reporter = open.release();
    let (outdated, status) = match ask_completion(&dir, &state, summary).await? {
        Asked::Chosen(mode) => {
            let lock = state.opening.as_ref().map_or_else(|| context.repo.place.worktree_id(), Opening::lock_name);
            let mut open = OpenRun::take_up(context.site(), dir, &lock, reporter).await?;
            open.finish(mode).await?;
            if !quiet {
                say_what_follows(mode, &open.state, &change);
            }
            return Ok(exit_status(end));
        }
        Asked::Later { outdated } => (outdated, exit_status(end)),
        Asked::Interrupted { outdated } => (outdated, ExitStatus::Interrupted),
    };
    match (quiet, outdated) {
        (true, _) => {}
        (false, false) => say_what_to_type(&state, &change),
        (false, true) => {
            output::message(&Line::new(Tone::Plain, changed_words(&change)));
            output::advise(Advice::NextStep, &[git_ralph("status", &[change.as_str()])]);
        }
    }
    Ok(status)
}

/// The exit status for the end of a loop.
fn exit_status(end: &End) -> ExitStatus {
    match end {
        End::Interrupted { .. } => ExitStatus::Interrupted,
        End::AllDone | End::SelectionDone | End::LimitReached => ExitStatus::Done,
        End::RetriesSpent { .. }
        | End::BudgetSpent { .. }
        | End::Misconfigured { .. }
        | End::UsageLimit { .. }
        | End::StillLimited { .. }
        | End::RunnerFailed { .. }
        | End::NeedsUser { .. }
        | End::Blocked { .. }
        | End::Stopped => ExitStatus::StoppedShort,
    }
}

/// The user's answer to the question how to finish.
pub enum Asked {
    /// Finish the run in this way. No other command has changed the run since the question was asked.
    Chosen(Finish),
    /// Leave the run open.
    Later {
        /// Whether another command has changed the run since the question was asked.
        outdated: bool,
    },
    /// The user pressed Ctrl-C, or a signal arrived.
    Interrupted {
        /// Whether another command has changed the run since the question was asked.
        outdated: bool,
    },
}

/// Asks how to finish a run. No lock may be held meanwhile, because the question can stay open for hours.
///
/// # Errors
/// A [`Problem`] if another command has changed the run before the answer came.
pub async fn ask_completion(dir: &RunDir, state: &RunState, summary: &Summary) -> Result<Asked> {
    let branch = Names::new(&dir.change).short_branch();
    let original = original_words(state);
    let choices = if state.is_isolated() { ask::Choices::isolated(&branch) } else { ask::Choices::in_place(&branch, &original) };
    let likely = if state.end == Some(End::AllDone) { ask::Likely::Cleanup } else { ask::Likely::Later };
    let mut question = Question::ask(dir)?;
    let answer = tokio::select! {
        answer = ask::completion(question_words(state.end.as_ref(), summary), choices, likely) => answer?,
        why = question.withdrawn() => match why {
            Withdrawn::Stopped => ask::withdraw(ask::Answer::Later),
            Withdrawn::Terminated => ask::withdraw(ask::Answer::Interrupted),
        },
    };
    let outdated = question.is_outdated();
    match answer {
        ask::Answer::Chosen(_) if outdated => {
            let problem = Problem::refused(format!("{}; nothing was done", changed_words(&dir.change)));
            bail!(problem.hint(git_ralph("status", &[dir.change.as_str()])))
        }
        ask::Answer::Chosen(mode) => Ok(Asked::Chosen(mode)),
        ask::Answer::Later => Ok(Asked::Later { outdated }),
        ask::Answer::Interrupted => Ok(Asked::Interrupted { outdated }),
    }
}

/// A description of the branch or commit from which the run was started.
fn original_words(state: &RunState) -> String {
    state.opening.as_ref().map_or_else(String::new, |opening| head_words(&opening.original))
}

fn changed_words(change: &ChangeName) -> String {
    format!("another command has changed the run of '{change}' since the question was asked")
}

/// The commands that finish a run, each with its effect.
pub fn finish_commands(change: &ChangeName, state: &RunState) -> [String; 2] {
    let branch = Names::new(change).short_branch();
    let (cleanup, keep) = if state.is_isolated() {
        ("to merge the result into this checkout, uncommitted".to_owned(), format!("to leave the result on {branch}"))
    } else {
        (format!("to have all changes uncommitted on {}", original_words(state)), format!("to stay on {branch}"))
    };
    [format!("git ralph finish --cleanup {change}   {cleanup}"), format!("git ralph finish --keep {change}   {keep}")]
}

fn say_what_to_type(state: &RunState, change: &ChangeName) {
    output::message(&Line::new(Tone::Plain, "the run is open"));
    say_commands(state, change);
}

fn say_commands(state: &RunState, change: &ChangeName) {
    let more = go_on_commands(state, change.as_str()).into_iter().map(|(command, purpose)| format!("{command}   {purpose}"));
    let is_isolated = state.is_isolated();
    let abort =
        if is_isolated { "to discard the run; this checkout stays as it is" } else { "to discard the run and restore the previous state" };
    let abort = format!("git ralph abort {change}   {abort}");
    let lines = more.chain(finish_commands(change, state)).chain([abort]);
    output::advise(Advice::NextStep, &lines.collect::<Vec<_>>());
}

/// Prints what the user can do with the result of a finished run.
pub fn say_what_follows(mode: Finish, state: &RunState, change: &ChangeName) {
    let original = state.opening.as_ref().and_then(|opening| opening.original.branch());
    let original = original.map(|name| name.strip_prefix("refs/heads/").unwrap_or(name));
    let branch = Names::new(change).short_branch();
    let hint = match (mode, original) {
        (Finish::Cleanup, _) => "git status   to see the changes; commit them as you like".to_owned(),
        // In an isolated run, the message about the finish already says how to merge it.
        (Finish::Keep | Finish::Ask, _) if state.is_isolated() => return,
        (Finish::Keep | Finish::Ask, Some(original)) => {
            format!("git switch {} && git merge {branch}   to merge the result", quoted(original))
        }
        (Finish::Keep | Finish::Ask, None) => return,
    };
    output::advise(Advice::NextStep, &[hint]);
}
