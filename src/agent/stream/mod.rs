//! Reads the output of clients: one dialect per stream format, all of which report to the same [`StreamState`].
//!
//! A [`Reader`] takes bytes as they come. In a structured stream only the client's own final message is searched for
//! the promise, never tool output, an echoed prompt, or text before the last tool call.

mod aider;
mod claude;
mod codex;
mod copilot;
mod gemini;
mod goose;

mod lines;
mod opencode;
mod stream_state;
mod text;

pub use text::TextReader;

use std::borrow::Cow;
use std::str::FromStr;

use jiff::Zoned;

use self::aider::Aider;
use self::lines::{RawLine, Splitter};
use self::stream_state::StreamState;
use super::trouble::{Clues, Fault, from_errors, from_words};
use super::{AgentReport, Said, Signal, Trouble};
use crate::json::{Json, Outline};
use crate::process::Exit;

/// A longer line of JSON is not read. Final messages are shorter; tool output may be longer.
const LONGEST_LINE: usize = 4 * 1024 * 1024;
/// How many positions on a line are tried where JSON might begin after other text.
const MOST_TRIES: usize = 8;
/// How many bytes from the end of standard error are kept.
const LONGEST_TAIL: usize = 4 * 1024;

/// The output format of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Plain text: the whole output is the message.
    Text,
    /// Plain text with aider's own lines about tokens and errors.
    Aider,
    /// `stream-json` of Claude Code and Qwen Code.
    Claude,
    /// `codex exec --json`.
    Codex,
    /// `opencode run --format json`.
    Opencode,
    /// `gemini -o stream-json`.
    Gemini,
    /// `goose run --output-format stream-json`.
    Goose,
    /// `copilot --output-format json`.
    Copilot,
}

impl Format {
    /// All values of `ralph.<name>.format`.
    pub const NAMES: [(&'static str, Format); 9] = [
        ("text", Format::Text),
        ("aider", Format::Aider),
        ("claude", Format::Claude),
        ("qwen", Format::Claude),
        ("codex", Format::Codex),
        ("opencode", Format::Opencode),
        ("gemini", Format::Gemini),
        ("goose", Format::Goose),
        ("copilot", Format::Copilot),
    ];

    /// The name of the format in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, format)| *format == self).map_or("text", |(name, _)| name)
    }

    /// Whether the output contains the cost.
    #[must_use]
    pub fn tells_cost(self) -> bool {
        matches!(self, Format::Claude | Format::Opencode | Format::Aider)
    }

    /// Whether the output contains token counts.
    #[must_use]
    pub fn tells_tokens(self) -> bool {
        !matches!(self, Format::Text | Format::Copilot)
    }

    /// Whether the output is JSON.
    #[must_use]
    pub fn is_structured(self) -> bool {
        self.dialect().is_some()
    }

    /// The dialect that reads a line of this format, if the format is JSON.
    fn dialect(self) -> Option<&'static Dialect> {
        match self {
            Format::Text | Format::Aider => None,
            Format::Claude => Some(&claude::DIALECT),
            Format::Codex => Some(&codex::DIALECT),
            Format::Opencode => Some(&opencode::DIALECT),
            Format::Gemini => Some(&gemini::DIALECT),
            Format::Goose => Some(&goose::DIALECT),
            Format::Copilot => Some(&copilot::DIALECT),
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<&str> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("'{text}' is not one of {}", names.join(", "))
        })
    }
}

/// How a client writes its lines, each of which is a JSON object with a type.
struct Dialect {
    /// The member with most of a line's content.
    body: &'static str,
    /// The beginning of a tool result line, up to the end of its type, for clients whose tool results only show that
    /// the client is working.
    outcome: Option<&'static [u8]>,
    /// The function that reads a line.
    line: TakeLine,
}

type TakeLine = fn(&mut StreamState, Entry<'_>, &mut dyn FnMut(Said<'_>));

