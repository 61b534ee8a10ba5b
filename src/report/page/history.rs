//! Collects from the journal everything that the page of a run needs: attempts with their times, gates and tools, waits, sessions
//! and settings.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::git::{Comparison, Oid};
use crate::process::Exit;
use crate::report::words::{
    Clock, IDENTITY_MISSING, marks_not_set_words, notice_words, request_refused_words, source_put_back_words, source_unreadable_words,
    stray_marks_words,
};
use crate::report::{AttemptView, Chronicle};
use crate::run::{Conditions, Event, Outcome, Outline, Record, RunState, Usage, Why};
use crate::story::{Story, StoryId};

/// The history of a run, as far as its journal goes.
#[derive(Debug, Default)]
pub struct History {
    chronicle: Chronicle,
    details: BTreeMap<StoryId, Vec<Detail>>,
    /// What is known of the stories, in order.
    outlines: Vec<Outline>,
    known: BTreeMap<StoryId, usize>,
    /// The settings and agent of the last loop, without the stories.
    pub(super) conditions: Option<Conditions>,
    /// The versions of git-ralph that worked on the run, in order.
    pub(super) versions: Vec<String>,
    /// The times at which loops were working.
    pub(super) sessions: Vec<Stretch>,
    /// Waits for a usage limit or a model.
    pub(super) pauses: Vec<(Stretch, Why)>,
    /// Warnings about the run as a whole.
    pub(super) warnings: Vec<String>,
    pub(super) clock: Clock,
    is_waiting: bool,
    is_looping: bool,
    landing: Option<Timestamp>,
}

/// A period of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// When it began.
    pub from: Timestamp,
    /// When it ended.
    pub to: Timestamp,
}

impl Stretch {
    /// Its length.
    #[must_use]
    pub fn milliseconds(self) -> u64 {
        u64::try_from(self.to.duration_since(self.from).as_millis()).unwrap_or(0)
    }
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Close {
    /// The attempt is in progress, or its process was killed and it has not been settled yet.
    #[default]
    Open,
    /// It landed.
    Landed,
    /// It failed and was rolled back.
    Failed,
    /// It waits for the user.
    Blocked,
    /// The attempt was stopped by the user, a kill or a limit, which costs no retry.
    Stopped,
    /// The attempt conflicted with another story in the landing queue, or failed a gate after the merge.
    Beaten,
}

/// What a part of an attempt was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    Agent,
    Gate,
    FailedGate,
    Landing,
    Rollback,
}

/// A gate that ran for an attempt.
#[derive(Clone, Debug)]
pub(super) struct GateDetail {
    pub command: String,
    pub exit: Exit,
    pub milliseconds: u64,
    pub output: String,
    /// Whether the gate ran on the merge with the branch.
    pub on_merge: bool,
}

/// What the page needs of an attempt in addition to the [`Chronicle`].
#[derive(Clone, Debug)]
pub(super) struct Detail {
    pub slot: u32,
    pub model: Option<String>,
    pub started: Timestamp,
    /// When the attempt left its workspace; `None` before that.
    pub left: Option<Timestamp>,
    pub parts: Vec<(PartKind, Stretch)>,
    /// The landing from the queue, in an isolated run.
    pub landing: Option<Stretch>,
    pub gates: Vec<GateDetail>,
    pub tools: BTreeMap<String, u32>,
    pub usage: Usage,
    pub agent_milliseconds: Option<u64>,
    pub close: Close,
    /// The checkpoint and the commit before it.
    pub checkpoint: Option<Comparison>,
    queued: Option<Timestamp>,
    cursor: Timestamp,
}

impl Detail {
    fn new(started: Timestamp, slot: u32, model: Option<String>) -> Self {
        Detail {
            slot,
            model,
            started,
            left: None,
            parts: Vec::new(),
            landing: None,
            gates: Vec::new(),
            tools: BTreeMap::new(),
            usage: Usage::default(),
            agent_milliseconds: None,
            close: Close::Open,
            checkpoint: None,
            queued: None,
            cursor: started,
        }
    }

