//! The history of a run for `git ralph log`: its attempts in order, and saved work.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::secrets::{masked_document, masked_text};
use super::status::phase_word;
use super::words::{Clock, count, defeat_words, doubt_words, head_words, notice_words, outcome_words_by, span, usage_words};
use super::{Kept, Summary, clean, summary_text};
use crate::cost::Cost;
use crate::names::{Names, RefKind};
use crate::run::{Event, Record, RunState, Usage};
use crate::story::{Story, StoryId};
use crate::workspace::Notice;

/// The outcome of an attempt that was accepted and has not landed yet.
const QUEUED: &str = "waits in the landing queue";

/// The attempts of a run, collected from the records of its journal.
#[derive(Debug, Default)]
pub struct Chronicle {
    state: RunState,
    started: Option<Timestamp>,
    working_time: WorkingTime,
    /// The time zone for times in texts.
    clock: Clock,
    attempts: BTreeMap<StoryId, Vec<AttemptView>>,
    undone: Vec<(String, Vec<StoryId>)>,
    /// Notices that are not assigned to an attempt yet. The events of one step are written together and end with one of its
    /// attempt, so the next event of an attempt says which attempt they belong to.
    notices: Vec<String>,
}

/// Adds up how long loops were working. A loop that was killed counts up to its last record.
#[derive(Debug, Default)]
struct WorkingTime {
    milliseconds: u64,
    since: Option<Timestamp>,
    last: Option<Timestamp>,
}

impl WorkingTime {
    fn take(&mut self, record: &Record) {
        let begins = matches!(record.event, Event::RunStarting { .. } | Event::RunResumed {});
        if begins {
            self.milliseconds = self.total();
            self.since = Some(record.at);
        }
        self.last = Some(record.at);
        if matches!(record.event, Event::LoopEnded { .. }) {
            self.milliseconds = self.total();
            self.since = None;
        }
    }

    fn total(&self) -> u64 {
        let under_way = self.since.zip(self.last).map_or(0, |(since, last)| last.duration_since(since).as_millis());
        self.milliseconds.saturating_add(u64::try_from(under_way).unwrap_or(0))
    }
}

/// Everything that `git ralph log` shows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LogView {
    schema: u32,
    #[serde(flatten)]
    run: RunView,
    running: bool,
    stories: Vec<StoryLog>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
    kept: Vec<Kept>,
    earlier_runs: Vec<RunView>,
    /// The timeline as text.
    #[serde(skip)]
    timeline: Option<String>,
}

/// One run, as one line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunView {
    change: String,
    run: u32,
    state: &'static str,
    original: String,
    started: Option<Timestamp>,
    done: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct StoryLog {
    id: String,
    title: String,
    attempts: Vec<AttemptView>,
}

/// One attempt.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AttemptView {
    #[serde(rename = "attempt")]
    pub(super) number: u32,
    /// The name of the agent that is shown to people.
    pub agent: String,
    started: Option<Timestamp>,
    pub(super) outcome: Option<String>,
    milliseconds: Option<u64>,
    tokens: u64,
    cost_usd: Option<f64>,
    #[serde(skip)]
    pub(super) used: String,
    pub(super) checkpoint: Option<String>,
    pub(super) rescues: Vec<String>,
    pub(super) doubts: Vec<String>,
    pub(super) undone: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notices: Vec<String>,
    /// Whether the user marked the story as done by hand.
    #[serde(skip)]
    pub(super) by_hand: bool,
}

impl AttemptView {
    fn uses(&mut self, usage: &Usage) {
        self.tokens = usage.tokens();
        self.cost_usd = usage.cost.map(Cost::as_dollars);
        self.used = usage_words(usage);
    }
}

impl Chronicle {
    /// An empty chronicle that shows times by the given clock.
    pub(super) fn by(clock: Clock) -> Self {
        Chronicle { clock, ..Chronicle::default() }
    }

    /// Shows times by another clock from now on.
    pub(super) fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// The state of the run.
    pub(super) fn state(&self) -> &RunState {
        &self.state
    }

    /// The attempts at a story, in order.
    pub(super) fn attempts_of(&self, story: &StoryId) -> &[AttemptView] {
        self.attempts.get(story).map_or(&[], Vec::as_slice)
    }

