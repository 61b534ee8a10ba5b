//! Builds a line from parts so that it fits: the least important parts are left out first, and flexible parts are shortened.

use console::Style;

use super::cells::{shorten, width};

/// The space between two parts.
const GAP: &str = "  ";
/// A flexible part that would become shorter than this is left out.
const SHORTEST: usize = 8;

/// A part of a line.
#[derive(Clone, Debug)]
pub(super) struct Part {
    text: String,
    style: Style,
    /// Parts with larger numbers are left out first; parts with 0 are never left out.
    rank: u8,
    /// Whether the part may be shortened.
    flexible: bool,
}

impl Part {
    /// A part that is shown as a whole or not at all.
    pub fn new(rank: u8, text: impl Into<String>, style: Style) -> Self {
        Part { text: text.into(), style: style.for_stderr(), rank, flexible: false }
    }

    /// A part that may be shortened.
    pub fn flexible(rank: u8, text: impl Into<String>, style: Style) -> Self {
        Part { flexible: true, ..Part::new(rank, text, style) }
    }

    /// The minimum width of the part.
    fn least(&self) -> usize {
        if self.flexible { width(&self.text).min(SHORTEST) } else { width(&self.text) }
    }
}

/// The parts that fit into the given number of cells, as one line.
pub(super) fn line(parts: Vec<Part>, cells: usize) -> String {
    let mut parts: Vec<Part> = parts.into_iter().filter(|part| !part.text.is_empty()).collect();
    let total = |parts: &[Part], of: fn(&Part) -> usize| -> usize {
        parts.iter().map(of).sum::<usize>() + GAP.len() * parts.len().saturating_sub(1)
    };
    while total(&parts, Part::least) > cells
        && let Some((at, _)) = parts.iter().enumerate().filter(|(_, part)| part.rank > 0).max_by_key(|(_, part)| part.rank)
    {
        parts.remove(at);
    }
    // The remaining excess is taken from the flexible parts, then from the last ones.
    let mut excess = total(&parts, |part| width(&part.text)).saturating_sub(cells);
    for flexible in [true, false] {
        for part in parts.iter_mut().rev().filter(|part| part.flexible == flexible) {
            let (before, least) = (width(&part.text), if flexible { part.least() } else { 0 });
            part.text = shorten(&part.text, before.saturating_sub(excess).max(least));
            excess = excess.saturating_sub(before - width(&part.text).min(before));
        }
    }
    parts.retain(|part| !part.text.is_empty());
    parts.iter().map(|part| part.style.apply_to(&part.text).to_string()).collect::<Vec<_>>().join(GAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_matter_less_are_left_out_and_flexible_ones_shortened() {
        let parts = || {
            vec![
                Part::new(0, "story", Style::new()),
                Part::new(2, "clock", Style::new()),
                Part::flexible(1, "a long explanation", Style::new()),
                Part::new(3, "cost", Style::new()),
            ]
        };
        let table = [
            (100, "story  clock  a long explanation  cost"),
            (30, "story  clock  a long ex…  cost"),
            (22, "story  clock  a long …"),
            (16, "story  a long e…"),
            (14, "story"),
            (3, "st…"),
        ];
        for (cells, expected) in table {
            let text = line(parts(), cells);
            assert_eq!(console::strip_ansi_codes(&text), expected, "{cells} cells");
        }
    }
}
