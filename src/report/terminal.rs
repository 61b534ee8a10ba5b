//! The terminal: a bar over the stories, what is running, and the agent's last line; events as lines above it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::words::{activity_warning, time_words};
use super::{Tone, clean, event_lines, output};
use crate::run::{Activity, Event, Record, Reporter, RunState};
use crate::story::StoryId;

/// Tells events on a screen.
#[derive(Debug)]
pub struct Terminal {
    screen: MultiProgress,
    stories: ProgressBar,
    /// A line for each story that is being worked on, and one for what belongs to none.
    running: RefCell<BTreeMap<Option<StoryId>, ProgressBar>>,
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

    fn run(&self, story: Option<&StoryId>, title: String) {
        self.settle(story);
        let spinner = self.screen.insert_before(&self.stories, ProgressBar::new_spinner());
        spinner.set_style(style("{spinner} {prefix}  {elapsed}  {wide_msg}"));
        spinner.set_prefix(title);
        spinner.enable_steady_tick(Duration::from_millis(120));
        self.running.borrow_mut().insert(story.cloned(), spinner);
    }

    fn show(&self, story: Option<&StoryId>, message: String) {
        if let Some(spinner) = self.running.borrow().get(&story.cloned()) {
            spinner.set_message(message);
        }
    }

    fn settle(&self, story: Option<&StoryId>) {
        if let Some(spinner) = self.running.borrow_mut().remove(&story.cloned()) {
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
                let slot = if state.is_isolated() { format!("{} ", slot + 1) } else { String::new() };
                self.run(Some(story), format!("{slot}{story} (attempt {attempt})"));
            }
            Event::CheckpointLanded { story, .. } => {
                self.settle(Some(story));
                self.settle(None);
                self.stories.inc(1);
            }
            Event::AttemptQueued { story, .. } | Event::AttemptRolledBack { story, .. } | Event::PauseEnded { story } => {
                self.settle(Some(story));
            }
            Event::AttemptBeaten { .. } | Event::BatchFailed { .. } => self.settle(None),
            Event::PauseStarted { story, .. } => self.run(Some(story), format!("{story} waits")),
            Event::LoopEnded { .. } => self.rest(),
            Event::RunStarting { .. }
            | Event::LeftoverKept { .. }
            | Event::RunStarted { .. }
            | Event::RunResumed {}
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
            Activity::Said { story, line } => self.show(Some(story), clean(line)),
            Activity::Did { story, tool, target } => self.show(Some(story), clean(&format!("{tool} {target}"))),
            Activity::GateStarted { story, command } => {
                let landing = !self.running.borrow().contains_key(&Some((*story).clone()));
                self.show(if landing { None } else { Some(story) }, format!("gate: {}", clean(command)));
            }
            Activity::Landing { story } => self.run(None, format!("landing {story}")),
            Activity::CallbackFailed { .. } | Activity::SourceNotCarried { .. } => {
                if let Some(line) = activity_warning(activity) {
                    self.say(line.tone, &line.text);
                }
            }
            Activity::Waiting { story, until } => self.show(Some(story), format!("until {}", time_words(*until))),
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
