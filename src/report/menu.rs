//! A list to choose from, drawn with dialoguer's theme.
//!
//! dialoguer's own list counts lines by their bytes, so it leaves lines behind if one is wider than the terminal, and after a resize.

use std::time::Duration;

use dialoguer::theme::{ColorfulTheme, Theme};

use super::block::{Block, Size};
use super::cells::{shorten, width};
use super::keyboard::{Key, Keyboard};
use crate::process::Suspension;

/// How often keys and the terminal size are checked.
const BEAT: Duration = Duration::from_millis(25);
/// The width that the theme adds before an item.
const MARGIN: usize = 2;

/// A list to choose from.
pub(super) struct Menu {
    /// The question.
    pub prompt: String,
    /// The answers.
    pub items: Vec<String>,
    /// The index of the answer that Enter gives.
    pub selected: usize,
}

impl Menu {
    /// Waits for the answer; `None` if the user leaves with Escape or `q`. Dropping this future removes the list from the screen.
    pub async fn choose(mut self, mut suspension: Suspension) -> Option<usize> {
        let mut keyboard = Keyboard::open();
        let mut block = Block::default();
        loop {
            let size = Size::now();
            block.draw(size, self.lines(size));
            for key in keyboard.as_ref().map(Keyboard::typed).unwrap_or_default() {
                match key {
                    Key::Up | Key::Char('k') => self.selected = (self.selected + self.items.len() - 1) % self.items.len(),
                    Key::Down | Key::Char('j' | '\t') => self.selected = (self.selected + 1) % self.items.len(),
                    Key::Enter | Key::Char(' ') => return Some(self.selected),
                    Key::Escape | Key::Char('q') => return None,
                    Key::Char(_) => {}
                }
            }
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                () = suspension.requested() => {
                    block.erase();
                    drop(keyboard.take());
                    suspension.suspend();
                }
            }
            // After Ctrl-Z, or in the background, the keyboard is closed.
            keyboard = keyboard.or_else(Keyboard::open);
        }
    }

    fn lines(&self, size: Size) -> Vec<String> {
        let theme = ColorfulTheme::default();
        let room = size.usable().saturating_sub(MARGIN);
        let mut prompt = String::new();
        let _ = theme.format_select_prompt(&mut prompt, &self.prompt);
        let fits = width(&console::strip_ansi_codes(&prompt)) <= size.usable();
        let mut lines = if fits { vec![prompt] } else { folded(&self.prompt, size.usable()) };
        // If not all lines fit, the items get at least half of them, and the selected one is among those shown.
        let room_below = size.rows.saturating_sub(1).max(1);
        let shown = room_below.saturating_sub(lines.len()).max(room_below.div_ceil(2)).min(self.items.len());
        lines.truncate(room_below - shown);
        let first = (self.selected + 1).saturating_sub(shown);
        let items = self.items.iter().enumerate().skip(first).take(shown);
        lines.extend(items.map(|(at, item)| {
            let mut text = String::new();
            let _ = theme.format_select_prompt_item(&mut text, &shorten(item, room), at == self.selected);
            text
        }));
        lines
    }
}

/// Folds a text into lines of the given width, between words if possible.
fn folded(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(shorten(word, room)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_fits_the_terminal_and_shows_the_choice_that_enter_makes() {
        let items = ["cleanup  back to main, everything as uncommitted changes", "漢字漢字漢字漢字漢字漢字漢字漢字漢字"];
        let prompt = "The run is paused, 2 of 6 stories done. What now?".to_owned();
        let mut menu = Menu { prompt, items: items.map(str::to_owned).to_vec(), selected: 0 };
        for columns in 20..200 {
            for (rows, selected) in [(2, 0), (3, 1), (4, 0), (30, 0)] {
                menu.selected = selected;
                let lines = menu.lines(Size { columns, rows });
                assert!(lines.len() < rows, "no line of them is cut off: {lines:?}");
                for line in &lines {
                    assert!(width(&console::strip_ansi_codes(line)) < columns, "{columns} columns: {line}");
                }
                let selected: String = items[selected].chars().take(4).collect();
                assert!(lines.iter().any(|line| line.contains(&selected)), "{columns}: {lines:?}");
            }
        }
    }
}
