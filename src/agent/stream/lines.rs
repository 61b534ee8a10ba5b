//! Splits a stream of bytes into lines of bounded length.

/// Collects bytes into lines. An overlong line is passed on in pieces, or only its beginning is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splitter {
    line: Vec<u8>,
    overlong: bool,
    longest: usize,
    pieces: bool,
    bulk: &'static [u8],
}

/// One line, without its newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawLine<'a> {
    /// The bytes of the line, or a part of them.
    pub bytes: &'a [u8],
    /// Whether the line is longer than the limit.
    pub overlong: bool,
    /// Whether this is the beginning of the line.
    pub begins: bool,
}

/// How many bytes are repeated at the start of the next piece, so that every tag is whole in one of them.
const OVERLAP: usize = 256;
/// A larger buffer is freed after its line.
const SPACIOUS: usize = 1024 * 1024;

impl Splitter {
    /// Passes on lines longer than `longest` in pieces of that length.
    pub fn in_pieces(longest: usize) -> Self {
        Splitter { line: Vec::new(), overlong: false, longest, pieces: true, bulk: b"" }
    }

    /// Keeps only the beginning of lines longer than `longest`.
    ///
    /// A shorter limit applies to lines that begin with `bulk`, if it is not empty, and to lines that do not begin like JSON.
    pub fn cutting(longest: usize, bulk: &'static [u8]) -> Self {
        Splitter { line: Vec::new(), overlong: false, longest, pieces: false, bulk }
    }

    /// Takes a piece of the stream and calls `show` for every line that ends in it.
    pub fn feed(&mut self, mut bytes: &[u8], mut show: impl FnMut(RawLine<'_>)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.line.is_empty() && !self.overlong && line.len() <= self.longest.min(SPACIOUS) {
                show(RawLine { bytes: line, overlong: false, begins: true });
            } else {
                self.keep(line, &mut show);
                show(self.rest());
                self.line.clear();
                self.line.shrink_to(SPACIOUS);
                self.overlong = false;
            }
            bytes = rest;
        }
        self.keep(bytes, &mut show);
    }

    /// The unfinished line, or its last piece so far.
    pub fn rest(&self) -> RawLine<'_> {
        RawLine { bytes: &self.line, overlong: self.overlong, begins: !(self.overlong && self.pieces) }
    }

    fn keep(&mut self, mut bytes: &[u8], show: &mut impl FnMut(RawLine<'_>)) {
        // The beginning of the line decides how much of it is kept.
        let head = self.bulk.len().max(1).saturating_sub(self.line.len()).min(bytes.len());
        self.line.extend_from_slice(&bytes[..head]);
        bytes = &bytes[head..];
        loop {
            let room = self.room();
            if bytes.len() <= room {
                self.line.extend_from_slice(bytes);
                return;
            }
            let (fits, more) = bytes.split_at(room);
            self.line.extend_from_slice(fits);
            let begins = !std::mem::replace(&mut self.overlong, true);
            if !self.pieces {
                return;
            }
            show(RawLine { bytes: &self.line, overlong: true, begins });
            self.line.drain(..self.line.len().saturating_sub(OVERLAP));
            bytes = more;
        }
    }

    /// How many more bytes of the unfinished line are kept.
    fn room(&self) -> usize {
        let is_bulk = !self.bulk.is_empty() && self.line.starts_with(self.bulk);
        let is_json = matches!(self.line.first(), Some(b'{' | b'['));
        let longest = if is_bulk || !is_json { self.longest.min(SPACIOUS) } else { self.longest };
        longest.saturating_sub(self.line.len())
    }

    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.line.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(mut splitter: Splitter, pieces: &[&[u8]]) -> Vec<(String, bool)> {
        let mut lines = Vec::new();
        let mut take = |line: RawLine<'_>| lines.push((String::from_utf8_lossy(line.bytes).into_owned(), line.overlong));
        for piece in pieces {
            splitter.feed(piece, &mut take);
        }
        take(splitter.rest());
        lines
    }

    #[test]
    fn lines_are_the_same_however_the_stream_is_cut() {
        let stream = b"one\n\nthree and more\nfo\nlast";
        let line = |text: &str, overlong| (text.to_owned(), overlong);
        for at in 0..=stream.len() {
            let lines = lines(Splitter::cutting(10, b""), &[&stream[..at], &stream[at..]]);
            let expected = [line("one", false), line("", false), line("three and ", true), line("fo", false), line("last", false)];
            assert_eq!(lines, expected, "cut at {at}");
        }
    }

    #[test]
    fn every_part_of_a_long_line_is_shown_and_the_parts_overlap() {
        let stream: Vec<u8> = (0..1000).flat_map(|n| format!("{n:03} ").into_bytes()).chain(*b"\nshort\n").collect();
        let whole = lines(Splitter::in_pieces(1000), &[&stream]);
        let (short, parts) = whole[..whole.len() - 1].split_last().unwrap();
        assert_eq!(short, &("short".to_owned(), false));
        assert!(
            parts.iter().all(|(_, overlong)| *overlong)
                && (0..1000).all(|n| parts.iter().any(|(part, _)| part.contains(&format!("{n:03}"))))
        );
        for at in 0..=stream.len() {
            assert_eq!(lines(Splitter::in_pieces(1000), &[&stream[..at], &stream[at..]]), whole, "cut at {at}");
        }
    }

    #[test]
    fn lines_of_bulk_are_cut_sooner_and_a_grown_buffer_is_given_back() {
        let long = vec![b'x'; 3 * SPACIOUS];
        for (begin, whole) in [(b"bulk", false), (b"news", false), (b"{new", true)] {
            let mut splitter = Splitter::cutting(4 * SPACIOUS, b"bulk");
            let mut seen = Vec::new();
            splitter.feed(&[&begin[..], &long].concat(), |line| seen.push(line.overlong));
            assert_eq!(splitter.capacity() > 2 * SPACIOUS, whole);
            splitter.feed(b"\n", |line| seen.push(line.overlong));
            assert_eq!((seen, splitter.capacity() <= SPACIOUS), (vec![!whole], true));
        }
    }
}
