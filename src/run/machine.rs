//! The state machine: folds the events of a run into a state and decides which steps may come next. Pure, no I/O, not async.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use super::event::{Budget, StopKind, Why};
use super::{Checkpoints, Edits, End, Event, Gates, Opening, Outcome};
use crate::agent::{Feedback, Signal, Trouble, Usage};
use crate::branch::Base;
use crate::config::{Finish, LimitWait};
use crate::cost::Cost;
use crate::git::Oid;
use crate::names::Note;
use crate::process::Exit;
use crate::story::source::Kind;
use crate::story::{Order, Story, StoryId, overlap};
use crate::workspace::Notice;

/// The phase of a run as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The start is recorded. How much of it was done is not known.
    Starting,
    /// The run is open for work.
    Open,
    /// A finish has begun.
    Finishing(Finish),
    /// An abort has begun.
    Aborting,
    /// The run is finished in this way.
    Finished(Finish),
    /// The run is aborted.
    Aborted,
}

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
    fn cut_short() -> Self {
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
    counted: u32,
    /// The user's hints for this story.
    pub hints: Vec<String>,
    /// What the agent needs from the user, if the story waits for that.
    pub blocked: Option<String>,
    /// Set if the user declared the story as done. The attempt then lands on the user's decision, not on the agent's promise.
    pub by_hand: Option<Note>,
    /// A commit of the user's checkout, if the current attempt consists of the user's edits in it.
    checkout: Option<Oid>,
    /// The user's edits that replace the current attempt as soon as it is rolled back.
    replacement: Option<Replacement>,
    /// Whether the user has requested something that ends the current attempt.
    taken_back: bool,
    given_up: bool,
}

/// An attempt that consists of the user's edits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Replacement {
    attempt: u32,
    accepted: u64,
    base: Option<Oid>,
    edits: Edits,
    note: Note,
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

/// The rules for a loop. They may change between two commands.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The number of retries after the first attempt.
    pub max_retries: u32,
    /// Whether the loop goes on with other stories when one has no retries left.
    pub keep_going: bool,
    /// The number of attempts at the same time.
    pub jobs: usize,
    /// The order in which stories may start.
    pub order: Order,
    /// How many stories this command should land.
    pub limit: Option<u32>,
    /// The stories to work on. Empty means all.
    pub only: Vec<StoryId>,
    /// The current agent.
    pub agent: Option<String>,
    /// Whether to wait for a usage limit.
    pub limit_wait: LimitWait,
    /// The first wait for a usage limit whose reset time is not known.
    pub limit_pause: Duration,
    /// How often in a row to wait for a usage limit without any progress.
    pub limit_waits: LimitWaits,
    /// How often in a row the runner may fail.
    pub runner_failures: RunnerFailures,
    /// The budget of the run in money.
    pub max_cost: Option<Cost>,
    /// The budget of the run in tokens.
    pub max_tokens: Option<u64>,
    /// The usage of the running agents, as far as they have reported it.
    pub in_flight: Usage,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            max_retries: 3,
            keep_going: false,
            jobs: 1,
            order: Order::Graph,
            limit: None,
            only: Vec::new(),
            agent: None,
            limit_wait: LimitWait::Wait,
            limit_pause: Duration::from_secs(300),
            limit_waits: LimitWaits::default(),
            runner_failures: RunnerFailures::default(),
            max_cost: None,
            max_tokens: None,
            in_flight: Usage::default(),
        }
    }
}

/// How often in a row the loop waits for a usage limit. A wait costs no retry, so without this limit a run whose agent always reports a
/// usage limit would never end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitWaits {
    /// If the last error message had a reset time. This ends the waits for a client that keeps reporting a wrong time.
    pub announced: u32,
    /// If it had none. This is long enough for a quota that is renewed once per day.
    pub guessed: u32,
}

impl Default for LimitWaits {
    fn default() -> Self {
        LimitWaits { announced: 10, guessed: 30 }
    }
}

/// How often in a row a runner may fail before the loop ends. Such a failure costs no retry, so nothing else would end the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerFailures {
    /// If the runner did not start an agent the last time. It is then often misconfigured, and retries do not help.
    pub not_started: u32,
    /// If the runner lost a running agent, because a job was cancelled or a node failed.
    pub lost: u32,
}

impl Default for RunnerFailures {
    fn default() -> Self {
        RunnerFailures { not_started: 3, lost: 10 }
    }
}

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

/// An operation that an earlier process left half done, in the order in which they have to be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfDone {
    /// The start.
    Start,
    /// An undo.
    Undo,
    /// A finish, in this way.
    Finish(Finish),
    /// An abort.
    Abort,
    /// Attempts that are running, or have to be judged, landed or rolled back.
    Attempts,
}

impl HalfDone {
    /// The name of the operation for messages.
    pub(super) fn words(self) -> &'static str {
        match self {
            HalfDone::Attempts => "an attempt",
            HalfDone::Start => "the start",
            HalfDone::Undo => "a 'git ralph undo'",
            HalfDone::Finish(_) => "a 'git ralph finish'",
            HalfDone::Abort => "a 'git ralph abort'",
        }
    }
}

/// The way in which a run is about to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// A finish. Work that is done becomes part of the result.
    Finish,
    /// An abort.
    Abort,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Every step that could start now. Empty if the loop has to wait for running steps.
    Steps(Vec<Step>),
    /// The loop is over.
    End(End),
}

