//! Prepares untrusted text for a page: removes control sequences, masks secrets, and cuts it to the available room.

use crate::git::PatchLimit;
use crate::report::clean;
use crate::report::secrets::Mask;

const TAB: char = '\t';
/// The longest line of text, in bytes.
const LINE: usize = 600;
/// The limits for all patches of a page, in bytes and in lines.
const PATCHES: usize = 450_000;
const PATCH_LINES: usize = 30_000;
/// The limits for the output of gates, for tasks and criteria, and for lists of files.
const OUTPUTS: usize = 250_000;
const LISTS: usize = 500_000;
const FILES: usize = 10_000;

/// The limits for the parts of a page: the more there are of a kind, the less detail each gets.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes per gate output.
    output: usize,
    /// Bytes for the tasks of a story, and for its criteria.
    list: usize,
    /// Files per commit.
    pub(super) files: usize,
}

impl Room {
    /// The limits for a run with the given numbers of stories, attempts and gates.
    #[must_use]
    pub fn for_run(stories: usize, attempts: usize, gates: usize) -> Self {
        Room {
            output: (OUTPUTS / gates.max(1)).clamp(80, 1000),
            list: (LISTS / stories.max(1)).clamp(200, 4000),
            files: (FILES / attempts.max(1)).clamp(2, 50),
        }
    }
}

/// The limits per patch: a checkpoint gets more than a failed attempt.
#[must_use]
pub fn patch_limits(checkpoints: usize, others: usize) -> (PatchLimit, PatchLimit) {
    let shares = (3 * checkpoints + others).max(1);
    let limit = |parts: usize| PatchLimit {
        lines: (PATCH_LINES * parts / shares).clamp(8, 400),
        bytes: (PATCHES * parts / shares).clamp(120, 32_000),
    };
    (limit(3), limit(1))
}

/// Prepares untrusted text for a page.
#[derive(Debug)]
pub(super) struct Foreign {
    mask: Mask,
    pub room: Room,
}

impl Foreign {
    pub fn new(room: Room) -> Self {
        Foreign { mask: Mask::default(), room }
    }

    /// How many secrets were masked.
    pub fn masked(&self) -> usize {
        self.mask.count
    }

    /// A text as one line.
    pub fn line(&mut self, text: &str) -> String {
        // The rest would be cut off anyway, so it need not be searched.
        let text = &text[..text.floor_char_boundary(4 * LINE)];
        cut(&self.mask.text(&clean(text)), LINE)
    }

    /// A value, masked like an assignment to its key.
    pub fn value(&mut self, key: &str, value: &str) -> String {
        let text = self.line(&format!("{key}={value}"));
        text.strip_prefix(key).and_then(|rest| rest.strip_prefix('=')).map_or_else(|| self.line(value), str::to_owned)
    }

    /// Cleans and masks lines that belong together.
    pub fn lines<'a>(&mut self, lines: &'a [String]) -> impl Iterator<Item = String> + use<'a> {
        let mut masked = Vec::with_capacity(lines.len());
        self.mask.begin();
        for line in lines {
            masked.push(self.mask.line(&clean(&line.replace(TAB, "    "))).into_owned());
        }
        self.mask.begin();
        masked.into_iter()
    }

    /// The end of a command's output.
    pub fn output(&mut self, text: &str) -> String {
        let start = text.ceil_char_boundary(text.len().saturating_sub(self.room.output));
        let lines: Vec<String> = text[start..].lines().map(str::to_owned).collect();
        let shown: Vec<String> = self.lines(&lines).collect();
        let text = shown.join("\n").trim_end().to_owned();
        if start > 0 { format!("…{text}") } else { text }
    }

    /// As many items as there is room for.
    pub fn list(&mut self, items: &[String]) -> Vec<String> {
        let mut room = self.room.list;
        let mut shown = Vec::new();
        for item in items {
            let line = self.line(item);
            if line.len() > room {
                shown.push(format!("… and {} more", items.len() - shown.len()));
                break;
            }
            room -= line.len();
            shown.push(line);
        }
        shown
    }

    /// The lines of an agent's transcript.
    pub fn transcript(&mut self, lines: &[String]) -> Vec<String> {
        self.lines(lines).map(|line| cut(&line, LINE)).collect()
    }
}

fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_run_is_like_its_parts_have_bounded_room() {
        for (stories, attempts, gates) in [(1, 1, 0), (1000, 3000, 6000), (100_000, 1_000_000, 1_000_000)] {
            let room = Room::for_run(stories, attempts, gates);
            assert!(room.output >= 80 && room.list >= 200 && room.files >= 2);
            let (landed, other) = patch_limits(stories, attempts - stories.min(attempts));
            assert!(landed.bytes >= other.bytes && landed.bytes <= 32_000);
        }
    }

    #[test]
    fn text_that_steers_or_never_ends_becomes_a_short_plain_line() {
        let mut foreign = Foreign::new(Room::for_run(1, 1, 1));
        let line = foreign.line(&format!("\u{1b}[31m<b>\u{202e}\n{}", "x".repeat(1_000_000)));
        assert!(line.starts_with("<b> xx") && line.len() < 610, "{line}");
        let output = foreign.output(&"y\n".repeat(1_000_000));
        assert!(output.len() < 1010 && output.starts_with('…'));
    }

    #[test]
    fn the_value_of_a_setting_that_is_a_secret_by_its_name_is_masked() {
        let mut foreign = Foreign::new(Room::for_run(1, 1, 1));
        assert_eq!(foreign.value("ralph.x.token", "aB3dE5gH7jK9mN1p"), "[masked]");
        assert_eq!((foreign.value("ralph.agent", "claude").as_str(), foreign.masked()), ("claude", 1));
    }
}
