//! All words about a run: every event as lines for a person.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::clean;
use crate::checkpoint::Notice;
use crate::config::Finish;
use crate::git::{Head, Oid};
use crate::process::Exit;
use crate::run::{Budget, CallbackFailure, End, Event, Outcome, RunState, StopKind, Usage, Why, abnormal};
use crate::story::StoryId;

/// How a line is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// `warning:`
    Warning,
    /// `error:`
    Error,
    /// `hint:`
    Hint,
}

/// One line for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How it is meant.
    pub tone: Tone,
    /// What it says.
    pub text: String,
}

impl Line {
    /// A line in a tone.
    pub fn new(tone: Tone, text: impl Into<String>) -> Self {
        Line { tone, text: text.into() }
    }
}

/// What a person is told about an event.
#[must_use]
pub fn event_lines(event: &Event, state: &RunState) -> Vec<Line> {
    let plain = |text: String| vec![Line::new(Tone::Plain, text)];
    let warning = |text: String| vec![Line::new(Tone::Warning, text)];
    match event {
        Event::RunStarting { .. }
        | Event::AttemptAccepted { .. }
        | Event::PauseEnded { .. }
        | Event::UsageFound { .. }
        | Event::SourceRead { .. }
        | Event::UndoStarted { .. }
        | Event::FinishStarted { .. }
        | Event::AbortStarted {} => Vec::new(),
        Event::LeftoverKept { rescue, .. } => warning(format!("a branch of an earlier run was there, it is kept as {rescue}")),
        Event::RunStarted { initial, branch } => plain(format!("on {branch}, initial state {}", initial.short())),
        Event::RunResumed {} => plain(format!("resuming {}", change(state))),
        Event::CommitsAdopted { checkpoint } => plain(format!("going on from your commit {}", checkpoint.short())),
        Event::EditsAdopted { files, .. } => plain(format!("your edits ({}) go into the next checkpoint", count(*files, "file"))),
        Event::IdentityMissing {} => warning("no identity is configured, commits are made as git-ralph <git-ralph@localhost>".to_owned()),
        Event::SourceUnreadable { .. }
        | Event::StoriesChanged { .. }
        | Event::StrayMarks { .. }
        | Event::SourcePutBack { .. }
        | Event::MarksNotSet { .. } => source_lines(event),
        Event::AttemptStarted { story, attempt, title, .. } => {
            let title = if title == story.as_str() { String::new() } else { format!(": {}", clean(title)) };
            plain(format!("{story}{title}, attempt {attempt}"))
        }
        Event::PauseStarted { until, why, .. } => plain(pause_words(*until, *why)),
        Event::AgentEnded { survivors, .. } if survivors.is_empty() => Vec::new(),
        Event::AgentEnded { story, survivors, .. } => {
            warning(format!("{story}: ended what the agent left running: {}", clean(&survivors.join(", "))))
        }
        Event::GateEnded { story, command, exit, milliseconds, .. } => {
            let colour = if *exit == Exit::Success { "green" } else { "red" };
            plain(format!("{story}: gate {colour}: {} ({})", clean(command), span(*milliseconds)))
        }
        Event::AttemptRejected { story, attempt, outcome } => plain(format!("{story}: attempt {attempt} {}", outcome_words(outcome))),
        Event::CheckpointLanded { story, commit, files, .. } => {
            let (spent, used) = state.stories.get(story).map_or((0, String::new()), |p| (p.milliseconds, usage_words(&p.usage)));
            plain(format!("{story}: done in {}{used}, checkpoint {} ({})", span(spent), commit.short(), count(*files, "file")))
        }
        Event::AttemptRolledBack { story, rescue, files, .. } => {
            plain(format!("{story}: rolled back, {} kept as {rescue}", count(*files, "file")))
        }
        Event::Undone { to, stories, kept } => plain(undone_words(to, stories, kept, state)),
        Event::Noticed { notice } => warning(notice_words(notice)),
        Event::StoryFailed { story, attempts, outcome } => {
            let last = outcome.as_ref().map(|outcome| format!("; the last one {}", outcome_words(outcome))).unwrap_or_default();
            vec![Line::new(Tone::Error, format!("{story} failed after {}{last}", count(*attempts as usize, "attempt")))]
        }
        Event::StopRequested { how } => plain(stop_words(*how).to_owned()),
        Event::LoopEnded { end } => plain(end_words(end, state)),
        Event::Finished { mode, kept } => plain(finished_words(*mode, kept.as_deref(), state)),
        Event::Aborted { kept: Some(kept) } => plain(format!("back on {}, as it was; what the run did is kept as {kept}", original(state))),
        Event::Aborted { kept: None } => plain("the run had not touched anything yet, it is closed".to_owned()),
    }
}

