//! A run looked back at: its attempts in order, and what was taken out on the way and is kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::kept::without_run;
use super::status::phase_word;
use super::words::{head_words, outcome_words, span, usage_words};
use super::{Kept, clean};
use crate::run::{Event, Record, RunState, Usage};
use crate::story::{Story, StoryId};

/// What a journal says about attempts: a fold of its records.
#[derive(Debug, Default)]
pub struct Chronicle {
    state: RunState,
    started: Option<Timestamp>,
    attempts: BTreeMap<StoryId, Vec<AttemptView>>,
    undone: Vec<(String, Vec<StoryId>)>,
}

/// Everything that `log` shows.
#[derive(Debug)]
pub struct LogView {
    head: String,
    running: bool,
    stories: Vec<StoryLog>,
    kept: Vec<Kept>,
}

#[derive(Debug)]
struct StoryLog {
    id: String,
    title: String,
    attempts: Vec<AttemptView>,
}

#[derive(Clone, Debug, Default)]
struct AttemptView {
    number: u32,
    outcome: Option<String>,
    milliseconds: Option<u64>,
    usage: Usage,
    checkpoint: Option<String>,
    rescues: Vec<String>,
    undone: Option<String>,
}

impl Chronicle {
    /// Takes a record in.
    pub fn take(&mut self, record: &Record) {
        self.state.apply(&record.event);
        self.started.get_or_insert(record.at);
        match &record.event {
            Event::AttemptStarted { story, attempt, .. } => {
                self.attempts.entry(story.clone()).or_default().push(AttemptView { number: *attempt, ..AttemptView::default() });
            }
            // An agent that was at work when its watcher died is nobody's now.
            Event::RunResumed {} => {
                let working = |view: &&mut AttemptView| view.outcome.is_none() && view.milliseconds.is_none();
                for view in self.attempts.values_mut().filter_map(|views| views.last_mut()).filter(working) {
                    view.outcome = Some("was interrupted".to_owned());
                }
            }
            Event::Undone { stories, kept, .. } => {
                self.undone.push((kept.clone(), stories.clone()));
                for story in stories {
                    let landed =
                        self.attempts.get_mut(story).and_then(|views| views.iter_mut().rev().find(|view| view.checkpoint.is_some()));
                    if let Some(view) = landed {
                        view.undone = Some(kept.clone());
                    }
                }
            }
            event => self.take_in_attempt(event),
        }
    }

    fn take_in_attempt(&mut self, event: &Event) {
        match event {
            Event::AgentEnded { story, attempt, milliseconds, usage, .. } => self.edit(story, *attempt, |view| {
                view.milliseconds = Some(*milliseconds);
                view.usage = usage.clone();
            }),
            Event::UsageFound { story, attempt, usage } => self.edit(story, *attempt, |view| view.usage = usage.clone()),
            Event::AttemptRejected { story, attempt, outcome } => {
                self.edit(story, *attempt, |view| view.outcome = Some(outcome_words(outcome)));
            }
            Event::CheckpointLanded { story, attempt, commit, .. } => self.edit(story, *attempt, |view| {
                view.outcome = Some("done".to_owned());
                view.checkpoint = Some(commit.short().to_owned());
            }),
            Event::AttemptRolledBack { story, attempt, rescue, .. } => self.edit(story, *attempt, |view| view.rescues.push(rescue.clone())),
            _ => {}
        }
    }

    fn edit(&mut self, story: &StoryId, attempt: u32, change: impl FnOnce(&mut AttemptView)) {
        let view = self.attempts.get_mut(story).and_then(|views| views.iter_mut().rev().find(|view| view.number == attempt));
        if let Some(view) = view {
            change(view);
        }
    }

    /// Whether a ref keeps something of a story; `rest` is its name without `refs/ralph/<change>/`.
    #[must_use]
    pub fn is_about(&self, rest: &str, story: &StoryId) -> bool {
        let attempt = format!("attempts/{}/", story.as_component());
        let undone = self.undone.iter().any(|(kept, stories)| kept.ends_with(&format!("/{rest}")) && stories.contains(story));
        without_run(rest).starts_with(&attempt) || undone
    }
}

impl LogView {
    /// Looks back at a run, or at one story of it; `owner` is the process that has it, if one has.
    #[must_use]
    pub fn new(chronicle: &Chronicle, stories: &[Story], only: Option<&StoryId>, owner: Option<u32>, kept: Vec<Kept>) -> Self {
        let story = |story: &Story| StoryLog {
            id: story.id.to_string(),
            title: story.title.clone(),
            attempts: chronicle.attempts.get(&story.id).cloned().unwrap_or_default(),
        };
        let stories = stories.iter().filter(|story| only.is_none_or(|only| story.id == *only)).map(story).collect();
        LogView { head: head(chronicle, owner.is_some()), running: owner.is_some(), stories, kept }
    }
}

fn head(chronicle: &Chronicle, running: bool) -> String {
    let state = &chronicle.state;
    let running = if running { ", running" } else { "" };
    let when = chronicle.started.map(|at| at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default();
    let (change, run, original) = state
        .opening
        .as_ref()
        .map_or_else(Default::default, |opening| (opening.change.to_string(), opening.run, head_words(&opening.original)));
    format!("{change}, run {run}: {}{running}, from {original}, started {when}", phase_word(&state.phase))
}

/// The log for people.
#[must_use]
pub fn log_text(view: &LogView) -> String {
    let mut text = format!("{}\n", clean(&view.head));
    for story in &view.stories {
        let title = if story.title == story.id { String::new() } else { format!(": {}", clean(&story.title)) };
        let _ = writeln!(text, "{}{title}", story.id);
        if story.attempts.is_empty() {
            let _ = writeln!(text, "  no attempt yet");
        }
        for attempt in &story.attempts {
            let _ = writeln!(text, "  {}", attempt_words(attempt, view.running));
        }
    }
    if !view.kept.is_empty() {
        let _ = writeln!(text, "what was taken out and is kept");
    }
    for kept in &view.kept {
        kept.write(&mut text);
    }
    text
}

fn attempt_words(attempt: &AttemptView, running: bool) -> String {
    let unsettled = if running { "is under way" } else { "was cut short" };
    let mut text = format!("attempt {} {}", attempt.number, attempt.outcome.as_deref().unwrap_or(unsettled));
    if let Some(milliseconds) = attempt.milliseconds {
        let _ = write!(text, " ({}{})", span(milliseconds), usage_words(&attempt.usage));
    }
    if let Some(checkpoint) = &attempt.checkpoint {
        let _ = write!(text, ", checkpoint {checkpoint}");
    }
    for rescue in &attempt.rescues {
        let _ = write!(text, ", kept as {rescue}");
    }
    if let Some(kept) = &attempt.undone {
        let _ = write!(text, ", undone, kept as {kept}");
    }
    text
}