/// A line with the members that every dialect needs.
struct Entry<'a> {
    kind: &'a str,
    body: Option<Json<'a>>,
    line: Json<'a>,
}

/// Reads the output of one agent.
#[derive(Debug)]
pub struct Reader {
    format: Format,
    splitter: Splitter,
    outline: Outline,
    state: StreamState,
    /// Reads the output as plain text until a structured line has come: the client may have been called with other options.
    plain: Option<TextReader>,
    aider: Aider,
    stderr: Vec<u8>,
}

impl Reader {
    /// Creates a reader for the given format.
    #[must_use]
    pub fn new(format: Format) -> Self {
        let bulk = format.dialect().and_then(|dialect| dialect.outcome).unwrap_or_default();
        Reader {
            format,
            splitter: Splitter::cutting(LONGEST_LINE, bulk),
            outline: Outline::default(),
            state: StreamState::default(),
            plain: Some(TextReader::default()),
            aider: Aider::default(),
            stderr: Vec::new(),
        }
    }

    /// Takes a piece of standard output; text and tool calls in it are passed to `say` for display.
    pub fn feed(&mut self, bytes: &[u8], say: &mut dyn FnMut(Said<'_>)) {
        if let Some(plain) = &mut self.plain {
            plain.feed(bytes);
        }
        if self.format == Format::Aider {
            self.aider.feed(bytes);
        }
        if let Some(dialect) = self.format.dialect() {
            let Reader { splitter, outline, state, .. } = self;
            splitter.feed(bytes, |line| read(line, dialect, outline, state, say));
        }
        if self.state.begun {
            self.plain = None;
        }
        if let Some(plain) = &self.plain {
            say(Said::Text(&plain.last_line()));
        }
    }

    /// What the agent has used so far, as far as it has reported it.
    #[must_use]
    pub fn usage(&self) -> crate::agent::Usage {
        if self.format == Format::Aider { self.aider.usage() } else { self.state.usage.clone() }
    }

    /// Takes a piece of standard error.
    pub fn feed_stderr(&mut self, bytes: &[u8]) {
        self.stderr.extend_from_slice(&bytes[bytes.len().saturating_sub(LONGEST_TAIL)..]);
        if self.stderr.len() > 2 * LONGEST_TAIL {
            self.stderr.drain(..self.stderr.len() - LONGEST_TAIL);
        }
    }

    /// Whether the output so far ends with the agent's promise.
    #[must_use]
    pub fn concluded(&self) -> bool {
        match &self.plain {
            // aider may answer a mistake of its model with another turn after any silence, and it exits by itself.
            Some(_) if self.aider.begun => false,
            Some(plain) => plain.concluded(),
            None => self.state.concluded(),
        }
    }

    /// Whether more output can still revoke the promise. In a structured stream the client says when it has finished.
    #[must_use]
    pub fn may_go_on(&self) -> bool {
        self.plain.is_some()
    }

    /// The report on the agent, once all output has been read and the process has ended with `exit`.
    #[must_use]
    pub fn finish(mut self, exit: &Exit, now: &Zoned) -> AgentReport {
        if let Some(dialect) = self.format.dialect() {
            let Reader { splitter, outline, state, .. } = &mut self;
            // Many clients end their last line without a newline.
            read(splitter.rest(), dialect, outline, state, &mut |_| {});
        }
        let tail = self.stderr.len().saturating_sub(LONGEST_TAIL);
        let stderr = String::from_utf8_lossy(&self.stderr[tail..]).into_owned();
        match self.plain.take().filter(|_| !self.state.begun) {
            Some(plain) => self.finish_plain(plain, exit, &stderr, now),
            None => self.state.finish(exit, &stderr, now),
        }
    }

    fn finish_plain(self, plain: TextReader, exit: &Exit, stderr: &str, now: &Zoned) -> AgentReport {
        let message = plain.into_message();
        let last = message.last_line().into_owned();
        let (signal, words) = if self.aider.begun { self.aider.last_reply() } else { (message.signal(), message.last_words()) };
        // The exit status of known clients means little. But a user's own command that fails after its promise has not kept it.
        let broken = !self.aider.begun && signal == Signal::Complete && matches!(exit, Exit::Code { .. });
        let signal = if broken { Signal::Nothing } else { signal };
        let usage = self.aider.usage();
        let clues = Clues { retries: 1, resets: None, worked: !usage.is_empty() };
        let trouble = match (self.aider.fault(), &signal) {
            (Some(fault), _) => Some(fault.trouble(&clues, now)),
            (None, Signal::Nothing) => from_words(&last, exit, now).or_else(|| from_errors(stderr, exit, now)),
            (None, _) => None,
        };
        let promised = || Trouble::Other { message: "it said COMPLETE, which does not count when a command fails".to_owned() };
        AgentReport { signal, trouble: trouble.or_else(|| broken.then(promised)), usage, words }
    }
}

fn read(raw: RawLine<'_>, dialect: &Dialect, outline: &mut Outline, state: &mut StreamState, say: &mut dyn FnMut(Said<'_>)) {
    let bytes = raw.bytes;
    if raw.overlong {
        // An overlong line at least shows that the client is working.
        if state.begun {
            state.goes_on();
        }
        return;
    }
    // Most lines are tool results. A tool result that would not change the state is skipped without parsing it.
    if state.begun && state.is_going_on() && dialect.outcome.is_some_and(|beginning| outline.keeps_to(beginning, bytes)) {
        return;
    }
    // The bytes are almost always valid UTF-8, and checking that is much faster than the lossy conversion.
    let text = std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed);
    let Some(line) = outline.parse(&text) else {
        // A damaged JSON line is not searched for objects in it.
        if state.begun && !text.trim_start().starts_with('{') {
            read_behind_others(&text, dialect, outline, state, say);
        }
        return;
    };
    if !take(line, dialect, state, say) {
        // With other options some clients print everything as one JSON array.
        line.each(|item| {
            take(item, dialect, state, say);
        });
    }
}

