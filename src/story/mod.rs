//! Changes and their stories: the work to be done, and its order. Starts no process.

mod id;
mod order;
pub mod source;

use std::time::Duration;

pub use id::{ChangeName, StoryId};
pub use order::{Order, OrderProblem, check as check_order, overlap};

/// A named piece of work that consists of stories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name of the change, which is part of the branch name.
    pub name: ChangeName,
    /// The title shown to people.
    pub title: Option<String>,
    /// Text for the prompt of every story.
    pub context: Option<String>,
    /// The stories, in the order in which they are written.
    pub stories: Vec<Story>,
    /// The order in which the stories may start.
    pub order: Order,
}

impl Change {
    /// The story with the given id.
    #[must_use]
    pub fn story(&self, id: &StoryId) -> Option<&Story> {
        self.stories.iter().find(|story| story.id == *id)
    }
}

impl Story {
    /// A placeholder for a story that is no longer in the change file or the source; only its id is known.
    #[must_use]
    pub fn stand_in(id: &StoryId) -> Self {
        Story {
            id: id.clone(),
            title: id.to_string(),
            prompt: String::new(),
            tasks: Vec::new(),
            acceptance: Vec::new(),
            after: Vec::new(),
            verify: Vec::new(),
            touches: Vec::new(),
            attempt_timeout: None,
            done: false,
        }
    }
}

/// The unit of work for one agent run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// The id, which names the story in checkpoints, refs and events.
    pub id: StoryId,
    /// A one-line title for people.
    pub title: String,
    /// The text for the agent.
    pub prompt: String,
    /// The parts of the work.
    pub tasks: Vec<String>,
    /// What must hold when the story is done.
    pub acceptance: Vec<String>,
    /// The stories that must be done before this one.
    pub after: Vec<StoryId>,
    /// Gates of this story, in addition to those of the change.
    pub verify: Vec<String>,
    /// Patterns of the paths that the story may change. Stories with overlapping patterns do not run at the same time.
    pub touches: Vec<String>,
    /// The time limit for an attempt at this story, if it has its own.
    pub attempt_timeout: Option<Duration>,
    /// Whether the source marks the story as done.
    pub done: bool,
}
