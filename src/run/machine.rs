//! The machine: what has happened decides what may happen next. Pure, no I/O, not async.

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

/// Where a run as a whole stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its beginning is written down; what of it has happened is not known.
    Starting,
    /// Work can go on.
    Open,
    /// A finish was begun.
    Finishing(Finish),
    /// An abort was begun.
    Aborting,
    /// Over, with the given completion.
    Finished(Finish),
    /// Given up.
    Aborted,
}

/// Where a story's current attempt stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No attempt is under way.
    Idle,
    /// The agent is at work.
    Working,
    /// The agent has ended: to be judged.
    Ended {
        /// What it did.
        exit: Exit,
        /// What it said.
        signal: Signal,
        /// What went wrong around it.
        trouble: Option<Trouble>,
        /// The last lines that it said, if none of them is a promise.
        words: String,
    },
    /// Complete, and all gates have passed: to be landed, or queued in an isolated run.
    Accepted,
    /// Waits in the landing queue: this commit has its work.
    Queued(Oid),
    /// Failed: to be rolled back.
    Rejected,
    /// Landed as this checkpoint.
    Landed(Oid),
}

impl Stage {
    /// An agent that ended before it could say anything.
    fn cut_short() -> Self {
        Stage::Ended { exit: Exit::Interrupted, signal: Signal::Nothing, trouble: None, words: String::new() }
    }
}

/// What is known about one story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Where its current attempt stands.
    pub stage: Stage,
    /// The gates that were configured when the current attempt started; none if it is over, or an older version began it.
    pub gates: Option<Gates>,
    /// The commit that the current attempt started from, in an isolated run.
    pub base: Option<Oid>,
    /// The number of the workspace that the current attempt works in.
    pub slot: u32,
    /// How many attempts were begun.
    pub attempts: u32,
    /// How many of them cost a retry.
    pub failures: u32,
    /// The last one's outcome.
    pub outcome: Option<Outcome>,
    /// What the next attempt is told.
    pub feedback: Option<Feedback>,
    /// The refs of what was rolled back, oldest first.
    pub rescues: Vec<String>,
    /// Why the user should look more closely at what the current attempt has done.
    pub doubts: Vec<Notice>,
    /// Milliseconds that agents have worked on it.
    pub milliseconds: u64,
    /// Milliseconds that its gates have taken.
    pub gate_milliseconds: u64,
    /// What they have used up.
    pub usage: Usage,
    /// How often the story was beaten in the landing queue.
    pub defeats: u32,
    /// Its place in the order of acceptance.
    pub(super) accepted: u64,
    /// The last attempt whose usage is in it.
    counted: u32,
    /// What the user advises.
    pub hints: Vec<String>,
    /// What the agent needs of the user, if the story waits for that.
    pub blocked: Option<String>,
    /// Set if the user said that the story is done: what is landed is the user's word, not the agent's.
    pub by_hand: Option<Note>,
    /// What the user's checkout held, if the current attempt consists of edits of the user's in it.
    checkout: Option<Oid>,
    /// Edits of the user's that take the place of the current attempt when that is rolled back.
    replacement: Option<Replacement>,
    /// Set if the user has asked for something that ends the current attempt.
    taken_back: bool,
    given_up: bool,
}

/// An attempt that consists of edits of the user's.
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

/// The rules that a run is held to; they may change between two commands.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Retries after a first attempt.
    pub max_retries: u32,
    /// Whether a story whose retries are spent leaves the others to go on.
    pub keep_going: bool,
    /// Attempts at a time.
    pub jobs: usize,
    /// In which order stories may start.
    pub order: Order,
    /// Stories to land in this command.
    pub limit: Option<u32>,
    /// The only stories to work on; empty means all.
    pub only: Vec<StoryId>,
    /// The agent that works now.
    pub agent: Option<String>,
    /// What to do when an allowance is used up.
    pub limit_wait: LimitWait,
    /// How long to wait first for one whose time is not known.
    pub limit_pause: Duration,
    /// How often to wait for one in a row, without any progress in between.
    pub limit_waits: LimitWaits,
    /// How often in a row the runner may fail.
    pub runner_failures: RunnerFailures,
    /// What the run may cost.
    pub max_cost: Option<Cost>,
    /// How many tokens it may use.
    pub max_tokens: Option<u64>,
    /// What agents that are at work have used so far, as far as they have told.
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

