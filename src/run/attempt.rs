//! Runs one attempt: starts the agent with its prompt on standard input, and sends its output to the transcript and the reporter.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jiff::Zoned;

use super::child_program::{MARK, end_leftovers, milliseconds};
use super::remote::elsewhere;
use super::step_runner::{AgentSetup, Ground, StepRunner, Task};
use super::{Activity, Event, RunDir};
use crate::agent::{Feedback, Format, Learnings, Prompt, Reader, Said, Signal, Template};
use crate::process::{Flow, Place, StopHandle, Stream, Supervised, Trail, Urgency, Watch};
use crate::runner::{Heard, Runner, supervise};
use crate::story::{Story, StoryId};
use crate::{safe_read, safe_write};

/// How much of the learnings file is read. A prompt uses less.
const MOST_LEARNINGS: u64 = 64 * 1024;

/// How many tool names are counted separately, and how many characters of a name are kept.
const MOST_TOOLS: usize = 40;
const LONGEST_TOOL: usize = 60;

impl StepRunner<'_> {
    /// Runs the agent once for a story.
    pub(super) async fn attempt(&self, ground: &Ground, task: &Task, attempt: u32, feedback: Option<&Feedback>) -> Result<Vec<Event>> {
        let AgentSetup { agent, template } = self.agent.context("there is no agent to start")?;
        let story = task.story()?;
        let runner = Runner::of_agents(self.settings);
        let remote = self.remote_attempt(&runner, story, attempt, &task.base.checkpoint)?;
        let learnings = if remote.is_some() { elsewhere(self.learnings()) } else { self.learnings() };
        let prompt = self.prompt(task, attempt, feedback, template, &learnings)?;
        let dir = self.prepare_attempt_dir(&story.id, attempt)?;
        private_file(&dir.join("prompt.md"))?.write_all(prompt.as_bytes())?;
        let (launch, input) = match &remote {
            Some(remote) => self.worker(remote, ground, (story, attempt), (agent, &runner), (&learnings, &prompt)).await?,
            None => (self.agent_program(ground, story, attempt, agent, &runner), prompt.into_bytes()),
        };
        let watch = self.watch(story);
        let mut listener = Listener::new(agent.format, &dir)?;
        let (handle, mut stop) = self.agents.stop(&story.id);
        if let Some(shim) = &launch.shim {
            self.reporter.activity(&Activity::WaitingForRunner { story: &story.id, runner: shim.runner() });
        }
        let top = &ground.workspace.repo.place.top;
        let sink = |heard: Heard<'_>| self.hear(top, &story.id, heard, &mut listener);
        let trail = Trail::begin(MARK, &self.mark(&story.id, attempt));
        let ran = match self.send_ahead(remote.as_ref()).await {
            Err(error) => Ok(Supervised::not_started(format!("{error:#}"))),
            Ok(()) => tokio::select! {
                ran = supervise(&launch, &input, watch, &mut stop, sink) => ran,
                never = self.pass_stop_on(&handle) => match never {},
            },
        };
        let survivors = end_leftovers(&trail, &runner, watch.grace).await;
        let ran = ran.with_context(|| format!("cannot write the transcript in {}", dir.display()))?;
        let left = self.left_running(&launch, &ran, story);
        let Supervised { exit, duration, waited, .. } = ran;
        let (exit, brought) = match &remote {
            Some(remote) => self.collect(remote, ground, &story.id, exit, listener.arrived).await?,
            None => (exit, Vec::new()),
        };
        self.in_flight.forget(&story.id);
        let report = listener.reader.finish(&exit, &Zoned::now());
        let words = if report.signal == Signal::Nothing { report.words } else { String::new() };
        let ended = Event::AgentEnded {
            story: story.id.clone(),
            attempt,
            exit,
            signal: report.signal,
            trouble: report.trouble,
            usage: report.usage,
            milliseconds: milliseconds(duration),
            waited_milliseconds: milliseconds(waited),
            survivors,
            words,
            tools: listener.tools.0,
        };
        Ok(left.into_iter().chain(brought).chain([ended]).collect())
    }

    /// The time limits of an attempt.
    fn watch(&self, story: &Story) -> Watch {
        Watch {
            limit: story.attempt_timeout.or(self.settings.attempt_timeout.value),
            idle: self.settings.idle_timeout.value,
            linger: self.settings.linger_timeout.value,
            grace: self.settings.grace.value,
            place: Place::Here,
        }
    }

    /// Handles a piece of output of an agent or its runner. Returns what it means for the time limits.
    fn hear(&self, top: &Path, story: &StoryId, heard: Heard<'_>, listener: &mut Listener) -> io::Result<Flow> {
        let Listener { reader, tools, transcript, arrived } = listener;
        match heard {
            Heard::Begun => self.reporter.activity(&Activity::Begun { story }),
            Heard::Output(stream, bytes) => {
                transcript.write(stream, bytes)?;
                match stream {
                    Stream::Stdout => {
                        *arrived += u64::try_from(bytes.len()).unwrap_or_default();
                        reader.feed(bytes, &mut |said| self.tell(top, story, tools.note(said)));
                        self.in_flight.note(story, || reader.usage());
                    }
                    Stream::Stderr => reader.feed_stderr(bytes),
                }
            }
            // The runner's own output does not influence any decision.
            Heard::Runner(bytes) => {
                transcript.write(Stream::Stderr, bytes)?;
                return Ok(Flow::Going);
            }
        }
        self.reporter.activity(&Activity::Heard { story, usage: &reader.usage() });
        Ok(match (reader.concluded(), reader.may_go_on()) {
            (true, true) => Flow::Concluded,
            (true, false) => Flow::Over,
            (false, _) if self.in_flight.is_spent() => Flow::Unwanted,
            (false, _) => Flow::Going,
        })
    }

    fn prompt(
        &self,
        task: &Task,
        attempt: u32,
        feedback: Option<&Feedback>,
        template: Option<&Template>,
        learnings: &Learnings,
    ) -> Result<String> {
        let (story, learnings) = (task.story()?, Some(learnings));
        let (change, gates, hints) = (&task.change, &task.gates.commands, &task.hints);
        Prompt { change, story, attempt, gates, feedback, hints, learnings, template }.render()
    }

    /// Ends this attempt when the whole loop is asked to stop now.
    pub(super) async fn pass_stop_on(&self, handle: &StopHandle) -> Infallible {
        let urgency = self.stop.clone().reached(Urgency::Now).await;
        handle.raise(urgency);
        std::future::pending().await
    }

    /// Creates the directory of a new attempt, with a copy of the stories' source for later comparison.
    pub(super) fn prepare_attempt_dir(&self, story: &StoryId, attempt: u32) -> Result<PathBuf> {
        let dir = self.new_attempt_dir(story, attempt)?;
        // If the source cannot be read, another place reports that, and there is nothing to compare with.
        if let Some(text) = self.source.and_then(|source| source.text().ok()) {
            private_file(&self.run.source_copy(story, attempt))?.write_all(text.as_bytes())?;
        }
        Ok(dir)
    }

    /// Creates a new directory for an attempt. An earlier agent may have put something else in its place.
    fn new_attempt_dir(&self, story: &StoryId, attempt: u32) -> Result<PathBuf> {
        let (dir, below) = (self.run.attempt(story, attempt), RunDir::attempt_below(story, attempt));
        let above = below.parent().unwrap_or(&below);
        let made = safe_write::real_dirs(self.run.path(), above).and_then(|_| safe_write::new_dir(&dir));
        made.with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }

    /// The learnings of earlier attempts. The file exists from the first attempt on, so that agents can append to it.
    fn learnings(&self) -> Learnings {
        let path = self.run.learnings();
        safe_read::touch(&path);
        // An unreadable file must not stop the attempt, whatever an agent did to it.
        let text = safe_read::tail(&path, MOST_LEARNINGS).unwrap_or_default();
        Learnings { file: path.display().to_string(), text: String::from_utf8_lossy(&text).into_owned() }
    }

    /// Reports what the agent says and does. Paths in its workspace are shown relative to it.
    fn tell(&self, top: &Path, story: &StoryId, said: Said<'_>) {
        match said {
            Said::Text(line) => self.reporter.activity(&Activity::Said { story, line }),
            Said::Tool { name, target } => {
                let target = target.replace(&format!("{}/", top.display()), "");
                self.reporter.activity(&Activity::Did { story, tool: name, target: &target });
            }
        }
    }
}