    /// Adds a record of the journal.
    #[expect(clippy::too_many_lines, reason = "one arm per event, and nothing else")]
    pub fn take(&mut self, record: &Record) {
        self.state.apply(&record.event);
        self.attribute(&record.event);
        self.started.get_or_insert(record.at);
        self.working_time.take(record);
        match &record.event {
            Event::AttemptStarted { story, attempt, agent, .. } => {
                let view = AttemptView { number: *attempt, agent: agent.clone(), started: Some(record.at), ..AttemptView::default() };
                self.attempts.entry(story.clone()).or_default().push(view);
            }
            Event::DoneByHand { story, attempt, .. } => self.mark_by_hand(story, *attempt, record),
            // An agent that was working when git-ralph died was interrupted.
            Event::RunResumed {} => {
                let working = |view: &&mut AttemptView| view.outcome.is_none() && view.milliseconds.is_none();
                for view in self.attempts.values_mut().filter_map(|views| views.last_mut()).filter(working) {
                    view.outcome = Some("was interrupted".to_owned());
                }
            }
            Event::Undone { stories, kept, .. } => self.take_back(stories, kept),
            Event::AgentEnded { story, attempt, milliseconds, usage, .. } => self.edit(story, *attempt, |view| {
                view.milliseconds = Some(*milliseconds);
                view.uses(usage);
            }),
            Event::UsageFound { story, attempt, usage } => self.edit(story, *attempt, |view| view.uses(usage)),
            Event::AttemptRejected { story, attempt, outcome } => {
                let words = outcome_words_by(outcome, &self.clock);
                self.edit(story, *attempt, |view| view.outcome = Some(words));
            }
            Event::AttemptQueued { story, attempt, .. } => self.edit(story, *attempt, |view| view.outcome = Some(QUEUED.to_owned())),
            Event::CheckpointLanded { story, attempt, commit, .. } => self.edit(story, *attempt, |view| {
                view.outcome = Some("done".to_owned());
                view.checkpoint = Some(commit.short().to_owned());
            }),
            Event::AttemptRolledBack { story, attempt, rescue, .. } => self.edit(story, *attempt, |view| {
                view.rescues.push(rescue.clone());
                if view.outcome.as_deref() == Some(QUEUED) {
                    view.outcome = Some("was removed from the landing queue".to_owned());
                }
            }),
            Event::AttemptBeaten { story, attempt, defeat, kept } => self.edit(story, *attempt, |view| {
                view.outcome = Some(defeat_words(defeat));
                view.rescues.push(kept.clone());
            }),
            Event::Noticed { notice } if notice.doubted().is_some() => self.doubt(notice),
            Event::Noticed { notice } => self.notices.push(notice_words(notice)),
            Event::RunStarting { .. }
            | Event::LeftoverKept { .. }
            | Event::RunStarted { .. }
            | Event::CommitsAdopted { .. }
            | Event::EditsAdopted { .. }
            | Event::IdentityMissing {}
            | Event::SourceUnreadable { .. }
            | Event::SourceRead { .. }
            | Event::SourcePutBack { .. }
            | Event::StoriesChanged { .. }
            | Event::StrayMarks { .. }
            | Event::MarksNotSet { .. }
            | Event::GateEnded { .. }
            | Event::WorkspaceReady { .. }
            | Event::AttemptAccepted { .. }
            | Event::BatchFailed { .. }
            | Event::UndoStarted { .. }
            | Event::PauseStarted { .. }
            | Event::PauseEnded { .. }
            | Event::StoryFailed { .. }
            | Event::HintGiven { .. }
            | Event::StorySkipped { .. }
            | Event::StoryRetried { .. }
            | Event::ChangeEdited { .. }
            | Event::RequestRefused { .. }
            | Event::StopRequested { .. }
            | Event::LoopStarted { .. }
            | Event::LoopEnded { .. }
            | Event::FinishStarted { .. }
            | Event::Finished { .. }
            | Event::AbortStarted {}
            | Event::Aborted { .. } => {}
        }
    }

    /// Marks an attempt as done by hand. One that consists only of the user's edits has no start event, so it is added here.
    fn mark_by_hand(&mut self, story: &StoryId, attempt: u32, record: &Record) {
        if self.attempt(story, attempt).is_none() {
            let view = AttemptView { number: attempt, started: Some(record.at), ..AttemptView::default() };
            self.attempts.entry(story.clone()).or_default().push(view);
        }
        self.edit(story, attempt, |view| view.by_hand = true);
    }

