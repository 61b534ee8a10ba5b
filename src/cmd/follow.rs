//! `git ralph log --follow`: shows a running loop in another terminal.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::context::Context;
use super::log::format_of;
use crate::agent::{Format, Said};
use crate::error::ExitStatus;
use crate::report::{Line, Mask, Tone, event_lines, mask_json, masked_words, output, said_line};
use crate::run::{Event, Follower, Record, RunDir, RunState, Transcript};
use crate::story::StoryId;

const POLL: Duration = Duration::from_millis(200);

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Lines for people, with the agent's output.
    Words,
    /// One event per line.
    Json,
}

/// The run that is followed, as far as it has been read.
struct Pursuit<'a> {
    context: &'a Context,
    run: &'a RunDir,
    only: Option<&'a StoryId>,
    telling: Telling,
    state: RunState,
    at_work: BTreeMap<StoryId, Watched>,
    heard: bool,
    mask: Mask,
}

/// An attempt that is in progress.
struct Watched {
    stdout: PathBuf,
    format: Format,
    /// `None` until the file exists: the journal announces an agent before it is started.
    transcript: Option<Transcript>,
}

/// Prints what happens until no process works on the run any more, or standard output is closed.
pub async fn follow(context: &Context, run: &RunDir, only: Option<&StoryId>, telling: Telling) -> Result<ExitStatus> {
    let mut follower = Follower::new(run.journal());
    let mut pursuit =
        Pursuit { context, run, only, telling, state: RunState::default(), at_work: BTreeMap::new(), heard: true, mask: Mask::default() };
    pursuit.catch_up(&mut follower)?;
    loop {
        // Checked before reading, so that everything the loop wrote before it ended is read below.
        let owner = context.store.owner(&pursuit.state);
        pursuit.catch_up(&mut follower)?;
        if owner.is_none() || !pursuit.heard {
            pursuit.tell_masked();
            return Ok(ExitStatus::Done);
        }
        tokio::time::sleep(POLL).await;
    }
}

impl Pursuit<'_> {
    fn catch_up(&mut self, follower: &mut Follower) -> Result<()> {
        follower.more(|record| self.take(record))?;
        self.listen();
        Ok(())
    }

    fn take(&mut self, record: &Record) {
        if let Event::AgentEnded { story, .. } = &record.event {
            self.listen_to_the_end_of(story);
        }
        if record.event == (Event::RunResumed {}) {
            for story in self.at_work.keys().cloned().collect::<Vec<_>>() {
                self.listen_to_the_end_of(&story);
            }
        }
        self.state.apply(&record.event);
        if self.telling == Telling::Json {
            if let Ok(mut event) = serde_json::to_value(record) {
                mask_json(&mut event, &mut self.mask);
                self.heard &= output::try_data(&format!("{event}\n"));
            }
            return;
        }
        for line in event_lines(&record.event, &self.state) {
            self.say(&line.text);
        }
        if let Event::AttemptStarted { story, attempt, agent, .. } = &record.event
            && self.only.is_none_or(|only| only == story)
        {
            let stdout = self.run.attempt(story, *attempt).join("stdout");
            self.at_work.insert(story.clone(), Watched { stdout, format: format_of(self.context, agent), transcript: None });
        }
    }

    /// Prints what the agents have said since the last call.
    fn listen(&mut self) {
        let mut lines = Vec::new();
        for (story, watched) in &mut self.at_work {
            lines.extend(watched.read(story, |transcript, each| transcript.more(each)));
        }
        lines.iter().for_each(|line| self.say(line));
    }

    fn listen_to_the_end_of(&mut self, story: &StoryId) {
        let Some(mut watched) = self.at_work.remove(story) else { return };
        let lines = watched.read(story, |transcript, each| transcript.rest(each));
        lines.iter().for_each(|line| self.say(line));
    }

    fn say(&mut self, line: &str) {
        self.heard &= output::try_data(&format!("{}\n", self.mask.line(line)));
    }

    fn tell_masked(&self) {
        if self.mask.count > 0 {
            output::message(&Line::new(Tone::Plain, masked_words(self.mask.count)));
        }
    }
}

impl Watched {
    /// Reads from the transcript, and returns the result as lines.
    fn read(&mut self, story: &StoryId, read: impl Fn(&mut Transcript, &mut dyn FnMut(Said<'_>)) -> std::io::Result<()>) -> Vec<String> {
        let Watched { stdout, format, transcript } = self;
        if transcript.is_none() {
            *transcript = Transcript::open(stdout, *format).ok();
        }
        let Some(transcript) = transcript else { return Vec::new() };
        let mut lines = Vec::new();
        let mut each = |said: Said<'_>| {
            lines.push(match said {
                Said::Text(text) => format!("{story}| {}", said_line(None, text)),
                Said::Tool { name, target } => format!("{story}{}", said_line(Some(name), target)),
            });
        };
        // Events are still printed if the transcript can no longer be read.
        let _ = read(transcript, &mut each);
        lines
    }
}
