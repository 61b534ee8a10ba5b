//! Searches plain text of an agent for the promise, in lines of bounded length.

use std::borrow::Cow;

use super::lines::{RawLine, Splitter};
use crate::agent::{Scanner, Signal};

/// A longer line cannot be a tag and is searched in pieces.
pub(super) const LONGEST_LINE: usize = 32 * 1024;
/// How many of the last lines are kept, and how many bytes of each.
const LAST_LINES: usize = 3;
const LONGEST_LAST: usize = 1024;

/// A message, read line by line: its promise and its last lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    scanner: Scanner,
    /// The last lines that are not blank, as a ring buffer.
    last: [Vec<u8>; LAST_LINES],
    /// The index of the very last line.
    turn: usize,
}

impl Message {
    /// Takes the next line, or a piece of one.
    pub(super) fn take(&mut self, line: RawLine<'_>) {
        let text = || String::from_utf8_lossy(line.bytes);
        if line.overlong && !self.scanner.cares_about_piece(line.bytes) {
            self.scanner.other();
        } else if line.overlong {
            self.scanner.piece(&console::strip_ansi_codes(&text()));
        } else if self.scanner.cares_about(line.bytes) {
            self.scanner.line(&console::strip_ansi_codes(&text()));
        }
        if line.begins && !line.bytes.trim_ascii().is_empty() {
            self.turn = (self.turn + 1) % LAST_LINES;
            let last = &mut self.last[self.turn];
            last.clear();
            last.extend_from_slice(&line.bytes[..line.bytes.len().min(LONGEST_LAST)]);
        }
    }

    /// The last line that is not blank, as the agent wrote it.
    pub(super) fn last_line(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.last[self.turn])
    }

    /// The last lines that are not blank.
    pub(super) fn last_words(&self) -> String {
        let lines = (1..=LAST_LINES).map(|behind| &self.last[(self.turn + behind) % LAST_LINES]).filter(|line| !line.is_empty());
        let lines: Vec<String> = lines.map(|line| console::strip_ansi_codes(String::from_utf8_lossy(line).trim()).into_owned()).collect();
        lines.join("\n")
    }

    /// The promise so far.
    pub(super) fn signal(&self) -> Signal {
        self.scanner.signal()
    }
}

/// Reads a text that arrives in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextReader {
    message: Message,
    splitter: Splitter,
}

impl Default for TextReader {
    fn default() -> Self {
        TextReader { message: Message::default(), splitter: Splitter::in_pieces(LONGEST_LINE) }
    }
}

impl TextReader {
    /// Takes a piece of the text.
    pub fn feed(&mut self, bytes: &[u8]) {
        let TextReader { message, splitter } = self;
        splitter.feed(bytes, |line| message.take(line));
    }

    /// The last line that is not blank, as the agent wrote it.
    #[must_use]
    pub fn last_line(&self) -> Cow<'_, str> {
        self.message.last_line()
    }

    /// Whether the last line so far is a promise.
    #[must_use]
    pub fn concluded(&self) -> bool {
        let rest = self.splitter.rest();
        if rest.bytes.trim_ascii().is_empty() {
            return self.message.scanner.concluded();
        }
        // Many agents end their last line without a newline.
        if rest.overlong || !self.message.scanner.cares_about(rest.bytes) {
            return false;
        }
        let mut whole = self.message.clone();
        whole.take(rest);
        whole.scanner.concluded()
    }

    /// The whole message, at the end of the text. Its last line may have no newline.
    pub(super) fn into_message(mut self) -> Message {
        let TextReader { message, splitter } = &mut self;
        message.take(splitter.rest());
        self.message
    }

    /// The promise, at the end of the text.
    #[must_use]
    pub fn finish(self) -> Signal {
        self.into_message().signal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_cut_into_pieces_is_still_one() {
        let text = b"working\n\x1b[32m<promise>COMPLETE</promise>\x1b[0m";
        for at in 0..text.len() {
            let mut reader = TextReader::default();
            reader.feed(&text[..at]);
            reader.feed(&text[at..]);
            assert_eq!(reader.finish(), Signal::Complete, "cut at {at}");
        }
    }

    #[test]
    fn an_agent_has_concluded_when_its_last_line_is_a_promise() {
        let blanks = " ".repeat(LONGEST_LINE);
        let table = [
            ("<promise>COMPLETE</promise>", true),
            ("a\n- **<promise>COMPLETE</promise>**.\n\n", true),
            ("<promise>COMPLETE</promise>\nand", false),
            ("<promise>COMPLETE</promise>\n\u{200b}\n", true),
            ("<promise>FAILED: a</promise>", true),
            ("<promise>FAILED: a", true),
            ("<promise>FAILED: a</promise>\nand", false),
            ("so <promise>blocked: a</promise>\n\n", true),
            ("- FAILED\n<promise>COMPLETE</promise>", true),
            ("<promise>FAILED\u{1b}[0mX", false),
            (&format!("<promise>COMPLETE</promise>{blanks}"), false),
        ];
        for (text, concluded) in table {
            let mut reader = TextReader::default();
            reader.feed(text.as_bytes());
            assert_eq!(reader.concluded(), concluded, "{}", &text[..text.len().min(60)]);
            assert!(!concluded || reader.finish() != Signal::Nothing);
        }
    }

    #[test]
    fn a_line_without_end_stays_within_its_buffer() {
        let mut reader = TextReader::default();
        for _ in 0..1000 {
            reader.feed(&[b'x'; 4096]);
        }
        assert!(reader.splitter.capacity() <= 2 * LONGEST_LINE, "{}", reader.splitter.capacity());
        reader.feed(b"\n<promise>COMPLETE</promise>\n");
        assert!(reader.concluded());
    }

    #[test]
    fn a_tag_that_refuses_is_found_anywhere_in_a_line_without_end() {
        for before in [0, 1000, LONGEST_LINE - 10, LONGEST_LINE, 3 * LONGEST_LINE - 5] {
            let mut reader = TextReader::default();
            reader.feed(format!("{}<promise>Failed: red</promise>{}\n", "x".repeat(before), "x".repeat(before)).as_bytes());
            reader.feed(b"<promise>COMPLETE</promise>\n");
            assert!(matches!(reader.finish(), Signal::Failed { .. }), "{before}");
        }
    }

    #[test]
    fn the_last_words_are_the_last_lines_that_say_something() {
        let mut reader = TextReader::default();
        reader.feed(b"one\ntwo\n\n\x1b[1mthree\x1b[0m\n  four\n \nShall I go on?");
        assert_eq!(reader.into_message().last_words(), "three\nfour\nShall I go on?");
    }
}
