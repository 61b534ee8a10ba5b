//! The stories as the loop sees them: read again when their source changes, and told what has come and gone.

use std::collections::BTreeSet;

use anyhow::Result;

use super::orchestrator::Scribe;
use super::{Event, RunState};
use crate::report::Activity;
use crate::story::{Change, Story, StoryId};

/// The stories as their source had them last; one that cannot be read now is complained about once.
pub(super) struct Library<'a> {
    change: Change,
    source: &'a dyn Fn() -> Result<Change>,
    complaint: Option<String>,
    /// The source as it is, if it is one file that nobody else has to be asked about.
    bytes: &'a dyn Fn() -> Option<Vec<u8>>,
    /// The same when it was read last.
    read: Option<Vec<u8>>,
    /// The agent can write to it: it is not looked at before its attempt is settled.
    in_work_tree: bool,
    /// How many stories from the first one on are done. While the loop runs none of them is taken back: they need not be looked
    /// at again, and a story costs the same however many came before it.
    passed: usize,
}

impl<'a> Library<'a> {
    pub fn new(change: Change, source: &'a dyn Fn() -> Result<Change>, bytes: &'a dyn Fn() -> Option<Vec<u8>>, in_work_tree: bool) -> Self {
        Library { change, source, complaint: None, bytes, read: None, in_work_tree, passed: 0 }
    }

    /// What is told about the change as a whole.
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// The stories without those at the beginning that are done: the machine would only pass them over.
    pub fn left(&self) -> &[Story] {
        &self.change.stories[self.passed..]
    }

    pub fn story(&self, id: &StoryId) -> Option<&Story> {
        self.left().iter().find(|story| story.id == *id).or_else(|| self.change.story(id))
    }

    pub async fn reload(&mut self, scribe: &mut Scribe<'_>) -> Result<()> {
        if self.in_work_tree && scribe.state.is_busy() {
            return Ok(());
        }
        let bytes = (self.bytes)();
        if bytes.is_some() && bytes == self.read {
            self.plan(scribe);
            return Ok(());
        }
        self.read = bytes;
        match (self.source)().map_err(|error| format!("{error:#}")) {
            Ok(change) => {
                let known = std::mem::replace(&mut self.change, change);
                self.complaint = None;
                self.passed = 0;
                if let Some(event) = difference(&known, &self.change) {
                    scribe.record(event).await?;
                }
            }
            Err(error) if self.complaint.as_ref() == Some(&error) => {}
            Err(error) => {
                self.complaint = Some(error.clone());
                scribe.record(Event::SourceUnreadable { error }).await?;
            }
        }
        self.plan(scribe);
        Ok(())
    }

    fn plan(&mut self, scribe: &Scribe<'_>) {
        self.passed += self.left().iter().take_while(|story| scribe.state.is_done(story)).count();
        if !scribe.state.is_busy() {
            let done = self.passed + self.done_further_on(scribe.state);
            scribe.reporter.activity(&Activity::Planned { done, total: self.change.stories.len() });
        }
    }

    /// How many stories are done behind one that is not.
    fn done_further_on(&self, state: &RunState) -> usize {
        if state.landed_or_believed() <= self.passed {
            return 0;
        }
        self.left().iter().filter(|story| state.is_done(story)).count()
    }
}

/// What stories came and went.
fn difference(known: &Change, now: &Change) -> Option<Event> {
    let missing = |from: &Change, of: &Change| -> Vec<StoryId> {
        let known: BTreeSet<&StoryId> = from.stories.iter().map(|story| &story.id).collect();
        of.stories.iter().filter(|story| !known.contains(&story.id)).map(|story| story.id.clone()).collect()
    };
    let (added, removed) = (missing(known, now), missing(now, known));
    (!added.is_empty() || !removed.is_empty()).then_some(Event::StoriesChanged { added, removed })
}
