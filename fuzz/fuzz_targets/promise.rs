//! Fuzzes promises: one is found however the output is split into pieces, and never in text that was disarmed.
#![no_main]

use git_ralph::agent::{Signal, TextReader, disarmed};
use libfuzzer_sys::fuzz_target;

/// The reader cuts lines at this length.
const LONGEST_LINE: usize = 32 * 1024;

// The first byte is the length of the pieces, so that a seed is otherwise plain text.
fuzz_target!(|input: &[u8]| {
    let Some((size, output)) = input.split_first() else { return };
    let said = heard(output, output.len().max(1));
    assert_eq!(heard(output, usize::from(*size) + 1), said);

    let text = String::from_utf8_lossy(output);
    if !is_interpreted(&text) {
        assert_eq!(said, Signal::of(&text));
    }
    says_nothing(&disarmed(&text));
});

fn heard(output: &[u8], size: usize) -> Signal {
    let mut reader = TextReader::default();
    for piece in output.chunks(size) {
        reader.feed(piece);
    }
    let concluded = reader.concluded();
    let said = reader.finish();
    assert!(!concluded || said != Signal::Nothing);
    said
}

/// Whether the reader changes the text before it searches it: it interprets escape sequences and cuts long lines.
fn is_interpreted(text: &str) -> bool {
    text.contains(['\u{1b}', '\u{9b}']) || text.split('\n').any(|line| line.len() >= LONGEST_LINE)
}

fn says_nothing(safe: &str) {
    assert_eq!(disarmed(safe), safe);
    let one_word_a_line: String = safe.split_whitespace().map(|word| format!("{word}\n")).collect();
    for text in [safe, &one_word_a_line] {
        assert_eq!(Signal::of(text), Signal::Nothing);
        assert_eq!(heard(text.as_bytes(), text.len().max(1)), Signal::Nothing);
    }
}
