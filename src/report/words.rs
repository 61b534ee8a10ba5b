//! All sentences about a run: turns every event into lines for people.

use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

use super::clean;
use super::output::hint_lines;
use crate::config::{Advice, Finish};
use crate::git::{Head, Oid};
use crate::names::Names;
use crate::process::Exit;
use crate::run::{
    Activity, Budget, CallbackFailure, Defeat, DefeatCause, End, Event, Outcome, Progress, RunState, StopKind, Usage, Why, Wish, abnormal,
};
use crate::shell_word::{git_ralph, quoted};
use crate::story::StoryId;
use crate::workspace::{Doubt, Notice};

/// What kind of line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// An ordinary line.
    Plain,
    /// Something went well.
    Success,
    /// Something went wrong, and the loop handles it.
    Failure,
    /// `warning:`
    Warning,
    /// `error:`
    Error,
    /// `hint:`
    Hint,
}

impl Tone {
    /// Whether the line is shown even with `--quiet`.
    #[must_use]
    pub fn is_urgent(self) -> bool {
        match self {
            Tone::Plain | Tone::Success | Tone::Failure => false,
            Tone::Warning | Tone::Error | Tone::Hint => true,
        }
    }
}

/// One line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What kind of line it is.
    pub tone: Tone,
    /// The text.
    pub text: String,
}

impl Line {
    /// Creates a line.
    pub fn new(tone: Tone, text: impl Into<String>) -> Self {
        Line { tone, text: text.into() }
    }
}