/// How often an agent used each of its tools. When there are too many different names, the rest are counted together.
#[derive(Default)]
struct ToolCounts(BTreeMap<String, u32>);

impl ToolCounts {
    /// Counts a tool call and returns its argument unchanged.
    fn note<'s>(&mut self, said: Said<'s>) -> Said<'s> {
        let Said::Tool { name, .. } = said else { return said };
        let name: String = name.chars().take(LONGEST_TOOL).collect();
        let name = if self.0.len() < MOST_TOOLS || self.0.contains_key(&name) { name } else { "others".to_owned() };
        let count = self.0.entry(name).or_default();
        *count = count.saturating_add(1);
        said
    }
}

/// The receiver of an agent's output.
struct Listener {
    reader: Reader,
    tools: ToolCounts,
    transcript: TranscriptFiles,
    /// How many bytes of standard output have arrived.
    arrived: u64,
}

impl Listener {
    /// A receiver for a new attempt, with its transcript in `dir`.
    fn new(format: Format, dir: &Path) -> Result<Self> {
        let transcript = TranscriptFiles { out: private_file(&dir.join("stdout"))?, err: private_file(&dir.join("stderr"))? };
        Ok(Listener { reader: Reader::new(format), tools: ToolCounts::default(), transcript, arrived: 0 })
    }
}

/// The transcript files of an attempt.
struct TranscriptFiles {
    out: File,
    err: File,
}

impl TranscriptFiles {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        match stream {
            Stream::Stdout => self.out.write_all(bytes),
            Stream::Stderr => self.err.write_all(bytes),
        }
    }
}

/// Creates a file that only its owner can read, because prompts and transcripts are private.
fn private_file(path: &Path) -> Result<File> {
    safe_write::new_file(path).with_context(|| format!("cannot create {}", path.display()))
}
