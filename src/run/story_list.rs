//! The stories as the loop sees them: read again when their source changes, and what has come and gone is told.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::scribe::Scribe;
use super::{Activity, ChangeReader, Event, LoadedChange, Outline, RunState};
use crate::story::source::Kind;
use crate::story::{Change, Story, StoryId};

/// The stories as their source had them last.
pub(super) struct StoryList<'a> {
    change: Change,
    /// The only ones that are counted; empty means all.
    only: Vec<StoryId>,
    /// Where they are read again; none for a list that stays as it is.
    feed: Option<Feed<'a>>,
    /// Number of leading stories that are done. The loop never reopens one, so they are skipped, and the cost per story stays
    /// constant.
    passed: usize,
}

/// Where the stories come from; what cannot be read now is complained about once.
struct Feed<'a> {
    reader: &'a ChangeReader,
    loaded: LoadedChange,
    kind: Option<Kind>,
    complaint: Option<String>,
}

impl Feed<'_> {
    /// The change as it is now; none if it is what it was.
    fn read(&mut self) -> Result<Option<Change>> {
        let Some(loaded) = self.reader.reload(&self.loaded)? else { return Ok(None) };
        let change = loaded.change(self.kind)?;
        self.loaded = loaded;
        Ok(Some(change))
    }
}

impl<'a> StoryList<'a> {
    /// Stories that are read again while the loop runs; `kind` is that of their source.
    pub fn new(change: Change, reader: &'a ChangeReader, loaded: LoadedChange, kind: Option<Kind>) -> Self {
        StoryList { change, only: Vec::new(), feed: Some(Feed { reader, loaded, kind, complaint: None }), passed: 0 }
    }

    /// The same, of which only these are worked on and counted.
    pub fn selecting(self, only: &[StoryId]) -> Self {
        StoryList { only: only.to_vec(), ..self }
    }

    /// Stories as they are.
    pub fn fixed(change: Change) -> Self {
        StoryList { change, only: Vec::new(), feed: None, passed: 0 }
    }

    /// What is told about the change as a whole.
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// The stories without those at the beginning that are done: the machine would only pass them over.
    pub fn remaining(&self) -> &[Story] {
        &self.change.stories[self.passed..]
    }

    pub fn story(&self, id: &StoryId) -> Option<&Story> {
        self.remaining().iter().find(|story| story.id == *id).or_else(|| self.change.story(id))
    }

    pub async fn reload(&mut self, scribe: &mut Scribe<'_>) -> Result<()> {
        let Some(feed) = &mut self.feed else { return Ok(()) };
        if scribe.state.is_busy() && !scribe.state.is_isolated() {
            // The agent can write to it: nothing is looked at before its attempt is settled.
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

    /// How many stories are done behind one that is not.
    fn done_further_on(&self, state: &RunState) -> usize {
        if state.landed_or_believed() <= self.passed {
            return 0;
        }
        self.remaining().iter().filter(|story| state.is_done(story)).count()
    }
}

/// What stories came and went, and which are told in other words.
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
