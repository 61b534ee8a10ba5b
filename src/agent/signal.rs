//! The promise: what the agent says about its story. Pure; fed line by line, in bounded memory.

use serde::{Deserialize, Serialize};

use crate::fence::Fence;

const OPEN: &str = "<promise>";
const CLOSE: &str = "</promise>";
/// A reason longer than this is cut.
const LONGEST_REASON: usize = 16 * 1024;

/// What the agent said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "kebab-case")]
pub enum Signal {
    /// The story is done.
    Complete,
    /// It could not be done.
    Failed {
        /// Why, in the agent's words; may be empty.
        reason: String,
    },
    /// Neither.
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

/// Finds the promise in a text that arrives line by line.
///
/// COMPLETE counts if its tag stands alone on a line, outside of code (fenced or indented). FAILED beats COMPLETE: a
/// message that says both is not a clear success, so a FAILED tag counts even if it is malformed. Of several the last
/// one counts. An echo of the prompt needs no care here: a prompt never holds a tag, see [`disarmed`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanner {
    fence: Fence,
    /// The last FAILED tag has not been closed yet: its reason goes on.
    open: bool,
    complete: bool,
    failed: Option<String>,
}

impl Scanner {
    /// What has been said so far.
    #[must_use]
    pub fn signal(&self) -> Signal {
        match (&self.failed, self.complete) {
            (Some(reason), _) => Signal::Failed { reason: cut(reason.trim(), LONGEST_REASON).to_owned() },
            (None, true) => Signal::Complete,
            (None, false) => Signal::Nothing,
        }
    }

    /// Whether a line could matter: most of an agent's output cannot, and there may be gigabytes of it.
    #[must_use]
    pub fn cares_about(&self, line: &[u8]) -> bool {
        self.open || memchr::memchr3(b'<', b'`', b'~', line).is_some()
    }

    /// Takes the next line, without its newline.
    pub fn line(&mut self, line: &str) {
        // What is before a carriage return has been overwritten on the agent's screen.
        let line = line.trim_end();
        let line = line.rsplit('\r').next().unwrap_or(line).trim_start_matches('\u{feff}');
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if self.open {
            self.go_on(text);
        } else if !self.fence.takes(text, indent < 4) && indent < 4 && !line.starts_with('\t') {
            self.tag(text);
        }
    }

    /// Takes the beginning of a line that is too long to be kept.
    pub fn overlong(&mut self, beginning: &str) {
        if self.open || failed(beginning.trim_start()).is_some() {
            self.line(beginning);
        }
    }

    fn tag(&mut self, text: &str) {
        if let Some(reason) = failed(text) {
            self.open = !reason.contains(CLOSE);
            self.failed = Some(reason.replace(CLOSE, ""));
        } else if text.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)).is_some_and(|word| word.trim() == "COMPLETE") {
            self.complete = true;
        }
    }

    /// The next line of a FAILED tag that spans several. A reason may quote a tag, which does not close it.
    fn go_on(&mut self, text: &str) {
        let quoted = text.starts_with(OPEN);
        if quoted && failed(text).is_some() {
            self.tag(text);
            return;
        }
        let closed = !quoted && text.contains(CLOSE);
        self.open = !closed;
        if let Some(reason) = self.failed.as_mut().filter(|reason| reason.len() < LONGEST_REASON) {
            reason.push('\n');
            reason.push_str(&if closed { text.replace(CLOSE, "") } else { text.to_owned() });
        }
    }
}

/// What stands behind `<promise>FAILED`, if a line starts with it.
fn failed(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(OPEN)?.trim_start().strip_prefix("FAILED")?;
    let more = rest.trim_start();
    match more.strip_prefix(':') {
        Some(reason) => Some(reason),
        None if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') => None,
        None => Some(more),
    }
}

