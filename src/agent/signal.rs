//! The promise: what the agent says about its story. Pure; fed line by line, in bounded memory.

use serde::{Deserialize, Serialize};

const OPEN: &str = "<promise>";
const CLOSE: &str = "</promise>";
/// A reason longer than this is cut.
const LONGEST_REASON: usize = 16 * 1024;
/// How much of the text before a tag is compared with the prompt to tell an echo.
const CONTEXT: usize = 24;

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
    /// The promise in a final message; `prompt` is what the agent was told, so that an echo of it is not a promise.
    #[must_use]
    pub fn of(message: &str, prompt: &str) -> Self {
        let mut scanner = Scanner::new(prompt);
        for line in message.lines() {
            scanner.line(line);
        }
        scanner.signal()
    }
}

/// Finds the promise in a text that arrives line by line.
///
/// A tag counts if it stands alone on its line, outside of code (fenced or indented), and is not part of an echo of
/// the prompt. FAILED beats COMPLETE: a message that says both is not a clear success. Of several FAILED the last counts.
#[derive(Debug)]
pub struct Scanner {
    prompt: String,
    context: String,
    fence: Option<Fence>,
    /// The reason of a FAILED tag that has not been closed yet.
    open: Option<String>,
    complete: bool,
    failed: Option<String>,
}

#[derive(Debug, PartialEq)]
struct Fence {
    mark: char,
    length: usize,
}

impl Scanner {
    /// For an agent that was given `prompt`.
    #[must_use]
    pub fn new(prompt: &str) -> Self {
        // Only a prompt that holds a tag can have one echoed.
        let prompt = if prompt.contains(OPEN) { squeeze(prompt) } else { String::new() };
        Scanner { prompt, context: String::new(), fence: None, open: None, complete: false, failed: None }
    }

    /// What has been said so far.
    #[must_use]
    pub fn signal(&self) -> Signal {
        match (&self.failed, self.complete) {
            (Some(reason), _) => Signal::Failed { reason: reason.clone() },
            (None, true) => Signal::Complete,
            (None, false) => Signal::Nothing,
        }
    }

    /// Whether a line could matter: most of an agent's output cannot, and there may be gigabytes of it.
    #[must_use]
    pub fn cares_about(&self, line: &[u8]) -> bool {
        !self.prompt.is_empty() || self.open.is_some() || line.iter().any(|byte| matches!(byte, b'<' | b'`' | b'~'))
    }

    /// Takes the next line, without its newline.
    pub fn line(&mut self, line: &str) {
        let line = line.trim_end();
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if self.in_fence(text, indent) {
            self.remember(text);
            return;
        }
        if let Some(reason) = self.open.take() {
            self.go_on(reason, text);
        } else if indent < 4 && !line.starts_with('\t') {
            self.tag(text);
        }
        self.remember(text);
    }

    fn tag(&mut self, text: &str) {
        let Some(inside) = text.strip_prefix(OPEN).filter(|_| !self.is_echo(text)) else { return };
        match inside.strip_suffix(CLOSE) {
            Some(word) if word.contains(OPEN) || word.contains(CLOSE) => {}
            Some(word) => self.said(word),
            None if is_failed(inside).is_some() && !inside.contains(CLOSE) => {
                self.open = Some(inside.to_owned());
            }
            None => {}
        }
    }

    /// The next line of a FAILED tag that spans several.
    fn go_on(&mut self, mut reason: String, text: &str) {
        if text.starts_with(OPEN) {
            self.tag(text);
            return;
        }
        let (piece, closed) = match text.split_once(CLOSE) {
            // Something behind the closing tag: the tag does not stand alone.
            Some((_, rest)) if !rest.trim().is_empty() => return,
            Some((piece, _)) => (piece, true),
            None => (text, false),
        };
        if reason.len() < LONGEST_REASON {
            reason.push('\n');
            reason.push_str(piece);
        }
        if closed {
            self.said(&reason);
        } else {
            self.open = Some(reason);
        }
    }

    fn said(&mut self, word: &str) {
        if word.trim() == "COMPLETE" {
            self.complete = true;
        } else if let Some(reason) = is_failed(word) {
            self.failed = Some(cut(reason.trim(), LONGEST_REASON).to_owned());
        }
    }