/// The state of a run: a fold of its events.
#[derive(Clone, Debug, PartialEq)]
pub struct RunState {
    /// The facts that were recorded before the run touched anything.
    pub opening: Option<Opening>,
    /// The phase of the run as a whole.
    pub phase: Phase,
    /// The initial commit of the run.
    pub initial: Option<Oid>,
    /// The base of the next attempts.
    pub base: Option<Base>,
    /// Every story that an event has mentioned.
    pub stories: BTreeMap<StoryId, Progress>,
    /// Why the last loop ended.
    pub end: Option<End>,
    /// The ref with the last commit of a closed run.
    pub kept: Option<String>,
    /// The checkpoints on the branch.
    pub checkpoints: Checkpoints,
    /// An undo that has begun: the new tip, and the stories whose checkpoints it removes.
    pub undoing: Option<(Oid, Vec<StoryId>)>,
    /// A pause before the next agent may start.
    pub pause: Option<Pause>,
    /// The kind of the stories' source.
    pub source_kind: Option<Kind>,
    /// Stories that the user has marked as done in the source.
    pub believed: BTreeSet<StoryId>,
    /// Stories that the user skipped.
    pub skipped: BTreeSet<StoryId>,
    /// In an isolated run: commits of the user's checkout for stories that were done by hand and have landed, in the order of landing.
    checkouts: Vec<(StoryId, Oid)>,
    /// The user's hints for every story.
    pub hints: Vec<String>,
    /// The ids of the user's requests that were followed, so that none is followed twice.
    pub(super) requests: HashSet<String>,
    /// The stories with an attempt under way. These are few, however many stories there are.
    busy: BTreeSet<StoryId>,
    /// The stories with a checkpoint on the branch.
    landed: HashSet<StoryId>,
    /// The stories with a failed attempt.
    failing: HashSet<StoryId>,
    misconfigured: Option<String>,
    /// The agent that was started last.
    agent: Option<String>,
    /// How many usage limits there were in a row. Limits that several agents reach at the same time count as one.
    limits: u32,
    /// How often in a row the runner failed. Agents that it loses at the same time count as one failure.
    runner_failures: u32,
    stopping: Option<StopKind>,
    landed_here: u32,
    /// The slots whose private clone this process has prepared.
    workspaces: BTreeSet<u32>,
    /// The stories that failed to land from the queue too often, in that order.
    overdue: Vec<StoryId>,
    /// How many attempts were accepted.
    acceptances: u64,
    /// The largest batch to land, after a batch whose gates failed.
    pub(super) batch_limit: Option<usize>,
}

impl Default for RunState {
    fn default() -> Self {
        RunState {
            opening: None,
            phase: Phase::Starting,
            initial: None,
            base: None,
            stories: BTreeMap::new(),
            end: None,
            kept: None,
            checkpoints: Checkpoints::default(),
            undoing: None,
            pause: None,
            source_kind: None,
            believed: BTreeSet::new(),
            skipped: BTreeSet::new(),
            checkouts: Vec::new(),
            hints: Vec::new(),
            requests: HashSet::new(),
            busy: BTreeSet::new(),
            landed: HashSet::new(),
            failing: HashSet::new(),
            misconfigured: None,
            agent: None,
            limits: 0,
            runner_failures: 0,
            stopping: None,
            landed_here: 0,
            workspaces: BTreeSet::new(),
            overdue: Vec::new(),
            acceptances: 0,
            batch_limit: None,
        }
    }
}