    /// Records that the time up to `to` was spent on `kind`.
    fn spend(&mut self, kind: PartKind, to: Timestamp) {
        let from = self.cursor.min(to);
        self.parts.push((kind, Stretch { from, to }));
        self.cursor = to;
    }

    fn gate(&mut self, gate: GateDetail, at: Timestamp) {
        // The events of all gates are written when the last gate has ended, so their times have to be added up.
        let end = self.cursor.checked_add(SignedDuration::from_millis(i64::try_from(gate.milliseconds).unwrap_or(0)));
        let kind = if gate.exit == Exit::Success { PartKind::Gate } else { PartKind::FailedGate };
        if !gate.on_merge {
            self.spend(kind, end.unwrap_or(at).min(at));
        }
        self.gates.push(gate);
    }
}

impl History {
    /// An empty history. Times are in UTC until the journal names the user's time zone.
    #[must_use]
    pub fn new() -> Self {
        let clock = Clock::ahead_of_utc(0);
        History { chronicle: Chronicle::by(clock.clone()), clock, ..History::default() }
    }

    /// The state of the run.
    #[must_use]
    pub fn state(&self) -> &RunState {
        self.chronicle.state()
    }

    pub(super) fn chronicle(&self) -> &Chronicle {
        &self.chronicle
    }

    /// The stories in order, as far as they are known.
    #[must_use]
    pub fn stories(&self) -> Vec<Story> {
        let story = |outline: &Outline| {
            let Outline { id, title, tasks, acceptance, after } = outline.clone();
            Story { title, tasks, acceptance, after, ..Story::stand_in(&id) }
        };
        self.outlines.iter().map(story).collect()
    }

    /// Adds stories that are missing from the journal, because an older version wrote it.
    pub fn add_stories(&mut self, stories: &[Story]) {
        if self.conditions.is_none() {
            stories.iter().for_each(|story| self.outline(Outline::of(story)));
        }
    }

    /// The attempts at a story, with all details.
    pub(super) fn attempts(&self, story: &StoryId) -> impl Iterator<Item = (&AttemptView, &Detail)> {
        let details = self.details.get(story).map_or(&[][..], Vec::as_slice);
        self.chronicle.attempts_of(story).iter().zip(details)
    }

    /// All attempts of agents: the story, the index among its attempts, the number, and the name of the agent.
    #[must_use]
    pub fn agents(&self) -> Vec<(StoryId, usize, u32, String)> {
        let mut all = Vec::new();
        for outline in &self.outlines {
            let attempts = self.attempts(&outline.id).enumerate().filter(|(_, (view, _))| !view.agent.is_empty());
            all.extend(attempts.map(|(index, (view, _))| (outline.id.clone(), index, view.number, view.agent.clone())));
        }
        all
    }

    /// All attempts.
    pub(super) fn all_details(&self) -> impl Iterator<Item = (&StoryId, &Detail)> {
        self.details.iter().flat_map(|(story, details)| details.iter().map(move |detail| (story, detail)))
    }

    /// The time of the last record.
    #[must_use]
    pub fn last(&self) -> Option<Timestamp> {
        self.chronicle.last()
    }

    /// Adds a record of the journal.
    pub fn take(&mut self, record: &Record) {
        let at = record.at;
        let before = self.state().base.as_ref().map(|base| base.checkpoint.clone());
        let last = self.last().unwrap_or(at);
        self.chronicle.take(record);
        self.take_event(&record.event, at, last, before);
        if let Some(session) = self.sessions.last_mut().filter(|_| self.is_looping) {
            session.to = at;
        }
        if matches!(record.event, Event::LoopEnded { .. }) {
            self.is_looping = false;
        }
        if let Some((pause, _)) = self.pauses.last_mut().filter(|_| self.is_waiting) {
            pause.to = at;
        }
        if matches!(record.event, Event::PauseEnded { .. } | Event::AttemptStarted { .. } | Event::LoopEnded { .. }) {
            self.is_waiting = false;
        }
    }

