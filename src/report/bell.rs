//! Rings the terminal's bell and sends a desktop notification, for a user who is looking elsewhere.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcgetpgrp, tcsetattr};

use super::clean;
use crate::config::Bell;

/// How long to wait for the terminal's answer whether it has the focus. Most terminals that support this answer at once.
const ANSWER: Duration = Duration::from_millis(150);
const ASK: &[u8] = b"\x1b[?1004h";
const ASK_NO_MORE: &[u8] = b"\x1b[?1004l";
const FOCUSED: &[u8] = b"\x1b[I";
const UNFOCUSED: &[u8] = b"\x1b[O";

/// What the terminal on standard error can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// It supports only text and the bell.
    Plain,
    /// It supports control sequences.
    Able,
}

impl Screen {
    /// Determined by the value of `TERM`.
    #[must_use]
    pub fn named(term: &str) -> Self {
        if matches!(term, "" | "dumb" | "linux" | "vt100" | "vt220") { Screen::Plain } else { Screen::Able }
    }
}

/// Notifies the user, unless the settings or the terminal say that there is no need. Blocks for a moment.
pub fn ring(bell: Bell, screen: Screen, text: &str) {
    let call = match (bell, screen) {
        (Bell::Silent, _) => false,
        (Bell::Ring, _) | (Bell::Auto, Screen::Plain) => true,
        (Bell::Auto, Screen::Able) => !is_looked_at(),
    };
    if call {
        let _ = io::stderr().lock().write_all(&sequence(screen, text));
    }
}

fn sequence(screen: Screen, text: &str) -> Vec<u8> {
    let mut bytes = match screen {
        Screen::Able => format!("\x1b]9;git ralph: {}\x07", clean(text).replace(';', ",")).into_bytes(),
        Screen::Plain => Vec::new(),
    };
    bytes.push(b'\x07');
    bytes
}

/// Asks the terminal whether it has the focus. One that does not answer counts as not focused.
fn is_looked_at() -> bool {
    let stdin = io::stdin();
    let ours = tcgetpgrp(&stdin).is_ok_and(|group| group == rustix::process::getpgrp());
    // Input that the user has typed ahead is for the next program. A terminal that another job owns must not be queried.
    if !ours || waiting(Duration::ZERO) {
        return false;
    }
    let Ok(before) = tcgetattr(&stdin) else { return false };
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    silent.special_codes[SpecialCodeIndex::VMIN] = 0;
    silent.special_codes[SpecialCodeIndex::VTIME] = 0;
    if tcsetattr(&stdin, OptionalActions::Now, &silent).is_err() {
        return false;
    }
    let _ = io::stderr().lock().write_all(ASK);
    let answer = answer();
    let _ = io::stderr().lock().write_all(ASK_NO_MORE);
    let _ = tcsetattr(&stdin, OptionalActions::Now, &before);
    answer
}

fn answer() -> bool {
    let until = Instant::now() + ANSWER;
    let mut heard = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !waiting(left) {
            return false;
        }
        let mut buffer = [0; 64];
        match rustix::io::read(io::stdin(), &mut buffer) {
            Ok(count) if count > 0 => heard.extend_from_slice(&buffer[..count]),
            _ => return false,
        }
        let at = |what: &[u8]| memchr::memmem::rfind(&heard, what);
        if at(FOCUSED).is_some() || at(UNFOCUSED).is_some() {
            return at(FOCUSED) > at(UNFOCUSED);
        }
    }
}

fn waiting(limit: Duration) -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(limit.subsec_nanos()) };
    poll(&mut fds, Some(&limit)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_cannot_end_the_sequence_that_carries_it() {
        let bytes = sequence(Screen::Able, "all; done\x07\x1b[2J");
        assert_eq!(bytes.iter().filter(|byte| **byte == 7).count(), 2, "{bytes:?}");
        assert_eq!(bytes.iter().filter(|byte| **byte == 0x1b).count(), 1, "{bytes:?}");
        assert_eq!(sequence(Screen::Plain, "x"), b"\x07");
    }
}