/// The lines for people about an event.
#[must_use]
#[expect(clippy::too_many_lines, reason = "one arm per event, and nothing else")]
pub fn event_lines(event: &Event, state: &RunState) -> Vec<Line> {
    let plain = |text: String| vec![Line::new(Tone::Plain, text)];
    let warning = |text: String| vec![Line::new(Tone::Warning, text)];
    match event {
        Event::RunStarting { .. }
        | Event::AttemptAccepted { .. }
        | Event::AttemptQueued { .. }
        | Event::PauseEnded { .. }
        | Event::LoopStarted { .. }
        | Event::UsageFound { .. }
        | Event::SourceRead { .. }
        | Event::UndoStarted { .. }
        | Event::FinishStarted { .. }
        | Event::AbortStarted {} => Vec::new(),
        Event::LeftoverKept { rescue, .. } => warning(format!("branch ralph/{} from an earlier run was moved to {rescue}", change(state))),
        Event::RunStarted { initial, branch } => match state.opening.as_ref().and_then(|opening| opening.workspaces.as_ref()) {
            Some(dir) => {
                plain(format!("on {branch}, initial state {}; agents work in {}", initial.short(), clean(&dir.display().to_string())))
            }
            None => plain(format!("on {branch}, initial state {}", initial.short())),
        },
        Event::WorkspaceReady { files: 0, .. } => Vec::new(),
        Event::WorkspaceReady { path, files, bytes, .. } => {
            plain(format!("copied {} ({}) to {}", count(*files, "ignored file"), bytes_words(*bytes), clean(path)))
        }
        Event::BatchFailed { stories, command } => {
            plain(format!("landing queue: the gate '{}' fails on the merge of {}; trying fewer of them", clean(command), ids(stories)))
        }
        Event::AttemptBeaten { story, attempt, defeat, kept } => {
            let text = format!("{story}: attempt {attempt} {}; saved as {kept}, trying again from that checkpoint", defeat_words(defeat));
            let output = match &defeat.cause {
                DefeatCause::Gate { output, .. } => gate_lines(story, *attempt, output, state),
                DefeatCause::Conflict { .. } => Vec::new(),
            };
            [Line::new(Tone::Failure, text)].into_iter().chain(output).collect()
        }
        Event::RunResumed {} => plain(format!("resuming {}", change(state))),
        Event::CommitsAdopted { checkpoint } => {
            plain(format!("continuing from commit {}, which appeared on the run's branch", checkpoint.short()))
        }
        Event::EditsAdopted { files: 0, base, .. } => {
            plain(format!("your staged changes differ from the work tree; they are saved as {}", adopted(base, state)))
        }
        Event::EditsAdopted { files, .. } => plain(format!("your edits ({}) go into the next checkpoint", count(*files, "file"))),
        Event::IdentityMissing {} => warning(IDENTITY_MISSING.to_owned()),
        Event::SourceUnreadable { error } => warning(source_unreadable_words(error)),
        Event::StoriesChanged { added, removed, .. } => stories_changed_words(added, removed).into_iter().flat_map(plain).collect(),
        Event::StrayMarks { story, others } => warning(stray_marks_words(story, others)),
        Event::SourcePutBack { story, aside } => warning(source_put_back_words(story, aside)),
        Event::MarksNotSet { story, error } => warning(marks_not_set_words(story, error)),
        Event::AttemptStarted { story, attempt, title, .. } => {
            let title = if title == story.as_str() { String::new() } else { format!(": {}", clean(title)) };
            plain(format!("{story}{title}, attempt {attempt}"))
        }
        Event::PauseStarted { until, why, .. } => plain(pause_words(*until, *why)),
        Event::AgentEnded { survivors, .. } if survivors.is_empty() => Vec::new(),
        Event::AgentEnded { story, survivors, .. } => {
            warning(format!("{story}: ended processes that the agent left running: {}", clean(&survivors.join(", "))))
        }
        Event::GateEnded { story, command, exit, milliseconds, .. } => {
            let (tone, how) = match exit {
                Exit::Success => (Tone::Plain, "passed".to_owned()),
                Exit::Lost { message } => (Tone::Failure, format!("lost by its runner ({})", shorten(&clean(message)))),
                Exit::NotStarted { message } => (Tone::Failure, format!("not started by its runner ({})", shorten(&clean(message)))),
                _ => (Tone::Failure, "failed".to_owned()),
            };
            vec![Line::new(tone, format!("{story}: gate {how}: {} ({})", clean(command), span(*milliseconds)))]
        }
        Event::AttemptRejected { story, attempt, outcome } => rejected_lines(story, *attempt, outcome, state),
        Event::CheckpointLanded { story, commit, files, .. } => {
            let (spent, used) = state.stories.get(story).map_or((0, String::new()), |p| (p.with_gates(), usage_words(&p.usage)));
            let text = format!("{story}: done in {}{used}, checkpoint {} ({})", span(spent), commit.short(), count(*files, "file"));
            vec![Line::new(Tone::Success, text)]
        }
        Event::AttemptRolledBack { story, files: 0, .. } => plain(format!("{story}: rolled back (no files changed)")),
        Event::AttemptRolledBack { story, rescue, files, .. } => {
            plain(format!("{story}: rolled back, {} saved as {rescue}", count(*files, "file")))
        }
        Event::Undone { to, stories, kept } => plain(undone_words(to, stories, kept, state)),
        Event::Noticed { notice } => notice_lines(notice, state),
        Event::StoryFailed { story, attempts, outcome } => {
            let last = outcome.as_ref().map(|outcome| format!("; the last one {}", outcome_words(outcome))).unwrap_or_default();
            vec![Line::new(Tone::Error, format!("{story} failed after {}{last}", count(*attempts as usize, "attempt")))]
        }
        Event::HintGiven { story, now, .. } => plain(hint_words(story.as_ref(), *now, state)),
        Event::StorySkipped { story, also, .. } if also.is_empty() => plain(format!("{story}: skipped")),
        Event::StorySkipped { story, also, .. } => {
            plain(format!("{story}: skipped, and so are the stories that come after it: {}", ids(also)))
        }
        Event::StoryRetried { story, .. } => plain(format!("{story}: has a fresh set of retries")),
        Event::DoneByHand { story, .. } => plain(format!("{story}: marked as done by hand")),
        Event::ChangeEdited { .. } => plain("your edit of the change file is in effect".to_owned()),
        Event::RequestRefused { reason, .. } => warning(request_refused_words(reason)),
        Event::StopRequested { how } => plain(stop_words(*how, state).to_owned()),
        Event::LoopEnded { end } => {
            let tone = match end {
                End::AllDone | End::SelectionDone | End::LimitReached => Tone::Success,
                End::RetriesSpent { .. }
                | End::BudgetSpent { .. }
                | End::Misconfigured { .. }
                | End::UsageLimit { .. }
                | End::StillLimited { .. }
                | End::RunnerFailed { .. }
                | End::NeedsUser { .. }
                | End::Blocked { .. }
                | End::Stopped
                | End::Interrupted { .. } => Tone::Plain,
            };
            vec![Line::new(tone, end_words(end, state))]
        }
        Event::Finished { mode, kept } => plain(finished_words(*mode, kept.as_deref(), state)),
        Event::Aborted { kept: Some(kept), moved_to, incomplete, put_back } => {
            let branch =
                put_back.as_ref().map(|tip| format!("; branch ralph/{} from before the run is back at {}", change(state), tip.short()));
            let how = aborted_words(moved_to.as_ref(), *incomplete, state);
            plain(format!("{how}{}; the work of the run is saved as {kept}", branch.unwrap_or_default()))
        }
        Event::Aborted { kept: None, .. } => plain("the run had not changed anything yet; it is closed".to_owned()),
    }
}

/// Why an attempt has failed. If a gate failed, also the end of its output and the command that shows all of it.
fn rejected_lines(story: &StoryId, attempt: u32, outcome: &Outcome, state: &RunState) -> Vec<Line> {
    let output = match outcome {
        Outcome::GateFailed { output, .. } => gate_lines(story, attempt, output, state),
        _ => Vec::new(),
    };
    let tone = if *outcome == Outcome::Interrupted { Tone::Plain } else { Tone::Failure };
    [Line::new(tone, format!("{story}: attempt {attempt} {}", outcome_words(outcome)))].into_iter().chain(output).collect()
}

/// The last lines of a gate's output, and the command that shows all of them.
fn gate_lines(story: &StoryId, attempt: u32, output: &str, state: &RunState) -> Vec<Line> {
    let printed: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &printed[printed.len().saturating_sub(GATE_LINES)..];
    if last.is_empty() {
        return Vec::new();
    }
    let lines = last.iter().map(|line| Line::new(Tone::Plain, format!("  | {}", shorten(&clean(line)))));
    let all = format!("  {}   shows all of its output", git_ralph(&format!("log --attempt {attempt}"), &[&change(state), story.as_str()]));
    lines.chain([Line::new(Tone::Plain, all)]).collect()
}

