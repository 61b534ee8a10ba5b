//! Lines at the bottom of the screen that are drawn again in place.
//!
//! The cursor rests at the start of the first line. Whatever a resize does to the lines below it, they can be erased from there, and
//! no line above it is touched.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::termios::tcgetwinsize;

/// How many lines of a block are on the screen; a panic erases them before its message is printed.
static DRAWN: AtomicUsize = AtomicUsize::new(0);

/// The whole line: tmux then forgets that a resize has wrapped it.
const ERASE_LINE: &str = "\x1b[2K";
const ERASE_REST: &str = "\x1b[K";
/// Never used at the start of a block: tmux saves a whole screen in its history before that is erased.
const ERASE_BELOW: &str = "\x1b[J";
/// A terminal that has become narrower since it was asked cuts lines instead of wrapping them.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// Columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub columns: usize,
    pub rows: usize,
}

impl Size {
    /// The size of the terminal on standard error, as it is now.
    pub fn now() -> Self {
        match tcgetwinsize(io::stderr()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Size { columns: size.ws_col.into(), rows: size.ws_row.into() },
            _ => Size { columns: 80, rows: 24 },
        }
    }

    /// The cells of a line that can be used: the last column stays empty, because terminals differ in what follows it.
    pub fn usable(self) -> usize {
        self.columns.saturating_sub(1)
    }
}

/// Lines that are drawn again in place.
#[derive(Debug, Default)]
pub(super) struct Block {
    lines: Vec<String>,
    size: Option<Size>,
}

impl Block {
    /// Shows these lines, each of which must fit into the width, in place of those that are there.
    pub fn draw(&mut self, size: Size, mut lines: Vec<String>) {
        lines.truncate(size.rows.saturating_sub(1).max(1));
        if self.size != Some(size) || self.lines != lines {
            write(&frame("", &lines));
            (self.lines, self.size) = (lines, Some(size));
            DRAWN.store(self.lines.len(), Ordering::Relaxed);
        }
    }

    /// Writes a line above the block, which stays.
    pub fn print(&self, text: &str) {
        match self.size {
            Some(_) => write(&frame(&format!("{ERASE_LINE}{text}{ERASE_REST}\r\n"), &self.lines)),
            // In the background what is behind the cursor is not ours.
            None => write(&format!("{text}\r\n")),
        }
    }

    /// Takes the lines off the screen.
    pub fn erase(&mut self) {
        if self.size.take().is_some() {
            self.lines.clear();
            erase_drawn();
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.erase();
    }
}

/// Erases the block, if one is on the screen.
pub(super) fn erase_drawn() {
    match DRAWN.swap(0, Ordering::Relaxed) {
        0 => {}
        1 => write(&format!("{WRAP}\r{ERASE_LINE}")),
        _ => write(&format!("{WRAP}\r{ERASE_LINE}\r\n{ERASE_BELOW}\x1b[1A")),
    }
}

/// The lines, written over what is there, with the cursor back at their start; `above` is written before them and scrolls away.
fn frame(above: &str, lines: &[String]) -> String {
    let up = match lines.len() {
        0 | 1 => String::new(),
        more => format!("\x1b[{}A", more - 1),
    };
    let text = lines.join(&format!("\r\n{ERASE_LINE}"));
    format!("\r{above}{NO_WRAP}{ERASE_LINE}{text}{ERASE_BELOW}{up}\r{WRAP}")
}

/// One write per frame, so that no half of one is seen.
fn write(text: &str) {
    let mut screen = io::stderr().lock();
    let _ = screen.write_all(text.as_bytes()).and_then(|()| screen.flush());
}
