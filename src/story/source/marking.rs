//! Updates the marks in a source after a story has landed: marks the story as done and restores the marks of other stories.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Kind, Mark, Page, marks};
use crate::story::StoryId;

/// A replacement of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The bytes to replace.
    pub at: Range<usize>,
    /// The replacement.
    pub with: &'static str,
}

/// The changes to a source when a story lands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// The edits, in the order of the file.
    pub edits: Vec<Edit>,
    /// Other stories whose marks the agent had set.
    pub strays: Vec<StoryId>,
    /// The marks of the story are gone, so they cannot be set.
    pub lost: bool,
}

/// Compares a source with its state before the attempt.
///
/// # Errors
/// If the source can no longer be parsed; a line of the form `file:line: what is wrong`.
pub fn mark_landed(kind: Kind, before: &Page, now: &Page, landed: &StoryId) -> Result<Marking, String> {
    let marks_before = marks(kind, before)?;
    let open: BTreeSet<&StoryId> = marks_before.iter().filter(|mark| !mark.done).map(|mark| &mark.story).collect();
    // A story that was done stays done, even if its text has changed.
    let was_done: BTreeSet<&StoryId> = marks_before.iter().map(|mark| &mark.story).filter(|story| !open.contains(story)).collect();
    let mut known = open_before(&marks_before);
    let marks_now = marks(kind, now)?;
    if is_another(&marks_before, &marks_now, landed) {
        return Ok(Marking { lost: true, ..Marking::default() });
    }
    let mut marking = Marking::default();
    for mark in marks_now {
        let was_open = take(&mut known, &mark);
        if mark.story == *landed {
            marking.edits.extend((!mark.done).then(|| mark.set(true)));
        } else if mark.done && was_open && !was_done.contains(&mark.story) {
            marking.edits.push(mark.set(false));
            if !marking.strays.contains(&mark.story) {
                marking.strays.push(mark.story);
            }
        }
    }
    marking.edits.sort_by_key(|edit| edit.at.start);
    Ok(marking)
}

/// Whether none of a story's marks is left, so that its id now belongs to other text.
fn is_another(before: &[Mark], now: &[Mark], story: &StoryId) -> bool {
    let texts =
        |marks: &[Mark]| -> BTreeSet<String> { marks.iter().filter(|mark| mark.story == *story).map(|mark| mark.text.clone()).collect() };
    let before = texts(before);
    !before.is_empty() && before.is_disjoint(&texts(now))
}

/// For each story and text, whether its marks were open, last one first. The same text may occur more than once.
fn open_before(marks: &[Mark]) -> BTreeMap<(StoryId, String), Vec<bool>> {
    let mut known: BTreeMap<_, Vec<bool>> = BTreeMap::new();
    for mark in marks.iter().rev() {
        known.entry((mark.story.clone(), mark.text.clone())).or_default().push(!mark.done);
    }
    known
}

/// Whether the mark was open before. A new mark counts as open, because an agent that adds a task has not done it.
fn take(known: &mut BTreeMap<(StoryId, String), Vec<bool>>, mark: &Mark) -> bool {
    known.get_mut(&(mark.story.clone(), mark.text.clone())).and_then(Vec::pop).unwrap_or(true)
}

impl Mark {
    /// The edit that marks it as done or not done.
    #[must_use]
    pub fn set(&self, done: bool) -> Edit {
        Edit { at: self.at.clone(), with: if done { self.words.0 } else { self.words.1 } }
    }
}

/// Applies the edits to a text.
#[must_use]
pub fn apply(text: &str, edits: &[Edit]) -> String {
    let mut result = String::with_capacity(text.len() + edits.len());
    let mut at = 0;
    for edit in edits {
        result.push_str(&text[at..edit.at.start]);
        result.push_str(edit.with);
        at = edit.at.end;
    }
    result.push_str(&text[at..]);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page { name: "f".into(), text: text.into() }
    }

    fn landed(kind: Kind, before: &str, now: &str, story: &str) -> (String, Vec<String>) {
        let marking = mark_landed(kind, &page(before), &page(now), &story.parse().unwrap()).unwrap();
        (apply(now, &marking.edits), marking.strays.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn only_the_marks_of_the_story_change() {
        let before = "\u{feff}## 1. A\r\n- [ ] a\r\n\t* [] b\r\n```\r\n- [ ] example\r\n```\r\n## 2. B\r\n- [ ] c\r\n- [~] d";
        let after = "\u{feff}## 1. A\r\n- [x] a\r\n\t* [x] b\r\n```\r\n- [ ] example\r\n```\r\n## 2. B\r\n- [ ] c\r\n- [~] d";
        assert_eq!(landed(Kind::OpenSpec, before, before, "1"), (after.to_owned(), vec![]));
        let last = after.replace("[ ] c", "[x] c").replace("[~] d", "[x] d");
        assert_eq!(landed(Kind::OpenSpec, after, after, "2"), (last, vec![]));
    }

    #[test]
    fn boxes_of_other_stories_that_the_agent_ticked_are_unticked_and_reported() {
        let before = "## 1. A\n- [ ] a\n## 2. B\n- [ ] c\n- [x] d\n- [ ] same\n- [ ] same\n";
        let now = "## 1. A\n- [x] a\n- [x] new of my own\n## 2. B\n- [x] c\n- [x] d\n- [x] same\n- [ ] same\n- [x] new\n";
        let after = "## 1. A\n- [x] a\n- [x] new of my own\n## 2. B\n- [ ] c\n- [x] d\n- [ ] same\n- [ ] same\n- [ ] new\n";
        assert_eq!(landed(Kind::OpenSpec, before, now, "1"), (after.to_owned(), vec!["2".to_owned()]));
    }

    #[test]
    fn passes_is_set_by_an_edit_of_that_one_value() {
        let before =
            "{ \"userStories\" : [ {\"id\":\"a\",\n\t\"passes\" :false , \"x\": 1.0e5}, {\"id\":\"b\"},{\"passes\":false,\"id\":\"c\"}]}";
        let after = before.replace("\"passes\" :false ", "\"passes\" :true ");
        assert_eq!(landed(Kind::Prd, before, before, "a"), (after, vec![]));
        let added = before.replace("{\"id\":\"b\"}", "{\"passes\": true, \"id\":\"b\"}");
        assert_eq!(landed(Kind::Prd, before, before, "b"), (added, vec![]));
        let cheated = before.replace("{\"passes\":false,\"id\":\"c\"}", "{\"passes\":true,\"id\":\"c\"}");
        let after = before.replace("\"passes\" :false ", "\"passes\" :true ");
        assert_eq!(landed(Kind::Prd, before, &cheated, "a"), (after, vec!["c".to_owned()]));
    }
}