/// The rest of a sentence that begins with "attempt 2".
pub(super) fn defeat_words(defeat: &Defeat) -> String {
    let tip = defeat.tip.short();
    match &defeat.cause {
        DefeatCause::Conflict { paths, .. } => format!("conflicts with checkpoint {tip} in {}", some(paths)),
        DefeatCause::Gate { command, .. } => {
            format!("passed its gates, but merged with checkpoint {tip} the gate '{}' fails", clean(command))
        }
    }
}

pub(super) fn bytes_words(bytes: u64) -> String {
    match bytes {
        n if n < 1_000 => format!("{n} B"),
        n if n < 1_000_000 => format!("{}.{} kB", n / 1_000, n % 1_000 / 100),
        n => format!("{}.{} MB", n / 1_000_000, n % 1_000_000 / 100_000),
    }
}

/// The warning that commits have no author of the user's.
pub(super) const IDENTITY_MISSING: &str = "no name and email are configured, so commits are made as git-ralph <git-ralph@localhost>";

pub(super) fn marks_not_set_words(story: &StoryId, error: &str) -> String {
    format!("{story}: cannot mark the story as done in its source: {}", clean(error))
}

pub(super) fn request_refused_words(reason: &str) -> String {
    format!("a request was refused: {}", clean(reason))
}

pub(super) fn source_unreadable_words(error: &str) -> String {
    format!("cannot read the stories again, continuing with the last version: {}", clean(error))
}

pub(super) fn stray_marks_words(story: &StoryId, others: &[StoryId]) -> String {
    format!("{story}: the agent marked other stories as done ({}); git-ralph has removed those marks", ids(others))
}

pub(super) fn source_put_back_words(story: &StoryId, aside: &str) -> String {
    let aside = clean(aside);
    format!("{story}: the agent deleted or rewrote the source of the stories; it is restored, and the agent's version is in {aside}")
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

fn adopted(base: &Oid, state: &RunState) -> String {
    state.opening.as_ref().map_or_else(|| base.to_string(), |opening| Names::new(&opening.change).adopted(base))
}

fn original(state: &RunState) -> String {
    state.opening.as_ref().map_or_else(String::new, |opening| head_words(&opening.original))
}

/// A description of the branch or commit from which a run started.
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
    outcome_words_by(outcome, &Clock::of_user())
}

/// Like [`outcome_words`], with times by the given clock.
pub(super) fn outcome_words_by(outcome: &Outcome, clock: &Clock) -> String {
    match outcome {
        Outcome::Failed { reason } if reason.is_empty() => "failed and gave no reason".to_owned(),
        Outcome::Failed { reason } => format!("failed: {}", shorten(&clean(reason))),
        Outcome::Blocked { needs } => format!("is blocked and needs you: {}", shorten(&clean(needs))),
        Outcome::GateFailed { command, exit, .. } => match exit {
            Exit::TimedOut { seconds } => format!("failed: the gate '{}' did not end within {seconds} s", clean(command)),
            _ => format!("failed: the gate '{}' failed", clean(command)),
        },
        Outcome::Vanished { words } if words.is_empty() => "ended without a promise".to_owned(),
        Outcome::Vanished { words } => format!("ended without a promise; its last words: {}", shorten_front(&clean(words))),
        Outcome::Abnormal { exit, message: None } => abnormal(exit),
        Outcome::Abnormal { exit, message: Some(message) } => format!("{}: {}", abnormal(exit), shorten(&clean(message))),
        Outcome::Misconfigured { message } => format!("could not work: {}", shorten(&clean(message))),
        Outcome::Limited { message, .. } => format!("reached a usage limit: {}", shorten(&with_times(&clean(message), clock))),
        Outcome::Unavailable { message } => format!("could not reach its model: {}", shorten(&clean(message))),
        Outcome::Lost { message } => format!("was lost by its runner, which uses no retry: {}", shorten(&clean(message))),
        Outcome::NotStarted { message } => format!("was not started by its runner, which uses no retry: {}", shorten(&clean(message))),
        Outcome::Unlandable { reason } => format!("could not be committed as a checkpoint: {}", shorten(&clean(reason))),
        Outcome::Interrupted => "was interrupted".to_owned(),
    }
}

/// The rest of a sentence that begins with "asked process 17".
#[must_use]
pub fn wish_words(wish: &Wish) -> String {
    match wish {
        Wish::Hint { story: Some(story), now: false, .. } => format!("to give the hint to the next attempt of {story}"),
        Wish::Hint { story: None, now: false, .. } => "to give the hint to all further attempts".to_owned(),
        Wish::Hint { story: Some(story), now: true, .. } => format!("to end the attempt of {story} and start it again with the hint"),
        Wish::Hint { story: None, now: true, .. } => "to end the attempts under way and start them again with the hint".to_owned(),
        Wish::Skip { story } => format!("to skip {story}"),
        Wish::Retry { story } => format!("to give {story} a fresh set of retries"),
        Wish::Edit { .. } => "to use the edited change file".to_owned(),
        Wish::Done { story, .. } => format!("to mark {story} as done"),
    }
}

