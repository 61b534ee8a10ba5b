//! Splits a Markdown file into headings, check boxes and text, with the byte range of every check mark.

use std::ops::Range;

use crate::fence::Fence;

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// The line number, from 1.
    pub line: usize,
    /// The byte offset of the line.
    pub offset: usize,
    /// The kind of line.
    pub kind: BlockKind<'a>,
}

/// The kind of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockKind<'a> {
    /// `## Text`.
    Heading {
        /// The number of `#` characters.
        level: usize,
        /// The text after them.
        text: &'a str,
    },
    /// `- [ ] text`.
    Box(CheckBox<'a>),
    /// Anything else, blank lines included.
    Text(&'a str),
}

/// A check box with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckBox<'a> {
    /// The indentation in bytes.
    pub indent: usize,
    /// Whether the box is an example, for instance in a code fence.
    pub fenced: bool,
    /// Whether the box is checked.
    pub done: bool,
    /// The bytes to replace to check or uncheck the box; empty if there is nothing between the brackets.
    pub mark: Range<usize>,
    /// The text after the box.
    pub text: &'a str,
}

/// Splits a text into blocks, one per line.
pub fn blocks(text: &str) -> impl Iterator<Item = Block<'_>> {
    let mut offset = 0;
    let mut fence = Fence::default();
    let mut comment = false;
    text.split_inclusive('\n').enumerate().map(move |(at, whole)| {
        let start = offset;
        offset += whole.len();
        let content = whole.trim_end_matches(['\n', '\r']);
        let bom = if at == 0 && content.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let content = &content[bom..];
        // In a list, a fence may be indented as deep as its item, or follow directly after the bullet.
        let text = content.trim_start();
        let behind = bullet(text).map(str::trim_start).filter(|behind| behind.starts_with("```") || behind.starts_with("~~~"));
        let fenced = fence.takes(behind.unwrap_or(text)) | in_comment(&mut comment, content);
        let kind = match (check_box(content, start + bom, fenced), heading(content)) {
            (Some(found), _) => BlockKind::Box(found),
            (None, Some((level, text))) if !fenced => BlockKind::Heading { level, text },
            _ => BlockKind::Text(content),
        };
        Block { line: at + 1, offset: start, kind }
    })
}

/// Whether a line begins inside an HTML comment, which is invisible in the rendered file.
fn in_comment(comment: &mut bool, line: &str) -> bool {
    let inside = *comment;
    match (line.rfind("<!--"), line.rfind("-->")) {
        (Some(open), close) if close.is_none_or(|close| close < open) => *comment = true,
        (_, Some(_)) => *comment = false,
        _ => {}
    }
    inside
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let text = line.get(level..)?;
    ((1..=6).contains(&level) && text.starts_with([' ', '\t'])).then(|| (level, text.trim().trim_end_matches('#').trim_end()))
}

/// Reads a bullet or number, blanks, and brackets with at most one character inside that are not the text of a link.
fn check_box(line: &str, offset: usize, fenced: bool) -> Option<CheckBox<'_>> {
    let text = line.trim_start();
    let indent = line.len() - text.len();
    let behind = bullet(text)?;
    let brackets = behind.trim_start();
    if brackets.len() == behind.len() {
        return None;
    }
    let inner = brackets.strip_prefix('[')?;
    let close = inner.find(']')?;
    let (inner, rest) = (&inner[..close], &inner[close + 1..]);
    let mark = inner.trim();
    if mark.chars().count() > 1 || rest.starts_with('(') {
        return None;
    }
    let inner_at = offset + line.len() - brackets.len() + 1;
    let at = inner_at + if mark.is_empty() { 0 } else { inner.find(mark)? };
    let length = if mark.is_empty() { inner.chars().next().map_or(0, char::len_utf8) } else { mark.len() };
    // `[1]` and `[a]` are references. `openspec` counts them as boxes, so they are returned, but they are never changed.
    let foreign = mark.chars().any(|c| c.is_alphanumeric()) && !mark.eq_ignore_ascii_case("x");
    let fenced = fenced || foreign;
    Some(CheckBox { indent, fenced, done: mark == "x" || mark == "X", mark: at..at + length, text: rest.trim() })
}

fn bullet(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix(['-', '*', '+']) {
        return Some(rest);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 { None } else { text[digits..].strip_prefix(['.', ')']) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Done, fenced, the text, the bytes of the mark.
    type Found<'a> = (bool, bool, &'a str, &'a str);

    fn boxes(text: &str) -> Vec<Found<'_>> {
        let found = blocks(text).filter_map(|block| match block.kind {
            BlockKind::Box(found) => Some((found.done, found.fenced, found.text, &text[found.mark])),
            _ => None,
        });
        found.collect()
    }

    #[test]
    fn the_table_of_boxes() {
        let table: &[(&str, &[Found<'_>])] = &[
            ("- [ ] a", &[(false, false, "a", " ")]),
            ("* [x] a\r\n+ [X] b\r\n", &[(true, false, "a", "x"), (true, false, "b", "X")]),
            ("1. [ ] a\n2) [x] b", &[(false, false, "a", " "), (true, false, "b", "x")]),
            ("\t- [ ] nested", &[(false, false, "nested", " ")]),
            ("- [~] a\n- [-] b\n- [] c", &[(false, false, "a", "~"), (false, false, "b", "-"), (false, false, "c", "")]),
            ("- [ x] a\n- [x ] b", &[(true, false, "a", "x"), (true, false, "b", "x")]),
            ("\u{feff}- [ ] first", &[(false, false, "first", " ")]),
            ("- [x](http://a) no\n- [xx] no\n-[ ] no\n[ ] no\n- a [ ] no", &[]),
            ("```\n- [ ] example\n```\n- [ ] real", &[(false, true, "example", " "), (false, false, "real", " ")]),
            ("~~~~\n```\n- [ ] a\n~~~~\n- [ ] b", &[(false, true, "a", " "), (false, false, "b", " ")]),
        ];
        for (text, expected) in table {
            assert_eq!(boxes(text), *expected, "{text:?}");
        }
    }

    #[test]
    fn headings_in_fences_are_text() {
        let text = "# One\n```\n## Two\n```\n### Three ###\n#no\n";
        let found: Vec<_> = blocks(text)
            .filter_map(|block| match block.kind {
                BlockKind::Heading { level, text } => Some((level, text, block.line)),
                _ => None,
            })
            .collect();
        assert_eq!(found, [(1, "One", 1), (3, "Three", 5)]);
    }
}
