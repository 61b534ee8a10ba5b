//! Requests that the user makes of a run, apart from stopping it, and what the run can do about them now. Pure.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{Event, RunState, Stage};
use crate::story::{Story, StoryId};

/// A request of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Request {
    /// A unique id. A request is followed once, however often it is read.
    pub id: String,
    /// The content of the request.
    #[serde(flatten)]
    pub wish: Wish,
}

/// The kinds of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "wish", rename_all = "kebab-case")]
pub enum Wish {
    /// A hint for the next attempts of one story or of all stories.
    Hint {
        /// The story. `None` means all.
        story: Option<StoryId>,
        /// The hint.
        text: String,
        /// Whether attempts that are under way are ended.
        now: bool,
    },
    /// Skip a story.
    Skip {
        /// The story.
        story: StoryId,
    },
    /// Give a story all of its retries again.
    Retry {
        /// The story.
        story: StoryId,
    },
    /// Replace the text of the change file.
    Edit {
        /// The new text.
        text: String,
    },
    /// Declare a story as done by hand.
    Done {
        /// The story.
        story: StoryId,
        /// Text for the commit message.
        text: Option<String>,
    },
}

/// What a run can do about a request now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request is followed by recording this event.
    Now(Box<Event>),
    /// The user's edits have to become an attempt with this number.
    ByHand {
        /// The story.
        story: StoryId,
        /// The number of the attempt.
        attempt: u32,
    },
    /// The request has to wait until an attempt is over.
    Wait,
    /// The checkout contains an attempt of this story, so the user's edits cannot be separated from it.
    Occupied {
        /// The story.
        by: StoryId,
    },
    /// The request was followed before.
    Known,
    /// The request is not possible for this reason.
    Refused(String),
}

impl Request {
    /// A new request.
    #[must_use]
    pub fn new(wish: Wish) -> Self {
        let now = jiff::Timestamp::now().as_nanosecond();
        Request { id: format!("{now:020}-{}", std::process::id()), wish }
    }

    /// The story whose attempt ends when the request is followed. The inner `None` means all stories.
    pub(super) fn ends(&self) -> Option<Option<&StoryId>> {
        match &self.wish {
            Wish::Hint { story, now: true, .. } => Some(story.as_ref()),
            Wish::Skip { story } | Wish::Done { story, .. } => Some(Some(story)),
            Wish::Hint { now: false, .. } | Wish::Retry { .. } | Wish::Edit { .. } => None,
        }
    }
}

impl Answer {
    fn now(event: Event) -> Self {
        Answer::Now(Box::new(event))
    }
}

impl Wish {
    /// The story that the request is about.
    #[must_use]
    pub fn story(&self) -> Option<&StoryId> {
        match self {
            Wish::Hint { story, .. } => story.as_ref(),
            Wish::Edit { .. } => None,
            Wish::Skip { story } | Wish::Retry { story } | Wish::Done { story, .. } => Some(story),
        }
    }
}

impl RunState {
    /// Decides what can be done about a request now.
    #[must_use]
    pub fn answer(&self, request: &Request, stories: &[Story]) -> Answer {
        if self.requests.contains(&request.id) {
            return Answer::Known;
        }
        if let Some(reason) = self.refusal(&request.wish, stories) {
            return Answer::Refused(reason);
        }
        let id = request.id.clone();
        match &request.wish {
            Wish::Hint { story, text, now } => {
                Answer::now(Event::HintGiven { request: id, story: story.clone(), text: text.clone(), now: *now })
            }
            Wish::Skip { story } => {
                Answer::now(Event::StorySkipped { request: id, story: story.clone(), also: self.skipped_with(story, stories) })
            }
            Wish::Retry { story } => Answer::now(Event::StoryRetried { request: id, story: story.clone() }),
            // In place, changes to the file during an attempt are not trusted.
            Wish::Edit { .. } if self.is_busy() && !self.is_isolated() => Answer::Wait,
            Wish::Edit { .. } => Answer::now(Event::ChangeEdited { request: id }),
            Wish::Done { story, text } => self.answer_done(id, story, text.as_ref()),
        }
    }

    fn answer_done(&self, request: String, story: &StoryId, text: Option<&String>) -> Answer {
        let progress = self.stories.get(story);
        let attempts = progress.map_or(0, |progress| progress.attempts);
        let by_hand = || Answer::ByHand { story: story.clone(), attempt: attempts.saturating_add(1) };
        if self.is_isolated() {
            // Edits of the user are already waiting to land. The next edits have to be based on them.
            return if self.under_way().any(|(_, progress)| progress.has_edits()) { Answer::Wait } else { by_hand() };
        }
        match progress.map(|progress| &progress.stage) {
            None | Some(Stage::Idle | Stage::Queued(_) | Stage::Landed(_)) => match self.under_way().next() {
                Some((by, _)) => Answer::Occupied { by: by.clone() },
                None => by_hand(),
            },
            Some(Stage::Working | Stage::Ended { .. }) => {
                Answer::now(Event::DoneByHand { request, story: story.clone(), attempt: attempts, text: text.cloned(), edits: None })
            }
            Some(Stage::Accepted) => Answer::Wait,
            Some(Stage::Rejected) => Answer::Occupied { by: story.clone() },
        }
    }

    /// Why a request is not possible, if it is not.
    fn refusal(&self, wish: &Wish, stories: &[Story]) -> Option<String> {
        let story = wish.story()?;
        if self.has_landed(story) || self.marked_done.contains(story) {
            return Some(format!("story '{story}' is already done"));
        }
        let Some(text) = stories.iter().find(|other| other.id == *story) else {
            return Some(format!("the change has no story '{story}'"));
        };
        let left_out = self.left_out(stories);
        match wish {
            Wish::Skip { .. } if self.skipped.contains(story) => Some(format!("story '{story}' is already skipped")),
            Wish::Retry { .. } if left_out.contains(story) && !self.skipped.contains(story) => {
                let after = text.after.iter().find(|after| left_out.contains(after)).unwrap_or(story);
                Some(format!("story '{story}' comes after '{after}', which is skipped"))
            }
            Wish::Skip { .. } | Wish::Retry { .. } | Wish::Hint { .. } | Wish::Edit { .. } | Wish::Done { .. } => None,
        }
    }

    /// The stories that depend on one and are not left out yet.
    fn skipped_with(&self, story: &StoryId, stories: &[Story]) -> Vec<StoryId> {
        let before = self.left_out(stories);
        let out = self.with_what_follows(HashSet::from([story]), stories);
        let is_new = |id: &&StoryId| *id != story && out.contains(id) && !before.contains(id);
        stories.iter().map(|other| &other.id).filter(is_new).cloned().collect()
    }

    /// The stories with failed attempts, or that wait for the user, in the order of their ids.
    #[must_use]
    pub fn troubled(&self) -> Vec<StoryId> {
        let is_troubled = |story: &StoryId| self.stories.get(story).is_some_and(|it| it.failures > 0 || it.blocked.is_some());
        let open = |story: &StoryId| !self.has_landed(story) && !self.marked_done.contains(story) && !self.skipped.contains(story);
        self.stories.keys().filter(|story| is_troubled(story) && open(story)).cloned().collect()
    }

    /// The stories that a command may refer to if it names none: those under way, otherwise those that have failed or wait for the user.
    #[must_use]
    pub fn meant(&self) -> Vec<StoryId> {
        let under_way: Vec<StoryId> = self.under_way().map(|(story, _)| story.clone()).collect();
        if under_way.is_empty() { self.troubled() } else { under_way }
    }
}
