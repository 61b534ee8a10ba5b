//! The steps of the loop, as data.

use std::time::Duration;

use jiff::Timestamp;

use super::event::Why;
use crate::agent::{Feedback, Signal, Trouble};
use crate::process::Exit;
use crate::story::StoryId;

/// A pause before the next agent may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pause {
    /// A pause that has not begun yet.
    Due {
        /// The story whose attempt caused it.
        story: StoryId,
        /// The reason.
        why: Why,
        /// When it ends, if that is known.
        until: Option<Timestamp>,
    },
    /// A pause that is recorded in the journal.
    Until {
        /// The story whose attempt caused it.
        story: StoryId,
        /// The reason.
        why: Why,
        /// When it ends.
        until: Timestamp,
    },
}

/// The length of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Until this time.
    Until(Timestamp),
    /// Until this time, but at least this long. The clock may be wrong, and the limit may be reached again at once.
    AtLeast(Timestamp, Duration),
    /// This long from now on.
    For(Duration),
}

/// A step of the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the private clone of a slot.
    MakeWorkspace {
        /// The slot.
        slot: u32,
    },
    /// Start an agent.
    Attempt {
        /// The story.
        story: StoryId,
        /// The number of the attempt.
        attempt: u32,
        /// The feedback about the attempt before.
        feedback: Option<Feedback>,
        /// The number of the workspace that it works in.
        slot: u32,
    },
    /// Judge an agent that has ended, and run the gates if it promised.
    Judge {
        /// The story.
        story: StoryId,
        /// The attempt.
        attempt: u32,
        /// How the agent's process ended.
        exit: Exit,
        /// The agent's promise, if any.
        signal: Signal,
        /// An error that the client reported.
        trouble: Option<Trouble>,
        /// The agent's last lines, if they contain no promise.
        words: String,
    },
    /// Commit the attempt's work as a checkpoint.
    Land {
        /// The story.
        story: StoryId,
        /// The attempt.
        attempt: u32,
    },
    /// Save the work of an accepted attempt for the landing queue.
    Queue {
        /// The story.
        story: StoryId,
        /// The attempt.
        attempt: u32,
    },
    /// Land queued attempts, in this order.
    LandQueued {
        /// The stories and the numbers of their attempts. At least one.
        batch: Vec<(StoryId, u32)>,
    },
    /// Take a queued attempt out of the landing queue.
    TakeOut {
        /// The story.
        story: StoryId,
        /// The attempt.
        attempt: u32,
    },
    /// Roll back the work tree.
    RollBack {
        /// The story.
        story: StoryId,
        /// The attempt.
        attempt: u32,
    },
    /// Wait before the next agent starts.
    Pause {
        /// The story whose attempt caused the pause.
        story: StoryId,
        /// The reason.
        why: Why,
        /// The length.
        span: Span,
        /// Whether the pause is already recorded in the journal.
        begun: bool,
    },
    /// Report that a story has failed and has no retries left.
    GiveUp {
        /// The story.
        story: StoryId,
    },
}

/// The subject of a step. At most one step per subject runs at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A story.
    Story(StoryId),
    /// The landing queue.
    Queue,
    /// The private clone of a slot.
    Workspace(u32),
}

impl Step {
    /// The subject of the step.
    #[must_use]
    pub fn subject(&self) -> Subject {
        match self {
            Step::LandQueued { .. } | Step::TakeOut { .. } => Subject::Queue,
            Step::MakeWorkspace { slot } => Subject::Workspace(*slot),
            Step::Attempt { story, .. }
            | Step::Judge { story, .. }
            | Step::Land { story, .. }
            | Step::Queue { story, .. }
            | Step::RollBack { story, .. }
            | Step::Pause { story, .. }
            | Step::GiveUp { story } => Subject::Story(story.clone()),
        }
    }

    /// The story that the step is for. `None` for the landing queue and for workspaces.
    #[must_use]
    pub fn story(&self) -> Option<&StoryId> {
        match self {
            Step::LandQueued { .. } | Step::MakeWorkspace { .. } => None,
            Step::Attempt { story, .. }
            | Step::Judge { story, .. }
            | Step::Land { story, .. }
            | Step::Queue { story, .. }
            | Step::TakeOut { story, .. }
            | Step::RollBack { story, .. }
            | Step::Pause { story, .. }
            | Step::GiveUp { story } => Some(story),
        }
    }
}

impl Span {
    /// The end of the pause.
    #[must_use]
    pub fn end(self, now: Timestamp) -> Timestamp {
        let later = |duration: Duration| now.checked_add(duration).unwrap_or(Timestamp::MAX);
        match self {
            Span::Until(until) => until,
            Span::AtLeast(until, least) => until.max(later(least)),
            Span::For(duration) => later(duration),
        }
    }
}
