//! The progress of one story: the stage of its current attempt, and what its attempts have come to. Pure.

use super::{Edits, Gates, Outcome, Step};
use crate::agent::{Feedback, Signal, Trouble, Usage};
use crate::git::Oid;
use crate::names::Note;
use crate::process::Exit;
use crate::story::StoryId;
use crate::workspace::Notice;

/// The stage of a story's current attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No attempt is under way.
    Idle,
    /// The agent is at work.
    Working,
    /// The agent has ended. The attempt is to be judged.
    Ended {
        /// How its process ended.
        exit: Exit,
        /// The agent's promise, if any.
        signal: Signal,
        /// An error that the client reported.
        trouble: Option<Trouble>,
        /// The agent's last lines, if they contain no promise.
        words: String,
    },
    /// All gates have passed. The attempt is to be landed or, in an isolated run, queued.
    Accepted,
    /// The attempt waits in the landing queue. The commit has its work.
    Queued(Oid),
    /// The attempt has failed and is to be rolled back.
    Rejected,
    /// The attempt has landed as this checkpoint.
    Landed(Oid),
}

impl Stage {
    /// The stage of an agent that was interrupted before it reported anything.
    pub(super) fn cut_short() -> Self {
        Stage::Ended { exit: Exit::Interrupted, signal: Signal::Nothing, trouble: None, words: String::new() }
    }
}

/// The progress of one story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The stage of the current attempt.
    pub stage: Stage,
    /// The gates that were configured when the current attempt started. `None` if it is over, or an older version of git-ralph started it.
    pub gates: Option<Gates>,
    /// The commit that the current attempt started from, in an isolated run.
    pub base: Option<Oid>,
    /// The number of the workspace that the current attempt works in.
    pub slot: u32,
    /// How many attempts were started.
    pub attempts: u32,
    /// How many attempts have cost a retry.
    pub failures: u32,
    /// The outcome of the last attempt.
    pub outcome: Option<Outcome>,
    /// The feedback for the next attempt.
    pub feedback: Option<Feedback>,
    /// The refs with the saved work of failed attempts, oldest first.
    pub rescues: Vec<String>,
    /// Reasons for the user to look more closely at the work of the current attempt.
    pub doubts: Vec<Notice>,
    /// How long agents have worked on the story, in milliseconds.
    pub milliseconds: u64,
    /// How long its gates have taken, in milliseconds.
    pub gate_milliseconds: u64,
    /// The usage of its agents.
    pub usage: Usage,
    /// How often an attempt of the story could not land from the queue.
    pub defeats: u32,
    /// The position of the current attempt in the order of acceptance.
    pub(super) accepted: u64,
    /// The number of the last attempt whose usage is included.
    pub(super) counted: u32,
    /// The user's hints for this story.
    pub hints: Vec<String>,
    /// What the agent needs from the user, if the story waits for that.
    pub blocked: Option<String>,
    /// Set if the user declared the story as done. The attempt then lands on the user's decision, not on the agent's promise.
    pub by_hand: Option<Note>,
    /// A commit of the user's checkout, if the current attempt consists of the user's edits in it.
    pub(super) checkout: Option<Oid>,
    /// The user's edits that replace the current attempt as soon as it is rolled back.
    pub(super) replacement: Option<Replacement>,
    /// Whether the user has requested something that ends the current attempt.
    pub(super) taken_back: bool,
    pub(super) given_up: bool,
}

/// An attempt that consists of the user's edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replacement {
    pub(super) attempt: u32,
    pub(super) accepted: u64,
    pub(super) base: Option<Oid>,
    pub(super) edits: Edits,
    pub(super) note: Note,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            stage: Stage::Idle,
            gates: None,
            base: None,
            slot: 0,
            attempts: 0,
            failures: 0,
            outcome: None,
            feedback: None,
            rescues: Vec::new(),
            doubts: Vec::new(),
            milliseconds: 0,
            gate_milliseconds: 0,
            usage: Usage::default(),
            defeats: 0,
            accepted: 0,
            counted: 0,
            hints: Vec::new(),
            blocked: None,
            by_hand: None,
            checkout: None,
            replacement: None,
            taken_back: false,
            given_up: false,
        }
    }
}

