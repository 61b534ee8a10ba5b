//! The interface of reporters: the trait that they implement, and the activities that happen between two events.

use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;

use super::{CallbackFailure, Record, RunState, Usage};
use crate::story::StoryId;

/// Something that happens between two events. It is shown but not stored.
#[derive(Debug)]
pub enum Activity<'a> {
    /// The stories were read.
    Planned {
        /// How many stories are done.
        done: usize,
        /// How many stories there are.
        total: usize,
    },
    /// The loop starts.
    Working {
        /// The name of the agent.
        agent: &'a str,
        /// Its model, if one is set.
        model: Option<&'a str>,
        /// How long an agent may be silent.
        idle: Option<Duration>,
    },
    /// The agent has printed something on either stream.
    Heard {
        /// The story.
        story: &'a StoryId,
        /// The usage of the attempt so far, as far as the agent has reported it.
        usage: &'a Usage,
    },
    /// The agent has printed text.
    Said {
        /// The story.
        story: &'a StoryId,
        /// The last line, unchanged.
        line: &'a str,
    },
    /// The agent uses a tool.
    Did {
        /// The story.
        story: &'a StoryId,
        /// The tool's name.
        tool: &'a str,
        /// The file or command that the tool is used on.
        target: &'a str,
    },
    /// The runner has been started, but has not started the agent yet.
    WaitingForRunner {
        /// The story.
        story: &'a StoryId,
        /// The runner's program.
        runner: &'a str,
    },
    /// The runner has started the agent.
    Begun {
        /// The story.
        story: &'a StoryId,
    },
    /// No agent starts before this time.
    Waiting {
        /// The story whose attempt caused the pause.
        story: &'a StoryId,
        /// The time.
        until: Timestamp,
    },
    /// A command of the user that was called for an event has failed.
    CallbackFailed {
        /// The command and the reason.
        failure: &'a CallbackFailure,
    },
    /// git does not track the source of the stories, so a rollback cannot restore its marks.
    SourceNotCarried {
        /// The path of the source.
        path: &'a str,
    },
    /// The gates run on a merge from the landing queue.
    Landing {
        /// The stories that land if the gates pass, in order.
        stories: &'a [StoryId],
    },
    /// A setup command runs in a new private clone.
    SettingUp {
        /// The clone's number, or the name of the clone for landings.
        workspace: &'a str,
        /// The command.
        command: &'a str,
    },
    /// A gate failed in a private clone in which none has passed yet. These ignored files of the user's checkout are not in the clone.
    NotCopied {
        /// Paths of files, or of directories that are ignored as a whole.
        paths: &'a [String],
    },
    /// The user has edited the source in the checkout, but an isolated run reads it from its branch.
    SourceEdited {
        /// The edited files.
        paths: &'a [String],
        /// The branch.
        branch: &'a str,
    },
    /// A gate starts.
    GateStarted {
        /// The story.
        story: &'a StoryId,
        /// The command.
        command: &'a str,
    },
}

/// Shows the events and activities of a run.
pub trait Reporter {
    /// Shows an event.
    fn event(&self, record: &Record, state: &RunState);

    /// Shows an activity.
    fn activity(&self, activity: &Activity<'_>);

    /// Ends the output. The screen is then free for other output.
    fn rest(&self) {}

    /// The live view, if there is one.
    fn live(&self) -> Option<Rc<dyn Live>> {
        None
    }
}

/// A screen that changes with time. It must be called regularly while the loop runs.
pub trait Live {
    /// Updates the screen. Returns whether the user has asked to stop after the current story.
    fn beat(&self) -> bool;

    /// Removes everything temporary from the terminal until the next beat.
    fn step_aside(&self);
}
