//! Tracks what a line of a message is enclosed in (code, comments, thinking), because a promise tag does not count there. Pure.

use crate::fence::Fence;

/// The deepest level of nested fences that is tracked.
const DEEPEST: usize = 16;

/// The open code fences, in two readings.
///
/// By the Markdown rules, a fence of three backticks inside another of three closes the outer one. People and models
/// who write this mean a nested fence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fences {
    markdown: Fence,
    nested: Vec<(char, usize)>,
}

impl Fences {
    /// Takes the next line, without indent and bullet. Returns whether it is in a fence in either reading, and whether in both.
    pub fn take(&mut self, text: &str, indented: bool) -> (bool, bool) {
        if indented {
            return (self.markdown.is_open() || !self.nested.is_empty(), self.surely_open());
        }
        let nested = self.nest(text);
        let markdown = self.markdown.takes(text);
        (markdown || nested, markdown && nested)
    }

    /// Whether a fence is open in both readings.
    pub fn surely_open(&self) -> bool {
        self.markdown.is_open() && !self.nested.is_empty()
    }

    fn nest(&mut self, text: &str) -> bool {
        let was_open = !self.nested.is_empty();
        let Some((mark, length, info)) = Fence::mark(text) else { return was_open };
        match self.nested.last() {
            Some((open, long)) if *open == mark && length >= *long && info.is_empty() => {
                self.nested.pop();
            }
            // A shorter or different mark inside a fence is content: the longer fence was chosen so that it can contain others.
            Some((open, long)) if *open != mark || length < *long || info.is_empty() => {}
            _ if self.nested.len() < DEEPEST => self.nested.push((mark, length)),
            _ => {}
        }
        true
    }
}

/// The comment, quotation or block of thinking that encloses the following lines, until its end is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enclosure(Option<Open>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    end: &'static str,
    /// The enclosure began in the middle of a line, so it ends with the paragraph at the latest.
    inline: bool,
}

/// Blocks of thinking, which may begin anywhere in a line.
const THINKING: [(&str, &str); 6] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<reflection>", "</reflection>"),
    ("<scratchpad>", "</scratchpad>"),
];
/// Code and quotations, which count only at the beginning of a line; aider uses some of these tags as fences.
const QUOTING: [(&str, &str); 6] = [
    ("<source>", "</source>"),
    ("<sourcecode>", "</sourcecode>"),
    ("<code>", "</code>"),
    ("<codeblock>", "</codeblock>"),
    ("<pre>", "</pre>"),
    ("<blockquote>", "</blockquote>"),
];

impl Enclosure {
    /// Whether the next line is enclosed.
    pub fn is_open(self) -> bool {
        self.0.is_some()
    }

    /// Takes a blank line, which ends a paragraph.
    pub fn blank(&mut self) {
        self.0 = self.0.filter(|open| !open.inline);
    }

    /// Takes the next line.
    pub fn take(&mut self, line: &str) {
        let text = without_code(line);
        let mut rest = text.trim_start();
        let mut begins = true;
        while let Some(at) = match self.0 {
            Some(open) => find(rest, open.end).map(|at| (at + open.end.len(), None)),
            None => opening(rest, begins),
        } {
            let (behind, open) = at;
            self.0 = open;
            rest = &rest[behind..];
            begins = false;
        }
    }
}

/// The first opening in a text: the offset behind it, and what it opens.
fn opening(text: &str, begins: bool) -> Option<(usize, Option<Open>)> {
    let mut from = 0;
    while let Some(at) = text[from..].find('<').map(|at| from + at) {
        let rest = &text[at..];
        let at_start = begins && at == 0;
        if rest.starts_with("<!--") {
            return Some((at + 4, Some(Open { end: "-->", inline: !at_start })));
        }
        let quoting = if at_start { &QUOTING[..] } else { &[] };
        if let Some((behind, end)) = THINKING.iter().find_map(|(begin, end)| Some((behind_tag(rest, begin)?, *end))) {
            return Some((at + behind, Some(Open { end, inline: false })));
        }
        if let Some((begin, end)) = quoting.iter().find(|(begin, _)| starts_with(rest, begin)) {
            return Some((at + begin.len(), Some(Open { end, inline: false })));
        }
        from = at + 1;
    }
    None
}