/// What a person is told about the source of the stories.
fn source_lines(event: &Event) -> Vec<Line> {
    let plain = |text: String| vec![Line::new(Tone::Plain, text)];
    let warning = |text: String| vec![Line::new(Tone::Warning, text)];
    match event {
        Event::SourceUnreadable { error } => {
            warning(format!("the stories cannot be read again, going on with the last ones: {}", clean(error)))
        }
        Event::StoriesChanged { added, removed } => stories_changed_words(added, removed).into_iter().flat_map(plain).collect(),
        Event::StrayMarks { story, others } => {
            warning(format!("{story}: the agent marked other stories as done ({}); they are not, and are open again", ids(others)))
        }
        Event::SourcePutBack { story, aside } => warning(format!(
            "{story}: the agent deleted or rewrote the source of the stories, it is back as it was; the agent's is in {}",
            clean(aside)
        )),
        Event::MarksNotSet { story, error } => warning(format!("{story}: its source was not marked: {}", clean(error))),
        _ => Vec::new(),
    }
}

fn stories_changed_words(added: &[StoryId], removed: &[StoryId]) -> Vec<String> {
    let one = |what: &str, stories: &[StoryId]| (!stories.is_empty()).then(|| format!("{what}: {}", ids(stories)));
    [one("the source has new stories", added), one("no longer in the source, skipped", removed)].into_iter().flatten().collect()
}

fn ids(stories: &[StoryId]) -> String {
    stories.iter().map(StoryId::as_str).collect::<Vec<_>>().join(", ")
}

fn change(state: &RunState) -> String {
    state.opening.as_ref().map_or_else(String::new, |opening| opening.change.to_string())
}

fn original(state: &RunState) -> String {
    state.opening.as_ref().map_or_else(String::new, |opening| head_words(&opening.original))
}

/// What a person calls the place a run started from.
#[must_use]
pub fn head_words(head: &Head) -> String {
    match head {
        Head::Detached { oid } => format!("detached HEAD at {}", oid.short()),
        other => other.words(),
    }
}

/// The rest of a sentence that begins with "attempt 2".
#[must_use]
pub fn outcome_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed { reason } if reason.is_empty() => "failed without a reason".to_owned(),
        Outcome::Failed { reason } => format!("failed: {}", shorten(&clean(reason))),
        Outcome::GateRed { command, exit, .. } => match exit {
            Exit::TimedOut { seconds } => format!("failed: the gate '{}' did not end within {seconds} s", clean(command)),
            _ => format!("failed: the gate '{}' is red", clean(command)),
        },
        Outcome::Vanished => "ended without a promise".to_owned(),
        Outcome::Abnormal { exit, message: None } => abnormal(exit),
        Outcome::Abnormal { exit, message: Some(message) } => format!("{}: {}", abnormal(exit), shorten(&clean(message))),
        Outcome::Misconfigured { message } => format!("could not work: {}", shorten(&clean(message))),
        Outcome::Limited { message, .. } => format!("reached a usage limit: {}", shorten(&clean(message))),
        Outcome::Unavailable { message } => format!("could not reach its model: {}", shorten(&clean(message))),
        Outcome::Unlandable { reason } => format!("could not be made a checkpoint: {}", shorten(&clean(reason))),
        Outcome::Interrupted => "was interrupted".to_owned(),
    }
}