/// A text in which no tag is left that could be taken for a promise when an agent repeats it.
#[must_use]
pub fn disarmed(text: &str) -> String {
    // A reader takes control sequences out, and what is around one becomes a tag; without its first byte it is just text.
    let text = text.replace(['\u{1b}', '\u{9b}'], "");
    let mut safe = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(OPEN) {
        let (before, tag) = rest.split_at(at + OPEN.len());
        safe.push_str(before);
        let word = tag.trim_start();
        rest = match ["COMPLETE", "FAILED"].into_iter().find_map(|said| word.strip_prefix(said)) {
            Some(behind) => {
                safe.push_str("WORD");
                behind
            }
            None => tag,
        };
    }
    safe.push_str(rest);
    safe
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

    #[test]
    fn the_table_of_promises() {
        let table: &[(&str, &str, Signal)] = &[
            ("complete", "<promise>COMPLETE</promise>", Signal::Complete),
            ("complete after text", "All done.\n\n<promise>COMPLETE</promise>\n", Signal::Complete),
            ("complete before text", "<promise>COMPLETE</promise>\nSee the diff.", Signal::Complete),
            ("windows line ends", "done\r\n<promise>COMPLETE</promise>\r\n", Signal::Complete),
            ("blanks around", "  <promise> COMPLETE </promise>  ", Signal::Complete),
            ("failed", "<promise>FAILED: no network</promise>", said("no network")),
            ("failed without reason", "<promise>FAILED</promise>", said("")),
            ("failed with empty reason", "<promise>FAILED:</promise>", said("")),
            ("failed over lines", "<promise>FAILED: first\n  second\nthird</promise>", said("first\nsecond\nthird")),
            ("failed, tags on lines of their own", "<promise>\nFAILED: x\n</promise>", Signal::Nothing),
            ("failed without a colon", "<promise>FAILED - tests red</promise>", said("- tests red")),
            ("failed with a full stop", "<promise>COMPLETE</promise>\n<promise>FAILED: red</promise>.", said("red.")),
            ("failed and never closed", "<promise>COMPLETE</promise>\n<promise>FAILED: a\nb\n", said("a\nb")),
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
            ("behind a spinner", "working...\r<promise>COMPLETE</promise>", Signal::Complete),
            ("behind a byte order mark", "\u{feff}<promise>COMPLETE</promise>", Signal::Complete),
            ("reason starts on the next line", "<promise>FAILED:\nx\n</promise>", said("x")),
            ("failed after complete", "<promise>COMPLETE</promise>\n<promise>FAILED: no</promise>", said("no")),
            ("complete after failed", "<promise>FAILED: no</promise>\n<promise>COMPLETE</promise>", said("no")),
            ("the last reason", "<promise>FAILED: a</promise>\n<promise>FAILED: b</promise>", said("b")),
            ("nothing", "I am still working.", Signal::Nothing),
            ("empty", "", Signal::Nothing),
            ("in a sentence", "I will print <promise>COMPLETE</promise> when done", Signal::Nothing),
            ("at the end of a sentence", "Done. <promise>COMPLETE</promise>", Signal::Nothing),
            ("at the start of a sentence", "<promise>COMPLETE</promise> is what I would say", Signal::Nothing),
            ("quoted", "> <promise>COMPLETE</promise>", Signal::Nothing),
            ("in backticks", "`<promise>COMPLETE</promise>`", Signal::Nothing),
            ("in a list", "- <promise>COMPLETE</promise>", Signal::Nothing),
            ("in a fence", "```\n<promise>COMPLETE</promise>\n```", Signal::Nothing),
            ("in a fence with a language", "```xml\n<promise>COMPLETE</promise>\n```\n", Signal::Nothing),
            ("in tildes", "~~~\n<promise>COMPLETE</promise>\n~~~", Signal::Nothing),
            ("in a long fence", "````\n```\n<promise>COMPLETE</promise>\n````", Signal::Nothing),
            ("in a fence that never ends", "```\n<promise>COMPLETE</promise>", Signal::Nothing),
            ("after a fence", "```\ncode\n```\n<promise>COMPLETE</promise>", Signal::Complete),
            ("indented as code", "    <promise>COMPLETE</promise>", Signal::Nothing),
            ("behind a tab", "\t<promise>COMPLETE</promise>", Signal::Nothing),
            ("another word", "<promise>DONE</promise>", Signal::Nothing),
            ("lower case", "<promise>complete</promise>", Signal::Nothing),
            ("not quite failed", "<promise>FAILEDX: a</promise>", Signal::Nothing),
            ("text behind the end", "<promise>FAILED: a\nb</promise> or so", said("a\nb or so")),
            ("two on a line", "<promise>COMPLETE</promise><promise>COMPLETE</promise>", Signal::Nothing),
        ];
        for (name, message, expected) in table {
            assert_eq!(Signal::of(message), *expected, "{name}");
        }
    }

    #[test]
    fn a_disarmed_text_holds_no_promise_however_it_is_cut() {
        let text = "Say:\n<promise>COMPLETE</promise>\nor\n<promise> FAILED: why</promise>\nand <promise>other</promise>";
        let safe = disarmed(text);
        assert_eq!(safe, "Say:\n<promise>WORD</promise>\nor\n<promise>WORD: why</promise>\nand <promise>other</promise>");
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
