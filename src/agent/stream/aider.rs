//! Reads aider's plain text output, in which some lines report tokens, cost and errors of litellm.

use std::borrow::Cow;

use super::lines::Splitter;
use super::text::{LONGEST_LINE, Message};
use crate::agent::trouble::Fault;
use crate::agent::{Signal, Usage};
use crate::cost::Cost;

/// A longer error message is cut.
const LONGEST_COMPLAINT: usize = 2048;

/// Collects aider's own lines from its output.
#[derive(Debug)]
pub struct Aider {
    splitter: Splitter,
    usage: Usage,
    complaint: Option<String>,
    /// The current reply of the model, and the last complete one.
    reply: Message,
    last: Option<Message>,
    /// Whether the output really comes from aider.
    pub begun: bool,
}

impl Default for Aider {
    fn default() -> Self {
        let splitter = Splitter::in_pieces(LONGEST_LINE);
        Aider { splitter, usage: Usage::default(), complaint: None, reply: Message::default(), last: None, begun: false }
    }
}

impl Aider {
    /// Takes a piece of its output.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Aider { splitter, usage, complaint, reply, last, begun } = self;
        splitter.feed(bytes, |raw| {
            // aider wraps its own lines, so an overlong line is not one of them.
            let line = if raw.overlong { Cow::Borrowed("") } else { String::from_utf8_lossy(raw.bytes) };
            *begun |= line.starts_with("Aider v");
            if let Some(spent) = tokens(&line) {
                *usage = usage.plus(&spent);
                // A token count means that the model has answered.
                *complaint = None;
                *last = Some(std::mem::take(reply));
                *begun = true;
                return;
            }
            reply.take(raw);
            if is_complaint(&line) {
                *complaint = Some(line.into_owned());
            } else if let Some(complaint) = complaint.as_mut().filter(|complaint| complaint.len() < LONGEST_COMPLAINT) {
                // The wrapped error message continues.
                if !complaint.ends_with(' ') {
                    complaint.push(' ');
                }
                complaint.push_str(line.trim_start());
            }
        });
    }

    /// The promise and the last lines of the model's last reply. COMPLETE counts only in a complete reply.
    pub fn last_reply(&self) -> (Signal, String) {
        let mut reply = self.reply.clone();
        reply.take(self.splitter.rest());
        match (reply.signal(), &self.last) {
            (refused @ (Signal::Failed { .. } | Signal::Blocked { .. }), _) => (refused, reply.last_words()),
            (_, Some(last)) => (last.signal(), last.last_words()),
            (_, None) => (Signal::Nothing, reply.last_words()),
        }
    }

    /// What the client has used.
    pub fn usage(&self) -> Usage {
        self.usage.clone()
    }

    /// aider's last error, if the model has not answered since.
    pub fn fault(&self) -> Option<Fault> {
        let complaint = self.complaint.as_deref()?;
        if !complaint.starts_with("litellm.") && !complaint.starts_with("Empty response") {
            return Some(Fault::new(None, &format!("its edits could not be made: {complaint}")));
        }
        let kind = complaint.strip_prefix("litellm.").and_then(|rest| rest.split(':').next()).unwrap_or_default();
        let status = match kind {
            "AuthenticationError" => 401,
            "PermissionDeniedError" => 403,
            "NotFoundError" => 404,
            "BadRequestError" | "ContextWindowExceededError" | "UnprocessableEntityError" => 400,
            "RateLimitError" => 429,
            _ => 500,
        };
        let words = complaint.split(" - ").nth(1).unwrap_or(complaint).split("  ").next().unwrap_or_default();
        Some(Fault::new(Some(status), words.split(" Retrying in ").next().unwrap_or(words).trim()))
    }
}

/// Whether a line is an error message of aider itself.
fn is_complaint(line: &str) -> bool {
    let failed_edit = line.starts_with("# ") && line.contains("SEARCH/REPLACE block") && line.contains("failed to match");
    line.starts_with("litellm.") || line.starts_with("Empty response received from LLM") || failed_edit
}

/// Reads `Tokens: 2.5k sent, 1.2k cache hit, 35 received. Cost: $0.01 message, $0.02 session.`
fn tokens(line: &str) -> Option<Usage> {
    let (tokens, cost) = line.strip_prefix("Tokens: ")?.split_once('.').map(|_| match line.find(" Cost: $") {
        Some(at) => (&line["Tokens: ".len()..at], Some(&line[at + " Cost: $".len()..])),
        None => (&line["Tokens: ".len()..], None),
    })?;
    let mut usage = Usage::default();
    for part in tokens.trim_end_matches('.').split(", ") {
        let Some((number, what)) = part.split_once(' ') else { continue };
        match what {
            "sent" => usage.input = thousands(number),
            "cache hit" => usage.cached = thousands(number),
            "received" => usage.output = thousands(number),
            _ => {}
        }
    }
    usage.cost = cost.and_then(|cost| cost.split(' ').next()?.parse().ok()).and_then(Cost::reported);
    Some(usage)
}

/// Reads `35`, `2.5k`, `1.2M`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
fn thousands(text: &str) -> u64 {
    let (number, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1e3),
        Some(b'M') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    number.replace(',', "").parse::<f64>().map_or(0, |number| (number * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_cost_are_read_from_its_own_line() {
        let table = [
            ("Tokens: 2.5k sent, 35 received.", (2500, 0, 35, None)),
            (
                "Tokens: 12k sent, 10k cache hit, 1.5k received. Cost: $0.02 message, $0.05 session.",
                (12000, 10000, 1500, Cost::dollars(0.02)),
            ),
        ];
        for (line, expected) in table {
            let usage = tokens(line).unwrap();
            assert_eq!((usage.input, usage.cached, usage.output, usage.cost), expected, "{line}");
        }
        assert_eq!(tokens("Tokens are what they are."), None);
    }

    #[test]
    fn a_complaint_is_forgotten_when_the_model_answers() {
        let mut aider = Aider::default();
        aider.feed(
            b"litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached for\nfake-model. Please try again in 1s.\n",
        );
        assert!(aider.fault().is_some());
        aider.feed(b"Tokens: 1 sent, 1 received.\n");
        assert_eq!(aider.fault(), None);
    }
}
