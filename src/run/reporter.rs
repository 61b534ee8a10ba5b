//! What the loop tells while it works: the trait that reporters implement, and what goes on between two events.

use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;

use super::{CallbackFailure, Record, RunState, Usage};
use crate::story::StoryId;

/// What happens between two events: worth showing, not worth keeping.
#[derive(Debug)]
pub enum Activity<'a> {
    /// The stories were read.
    Planned {
        /// How many are done.
        done: usize,
        /// Of how many.
        total: usize,
    },
    /// The loop begins.
    Working {
        /// The agent that works.
        agent: &'a str,
        /// Its model, if one is set.
        model: Option<&'a str>,
        /// How long an agent may be silent.
        idle: Option<Duration>,
    },
    /// The agent has printed something, on either output.
    Heard {
        /// For which story.
        story: &'a StoryId,
        /// What the attempt has used so far, as far as the agent has told.
        usage: &'a Usage,
    },
    /// The agent has printed something; this is its last line.
    Said {
        /// For which story.
        story: &'a StoryId,
        /// As it wrote it.
        line: &'a str,
    },
    /// The agent uses a tool.
    Did {
        /// For which story.
        story: &'a StoryId,
        /// Its name.
        tool: &'a str,
        /// What it is used on.
        target: &'a str,
    },
    /// An agent was given to its runner, which has not started it yet.
    WaitingForRunner {
        /// For which story.
        story: &'a StoryId,
        /// The runner's program.
        runner: &'a str,
    },
    /// The runner has started the agent.
    Begun {
        /// For which story.
        story: &'a StoryId,
    },
    /// No agent is started before that time.
    Waiting {
        /// After which story's attempt.
        story: &'a StoryId,
        /// The time.
        until: Timestamp,
    },
    /// A command of the user's that was told of an event did not do well.
    CallbackFailed {
        /// Which, and how.
        failure: &'a CallbackFailure,
    },
    /// git does not keep the source of the stories, so nothing can take its marks back.
    SourceNotCarried {
        /// The source.
        path: &'a str,
    },
    /// A merge from the landing queue is being tested.
    Landing {
        /// The stories that land if it passes, in order.
        stories: &'a [StoryId],
    },
    /// A command sets a new private clone up.
    SettingUp {
        /// The name of the clone: its number, or that of the clone for landings.
        workspace: &'a str,
        /// The command.
        command: &'a str,
    },
    /// A gate failed in a private clone in which none has passed yet, and these ignored files of the user's checkout are not in it.
    NotCopied {
        /// Their paths, or those of directories that are ignored as a whole.
        paths: &'a [String],
    },
    /// The user has edited the source of the stories in the checkout, and an isolated run reads it from its branch.
    SourceEdited {
        /// The files.
        paths: &'a [String],
        /// The branch.
        branch: &'a str,
    },
    /// A gate is running.
    GateStarted {
        /// For which story.
        story: &'a StoryId,
        /// The command.
        command: &'a str,
    },
}

/// Renders what happens in a run.
pub trait Reporter {
    /// Something has happened.
    fn event(&self, record: &Record, state: &RunState);

    /// Something is going on.
    fn activity(&self, activity: &Activity<'_>);

    /// Nothing more will come: the screen is free for others.
    fn rest(&self) {}

    /// The part that changes with time, if there is one.
    fn live(&self) -> Option<Rc<dyn Live>> {
        None
    }
}

/// A screen that changes with time. Something has to call it while the loop works.
pub trait Live {
    /// Brings the screen up to date; says whether the user has asked to stop after the story that is under way.
    fn beat(&self) -> bool;

    /// Takes everything off the terminal that is not meant to stay, until the next beat.
    fn step_aside(&self);
}