impl RunState {
    /// Whether the run is finished or aborted.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Finished(_) | Phase::Aborted)
    }

    /// Whether a checkpoint of the story is on the branch.
    #[must_use]
    pub fn has_landed(&self, story: &StoryId) -> bool {
        self.landed.contains(story)
    }

    /// Whether the story needs no more work: it has landed, or the user marked it as done in the source. Marks that appear in the source
    /// later are not trusted, because agents write to it.
    #[must_use]
    pub fn is_done(&self, story: &Story) -> bool {
        self.believed.contains(&story.id) || self.has_landed(&story.id)
    }

    /// An upper bound for the number of stories that are done. Their source may no longer contain all of them.
    pub(super) fn landed_or_believed(&self) -> usize {
        self.landed.len() + self.believed.len()
    }

    /// Applies an event to the state.
    #[expect(clippy::too_many_lines, reason = "one arm per event, and nothing else")]
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::RunStarting { opening } => {
                *self = RunState { opening: Some(opening.clone()), ..RunState::default() };
            }
            Event::RunStarted { initial, .. } => {
                self.phase = Phase::Open;
                self.initial = Some(initial.clone());
                self.stand_on(initial, initial);
            }
            Event::RunResumed {} => self.reopen(),
            Event::CommitsAdopted { checkpoint } => self.adopt(checkpoint, checkpoint),
            Event::EditsAdopted { checkpoint, base, .. } => self.adopt(checkpoint, base),
            Event::UndoStarted { to, stories } => {
                self.undoing = Some((to.clone(), stories.clone()));
                self.end = None;
            }
            Event::Undone { to, stories, .. } => self.take_back(to, stories),
            Event::PauseStarted { story, until, why } => {
                self.pause = Some(Pause::Until { story: story.clone(), why: *why, until: *until });
            }
            Event::PauseEnded { .. } => self.pause = None,
            Event::SourceRead { kind, done } => {
                self.source_kind = Some(*kind);
                self.believed.extend(done.iter().cloned());
            }
            Event::HintGiven { .. }
            | Event::StorySkipped { .. }
            | Event::StoryRetried { .. }
            | Event::DoneByHand { .. }
            | Event::ChangeEdited { .. }
            | Event::RequestRefused { .. } => self.apply_request(event),
            Event::StopRequested { how } => self.stopping = Some(*how),
            Event::LoopEnded { end } => self.end = Some(end.clone()),
            Event::FinishStarted { mode } => self.phase = Phase::Finishing(*mode),
            Event::Finished { mode, kept } => {
                self.phase = Phase::Finished(*mode);
                self.kept.clone_from(kept);
            }
            Event::AbortStarted {} => self.phase = Phase::Aborting,
            Event::Aborted { kept, .. } => {
                self.phase = Phase::Aborted;
                self.kept.clone_from(kept);
            }
            Event::LeftoverKept { .. }
            | Event::LoopStarted { .. }
            | Event::IdentityMissing {}
            | Event::SourceUnreadable { .. }
            | Event::StoriesChanged { .. }
            | Event::StrayMarks { .. }
            | Event::SourcePutBack { .. }
            | Event::MarksNotSet { .. } => {}
            Event::GateEnded { story, milliseconds, .. } => {
                if let Some(progress) = self.stories.get_mut(story) {
                    progress.gate_milliseconds = progress.gate_milliseconds.saturating_add(*milliseconds);
                }
            }
            Event::WorkspaceReady { slot, .. } => {
                self.workspaces.insert(*slot);
            }
            Event::BatchFailed { stories, .. } => self.batch_limit = Some((stories.len() / 2).max(1)),
            Event::Noticed { notice } => self.doubt(notice),
            Event::AttemptStarted { .. }
            | Event::AgentEnded { .. }
            | Event::UsageFound { .. }
            | Event::AttemptAccepted { .. }
            | Event::AttemptQueued { .. }
            | Event::AttemptBeaten { .. }
            | Event::AttemptRejected { .. }
            | Event::CheckpointLanded { .. }
            | Event::AttemptRolledBack { .. }
            | Event::StoryFailed { .. } => {
                if let Some(id) = self.apply_to_story(event) {
                    self.file(id);
                }
            }
        }
    }

    /// Applies a request of the user. Applying the same request again changes nothing.
    fn apply_request(&mut self, event: &Event) {
        let (Event::HintGiven { request, .. }
        | Event::StorySkipped { request, .. }
        | Event::StoryRetried { request, .. }
        | Event::DoneByHand { request, .. }
        | Event::ChangeEdited { request }
        | Event::RequestRefused { request, .. }) = event
        else {
            return;
        };
        if !self.requests.insert(request.clone()) {
            return;
        }
        if !matches!(event, Event::RequestRefused { .. }) {
            // The reason for which the loop ended may no longer hold.
            self.end = None;
        }
        match event {
            Event::HintGiven { story: Some(story), text, now, .. } => {
                let progress = self.progress(story);
                progress.hints.push(text.clone());
                progress.take_hint(*now);
            }
            Event::HintGiven { story: None, text, now, .. } => {
                self.hints.push(text.clone());
                self.stories.values_mut().for_each(|progress| progress.take_hint(*now));
            }
            Event::StorySkipped { story, .. } => {
                self.skipped.insert(story.clone());
                let progress = self.progress(story);
                progress.replacement = None;
                progress.take_back();
            }
            Event::StoryRetried { story, .. } => {
                self.skipped.remove(story);
                let progress = self.progress(story);
                (progress.failures, progress.given_up, progress.blocked) = (0, false, None);
                self.file(story);
            }
            Event::DoneByHand { story, attempt, text, edits, .. } => {
                self.skipped.remove(story);
                self.finish_by_hand(story, *attempt, text.as_ref(), edits.as_ref());
                self.file(story);
            }
            _ => {}
        }
    }

    /// Applies `done-by-hand`. In place, the attempt that is under way lands, and an idle story gets an attempt that consists of the user's
    /// edits. In an isolated run, the user's edits replace the attempt that is under way.
    fn finish_by_hand(&mut self, story: &StoryId, attempt: u32, text: Option<&String>, edits: Option<&Edits>) {
        self.acceptances += 1;
        let (accepted, base) = (self.acceptances, self.base.as_ref().map(|base| base.checkpoint.clone()));
        let note = Note { text: text.cloned() };
        let progress = self.progress(story);
        progress.blocked = None;
        if let Some(edits) = edits {
            progress.replacement = Some(Replacement { attempt, accepted, base, edits: edits.clone(), note });
            if progress.stage == Stage::Idle {
                progress.end_attempt();
            } else {
                progress.take_back();
            }
            return;
        }
        (progress.by_hand, progress.gates) = (Some(note), Some(Gates::default()));
        // The user may have asked for a rollback before.
        progress.taken_back = false;
        if progress.stage == Stage::Idle {
            (progress.attempts, progress.accepted, progress.slot, progress.base) = (attempt, accepted, 0, None);
            progress.doubts.clear();
            progress.stage = Stage::Accepted;
        }
    }

    /// The commit of the user's checkout at the last story done by hand in an isolated run. New edits in the checkout are relative to it.
    #[must_use]
    pub fn last_checkout(&self) -> Option<&Oid> {
        self.checkouts.last().map(|(_, checkout)| checkout).or(self.initial.as_ref())
    }

    /// Records a reason to look more closely at an attempt. A step that is repeated reports it again.
    fn doubt(&mut self, notice: &Notice) {
        let Some(progress) = notice.doubted().and_then(|story| self.stories.get_mut(story)) else { return };
        if !progress.doubts.contains(notice) {
            progress.doubts.push(notice.clone());
        }
    }

    /// Updates the sets that the story may be in.
    fn file(&mut self, story: &StoryId) {
        let Some(progress) = self.stories.get(story) else { return };
        let (busy, landed, failing) = (progress.is_busy(), matches!(progress.stage, Stage::Landed(_)), progress.failures > 0);
        let _ = if busy { self.busy.insert(story.clone()) } else { self.busy.remove(story) };
        for (on, list) in [(landed, &mut self.landed), (failing, &mut self.failing)] {
            let _ = if on { list.insert(story.clone()) } else { list.remove(story) };
        }
    }

    /// Applies an event to its story and returns the story.
    #[expect(clippy::too_many_lines, reason = "one arm per event, and nothing else")]
    fn apply_to_story<'e>(&mut self, event: &'e Event) -> Option<&'e StoryId> {
        match event {
            Event::AttemptStarted { story, attempt, agent, gates, base, slot, .. } => {
                self.agent = Some(agent.clone());
                let progress = self.progress(story);
                progress.attempts = *attempt;
                progress.gates.clone_from(gates);
                progress.base.clone_from(base);
                progress.slot = *slot;
                progress.doubts.clear();
                progress.stage = Stage::Working;
                self.pause = None;
                Some(story)
            }
            Event::AgentEnded { story, attempt, exit, signal, trouble, usage, milliseconds, words, .. } => {
                let progress = self.progress(story);
                progress.counted = *attempt;
                progress.milliseconds = progress.milliseconds.saturating_add(*milliseconds);
                progress.usage = progress.usage.plus(usage);
                progress.stage =
                    Stage::Ended { exit: exit.clone(), signal: signal.clone(), trouble: trouble.clone(), words: words.clone() };
                Some(story)
            }
            Event::UsageFound { story, attempt, usage } => {
                let progress = self.progress(story);
                progress.counted = *attempt;
                progress.usage = progress.usage.plus(usage);
                Some(story)
            }
            Event::AttemptAccepted { story, .. } => {
                self.acceptances += 1;
                let accepted = self.acceptances;
                let progress = self.progress(story);
                progress.accepted = accepted;
                progress.stage = Stage::Accepted;
                if progress.taken_back {
                    progress.reject(&Outcome::Interrupted);
                }
                Some(story)
            }
            Event::AttemptQueued { story, commit, .. } => {
                self.progress(story).stage = Stage::Queued(commit.clone());
                Some(story)
            }
            Event::AttemptBeaten { story, defeat, kept, .. } => {
                let progress = self.progress(story);
                progress.defeats += 1;
                progress.rescues.push(kept.clone());
                progress.feedback = Some(defeat.feedback(kept));
                progress.end_attempt();
                if progress.defeats == DEFEATS {
                    self.overdue.push(story.clone());
                }
                self.batch_limit = None;
                Some(story)
            }
            Event::AttemptRejected { story, outcome, .. } => {
                self.progress(story).reject(outcome);
                self.heed(story, outcome);
                Some(story)
            }
            Event::CheckpointLanded { story, commit, .. } => {
                let progress = self.progress(story);
                progress.stage = Stage::Landed(commit.clone());
                progress.gates = None;
                progress.by_hand = None;
                progress.replacement = None;
                progress.taken_back = false;
                progress.blocked = None;
                progress.defeats = 0;
                let checkout = progress.checkout.take();
                self.checkouts.extend(checkout.map(|checkout| (story.clone(), checkout)));
                self.overdue.retain(|overdue| overdue != story);
                self.batch_limit = self.batch_limit.map(|limit| limit.saturating_mul(2)).filter(|limit| *limit < MOST_DOUBLED);
                self.landed_here += 1;
                (self.limits, self.runner_failures) = (0, 0);
                self.checkpoints.land(story, commit);
                self.stand_on(commit, commit);
                Some(story)
            }
            Event::AttemptRolledBack { story, rescue, .. } => {
                let progress = self.progress(story);
                progress.rescues.push(rescue.clone());
                progress.end_attempt();
                Some(story)
            }
            Event::StoryFailed { story, .. } => {
                self.progress(story).given_up = true;
                Some(story)
            }
            _ => None,
        }
    }

    /// Prepares the state for a new process, which does not supervise the agents of the previous one.
    fn reopen(&mut self) {
        self.stopping = None;
        self.end = None;
        self.landed_here = 0;
        self.misconfigured = None;
        (self.limits, self.runner_failures) = (0, 0);
        self.workspaces.clear();
        // A pause that was due but never started is dropped: resuming means "try now".
        self.pause = self.pause.take().filter(|pause| matches!(pause, Pause::Until { .. }));
        for progress in self.stories.values_mut() {
            progress.given_up = false;
            if progress.stage == Stage::Working && progress.by_hand.is_some() {
                progress.stage = Stage::cut_short();
            } else if progress.stage == Stage::Working {
                // The attempt stays busy and costs no retry, so the sets do not change.
                progress.reject(&Outcome::Interrupted);
            }
        }
    }

    fn adopt(&mut self, checkpoint: &Oid, base: &Oid) {
        self.checkpoints.adopt(checkpoint, self.base.as_ref().map(|base| &base.checkpoint));
        self.stand_on(checkpoint, base);
    }

    /// Makes the stories idle again. Their attempt numbers continue, so that they stay unique.
    fn take_back(&mut self, to: &Oid, stories: &[StoryId]) {
        self.undoing = None;
        self.checkpoints.cut(to);
        let kept = self.checkouts.iter().take_while(|(story, _)| !stories.contains(story)).count();
        self.checkouts.truncate(kept);
        self.stand_on(to, to);
        for story in stories {
            self.overdue.retain(|overdue| overdue != story);
            let progress = self.progress(story);
            *progress = Progress {
                attempts: progress.attempts,
                rescues: std::mem::take(&mut progress.rescues),
                milliseconds: progress.milliseconds,
                usage: std::mem::take(&mut progress.usage),
                hints: std::mem::take(&mut progress.hints),
                counted: progress.counted,
                ..Progress::default()
            };
            self.file(story);
        }
    }

    /// Handles outcomes that affect all agents, not only the one of this story.
    fn heed(&mut self, story: &StoryId, outcome: &Outcome) {
        let story = story.clone();
        match outcome {
            Outcome::Misconfigured { message } => self.misconfigured = Some(message.clone()),
            Outcome::Limited { resets, .. } => {
                if !matches!(self.pause, Some(Pause::Due { why: Why::Limit, .. })) {
                    self.limits = self.limits.saturating_add(1);
                }
                self.pause = Some(Pause::Due { story, why: Why::Limit, until: *resets });
            }
            Outcome::Unavailable { .. } => self.pause = Some(Pause::Due { story, why: Why::Unavailable, until: None }),
            Outcome::Lost { .. } | Outcome::NotStarted { .. } => {
                if !matches!(self.pause, Some(Pause::Due { why: Why::Runner, .. })) {
                    self.runner_failures = self.runner_failures.saturating_add(1);
                }
                if !matches!(self.pause, Some(Pause::Due { why: Why::Limit, .. } | Pause::Until { why: Why::Limit, .. })) {
                    self.pause = Some(Pause::Due { story, why: Why::Runner, until: None });
                }
            }
            Outcome::Interrupted => self.limits = 0,
            _ => (self.limits, self.runner_failures) = (0, 0),
        }
    }

    /// Whether the usage of an attempt is already included.
    #[must_use]
    pub fn has_usage_of(&self, story: &StoryId, attempt: u32) -> bool {
        self.stories.get(story).is_some_and(|progress| progress.counted >= attempt)
    }

    /// The usage of all agents of the run.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.stories.values().fold(Usage::default(), |sum, progress| sum.plus(&progress.usage))
    }

    fn stand_on(&mut self, checkpoint: &Oid, snapshot: &Oid) {
        self.base = Some(Base { checkpoint: checkpoint.clone(), snapshot: snapshot.clone() });
    }

    fn progress(&mut self, story: &StoryId) -> &mut Progress {
        self.stories.entry(story.clone()).or_default()
    }

    /// Whether an attempt is running, or is being landed or rolled back.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// An attempt that is not judged yet, because its agent is running or has just ended.
    #[must_use]
    pub fn unjudged(&self) -> Option<(StoryId, u32)> {
        let unjudged = |progress: &&Progress| matches!(progress.stage, Stage::Working | Stage::Ended { .. });
        self.busy.iter().find_map(|story| Some((story.clone(), self.stories.get(story).filter(unjudged)?.attempts)))
    }

    /// The operation that was begun and not completed, the most urgent one first.
    #[must_use]
    pub fn half_done(&self) -> Option<HalfDone> {
        match self.phase {
            Phase::Starting => Some(HalfDone::Start),
            Phase::Finishing(mode) => Some(HalfDone::Finish(mode)),
            Phase::Aborting => Some(HalfDone::Abort),
            Phase::Open if self.undoing.is_some() => Some(HalfDone::Undo),
            Phase::Open if self.is_busy() => Some(HalfDone::Attempts),
            Phase::Open | Phase::Finished(_) | Phase::Aborted => None,
        }
    }

    /// The remaining steps for attempts that were begun, before the run is closed. No attempt is started. An agent that was running counts
    /// as interrupted, because no process supervises it. In an abort, an agent that had ended also counts as interrupted, so no gates are
    /// run for it.
    #[must_use]
    pub fn unfinished(&self, closing: Closing) -> Vec<Step> {
        let interrupted = |story: &StoryId, progress: &Progress| Step::Judge {
            story: story.clone(),
            attempt: progress.attempts,
            exit: Exit::Interrupted,
            signal: Signal::Nothing,
            trouble: None,
            words: String::new(),
        };
        let step = |story: &StoryId| {
            let progress = self.stories.get(story)?;
            match (&progress.stage, closing) {
                (Stage::Working, _) | (Stage::Ended { .. }, Closing::Abort) => Some(interrupted(story, progress)),
                // In an abort, no gates are run for it. Its work stays saved.
                (Stage::Queued(_), Closing::Abort) => Some(Step::RollBack { story: story.clone(), attempt: progress.attempts }),
                (Stage::Idle | Stage::Ended { .. } | Stage::Accepted | Stage::Queued(_) | Stage::Rejected | Stage::Landed(_), _) => {
                    self.step(story, progress)
                }
            }
        };
        let landing = self.landing().filter(|_| closing == Closing::Finish);
        self.busy.iter().filter_map(step).chain(landing).collect()
    }

    /// Whether attempts work in private clones.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        self.opening.as_ref().is_some_and(|opening| opening.workspaces.is_some())
    }

    /// The next step for an attempt that has begun, apart from landing from the queue.
    fn step(&self, story: &StoryId, progress: &Progress) -> Option<Step> {
        match progress.step(story)? {
            Step::Land { story, attempt } if self.is_isolated() => Some(Step::Queue { story, attempt }),
            step => Some(step),
        }
    }

    /// Decides what may come next, given the current stories from the source. Stories that are done may be left out.
    pub fn next(&self, stories: &[Story], policy: &Policy) -> Next {
        let mut steps: Vec<Step> = self.busy.iter().filter_map(|story| self.step(story, self.stories.get(story)?)).collect();
        let given_up = self.give_ups(stories, policy);
        if !given_up.is_empty() {
            steps.extend(given_up);
            return Next::Steps(steps);
        }
        let at_work = self.at_work().count();
        // After an urgent stop request, queued attempts stay queued. The next process lands them.
        let hurried = self.stopping.is_some_and(|how| how != StopKind::AfterAttempt);
        let waiting = !hurried && self.busy.len() > at_work;
        let landing = if hurried { None } else { self.landing() };
        let is_soon = landing.as_ref().is_some_and(|landing| self.needs_no_gate(landing));
        steps.extend(landing);
        if at_work > 0 && at_work >= policy.jobs {
            // All jobs are taken, so no new attempt could start anyway.
            return Next::Steps(steps);
        }
        match self.over(stories, policy) {
            Some(_) if at_work > 0 || waiting => Next::Steps(steps),
            Some(End::RetriesSpent { story }) if !self.is_given_up(&story) => Next::Steps(vec![Step::GiveUp { story }]),
            Some(end) => Next::End(end),
            None => {
                match self.pause_step(policy) {
                    Some(pause) if at_work == 0 && !waiting => steps.push(pause),
                    // The runner has not lost the other agents, so they go on.
                    Some(pause @ Step::Pause { why: Why::Runner, .. }) if pause.story().is_some_and(|story| !self.is_under_way(story)) => {
                        steps.push(pause);
                    }
                    Some(_) => {}
                    // The next attempt should start from the checkpoint that is about to land.
                    None if is_soon => {}
                    None => steps.extend(self.startable(stories, policy)),
                }
                Next::Steps(steps)
            }
        }
    }

    /// Reports the stories without retries, once each, if the loop goes on without them.
    fn give_ups(&self, stories: &[Story], policy: &Policy) -> Vec<Step> {
        if !policy.keep_going || self.failing.is_empty() || self.stopping.is_some() {
            return Vec::new();
        }
        let is_new = |story: &&Story| self.is_spent(story, policy) && !self.is_given_up(&story.id) && !self.is_under_way(&story.id);
        self.selected(stories, policy).filter(is_new).map(|story| Step::GiveUp { story: story.id.clone() }).collect()
    }

    /// The stories that are left out: those that the user skipped, and those that depend on one of them.
    #[must_use]
    pub fn left_out<'a>(&'a self, stories: &'a [Story]) -> HashSet<&'a StoryId> {
        self.with_what_follows(self.skipped.iter().filter(|story| !self.has_landed(story)).collect(), stories)
    }

    /// These stories, and all stories that depend on one of them and are not done.
    pub(super) fn with_what_follows<'a>(&self, mut out: HashSet<&'a StoryId>, stories: &'a [Story]) -> HashSet<&'a StoryId> {
        let mut before = 0;
        while out.len() > before {
            before = out.len();
            for story in stories.iter().filter(|story| !self.is_done(story)) {
                if story.after.iter().any(|after| out.contains(after)) {
                    out.insert(&story.id);
                }
            }
        }
        out
    }

    /// The user's hints for the next attempt of a story.
    pub(super) fn hints_for(&self, story: &StoryId) -> Vec<String> {
        let own = self.stories.get(story).map_or(&[][..], |progress| &progress.hints);
        self.hints.iter().chain(own).cloned().collect()
    }

    /// The stories with an attempt under way.
    pub(super) fn under_way(&self) -> impl Iterator<Item = (&StoryId, &Progress)> {
        self.busy.iter().filter_map(|story| Some((story, self.stories.get(story)?)))
    }

    /// The stories whose attempts occupy a workspace.
    pub(super) fn at_work(&self) -> impl Iterator<Item = (&StoryId, &Progress)> {
        self.under_way().filter(|(_, progress)| !progress.is_queued())
    }

    /// The attempts that may start now, each with its own workspace.
    fn startable(&self, stories: &[Story], policy: &Policy) -> Vec<Step> {
        let taken: BTreeSet<u32> = self.at_work().map(|(_, progress)| progress.slot).collect();
        let is_ready = |slot: &u32| !self.is_isolated() || self.workspaces.contains(slot);
        // Workspaces that are ready come first, because making one takes time.
        let (ready, unready): (Vec<u32>, Vec<u32>) = (0..).filter(|slot| !taken.contains(slot)).take(policy.jobs).partition(is_ready);
        // The longer an attempt waits in the queue, the likelier it fails to land. So no more attempts wait than work. With one job, each
        // attempt starts from the result of the one before.
        let most = if policy.jobs == 1 { 1 } else { policy.jobs.saturating_mul(2) };
        let mut room = policy.jobs.saturating_sub(taken.len()).min(most.saturating_sub(self.busy.len()));
        if let Some(limit) = policy.limit {
            // Only as many attempts as may still land.
            let coming = self.landed_here.saturating_add(u32::try_from(self.busy.len()).unwrap_or(u32::MAX));
            room = room.min(usize::try_from(limit.saturating_sub(coming)).unwrap_or(usize::MAX));
        }
        // Stories with an attempt under way or in the queue that say which files they touch.
        let under_way: Vec<&Story> = stories.iter().filter(|story| !story.touches.is_empty() && self.is_under_way(&story.id)).collect();
        let is_kept_out = |story: &Story| under_way.iter().any(|other| overlap(other, story));
        let overdue: HashMap<&StoryId, usize> = self.overdue.iter().enumerate().map(|(place, story)| (story, place)).collect();
        let mut first: Vec<&Story> = Vec::new();
        // The stories that failed to land too often start together. While one of them is under way, nothing else lands. So a story must not
        // join them later, or the queue might never move.
        if !overdue.is_empty() && self.privileged().is_none() {
            let mut waiting = self.ready(stories, policy).filter(|story| overdue.contains_key(&story.id)).peekable();
            if self.busy.len() > taken.len() && waiting.peek().is_some() {
                // Queued attempts land first, so that no other attempt lands between the start of these stories and their own landing.
                return Vec::new();
            }
            first.extend(waiting);
            first.sort_by_key(|story| overdue.get(&story.id));
        }
        if first.first().is_some_and(|first| is_kept_out(first)) {
            return Vec::new();
        }
        let others = self.ready(stories, policy).filter(|story| !overdue.contains_key(&story.id));
        let mut chosen: Vec<&Story> = Vec::new();
        for story in first.into_iter().chain(others) {
            if chosen.len() >= room {
                break;
            }
            if !chosen.iter().any(|other| overlap(other, story)) && !is_kept_out(story) {
                chosen.push(story);
            }
        }
        let attempt = |(story, slot): (&Story, u32)| if is_ready(&slot) { self.attempt(story, slot) } else { Step::MakeWorkspace { slot } };
        chosen.into_iter().zip(ready.into_iter().chain(unready)).map(attempt).collect()
    }

    fn is_under_way(&self, story: &StoryId) -> bool {
        self.busy.contains(story)
    }

    /// The story that lands before any other. Nothing else lands between the start of its attempt and its landing.
    pub(super) fn privileged(&self) -> Option<&StoryId> {
        self.overdue.iter().find(|story| self.busy.contains(*story))
    }

    /// Whether the last loop has given up the story.
    #[must_use]
    pub fn is_given_up(&self, story: &StoryId) -> bool {
        self.stories.get(story).is_some_and(|progress| progress.given_up)
    }

    /// The reason why no new attempt may start, if there is one.
    fn over(&self, stories: &[Story], policy: &Policy) -> Option<End> {
        match self.stopping {
            None => {}
            Some(StopKind::AfterAttempt | StopKind::Now) => return Some(self.nothing_left(stories, policy).unwrap_or(End::Stopped)),
            Some(how) => return Some(End::Interrupted { how }),
        }
        let is_suspect = |story: &StoryId| self.stories.get(story).is_some_and(|progress| progress.failures > policy.max_retries);
        // All stories are searched only if some story has no retries left.
        if !policy.keep_going
            && self.failing.iter().any(is_suspect)
            && let Some(spent) = self.selected(stories, policy).find(|story| self.is_spent(story, policy))
        {
            return Some(End::RetriesSpent { story: spent.id.clone() });
        }
        if let Some(end) = self.nothing_left(stories, policy) {
            return Some(end);
        }
        if policy.limit.is_some_and(|limit| self.landed_here >= limit) {
            return Some(End::LimitReached);
        }
        if let Some(message) = &self.misconfigured {
            return Some(End::Misconfigured { message: message.clone() });
        }
        if let Some(spent) = self.spent_budget(policy) {
            return Some(End::BudgetSpent { spent });
        }
        if let Some(end) = self.unwaited_limit(policy).or_else(|| self.failed_runner(policy)) {
            return Some(end);
        }
        let anything = self.is_busy() || self.ready(stories, policy).next().is_some();
        if anything { None } else { self.stuck(stories, policy) }
    }

    /// Whether every story of a selection is done or left out. `false` for an empty selection.
    #[must_use]
    pub fn is_selection_done(&self, only: &[String], stories: &[Story]) -> bool {
        let left_out = self.left_out(stories);
        let is_settled = |story: &Story| self.is_done(story) || left_out.contains(&story.id);
        let is_open = |id: &String| stories.iter().any(|story| story.id.as_str() == id && !is_settled(story));
        !only.is_empty() && !only.iter().any(is_open)
    }

    /// The end of the loop if it has nothing left to do.
    fn nothing_left(&self, stories: &[Story], policy: &Policy) -> Option<End> {
        if self.selected(stories, policy).any(|story| !self.is_done(story)) {
            return None;
        }
        let left_out = self.left_out(stories);
        let is_settled = |story: &Story| self.is_done(story) || left_out.contains(&story.id);
        Some(if stories.iter().all(is_settled) { End::AllDone } else { End::SelectionDone })
    }

    /// The end of the loop if stories are left but none of them can start.
    fn stuck(&self, stories: &[Story], policy: &Policy) -> Option<End> {
        let needs =
            |story: &Story| self.needs(&story.id).filter(|_| !self.is_done(story)).map(|needs| (story.id.clone(), needs.to_owned()));
        if let Some((story, needs)) = self.selected(stories, policy).find_map(needs) {
            return Some(End::NeedsUser { story, needs });
        }
        if let Some(spent) = self.selected(stories, policy).find(|story| self.is_spent(story, policy)) {
            return Some(End::RetriesSpent { story: spent.id.clone() });
        }
        let first = self.selected(stories, policy).find(|story| !self.is_done(story))?;
        Some(End::Blocked { story: first.id.clone() })
    }

    /// What a story needs from the user before it can go on.
    #[must_use]
    pub fn needs(&self, story: &StoryId) -> Option<&str> {
        self.stories.get(story)?.blocked.as_deref()
    }

    /// The end of the loop if a usage limit is not waited for, or not any more.
    fn unwaited_limit(&self, policy: &Policy) -> Option<End> {
        let Some(Pause::Due { why: Why::Limit, until: resets, .. }) = self.pause else { return None };
        let LimitWaits { announced, guessed } = policy.limit_waits;
        let waits = self.limits.saturating_sub(1);
        match policy.limit_wait {
            LimitWait::Stop => Some(End::UsageLimit { resets }),
            LimitWait::Wait if waits >= if resets.is_some() { announced } else { guessed } => Some(End::StillLimited { waits, resets }),
            LimitWait::Wait => None,
        }
    }

    /// The end of the loop if the runner failed too often in a row.
    fn failed_runner(&self, policy: &Policy) -> Option<End> {
        let Some(Pause::Due { why: Why::Runner, story, .. }) = &self.pause else { return None };
        let RunnerFailures { not_started, lost } = policy.runner_failures;
        let (most, message) = match self.stories.get(story)?.outcome.as_ref()? {
            Outcome::NotStarted { message } => (not_started, message),
            Outcome::Lost { message } => (lost, message),
            _ => return None,
        };
        let times = self.runner_failures;
        (times >= most).then(|| End::RunnerFailed { times, message: message.clone() })
    }

    fn spent_budget(&self, policy: &Policy) -> Option<Budget> {
        if policy.max_cost.is_none() && policy.max_tokens.is_none() {
            return None;
        }
        Budget::spent(&self.usage().plus(&policy.in_flight), policy.max_cost, policy.max_tokens)
    }

    /// The pause before the next attempt, if there is one.
    fn pause_step(&self, policy: &Policy) -> Option<Step> {
        // Usage limits apply to one agent, and another agent is used now.
        if policy.agent.is_some() && self.agent.is_some() && policy.agent != self.agent {
            return None;
        }
        let (story, why, span, begun) = match self.pause.as_ref()? {
            // A user who does not want to wait has resumed the run to try again now.
            Pause::Until { why: Why::Limit, .. } if policy.limit_wait == LimitWait::Stop => return None,
            Pause::Until { story, why, until } => (story, *why, Span::Until(*until), true),
            Pause::Due { story, why, until: Some(until) } => {
                (story, *why, Span::AtLeast(*until, doubled(SHORTEST_LIMIT, self.limits, LONGEST_GUESS)), false)
            }
            Pause::Due { story, why: Why::Limit, until: None } => {
                (story, Why::Limit, Span::For(doubled(policy.limit_pause, self.limits, LONGEST_GUESS)), false)
            }
            Pause::Due { story, why: Why::Runner, until: None } => {
                (story, Why::Runner, Span::For(doubled(SHORT_PAUSE, self.runner_failures, LONGEST_PAUSE)), false)
            }
            Pause::Due { story, why: Why::Unavailable, until: None } => {
                let failures = self.stories.get(story).map_or(1, |progress| progress.failures);
                (story, Why::Unavailable, Span::For(doubled(SHORT_PAUSE, failures, LONGEST_PAUSE)), false)
            }
        };
        Some(Step::Pause { story: story.clone(), why, span, begun })
    }

    fn selected<'a>(&'a self, stories: &'a [Story], policy: &'a Policy) -> impl Iterator<Item = &'a Story> {
        let left_out = self.left_out(stories);
        let is_wanted = move |story: &&Story| policy.only.is_empty() || policy.only.contains(&story.id);
        stories.iter().filter(is_wanted).filter(move |story| !left_out.contains(&story.id))
    }

    fn is_spent(&self, story: &Story, policy: &Policy) -> bool {
        !self.is_done(story) && self.stories.get(&story.id).is_some_and(|progress| progress.failures > policy.max_retries)
    }

    fn ready<'a>(&'a self, stories: &'a [Story], policy: &'a Policy) -> impl Iterator<Item = &'a Story> {
        // In a list, each story depends on the one before it.
        let most = if policy.order == Order::List { 1 } else { usize::MAX };
        let idle = |story: &&Story| self.stories.get(&story.id).is_none_or(|progress| progress.stage == Stage::Idle);
        let there = OnceCell::new();
        // The caller may leave out stories that are done, so a missing story counts as done.
        let is_there = move |id: &StoryId| there.get_or_init(|| stories.iter().map(|story| &story.id).collect::<HashSet<_>>()).contains(id);
        let is_open = move |after: &StoryId| !self.believed.contains(after) && !self.has_landed(after) && is_there(after);
        let unblocked = move |story: &&Story| !story.after.iter().any(&is_open);
        let waits = |story: &&Story| self.needs(&story.id).is_some() || self.is_spent(story, policy);
        let open = self.selected(stories, policy).filter(|story| !self.is_done(story)).take(most);
        open.filter(idle).filter(move |story| !waits(story)).filter(unblocked)
    }

    fn attempt(&self, story: &Story, slot: u32) -> Step {
        let progress = self.stories.get(&story.id);
        Step::Attempt {
            story: story.id.clone(),
            attempt: progress.map_or(0, |progress| progress.attempts).saturating_add(1),
            feedback: progress.and_then(|progress| progress.feedback.clone()),
            slot,
        }
    }
}

