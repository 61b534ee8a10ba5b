//! Reads the transcript of an attempt: what the agent said and did, and its usage. The transcript may still be growing.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;

use jiff::Zoned;

use crate::agent::{Format, Reader, Said, Usage};
use crate::process::Exit;

const PIECE: usize = 64 * 1024;
/// Longer lines of plain text are reported in pieces.
const LONGEST_LINE: u64 = 64 * 1024;

/// The standard output of an attempt. It may still be growing.
#[derive(Debug)]
pub struct Transcript {
    file: BufReader<File>,
    format: Format,
    reader: Reader,
    line: Vec<u8>,
}

impl Transcript {
    /// Opens the file with the standard output of an attempt.
    pub fn open(stdout: &Path, format: Format) -> io::Result<Self> {
        let file = BufReader::with_capacity(PIECE, File::open(stdout)?);
        Ok(Transcript { file, format, reader: Reader::new(format), line: Vec::new() })
    }

    /// Reports everything that was added since the last call. A line of plain text is reported only when it is complete.
    pub fn more(&mut self, each: &mut dyn FnMut(Said<'_>)) -> io::Result<()> {
        if self.format.is_structured() { self.feed(each) } else { self.more_lines(each) }
    }

    /// Reports the rest, when nothing will be added any more.
    pub fn rest(&mut self, each: &mut dyn FnMut(Said<'_>)) -> io::Result<()> {
        self.more(each)?;
        if self.format.is_structured() && self.reader.may_go_on() {
            // The client printed plain text instead of its structured format, so everything is read again as text.
            self.file.rewind()?;
            self.more_lines(each)?;
        }
        self.flush(each);
        Ok(())
    }

    /// The usage of the agent, according to its whole output.
    pub fn usage(mut self) -> io::Result<Usage> {
        self.feed(&mut |_| {})?;
        Ok(self.reader.finish(&Exit::Interrupted, &Zoned::now()).usage)
    }

    /// Feeds the reader. Until the structured format is recognised, text may be half of a structured line, so it is not reported.
    fn feed(&mut self, each: &mut dyn FnMut(Said<'_>)) -> io::Result<()> {
        let mut buffer = vec![0; PIECE];
        loop {
            let count = self.file.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            let mut heard = Vec::new();
            self.reader.feed(&buffer[..count], &mut |said| heard.push(Owned::from(said)));
            if !self.reader.may_go_on() {
                heard.iter().for_each(|said| each(said.borrowed()));
            }
        }
    }

    fn more_lines(&mut self, each: &mut dyn FnMut(Said<'_>)) -> io::Result<()> {
        loop {
            let most = LONGEST_LINE.saturating_sub(self.line.len() as u64);
            let count = self.file.by_ref().take(most).read_until(b'\n', &mut self.line)?;
            if count == 0 && most > 0 {
                return Ok(());
            }
            if self.line.ends_with(b"\n") || most == count as u64 {
                self.flush(each);
            }
        }
    }

    fn flush(&mut self, each: &mut dyn FnMut(Said<'_>)) {
        if !self.line.is_empty() {
            each(Said::Text(String::from_utf8_lossy(&self.line).trim_end_matches(['\n', '\r'])));
            self.line.clear();
        }
    }
}

/// A copy of something that the agent said or did, which outlives the buffer.
enum Owned {
    Text(String),
    Tool(String, String),
}

impl From<Said<'_>> for Owned {
    fn from(said: Said<'_>) -> Self {
        match said {
            Said::Text(text) => Owned::Text(text.to_owned()),
            Said::Tool { name, target } => Owned::Tool(name.to_owned(), target.to_owned()),
        }
    }
}

impl Owned {
    fn borrowed(&self) -> Said<'_> {
        match self {
            Owned::Text(text) => Said::Text(text),
            Owned::Tool(name, target) => Said::Tool { name, target },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn shown(transcript: &mut Transcript, over: bool) -> Vec<String> {
        let mut shown = Vec::new();
        let mut each = |said: Said<'_>| {
            shown.push(match said {
                Said::Text(text) => text.to_owned(),
                Said::Tool { name, target } => format!("> {name} {target}"),
            });
        };
        if over { transcript.rest(&mut each) } else { transcript.more(&mut each) }.unwrap();
        shown
    }

    #[test]
    fn lines_are_delivered_when_they_are_complete_and_the_last_one_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        let mut file = File::create(&path).unwrap();
        let mut transcript = Transcript::open(&path, Format::Text).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(shown(&mut transcript, false), ["one"]);
        file.write_all(b"o\r\nthree").unwrap();
        assert_eq!(shown(&mut transcript, false), ["two"]);
        assert_eq!(shown(&mut transcript, true), ["three"]);
    }

    #[test]
    fn a_growing_structured_stream_is_shown_as_text_and_tool_calls() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        let mut file = File::create(&path).unwrap();
        let mut transcript = Transcript::open(&path, Format::Claude).unwrap();
        let line = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"hello"},{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}"#;
        file.write_all(&line.as_bytes()[..20]).unwrap();
        assert_eq!(shown(&mut transcript, false), [""; 0]);
        file.write_all(&line.as_bytes()[20..]).unwrap();
        file.write_all(b"\n").unwrap();
        assert_eq!(shown(&mut transcript, false), ["hello", "> Bash ls"]);
    }

    #[test]
    fn plain_text_of_a_client_with_a_structured_format_is_reported_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        std::fs::write(&path, "not logged in\nrun /login\n").unwrap();
        let mut transcript = Transcript::open(&path, Format::Claude).unwrap();
        assert_eq!(shown(&mut transcript, false), [""; 0]);
        assert_eq!(shown(&mut transcript, true), ["not logged in", "run /login"]);
    }

    #[test]
    fn an_endless_line_is_delivered_in_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        std::fs::write(&path, "x".repeat(200_000)).unwrap();
        let pieces = shown(&mut Transcript::open(&path, Format::Text).unwrap(), true);
        assert_eq!((pieces.len(), pieces.concat().len()), (4, 200_000));
    }
}