fn stop_words(how: StopKind) -> &'static str {
    match how {
        StopKind::AfterAttempt => "stopping after this attempt",
        StopKind::Now | StopKind::Terminate => "stopping",
        StopKind::Interrupt => "stopping; press Ctrl-C again to quit at once",
    }
}

/// Why the loop ended, as a sentence.
#[must_use]
pub fn end_words(end: &End, state: &RunState) -> String {
    match end {
        End::AllDone => format!("all stories of {} are done", change(state)),
        End::SelectionDone => "the selected stories are done".to_owned(),
        End::LimitReached => "the limit of stories is reached".to_owned(),
        End::RetriesSpent { story } => format!("stopped: the retries of {story} are spent"),
        End::BudgetSpent { spent: Budget::Cost { used, most } } => format!("stopped: {used} of {most} are spent"),
        End::BudgetSpent { spent: Budget::Tokens { used, most } } => {
            format!("stopped: {} of {} tokens are used", tokens_words(*used), tokens_words(*most))
        }
        End::Misconfigured { message } => format!("stopped: the agent cannot work as it is set up: {}", shorten(&clean(message))),
        End::UsageLimit { resets: Some(resets) } => {
            format!("stopped: the agent's usage limit is reached, it resets at {}", time_words(*resets))
        }
        End::UsageLimit { resets: None } => "stopped: the agent's usage limit is reached".to_owned(),
        End::Blocked { story } => format!("stopped: {story} waits for stories that are not selected"),
        End::Stopped => "stopped".to_owned(),
        End::Interrupted { .. } => "interrupted".to_owned(),
    }
}

/// What became of a command that was told of an event.
pub(super) fn callback_words(failure: &CallbackFailure) -> String {
    format!("the command '{}' {}", clean(&failure.command), shorten(&clean(&failure.why)))
}

fn pause_words(until: Timestamp, why: Why) -> String {
    match why {
        Why::Limit => format!("waiting for the usage limit until {}; git ralph stop ends it", time_words(until)),
        Why::Unavailable => format!("trying again at {}", time_words(until)),
    }
}

/// A time as the user's clock shows it, with the day if it is another one.
pub(super) fn time_words(time: Timestamp) -> String {
    let time = time.to_zoned(TimeZone::system());
    let today = time.date() == Zoned::now().date();
    time.strftime(if today { "%H:%M:%S" } else { "%a %Y-%m-%d %H:%M" }).to_string()
}

/// `, $0.02, 11.2k tokens`, as far as it is known.
pub(super) fn usage_words(usage: &Usage) -> String {
    let cost = usage.cost.map(|cost| format!(", {cost}")).unwrap_or_default();
    let tokens = if usage.tokens() == 0 { String::new() } else { format!(", {} tokens", tokens_words(usage.tokens())) };
    cost + &tokens
}

fn tokens_words(tokens: u64) -> String {
    match tokens {
        n if n < 1_000 => n.to_string(),
        n if n < 1_000_000 => format!("{}.{}k", n / 1_000, n % 1_000 / 100),
        n => format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000),
    }
}

fn finished_words(mode: Finish, kept: Option<&str>, state: &RunState) -> String {
    match (mode, kept) {
        (Finish::Cleanup, Some(kept)) => {
            format!("back on {} with everything uncommitted; the checkpoints are kept as {kept}", original(state))
        }
        (Finish::Cleanup, None) => format!("back on {} with everything uncommitted", original(state)),
        (Finish::Keep | Finish::Ask, _) => format!("finished, staying on ralph/{}", change(state)),
    }
}

fn undone_words(to: &Oid, stories: &[StoryId], kept: &str, state: &RunState) -> String {
    let stories: Vec<&str> = stories.iter().map(StoryId::as_str).collect();
    let place = if state.initial.as_ref() == Some(to) { "the initial state" } else { "checkpoint" };
    format!(
        "undone: {}; ralph/{} is back at {place} {}, what was taken back is kept as {kept}",
        stories.join(", "),
        change(state),
        to.short()
    )
}