impl Progress {
    /// How long agents and gates have taken, in milliseconds.
    #[must_use]
    pub fn with_gates(&self) -> u64 {
        self.milliseconds.saturating_add(self.gate_milliseconds)
    }

    /// Whether an attempt is running, or is being landed or rolled back.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Landed(_))
    }

    /// Ends the current attempt without a checkpoint. The user's edits may replace it.
    pub(super) fn end_attempt(&mut self) {
        (self.stage, self.gates, self.by_hand, self.checkout) = (Stage::Idle, None, None, None);
        self.taken_back = false;
        let Some(Replacement { attempt, accepted, base, edits, note }) = self.replacement.take() else { return };
        (self.attempts, self.accepted, self.slot, self.base) = (attempt, accepted, 0, base);
        (self.by_hand, self.gates, self.checkout) = (Some(note), Some(Gates::default()), Some(edits.checkout));
        self.stage = Stage::Queued(edits.commit);
        self.doubts.clear();
    }

    /// Marks the current attempt, if there is one, to be rolled back whatever its result. This also overrides an earlier `done` of the
    /// user, because the latest request counts. In place, an accepted attempt is not marked, because it lands at once.
    pub(super) fn take_back(&mut self) {
        if matches!(self.stage, Stage::Working | Stage::Ended { .. }) {
            self.by_hand = None;
        }
        self.taken_back = match self.stage {
            Stage::Working | Stage::Ended { .. } => true,
            Stage::Accepted | Stage::Queued(_) => self.base.is_some(),
            Stage::Idle | Stage::Rejected | Stage::Landed(_) => false,
        };
    }

    pub(super) fn take_hint(&mut self, now: bool) {
        self.blocked = None;
        if now && self.by_hand.is_none() && self.replacement.is_none() {
            self.take_back();
        }
    }

    /// Whether its attempt is to be rolled back because of a request of the user.
    #[must_use]
    pub fn is_taken_back(&self) -> bool {
        self.taken_back
    }

    /// Whether the user's edits wait to be landed for the story, in an isolated run.
    pub(super) fn has_edits(&self) -> bool {
        self.checkout.is_some() || self.replacement.is_some()
    }

    pub(super) fn reject(&mut self, outcome: &Outcome) {
        if self.by_hand.is_some() && !matches!(outcome, Outcome::Unlandable { .. }) {
            // The user declared the story as done while the agent was being judged. That takes precedence.
            self.stage = Stage::cut_short();
            return;
        }
        self.stage = Stage::Rejected;
        if outcome.costs_retry() {
            self.failures += 1;
            self.feedback = outcome.feedback();
        }
        if let Outcome::Blocked { needs } = outcome {
            self.blocked = Some(needs.clone());
            self.feedback = outcome.feedback();
        }
        self.outcome = Some(outcome.clone());
    }

    /// The next step for an attempt that has begun.
    pub(super) fn step(&self, story: &StoryId) -> Option<Step> {
        let (story, attempt) = (story.clone(), self.attempts);
        match &self.stage {
            Stage::Ended { .. } if self.taken_back => {
                Some(Step::Judge { story, attempt, exit: Exit::Interrupted, signal: Signal::Nothing, trouble: None, words: String::new() })
            }
            Stage::Queued(_) if self.taken_back => Some(Step::TakeOut { story, attempt }),
            Stage::Ended { exit, signal, trouble, words } => Some(Step::Judge {
                story,
                attempt,
                exit: exit.clone(),
                signal: signal.clone(),
                trouble: trouble.clone(),
                words: words.clone(),
            }),
            Stage::Accepted => Some(Step::Land { story, attempt }),
            Stage::Rejected => Some(Step::RollBack { story, attempt }),
            Stage::Idle | Stage::Working | Stage::Queued(_) | Stage::Landed(_) => None,
        }
    }
}