/// How often a usage limit is waited for in a row. A wait costs no retry, so nothing else would end a run whose agent reports a
/// limit forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitWaits {
    /// If the last one told when it resets: a client that tells it wrongly again and again is not believed for weeks.
    pub told: u32,
    /// If it did not: enough of them to wait for a quota that is renewed once per day.
    pub guessed: u32,
}

impl Default for LimitWaits {
    fn default() -> Self {
        LimitWaits { told: 10, guessed: 30 }
    }
}

/// How often in a row a runner may fail before the loop ends. That costs no retry, so nothing else would end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerFailures {
    /// If it did not start an agent the last time: often it is set up wrongly, and no attempt can help.
    pub not_started: u32,
    /// If it lost an agent that had started: jobs are cancelled and nodes fail.
    pub lost: u32,
}

impl Default for RunnerFailures {
    fn default() -> Self {
        RunnerFailures { not_started: 3, lost: 10 }
    }
}

/// What keeps the next agent from being started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pause {
    /// A wait that has to be begun.
    Due {
        /// After which story's attempt.
        story: StoryId,
        /// For what.
        why: Why,
        /// When it is over, if that was said.
        until: Option<Timestamp>,
    },
    /// A wait that is in the journal.
    Until {
        /// After which story's attempt.
        story: StoryId,
        /// For what.
        why: Why,
        /// When it is over.
        until: Timestamp,
    },
}

/// How long a wait shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Until then.
    Until(Timestamp),
    /// Until then, but at least so long: a clock may be wrong, and a limit may come back at once.
    AtLeast(Timestamp, Duration),
    /// From now on.
    For(Duration),
}

/// One thing to do for one story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make the private clone of a slot.
    MakeWorkspace {
        /// The slot.
        slot: u32,
    },
    /// Start an agent.
    Attempt {
        /// For which story.
        story: StoryId,
        /// The number of the attempt.
        attempt: u32,
        /// What the agent is told about the one before.
        feedback: Option<Feedback>,
        /// The number of the workspace that it works in.
        slot: u32,
    },
    /// Judge an agent that has ended, and run the gates if it promised.
    Judge {
        /// Which story.
        story: StoryId,
        /// Which attempt.
        attempt: u32,
        /// What the agent did.
        exit: Exit,
        /// What it said.
        signal: Signal,
        /// What went wrong around it.
        trouble: Option<Trouble>,
        /// The last lines that it said, if none of them is a promise.
        words: String,
    },
    /// Make a checkpoint.
    Land {
        /// Of which story.
        story: StoryId,
        /// Of which attempt.
        attempt: u32,
    },
    /// Save the work of an accepted attempt for the landing queue.
    Queue {
        /// Of which story.
        story: StoryId,
        /// Of which attempt.
        attempt: u32,
    },
    /// Land queued attempts, in this order.
    LandQueued {
        /// Their stories and numbers; at least one.
        batch: Vec<(StoryId, u32)>,
    },
    /// Take a queued attempt out of the landing queue.
    TakeOut {
        /// Of which story.
        story: StoryId,
        /// Which attempt.
        attempt: u32,
    },
    /// Take the work tree back.
    RollBack {
        /// From which story's
        story: StoryId,
        /// attempt.
        attempt: u32,
    },
    /// Wait before the next agent is started.
    Pause {
        /// After which story's attempt.
        story: StoryId,
        /// For what.
        why: Why,
        /// How long.
        span: Span,
        /// Whether the journal knows of it already.
        begun: bool,
    },
    /// Say that a story has failed for good.
    GiveUp {
        /// Which one.
        story: StoryId,
    },
}