fn notice_words(notice: &Notice) -> String {
    match notice {
        Notice::OperationMoved { files, to } => format!("the agent left {} behind, moved to {}", files.join(", "), clean(to)),
        Notice::HeadReattached { from } => format!("the agent left HEAD on {}, it is back on the run's branch", clean(from)),
        Notice::BroughtOver { from } => format!("the agent worked on {}, its changes were brought over", clean(from)),
        Notice::NestedLeftOut { path } => {
            format!("{} is a repository of its own: its files stay where they are, outside the checkpoint", clean(path))
        }
        Notice::NestedMoved { path, to } => format!("{} is a repository of its own, moved to {}", clean(path), clean(to)),
        Notice::ObstacleMoved { path, to } => format!("{} was in the way, moved to {}", clean(path), clean(to)),
        Notice::HiddenMoved { path, to } => format!("{} was hidden by ignore rules of the attempt, moved to {}", clean(path), clean(to)),
        Notice::Unkept { error } => format!("git could not keep every file, these stay in the work tree: {}", clean(error)),
        Notice::RefRestored { name, kept: None } => format!("the agent deleted {name}, it is back"),
        Notice::RefRestored { name, kept: Some(kept) } => {
            format!("the agent rewrote {name}, it is back; the agent's version is kept as {kept}")
        }
        Notice::RefOfOthers { name, kept: None } => format!("another run has changed {name}, it is left alone"),
        Notice::RefOfOthers { name, kept: Some(kept) } => {
            format!("{name} was changed in another work tree, it is left alone; what it was is kept as {kept}")
        }
        Notice::RefMovedOn { name, to } => format!("{name} has new commits up to {to}, it is left alone"),
        Notice::RefInTheWay { name, kept } => format!("{name} was in the way of the run's branch, it is kept as {kept}"),
        Notice::StashRestored { gone, taken: 0 } => {
            format!("the agent dropped {} of the stash, back again", count(*gone, "entry"))
        }
        Notice::StashRestored { gone: 0, taken } => {
            format!("{} that the agent stashed went with the attempt", count(*taken, "entry"))
        }
        Notice::StashRestored { .. } => "the stash is as it was before the attempt".to_owned(),
        Notice::GitFileChanged { name } => format!("the agent changed {name} in the git directory"),
        Notice::GitFileRestored { name, kept } => {
            format!("the agent changed {name} in the git directory, it is back; the agent's version is in {}", clean(kept))
        }
        Notice::StateRestored {} => "the agent deleted files of the run in the git directory, they are back".to_owned(),
        Notice::SubmoduleRestored { path, kept } => {
            format!("the submodule {} is what it was; what it had become is kept there as {kept}", clean(path))
        }
        Notice::IgnoredRestored { path } => format!("the agent deleted the ignored file {}, it is back", clean(path)),
        Notice::CommitsKept { kept } => format!("commits of the agent that are not in the checkpoint are kept as {kept}"),
        Notice::NotStagedAgain { kept } => {
            format!("what was staged at the start conflicts with the moved branch; nothing is staged now, it is kept as {kept}")
        }
        Notice::AlsoIn { branches } => format!("already in {}: undo does not take it back there", clean(&branches.join(", "))),
        Notice::EditsTakenOut { files, kept } => {
            format!("your edits ({}) are not in the work tree now, they are kept as {kept}", count(*files, "file"))
        }
        Notice::CommitsTakenOut { last, kept } => {
            format!("your commits up to {} are not on the branch now, they are kept as {kept}", last.short())
        }
    }
}

pub(super) fn count(number: usize, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {noun}s"),
    }
}

pub(super) fn span(milliseconds: u64) -> String {
    match milliseconds {
        ms if ms < 10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        ms if ms < 60_000 => format!("{} s", ms / 1000),
        ms if ms < 3_600_000 => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
        ms => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

fn shorten(text: &str) -> String {
    const LONGEST: usize = 200;
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(LONGEST)])
}