    fn take_back(&mut self, stories: &[StoryId], kept: &str) {
        self.undone.push((kept.to_owned(), stories.to_vec()));
        for story in stories {
            let landed = self.attempts.get_mut(story).and_then(|views| views.iter_mut().rev().find(|view| view.checkpoint.is_some()));
            if let Some(view) = landed {
                view.undone = Some(kept.to_owned());
            }
        }
    }

    /// Assigns notices to the attempt that they are about. A repeated step may report them again.
    fn attribute(&mut self, event: &Event) {
        let (story, attempt) = match event {
            Event::AgentEnded { story, attempt, .. }
            | Event::UsageFound { story, attempt, .. }
            | Event::GateEnded { story, attempt, .. }
            | Event::AttemptAccepted { story, attempt }
            | Event::AttemptQueued { story, attempt, .. }
            | Event::AttemptBeaten { story, attempt, .. }
            | Event::AttemptRejected { story, attempt, .. }
            | Event::CheckpointLanded { story, attempt, .. }
            | Event::AttemptRolledBack { story, attempt, .. } => (story, *attempt),
            // The notices came before the first attempt, or between two attempts.
            Event::AttemptStarted { .. } => return self.notices.clear(),
            // The process died during a step. If several attempts were in progress, it is unknown which one the notices are about.
            Event::RunResumed {} if self.state.stories.values().filter(|progress| progress.is_busy()).count() > 1 => {
                return self.notices.clear();
            }
            Event::RunResumed {}
            | Event::RunStarting { .. }
            | Event::LeftoverKept { .. }
            | Event::RunStarted { .. }
            | Event::CommitsAdopted { .. }
            | Event::EditsAdopted { .. }
            | Event::IdentityMissing {}
            | Event::SourceUnreadable { .. }
            | Event::SourceRead { .. }
            | Event::SourcePutBack { .. }
            | Event::StoriesChanged { .. }
            | Event::StrayMarks { .. }
            | Event::MarksNotSet { .. }
            | Event::WorkspaceReady { .. }
            | Event::BatchFailed { .. }
            | Event::UndoStarted { .. }
            | Event::Undone { .. }
            | Event::Noticed { .. }
            | Event::PauseStarted { .. }
            | Event::PauseEnded { .. }
            | Event::StoryFailed { .. }
            | Event::HintGiven { .. }
            | Event::StorySkipped { .. }
            | Event::StoryRetried { .. }
            | Event::DoneByHand { .. }
            | Event::ChangeEdited { .. }
            | Event::RequestRefused { .. }
            | Event::StopRequested { .. }
            | Event::LoopStarted { .. }
            | Event::LoopEnded { .. }
            | Event::FinishStarted { .. }
            | Event::Finished { .. }
            | Event::AbortStarted {}
            | Event::Aborted { .. } => return,
        };
        let notices = std::mem::take(&mut self.notices);
        self.edit(story, attempt, |view| {
            for notice in notices {
                if !view.notices.contains(&notice) {
                    view.notices.push(notice);
                }
            }
        });
    }

    /// Adds a doubt about a checkpoint, unless it is already there: a repeated step reports it again.
    fn doubt(&mut self, notice: &Notice) {
        let view = notice.doubted().and_then(|story| self.attempts.get_mut(story)?.last_mut());
        if let Some(view) = view.filter(|view| !view.doubts.contains(&doubt_words(notice))) {
            view.doubts.push(doubt_words(notice));
        }
    }

    fn edit(&mut self, story: &StoryId, attempt: u32, change: impl FnOnce(&mut AttemptView)) {
        let view = self.attempts.get_mut(story).and_then(|views| views.iter_mut().rev().find(|view| view.number == attempt));
        if let Some(view) = view {
            change(view);
        }
    }

    /// The attempt at a story with the given number. The number of an attempt that was undone may be used again; the last one counts.
    #[must_use]
    pub fn attempt(&self, story: &StoryId, number: u32) -> Option<&AttemptView> {
        self.attempts.get(story)?.iter().rev().find(|view| view.number == number)
    }

    /// When the last attempt at a story began.
    #[must_use]
    pub fn started(&self, story: &StoryId) -> Option<Timestamp> {
        self.attempts.get(story)?.last()?.started
    }

    /// The stories that have an attempt with the given number.
    pub fn stories_with(&self, number: u32) -> impl Iterator<Item = &StoryId> {
        self.attempts.iter().filter(move |(_, views)| views.iter().any(|view| view.number == number)).map(|(story, _)| story)
    }