    /// Handles what an event means for the run as a whole or for one attempt. `last` is the time of the record before it, and `before` the
    /// last checkpoint before it.
    #[expect(clippy::too_many_lines, reason = "one arm per event, and nothing else")]
    fn take_event(&mut self, event: &Event, at: Timestamp, last: Timestamp, before: Option<Oid>) {
        match event {
            Event::RunStarting { opening } => {
                self.begin(at);
                self.note_version(&opening.version);
            }
            Event::RunResumed {} => {
                self.cut_short(last);
                self.begin(at);
            }
            Event::LoopStarted { conditions } => self.take_conditions(conditions),
            Event::StoriesChanged { removed, stories, .. } => {
                stories.iter().for_each(|outline| self.outline(outline.clone()));
                let is_gone = |outline: &Outline| removed.contains(&outline.id) && !self.details.contains_key(&outline.id);
                self.outlines.retain(|outline| !is_gone(outline));
                self.known = self.outlines.iter().enumerate().map(|(at, outline)| (outline.id.clone(), at)).collect();
            }
            Event::PauseStarted { why, .. } => {
                self.pauses.push((Stretch { from: at, to: at }, *why));
                self.is_waiting = true;
            }
            Event::SourceUnreadable { error } => self.warn(source_unreadable_words(error)),
            Event::StrayMarks { story, others } => self.warn(stray_marks_words(story, others)),
            Event::SourcePutBack { story, aside } => self.warn(source_put_back_words(story, aside)),
            Event::MarksNotSet { story, error } => self.warn(marks_not_set_words(story, error)),
            Event::IdentityMissing {} => self.warn(IDENTITY_MISSING.to_owned()),
            Event::Noticed { notice } if notice.doubted().is_none() => self.warn(notice_words(notice)),
            Event::RequestRefused { reason, .. } => self.warn(request_refused_words(reason)),
            Event::AttemptStarted { story, title, slot, .. } => {
                let model = self.conditions.as_ref().and_then(|conditions| conditions.model.clone());
                let detail = Detail::new(at, *slot, model);
                self.details.entry(story.clone()).or_default().push(detail);
                if !self.known.contains_key(story) {
                    let (tasks, acceptance, after) = (Vec::new(), Vec::new(), Vec::new());
                    self.outline(Outline { id: story.clone(), title: title.clone(), tasks, acceptance, after });
                }
            }
            Event::DoneByHand { story, .. } => self.add_by_hand(story, at),
            Event::AgentEnded { story, usage, milliseconds, tools, .. } => self.edit(story, |detail| {
                detail.spend(PartKind::Agent, at);
                detail.agent_milliseconds = Some(*milliseconds);
                detail.usage = usage.clone();
                detail.tools = tools.clone();
            }),
            Event::UsageFound { story, usage, .. } => self.edit(story, |detail| detail.usage = usage.clone()),
            Event::GateEnded { story, command, exit, milliseconds, output, .. } => self.edit(story, |detail| {
                let (command, exit, output, on_merge) = (command.clone(), exit.clone(), output.clone(), detail.queued.is_some());
                detail.gate(GateDetail { command, exit, milliseconds: *milliseconds, output, on_merge }, at);
            }),
            Event::AttemptQueued { story, .. } => self.edit(story, |detail| {
                detail.spend(PartKind::Landing, at);
                (detail.left, detail.queued) = (Some(at), Some(at));
            }),
            Event::CheckpointLanded { story, commit, .. } => {
                let comparison = before.map(|before| Comparison { commit: commit.clone(), before });
                self.land(story, at, Close::Landed);
                self.edit(story, |detail| detail.checkpoint = comparison);
            }
            Event::AttemptBeaten { story, .. } => self.land(story, at, Close::Beaten),
            Event::AttemptRejected { story, outcome, .. } => self.edit(story, |detail| {
                detail.cursor = detail.cursor.max(at);
                detail.close = close_of(outcome);
            }),
            Event::AttemptRolledBack { story, .. } => self.edit(story, |detail| {
                detail.spend(PartKind::Rollback, at);
                detail.left = detail.left.or(Some(at));
                if detail.close == Close::Open {
                    detail.close = Close::Stopped;
                }
            }),
            Event::Noticed { .. }
            | Event::LeftoverKept { .. }
            | Event::RunStarted { .. }
            | Event::CommitsAdopted { .. }
            | Event::EditsAdopted { .. }
            | Event::SourceRead { .. }
            | Event::WorkspaceReady { .. }
            | Event::AttemptAccepted { .. }
            | Event::BatchFailed { .. }
            | Event::UndoStarted { .. }
            | Event::Undone { .. }
            | Event::PauseEnded { .. }
            | Event::StoryFailed { .. }
            | Event::HintGiven { .. }
            | Event::StorySkipped { .. }
            | Event::StoryRetried { .. }
            | Event::ChangeEdited { .. }
            | Event::StopRequested { .. }
            | Event::LoopEnded { .. }
            | Event::FinishStarted { .. }
            | Event::Finished { .. }
            | Event::AbortStarted {}
            | Event::Aborted { .. } => {}
        }
    }

