//! The state of a structured stream, shared by all dialects.

use std::borrow::Cow;
use std::collections::VecDeque;

use jiff::{Timestamp, Zoned};

use super::text::TextReader;
use crate::agent::trouble::{Clues, Fault, from_errors};
use crate::agent::{AgentReport, Signal, Trouble, Usage};
use crate::process::Exit;

/// What has been read from a structured stream so far.
#[derive(Debug, Default)]
pub struct StreamState {
    /// Whether a line of the dialect has been read.
    pub begun: bool,
    /// What the client has used.
    pub usage: Usage,
    /// The id of the current message, which tells it apart from the one before.
    pub id: String,
    /// What has come since the client last did any work.
    since: Since,
    /// Whether the model has answered.
    worked: bool,
    seen: VecDeque<String>,
    /// The session of the stream, for dialects whose lines name their session.
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

/// How many message ids are remembered.
const MOST_MESSAGES: usize = 64;

impl StreamState {
    /// The client continues to work: what it said before was not its final message, and earlier errors are over.
    pub fn goes_on(&mut self) {
        self.since = Since::default();
        self.worked = true;
    }

    /// Whether [`Self::goes_on`] would change nothing.
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

    /// A part of the message is complete.
    pub fn ends_part(&mut self) {
        self.since.message.feed(b"\n");
    }

    /// The client reports that it has finished.
    pub fn ends(&mut self) {
        self.since.ended = true;
        self.since.hitch = None;
    }

    /// The client gives up with an error.
    pub fn fails(&mut self, fault: Fault) {
        self.since.fault = Some(fault);
    }

    /// The client met an error and retries by itself.
    pub fn tries_again(&mut self, fault: Fault) {
        self.since.retries = self.since.retries.saturating_add(1);
        self.since.hitch = Some(fault);
    }

    /// The client reports when its usage limit resets, if it knows.
    pub fn resets(&mut self, at: Option<Timestamp>) {
        self.since.resets = at;
    }

    /// Whether the client has reported that it has finished.
    pub fn has_ended(&self) -> bool {
        self.since.ended
    }

    /// Whether the client has finished with a promise.
    pub fn concluded(&self) -> bool {
        self.since.ended && self.since.message.clone().finish() != Signal::Nothing
    }

    /// Whether the client has given up with an error.
    pub fn has_failed(&self) -> bool {
        self.since.fault.is_some()
    }

    /// Whether this is the first line with the given message or item id. Parts of several messages may be interleaved.
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

    /// Forgets all ids, because the client may use them again.
    pub fn forgets_ids(&mut self) {
        self.seen.clear();
    }

    /// Whether a line belongs to another session than the first line. A line without a session does not.
    pub fn is_foreign(&mut self, session: Option<Cow<'_, str>>) -> bool {
        let Some(session) = session.filter(|session| !session.is_empty()) else { return false };
        *self.session.get_or_insert_with(|| session.clone().into_owned()) != *session
    }

    /// The report on the agent.
    pub fn finish(self, exit: &Exit, stderr: &str, now: &Zoned) -> AgentReport {
        let StreamState { usage, since, worked, .. } = self;
        let Since { message, ended, fault, hitch, retries, resets } = since;
        let clues = Clues { retries, resets, worked };
        let stalled = matches!(exit, Exit::Stalled { .. } | Exit::TimedOut { .. });
        let cut_short = !ended && (stalled || matches!(exit, Exit::Code { .. }));
        let trouble = match (fault, hitch) {
            (Some(fault), _) => Some(fault.trouble(&clues, now)),
            // The client was waiting for a limit that would not reset for a long time.
            (None, Some(hitch)) if stalled => Some(hitch.trouble(&Clues { retries: 0, resets, worked }, now)).filter(is_limit),
            (None, Some(hitch)) if cut_short => Some(hitch.trouble(&clues, now)),
            _ if cut_short => from_errors(stderr, exit, now),
            _ => None,
        };
        let message = message.into_message();
        let signal = match message.signal() {
            // COMPLETE counts only if the client itself has finished without an error.
            Signal::Complete if !ended || trouble.is_some() => Signal::Nothing,
            signal => signal,
        };
        AgentReport { signal, trouble, usage, words: message.last_words() }
    }
}

fn is_limit(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Limit { .. })
}