    /// The numbers of a story's attempts.
    #[must_use]
    pub fn numbers(&self, story: &StoryId) -> Vec<u32> {
        self.attempts.get(story).into_iter().flatten().map(|view| view.number).collect()
    }

    /// The time of the last record.
    #[must_use]
    pub fn last(&self) -> Option<Timestamp> {
        self.working_time.last
    }

    /// How many milliseconds loops were working on the run.
    #[must_use]
    pub fn milliseconds(&self) -> u64 {
        self.working_time.total()
    }

    /// The run as one line.
    #[must_use]
    pub fn view(&self) -> RunView {
        let opening = self.state.opening.as_ref();
        RunView {
            change: opening.map_or_else(String::new, |opening| opening.change.to_string()),
            run: opening.map_or(0, |opening| opening.run),
            state: phase_word(&self.state.phase),
            original: opening.map_or_else(String::new, |opening| head_words(&opening.original)),
            started: self.started,
            done: self.state.stories.keys().filter(|story| self.state.has_landed(story)).count(),
        }
    }

    /// Whether a ref keeps work on a story.
    #[must_use]
    pub fn is_about(&self, name: &str, names: &Names, story: &StoryId) -> bool {
        let is_kept_work = |kind: RefKind| matches!(kind, RefKind::Attempt | RefKind::Queued);
        let attempt = names.kind(name).is_some_and(|own| is_kept_work(own.kind) && own.story() == Some(story.as_component().as_str()));
        attempt || self.undone.iter().any(|(kept, stories)| kept == name && stories.contains(story))
    }
}

impl LogView {
    /// The history of a run, or of one of its stories; `owner` is the process that works on the run, if there is one.
    #[must_use]
    pub fn new(chronicle: &Chronicle, stories: &[Story], only: Option<&StoryId>, owner: Option<u32>, kept: Vec<Kept>) -> Self {
        let story = |story: &Story| StoryLog {
            id: story.id.to_string(),
            title: story.title.clone(),
            attempts: chronicle.attempts.get(&story.id).cloned().unwrap_or_default(),
        };
        let stories = stories.iter().filter(|story| only.is_none_or(|only| story.id == *only)).map(story).collect();
        LogView {
            schema: 1,
            run: chronicle.view(),
            running: owner.is_some(),
            stories,
            summary: None,
            kept,
            earlier_runs: Vec::new(),
            timeline: None,
        }
    }

    /// Adds the summary of the run.
    #[must_use]
    pub fn with_summary(mut self, summary: Option<Summary>) -> Self {
        self.summary = summary;
        self
    }

    /// Adds the timeline of the run as text.
    #[must_use]
    pub fn with_timeline(mut self, timeline: Option<String>) -> Self {
        self.timeline = timeline;
        self
    }

    /// Adds the earlier runs of the change.
    #[must_use]
    pub fn after(mut self, earlier_runs: Vec<RunView>) -> Self {
        self.earlier_runs = earlier_runs;
        self
    }
}

