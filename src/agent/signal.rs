//! Finds the agent's promise: the tag in its final message that says how the story went. Pure; reads line by line, in bounded memory.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::enclosure::{Enclosure, Fences, find, starts_with};
use super::verdict::{may_be_verdict, verdict};

const OPEN: &str = "<promise>";
const CLOSE: &str = "</promise>";
/// A longer reason is cut.
const LONGEST_REASON: usize = 16 * 1024;
/// How many bytes of a line are quoted.
const LONGEST_QUOTE: usize = 200;

/// What the agent's promise says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "kebab-case")]
pub enum Signal {
    /// The story is done.
    Complete,
    /// The story could not be done.
    Failed {
        /// Why, in the agent's words; may be empty.
        reason: String,
    },
    /// The story cannot be done without help.
    Blocked {
        /// What is needed, in the agent's words; may be empty.
        needs: String,
    },
    /// There was no promise.
    #[default]
    Nothing,
}

impl Signal {
    /// The promise in a final message.
    #[must_use]
    pub fn of(message: &str) -> Self {
        let mut scanner = Scanner::default();
        for line in message.split('\n') {
            scanner.line(line);
        }
        scanner.signal()
    }
}

/// Finds the promise in a message that arrives line by line.
///
/// **COMPLETE** counts only if its tag stands alone on the last line that is not blank. Around the tag, a list bullet,
/// Markdown emphasis or backticks, zero-width characters and a full stop are tolerated. A tag in code, in an HTML
/// comment, in a quotation or in a block of thinking does not count.
///
/// **FAILED and BLOCKED** override COMPLETE anywhere in the message except in a code fence, in any letter case. They
/// count:
/// - as a promise tag, even inside a sentence or malformed;
/// - as a verdict without a tag, if the message also has a COMPLETE that it contradicts. A verdict is a line that
///   consists of the word, that begins with the word and continues with a reason ("FAILED: tests are red", "blocked by
///   a missing key"), or that assigns the word to a label ("Verdict: FAILED", "Tests: FAILED", "the story is blocked", "I'm
///   blocked"), whatever decorates the line. A count ("Failed: 0") is not a verdict, and neither is the word in an ordinary
///   sentence ("3 tests failed before", "added the state BLOCKED"), because stories are about such things.
///
/// Nested code fences can be read in two ways. A COMPLETE must be outside the fences in both readings, a FAILED in only
/// one: rejecting finished work costs another attempt, accepting unfinished work costs much more. An agent that echoes
/// its prompt does no harm, because a prompt never contains a tag, see [`disarmed`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanner {
    fences: Fences,
    enclosure: Enclosure,
    /// The last FAILED or BLOCKED tag has not been closed yet: the lines that follow belong to its reason.
    open: bool,
    /// What kind of line the last non-blank line was.
    last: Last,
    /// There was a COMPLETE tag that would have counted as the last line.
    completed: bool,
    /// The last FAILED or BLOCKED tag.
    refusal: Option<Refusal>,
    /// The last FAILED or BLOCKED verdict without a tag.
    verdict: Option<Refusal>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    Complete,
    Refusal,
    #[default]
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    word: Word,
    reason: String,
}

impl Refusal {
    fn signal(&self) -> Signal {
        let said = cut(self.reason.trim(), LONGEST_REASON).to_owned();
        if self.word == Word::Blocked { Signal::Blocked { needs: said } } else { Signal::Failed { reason: said } }
    }
}

/// The words that a promise tag can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Complete,
    Failed,
    Blocked,
}

impl Word {
    const ALL: [(Word, &str); 3] = [(Word::Complete, "COMPLETE"), (Word::Failed, "FAILED"), (Word::Blocked, "BLOCKED")];

    /// The word that a text begins with, in any letter case, and its length.
    pub fn at_start_of(text: &str) -> Option<(Word, usize)> {
        Self::ALL.into_iter().find(|(_, name)| starts_with(text, name)).map(|(word, name)| (word, name.len()))
    }
}

