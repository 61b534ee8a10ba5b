//! The stories as the loop sees them: reads them again when their source changes, and records which were added, removed or changed.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::scribe::Scribe;
use super::{Activity, ChangeReader, Event, LoadedChange, Outline, RunState};
use crate::story::source::Kind;
use crate::story::{Change, Story, StoryId};

/// The stories as they were last read.
pub(super) struct StoryList<'a> {
    change: Change,
    /// The only stories to count. Empty means all.
    only: Vec<StoryId>,
    /// Reads the stories again. `None` for a list that does not change.
    feed: Option<Feed<'a>>,
    /// Number of leading stories that are done. The loop never reopens one, so they are skipped, and the cost per story stays constant.
    passed: usize,
}

/// Reads the stories from their source. An error is reported once.
struct Feed<'a> {
    reader: &'a ChangeReader,
    loaded: LoadedChange,
    kind: Option<Kind>,
    complaint: Option<String>,
}

impl Feed<'_> {
    /// The current change. `None` if it has not changed.
    fn read(&mut self) -> Result<Option<Change>> {
        let Some(loaded) = self.reader.reload(&self.loaded)? else { return Ok(None) };
        let change = loaded.change(self.kind)?;
        self.loaded = loaded;
        Ok(Some(change))
    }
}

impl<'a> StoryList<'a> {
    /// Stories that are read again while the loop runs. `kind` is the kind of their source.
    pub fn new(change: Change, reader: &'a ChangeReader, loaded: LoadedChange, kind: Option<Kind>) -> Self {
        StoryList { change, only: Vec::new(), feed: Some(Feed { reader, loaded, kind, complaint: None }), passed: 0 }
    }

    /// The same list, of which only these stories are worked on and counted.
    pub fn selecting(self, only: &[StoryId]) -> Self {
        StoryList { only: only.to_vec(), ..self }
    }

    /// A list that is not read again.
    pub fn fixed(change: Change) -> Self {
        StoryList { change, only: Vec::new(), feed: None, passed: 0 }
    }

    /// The change with all stories.
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// The stories without the leading ones that are done, which the state machine would only skip.
    pub fn remaining(&self) -> &[Story] {
        &self.change.stories[self.passed..]
    }

    pub fn story(&self, id: &StoryId) -> Option<&Story> {
        self.remaining().iter().find(|story| story.id == *id).or_else(|| self.change.story(id))
    }

    pub async fn reload(&mut self, scribe: &mut Scribe<'_>) -> Result<()> {
        let Some(feed) = &mut self.feed else { return Ok(()) };
        if scribe.state.is_busy() && !scribe.state.is_isolated() {
            // The agent can write to the source, so it is not read before the attempt is over.
            return Ok(());
        }
        match feed.read().map_err(|error| format!("{error:#}")) {
            Ok(Some(change)) => {
                feed.complaint = None;
                let known = std::mem::replace(&mut self.change, change);
                self.passed = 0;
                if let Some(event) = difference(&known, &self.change) {
                    scribe.record(event).await?;
                }
            }
            Ok(None) => feed.complaint = None,
            Err(error) if feed.complaint.as_ref() == Some(&error) => {}
            Err(error) => {
                feed.complaint = Some(error.clone());
                scribe.record(Event::SourceUnreadable { error }).await?;
            }
        }
        self.pass_over_done(scribe);
        Ok(())
    }

    fn pass_over_done(&mut self, scribe: &Scribe<'_>) {
        self.passed += self.remaining().iter().take_while(|story| scribe.state.is_done(story)).count();
        if !scribe.state.is_busy() || scribe.state.is_isolated() {
            let (done, total) = self.counted(scribe.state);
            scribe.reporter.activity(&Activity::Planned { done, total });
        }
    }

    /// How many stories are done, and how many there are.
    fn counted(&self, state: &RunState) -> (usize, usize) {
        if self.only.is_empty() {
            return (self.passed + self.done_further_on(state), self.change.stories.len());
        }
        let selected: Vec<&Story> = self.change.stories.iter().filter(|story| self.only.contains(&story.id)).collect();
        (selected.iter().filter(|story| state.is_done(story)).count(), selected.len())
    }

    /// How many stories are done after the first one that is not.
    fn done_further_on(&self, state: &RunState) -> usize {
        if state.landed_or_marked() <= self.passed {
            return 0;
        }
        self.remaining().iter().filter(|story| state.is_done(story)).count()
    }
}

/// The event about stories that were added, removed or changed, if there are any.
fn difference(known: &Change, now: &Change) -> Option<Event> {
    let missing = |from: &Change, of: &Change| -> Vec<StoryId> {
        let known: BTreeSet<&StoryId> = from.stories.iter().map(|story| &story.id).collect();
        of.stories.iter().filter(|story| !known.contains(&story.id)).map(|story| story.id.clone()).collect()
    };
    let (added, removed) = (missing(known, now), missing(now, known));
    let outlines: BTreeMap<&StoryId, &Story> = known.stories.iter().map(|story| (&story.id, story)).collect();
    let is_told_otherwise = |story: &&Story| outlines.get(&story.id).is_none_or(|before| Outline::of(before) != Outline::of(story));
    let stories: Vec<Outline> = now.stories.iter().filter(is_told_otherwise).map(Outline::of).collect();
    let is_same = added.is_empty() && removed.is_empty() && stories.is_empty();
    (!is_same).then_some(Event::StoriesChanged { added, removed, stories })
}
