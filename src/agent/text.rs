//! Plain text from an agent: cut into lines of bounded length, the whole of it searched for the promise.

use std::borrow::Cow;

use super::{Scanner, Signal};

/// A longer line cannot be a tag; only its beginning is shown.
const LONGEST_LINE: usize = 32 * 1024;

/// Reads standard output that is plain text.
#[derive(Debug, Default)]
pub struct TextReader {
    scanner: Scanner,
    line: Vec<u8>,
    /// The line under way is longer than the buffer.
    overlong: bool,
    last: Vec<u8>,
}

impl TextReader {
    /// Takes a piece of output.
    pub fn feed(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ended) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = LONGEST_LINE.saturating_sub(self.line.len());
            self.overlong |= text.len() > room;
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if ended {
                self.end_line();
            }
        }
    }

    /// The last line that is not blank, as the agent wrote it.
    #[must_use]
    pub fn last_line(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.last)
    }

    /// Whether a promise has been heard so far.
    #[must_use]
    pub fn concluded(&self) -> bool {
        if self.scanner.signal() != Signal::Nothing {
            return true;
        }
        // The last word of many agents has no newline behind it.
        let mut scratch = self.scanner.clone();
        if self.line.first() == Some(&b'<') {
            self.read_line(&mut scratch);
        }
        scratch.signal() != Signal::Nothing
    }

    /// The promise, once all of the output is here.
    #[must_use]
    pub fn finish(mut self) -> Signal {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.scanner.signal()
    }

    /// Shows the line that is here to a scanner.
    fn read_line(&self, scanner: &mut Scanner) {
        if self.overlong {
            scanner.overlong(&String::from_utf8_lossy(&self.line));
        } else if scanner.cares_about(&self.line) {
            scanner.line(&console::strip_ansi_codes(&String::from_utf8_lossy(&self.line)));
        }
    }

    fn end_line(&mut self) {
        let mut scanner = std::mem::take(&mut self.scanner);
        self.read_line(&mut scanner);
        self.scanner = scanner;
        if !self.line.trim_ascii().is_empty() {
            std::mem::swap(&mut self.line, &mut self.last);
        }
        self.line.clear();
        self.overlong = false;
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
        assert!(reader.line.capacity() <= 2 * LONGEST_LINE, "{}", reader.line.capacity());
        reader.feed(b"\n<promise>COMPLETE</promise>\n");
        assert!(reader.concluded());
    }
}