fn hint_words(story: Option<&StoryId>, now: bool, state: &RunState) -> String {
    let is_ended = |story: &StoryId| now && state.stories.get(story).is_some_and(Progress::is_taken_back);
    match story {
        Some(story) if state.skipped.contains(story) => {
            format!("{story}: hint saved, but the story is skipped; to include it again, type: {}", git_ralph("retry", &[story.as_str()]))
        }
        Some(story) if is_ended(story) => format!("{story}: hint saved; the attempt is ended and started again with it"),
        Some(story) => format!("{story}: hint saved for the next attempt"),
        None if state.stories.keys().any(is_ended) => "hint saved; the attempts under way are ended and started again with it".to_owned(),
        None => "hint saved for all further attempts".to_owned(),
    }
}

fn stop_words(how: StopKind, state: &RunState) -> &'static str {
    let under_way = state.stories.values().filter(|progress| progress.is_busy()).count();
    match how {
        StopKind::AfterAttempt if under_way > 1 => "stopping after the attempts under way",
        StopKind::AfterAttempt => "stopping after this attempt",
        StopKind::Now | StopKind::Terminate => "stopping",
        StopKind::Interrupt => "stopping; press Ctrl-C again to quit at once",
    }
}

/// Whether a limit is exceeded or just reached.
fn past<T: Ord>(used: T, most: T) -> &'static str {
    if used > most { "exceeded" } else { "reached" }
}

/// Why the loop ended, as a sentence.
#[must_use]
pub fn end_words(end: &End, state: &RunState) -> String {
    end_words_by(end, state, &Clock::of_user())
}

/// Like [`end_words`], with times by the given clock.
pub(super) fn end_words_by(end: &End, state: &RunState, clock: &Clock) -> String {
    match end {
        End::AllDone if state.skipped.iter().any(|story| !state.has_landed(story)) => {
            format!("nothing is left to do: every story of {} is done or skipped", change(state))
        }
        End::AllDone => format!("all stories of {} are done", change(state)),
        End::SelectionDone => "the selected stories are done".to_owned(),
        End::LimitReached => "stopped: the --limit is reached".to_owned(),
        End::RetriesSpent { story } => {
            let failures = state.stories.get(story).map_or(0, |progress| progress.failures);
            format!("stopped: story '{story}' failed {} and has no retries left", count(failures as usize, "time"))
        }
        End::BudgetSpent { spent: Budget::Cost { used, most } } => {
            format!("stopped: budget {} ({used} spent, limit {most})", past(used, most))
        }
        End::BudgetSpent { spent: Budget::Tokens { used, most } } => {
            format!("stopped: budget {} ({} tokens used, limit {})", past(used, most), tokens_words(*used), tokens_words(*most))
        }
        End::Misconfigured { message } => format!("stopped: the agent cannot work: {}", shorten(&clean(message))),
        End::UsageLimit { resets: Some(resets) } => {
            format!("stopped: the agent's usage limit is reached, it resets at {}", clock.time(*resets))
        }
        End::UsageLimit { resets: None } => "stopped: the agent's usage limit is reached".to_owned(),
        End::StillLimited { waits, .. } => {
            format!("stopped: the agent's usage limit is still in force after {} in a row", count(*waits as usize, "wait"))
        }
        End::RunnerFailed { times, message } => {
            format!("stopped: the runner failed {} in a row: {}", count(*times as usize, "time"), shorten(&clean(message)))
        }
        End::NeedsUser { story, needs } => format!("needs you: {story}: {}", shorten(&clean(needs))),
        End::Blocked { story } => format!("stopped: story '{story}' comes after stories that are not selected"),
        End::Stopped => "stopped".to_owned(),
        End::Interrupted { .. } => "interrupted".to_owned(),
    }
}

/// The lines for people about something that is not an event.
pub(super) fn activity_lines(activity: &Activity<'_>) -> Vec<Line> {
    let (tone, text, hints) = match activity {
        Activity::CallbackFailed { failure } => (Tone::Warning, callback_words(failure), Vec::new()),
        Activity::SourceNotCarried { path } => {
            let text = format!("git does not track {}, so abort and undo do not remove its marks", clean(path));
            (Tone::Warning, text, Vec::new())
        }
        Activity::SourceEdited { paths, branch } => (Tone::Warning, source_edited_words(paths, branch), source_edited_commands(branch)),
        Activity::NotCopied { paths } => {
            let text = format!("these ignored files of your checkout were not copied to the workspace: {}", some(paths));
            (Tone::Plain, text, not_copied_hints(paths))
        }
        Activity::SettingUp { workspace, command } => {
            (Tone::Plain, format!("workspace {workspace}: setting up: {}", clean(command)), Vec::new())
        }
        Activity::Planned { .. }
        | Activity::Working { .. }
        | Activity::Heard { .. }
        | Activity::Said { .. }
        | Activity::Did { .. }
        | Activity::Waiting { .. }
        | Activity::WaitingForRunner { .. }
        | Activity::Begun { .. }
        | Activity::Landing { .. }
        | Activity::GateStarted { .. } => return Vec::new(),
    };
    let hints = hint_lines(Advice::NextStep, &hints);
    [Line::new(tone, text)].into_iter().chain(hints).collect()
}

