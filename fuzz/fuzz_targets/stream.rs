//! Fuzzes the output of clients: no panic, bounded memory, and the same verdict however the output is split into pieces.
#![no_main]

use git_ralph::agent::{AgentReport, Format, Reader, Signal};
use git_ralph::process::Exit;
use git_ralph::run::{Verdict, judge};
use jiff::Zoned;
use libfuzzer_sys::fuzz_target;

// The first byte selects the format, the second the length of the pieces, so that a seed is otherwise a plain stream.
fuzz_target!(|input: &[u8]| {
    let [format, size, output @ ..] = input else { return };
    let format = Format::NAMES[usize::from(*format) % Format::NAMES.len()].1;
    let now: Zoned = "2026-11-16T00:05:00[UTC]".parse().expect("a time");
    for exit in [Exit::Success, Exit::Code { code: 1 }, Exit::Stalled { seconds: 9 }] {
        let whole = heard(format, output, output.len().max(1), &exit, &now);
        assert_eq!(heard(format, output, usize::from(*size) + 1, &exit, &now), whole);
        let verdict = judge(&whole.signal, &exit, whole.trouble.as_ref(), &whole.words);
        assert!(verdict != Verdict::Promised || (whole.signal == Signal::Complete && whole.trouble.is_none()));
    }
});

fn heard(format: Format, output: &[u8], size: usize, exit: &Exit, now: &Zoned) -> AgentReport {
    let mut reader = Reader::new(format);
    for piece in output.chunks(size) {
        reader.feed(piece, &mut |_| {});
        reader.feed_stderr(piece);
    }
    reader.finish(exit, now)
}
