//! Runs one gate: a shell command in the work tree, with a time limit of its own.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::{Exit, Flow, Place, Stop, Supervised, Watch};
use crate::runner::{Heard, Launch, supervise};
use crate::safe_write;

/// How many bytes from the end of a gate's output go into the prompt of the next attempt.
const TAIL: usize = 8 * 1024;

/// How many lines and bytes from the end of a gate's output go into the journal.
const LAST_LINES: usize = 10;
const LAST_BYTES: usize = 1000;

/// The result of a gate.
#[derive(Debug)]
pub struct GateRun {
    /// How it ended, and how long it took.
    pub ran: Supervised,
    /// The end of its output.
    pub output: String,
}

impl GateRun {
    /// Whether the gate passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.ran.exit == Exit::Success
    }

    /// The last lines of its output, for the journal.
    pub(super) fn last_lines(&self) -> String {
        let text = self.output.trim_end();
        let text = &text[text.ceil_char_boundary(text.len().saturating_sub(LAST_BYTES))..];
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

/// How often in a row a gate is started if its runner loses it or cannot start it. Such a failure says nothing about the story.
const TRIES: u32 = 4;
/// The wait before the second try. Each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// The wait before a gate that ended like this is run again. `None` if it is not run again. `tries` is how often it has been run.
#[must_use]
pub fn again_after(exit: &Exit, tries: u32) -> Option<Duration> {
    let is_runners = matches!(exit, Exit::Lost { .. } | Exit::NotStarted { .. });
    (is_runners && tries < TRIES).then(|| FIRST_WAIT * 2_u32.saturating_pow(tries.saturating_sub(1)))
}

/// Runs one gate. All of its output goes to the file `log`.
pub async fn run(launch: &Launch, limit: Option<Duration>, grace: Duration, stop: &mut Stop, log: &Path) -> Result<GateRun> {
    let mut file = safe_write::new_file(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut tail = Tail::default();
    let watch = Watch { limit, idle: None, linger: grace, grace, place: Place::Here };
    let sink = |heard: Heard<'_>| -> io::Result<Flow> {
        match heard {
            Heard::Begun => {}
            Heard::Output(_, bytes) => {
                file.write_all(bytes)?;
                tail.push(bytes);
            }
            Heard::Runner(bytes) => file.write_all(bytes)?,
        }
        Ok(Flow::Going)
    };
    let ran = supervise(launch, b"", watch, stop, sink).await.with_context(|| format!("cannot write {}", log.display()))?;
    Ok(GateRun { output: tail.text(), ran })
}

/// The end of a stream, in bounded memory.
#[derive(Default)]
struct Tail {
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(&bytes[bytes.len().saturating_sub(2 * TAIL)..]);
        if self.bytes.len() > 2 * TAIL {
            self.cut = true;
            self.bytes.drain(..self.bytes.len() - TAIL);
        }
    }

    fn text(&self) -> String {
        let start = self.bytes.len().saturating_sub(TAIL);
        let text = String::from_utf8_lossy(&self.bytes[start..]);
        let text = console::strip_ansi_codes(&text).into_owned();
        if self.cut || start > 0 { format!("…{text}") } else { text }
    }
}