/// The warning that an isolated run does not see the user's edit of a source.
pub(super) fn source_edited_words(paths: &[String], branch: &str) -> String {
    let verb = if paths.len() == 1 { "has" } else { "have" };
    format!("{} {verb} edits in your checkout that the run does not see: it reads the stories from {branch}", some(paths))
}

/// The commands that bring the edit onto the branch, where the run adopts it.
pub(super) fn source_edited_commands(branch: &str) -> Vec<String> {
    vec![
        format!("git worktree add ../edit {}   then make the edit in ../edit and commit it there", quoted(branch)),
        "git worktree remove ../edit   when it is committed; the run adopts the commit when the next story lands".to_owned(),
    ]
}

/// The hints for getting ignored files into workspaces.
fn not_copied_hints(paths: &[String]) -> Vec<String> {
    let first = paths.first().map_or("", String::as_str);
    vec![
        format!("echo {} >>.worktreeinclude   to copy it into every workspace at the next start or resume", quoted(&clean(first))),
        "git ralph edit   to add setup = [\"npm ci\"], or another command that prepares every workspace".to_owned(),
    ]
}

/// The message about a callback command that failed.
fn callback_words(failure: &CallbackFailure) -> String {
    format!("the command '{}' {}", clean(&failure.command), shorten(&clean(&failure.why)))
}

fn pause_words(until: Timestamp, why: Why) -> String {
    match why {
        Why::Limit => format!("usage limit reached, waiting until {}; git ralph stop ends the wait", time_words(until)),
        Why::Unavailable => format!("cannot reach the model, trying again at {}", time_words(until)),
        Why::Runner => format!("trying the runner again at {}", time_words(until)),
    }
}

/// A time in the user's time zone, with the day if it is not today.
pub(super) fn time_words(time: Timestamp) -> String {
    Clock::of_user().time(time)
}

/// The time zone in which times are shown.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    zone: TimeZone,
    /// Times on this day are shown without the day; `None` if all times are shown with it.
    today: Option<Date>,
}

impl Clock {
    /// The user's time zone.
    pub(super) fn of_user() -> Self {
        Clock { zone: TimeZone::system(), today: Some(Zoned::now().date()) }
    }

    /// A time zone with a fixed offset from UTC, in seconds.
    pub(super) fn ahead_of_utc(seconds: i32) -> Self {
        Clock { zone: Offset::from_seconds(seconds).map_or(TimeZone::UTC, TimeZone::fixed), today: None }
    }

    /// A time, with the day if it is not today.
    pub(super) fn time(&self, time: Timestamp) -> String {
        let time = time.to_zoned(self.zone.clone());
        let today = Some(time.date()) == self.today;
        time.strftime(if today { "%H:%M:%S" } else { "%a %Y-%m-%d %H:%M" }).to_string()
    }

    /// A time in the given format.
    pub(super) fn format(&self, time: Timestamp, form: &str) -> String {
        time.to_zoned(self.zone.clone()).strftime(form).to_string()
    }

    /// The name of the time zone: `UTC`, `UTC+02:00`.
    pub(super) fn name(&self) -> String {
        let seconds = self.zone.to_offset(Timestamp::UNIX_EPOCH).seconds();
        if seconds == 0 {
            return "UTC".to_owned();
        }
        let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs() / 60);
        format!("UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::of_user()
    }
}

/// A client's message in which a time is a Unix time after a bar, `usage limit reached|1794865030`, with that time in readable form.
fn with_times(message: &str, clock: &Clock) -> String {
    let Some((before, rest)) = message.split_once('|') else { return message.to_owned() };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let time = rest[..digits].parse().ok().filter(|_| digits == 10).and_then(|seconds| Timestamp::from_second(seconds).ok());
    match time {
        Some(time) => format!("{before}, resets at {}{}", clock.time(time), &rest[digits..]),
        None => message.to_owned(),
    }
}

/// `, $0.02, 11.2k tokens`, as far as they are known.
pub(super) fn usage_words(usage: &Usage) -> String {
    let cost = usage.cost.map(|cost| format!(", {cost}")).unwrap_or_default();
    let tokens = if usage.tokens() == 0 { String::new() } else { format!(", {} tokens", tokens_words(usage.tokens())) };
    cost + &tokens
}

pub(super) fn tokens_words(tokens: u64) -> String {
    match tokens {
        n if n < 1_000 => n.to_string(),
        n if n < 1_000_000 => format!("{}.{}k", n / 1_000, n % 1_000 / 100),
        n => format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000),
    }
}

