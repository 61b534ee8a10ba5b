//! Recognises a line that says FAILED or BLOCKED without a promise tag, such as "Verdict: FAILED". Pure.

use super::signal::{Word, is_blank};

/// The words of a verdict.
const REFUSALS: &[&str] = &["failed", "blocked"];
/// What a verdict can be about.
const LABELS: &[&str] =
    &["verdict", "status", "result", "outcome", "conclusion", "promise", "signal", "story", "attempt", "work", "task", "i", "we"];
/// Words that may stand around a label; the last two are the brackets of a tag written as HTML entities.
const FILLERS: &[&str] = &[
    "final",
    "overall",
    "my",
    "the",
    "this",
    "is",
    "was",
    "has",
    "have",
    "am",
    "m",
    "are",
    "re",
    "ve",
    "still",
    "now",
    "currently",
    "lt",
    "gt",
];
/// Words that introduce a reason. Work is blocked *by* or *on* something now, but a thing that failed *by* or *on*
/// something may pass now.
const CAUSES: &[&str] = &["because", "due", "since"];
const OBSTACLES: &[&str] = &["by", "on", "until", "pending", "without"];
/// Words that say that there is nothing to report.
const NONE: &[&str] = &["no", "none", "nothing", "nobody", "never", "zero", "n", "default"];
/// The word of a verdict must begin within this many bytes.
const FARTHEST: usize = 80;

/// The word that a line gives as its verdict; [`Scanner`](super::Scanner) describes what counts as a verdict.
pub fn verdict(line: &str) -> Option<Word> {
    let whole = undecorated(line);
    let (mut text, mut labelled, mut tagged) = (whole, false, false);
    while Word::at_start_of(text).is_none() {
        let (first, rest) = text.split_at(text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len()));
        labelled |= is_one_of(first, LABELS);
        tagged |= first.eq_ignore_ascii_case("promise") && rest.starts_with(['>', ']', ')', '}', '＞', '&']);
        text = undecorated(rest);
        if !is_one_of(first, LABELS) && !is_one_of(first, FILLERS) || whole.len() - text.len() > FARTHEST {
            return None;
        }
    }
    let (word, length) = Word::at_start_of(text).filter(|(word, _)| *word != Word::Complete)?;
    let (said, tail) = text.split_at(length);
    // "## Failed" may be the heading of a list that is empty.
    let heading = line.trim_start_matches(is_blank).starts_with('#') && said.contains(char::is_lowercase);
    let begins = labelled || text.len() == whole.len();
    tagged &= !tail.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let is_whole = ends(tail) || has_reason(tail) || has_cause(tail, labelled || word == Word::Blocked);
    (begins && !heading && (is_whole || tagged || labelled && is_clause(tail))).then_some(word)
}

/// Whether a line may be a verdict; the line starts at its first letter. Fast, with false positives.
///
/// Pays for the row `output: plain text`: words are told apart by their first two letters.
pub fn may_be_verdict(line: &[u8]) -> bool {
    let mut rest = line;
    while let [first, second, ..] = rest {
        if first.is_ascii_digit() {
            return true;
        }
        if !BEGINNINGS.may_be(*first, *second) {
            return false;
        }
        let refuses = |word: &&str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()));
        if matches!(first | 0x20, b'f' | b'b') && REFUSALS.iter().any(refuses) {
            return true;
        }
        let end = rest.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let more = &rest[end..];
        // Between two words there may be a control sequence or a byte of a multi-byte character.
        let between = more.iter().position(u8::is_ascii_alphanumeric).unwrap_or(more.len());
        if more[..between].iter().any(|byte| *byte == b'\x1b' || !byte.is_ascii()) {
            return true;
        }
        rest = &more[between..];
    }
    false
}

/// The first two letters of every word that a verdict can begin with.
static BEGINNINGS: Beginnings = Beginnings::of_all_words();

/// Indexed by the first letter; each entry has one bit per second letter.
struct Beginnings([u32; 32]);

impl Beginnings {
    const fn of_all_words() -> Self {
        let mut bits = [0; 32];
        let all = [REFUSALS, LABELS, FILLERS];
        let mut list = 0;
        while list < all.len() {
            let mut at = 0;
            while at < all[list].len() {
                let word = all[list][at].as_bytes();
                // A word of one letter can be followed by anything.
                bits[(word[0] & 31) as usize] |= if word.len() == 1 { u32::MAX } else { 1 << (word[1] & 31) };
                at += 1;
            }
            list += 1;
        }
        Beginnings(bits)
    }

    /// Ignores letter case. Other characters may be mistaken for letters.
    fn may_be(&self, first: u8, second: u8) -> bool {
        self.0[usize::from(first & 31)] >> (second & 31) & 1 == 1
    }
}