impl Scanner {
    /// The promise in the lines read so far.
    #[must_use]
    pub fn signal(&self) -> Signal {
        match (&self.refusal, &self.verdict) {
            (Some(refusal), _) => refusal.signal(),
            (None, Some(verdict)) if self.completed => verdict.signal(),
            (None, _) if self.last == Last::Complete => Signal::Complete,
            (None, _) => Signal::Nothing,
        }
    }

    /// Whether the message so far ends with the promise.
    #[must_use]
    pub fn concluded(&self) -> bool {
        match self.signal() {
            Signal::Nothing => false,
            Signal::Complete => true,
            Signal::Failed { .. } | Signal::Blocked { .. } => self.last != Last::Other,
        }
    }

    /// Whether a line can affect the result. Most lines cannot, and an agent may print gigabytes of them.
    #[must_use]
    pub fn cares_about(&self, line: &[u8]) -> bool {
        self.open || self.enclosure.is_open() || self.last != Last::Other || is_telling(line)
    }

    /// Whether a piece of an overlong line can affect the result.
    #[must_use]
    pub fn cares_about_piece(&self, piece: &[u8]) -> bool {
        self.open || self.enclosure.is_open() || memchr::memchr(b'<', piece).is_some()
    }

    /// Takes a non-blank line that cannot affect the result.
    pub fn other(&mut self) {
        self.last = Last::Other;
    }

    /// Takes the next line, without its newline.
    pub fn line(&mut self, line: &str) {
        let line = line.trim_ascii_end();
        if line.chars().all(is_blank) {
            self.enclosure.blank();
            return;
        }
        // Text before a carriage return was overwritten on the agent's screen.
        let shown = line.rsplit('\r').next().unwrap_or(line);
        if self.open {
            self.go_on(shown.trim_start());
            return;
        }
        let text = shown.trim_start_matches(is_blank);
        let margin = &shown[..shown.len() - text.len()];
        let indented = margin.contains('\t') || margin.chars().filter(|c| *c == ' ').count() >= 4;
        let enclosed = self.enclosure.is_open();
        let (in_doubt, fenced) = self.fences.take(unbulleted(text.trim_start_matches(['>', ' '])), indented);
        self.last = Last::Other;
        if fenced {
            return;
        }
        self.enclosure.take(shown);
        if !self.refuses(line) && !in_doubt && !enclosed && !indented && is_complete(text) {
            self.completed = true;
            self.last = Last::Complete;
        }
        if let Some(word) = verdict(shown) {
            let line = cut(text.trim_matches(is_blank), LONGEST_QUOTE);
            self.verdict = Some(Refusal { word, reason: format!("its final message says COMPLETE, and also: {line}") });
        }
    }

    /// Takes a piece of an overlong line. The line cannot be a COMPLETE tag, but may contain a FAILED or BLOCKED tag.
    pub fn piece(&mut self, piece: &str) {
        if self.open {
            self.go_on(piece);
        } else {
            self.last = Last::Other;
            if !self.fences.surely_open() {
                self.enclosure.take(piece);
                self.refuses(piece);
            }
        }
    }

    /// Looks for a FAILED or BLOCKED tag anywhere in a line.
    fn refuses(&mut self, line: &str) -> bool {
        let Some((word, reason)) = refusal(line) else { return false };
        let (reason, closed) = unclosed(reason);
        self.open = !closed;
        self.refusal = Some(Refusal { word, reason });
        self.last = Last::Refusal;
        true
    }

    /// Adds the next line of a tag that spans several lines. The reason may quote a tag, whose end does not close this one.
    fn go_on(&mut self, text: &str) {
        let quoted = starts_with(text, OPEN);
        if quoted && self.refuses(text) {
            return;
        }
        self.last = Last::Refusal;
        let (more, closed) = unclosed(text);
        self.open = quoted || !closed;
        let Some(Refusal { reason, .. }) = &mut self.refusal else { return };
        reason.push('\n');
        reason.push_str(if quoted { text } else { &more });
        // A longer reason is cut anyway, and closing it here lets the rest of a long output be skipped quickly.
        self.open &= reason.len() < LONGEST_REASON;
    }
}