pub(super) fn finished_words(mode: Finish, kept: Option<&str>, state: &RunState) -> String {
    match (mode, kept) {
        (Finish::Cleanup, Some(kept)) if state.is_isolated() => {
            format!("the result is merged into your checkout, uncommitted; the checkpoints are saved as {kept}")
        }
        (Finish::Keep | Finish::Ask, _) if state.is_isolated() => {
            format!("finished; the result is on ralph/{0}; to merge it, type: git merge ralph/{0}", change(state))
        }
        (Finish::Cleanup, Some(kept)) => {
            format!("back on {} with everything uncommitted; the checkpoints are saved as {kept}", original(state))
        }
        (Finish::Cleanup, None) => format!("back on {} with everything uncommitted", original(state)),
        (Finish::Keep | Finish::Ask, _) => format!("finished; the result is on ralph/{}", change(state)),
    }
}

/// What has been restored after an abort.
pub(super) fn aborted_words(moved_to: Option<&Oid>, incomplete: bool, state: &RunState) -> String {
    if state.is_isolated() {
        return "the run is aborted; your checkout was not changed".to_owned();
    }
    let how = match (moved_to, incomplete) {
        (None, false) => "work tree and index as before the run".to_owned(),
        (None, true) => "but not everything could be restored, see the warnings above".to_owned(),
        (Some(tip), false) => format!("which has moved to {} since the start; work tree and index as before the run", tip.short()),
        (Some(tip), true) => {
            format!("which has moved to {} since the start; not everything else could be restored, see the warnings above", tip.short())
        }
    };
    format!("back on {}, {how}", original(state))
}

fn undone_words(to: &Oid, stories: &[StoryId], kept: &str, state: &RunState) -> String {
    let stories: Vec<&str> = stories.iter().map(StoryId::as_str).collect();
    let place = if state.initial.as_ref() == Some(to) { "the initial state" } else { "checkpoint" };
    format!("undone: {}; ralph/{} is back at {place} {}, the undone work is saved as {kept}", stories.join(", "), change(state), to.short())
}

fn notice_lines(notice: &Notice, state: &RunState) -> Vec<Line> {
    let hint = match notice {
        Notice::EditSetAside { file, kept: Some(kept), .. } => {
            Some(format!("cp {} {} && git ralph resume {}", quoted(kept), quoted(file), change(state)))
        }
        _ => None,
    };
    let hint = hint.map(|command| Line::new(Tone::Hint, command));
    [Line::new(Tone::Warning, notice_words(notice))].into_iter().chain(hint).collect()
}

/// Why a story's checkpoint needs a second look, as a sentence about that story; empty for other notices.
pub(super) fn doubt_words(notice: &Notice) -> String {
    match notice {
        Notice::SettingsRestored { name, keys, kept, .. } => format!(
            "{} in {name} of the git directory changed during the attempt and {} restored; the version that the attempt left is in {}",
            clean(&keys.join(", ")),
            if keys.len() == 1 { "was" } else { "were" },
            clean(kept)
        ),
        Notice::EditSetAside { file, kept: Some(kept), .. } => format!(
            "{} changed during the attempt and was restored, because the agent may have changed it; the other version is in {}; \
             if the edit is yours, stop the loop and copy it back",
            clean(file),
            clean(kept)
        ),
        Notice::EditSetAside { file, kept: None, .. } => format!("{} was deleted during the attempt and is restored", clean(file)),
        Notice::GateFileChanged { gate, path, .. } => {
            format!("the checkpoint changes {}, which the gate '{}' uses", clean(path), clean(gate))
        }
        Notice::GateFileIgnored { gate, path, .. } => {
            format!(
                "the gate '{}' uses {}, which the attempt wrote and git ignores, so it is not in the checkpoint",
                clean(gate),
                clean(path)
            )
        }
        Notice::SettingsFileChanged { path, .. } => {
            format!(
                "the checkpoint changes {}, which your git configuration includes; its settings apply from the next resume on",
                clean(path)
            )
        }
        Notice::EmptyCheckpoint { .. } => "the agent says it is done, but nothing has changed".to_owned(),
        Notice::EmptyByHand { .. } => "marked as done by hand, but nothing has changed".to_owned(),
        _ => String::new(),
    }
}

