//! Tracks Markdown code fences, line by line.

/// Whether the lines so far have opened a code fence that is still open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence(Option<(char, usize)>);

impl Fence {
    /// The fence mark at the beginning of a line: its character, its length and the text after it. `None` if the line begins with no fence
    /// mark.
    pub fn mark(text: &str) -> Option<(char, usize, &str)> {
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = text.trim_start_matches(mark);
        let length = text.len() - info.len();
        // A line with more backticks after the first ones is inline code, not a fence.
        (length >= 3 && !(mark == '`' && info.contains('`'))).then_some((mark, length, info.trim()))
    }

    /// Whether a fence is open.
    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Takes the next line, without its indentation. Returns whether the line belongs to a code block; the fence lines themselves do.
    pub fn takes(&mut self, text: &str) -> bool {
        match (self.0, Self::mark(text)) {
            (Some((open, long)), Some((mark, length, ""))) if mark == open && length >= long => {
                self.0 = None;
                true
            }
            (Some(_), _) => true,
            (None, Some((mark, length, _))) => {
                self.0 = Some((mark, length));
                true
            }
            (None, None) => false,
        }
    }
}
