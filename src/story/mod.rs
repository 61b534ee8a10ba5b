//! Changes and stories: what is to be done, in which order. Starts no process.

mod id;
mod order;
pub mod source;

use std::time::Duration;

pub use id::{ChangeName, StoryId};
pub use order::{Order, OrderProblem, check as check_order, overlap};

/// A named piece of work, made of stories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its name, part of the branch's.
    pub name: ChangeName,
    /// What a person calls it.
    pub title: Option<String>,
    /// What every story's prompt carries.
    pub context: Option<String>,
    /// In the order in which they are written.
    pub stories: Vec<Story>,
    /// In which order they may start.
    pub order: Order,
}

impl Change {
    /// The story of that id.
    #[must_use]
    pub fn story(&self, id: &StoryId) -> Option<&Story> {
        self.stories.iter().find(|story| story.id == *id)
    }
}

impl Story {
    /// A story of which nothing but the id is known any more.
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

/// The unit that one agent run works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// What names it in checkpoints, refs and events.
    pub id: StoryId,
    /// One line for people.
    pub title: String,
    /// The text for the agent.
    pub prompt: String,
    /// Its parts.
    pub tasks: Vec<String>,
    /// What must hold when it is done.
    pub acceptance: Vec<String>,
    /// The stories that must be done before it.
    pub after: Vec<StoryId>,
    /// Gates of its own, beside the change's.
    pub verify: Vec<String>,
    /// Patterns of the paths that it may touch; stories whose patterns overlap are not worked on at the same time.
    pub touches: Vec<String>,
    /// A time limit of its own for an attempt.
    pub attempt_timeout: Option<Duration>,
    /// Whether its source says that it is done.
    pub done: bool,
}