#[expect(clippy::too_many_lines, reason = "one arm per notice, and nothing else")]
pub(super) fn notice_words(notice: &Notice) -> String {
    match notice {
        Notice::OperationMoved { files, to } => format!("the agent left {} in the git directory; moved to {}", files.join(", "), clean(to)),
        Notice::HeadReattached { from } => format!("the agent left HEAD on {}, and git-ralph put it back on the run's branch", clean(from)),
        Notice::BroughtOver { from } => format!("the agent worked on {}; its changes were moved to the run's branch", clean(from)),
        Notice::WorkspaceSaved { path, kept } => {
            format!("{} had edits that no agent of this run made; they are saved as {kept}", clean(path))
        }
        Notice::OutOfReach { directories, owner, remaining, changed, wanted } => {
            out_of_reach_words(directories, *owner, remaining, changed, wanted)
        }
        Notice::NestedLeftOut { path } => {
            format!("{} is a repository of its own: its files stay where they are and are not in the checkpoint", clean(path))
        }
        Notice::NestedMoved { path, to } => format!("{} is a repository of its own, moved to {}", clean(path), clean(to)),
        Notice::NestedUncopied { path } => {
            nested_words(path, "it is too big to copy, so changes that an attempt makes there cannot be undone")
        }
        Notice::NestedRestored { path, kept } => nested_words(path, &restored_words(kept.as_deref())),
        Notice::NestedEdited { path, copy } => {
            nested_words(path, &format!("the agent changed it; a copy from before the attempt is in {}", clean(copy)))
        }
        Notice::NestedLost { path } => nested_words(path, "it is gone, and it was too big to copy"),
        Notice::NestedStays { path } => nested_words(path, "it did not exist before the run, and it stays where it is"),
        Notice::LateEdit { path, to } => {
            format!("{} was written while git-ralph restored the work tree; that version is in {}", clean(path), clean(to))
        }
        Notice::ObstacleMoved { path, to } => format!("{} was in the way; moved to {}", clean(path), clean(to)),
        Notice::HiddenMoved { path, to } => format!("{} is ignored by rules that the attempt added; moved to {}", clean(path), clean(to)),
        Notice::Unkept { error } => format!("git could not store every file; these stay in the work tree: {}", clean(error)),
        Notice::UnkeptMoved { path, to } => format!("git could not store {}; moved to {}", clean(path), clean(to)),
        Notice::Unconverted { error } => {
            format!("files were saved byte for byte, because a filter or an encoding failed: {}", shorten(&clean(error)))
        }
        Notice::Unfiltered { paths } => {
            let paths: Vec<String> = paths.iter().map(|path| quoted(&clean(path))).collect();
            format!(
                "a smudge filter failed, so files have their unfiltered content; when the filter works again, type: git checkout-index -f -- {}",
                paths.join(" ")
            )
        }
        Notice::RefRestored { name, kept } => restored_ref_words(name, kept.as_deref()),
        Notice::RefOfOthers { name, kept } => {
            format!("{name} was changed in another work tree and is left alone; its earlier value is saved as {kept}")
        }
        Notice::RefBroken { name } => {
            format!("{name} names an object that does not exist; to remove it, type: git update-ref -d {}", quoted(name))
        }
        Notice::WorkTreeRestored { from } => format!("the agent moved the work tree to {}; it is back", clean(from)),
        Notice::GitDirRestored { from } => format!("the agent moved the git directory to {}; it is back", clean(from)),
        Notice::OpenedUp { paths } => {
            format!("the agent removed permissions of directories; they are restored: {}", clean(&paths.join(", ")))
        }
        Notice::RefLost { name } => format!("the agent deleted {name} and its objects; it cannot be restored"),
        Notice::RefMovedOn { name, to } => format!("{name} has new commits up to {to}; it is left alone"),
        Notice::RefInTheWay { name, kept } => format!("{name} was in the way of the run's branch; it is saved as {kept}"),
        Notice::ReplacementRemoved { name, kept } => {
            format!("{name} appeared during the attempt and makes git show another object; it is removed and saved as {kept}")
        }
        Notice::StashRestored { gone, taken } => stash_words(*gone, *taken),
        Notice::GitFileChanged { name, before: None } => format!("the agent changed {name} in the git directory"),
        Notice::GitFileChanged { name, before: Some(before) } => {
            format!("the agent changed {name} in the git directory; its earlier content is saved as {before}")
        }
        Notice::GitFileRestored { name, kept: Some(kept) } => {
            format!("the agent changed {name} in the git directory; it is restored, and the agent's version is in {}", clean(kept))
        }
        Notice::GitFileRestored { name, kept: None } => {
            format!("the agent deleted or replaced {name} in the git directory; it is restored")
        }
        Notice::SettingsRestored { story, .. }
        | Notice::EditSetAside { story, .. }
        | Notice::GateFileChanged { story, .. }
        | Notice::GateFileIgnored { story, .. }
        | Notice::SettingsFileChanged { story, .. }
        | Notice::EmptyCheckpoint { story }
        | Notice::EmptyByHand { story } => format!("{story}: {}", doubt_words(notice)),
        Notice::FromWorker { story, warning } => format!("{story}: {}", clean(warning)),
        Notice::LeftOnHub { hub, name, error } => {
            format!("{} could not be deleted on the hub {}: {}", clean(name), clean(hub), clean(error))
        }
        Notice::MayStillRun { story, runner } => {
            let runner = clean(runner);
            format!("{story}: {runner} did not end when asked to and was killed; what it started may still be running elsewhere")
        }
        Notice::IndexRebuilt {} => "the copy of your index was damaged; a new index with the same files staged was made".to_owned(),
        Notice::StagedLost {} => {
            "the objects of your staged changes were deleted from the repository; your files are as before, and nothing is staged"
                .to_owned()
        }
        Notice::JournalDoubted { why, kept } => journal_words(*why, kept.as_deref()),
        Notice::StateRestored {} => "the agent deleted or changed files of the run in the git directory; they are restored".to_owned(),
        Notice::SubmoduleRestored { path, kept } => {
            format!("the submodule {} is restored; its state after the attempt is saved there as {kept}", clean(path))
        }
        Notice::SubmoduleMoved { path, commit } => {
            format!("the submodule {} is at {commit} now; to update its files, type: git submodule update", clean(path))
        }
        Notice::IgnoredRestored { path } => format!("the agent deleted the ignored file {}; it is restored", clean(path)),
        Notice::IgnoredPutBack { paths, kept } => {
            format!("changed ignored files are restored: {}; the changed versions are in {}", some(paths), clean(kept))
        }
        Notice::IgnoredEdited { paths, copies } => {
            format!("the agent changed ignored files: {}; copies from before the attempt are in {}", some(paths), clean(copies))
        }
        Notice::IgnoredNotRestored { paths } => {
            format!("these ignored files were changed and cannot be restored, because there is no copy: {}", some(paths))
        }
        Notice::CommitsKept { kept } => format!("commits of the agent that are not in the checkpoint are saved as {kept}"),
        Notice::StagedKept { kept } => format!("staged changes that are not in the checkpoint are saved as {kept}"),
        Notice::StashLeft { entries } => {
            format!("left in the stash: {} that you or the interrupted agent stashed", count(*entries, "entry"))
        }
        Notice::NotStagedAgain { kept } => {
            format!("your staged changes conflict with the branch, which has moved; nothing is staged now, and they are saved as {kept}")
        }
        Notice::AlsoIn { branches } => format!("the checkpoint is also in {}; undo leaves it there", clean(&branches.join(", "))),
        Notice::EditsTakenOut { files, kept } => {
            format!("your edits ({}) were removed from the work tree; they are saved as {kept}", count(*files, "file"))
        }
        Notice::CommitsTakenOut { last, kept } => {
            format!("your commits up to {} were removed from the branch; they are saved as {kept}", last.short())
        }
    }
}

