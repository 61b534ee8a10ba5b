//! Plain text from an agent: cut into lines of bounded length, the whole of it searched for the promise.

use std::borrow::Cow;

use super::lines::{Line, Splitter};
use crate::agent::{Scanner, Signal};

/// A longer line cannot be a tag; only its beginning is shown.
const LONGEST_LINE: usize = 32 * 1024;

/// Reads a text that arrives in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextReader {
    scanner: Scanner,
    splitter: Splitter,
    last: Vec<u8>,
}

impl Default for TextReader {
    fn default() -> Self {
        TextReader { scanner: Scanner::default(), splitter: Splitter::new(LONGEST_LINE), last: Vec::new() }
    }
}

impl TextReader {
    /// Takes a piece of it.
    pub fn feed(&mut self, bytes: &[u8]) {
        let TextReader { scanner, splitter, last } = self;
        splitter.feed(bytes, |line| {
            read(line, scanner);
            if !line.bytes.trim_ascii().is_empty() {
                last.clear();
                last.extend_from_slice(line.bytes);
            }
        });
    }

    /// The last line that is not blank, as the agent wrote it.
    #[must_use]
    pub fn last_line(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.last)
    }

    /// The same, once no more of it will come: the last line may have no end.
    #[must_use]
    pub fn very_last_line(&self) -> Cow<'_, str> {
        let rest = self.splitter.rest().bytes;
        if rest.trim_ascii().is_empty() { self.last_line() } else { String::from_utf8_lossy(rest) }
    }

    /// Whether a promise has been heard so far.
    #[must_use]
    pub fn concluded(&self) -> bool {
        if self.scanner.signal() != Signal::Nothing {
            return true;
        }
        // The last word of many agents has no newline behind it.
        let rest = self.splitter.rest();
        let mut scratch = self.scanner.clone();
        if rest.bytes.first() == Some(&b'<') {
            read(rest, &mut scratch);
        }
        scratch.signal() != Signal::Nothing
    }

    /// The promise, once all of the text is here.
    #[must_use]
    pub fn finish(mut self) -> Signal {
        read(self.splitter.rest(), &mut self.scanner);
        self.scanner.signal()
    }
}

/// Shows a line to a scanner.
fn read(line: Line<'_>, scanner: &mut Scanner) {
    if line.overlong {
        scanner.overlong(&String::from_utf8_lossy(line.bytes));
    } else if scanner.cares_about(line.bytes) {
        scanner.line(&console::strip_ansi_codes(&String::from_utf8_lossy(line.bytes)));
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
    fn an_agent_has_not_concluded_by_what_will_not_count_as_a_promise() {
        let blanks = " ".repeat(LONGEST_LINE);
        for line in [format!("<promise>COMPLETE</promise>{blanks}"), "<promise>FAILED\u{1b}[0mX".to_owned()] {
            let mut reader = TextReader::default();
            reader.feed(line.as_bytes());
            assert!(!reader.concluded());
            assert_eq!(reader.finish(), Signal::Nothing);
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
}
