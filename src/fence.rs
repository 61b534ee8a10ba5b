//! Code fences of Markdown, line by line.

/// Whether the lines so far have opened a fence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence(Option<(char, usize)>);

impl Fence {
    /// The mark that a line could open or close a fence with, its length and what is behind it, if the line begins with one.
    pub fn mark(text: &str) -> Option<(char, usize, &str)> {
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = text.trim_start_matches(mark);
        let length = text.len() - info.len();
        // A fence of backticks has none behind it on its line, else it is code in a sentence.
        (length >= 3 && !(mark == '`' && info.contains('`'))).then_some((mark, length, info.trim()))
    }

    /// Whether a fence is open.
    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Takes the next line, without its indent; says whether it stands in a fence, as the fences themselves do.
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
