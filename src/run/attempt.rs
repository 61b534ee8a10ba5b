//! One attempt: the agent with its prompt on stdin, its output to the transcript and the screen.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Zoned;

use super::Event;
use super::orchestrator::Workshop;
use crate::agent::{Feedback, Learnings, Prompt, Reader, Said};
use crate::process::{Flow, Stream, Supervised, Trail, Watch, supervise};
use crate::regular;
use crate::report::Activity;
use crate::story::{Change, Story, StoryId};

/// More than a prompt carries.
const MOST_LEARNINGS: u64 = 64 * 1024;

/// The variable that marks every process of an attempt.
pub(crate) const MARK: &str = "RALPH_RUN";

impl Workshop<'_> {
    /// Runs the agent once for a story.
    pub(super) async fn attempt(&self, change: &Change, story: &Story, attempt: u32, feedback: Option<&Feedback>) -> Result<Event> {
        let gates = self.gates(story);
        let learnings = self.learnings();
        let template = self.template;
        let prompt = Prompt { change, story, attempt, gates: &gates, feedback, learnings: Some(&learnings), template }.render()?;
        let dir = self.run.attempt(&story.id, attempt);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        private_file(&dir.join("prompt.md"))?.write_all(prompt.as_bytes())?;
        if let Some(source) = self.source {
            // What cannot be read is complained about elsewhere, and there is nothing to compare with then.
            if let Ok(text) = source.text() {
                private_file(&self.run.source_copy(&story.id, attempt))?.write_all(text.as_bytes())?;
            }
        }
        let mut transcript = Record { out: private_file(&dir.join("stdout"))?, err: private_file(&dir.join("stderr"))? };

        let program = self.agent.program(self.child_environment(story, attempt), &self.keeper.repo.place.top);
        let watch = Watch {
            limit: story.attempt_timeout.or(self.settings.attempt_timeout.value),
            idle: self.settings.idle_timeout.value,
            linger: self.settings.linger_timeout.value,
            grace: self.settings.grace.value,
        };
        let mut reader = Reader::new(self.agent.format);
        let mut stop = self.stop.clone();
        let sink = |stream, bytes: &[u8]| -> io::Result<Flow> {
            transcript.write(stream, bytes)?;
            match stream {
                Stream::Stdout => reader.feed(bytes, &mut |said| self.tell(&story.id, said)),
                Stream::Stderr => reader.feed_stderr(bytes),
            }
            Ok(match (reader.concluded(), reader.may_go_on()) {
                (true, true) => Flow::Concluded,
                (true, false) => Flow::Over,
                (false, _) => Flow::Going,
            })
        };
        let trail = Trail::begin(MARK, &self.mark(story, attempt));
        let ran = supervise(&program, prompt.as_bytes(), watch, &mut stop, sink).await;
        let survivors = trail.end_after_child(watch.grace).await;
        let Supervised { exit, duration } = ran.with_context(|| format!("cannot write the transcript in {}", dir.display()))?;
        let heard = reader.finish(&exit, &Zoned::now());
        Ok(Event::AgentEnded {
            story: story.id.clone(),
            attempt,
            exit,
            signal: heard.signal,
            trouble: heard.trouble,
            usage: heard.usage,
            milliseconds: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            survivors,
        })
    }

    /// What earlier attempts left to say; the file is there from the first one on, so that adding to it just works.
    fn learnings(&self) -> Learnings {
        let path = self.run.learnings();
        regular::touch(&path);
        // Whatever an agent has made of the file, it is no reason to stop.
        let text = regular::tail(&path, MOST_LEARNINGS).unwrap_or_default();
        Learnings { file: path.display().to_string(), text: String::from_utf8_lossy(&text).into_owned() }
    }

    fn tell(&self, story: &StoryId, said: Said<'_>) {
        self.reporter.activity(&match said {
            Said::Text(line) => Activity::Said { story, line },
            Said::Tool { name, target } => Activity::Did { story, tool: name, target },
        });
    }

    /// What marks the processes of one attempt.
    pub(super) fn mark(&self, story: &Story, attempt: u32) -> String {
        format!("{}/{}/{attempt}/", self.id, story.id.as_component())
    }

    /// What agents and gates get to see of the environment.
    pub(super) fn child_environment(&self, story: &Story, attempt: u32) -> Vec<(OsString, OsString)> {
        self.environment.for_children(&[
            ("RALPH_CHANGE", self.run.change.as_str().into()),
            ("RALPH_STORY", story.id.as_str().into()),
            ("RALPH_ATTEMPT", attempt.to_string().into()),
            ("RALPH_RUN_DIR", self.run.path().into()),
            ("RALPH_LEARNINGS", self.run.learnings().into()),
            (MARK, self.mark(story, attempt).into()),
        ])
    }
}

/// The files that an agent's output goes to.
struct Record {
    out: File,
    err: File,
}

impl Record {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        match stream {
            Stream::Stdout => self.out.write_all(bytes),
            Stream::Stderr => self.err.write_all(bytes),
        }
    }
}

/// What an agent was told and said is nobody else's business.
fn private_file(path: &Path) -> Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot create {}", path.display()))
}