/// Takes a JSON object that comes after other text on the same line.
fn read_behind_others(text: &str, dialect: &Dialect, outline: &mut Outline, state: &mut StreamState, say: &mut dyn FnMut(Said<'_>)) {
    for (at, _) in text.match_indices("{\"").take(MOST_TRIES) {
        if let Some(line) = outline.parse(&text[at..]) {
            take(line, dialect, state, say);
            return;
        }
    }
}

/// Takes an object of the stream. Returns whether it is one, that is, whether it has a type.
fn take(line: Json<'_>, dialect: &Dialect, state: &mut StreamState, say: &mut dyn FnMut(Said<'_>)) -> bool {
    let [kind, body] = line.take(["type", dialect.body]);
    let Some(kind) = kind else { return false };
    state.begun = true;
    if let Some(kind) = kind.text() {
        (dialect.line)(state, Entry { kind: &kind, body, line }, say);
    }
    true
}

/// Reports a tool call with its target for display.
fn say_tool(name: &str, input: Option<Json<'_>>, say: &mut dyn FnMut(Said<'_>)) {
    const TARGETS: [&str; 12] = [
        "file_path",
        "filePath",
        "path",
        "absolute_path",
        "notebook_path",
        "command",
        "cmd",
        "pattern",
        "query",
        "url",
        "prompt",
        "description",
    ];
    let target = input.and_then(|input| input.take(TARGETS).into_iter().flatten().find_map(Json::text));
    say(Said::Tool { name, target: target.as_deref().unwrap_or_default() });
}

/// Reports the lines of a text for display.
fn say_text(text: &str, say: &mut dyn FnMut(Said<'_>)) {
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        say(Said::Text(line));
    }
}

fn fault(status: Option<u64>, message: &str) -> Fault {
    Fault::new(status.and_then(|status| u16::try_from(status).ok()), message)
}