    fn begin(&mut self, at: Timestamp) {
        self.sessions.push(Stretch { from: at, to: at });
        (self.is_looping, self.is_waiting) = (true, false);
    }

    fn take_conditions(&mut self, conditions: &Conditions) {
        if self.conditions.is_none() {
            self.clock = Clock::ahead_of_utc(conditions.clock_offset);
            self.chronicle.set_clock(self.clock.clone());
        }
        self.note_version(&conditions.version);
        conditions.stories.iter().for_each(|outline| self.outline(outline.clone()));
        self.conditions = Some(Conditions { stories: Vec::new(), ..conditions.clone() });
    }

    fn note_version(&mut self, version: &str) {
        if self.versions.last().is_none_or(|last| last != version) {
            self.versions.push(version.to_owned());
        }
    }

    fn outline(&mut self, outline: Outline) {
        match self.known.get(&outline.id) {
            Some(at) => self.outlines[*at] = outline,
            None => {
                self.known.insert(outline.id.clone(), self.outlines.len());
                self.outlines.push(outline);
            }
        }
    }

    fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// After a kill: attempts in progress ended with the last record.
    fn cut_short(&mut self, last: Timestamp) {
        let working = |detail: &&mut Detail| detail.agent_milliseconds.is_none() && detail.left.is_none() && detail.close == Close::Open;
        for detail in self.details.values_mut().filter_map(|details| details.last_mut()).filter(working) {
            detail.spend(PartKind::Agent, last.max(detail.started));
            detail.close = Close::Stopped;
        }
    }

    /// Adds an attempt that consists of the user's edits, which has no start event.
    fn add_by_hand(&mut self, story: &StoryId, at: Timestamp) {
        let missing = self.chronicle.attempts_of(story).len().saturating_sub(self.details.get(story).map_or(0, Vec::len));
        if missing > 0 {
            self.details.entry(story.clone()).or_default().push(Detail::new(at, 0, None));
        }
    }

    /// Ends the landing of an attempt, in its workspace or from the queue.
    fn land(&mut self, story: &StoryId, at: Timestamp, close: Close) {
        let busy_until = self.landing;
        self.edit(story, |detail| {
            detail.close = close;
            match detail.queued {
                Some(queued) => detail.landing = Some(Stretch { from: busy_until.map_or(queued, |busy| busy.max(queued)).min(at), to: at }),
                None => {
                    detail.spend(PartKind::Landing, at);
                    detail.left = Some(at);
                }
            }
        });
        self.landing = Some(at);
    }

    fn edit(&mut self, story: &StoryId, change: impl FnOnce(&mut Detail)) {
        if let Some(detail) = self.details.get_mut(story).and_then(|details| details.last_mut()) {
            change(detail);
        }
    }
}

/// The outcome of a rejected attempt.
fn close_of(outcome: &Outcome) -> Close {
    match outcome {
        Outcome::Blocked { .. } => Close::Blocked,
        Outcome::Interrupted
        | Outcome::Limited { .. }
        | Outcome::Unavailable { .. }
        | Outcome::Lost { .. }
        | Outcome::NotStarted { .. } => Close::Stopped,
        Outcome::Failed { .. }
        | Outcome::GateFailed { .. }
        | Outcome::Vanished { .. }
        | Outcome::Abnormal { .. }
        | Outcome::Misconfigured { .. }
        | Outcome::Unlandable { .. } => Close::Failed,
    }
}