fn when(run: &RunView) -> String {
    run.started.map(|at| at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
}

fn head(run: &RunView, running: bool) -> String {
    let running = if running { ", running" } else { "" };
    let RunView { change, run: number, state, original, .. } = run;
    format!("{change}, run {number}: {state}{running}, from {original}, started {}", when(run))
}

/// The log for people, with secrets masked.
#[must_use]
pub fn log_text(view: &LogView) -> String {
    masked_text(&whole_text(view))
}

fn whole_text(view: &LogView) -> String {
    let mut text = format!("{}\n", console::style(clean(&head(&view.run, view.running))).bold());
    for story in &view.stories {
        let title = if story.title == story.id { String::new() } else { format!(": {}", clean(&story.title)) };
        let _ = writeln!(text, "{}{title}", story.id);
        if story.attempts.is_empty() {
            let _ = writeln!(text, "  no attempt yet");
        }
        for attempt in &story.attempts {
            let _ = writeln!(text, "  {}", attempt_words(attempt, view.running));
            for doubt in &attempt.doubts {
                let _ = writeln!(text, "    {} {doubt}", console::style("warning:").yellow());
            }
            for notice in &attempt.notices {
                let _ = writeln!(text, "    {notice}");
            }
        }
    }
    if let Some(timeline) = &view.timeline {
        let _ = write!(text, "timeline\n{timeline}");
    }
    if let Some(summary) = &view.summary {
        let _ = write!(text, "Summary\n{}", summary_text(summary));
    }
    if !view.kept.is_empty() {
        let _ = writeln!(text, "Saved work");
    }
    for kept in &view.kept {
        kept.write(&mut text);
    }
    if !view.earlier_runs.is_empty() {
        let _ = writeln!(text, "Earlier runs");
    }
    for run in &view.earlier_runs {
        let done = count(run.done, "story");
        let _ = writeln!(text, "  {}: {}, {done} done, started {}", run.run, run.state, when(run));
    }
    text
}

/// The log for programs, with secrets masked.
#[must_use]
pub fn log_json(view: &LogView) -> String {
    super::output::json(&masked_document(view))
}

/// A description of an attempt.
#[must_use]
pub fn attempt_words(attempt: &AttemptView, running: bool) -> String {
    let unsettled = if running { "is under way" } else { "was interrupted" };
    let outcome = attempt.outcome.as_deref().unwrap_or(unsettled);
    let outcome = match outcome {
        "done" => console::style(outcome).green(),
        QUEUED => console::style(outcome).yellow(),
        _ => console::style(outcome).red(),
    };
    let by_hand = if attempt.by_hand { " by hand" } else { "" };
    let mut text = format!("attempt {} {outcome}{by_hand}", attempt.number);
    if let Some(milliseconds) = attempt.milliseconds {
        let _ = write!(text, " ({}{})", span(milliseconds), attempt.used);
    }
    if let Some(checkpoint) = &attempt.checkpoint {
        let _ = write!(text, ", checkpoint {checkpoint}");
    }
    for rescue in &attempt.rescues {
        let _ = write!(text, ", saved as {rescue}");
    }
    if let Some(kept) = &attempt.undone {
        let _ = write!(text, ", undone, saved as {kept}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chronicle(events: &[&str]) -> Chronicle {
        let mut chronicle = Chronicle::default();
        for (at, event) in events.iter().enumerate() {
            let line = format!("{{\"seq\":{},\"at\":\"2026-01-31T12:00:00Z\",{event}}}", at + 1);
            chronicle.take(&serde_json::from_str(&line).unwrap());
        }
        chronicle
    }

    fn started(story: &str, slot: u32) -> String {
        format!("\"event\":\"attempt-started\",\"story\":\"{story}\",\"attempt\":1,\"title\":\"\",\"agent\":\"x\",\"slot\":{slot}")
    }

    fn notices(chronicle: &Chronicle, story: &str) -> Vec<String> {
        chronicle.attempts[&story.parse::<StoryId>().unwrap()][0].notices.clone()
    }

    const MOVED: &str = "\"event\":\"noticed\",\"notice\":{\"kind\":\"nested-moved\",\"path\":\"inner\",\"to\":\"aside\"}";
    const OID: &str = "0123456789012345678901234567890123456789";

    #[test]
    fn a_notice_belongs_to_the_attempt_of_its_step_also_when_another_one_lands_first() {
        let queued =
            |story: &str| format!("\"event\":\"attempt-queued\",\"story\":\"{story}\",\"attempt\":1,\"commit\":\"{OID}\",\"files\":1");
        let landed =
            |story: &str| format!("\"event\":\"checkpoint-landed\",\"story\":\"{story}\",\"attempt\":1,\"commit\":\"{OID}\",\"files\":1");
        let chronicle = chronicle(&[
            &started("a", 0),
            &started("b", 1),
            &queued("b"),
            MOVED,
            &queued("a"),
            &started("c", 0),
            &landed("b"),
            &landed("a"),
        ]);
        assert_eq!((notices(&chronicle, "a").len(), notices(&chronicle, "b").len(), notices(&chronicle, "c").len()), (1, 0, 0));
    }

    #[test]
    fn a_notice_of_a_step_that_was_cut_short_is_attributed_only_if_one_attempt_was_under_way() {
        let resumed = "\"event\":\"run-resumed\"";
        let back = |story: &str| {
            format!("\"event\":\"attempt-rolled-back\",\"story\":\"{story}\",\"attempt\":1,\"rescue\":\"refs/x\",\"files\":1")
        };
        let one = chronicle(&[&started("a", 0), MOVED, resumed, MOVED, &back("a")]);
        assert_eq!(notices(&one, "a").len(), 1, "and a step that is repeated says it once");
        let two = chronicle(&[&started("a", 0), &started("b", 1), MOVED, resumed, &back("b"), &back("a")]);
        assert_eq!((notices(&two, "a").len(), notices(&two, "b").len()), (0, 0));
    }
}
