//! Cutting a stream of bytes into lines of bounded length.

/// Collects lines; of one that is longer than the bound only the beginning is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splitter {
    line: Vec<u8>,
    overlong: bool,
    longest: usize,
}

/// One line, without its newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its bytes, or the beginning of them.
    pub bytes: &'a [u8],
    /// Whether there was more of it.
    pub overlong: bool,
}

impl Splitter {
    /// With the longest line that is kept whole.
    pub fn new(longest: usize) -> Self {
        Splitter { line: Vec::new(), overlong: false, longest }
    }

    /// Takes a piece of the stream and shows every line that ends in it.
    pub fn feed(&mut self, mut bytes: &[u8], mut show: impl FnMut(Line<'_>)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.line.is_empty() && !self.overlong && line.len() <= self.longest {
                show(Line { bytes: line, overlong: false });
            } else {
                self.keep(line);
                show(self.rest());
                self.line.clear();
                self.overlong = false;
            }
            bytes = rest;
        }
        self.keep(bytes);
    }

    /// The line under way.
    pub fn rest(&self) -> Line<'_> {
        Line { bytes: &self.line, overlong: self.overlong }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = self.longest.saturating_sub(self.line.len());
        self.overlong |= bytes.len() > room;
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.line.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_the_stream_is_cut() {
        let stream = b"one\n\nthree and more\nfo\nlast";
        for at in 0..=stream.len() {
            let mut splitter = Splitter::new(10);
            let mut lines = Vec::new();
            for piece in [&stream[..at], &stream[at..]] {
                splitter.feed(piece, |line| lines.push((String::from_utf8_lossy(line.bytes).into_owned(), line.overlong)));
            }
            let line = |text: &str, overlong| (text.to_owned(), overlong);
            assert_eq!(lines, [line("one", false), line("", false), line("three and ", true), line("fo", false)], "cut at {at}");
            assert_eq!(splitter.rest(), Line { bytes: b"last", overlong: false });
        }
    }
}
