//! The stories as the loop sees them: read again when their source changes, and told what has come and gone.

use std::collections::BTreeSet;

use anyhow::Result;

use super::Event;
use super::orchestrator::Scribe;
use crate::report::Activity;
use crate::story::{Change, StoryId};

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
}

impl<'a> Library<'a> {
    pub fn new(change: Change, source: &'a dyn Fn() -> Result<Change>, bytes: &'a dyn Fn() -> Option<Vec<u8>>, in_work_tree: bool) -> Self {
        Library { change, source, complaint: None, bytes, read: None, in_work_tree }
    }

    pub fn change(&self) -> &Change {
        &self.change
    }

    pub async fn reload(&mut self, scribe: &mut Scribe<'_>) -> Result<()> {
        if self.in_work_tree && scribe.state.is_busy() {
            return Ok(());
        }
        let bytes = (self.bytes)();
        if bytes.is_some() && bytes == self.read {
            return self.plan(scribe);
        }
        self.read = bytes;
        match (self.source)().map_err(|error| format!("{error:#}")) {
            Ok(change) => {
                let known = std::mem::replace(&mut self.change, change);
                self.complaint = None;
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
        self.plan(scribe)
    }

    fn plan(&self, scribe: &Scribe<'_>) -> Result<()> {
        if !scribe.state.is_busy() {
            let done = self.change.stories.iter().filter(|story| scribe.state.is_done(story)).count();
            scribe.reporter.activity(&Activity::Planned { done, total: self.change.stories.len() });
        }
        Ok(())
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