/// What a step is about: there is at most one step at a time for each.
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
    /// What it is about.
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

    /// The story it is for; none for the landing queue and for workspaces.
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
    /// When it is over.
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

/// What a process that takes a run up finds half done, in the order in which it has to be completed.
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
    /// Attempts: at work, to be judged, to be landed or to be rolled back.
    Attempts,
}

impl HalfDone {
    /// The start of a sentence about it.
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

/// In which way a run is about to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Finished: what is done shall be part of it.
    Finish,
    /// Given up.
    Abort,
}

/// What may happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Every step that could start now; none if all that is left is to wait for what is under way.
    Steps(Vec<Step>),
    /// The loop is over.
    End(End),
}

/// The state of a run: a fold of its events.
#[derive(Clone, Debug, PartialEq)]
pub struct RunState {
    /// What was written down before the run touched anything.
    pub opening: Option<Opening>,
    /// Where it stands as a whole.
    pub phase: Phase,
    /// The commit "initial state".
    pub initial: Option<Oid>,
    /// What attempts start from.
    pub base: Option<Base>,
    /// Every story that an event has named.
    pub stories: BTreeMap<StoryId, Progress>,
    /// Why the loop ended last.
    pub end: Option<End>,
    /// The ref that keeps what a finished run ended with.
    pub kept: Option<String>,
    /// The checkpoints on the branch.
    pub checkpoints: Checkpoints,
    /// An undo that was begun: where to, and the stories that it takes back.
    pub undoing: Option<(Oid, Vec<StoryId>)>,
    /// What keeps the next agent from being started.
    pub pause: Option<Pause>,
    /// What the source of the stories is.
    pub source_kind: Option<Kind>,
    /// Stories that are done by the word of the user.
    pub believed: BTreeSet<StoryId>,
    /// Stories that the user left out.
    pub skipped: BTreeSet<StoryId>,
    /// What the user's checkout held when a story was done by hand that has landed, in the order of landing; of an isolated run.
    checkouts: Vec<(StoryId, Oid)>,
    /// What the user advises for every story.
    pub hints: Vec<String>,
    /// The requests of the user that were taken in: none is taken in twice.
    pub(super) requests: HashSet<String>,
    /// The stories with an attempt that is under way: few, however many stories there are.
    busy: BTreeSet<StoryId>,
    /// The stories with a checkpoint on the branch.
    landed: HashSet<StoryId>,
    /// The stories that an attempt has failed for.
    failing: HashSet<StoryId>,
    misconfigured: Option<String>,
    /// The agent that was started last.
    agent: Option<String>,
    /// How many limits there were in a row; those of several agents at a time are one.
    limits: u32,
    /// How often in a row the runner failed; several agents that it loses at a time are one failure.
    runner_failures: u32,
    stopping: Option<StopKind>,
    landed_here: u32,
    /// The slots whose private clone this process has made ready.
    workspaces: BTreeSet<u32>,
    /// The stories that were beaten too often in the landing queue, in the order in which they were.
    overdue: Vec<StoryId>,
    /// How many attempts were accepted.
    acceptances: u64,
    /// The most attempts that are landed together, after a batch whose gates failed.
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
    /// Whether the run is over.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Finished(_) | Phase::Aborted)
    }

    /// Whether a checkpoint of the story is on the branch.
    #[must_use]
    pub fn has_landed(&self, story: &StoryId) -> bool {
        self.landed.contains(story)
    }

    /// Whether the story needs no more work: landed, or done by the word of the user in its source. What the source says later is
    /// not asked: agents write to it.
    #[must_use]
    pub fn is_done(&self, story: &Story) -> bool {
        self.believed.contains(&story.id) || self.has_landed(&story.id)
    }

    /// How many stories can be done at most, whether or not their source still has them.
    pub(super) fn landed_or_believed(&self) -> usize {
        self.landed.len() + self.believed.len()
    }

    /// Takes a fact in.
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

    /// Takes in what the user asked for; the same request a second time changes nothing.
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
            // What ended the loop may not hold any more.
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

    /// In place, the attempt that is under way lands by the word of the user, and an idle story gets one that consists of the user's
    /// edits. In an isolated run the user's edits take the place of the attempt that is under way.
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
        // The user may have asked for the opposite before.
        progress.taken_back = false;
        if progress.stage == Stage::Idle {
            (progress.attempts, progress.accepted, progress.slot, progress.base) = (attempt, accepted, 0, None);
            progress.doubts.clear();
            progress.stage = Stage::Accepted;
        }
    }

    /// What the user's edits in the checkout of an isolated run go on from: what it held when a story was last done by hand.
    #[must_use]
    pub fn last_checkout(&self) -> Option<&Oid> {
        self.checkouts.last().map(|(_, checkout)| checkout).or(self.initial.as_ref())
    }

    /// Takes note of what speaks against taking an attempt at its word. A step that is repeated says it again.
    fn doubt(&mut self, notice: &Notice) {
        let Some(progress) = notice.doubted().and_then(|story| self.stories.get_mut(story)) else { return };
        if !progress.doubts.contains(notice) {
            progress.doubts.push(notice.clone());
        }
    }

    /// Notes which of the few lists a story is on now.
    fn file(&mut self, story: &StoryId) {
        let Some(progress) = self.stories.get(story) else { return };
        let (busy, landed, failing) = (progress.is_busy(), matches!(progress.stage, Stage::Landed(_)), progress.failures > 0);
        let _ = if busy { self.busy.insert(story.clone()) } else { self.busy.remove(story) };
        for (on, list) in [(landed, &mut self.landed), (failing, &mut self.failing)] {
            let _ = if on { list.insert(story.clone()) } else { list.remove(story) };
        }
    }

    /// Gives the story that the event is about.
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

    /// A new process has the run: an agent that was at work then is nobody's now.
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
                // It stays busy, and costs no retry: no list changes.
                progress.reject(&Outcome::Interrupted);
            }
        }
    }

    fn adopt(&mut self, checkpoint: &Oid, base: &Oid) {
        self.checkpoints.adopt(checkpoint, self.base.as_ref().map(|base| &base.checkpoint));
        self.stand_on(checkpoint, base);
    }

    /// The stories are open again, as if for the first time; their attempts are counted on, so that numbers stay unique.
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

    /// What an outcome means for all agents, not only for its story's.
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

    /// Whether what an attempt has used up is counted already.
    #[must_use]
    pub fn has_usage_of(&self, story: &StoryId, attempt: u32) -> bool {
        self.stories.get(story).is_some_and(|progress| progress.counted >= attempt)
    }

    /// What all agents of the run have used up.
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

    /// Whether an attempt is under way or half-way through its landing or rolling back.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// The attempt that is still to be judged, if there is one: its agent is at work, or has ended.
    #[must_use]
    pub fn unjudged(&self) -> Option<(StoryId, u32)> {
        let unjudged = |progress: &&Progress| matches!(progress.stage, Stage::Working | Stage::Ended { .. });
        self.busy.iter().find_map(|story| Some((story.clone(), self.stories.get(story).filter(unjudged)?.attempts)))
    }

    /// What was begun and is not complete, first things first.
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

    /// What is left to do for attempts that were begun, before the run is closed; none is started. No process watches an agent that was
    /// at work, so it counts as interrupted. On an abort an agent that had ended counts as interrupted, too: no gate is run for it.
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
                // No gate is run for it on an abort: its work stays saved.
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

    /// What is left to do for an attempt that has been begun, apart from the landing queue.
    fn step(&self, story: &StoryId, progress: &Progress) -> Option<Step> {
        match progress.step(story)? {
            Step::Land { story, attempt } if self.is_isolated() => Some(Step::Queue { story, attempt }),
            step => Some(step),
        }
    }

    /// Decides what may happen next, given the stories as their source has them now. Those that are done may be left out.
    pub fn next(&self, stories: &[Story], policy: &Policy) -> Next {
        let mut steps: Vec<Step> = self.busy.iter().filter_map(|story| self.step(story, self.stories.get(story)?)).collect();
        let given_up = self.give_ups(stories, policy);
        if !given_up.is_empty() {
            steps.extend(given_up);
            return Next::Steps(steps);
        }
        let at_work = self.at_work().count();
        // After an urgent request to stop, queued attempts stay queued: the next process lands them.
        let hurried = self.stopping.is_some_and(|how| how != StopKind::AfterAttempt);
        let waiting = !hurried && self.busy.len() > at_work;
        let landing = if hurried { None } else { self.landing() };
        let is_soon = landing.as_ref().is_some_and(|landing| self.needs_no_gate(landing));
        steps.extend(landing);
        if at_work > 0 && at_work >= policy.jobs {
            // Whether more could start need not be known.
            return Next::Steps(steps);
        }
        match self.over(stories, policy) {
            Some(_) if at_work > 0 || waiting => Next::Steps(steps),
            Some(End::RetriesSpent { story }) if !self.is_given_up(&story) => Next::Steps(vec![Step::GiveUp { story }]),
            Some(end) => Next::End(end),
            None => {
                match self.pause_step(policy) {
                    Some(pause) if at_work == 0 && !waiting => steps.push(pause),
                    // The others work on: the runner has not lost them.
                    Some(pause @ Step::Pause { why: Why::Runner, .. }) if pause.story().is_some_and(|story| !self.is_under_way(story)) => {
                        steps.push(pause);
                    }
                    Some(_) => {}
                    // The next attempt shall begin from what lands in a moment.
                    None if is_soon => {}
                    None => steps.extend(self.startable(stories, policy)),
                }
                Next::Steps(steps)
            }
        }
    }

    /// Stories whose retries are spent, in a run that goes on without them: each is reported once.
    fn give_ups(&self, stories: &[Story], policy: &Policy) -> Vec<Step> {
        if !policy.keep_going || self.failing.is_empty() || self.stopping.is_some() {
            return Vec::new();
        }
        let is_new = |story: &&Story| self.is_spent(story, policy) && !self.is_given_up(&story.id) && !self.is_under_way(&story.id);
        self.selected(stories, policy).filter(is_new).map(|story| Step::GiveUp { story: story.id.clone() }).collect()
    }

    /// The stories that are left out: those that the user skipped, and those that come after one of them.
    #[must_use]
    pub fn left_out<'a>(&'a self, stories: &'a [Story]) -> HashSet<&'a StoryId> {
        self.with_what_follows(self.skipped.iter().filter(|story| !self.has_landed(story)).collect(), stories)
    }

    /// These stories, and those that come after one of them and are not done.
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

    /// What the next attempt of a story is advised by the user.
    pub(super) fn hints_for(&self, story: &StoryId) -> Vec<String> {
        let own = self.stories.get(story).map_or(&[][..], |progress| &progress.hints);
        self.hints.iter().chain(own).cloned().collect()
    }

    /// The stories with an attempt that is under way.
    pub(super) fn under_way(&self) -> impl Iterator<Item = (&StoryId, &Progress)> {
        self.busy.iter().filter_map(|story| Some((story, self.stories.get(story)?)))
    }

    /// The stories whose attempts occupy a workspace.
    pub(super) fn at_work(&self) -> impl Iterator<Item = (&StoryId, &Progress)> {
        self.under_way().filter(|(_, progress)| !progress.is_queued())
    }

    /// The attempts that may start now, each with a workspace of its own.
    fn startable(&self, stories: &[Story], policy: &Policy) -> Vec<Step> {
        let taken: BTreeSet<u32> = self.at_work().map(|(_, progress)| progress.slot).collect();
        let is_ready = |slot: &u32| !self.is_isolated() || self.workspaces.contains(slot);
        // Those that are ready come first: the others take time.
        let (ready, unready): (Vec<u32>, Vec<u32>) = (0..).filter(|slot| !taken.contains(slot)).take(policy.jobs).partition(is_ready);
        // What waits long to be landed is beaten often: no more wait than work. One at a time means that each begins from the one before.
        let most = if policy.jobs == 1 { 1 } else { policy.jobs.saturating_mul(2) };
        let mut room = policy.jobs.saturating_sub(taken.len()).min(most.saturating_sub(self.busy.len()));
        if let Some(limit) = policy.limit {
            // As many as may still land, and no more.
            let coming = self.landed_here.saturating_add(u32::try_from(self.busy.len()).unwrap_or(u32::MAX));
            room = room.min(usize::try_from(limit.saturating_sub(coming)).unwrap_or(usize::MAX));
        }
        // Attempts that are under way, or wait to be landed, and may touch the same files.
        let under_way: Vec<&Story> = stories.iter().filter(|story| !story.touches.is_empty() && self.is_under_way(&story.id)).collect();
        let is_kept_out = |story: &Story| under_way.iter().any(|other| overlap(other, story));
        let overdue: HashMap<&StoryId, usize> = self.overdue.iter().enumerate().map(|(place, story)| (story, place)).collect();
        let mut first: Vec<&Story> = Vec::new();
        // Those that were beaten too often start together. As long as one of them is under way nothing else lands, so another one that
        // joined them would keep the queue from ever moving.
        if !overdue.is_empty() && self.privileged().is_none() {
            let mut waiting = self.ready(stories, policy).filter(|story| overdue.contains_key(&story.id)).peekable();
            if self.busy.len() > taken.len() && waiting.peek().is_some() {
                // Attempts that wait in the queue land first, so that nothing lands behind their back.
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

    /// The story that lands before any other: nothing else lands between the start of its attempt and its own landing.
    pub(super) fn privileged(&self) -> Option<&StoryId> {
        self.overdue.iter().find(|story| self.busy.contains(*story))
    }

    /// Whether the last loop has given the story up.
    #[must_use]
    pub fn is_given_up(&self, story: &StoryId) -> bool {
        self.stories.get(story).is_some_and(|progress| progress.given_up)
    }

    /// Why no new attempt may start, if none may.
    fn over(&self, stories: &[Story], policy: &Policy) -> Option<End> {
        match self.stopping {
            None => {}
            Some(StopKind::AfterAttempt | StopKind::Now) => return Some(self.nothing_left(stories, policy).unwrap_or(End::Stopped)),
            Some(how) => return Some(End::Interrupted { how }),
        }
        let is_suspect = |story: &StoryId| self.stories.get(story).is_some_and(|progress| progress.failures > policy.max_retries);
        // Only where there is one, all stories are looked at for the first of them.
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

    /// Whether every story of a selection is done or left out; no selection is never done.
    #[must_use]
    pub fn is_selection_done(&self, only: &[String], stories: &[Story]) -> bool {
        let left_out = self.left_out(stories);
        let is_settled = |story: &Story| self.is_done(story) || left_out.contains(&story.id);
        let is_open = |id: &String| stories.iter().any(|story| story.id.as_str() == id && !is_settled(story));
        !only.is_empty() && !only.iter().any(is_open)
    }

    /// The end of a loop that has done all that it was asked for.
    fn nothing_left(&self, stories: &[Story], policy: &Policy) -> Option<End> {
        if self.selected(stories, policy).any(|story| !self.is_done(story)) {
            return None;
        }
        let left_out = self.left_out(stories);
        let is_settled = |story: &Story| self.is_done(story) || left_out.contains(&story.id);
        Some(if stories.iter().all(is_settled) { End::AllDone } else { End::SelectionDone })
    }

    /// The end of a loop that has stories left and can start none of them.
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

    /// What a story needs of the user before it can go on.
    #[must_use]
    pub fn needs(&self, story: &StoryId) -> Option<&str> {
        self.stories.get(story)?.blocked.as_deref()
    }

    /// The end that a usage limit means, if it is not waited for, or no longer.
    fn unwaited_limit(&self, policy: &Policy) -> Option<End> {
        let Some(Pause::Due { why: Why::Limit, until: resets, .. }) = self.pause else { return None };
        let LimitWaits { told, guessed } = policy.limit_waits;
        let waits = self.limits.saturating_sub(1);
        match policy.limit_wait {
            LimitWait::Stop => Some(End::UsageLimit { resets }),
            LimitWait::Wait if waits >= if resets.is_some() { told } else { guessed } => Some(End::StillLimited { waits, resets }),
            LimitWait::Wait => None,
        }
    }

    /// The end that a runner means that failed too often in a row.
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

    /// The wait that comes before the next attempt.
    fn pause_step(&self, policy: &Policy) -> Option<Step> {
        // Another agent has another allowance.
        if policy.agent.is_some() && self.agent.is_some() && policy.agent != self.agent {
            return None;
        }
        let (story, why, span, begun) = match self.pause.as_ref()? {
            // Whoever does not want to wait comes back to try.
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
        // In a list each story comes after the one before it.
        let most = if policy.order == Order::List { 1 } else { usize::MAX };
        let idle = |story: &&Story| self.stories.get(&story.id).is_none_or(|progress| progress.stage == Stage::Idle);
        let there = OnceCell::new();
        // A story that is not there is done, and was left out.
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

/// A story that was beaten this often in the landing queue lands before any other.
const DEFEATS: u32 = 2;
/// A limit on the size of batches that has grown so far again is none.
const MOST_DOUBLED: usize = 64;

/// The wait before the first retry when a model could not be reached; the client has waited itself before.
const SHORT_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
/// No wait for a limit is shorter, whatever its end is said to be.
const SHORTEST_LIMIT: Duration = Duration::from_secs(4);
/// No wait of unknown length is longer, unless it was asked for.
const LONGEST_GUESS: Duration = Duration::from_secs(60 * 60);

/// Twice as long with every time, up to the longest.
fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times.saturating_sub(1))).min(longest.max(first))
}

impl Progress {
    /// Milliseconds that agents and gates have taken.
    #[must_use]
    pub fn with_gates(&self) -> u64 {
        self.milliseconds.saturating_add(self.gate_milliseconds)
    }

    /// Whether an attempt is under way or half-way through its landing or rolling back.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Landed(_))
    }

    /// The current attempt is over without a checkpoint; edits of the user's may take its place.
    fn end_attempt(&mut self) {
        (self.stage, self.gates, self.by_hand, self.checkout) = (Stage::Idle, None, None, None);
        self.taken_back = false;
        let Some(Replacement { attempt, accepted, base, edits, note }) = self.replacement.take() else { return };
        (self.attempts, self.accepted, self.slot, self.base) = (attempt, accepted, 0, base);
        (self.by_hand, self.gates, self.checkout) = (Some(note), Some(Gates::default()), Some(edits.checkout));
        self.stage = Stage::Queued(edits.commit);
        self.doubts.clear();
    }

    /// The current attempt, if there is one, is to be rolled back whatever comes of it, also if the user had said before that the story
    /// is done: the last word counts. In place, one that was accepted is landed at once.
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

    /// Whether its attempt is to be rolled back because the user asked for something.
    #[must_use]
    pub fn is_taken_back(&self) -> bool {
        self.taken_back
    }

    /// Whether edits of the user's wait to be landed for it, in an isolated run.
    pub(super) fn has_edits(&self) -> bool {
        self.checkout.is_some() || self.replacement.is_some()
    }

    fn reject(&mut self, outcome: &Outcome) {
        if self.by_hand.is_some() && !matches!(outcome, Outcome::Unlandable { .. }) {
            // The user's word was given while the agent was being judged, and counts more.
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

    /// What is left to do for an attempt that has been begun.
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
