//! Code fences of Markdown, line by line.

/// Whether the lines so far have opened a fence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence(Option<(char, usize)>);

impl Fence {
    /// Takes the next line, without its indent; says whether it stands in a fence, as the fences themselves do.
    pub fn takes(&mut self, text: &str, may_open: bool) -> bool {
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let length = mark.map_or(0, |mark| text.chars().take_while(|c| *c == mark).count());
        let rest = text.get(length..).unwrap_or_default();
        match (self.0, mark) {
            (Some((open, long)), Some(mark)) if mark == open && length >= long && rest.trim().is_empty() => {
                self.0 = None;
                true
            }
            (Some(_), _) => true,
            // A fence of backticks has none behind it on its line, else it is code in a sentence.
            (None, Some(mark)) if length >= 3 && may_open && !(mark == '`' && rest.contains('`')) => {
                self.0 = Some((mark, length));
                true
            }
            (None, _) => false,
        }
    }
}
