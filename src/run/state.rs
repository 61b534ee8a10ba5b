//! The state of a run: a fold of its events. Pure, no I/O, not async.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::event::{StopKind, Why};
use super::progress::Replacement;
use super::{Checkpoints, Edits, End, Event, Gates, Opening, Outcome, Pause, Progress, Stage};
use crate::agent::Usage;
use crate::branch::Base;
use crate::config::Finish;
use crate::git::Oid;
use crate::names::Note;
use crate::story::source::Kind;
use crate::story::{Story, StoryId};
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
    pub marked_done: BTreeSet<StoryId>,
    /// Stories that the user skipped.
    pub skipped: BTreeSet<StoryId>,
    /// In an isolated run: commits of the user's checkout for stories that were done by hand and have landed, in the order of landing.
    pub(super) checkouts: Vec<(StoryId, Oid)>,
    /// The user's hints for every story.
    pub hints: Vec<String>,
    /// The ids of the user's requests that were followed, so that none is followed twice.
    pub(super) requests: HashSet<String>,
    /// The stories with an attempt under way. These are few, however many stories there are.
    pub(super) busy: BTreeSet<StoryId>,
    /// The stories with a checkpoint on the branch.
    pub(super) landed: HashSet<StoryId>,
    /// The stories with a failed attempt.
    pub(super) failing: HashSet<StoryId>,
    pub(super) misconfigured: Option<String>,
    /// The agent that was started last.
    pub(super) agent: Option<String>,
    /// How many usage limits there were in a row. Limits that several agents reach at the same time count as one.
    pub(super) limits: u32,
    /// How often in a row the runner failed. Agents that it loses at the same time count as one failure.
    pub(super) runner_failures: u32,
    pub(super) stopping: Option<StopKind>,
    pub(super) landed_here: u32,
    /// The slots whose private clone this process has prepared.
    pub(super) workspaces: BTreeSet<u32>,
    /// The stories that failed to land from the queue too often, in that order.
    pub(super) overdue: Vec<StoryId>,
    /// How many attempts were accepted.
    pub(super) acceptances: u64,
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
            marked_done: BTreeSet::new(),
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
        self.marked_done.contains(&story.id) || self.has_landed(&story.id)
    }

    /// An upper bound for the number of stories that are done. Their source may no longer contain all of them.
    pub(super) fn landed_or_marked(&self) -> usize {
        self.landed.len() + self.marked_done.len()
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
                self.marked_done.extend(done.iter().cloned());
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
                self.apply_shared_outcome(story, outcome);
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
    fn apply_shared_outcome(&mut self, story: &StoryId, outcome: &Outcome) {
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
}

/// A story that failed to land this often from the queue lands before any other.
const DEFEATS: u32 = 2;
/// A batch limit that has grown to this size is dropped.
const MOST_DOUBLED: usize = 64;
