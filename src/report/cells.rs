//! Measures and cuts text in terminal cells.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const ZERO_WIDTH_JOINER: char = '\u{200d}';

/// The largest number of cells that a terminal may use for a text. Terminals disagree about joined emoji: some show every part
/// separately, so the larger number counts.
pub(super) fn width(text: &str) -> usize {
    let apart: usize = text.chars().map(|c| c.width().unwrap_or(0)).sum();
    apart.max(text.width())
}

/// The beginning of a text that fits into the given number of cells, with `…` where it was cut.
pub(super) fn shorten(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let mut end = 0;
    for cluster in clusters(text) {
        if width(&text[..end + cluster.len()]) >= cells {
            break;
        }
        end += cluster.len();
    }
    if cells == 0 { String::new() } else { format!("{}…", &text[..end]) }
}

/// Splits a text into pieces that must not be cut: a character with its combining and joined characters.
fn clusters(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut before = rest.chars().next()?;
        let mut end = before.len_utf8();
        for c in rest[end..].chars() {
            if before != ZERO_WIDTH_JOINER && c.width() != Some(0) && !is_skin_tone(c) {
                break;
            }
            end += c.len_utf8();
            before = c;
        }
        let (cluster, left) = rest.split_at(end);
        rest = left;
        Some(cluster)
    })
}

fn is_skin_tone(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_cells_and_never_inside_a_character() {
        let family = "👩\u{200d}👩\u{200d}👧";
        let table = [
            ("plain", 5, "plain"),
            ("plain", 4, "pla…"),
            ("plain", 1, "…"),
            ("plain", 0, ""),
            ("漢字漢字", 8, "漢字漢字"),
            ("漢字漢字", 7, "漢字漢…"),
            ("漢字漢字", 6, "漢字…"),
            (family, 6, family),
            (family, 5, "…"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("👍🏽👍🏽", 7, "👍🏽…"),
        ];
        for (text, cells, expected) in table {
            let cut = shorten(text, cells);
            assert_eq!(cut, expected, "{text} in {cells} cells");
            assert!(width(&cut) <= cells, "{cut} is {} cells wide", width(&cut));
        }
    }
}
