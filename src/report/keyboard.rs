//! Reads keys as they are typed, without echo. Ctrl-C and Ctrl-Z stay signals. The terminal settings are restored in every case.

use std::io;
use std::sync::{Mutex, Once, PoisonError};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr};

use super::block::erase_drawn;

/// The original terminal settings, while keys are read.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);
static HOOKED: Once = Once::new();

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A letter or another character.
    Char(char),
    /// Enter.
    Enter,
    /// Escape alone.
    Escape,
    /// The arrow up.
    Up,
    /// The arrow down.
    Down,
}

/// While this value lives, keys can be read as they are typed.
#[derive(Debug)]
pub struct Keyboard(());

impl Keyboard {
    /// Starts reading keys. Returns `None` if standard input is not a terminal, or if another job owns it.
    #[must_use]
    pub fn open() -> Option<Self> {
        if !is_foreground() {
            return None;
        }
        let settings = tcgetattr(io::stdin()).ok()?;
        let mut silent = settings.clone();
        silent.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        silent.special_codes[SpecialCodeIndex::VMIN] = 0;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        HOOKED.call_once(restore_at_panic);
        before().get_or_insert(settings);
        tcsetattr(io::stdin(), OptionalActions::Now, &silent).ok()?;
        Some(Keyboard(()))
    }

    /// The keys that were typed since the last call. Never waits.
    #[must_use]
    pub fn typed(&self) -> Vec<Key> {
        let mut buffer = [0; 256];
        // In the background, reading would stop the process.
        match if is_foreground() { rustix::io::read(io::stdin(), &mut buffer) } else { Ok(0) } {
            Ok(count) => keys(&buffer[..count]),
            Err(_) => Vec::new(),
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        restore();
    }
}

/// Whether this process may read from the terminal on standard input now.
fn is_foreground() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Whether another job owns the terminal on standard error, so that nothing may be drawn there.
pub(super) fn is_background() -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|group| group != rustix::process::getpgrp())
}

/// Restores the terminal settings.
fn restore() {
    if let Some(settings) = before().take()
        && is_foreground()
    {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &settings);
    }
}

fn restore_at_panic() {
    let earlier = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        erase_drawn();
        restore();
        earlier(panic);
    }));
}

fn before() -> std::sync::MutexGuard<'static, Option<Termios>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Decodes bytes from a terminal into keys. Unknown sequences are skipped.
fn keys(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let mut keys = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' | '\n' => keys.push(Key::Enter),
            '\x1b' if rest.next_if(|c| matches!(c, '[' | 'O')).is_some() => match rest.find(|c| !matches!(c, ' '..='?')) {
                Some('A') => keys.push(Key::Up),
                Some('B') => keys.push(Key::Down),
                _ => {}
            },
            '\x1b' => keys.push(Key::Escape),
            c => keys.push(Key::Char(c)),
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_from_a_terminal_are_keys() {
        let table: [(&[u8], &[Key]); 6] = [
            (b"q", &[Key::Char('q')]),
            (b"\x1b[A\x1bOB\r", &[Key::Up, Key::Down, Key::Enter]),
            (b"\x1b", &[Key::Escape]),
            (b"\x1b[1;5Cx", &[Key::Char('x')]),
            (b"\x1b[200~", &[]),
            (b"", &[]),
        ];
        for (bytes, expected) in table {
            assert_eq!(keys(bytes), expected, "{bytes:?}");
        }
    }
}