/// Whether a line contains anything that [`Scanner::line`] would look at. Must be fast; false positives are harmless.
fn is_telling(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let mut shown = 0;
    for at in memchr::memchr2_iter(b'<', b'\r', line) {
        if line[at] == b'<' {
            return true;
        }
        shown = at + 1;
    }
    let mut rest = &line[shown..];
    // Decoration comes before the first letter of a line.
    while let [first, more @ ..] = rest {
        match (first, more) {
            // A code fence, or a byte that a terminal takes for the start of a control sequence.
            (b'`' | b'~' | 0x9b, _) => return true,
            (b'\x1b', [b'[', sequence @ ..]) => {
                let Some(end) = sequence.iter().position(|byte| matches!(byte, 0x40..=0x7e)) else { return true };
                rest = &sequence[end + 1..];
            }
            (b'\x1b', _) => return true,
            (letter, _) if letter.is_ascii_alphabetic() => return may_be_verdict(rest),
            _ => rest = more,
        }
    }
    false
}

/// Whether a character is invisible: white space, a control character or a zero-width character.
pub fn is_blank(c: char) -> bool {
    let invisible = matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
    invisible || c.is_whitespace() || c.is_control()
}

/// Whether a character may stand between the brackets of a tag and its word.
fn is_padding(c: char) -> bool {
    is_blank(c) || matches!(c, '*' | '_' | '`' | '"' | '\'')
}

/// The text after a list bullet or number, if it has one.
fn unbulleted(text: &str) -> &str {
    let behind = match text.strip_prefix(['-', '*', '+', '•']) {
        Some(behind) => Some(behind),
        None if text.starts_with(|c: char| c.is_ascii_digit()) => {
            text.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix(['.', ')'])
        }
        None => None,
    };
    // With more than four spaces after the bullet, Markdown takes the text for code.
    let gap = |behind: &&str| (1..=4).contains(&(behind.len() - behind.trim_start_matches(' ').len()));
    behind.filter(gap).map_or(text, |behind| behind.trim_start_matches(' '))
}

/// Whether a line is a COMPLETE tag with nothing but decoration around it.
fn is_complete(line: &str) -> bool {
    let text = unbulleted(line.trim_matches(is_blank)).trim_start_matches(is_blank);
    let (Some(start), Some(end)) = (text.find('<'), text.rfind('>')) else { return false };
    let word = text.get(start..=end).and_then(|tag| tag.strip_prefix(OPEN)?.strip_suffix(CLOSE));
    word.is_some_and(|word| word.trim() == "COMPLETE") && is_emphasis(&text[..start], &text[end + 1..])
}

/// Whether the text around a tag is only emphasis, mirrored on both sides, and a full stop.
fn is_emphasis(before: &str, behind: &str) -> bool {
    let visible = |text: &str| text.chars().filter(|c| !is_blank(*c)).collect::<String>();
    let (before, behind) = (visible(before), visible(behind).replacen('.', "", 1));
    before.chars().all(|c| matches!(c, '*' | '_' | '`')) && before.chars().rev().eq(behind.chars())
}

/// The next tag with one of the words, in any letter case: the word and its position.
fn next_tag(text: &str, from: usize) -> Option<(Word, Range<usize>)> {
    let unpadded = |at: usize| text.len() - text[at..].trim_start_matches(is_padding).len();
    memchr::memchr_iter(b'<', &text.as_bytes()[from..]).find_map(|at| {
        let name = unpadded(from + at + 1);
        let bracket = starts_with(&text[name..], "promise").then(|| unpadded(name + "promise".len()))?;
        let start = text[bracket..].starts_with('>').then(|| unpadded(bracket + 1))?;
        let (word, length) = Word::at_start_of(&text[start..])?;
        Some((word, start..start + length))
    })
}

/// The first FAILED or BLOCKED tag in a line, and the text after its word.
fn refusal(line: &str) -> Option<(Word, &str)> {
    let mut from = 0;
    while let Some((word, at)) = next_tag(line, from) {
        from = at.end;
        let rest = &line[at.end..];
        let goes_on = rest.trim_start_matches('_').starts_with(char::is_alphanumeric);
        if word != Word::Complete && !goes_on {
            let reason = rest.trim_start_matches(is_padding);
            return Some((word, reason.strip_prefix(':').unwrap_or(reason)));
        }
    }
    None
}

