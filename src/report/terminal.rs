//! The terminal: a bar over the stories, what is running, and the agent's last line; events as lines above it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::words::{activity_lines, time_words};
use super::{Tone, clean, event_lines, output};
use crate::run::{Activity, Event, Record, Reporter, RunState};
use crate::story::StoryId;

/// Tells events on a screen.
#[derive(Debug)]
pub struct Terminal {
    screen: MultiProgress,
    stories: ProgressBar,
    /// A line for each thing that goes on.
    running: RefCell<BTreeMap<Row, ProgressBar>>,
}

/// What a line is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    /// A story that is being worked on, or that the run waits after.
    Story(StoryId),
    /// The landing that is being tested.
    Landing,
    /// A private clone that is being set up.
    Workspace(String),
}

impl Default for Terminal {
    fn default() -> Self {
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let stories = screen.add(ProgressBar::new(0));
        stories.set_style(style("{bar:30} {pos}/{len} stories  {elapsed}"));
        Terminal { screen, stories, running: RefCell::default() }
    }
}

impl Terminal {
    fn say(&self, tone: Tone, text: &str) {
        let _ = self.screen.println(output::prefixed(&super::Line::new(tone, text)));
    }

    fn run(&self, row: Row, title: String) {
        self.settle(&row);
        let spinner = self.screen.insert_before(&self.stories, ProgressBar::new_spinner());
        spinner.set_style(style("{spinner} {prefix}  {elapsed}  {wide_msg}"));
        spinner.set_prefix(title);
        spinner.enable_steady_tick(Duration::from_millis(120));
        self.running.borrow_mut().insert(row, spinner);
    }

    fn show(&self, row: &Row, message: String) {
        if let Some(spinner) = self.running.borrow().get(row) {
            spinner.set_message(message);
        }
    }

    fn settle(&self, row: &Row) {
        if let Some(spinner) = self.running.borrow_mut().remove(row) {
            spinner.finish_and_clear();
        }
    }
}

impl Reporter for Terminal {
    fn event(&self, record: &Record, state: &RunState) {
        for line in event_lines(&record.event, state) {
            self.say(line.tone, &line.text);
        }
        match &record.event {
            Event::AttemptStarted { story, attempt, slot, .. } => {
                let slot = if state.is_isolated() { format!("{}: ", slot + 1) } else { String::new() };
                self.run(Row::Story(story.clone()), format!("{slot}{story} (attempt {attempt})"));
            }
            Event::CheckpointLanded { story, .. } => {
                self.settle(&Row::Story(story.clone()));
                self.settle(&Row::Landing);
                self.stories.inc(1);
            }
            Event::AttemptQueued { story, .. } | Event::AttemptRolledBack { story, .. } | Event::PauseEnded { story } => {
                self.settle(&Row::Story(story.clone()));
            }
            Event::AttemptBeaten { .. } | Event::BatchFailed { .. } | Event::CommitsAdopted { .. } => self.settle(&Row::Landing),
            Event::WorkspaceReady { slot, .. } => self.settle(&Row::Workspace((slot + 1).to_string())),
            Event::PauseStarted { story, .. } => self.run(Row::Story(story.clone()), format!("{story} waits")),
            Event::LoopEnded { .. } => self.rest(),
            Event::RunStarting { .. }
            | Event::LeftoverKept { .. }
            | Event::RunStarted { .. }
            | Event::RunResumed {}
            | Event::EditsAdopted { .. }
            | Event::IdentityMissing {}
            | Event::SourceUnreadable { .. }
            | Event::SourceRead { .. }
            | Event::SourcePutBack { .. }
            | Event::StoriesChanged { .. }
            | Event::StrayMarks { .. }
            | Event::MarksNotSet { .. }
            | Event::AgentEnded { .. }
            | Event::UsageFound { .. }
            | Event::GateEnded { .. }
            | Event::AttemptAccepted { .. }
            | Event::AttemptRejected { .. }
            | Event::UndoStarted { .. }
            | Event::Undone { .. }
            | Event::Noticed { .. }
            | Event::StoryFailed { .. }
            | Event::StopRequested { .. }
            | Event::FinishStarted { .. }
            | Event::Finished { .. }
            | Event::AbortStarted {}
            | Event::Aborted { .. } => {}
        }
    }

    fn activity(&self, activity: &Activity<'_>) {
        match activity {
            Activity::Planned { done, total } => {
                self.stories.set_length(*total as u64);
                self.stories.set_position(*done as u64);
            }
            Activity::Said { story, line } => self.show(&Row::Story((*story).clone()), clean(line)),
            Activity::Did { story, tool, target } => self.show(&Row::Story((*story).clone()), clean(&format!("{tool} {target}"))),
            Activity::GateStarted { story, command } => {
                let row = Row::Story((*story).clone());
                // The gates of a landing run when the attempt of the story has left its workspace.
                let row = if self.running.borrow().contains_key(&row) { row } else { Row::Landing };
                self.show(&row, format!("gate: {}", clean(command)));
            }
            Activity::Landing { stories } => {
                self.settle(&Row::Workspace("landing".to_owned()));
                let stories: Vec<&str> = stories.iter().map(StoryId::as_str).collect();
                self.run(Row::Landing, format!("landing {}", stories.join(", ")));
            }
            Activity::SettingUp { workspace, command } => {
                let row = Row::Workspace((*workspace).to_owned());
                if !self.running.borrow().contains_key(&row) {
                    self.run(row.clone(), format!("workspace {workspace}"));
                }
                self.show(&row, format!("setup: {}", clean(command)));
            }
            Activity::CallbackFailed { .. }
            | Activity::SourceNotCarried { .. }
            | Activity::NotCopied { .. }
            | Activity::SourceEdited { .. } => {
                for line in activity_lines(activity) {
                    self.say(line.tone, &line.text);
                }
            }
            Activity::Waiting { story, until } => self.show(&Row::Story((*story).clone()), format!("until {}", time_words(*until))),
        }
    }

    fn rest(&self) {
        self.running.borrow_mut().values().for_each(ProgressBar::finish_and_clear);
        self.running.borrow_mut().clear();
        self.stories.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