fn restored_ref_words(name: &str, kept: Option<&str>) -> String {
    match kept {
        None => format!("the agent deleted {name}; it is restored"),
        Some(kept) => format!("the agent rewrote {name}; it is restored, and the agent's version is saved as {kept}"),
    }
}

fn restored_words(kept: Option<&str>) -> String {
    match kept {
        None => "it was deleted and is restored".to_owned(),
        Some(kept) => format!("it was changed and is restored; the changed version is in {}", clean(kept)),
    }
}

/// What could not be restored, and the commands that restore it.
fn out_of_reach_words(directories: &[String], owner: u32, remaining: &[String], changed: &[String], wanted: &Oid) -> String {
    let words = |names: &[String]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(" ");
    let mut commands = vec![format!("sudo chown -R {owner} -- {}", words(directories))];
    if !changed.is_empty() {
        commands.push(format!("git restore --source={} -- {}", wanted.short(), words(changed)));
    }
    if !remaining.is_empty() {
        commands.push(format!("rm -- {}", words(remaining)));
    }
    format!(
        "cannot restore, because {} to another user: {}; type: {}",
        if directories.len() == 1 { "its directory belongs" } else { "their directories belong" },
        clean(&changed.iter().chain(remaining).cloned().collect::<Vec<_>>().join(", ")),
        clean(&commands.join(" && "))
    )
}

fn nested_words(path: &str, what: &str) -> String {
    format!("{} is a repository of its own: {what}", clean(path))
}

fn stash_words(gone: usize, taken: usize) -> String {
    match (gone, taken) {
        (gone, 0) => format!("the agent dropped {} from the stash; restored", count(gone, "entry")),
        (0, taken) => format!("{} that the agent stashed: removed from the stash with the attempt", count(taken, "entry")),
        _ => "the stash is restored to its state before the attempt".to_owned(),
    }
}

/// The first few of many names.
pub(super) fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let more = names.len().saturating_sub(SHOWN);
    let shown = clean(&names[..names.len() - more].join(", "));
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

fn journal_words(why: Doubt, kept: Option<&str>) -> String {
    let what = match why {
        Doubt::Changed => "the run's journal was changed during the attempt; it is restored",
        Doubt::Forged => "the run's journal has lines that git-ralph did not write; they are ignored",
        Doubt::Short => "the run's journal is shorter than git-ralph left it: the attempt under way is rolled back, not landed",
        Doubt::NoKey => "the run's journal cannot be verified: the attempt under way is rolled back, not landed",
    };
    kept.map_or_else(|| what.to_owned(), |kept| format!("{what}; the rest is in {}", clean(kept)))
}

/// A number with its noun, in the plural if needed.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
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

/// How many lines of a failed gate's output are shown.
const GATE_LINES: usize = 5;

/// How many bytes of a text are shown.
const LONGEST: usize = 200;

fn shorten(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(LONGEST)])
}

/// The end of a text, because that is where an agent's question is.
fn shorten_front(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    format!("…{}", &text[text.ceil_char_boundary(text.len() - LONGEST)..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_seconds_is_shown_as_a_time() {
        let words = with_times("usage limit reached|1794865030", &Clock::of_user());
        assert!(words.starts_with("usage limit reached, resets at ") && !words.contains("1794865030"), "{words}");
        for other in ["usage limit reached", "a|b", "a|12", "a|17948650301"] {
            assert_eq!(with_times(other, &Clock::of_user()), other);
        }
    }
}
