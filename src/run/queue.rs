//! The landing queue: decides which accepted attempts land next, and the feedback for an attempt that could not land. Pure.
//!
//! Attempts land in the order in which they were accepted. If several wait, they are merged, tested by the gates once and landed together.
//! After a batch whose gates failed, half as many are tried.

use super::event::{Defeat, DefeatCause};
use super::{Progress, RunState, Stage, Step};
use crate::agent::Feedback;
use crate::git::Oid;
use crate::story::StoryId;

impl RunState {
    /// The queued attempts, in the order in which they land.
    #[must_use]
    pub fn queue(&self) -> Vec<(&StoryId, &Progress)> {
        let mut queue: Vec<(&StoryId, &Progress)> = self.under_way().filter(|(_, progress)| progress.is_queued()).collect();
        let privileged = self.privileged();
        queue.sort_by_key(|(story, progress)| (privileged != Some(story), progress.accepted));
        queue
    }

    /// The next step that lands queued attempts, if one can be done now.
    pub(super) fn landing(&self) -> Option<Step> {
        let mut queue = self.queue();
        queue.retain(|(_, progress)| !progress.is_taken_back());
        let (story, _) = queue.first()?;
        match self.privileged() {
            Some(privileged) if privileged == *story => queue.truncate(1),
            Some(_) => return None,
            None => {
                // An attempt that was accepted earlier is still being saved. The attempts after it wait for it.
                let unsaved =
                    self.at_work().filter(|(_, progress)| progress.stage == Stage::Accepted).map(|(_, progress)| progress.accepted);
                let unsaved = unsaved.min().unwrap_or(u64::MAX);
                queue.retain(|(_, progress)| progress.accepted < unsaved);
                let (_, first) = queue.first()?;
                queue.truncate(if self.is_from_tip(first) { 1 } else { self.batch_limit.unwrap_or(usize::MAX) });
            }
        }
        let batch = queue.into_iter().map(|(story, progress)| (story.clone(), progress.attempts)).collect();
        Some(Step::LandQueued { batch })
    }

    /// Whether the attempt is based on the tip. Then there is nothing to merge, and its gates have seen exactly what lands.
    fn is_from_tip(&self, progress: &Progress) -> bool {
        progress.base.as_ref() == self.base.as_ref().map(|base| &base.checkpoint)
    }

    /// Whether the landing runs no gates, so it is quick.
    pub(super) fn needs_no_gate(&self, landing: &Step) -> bool {
        let Step::LandQueued { batch } = landing else { return false };
        batch.first().and_then(|(story, _)| self.stories.get(story)).is_some_and(|first| self.is_from_tip(first))
    }
}

impl Progress {
    /// Whether the attempt waits in the landing queue.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::Queued(_))
    }

    /// The commit that waits in the landing queue.
    #[must_use]
    pub fn queued(&self) -> Option<&Oid> {
        match &self.stage {
            Stage::Queued(commit) => Some(commit),
            _ => None,
        }
    }
}

impl Defeat {
    /// The feedback for the next attempt. `kept` is the ref with the work that could not land.
    #[must_use]
    pub fn feedback(&self, kept: &str) -> Feedback {
        let (tip, kept) = (self.tip.short().to_owned(), kept.to_owned());
        match &self.cause {
            DefeatCause::Conflict { paths, hunks } => Feedback::Conflict { tip, kept, paths: paths.clone(), hunks: hunks.clone() },
            DefeatCause::Gate { command, output } => Feedback::MergeGate { tip, kept, command: command.clone(), output: output.clone() },
        }
    }
}