/// The end of the tag that a text begins with. The tag may have attributes.
fn behind_tag(text: &str, tag: &str) -> Option<usize> {
    let name = tag.strip_suffix('>').filter(|name| starts_with(text, name))?;
    let rest = &text[name.len()..];
    let end = rest.find('>').filter(|end| *end == 0 || rest.starts_with([' ', '\t']) && !rest[..*end].contains('<'))?;
    Some(name.len() + end + 1)
}

/// A line without its inline code.
fn without_code(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let (before, code) = rest.split_at(at);
        kept.push_str(before);
        let inner = code.trim_start_matches('`');
        let marks = &code[..code.len() - inner.len()];
        let end = inner.match_indices(marks).map(|(at, _)| at).find(|at| {
            let alone = |c: Option<char>| c != Some('`');
            alone(inner[..*at].chars().next_back()) && alone(inner[at + marks.len()..].chars().next())
        });
        if end.is_none() {
            kept.push_str(marks);
        }
        rest = end.map_or(inner, |at| &inner[at + marks.len()..]);
    }
    kept + rest
}

/// Whether a text begins with an ASCII word, in any letter case.
pub fn starts_with(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// The position of an ASCII word, in any letter case.
pub fn find(text: &str, word: &str) -> Option<usize> {
    let first = word.as_bytes().first()?;
    memchr::memchr_iter(*first, text.as_bytes()).find(|at| text.is_char_boundary(*at) && starts_with(&text[*at..], word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_enclosed_until_the_end_of_what_encloses_it() {
        let table: &[(&str, bool)] = &[
            ("<!-- a", true),
            ("<!-- a\n\nb", true),
            ("<!-- a -->", false),
            ("<!-- a --> b <!-- c", true),
            ("a <!-- b", true),
            ("a <!-- b\n\n", false),
            ("I escape `<!--` now", false),
            ("I escape ``a ` <!--`` now", false),
            ("a ` <!--", true),
            ("<think>", true),
            ("so: <Thinking> hm", true),
            ("<think>a</THINK>", false),
            ("<think>\n</thinking>", true),
            ("<think id=\"1\">", true),
            ("so <thinking >", true),
            ("<think about it", false),
            ("<thinker>", false),
            ("<source>rust", true),
            ("a <source>", false),
            ("<source src='x'>", false),
            ("<source>\nx\n</source>", false),
            ("<blockquote>", true),
        ];
        for (text, open) in table {
            let mut enclosure = Enclosure::default();
            for line in text.split('\n') {
                if line.is_empty() {
                    enclosure.blank();
                }
                enclosure.take(line);
            }
            assert_eq!(enclosure.is_open(), *open, "{text}");
        }
    }

    #[test]
    fn a_fence_within_a_fence_is_read_in_both_ways() {
        let table: &[(&str, (bool, bool))] = &[
            ("```\na", (true, true)),
            ("```\na\n```\nb", (false, false)),
            ("```md\n```sh\na\n```\nb", (true, false)),
            ("```md\n```sh\na\n```\n```\nb", (true, false)),
            ("````md\n```sh\na\n```\n````\nb", (false, false)),
            ("````md\n```sh\na\n```\nb", (true, true)),
            ("~~~\n```\na", (true, true)),
            ("~~~\n```\n~~~\na", (false, false)),
        ];
        for (text, expected) in table {
            let mut fences = Fences::default();
            let last = text.split('\n').map(|line| fences.take(line, false)).last();
            assert_eq!(last, Some(*expected), "{text}");
        }
    }
}