/// A text from its first word on, without bullet, number, quotation mark, emphasis and anything else that is neither a
/// letter nor a digit.
fn undecorated(text: &str) -> &str {
    let mut text = text;
    loop {
        text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
        let behind = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let Some(rest) = behind.strip_prefix(['.', ')']).filter(|_| behind.len() < text.len()) else { return text };
        text = rest;
    }
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// The text after the word, without closing emphasis, quotes and brackets.
fn behind(tail: &str) -> &str {
    tail.trim_start_matches(|c: char| is_blank(c) || "*_`\"')]}".contains(c))
}

/// Whether nothing follows the word.
fn ends(tail: &str) -> bool {
    behind(tail).trim_start_matches(['.', '!', '…']).trim_matches(|c: char| !c.is_alphanumeric()).is_empty()
}

/// Whether a reason follows the word: anything but a number or "none".
fn has_reason(tail: &str) -> bool {
    let rest = behind(tail);
    let dashed =
        || rest.strip_prefix(['–', '—']).or_else(|| rest.trim_start_matches('-').strip_prefix(' ').filter(|_| rest.starts_with('-')));
    let Some(reason) = rest.strip_prefix(':').or_else(dashed) else { return false };
    let reason = reason.trim_start_matches(|c: char| !c.is_alphanumeric());
    let first = reason.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    !first.starts_with(|c: char| c.is_numeric()) && !is_one_of(first, NONE)
}

/// Whether the sentence continues with a cause ("because of …", "by …"), other than "by nothing".
fn has_cause(tail: &str, any: bool) -> bool {
    let rest = behind(tail);
    let is_apart = tail[..tail.len() - rest.len()].contains(is_blank);
    let mut words = rest.split(|c: char| !c.is_alphanumeric());
    let first = words.next().unwrap_or_default();
    let is_cause = is_one_of(first, CAUSES) || any && is_one_of(first, OBSTACLES);
    is_apart && is_cause && !words.find(|word| !word.is_empty()).is_none_or(|word| is_one_of(word, NONE))
}

/// Whether the sentence or a clause of it ends after the word.
fn is_clause(tail: &str) -> bool {
    behind(tail).starts_with([',', ';', '(', '.', '!'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn the_table_of_verdicts() {
        let refused = [
            "FAILED",
            "- FAILED",
            "**FAILED**",
            "* **Failed.**",
            "> failed",
            "❌ FAILED!",
            "[FAILED]",
            "2. BLOCKED",
            "# FAILED",
            "| FAILED |",
            "FAILED: tests are red",
            "**Failed**: tests are red",
            "failed - tests are red",
            "Blocked — needs a key",
            "FAILED:",
            "Verdict: FAILED",
            "**Verdict:** `failed` (tests are red)",
            "Status – BLOCKED, waiting for a key",
            "Final result = failed",
            "The story is blocked.",
            "This attempt has failed.",
            "The work FAILED; see above",
            "\u{200b}- \u{200b}FAILED",
            "Blocked on a missing key",
            "- Blocked by the missing schema",
            "Failed because the tests are red",
            "The story FAILED because of a race",
            "Work blocked by missing credentials.",
            "Task failed.",
            "I am BLOCKED",
            "I'm still blocked on a key",
            "We have FAILED.",
            "[promise]FAILED[/promise]",
            "&lt;promise&gt;FAILED: red&lt;/promise&gt;",
            "＜promise＞BLOCKED＜/promise＞",
        ];
        for line in refused {
            assert!(verdict(line).is_some() && may_be_verdict(undecorated(line).as_bytes()), "{line}");
        }
        let ordinary = [
            "3 tests failed before, all pass now",
            "Failed: 0",
            "- Failed: none",
            "Blocked: n/a",
            "Failed: 1, passed: 3",
            "0 failed",
            "Failed tests are shown in red",
            "- FAILED jobs are tried again",
            "FAILED tests/test_x.py::test_y - assert 1 == 2",
            "FAILED (failures=1)",
            "Failed!  - Failed: 1, Passed: 3",
            "test result: FAILED. 1 passed; 1 failed",
            "tests/test_x.py::test_y FAILED",
            "failed-over hosts come back",
            "blocked_by is a column now",
            "FAILEDX: a",
            "Added the state BLOCKED.",
            "Result: failed requests are tried again",
            "The status is COMPLETE",
            "The story is done: nothing is blocked.",
            "The story is blocked by nothing any more",
            "Blocked by default, as the settings say",
            "Failed on the first try, passes now",
            "I failed the assertion on purpose first",
            "I fixed what failed.",
            "The promise failed requests return is handled",
            "## Failed",
            "the",
            "",
        ];
        for line in ordinary {
            assert_eq!(verdict(line), None, "{line}");
        }
    }
}
