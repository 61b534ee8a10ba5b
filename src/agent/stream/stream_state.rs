//! What has been understood of a structured stream so far, whatever its dialect.

use std::borrow::Cow;
use std::collections::VecDeque;

use jiff::{Timestamp, Zoned};

use super::text::TextReader;
use crate::agent::trouble::{Clues, Fault, from_errors};
use crate::agent::{AgentReport, Signal, Trouble, Usage};
use crate::process::Exit;

/// The state that all dialects share.
#[derive(Debug, Default)]
pub struct StreamState {
    /// A line of the dialect has been heard.
    pub begun: bool,
    /// What the client used up.
    pub usage: Usage,
    /// The message under way, told apart from the one before.
    pub id: String,
    /// What has come since the client was last seen at work.
    since: Since,
    /// The model has answered.
    worked: bool,
    seen: VecDeque<String>,
    /// The conversation that the stream is about, where lines say which one they belong to.
    session: Option<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Since {
    message: TextReader,
    ended: bool,
    fault: Option<Fault>,
    hitch: Option<Fault>,
    retries: u32,
    resets: Option<Timestamp>,
}

/// How many messages are told apart.
const MOST_MESSAGES: usize = 64;

impl StreamState {
    /// The client goes on working: what it has said was not its final message, and what was in its way is over.
    pub fn goes_on(&mut self) {
        self.since = Since::default();
        self.worked = true;
    }

    /// Whether it would change nothing that the client goes on working.
    pub fn is_going_on(&self) -> bool {
        self.worked && self.since == Since::default()
    }

    /// Another message begins.
    pub fn starts_over(&mut self) {
        self.since.message = TextReader::default();
        self.since.ended = false;
    }

    /// The client says something that may be (part of) its final message.
    pub fn says(&mut self, text: &str) {
        self.since.message.feed(text.as_bytes());
    }

    /// A part of its message is complete.
    pub fn ends_part(&mut self) {
        self.since.message.feed(b"\n");
    }

    /// The client says that it is through.
    pub fn ends(&mut self) {
        self.since.ended = true;
        self.since.hitch = None;
    }

    /// The client gives up.
    pub fn fails(&mut self, fault: Fault) {
        self.since.fault = Some(fault);
    }

    /// Something did not work and the client tries again by itself.
    pub fn tries_again(&mut self, fault: Fault) {
        self.since.retries = self.since.retries.saturating_add(1);
        self.since.hitch = Some(fault);
    }

    /// The client says when its allowance comes back, if it knows.
    pub fn resets(&mut self, at: Option<Timestamp>) {
        self.since.resets = at;
    }

    /// Whether the client has said that it is through.
    pub fn has_ended(&self) -> bool {
        self.since.ended
    }

    /// Whether it has said its last word.
    pub fn concluded(&self) -> bool {
        self.since.ended && self.since.message.clone().finish() != Signal::Nothing
    }

    /// Whether it has said that it gives up.
    pub fn has_failed(&self) -> bool {
        self.since.fault.is_some()
    }

    /// Whether a message or item of that id is a new one; its parts may come between those of others.
    pub fn is_new(&mut self, id: &str) -> bool {
        if self.seen.iter().any(|seen| seen == id) {
            return false;
        }
        self.seen.push_back(id.to_owned());
        if self.seen.len() > MOST_MESSAGES {
            self.seen.pop_front();
        }
        true
    }

    /// From here on ids may be used again.
    pub fn forgets_ids(&mut self) {
        self.seen.clear();
    }

    /// Whether a line belongs to another conversation than the first one did. Where it does not say, it does not.
    pub fn is_foreign(&mut self, session: Option<Cow<'_, str>>) -> bool {
        let Some(session) = session.filter(|session| !session.is_empty()) else { return false };
        *self.session.get_or_insert_with(|| session.clone().into_owned()) != *session
    }

    /// What it comes to.
    pub fn finish(self, exit: &Exit, stderr: &str, now: &Zoned) -> AgentReport {
        let StreamState { usage, since, worked, .. } = self;
        let Since { message, ended, fault, hitch, retries, resets } = since;
        let clues = Clues { retries, resets, worked };
        let stalled = matches!(exit, Exit::Stalled { .. } | Exit::TimedOut { .. });
        let cut_short = !ended && (stalled || matches!(exit, Exit::Code { .. }));
        let trouble = match (fault, hitch) {
            (Some(fault), _) => Some(fault.trouble(&clues, now)),
            // It was waiting for something that would not come back for long.
            (None, Some(hitch)) if stalled => Some(hitch.trouble(&Clues { retries: 0, resets, worked }, now)).filter(is_limit),
            (None, Some(hitch)) if cut_short => Some(hitch.trouble(&clues, now)),
            _ if cut_short => from_errors(stderr, exit, now),
            _ => None,
        };
        let message = message.into_message();
        let signal = match message.signal() {
            // A success counts only when the client itself was through with it.
            Signal::Complete if !ended || trouble.is_some() => Signal::Nothing,
            signal => signal,
        };
        AgentReport { signal, trouble, usage, words: message.last_words() }
    }
}

fn is_limit(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Limit { .. })
}