/// A reason without the closing tags in it, and whether there was one.
fn unclosed(text: &str) -> (String, bool) {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some(at) = find(rest, CLOSE) {
        kept.push_str(&rest[..at]);
        rest = &rest[at + CLOSE.len()..];
    }
    (kept + rest, rest.len() < text.len())
}

/// Replaces the word of every promise tag in a text, so that an agent that repeats the text makes no promise.
#[must_use]
pub fn disarmed(text: &str) -> String {
    // The reader strips control sequences, which could turn the text around one into a tag. Without the escape byte it
    // is ordinary text.
    let text = text.replace(['\u{1b}', '\u{9b}'], "");
    let mut safe = String::with_capacity(text.len());
    let mut from = 0;
    while let Some((_, word)) = next_tag(&text, from) {
        safe.push_str(&text[from..word.start]);
        safe.push_str("WORD");
        from = word.end;
    }
    safe + &text[from..]
}

fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(reason: &str) -> Signal {
        Signal::Failed { reason: reason.to_owned() }
    }

    fn blocked(needs: &str) -> Signal {
        Signal::Blocked { needs: needs.to_owned() }
    }

    fn contradicted(line: &str) -> Signal {
        said(&format!("its final message says COMPLETE, and also: {line}"))
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn the_last_line_is_the_promise() {
        let table: &[(&str, &str, Signal)] = &[
            ("complete", "<promise>COMPLETE</promise>", Signal::Complete),
            ("after text", "All done.\n\n<promise>COMPLETE</promise>\n", Signal::Complete),
            ("before blank lines", "<promise>COMPLETE</promise>\n\n \t\n\u{200b}\n", Signal::Complete),
            ("windows line ends", "done\r\n<promise>COMPLETE</promise>\r\n", Signal::Complete),
            ("blanks around", "  <promise> COMPLETE </promise>  ", Signal::Complete),
            ("behind a spinner", "working...\r<promise>COMPLETE</promise>", Signal::Complete),
            ("behind a byte order mark", "\u{feff}<promise>COMPLETE</promise>", Signal::Complete),
            ("bold", "**<promise>COMPLETE</promise>**", Signal::Complete),
            ("bold, with a full stop", "__<promise>COMPLETE</promise>.__", Signal::Complete),
            ("a full stop", "<promise>COMPLETE</promise>.", Signal::Complete),
            ("in backticks", "`<promise>COMPLETE</promise>`", Signal::Complete),
            ("in three backticks on its line", "```<promise>COMPLETE</promise>```", Signal::Complete),
            ("in a list", "- <promise>COMPLETE</promise>", Signal::Complete),
            ("bold in a list", "* **<promise>COMPLETE</promise>**", Signal::Complete),
            ("in a numbered list", "3. <promise>COMPLETE</promise>", Signal::Complete),
            ("zero-width spaces", "\u{200b}<promise>COMPLETE</promise>\u{200b}\u{feff}", Signal::Complete),
            ("zero-width spaces in bold", "**\u{200b}<promise>COMPLETE</promise>\u{200b}**", Signal::Complete),
            ("twice", "<promise>COMPLETE</promise>\nSummary.\n<promise>COMPLETE</promise>", Signal::Complete),
            ("after a fence", "```\ncode\n```\n<promise>COMPLETE</promise>", Signal::Complete),
            ("after a fence in a list", "- ```sh\n  x\n  ```\n<promise>COMPLETE</promise>", Signal::Complete),
            ("after a comment", "<!-- a\nb -->\n<promise>COMPLETE</promise>", Signal::Complete),
            ("after thinking", "<think>\nhm\n</think>\n<promise>COMPLETE</promise>", Signal::Complete),
            ("after a quotation", "> it said\n<promise>COMPLETE</promise>", Signal::Complete),
            ("after a comment in a sentence", "I escape `<!--` now.\n\n<promise>COMPLETE</promise>", Signal::Complete),
            ("before text", "<promise>COMPLETE</promise>\nSee the diff.", Signal::Nothing),
            ("before a doubt", "<promise>COMPLETE</promise>\n\nbut 3 tests are still red", Signal::Nothing),
            ("before the end of an answer", "It says:\n<promise>COMPLETE</promise>\nThe work is not finished.\n", Signal::Nothing),
            ("before a rule", "<promise>COMPLETE</promise>\n---", Signal::Nothing),
            ("nothing", "I am still working.", Signal::Nothing),
            ("empty", "", Signal::Nothing),
            ("in a sentence", "I will print <promise>COMPLETE</promise> when done", Signal::Nothing),
            ("at the end of a sentence", "Done. <promise>COMPLETE</promise>", Signal::Nothing),
            ("at the start of a sentence", "<promise>COMPLETE</promise> is what I would say", Signal::Nothing),
            ("before a carriage return", "<promise>COMPLETE</promise>\rnot yet", Signal::Nothing),
            ("quoted", "> <promise>COMPLETE</promise>", Signal::Nothing),
            ("in quotation marks", "\"<promise>COMPLETE</promise>\"", Signal::Nothing),
            ("struck out", "~~<promise>COMPLETE</promise>~~", Signal::Nothing),
            ("emphasis on one side", "**<promise>COMPLETE</promise>", Signal::Nothing),
            ("a heading", "# <promise>COMPLETE</promise>", Signal::Nothing),
            ("a question", "<promise>COMPLETE</promise>?", Signal::Nothing),
            ("dots", "<promise>COMPLETE</promise>...", Signal::Nothing),
            ("a box to tick", "- [ ] <promise>COMPLETE</promise>", Signal::Nothing),
            ("in a fence", "```\n<promise>COMPLETE</promise>\n```", Signal::Nothing),
            ("in tildes", "~~~\n<promise>COMPLETE</promise>\n~~~", Signal::Nothing),
            ("in a fence that never ends", "```xml\n<promise>COMPLETE</promise>", Signal::Nothing),
            ("in a long fence", "````\n```\n<promise>COMPLETE</promise>\n", Signal::Nothing),
            ("in a fence within a fence", "```md\n```sh\nx\n```\n<promise>COMPLETE</promise>", Signal::Nothing),
            ("in a fence that is quoted", "> ```\n> x\n<promise>COMPLETE</promise>", Signal::Nothing),
            ("in a fence that is not closed by code", "```\n    ```\n<promise>COMPLETE</promise>", Signal::Nothing),
            ("indented as code", "    <promise>COMPLETE</promise>", Signal::Nothing),
            ("indented as code in a list", "-      <promise>COMPLETE</promise>", Signal::Nothing),
            ("behind a tab", "\t<promise>COMPLETE</promise>", Signal::Nothing),
            ("in a comment", "<!-- <promise>COMPLETE</promise> -->", Signal::Nothing),
            ("in a comment over lines", "<!--\n\n<promise>COMPLETE</promise>", Signal::Nothing),
            ("in a comment in a paragraph", "not yet <!-- say\n<promise>COMPLETE</promise>", Signal::Nothing),
            ("in thinking", "<think>I could say\n\n<promise>COMPLETE</promise>", Signal::Nothing),
            ("in thinking with a name", "<Thinking>\n<promise>COMPLETE</promise>\n", Signal::Nothing),
            ("in source", "<source>xml\n<promise>COMPLETE</promise>", Signal::Nothing),
            ("in a block quotation", "<blockquote>\n<promise>COMPLETE</promise>", Signal::Nothing),
            ("another word", "<promise>DONE</promise>", Signal::Nothing),
            ("lower case", "<promise>complete</promise>", Signal::Nothing),
            ("not", "<promise>NOT COMPLETE</promise>", Signal::Nothing),
            ("two on a line", "<promise>COMPLETE</promise><promise>COMPLETE</promise>", Signal::Nothing),
            ("over lines", "<promise>\nCOMPLETE\n</promise>", Signal::Nothing),
        ];
        for (name, message, expected) in table {
            assert_eq!(Signal::of(message), *expected, "{name}");
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn a_refusal_beats_a_success_wherever_it_is() {
        let table: &[(&str, &str, Signal)] = &[
            ("failed", "<promise>FAILED: no network</promise>", said("no network")),
            ("without reason", "<promise>FAILED</promise>", said("")),
            ("with empty reason", "<promise>FAILED:</promise>", said("")),
            ("over lines", "<promise>FAILED: first\n  second\nthird</promise>", said("first\nsecond\nthird")),
            ("tags on lines of their own", "<promise>\nFAILED: x\n</promise>", Signal::Nothing),
            ("without a colon", "<promise>FAILED - tests red</promise>", said("- tests red")),
            ("with a full stop", "<promise>COMPLETE</promise>\n<promise>FAILED: red</promise>.", said("red.")),
            ("never closed", "<promise>COMPLETE</promise>\n<promise>FAILED: a\nb\n", said("a\nb")),
            (
                "a reason that quotes the tag",
                "<promise>FAILED: it says\n<promise>COMPLETE</promise>\nand no</promise>",
                said("it says\n<promise>COMPLETE</promise>\nand no"),
            ),
            (
                "a reason that quotes it inline",
                "<promise>FAILED: no <promise>COMPLETE</promise> seen</promise>",
                said("no <promise>COMPLETE seen"),
            ),
            (
                "a reason with a fence",
                "<promise>FAILED: it says\n```\nerror\n```\nso no</promise>",
                said("it says\n```\nerror\n```\nso no"),
            ),
            ("reason on the next line", "<promise>FAILED:\nx\n</promise>", said("x")),
            ("text behind the end", "<promise>FAILED: a\nb</promise> or so", said("a\nb or so")),
            ("after complete", "<promise>COMPLETE</promise>\n<promise>FAILED: no</promise>", said("no")),
            ("before complete", "<promise>FAILED: no</promise>\n<promise>COMPLETE</promise>", said("no")),
            ("the last one counts", "<promise>FAILED: a</promise>\n<promise>BLOCKED: b</promise>", blocked("b")),
            ("in a sentence", "Verdict: <promise>FAILED: red</promise>\n<promise>COMPLETE</promise>", said("red")),
            ("malformed", "Verdict: <promise>FAILED…\n<promise>COMPLETE</promise>", said("…\n<promise>COMPLETE</promise>")),
            ("lower case", "<promise>failed: red</promise>\n<promise>COMPLETE</promise>", said("red")),
            ("title case", "<Promise>Failed: red</Promise>\n<promise>COMPLETE</promise>", said("red")),
            ("bold", "<promise>**FAILED**: red</promise>\n<promise>COMPLETE</promise>", said("red")),
            ("blanks in the tag", "< promise > failed</promise>\n<promise>COMPLETE</promise>", said("")),
            ("quoted", "> <promise>FAILED: red</promise>\n<promise>COMPLETE</promise>", said("red")),
            ("in a list", "- <promise>FAILED: red</promise>\n<promise>COMPLETE</promise>", said("red")),
            ("in a comment", "<!-- <promise>FAILED: red</promise> -->\n<promise>COMPLETE</promise>", said("red -->")),
            ("indented", "    <promise>FAILED: red</promise>\n<promise>COMPLETE</promise>", said("red")),
            ("before a carriage return", "<promise>FAILED: red</promise>\rok\n<promise>COMPLETE</promise>", said("red\rok")),
            ("on the same line", "<promise>COMPLETE</promise> <promise>FAILED: red</promise>", said("red")),
            ("in a fence by one reading", "```md\n```sh\n```\n<promise>FAILED: red</promise>", said("red")),
            ("in a fence", "```\n<promise>FAILED: red</promise>\n```\n<promise>COMPLETE</promise>", Signal::Complete),
            ("not quite failed", "<promise>FAILEDX: a</promise>\n<promise>COMPLETE</promise>", Signal::Complete),
            ("a name", "<promise>failed_jobs</promise>\n<promise>COMPLETE</promise>", Signal::Complete),
            ("blocked", "<promise>BLOCKED: an API key</promise>", blocked("an API key")),
            ("blocked without a need", "So:\n<promise>blocked</promise>\n<promise>COMPLETE</promise>", blocked("")),
            ("a verdict before", "- FAILED\n\n<promise>COMPLETE</promise>", contradicted("- FAILED")),
            ("a verdict after", "<promise>COMPLETE</promise>\n**FAILED**", contradicted("**FAILED**")),
            ("a verdict in lower case", "failed: red\n<promise>COMPLETE</promise>", contradicted("failed: red")),
            ("a verdict in a fence", "```\nFAILED: a.o\n```\n<promise>COMPLETE</promise>", Signal::Complete),
            ("a result", "Tests: FAILED\n<promise>COMPLETE</promise>", contradicted("Tests: FAILED")),
            ("no failures", "0 tests FAILED, fixed the FAILED test.\n<promise>COMPLETE</promise>", Signal::Complete),
            ("a verdict that nothing contradicts", "FAILED: a.o", Signal::Nothing),
            (
                "a verdict with a label",
                "Status: BLOCKED\n<promise>COMPLETE</promise>",
                blocked("its final message says COMPLETE, and also: Status: BLOCKED"),
            ),
            ("failures that are over", "3 tests failed before, all pass now.\n\n<promise>COMPLETE</promise>", Signal::Complete),
            ("no failures", "- passed: 12\n- failed: 0\n\n<promise>COMPLETE</promise>", Signal::Complete),
            ("what the story is about", "Jobs in state FAILED or BLOCKED are shown.\n<promise>COMPLETE</promise>", Signal::Complete),
        ];
        for (name, message, expected) in table {
            assert_eq!(Signal::of(message), *expected, "{name}");
        }
    }

    #[test]
    fn a_line_that_matters_is_always_looked_at() {
        let lines = [
            "- FAILED",
            "\u{1b}[31mFAILED: x",
            "Verdict:\u{1b}[1m failed",
            "x\r- BLOCKED",
            "status 1. failed",
            "> ```",
            "1. ~~~",
            "❌ **Failed**",
            "a <b",
        ];
        for line in lines {
            assert!(Scanner::default().cares_about(line.as_bytes()), "{line}");
        }
        for line in ["", "running the tests", "    let x = 1;", "  - [x] done", "12 passed; 0 ignored"] {
            assert!(!Scanner::default().cares_about(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn a_disarmed_text_holds_no_promise_however_it_is_cut() {
        let text = "Say:\n<promise>COMPLETE</promise>\nor\n<promise> FAILED: why</promise>\nand <promise>other</promise>\n\
                    <Promise>**blocked**</promise>, < promise\u{200b}>\nfailed";
        let safe = disarmed(text);
        let expected = "Say:\n<promise>WORD</promise>\nor\n<promise> WORD: why</promise>\nand <promise>other</promise>\n\
                        <Promise>**WORD**</promise>, < promise\u{200b}>\nWORD";
        assert_eq!(safe, expected);
        let words: String = safe.split_whitespace().map(|word| format!("{word}\n")).collect();
        assert_eq!((Signal::of(&safe), Signal::of(&words)), (Signal::Nothing, Signal::Nothing));
    }

    #[test]
    fn a_disarmed_text_holds_no_control_sequence_that_hides_a_tag() {
        assert_eq!(disarmed("<pro\u{1b}[0mmise>COMPLETE</promise>"), "<pro[0mmise>COMPLETE</promise>");
        assert_eq!(disarmed("<promise\u{1b}>COMPLETE</promise>"), "<promise>WORD</promise>");
        assert_eq!(disarmed("<promise>\u{9b}1mCOMPLETE</promise>"), "<promise>1mCOMPLETE</promise>");
    }

    #[test]
    fn a_reason_without_end_is_cut() {
        let message = format!("<promise>FAILED: {}</promise>", "ä".repeat(LONGEST_REASON));
        let Signal::Failed { reason } = Signal::of(&message) else { panic!("not failed") };
        assert!(reason.len() <= LONGEST_REASON);
    }
}
