//! What clients print: one dialect a stream format, all of them heard through the same ears.
//!
//! A [`Reader`] takes bytes as they come. Of a structured stream only the client's own final message is searched for the
//! promise: tool output, echoed prompts and what was said before the last tool was used never are.

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

/// A line of JSON that is longer than this is not read: no final message is, tool output may be.
const LONGEST_LINE: usize = 4 * 1024 * 1024;
/// How often JSON is looked for on a line that does not begin with it.
const MOST_TRIES: usize = 8;
/// How much of the end of standard error is looked at.
const LONGEST_TAIL: usize = 4 * 1024;

/// How a client prints what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Plain text: all of it is the message.
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
    /// Every name that `ralph.<name>.format` takes.
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

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, format)| *format == self).map_or("text", |(name, _)| name)
    }

    /// Whether what it prints says what it cost.
    #[must_use]
    pub fn tells_cost(self) -> bool {
        matches!(self, Format::Claude | Format::Opencode | Format::Aider)
    }

    /// Whether what it prints says how many tokens were used.
    #[must_use]
    pub fn tells_tokens(self) -> bool {
        !matches!(self, Format::Text | Format::Copilot)
    }

    /// Whether it is made of JSON.
    #[must_use]
    pub fn is_structured(self) -> bool {
        self.dialect().is_some()
    }

    /// What reads one line of it, if it is made of JSON.
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

/// How a client writes its lines, each of which is an object with a type.
struct Dialect {
    /// The member that most of a line is in.
    body: &'static str,
    /// How the lines with what came of a tool begin, up to the end of their type, if all that they say is that the client goes on.
    outcome: Option<&'static [u8]>,
    /// Takes a line.
    line: TakeLine,
}

type TakeLine = fn(&mut StreamState, Entry<'_>, &mut dyn FnMut(Said<'_>));

/// A line, with the members that are always asked for.
struct Entry<'a> {
    kind: &'a str,
    body: Option<Json<'a>>,
    line: Json<'a>,
}

/// Reads what one agent prints.
#[derive(Debug)]
pub struct Reader {
    format: Format,
    splitter: Splitter,
    outline: Outline,
    state: StreamState,
    /// A client that was called in another way prints text after all: it is heard as long as nothing structured has come.
    plain: Option<TextReader>,
    aider: Aider,
    stderr: Vec<u8>,
}

impl Reader {
    /// For a client that prints in the given format.
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

    /// Takes a piece of standard output; what is in it for the screen goes to `say`.
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

    /// What the agent has used so far, as far as it has told.
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

    /// Whether the last word has been said so far.
    #[must_use]
    pub fn concluded(&self) -> bool {
        match &self.plain {
            // It may answer its model's mistakes with another turn, after any silence, and ends by itself.
            Some(_) if self.aider.begun => false,
            Some(plain) => plain.concluded(),
            None => self.state.concluded(),
        }
    }

    /// Whether more output after the last word may mean that it was not the last one: of a structured stream that is known.
    #[must_use]
    pub fn may_go_on(&self) -> bool {
        self.plain.is_some()
    }

    /// What was heard, once all of it is here and the process has ended in the given way.
    #[must_use]
    pub fn finish(mut self, exit: &Exit, now: &Zoned) -> AgentReport {
        if let Some(dialect) = self.format.dialect() {
            let Reader { splitter, outline, state, .. } = &mut self;
            // The last line of many clients has no end.
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
        // The exit status of known clients means little; a command that fails after its promise has not kept it.
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
        // Whatever it was, the client was at work.
        if state.begun {
            state.goes_on();
        }
        return;
    }
    // Most of a stream is what came of tools. Where that would change nothing, it does not matter whether it is JSON at all.
    if state.begun && state.is_going_on() && dialect.outcome.is_some_and(|beginning| outline.keeps_to(beginning, bytes)) {
        return;
    }
    // Almost always it is, and to see that is much faster than to look for what is not.
    let text = std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed);
    let Some(line) = outline.parse(&text) else {
        // A line of its own that is damaged is not searched for what is whole in it.
        if state.begun && !text.trim_start().starts_with('{') {
            read_behind_others(&text, dialect, outline, state, say);
        }
        return;
    };
    if !take(line, dialect, state, say) {
        // Some clients print everything as one list when asked for it in another way.
        line.each(|item| {
            take(item, dialect, state, say);
        });
    }
}

/// Takes an object that something else was printed in front of, on the same line.
fn read_behind_others(text: &str, dialect: &Dialect, outline: &mut Outline, state: &mut StreamState, say: &mut dyn FnMut(Said<'_>)) {
    for (at, _) in text.match_indices("{\"").take(MOST_TRIES) {
        if let Some(line) = outline.parse(&text[at..]) {
            take(line, dialect, state, say);
            return;
        }
    }
}

/// Takes an object of the stream; says whether it is one, which is whether it has a type.
fn take(line: Json<'_>, dialect: &Dialect, state: &mut StreamState, say: &mut dyn FnMut(Said<'_>)) -> bool {
    let [kind, body] = line.take(["type", dialect.body]);
    let Some(kind) = kind else { return false };
    state.begun = true;
    if let Some(kind) = kind.text() {
        (dialect.line)(state, Entry { kind: &kind, body, line }, say);
    }
    true
}

/// Tells the use of a tool, with what it is used on.
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

/// Tells the lines of a text.
fn say_text(text: &str, say: &mut dyn FnMut(Said<'_>)) {
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        say(Said::Text(line));
    }
}

fn fault(status: Option<u64>, message: &str) -> Fault {
    Fault::new(status.and_then(|status| u16::try_from(status).ok()), message)
}
