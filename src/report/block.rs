//! Lines at the bottom of the screen that are redrawn in place.
//!
//! The cursor stays at the start of the first line. Whatever a resize does to the lines below it, they can be erased from there,
//! without touching a line above.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::termios::tcgetwinsize;

/// How many lines of a block are on the screen. A panic erases them before its message is printed.
static DRAWN: AtomicUsize = AtomicUsize::new(0);

/// Erases the whole line, which makes tmux forget that a resize has wrapped it.
const ERASE_LINE: &str = "\x1b[2K";
const ERASE_REST: &str = "\x1b[K";
/// Never used at the start of a block, because tmux would first copy the whole screen into its history.
const ERASE_BELOW: &str = "\x1b[J";
/// Without wrapping, a terminal that has just become narrower cuts lines instead of wrapping them.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub columns: usize,
    pub rows: usize,
}

impl Size {
    /// The current size of the terminal on standard error.
    pub fn now() -> Self {
        match tcgetwinsize(io::stderr()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Size { columns: size.ws_col.into(), rows: size.ws_row.into() },
            _ => Size { columns: 80, rows: 24 },
        }
    }

    /// The usable cells of a line. The last column stays empty, because terminals differ in how they continue after it.
    pub fn usable(self) -> usize {
        self.columns.saturating_sub(1)
    }
}

/// Lines that are redrawn in place.
#[derive(Debug, Default)]
pub(super) struct Block {
    lines: Vec<String>,
    size: Option<Size>,
}

impl Block {
    /// Replaces the lines on the screen by these, each of which must fit into the width.
    pub fn draw(&mut self, size: Size, mut lines: Vec<String>) {
        lines.truncate(size.rows.saturating_sub(1).max(1));
        if self.size != Some(size) || self.lines != lines {
            write(&frame("", &lines));
            (self.lines, self.size) = (lines, Some(size));
            DRAWN.store(self.lines.len(), Ordering::Relaxed);
        }
    }

    /// Writes a line above the block.
    pub fn print(&self, text: &str) {
        match self.size {
            Some(_) => write(&frame(&format!("{ERASE_LINE}{text}{ERASE_REST}\r\n"), &self.lines)),
            // In the background, the lines after the cursor do not belong to git-ralph.
            None => write(&format!("{text}\r\n")),
        }
    }

    /// Removes the lines from the screen.
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

/// Erases the block, if there is one on the screen.
pub(super) fn erase_drawn() {
    match DRAWN.swap(0, Ordering::Relaxed) {
        0 => {}
        1 => write(&format!("{WRAP}\r{ERASE_LINE}")),
        _ => write(&format!("{WRAP}\r{ERASE_LINE}\r\n{ERASE_BELOW}\x1b[1A")),
    }
}

/// The output that overwrites the old lines and returns the cursor to their start; `above` is written first and scrolls away.
fn frame(above: &str, lines: &[String]) -> String {
    let up = match lines.len() {
        0 | 1 => String::new(),
        more => format!("\x1b[{}A", more - 1),
    };
    let text = lines.join(&format!("\r\n{ERASE_LINE}"));
    format!("\r{above}{NO_WRAP}{ERASE_LINE}{text}{ERASE_BELOW}{up}\r{WRAP}")
}

/// Writes a frame at once, so that no half frame is visible.
fn write(text: &str) {
    let mut screen = io::stderr().lock();
    let _ = screen.write_all(text.as_bytes()).and_then(|()| screen.flush());
}
