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
/// What a result can be about besides the story.
const CHECKS: &[&str] = &[
    "test",
    "tests",
    "build",
    "builds",
    "gate",
    "gates",
    "check",
    "checks",
    "suite",
    "suites",
    "lint",
    "linter",
    "clippy",
    "compile",
    "compilation",
    "typecheck",
    "verification",
    "ci",
    "criteria",
    "criterion",
];
/// Words that may stand before the name of a check.
const COUNTS: &[&str] = &["all", "some", "several", "many", "two", "three", "of", "unit", "integration", "acceptance", "quality"];
/// Words of a label that speaks of the past or of something that the story is about, such as the states of a job.
const ASIDES: &[&str] = &[
    "before",
    "previously",
    "initially",
    "earlier",
    "originally",
    "first",
    "old",
    "was",
    "were",
    "expected",
    "expect",
    "example",
    "state",
    "states",
    "value",
    "values",
    "enum",
    "column",
    "field",
    "constant",
    "added",
    "adds",
    "add",
    "new",
    "fixed",
    "fixes",
    "renamed",
    "handles",
    "handled",
    "returns",
    "sets",
    "shows",
    "supports",
    "if",
    "when",
    "until",
    "unless",
    "like",
    "no",
    "none",
    "zero",
];
/// Words after which a result belongs to the past.
const PAST: &[&str] = &["before", "previously", "initially", "earlier", "originally"];
/// A longer label is a sentence.
const MOST_WORDS: usize = 6;
/// The word of a verdict must begin within this many bytes.
const FARTHEST: usize = 80;

/// The word that a line gives as its verdict; [`Scanner`](super::Scanner) describes what counts as a verdict.
pub fn verdict(line: &str) -> Option<Word> {
    of_story(line).or_else(|| result(line))
}

/// The word that a line gives as the verdict on the story.
fn of_story(line: &str) -> Option<Word> {
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

/// The word that a line gives as the result of something: "Tests: FAILED", "| build | failed |", "3 tests FAILED". A word in small letters
/// counts only after the name of a check, and without a separator only one in capitals does.
fn result(line: &str) -> Option<Word> {
    let whole = undecorated(line);
    let starts = whole.char_indices().take_while(|(at, _)| *at <= FARTHEST).map(|(at, _)| at);
    let mut found = starts.filter(|at| !whole[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
    let (at, (word, length)) =
        found.find_map(|at| Some((at, Word::at_start_of(&whole[at..]).filter(|(word, _)| *word != Word::Complete)?)))?;
    let (label, (said, tail)) = (&whole[..at], whole[at..].split_at(length));
    let words: Vec<&str> = label.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let of_check = words.iter().any(|word| is_one_of(word, CHECKS) || is_one_of(word, LABELS));
    let loud = !said.contains(char::is_lowercase);
    let has_any = |text: &str, known: &[&str]| text.split(|c: char| !c.is_alphanumeric()).any(|word| is_one_of(word, known));
    let is_told = !words.is_empty() && words.len() <= MOST_WORDS && !has_any(label, ASIDES) && !has_any(tail, PAST);
    let is_result = match is_separated(label) {
        true => loud || of_check,
        false => loud && of_check && words.iter().all(|word| is_about_checks(word)),
    };
    // Tools print "test result: FAILED. 1 passed; 1 failed" for a run that may be over.
    let counts = behind(tail).strip_prefix('.').is_some_and(|rest| rest.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    let is_whole = ends(tail) || has_reason(tail) || has_cause(tail, true) || is_clause(tail) && !counts;
    (is_told && is_result && is_whole).then_some(word)
}

/// Whether a label ends in a colon or another sign that a result follows.
fn is_separated(label: &str) -> bool {
    let label = label.trim_end_matches(|c: char| {
        is_blank(c) || "*_`\"'([{<".contains(c) || !c.is_ascii() && !"→–—…".contains(c) && !c.is_alphanumeric()
    });
    label.ends_with([':', '=', '|', '→', '–', '—']) || label.ends_with("->") || label.ends_with(" -")
}

/// Whether a word may stand in "3 of the unit tests FAILED". A zero says that nothing failed.
fn is_about_checks(word: &str) -> bool {
    let is_count = word.bytes().all(|byte| byte.is_ascii_digit()) && word.bytes().any(|byte| byte != b'0');
    is_count || [CHECKS, LABELS, FILLERS, COUNTS].iter().any(|known| is_one_of(word, known))
}

/// Whether a line may be a verdict. Fast, with false positives.
///
/// Pays for the row `output: plain text`: only lines with one of the words, or with a control sequence that may hide one, are read.
pub fn may_be_verdict(line: &[u8]) -> bool {
    let ends_in = |before: &[u8], word: &str| {
        before.len().checked_sub(word.len()).is_some_and(|start| before[start..].eq_ignore_ascii_case(word.as_bytes()))
    };
    memchr::memchr3_iter(b'd', b'D', b'\x1b', line).any(|at| line[at] == b'\x1b' || REFUSALS.iter().any(|word| ends_in(&line[..=at], word)))
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
            "Tests: FAILED",
            "Tests: failed",
            "- **Tests:** FAILED",
            "- Unit tests — ❌ FAILED",
            "Build: FAILED (3 errors)",
            "Integration: FAILED, see the log",
            "| build | FAILED |",
            "cargo test -> FAILED",
            "Gate `make check`: FAILED",
            "Tests FAILED",
            "The tests FAILED.",
            "2 tests FAILED",
            "2 of the 10 unit tests FAILED: see below",
            "Tests: 3 FAILED, 9 passed",
            "Deployment: BLOCKED",
            "Verification: failed because of a race",
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
            "0 tests FAILED",
            "No tests FAILED.",
            "None of the tests FAILED",
            "Tests: 0 FAILED",
            "All tests pass, 0 FAILED",
            "Fixed the FAILED test",
            "I fixed the FAILED test",
            "Fixed: the test that FAILED.",
            "Tests before the fix: FAILED",
            "Tests: FAILED before, pass now",
            "Tests: FAILED -> PASSED",
            "Tests: passed, failed: 0",
            "Added the state: FAILED",
            "- New value: `FAILED`",
            "Port 22: blocked",
            "Login with a wrong password: failed",
            "The build failed.",
            "error: test failed, to rerun pass `--lib`",
            "test tests::a ... FAILED",
            "the",
            "",
        ];
        for line in ordinary {
            assert_eq!(verdict(line), None, "{line}");
        }
    }
}