    fn in_fence(&mut self, text: &str, indent: usize) -> bool {
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let length = mark.map_or(0, |mark| text.chars().take_while(|c| *c == mark).count());
        let rest = text.get(length..).unwrap_or_default();
        match (&self.fence, mark) {
            (Some(fence), Some(mark)) if mark == fence.mark && length >= fence.length && rest.trim().is_empty() => {
                self.fence = None;
                true
            }
            (Some(_), _) => true,
            // A fence of backticks has none behind it on its line, else it is code in a sentence.
            (None, Some(mark)) if length >= 3 && indent < 4 && !(mark == '`' && rest.contains('`')) => {
                self.fence = Some(Fence { mark, length });
                true
            }
            (None, _) => false,
        }
    }

    fn is_echo(&self, text: &str) -> bool {
        if self.prompt.is_empty() {
            return false;
        }
        let echo = format!("{} {}", self.context, squeeze(text));
        self.prompt.contains(echo.trim_start())
    }

    /// Keeps the end of the text so far, blanks squeezed, as wrapping and indenting change nothing else.
    fn remember(&mut self, text: &str) {
        if self.prompt.is_empty() || text.is_empty() {
            return;
        }
        let tail = cut_front(text, 4 * CONTEXT);
        self.context = squeeze(&format!("{} {tail}", self.context));
        self.context = cut_front(&self.context, CONTEXT).to_owned();
    }
}

/// The reason, if the word is FAILED with or without one.
fn is_failed(word: &str) -> Option<&str> {
    let rest = word.trim_start().strip_prefix("FAILED")?;
    match rest.trim_start().strip_prefix(':') {
        Some(reason) => Some(reason),
        None if rest.trim().is_empty() => Some(""),
        None => None,
    }
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

fn cut_front(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: &str =
        "Do it.\nIf all is well say:\n<promise>COMPLETE</promise>\nIf it is not, say:\n<promise>FAILED: why</promise>\nNow begin.";

    fn failed(reason: &str) -> Signal {
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
            ("failed", "<promise>FAILED: no network</promise>", failed("no network")),
            ("failed without reason", "<promise>FAILED</promise>", failed("")),
            ("failed with empty reason", "<promise>FAILED:</promise>", failed("")),
            ("failed over lines", "<promise>FAILED: first\n  second\nthird</promise>", failed("first\nsecond\nthird")),
            ("failed, tags on lines of their own", "<promise>\nFAILED: x\n</promise>", Signal::Nothing),
            ("reason starts on the next line", "<promise>FAILED:\nx\n</promise>", failed("x")),
            ("failed after complete", "<promise>COMPLETE</promise>\n<promise>FAILED: no</promise>", failed("no")),
            ("complete after failed", "<promise>FAILED: no</promise>\n<promise>COMPLETE</promise>", failed("no")),
            ("the last reason", "<promise>FAILED: a</promise>\n<promise>FAILED: b</promise>", failed("b")),
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
            ("never closed", "<promise>FAILED: a\nb\n", Signal::Nothing),
            ("text behind the end", "<promise>FAILED: a\nb</promise> or so", Signal::Nothing),
            ("two on a line", "<promise>COMPLETE</promise><promise>COMPLETE</promise>", Signal::Nothing),
        ];
        for (name, message, expected) in table {
            assert_eq!(Signal::of(message, "Do it."), *expected, "{name}");
        }
    }

    #[test]
    fn an_echo_of_the_prompt_is_not_a_promise() {
        let indented: String = PROMPT.lines().map(|line| format!("  {line}\n")).collect();
        let quoted: String = PROMPT.lines().map(|line| format!("> {line}\n")).collect();
        let wrapped = squeeze(PROMPT).replace("say: ", "say:\n").replace("</promise> ", "</promise>\n");
        for echo in [PROMPT, &indented, &quoted, &wrapped, &format!("user:\n{PROMPT}")] {
            assert_eq!(Signal::of(echo, PROMPT), Signal::Nothing, "{echo}");
        }
    }

    #[test]
    fn a_promise_after_an_echo_counts() {
        assert_eq!(Signal::of(&format!("{PROMPT}\n<promise>COMPLETE</promise>"), PROMPT), Signal::Complete);
        assert_eq!(Signal::of(&format!("{PROMPT}\nI tried.\n<promise>FAILED: why not</promise>"), PROMPT), failed("why not"));
    }

    #[test]
    fn a_reason_without_end_is_cut() {
        let message = format!("<promise>FAILED: {}</promise>", "ä".repeat(LONGEST_REASON));
        let Signal::Failed { reason } = Signal::of(&message, "") else { panic!("not failed") };
        assert!(reason.len() <= LONGEST_REASON);
    }
}
