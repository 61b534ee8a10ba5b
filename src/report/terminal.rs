//! The terminal: a bar over the stories, what is running, and the agent's last line; events as lines above it.

use std::cell::RefCell;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::words::{activity_warning, time_words};
use super::{Tone, clean, event_lines, output};
use crate::run::{Activity, Event, Record, Reporter, RunState};

/// Tells events on a screen.
#[derive(Debug)]
pub struct Terminal {
    screen: MultiProgress,
    stories: ProgressBar,
    running: RefCell<Option<ProgressBar>>,
}

impl Default for Terminal {
    fn default() -> Self {
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let stories = screen.add(ProgressBar::new(0));
        stories.set_style(style("{bar:30} {pos}/{len} stories  {elapsed}"));
        Terminal { screen, stories, running: RefCell::new(None) }
    }
}

impl Terminal {
    fn say(&self, tone: Tone, text: &str) {
        let _ = self.screen.println(output::prefixed(&super::Line::new(tone, text)));
    }

    fn run(&self, title: String) {
        let spinner = self.screen.insert_before(&self.stories, ProgressBar::new_spinner());
        spinner.set_style(style("{spinner} {prefix}  {elapsed}  {wide_msg}"));
        spinner.set_prefix(title);
        spinner.enable_steady_tick(Duration::from_millis(120));
        self.settle();
        *self.running.borrow_mut() = Some(spinner);
    }

    fn show(&self, message: String) {
        if let Some(spinner) = &*self.running.borrow() {
            spinner.set_message(message);
        }
    }

    fn settle(&self) {
        if let Some(spinner) = self.running.borrow_mut().take() {
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
            Event::AttemptStarted { story, attempt, .. } => self.run(format!("{story} (attempt {attempt})")),
            Event::CheckpointLanded { .. } => {
                self.settle();
                self.stories.inc(1);
            }
            Event::AttemptRolledBack { .. } | Event::PauseEnded { .. } => self.settle(),
            Event::PauseStarted { story, .. } => self.run(format!("{story} waits")),
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
            Activity::Said { line, .. } => self.show(clean(line)),
            Activity::Did { tool, target, .. } => self.show(clean(&format!("{tool} {target}"))),
            Activity::GateStarted { command, .. } => self.show(format!("gate: {}", clean(command))),
            Activity::CallbackFailed { .. } | Activity::SourceNotCarried { .. } => {
                if let Some(line) = activity_warning(activity) {
                    self.say(line.tone, &line.text);
                }
            }
            Activity::Waiting { until, .. } => self.show(format!("until {}", time_words(*until))),
        }
    }

    fn rest(&self) {
        self.settle();
        self.stories.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