/// A story that failed to land this often from the queue lands before any other.
const DEFEATS: u32 = 2;
/// A batch limit that has grown to this size is dropped.
const MOST_DOUBLED: usize = 64;

/// The wait before the first retry when a model could not be reached. The client itself has waited before that.
const SHORT_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
/// The shortest wait for a usage limit, whatever its reset time is.
const SHORTEST_LIMIT: Duration = Duration::from_secs(4);
/// The longest wait of unknown length, unless the settings ask for more.
const LONGEST_GUESS: Duration = Duration::from_secs(60 * 60);

/// The duration, doubled with every further time, up to the longest.
fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times.saturating_sub(1))).min(longest.max(first))
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
    fn end_attempt(&mut self) {
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
    fn take_back(&mut self) {
        if matches!(self.stage, Stage::Working | Stage::Ended { .. }) {
            self.by_hand = None;
        }
        self.taken_back = match self.stage {
            Stage::Working | Stage::Ended { .. } => true,
            Stage::Accepted | Stage::Queued(_) => self.base.is_some(),
            Stage::Idle | Stage::Rejected | Stage::Landed(_) => false,
        };
    }

    fn take_hint(&mut self, now: bool) {
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

    fn reject(&mut self, outcome: &Outcome) {
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
    fn step(&self, story: &StoryId) -> Option<Step> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_their_limits_are_no_reason_to_panic() {
        let story: StoryId = "a".parse().unwrap();
        let ended = Event::AgentEnded {
            story: story.clone(),
            attempt: u32::MAX,
            exit: Exit::Success,
            signal: Signal::Nothing,
            trouble: None,
            usage: Usage { input: u64::MAX, ..Usage::default() },
            milliseconds: u64::MAX,
            waited_milliseconds: 0,
            survivors: Vec::new(),
            words: String::new(),
            tools: BTreeMap::new(),
        };
        let started = Event::AttemptStarted {
            story: story.clone(),
            attempt: u32::MAX,
            title: String::new(),
            agent: String::new(),
            gates: None,
            base: None,
            slot: 0,
        };
        let rolled_back = Event::AttemptRolledBack { story: story.clone(), attempt: u32::MAX, rescue: String::new(), files: 0 };
        let mut state = RunState::default();
        for event in [&started, &ended, &ended, &rolled_back] {
            state.apply(event);
        }
        let policy = Policy { max_retries: 0, ..Policy::default() };
        let attempt = Step::Attempt { story: story.clone(), attempt: u32::MAX, feedback: None, slot: 0 };
        assert_eq!(state.next(&[Story::stand_in(&story)], &policy), Next::Steps(vec![attempt]));
        assert_eq!(state.stories[&story].milliseconds, u64::MAX);
    }

    #[test]
    fn closing_a_run_offers_what_is_left_of_attempts_and_starts_none() {
        let story: StoryId = "a".parse().unwrap();
        let id = || story.clone();
        let started =
            Event::AttemptStarted { story: id(), attempt: 1, title: String::new(), agent: String::new(), gates: None, base: None, slot: 0 };
        let ended = Event::AgentEnded {
            story: id(),
            attempt: 1,
            exit: Exit::Success,
            signal: Signal::Complete,
            trouble: None,
            usage: Usage::default(),
            milliseconds: 0,
            waited_milliseconds: 0,
            survivors: Vec::new(),
            words: String::new(),
            tools: BTreeMap::new(),
        };
        let judge = |exit: Exit, signal: Signal| Step::Judge { story: id(), attempt: 1, exit, signal, trouble: None, words: String::new() };
        let interrupted = judge(Exit::Interrupted, Signal::Nothing);
        let accepted = Event::AttemptAccepted { story: id(), attempt: 1 };
        let rejected = Event::AttemptRejected { story: id(), attempt: 1, outcome: Outcome::Vanished { words: String::new() } };
        let land = Step::Land { story: id(), attempt: 1 };
        let roll_back = Step::RollBack { story: id(), attempt: 1 };
        let table = [
            (vec![&started], interrupted.clone(), interrupted.clone()),
            (vec![&started, &ended], judge(Exit::Success, Signal::Complete), interrupted),
            (vec![&started, &ended, &accepted], land.clone(), land),
            (vec![&started, &ended, &rejected], roll_back.clone(), roll_back),
        ];
        for (events, finish, abort) in table {
            let mut state = RunState { phase: Phase::Open, ..RunState::default() };
            assert_eq!(state.half_done(), None);
            events.iter().for_each(|event| state.apply(event));
            assert_eq!(state.half_done(), Some(HalfDone::Attempts));
            assert_eq!(state.unfinished(Closing::Finish), [finish]);
            assert_eq!(state.unfinished(Closing::Abort), [abort]);
        }
        let starting = RunState::default();
        assert_eq!((starting.half_done(), starting.unfinished(Closing::Finish)), (Some(HalfDone::Start), Vec::new()));
    }
}
