//! The marks of a story in its source: set when the story lands, removed when it is rolled back.

use std::path::PathBuf;

use super::{Event, RunDir, SourcePlace};
use crate::safe_read;
use crate::story::StoryId;

/// Sets the marks of a landing story in its source. Returns events about problems.
pub(super) fn set_marks(source: &SourcePlace, run: &RunDir, story: &StoryId, attempt: u32) -> Vec<Event> {
    let before = safe_read::text(&run.source_copy(story, attempt)).unwrap_or_default();
    let aside = run.source_aside(story, attempt);
    let marked = source.mark(&before, story, &aside);
    let strays = (!marked.strays.is_empty()).then(|| Event::StrayMarks { story: story.clone(), others: marked.strays });
    let put_back = marked.put_back.then(|| Event::SourcePutBack { story: story.clone(), aside: aside.display().to_string() });
    let problem = marked.problem.map(|error| Event::MarksNotSet { story: story.clone(), error });
    strays.into_iter().chain(put_back).chain(problem).collect()
}

/// The path of the source file, if the marks of this story are its only change during the attempt.
pub(super) fn only_marked(source: &SourcePlace, run: &RunDir, story: &StoryId, attempt: u32) -> Option<PathBuf> {
    source.only_marked(&safe_read::text(&run.source_copy(story, attempt)).ok()?, story)
}

/// Restores a source that git does not track.
pub(super) fn restore_source(source: &SourcePlace, run: &RunDir, story: &StoryId, attempt: u32) {
    if let Ok(before) = safe_read::text(&run.source_copy(story, attempt)) {
        // An error here is harmless, because marks set during an attempt are never trusted.
        let _ = source.restore(&before, &run.source_aside(story, attempt));
    }
}
