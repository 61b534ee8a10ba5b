//! Performs one step and returns the resulting events.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;

use super::gates::Gates;
use super::marks::{only_marked, restore_source, set_marks};
use super::pool::Pool;
use super::steering_files::SteeringFiles;
use super::step::Subject;
use super::story_list::StoryList;
use super::{
    Activity, Budget, Callbacks, Event, Outcome, PageMaker, Progress, Reporter, RunDir, RunState, SourcePlace, StateBackup, Step, Verdict,
    judge,
};
use crate::agent::{Agent, Template, Usage};
use crate::branch::{Base, Branch, Gathered, Landed, Signature, Stacked, Style, Waiting};
use crate::config::{EmptyDiff, Environment, GitConfig, Setting, Settings};
use crate::cost::Cost;
use crate::names::Note;
use crate::process::{Stop, StopHandle, Urgency, stop_channel};
use crate::story::{Change, Story, StoryId};
use crate::workspace::{Notice, Workspace};

/// How often a pause checks the clock.
const TICK: Duration = Duration::from_secs(20);

/// Everything that steps need and do not change.
pub(super) struct StepRunner<'a> {
    /// The run's directory.
    pub run: &'a RunDir,
    /// The run's unique id.
    pub id: &'a str,
    /// The run's branch and refs.
    pub branch: &'a Branch,
    /// The user's checkout.
    pub workspace: &'a Workspace,
    /// The private clones, if the run is isolated.
    pub pool: Option<&'a Pool>,
    /// The number of attempts at the same time.
    pub jobs: u32,
    /// Restores the run's own files if they are deleted.
    pub backup: &'a StateBackup,
    /// Restores the user's files that steer the run.
    pub steering: &'a SteeringFiles,
    /// The agent. `None` if attempts are only completed.
    pub agent: Option<AgentSetup<'a>>,
    /// The source of the stories, if they are not in the change file.
    pub source: Option<&'a SourcePlace>,
    /// The environment, from which that of child processes is derived.
    pub environment: &'a Environment,
    /// The settings of the loop.
    pub settings: &'a Settings,
    /// The configuration that the settings were read from.
    pub config: &'a GitConfig,
    /// Writes the report page when the loop has ended.
    pub page: Option<&'a PageMaker>,
    /// The reporter.
    pub reporter: &'a dyn Reporter,
    /// The requests to stop.
    pub stop: Stop,
    /// The usage of the running agents.
    pub in_flight: InFlight,
    /// The attempts that this process has accepted.
    pub judged: RefCell<BTreeSet<(StoryId, u32)>>,
    /// Ends the running agents and gates, by story.
    pub agents: RunningAgents,
}

/// The running agents and gates, by story. Each can be ended separately.
#[derive(Default)]
pub(super) struct RunningAgents(RefCell<BTreeMap<StoryId, (StopHandle, Stop)>>);

impl RunningAgents {
    /// Allows the agents and gates of a step to be ended, even before they are started.
    pub fn enter(&self, step: &Step) {
        let channel = stop_channel();
        self.0.borrow_mut().extend(Self::of(step).into_iter().map(|story| (story.clone(), channel.clone())));
    }

    /// The stories that a step runs an agent or gates for.
    fn of(step: &Step) -> Vec<&StoryId> {
        match step {
            Step::Attempt { story, .. } | Step::Judge { story, .. } => vec![story],
            Step::LandQueued { batch } => batch.iter().map(|(story, _)| story).collect(),
            Step::MakeWorkspace { .. }
            | Step::Land { .. }
            | Step::Queue { .. }
            | Step::TakeOut { .. }
            | Step::RollBack { .. }
            | Step::Pause { .. }
            | Step::GiveUp { .. } => Vec::new(),
        }
    }

    /// The channel that ends the agent or the gates of a story.
    pub fn stop(&self, story: &StoryId) -> (StopHandle, Stop) {
        self.0.borrow().get(story).cloned().unwrap_or_else(stop_channel)
    }

    pub fn leave(&self, step: &Step) {
        let mut all = self.0.borrow_mut();
        for story in Self::of(step) {
            all.remove(story);
        }
    }

    /// Ends the agent or the gates of a story, or of all stories if none is named.
    pub fn end(&self, story: Option<&StoryId>) {
        let agents = self.0.borrow();
        agents.iter().filter(|(at, _)| story.is_none_or(|story| story == *at)).for_each(|(_, (handle, _))| handle.raise(Urgency::Now));
    }
}

/// The usage of the running agents. It is recorded only if the run has a budget.
#[derive(Default)]
pub(super) struct InFlight {
    max_cost: Option<Cost>,
    max_tokens: Option<u64>,
    /// The usage of attempts that have ended.
    before: RefCell<Usage>,
    used: RefCell<BTreeMap<StoryId, Usage>>,
}

impl InFlight {
    pub fn new(max_cost: Option<Cost>, max_tokens: Option<u64>) -> Self {
        InFlight { max_cost, max_tokens, ..InFlight::default() }
    }

    fn has_budget(&self) -> bool {
        self.max_cost.is_some() || self.max_tokens.is_some()
    }

    pub fn note(&self, story: &StoryId, usage: impl FnOnce() -> Usage) {
        if self.has_budget() {
            self.used.borrow_mut().insert(story.clone(), usage());
        }
    }

    pub fn forget(&self, story: &StoryId) {
        self.used.borrow_mut().remove(story);
    }

    /// Records the usage of attempts that have ended. Returns the total usage of the running agents.
    pub fn settle(&self, before: impl FnOnce() -> Usage) -> Usage {
        if self.has_budget() {
            self.before.replace(before());
        }
        self.total()
    }

    /// Whether the budget is used up.
    pub fn is_spent(&self) -> bool {
        self.has_budget() && Budget::spent(&self.before.borrow().plus(&self.total()), self.max_cost, self.max_tokens).is_some()
    }

    fn total(&self) -> Usage {
        self.used.borrow().values().fold(Usage::default(), |sum, usage| sum.plus(usage))
    }
}

/// The place that a step works in.
pub(super) struct Ground {
    /// The workspace.
    pub workspace: Workspace,
    /// The number of the workspace in the run.
    pub slot: u32,
}

/// The agent and its prompt template.
#[derive(Clone, Copy)]
pub(super) struct AgentSetup<'a> {
    /// The agent.
    pub agent: &'a Agent,
    /// The user's own prompt template.
    pub template: Option<&'a Template>,
}

/// A step with a copy of everything that it needs, because the state changes while the step runs.
pub(super) struct Task {
    step: Step,
    pub(super) change: Change,
    story: Option<Story>,
    pub(super) base: Base,
    pub(super) gates: Gates,
    agent: String,
    pub(super) progress: Progress,
    /// The user's hints.
    pub(super) hints: Vec<String>,
    slot: u32,
    /// The queued attempts to land, with their gates.
    pub(super) waiting: Vec<(Waiting, Gates)>,
    /// The end of a pause.
    until: Timestamp,
    isolated: bool,
}

impl Task {
    pub fn new(step: Step, stories: &StoryList<'_>, state: &RunState, step_runner: &StepRunner<'_>) -> Result<Self> {
        let tip = state.base.clone().context("the journal has no initial state")?;
        let (change, story) = (stories.change(), step.story().and_then(|story| stories.story(story)).cloned());
        let change = Change {
            name: change.name.clone(),
            title: change.title.clone(),
            context: change.context.clone(),
            stories: Vec::new(),
            order: change.order,
        };
        let progress = step.story().and_then(|story| state.stories.get(story)).cloned().unwrap_or_default();
        // An attempt that is under way in a private clone keeps the base that it started from, even if the branch has moved.
        let base = match (&step, &progress.base) {
            (Step::Attempt { .. } | Step::MakeWorkspace { .. } | Step::LandQueued { .. }, _) | (_, None) => tip,
            (_, Some(base)) => Base { checkpoint: base.clone(), snapshot: base.clone() },
        };
        let slot = match &step {
            Step::Attempt { slot, .. } => *slot,
            _ => progress.slot,
        };
        let waiting = match &step {
            Step::LandQueued { batch } => {
                batch.iter().filter_map(|(story, attempt)| step_runner.waiting(story, *attempt, stories, state)).collect()
            }
            _ => Vec::new(),
        };
        let until = match &step {
            Step::Pause { span, .. } => span.end(Timestamp::now()),
            _ => Timestamp::MIN,
        };
        let configured = || story.as_ref().map(|story| Gates::of(step_runner.settings, story)).unwrap_or_default();
        // An attempt is judged by the gates that were configured when it started.
        let gates = match &step {
            Step::Attempt { .. } => configured(),
            _ => progress.gates.clone().unwrap_or_else(configured),
        };
        let agent = step_runner.agent.as_ref().map(|agent| agent.agent.name.clone()).unwrap_or_default();
        let isolated = state.is_isolated();
        let hints = step.story().map(|story| state.hints_for(story)).unwrap_or_default();
        Ok(Task { step, change, story, base, gates, agent, progress, hints, slot, waiting, until, isolated })
    }

    /// The event to record before the step begins. Judging, landing and rolling back follow from events that are already recorded.
    pub fn intent(&self) -> Option<Event> {
        match (&self.step, &self.story) {
            (Step::Attempt { story, attempt, .. }, Some(text)) => Some(Event::AttemptStarted {
                story: story.clone(),
                attempt: *attempt,
                title: text.title.clone(),
                agent: self.agent.clone(),
                gates: Some(self.gates.clone()),
                base: self.isolated.then(|| self.base.checkpoint.clone()),
                slot: self.slot,
            }),
            (Step::Pause { story, why, begun: false, .. }, _) => {
                Some(Event::PauseStarted { story: story.clone(), until: self.until, why: *why })
            }
            _ => None,
        }
    }

    pub(super) fn story(&self) -> Result<&Story> {
        let name = || self.step.story().map(ToString::to_string).unwrap_or_default();
        self.story.as_ref().with_context(|| format!("story '{}' is no longer in its source", name()))
    }

    /// The gates of attempts that land together: each command once, in order.
    pub(super) fn gates_of(&self, stacked: &[Stacked]) -> Gates {
        let is_in = |waiting: &Waiting| stacked.iter().any(|it| it.waiting.story.id == waiting.story.id);
        let mut all = Gates::default();
        for (_, gates) in self.waiting.iter().filter(|(waiting, _)| is_in(waiting)) {
            all.hooks |= gates.hooks;
            all.runner.clone_from(&gates.runner);
            all.sandbox |= gates.sandbox;
            for command in &gates.commands {
                if !all.commands.contains(command) {
                    all.commands.push(command.clone());
                }
            }
        }
        all
    }
}

impl StepRunner<'_> {
    /// Whether the step has no side effects, so the journal need not be synced first.
    pub fn is_harmless(&self, task: &Task) -> bool {
        match &task.step {
            Step::Judge { .. } => task.gates.is_empty() && self.workspace.stands_on(&task.base.checkpoint),
            Step::GiveUp { .. } => true,
            Step::MakeWorkspace { .. }
            | Step::Attempt { .. }
            | Step::Land { .. }
            | Step::Queue { .. }
            | Step::LandQueued { .. }
            | Step::TakeOut { .. }
            | Step::RollBack { .. }
            | Step::Pause { .. } => false,
        }
    }

    pub async fn perform(&self, task: Task) -> (Subject, Result<Vec<Event>>) {
        let subject = task.step.subject();
        let events = self.events_of(&task).await;
        self.agents.leave(&task.step);
        let events = match &subject {
            Subject::Story(story) => events.with_context(|| format!("story '{story}'")),
            Subject::Queue => events.context("the landing queue"),
            Subject::Workspace(_) => events,
        };
        (subject, events)
    }

    /// The workspace for a slot.
    pub(super) fn ground(&self, slot: u32) -> Ground {
        let workspace = self.pool.map_or_else(|| self.workspace.clone(), |pool| pool.workspace(slot));
        Ground { workspace, slot }
    }

    /// A queued attempt with the gates that it was judged by.
    fn waiting(&self, story: &StoryId, attempt: u32, stories: &StoryList<'_>, state: &RunState) -> Option<(Waiting, Gates)> {
        let progress = state.stories.get(story)?;
        let text = stories.story(story).cloned().unwrap_or_else(|| Story::stand_in(story));
        let gates = progress.gates.clone().unwrap_or_else(|| Gates::of(self.settings, &text));
        let message = self.message(&text, attempt, &gates, progress);
        let (base, commit) = (progress.base.clone()?, progress.queued()?.clone());
        Some((Waiting { story: text, attempt, base, commit, message }, gates))
    }

    async fn events_of(&self, task: &Task) -> Result<Vec<Event>> {
        match &task.step {
            Step::MakeWorkspace { slot } => self.make_workspace(*slot, &task.base.checkpoint).await,
            Step::LandQueued { .. } => self.land_queued(task).await,
            Step::Queue { story, attempt } => match self.judge_again(task, story, *attempt).await? {
                SecondJudgement::Passed(before) => Ok([before, self.queue(task, story, *attempt, &self.ground(task.slot)).await?].concat()),
                SecondJudgement::Failed(events) => Ok(events),
            },
            Step::TakeOut { story, attempt } | Step::RollBack { story, attempt } if self.pool.is_some() => {
                self.roll_back_clone(task, story, *attempt, &self.ground(task.slot)).await
            }
            Step::Attempt { attempt, feedback, .. } if self.pool.is_some() => {
                let ground = self.ground(task.slot);
                let notices = self.ready_clone(&ground, &task.base.checkpoint).await?;
                let mut events: Vec<Event> = notices.into_iter().map(|notice| Event::Noticed { notice }).collect();
                events.extend(self.attempt(&ground, task, *attempt, feedback.as_ref()).await?);
                Ok(events)
            }
            Step::Attempt { story, attempt, feedback, .. } => {
                self.steering.keep()?;
                self.backup.keep().context("cannot link the run's files")?;
                self.workspace.seal()?;
                let ended = self.attempt(&self.ground(0), task, *attempt, feedback.as_ref()).await?;
                let repaired = self.workspace.restore_essentials().context("cannot put the repository right")?;
                let lost = self.backup.restore().context("cannot restore the run's files")?;
                if lost {
                    // The backup is a hard link, so it has everything that the agent wrote to the file. The records must be checked again.
                    self.workspace.expect_foreign_writes();
                }
                let lost = lost.then_some(Notice::StateRestored {});
                let mut events: Vec<Event> = repaired.into_iter().chain(lost).map(|notice| Event::Noticed { notice }).collect();
                // From here on, nothing that the agent has written to settings, hooks or files of the run influences how its attempt is
                // judged and landed.
                events.extend(self.put_steering_back(story, *attempt).await?);
                events.extend(ended);
                Ok(events)
            }
            Step::Judge { story, attempt, exit, signal, trouble, words } => {
                let by_hand = task.progress.by_hand.is_some();
                let verdict = if by_hand { Verdict::Promised } else { judge(signal, exit, trouble.as_ref(), words) };
                self.judge(story, *attempt, verdict, task).await
            }
            Step::Land { story, attempt } => {
                // The story may have been removed from its source meanwhile. It is done nevertheless.
                let text = task.story.clone().unwrap_or_else(|| Story::stand_in(story));
                match self.judge_again(task, story, *attempt).await? {
                    SecondJudgement::Passed(before) => Ok([before, self.land(&text, *attempt, task).await?].concat()),
                    SecondJudgement::Failed(events) => Ok(events),
                }
            }
            Step::TakeOut { story, attempt } | Step::RollBack { story, attempt } => self.roll_back(story, *attempt, &task.base).await,
            Step::Pause { story, .. } => Ok(self.pause(story, task.until).await),
            Step::GiveUp { story } => Ok(vec![Event::StoryFailed {
                story: story.clone(),
                attempts: task.progress.attempts,
                outcome: task.progress.outcome.clone(),
            }]),
        }
    }

    async fn judge(&self, story: &StoryId, attempt: u32, verdict_so_far: Verdict, task: &Task) -> Result<Vec<Event>> {
        let outcome = match verdict_so_far {
            Verdict::Rejected(outcome) => outcome,
            Verdict::Promised if task.progress.by_hand.is_some() => {
                let text = task.story.clone().unwrap_or_else(|| Story::stand_in(story));
                return self.judge_promise(&text, attempt, task).await;
            }
            // The story is no longer in its source, so the attempt counts as interrupted.
            Verdict::Promised if task.story.is_none() => Outcome::Interrupted,
            Verdict::Promised => return self.judge_promise(task.story()?, attempt, task).await,
        };
        Ok(vec![verdict(story, attempt, Some(outcome))])
    }

    /// Runs the gates of an attempt again that an earlier process accepted but did not land. Its files may have changed since.
    async fn judge_again(&self, task: &Task, story: &StoryId, attempt: u32) -> Result<SecondJudgement> {
        let is_known = self.judged.borrow().contains(&(story.clone(), attempt));
        let Some(text) = task.story.as_ref().filter(|_| !is_known && !task.gates.is_empty() && task.progress.by_hand.is_none()) else {
            return Ok(SecondJudgement::Passed(Vec::new()));
        };
        if self.pool.is_none() && self.branch.repo.refs().await?.get(&self.branch.names.branch()) != Some(&task.base.checkpoint) {
            // The attempt has already landed, but the journal lacks the event.
            return Ok(SecondJudgement::Passed(Vec::new()));
        }
        let (mut events, outcome) = self.run_gates(&self.ground(task.slot), text, attempt, &task.gates, "").await?;
        if self.pool.is_none() {
            events.extend(self.put_steering_back(story, attempt).await?);
        }
        Ok(match outcome {
            None => SecondJudgement::Passed(events),
            Some(outcome) => {
                events.push(verdict(story, attempt, Some(outcome)));
                SecondJudgement::Failed(events)
            }
        })
    }

    /// Runs the gates on exactly the files that would land.
    async fn judge_promise(&self, story: &Story, attempt: u32, task: &Task) -> Result<Vec<Event>> {
        let ground = self.ground(task.slot);
        let gathered = if self.pool.is_some() {
            self.gather_in_clone(&ground, &story.id, attempt, &task.base.checkpoint).await?
        } else {
            self.branch.gather(self.workspace, &story.id, attempt, &task.base).await?
        };
        let brought = match gathered {
            Gathered::Whole => None,
            Gathered::Brought(notice) => Some(Event::Noticed { notice }),
            Gathered::Impossible(reason) => return Ok(vec![verdict(&story.id, attempt, Some(Outcome::Unlandable { reason }))]),
        };
        let ignored = self.ignored_gate_files(&ground, story, attempt, task).await?;
        let (gated, outcome) = self.run_gates(&ground, story, attempt, &task.gates, "").await?;
        let mut events: Vec<Event> = brought.into_iter().chain(gated).collect();
        if !task.gates.is_empty() && self.pool.is_none() {
            // A gate may run code that the agent has written.
            events.extend(self.put_steering_back(&story.id, attempt).await?);
        }
        if outcome.is_none() {
            self.judged.borrow_mut().insert((story.id.clone(), attempt));
            events.extend(ignored.into_iter().map(|notice| Event::Noticed { notice }));
        }
        events.push(verdict(&story.id, attempt, outcome));
        Ok(events)
    }

    /// Restores the settings, hooks and files that steer the run to their state before the attempt.
    async fn put_steering_back(&self, story: &StoryId, attempt: u32) -> Result<Vec<Event>> {
        self.workspace.restore_records()?;
        let mut notices = self.steering.put_back(story, attempt)?;
        notices.extend(self.workspace.put_back_steering(story, attempt).await?);
        Ok(notices.into_iter().map(|notice| Event::Noticed { notice }).collect())
    }

    /// Waits in short steps, so that the wait ends on time even if the clock is set or the machine sleeps.
    async fn pause(&self, story: &StoryId, until: Timestamp) -> Vec<Event> {
        let mut stop = self.stop.clone();
        while let Ok(left) = Duration::try_from(until.duration_since(Timestamp::now())) {
            if left.is_zero() {
                break;
            }
            self.reporter.activity(&Activity::Waiting { story, until });
            tokio::select! {
                () = tokio::time::sleep(left.min(TICK)) => {}
                _ = stop.reached(Urgency::AfterAttempt) => return Vec::new(),
            }
        }
        vec![Event::PauseEnded { story: story.clone() }]
    }

    /// The user's commands that are called when a story or the loop ends.
    pub fn callbacks(&self) -> Callbacks {
        let command = |setting: &Option<Setting<String>>| setting.as_ref().map(|setting| setting.value.clone());
        let change = ("RALPH_CHANGE", self.run.change.as_str().into());
        Callbacks {
            on_story: command(&self.settings.on_story),
            on_finish: command(&self.settings.on_finish),
            page: self.page.cloned(),
            env: self.environment.for_children(&[change, ("RALPH_RUN_DIR", self.run.path().into())]),
            cwd: self.workspace.repo.place.top.clone(),
            stop: self.stop.clone(),
        }
    }

    /// The commit message of a checkpoint. A hook may have edited it.
    fn message(&self, story: &Story, attempt: u32, gates: &Gates, progress: &Progress) -> String {
        let edited = gates.hooks.then(|| std::fs::read_to_string(self.message_file(story, attempt)).ok()).flatten();
        edited.unwrap_or_else(|| self.usual_message(story, attempt, progress.by_hand.as_ref()))
    }

    /// The commit message of a checkpoint according to the settings.
    pub(super) fn usual_message(&self, story: &Story, attempt: u32, note: Option<&Note>) -> String {
        self.branch.names.checkpoint_message(story, attempt, &self.settings.subject.value, note)
    }

    /// How an attempt without changes is handled. The user may declare a story as done without any change.
    pub(super) fn on_empty(&self, progress: &Progress) -> EmptyDiff {
        if progress.by_hand.is_some() { EmptyDiff::Warn } else { self.settings.empty_diff.value }
    }

    async fn land(&self, story: &Story, attempt: u32, task: &Task) -> Result<Vec<Event>> {
        let Task { base, gates, progress, .. } = task;
        let id = story.id.clone();
        let marked = self.set_marks(&id, attempt);
        let style = Style {
            message: self.message(story, attempt, gates, progress),
            signature: if self.settings.sign.value { Signature::Users } else { Signature::None },
            on_empty: self.on_empty(progress),
            marked: self.source.and_then(|source| only_marked(source, self.run, &id, attempt)),
        };
        Ok(match self.branch.land(self.workspace, story, attempt, base, &style).await? {
            Landed::Checkpoint { commit, changes, empty, mut notices } => {
                notices.extend(empty.then(|| empty_notice(&id, progress)));
                notices.extend(self.changed_gate_files(&self.ground(0), &id, gates, &changes).await?);
                let notices = notices.into_iter().map(|notice| Event::Noticed { notice });
                let mut events: Vec<Event> = marked.into_iter().chain(notices).collect();
                events.push(Event::CheckpointLanded { story: id, attempt, commit, files: changes.len() });
                events
            }
            Landed::Impossible(reason) => vec![Event::AttemptRejected { story: id, attempt, outcome: Outcome::Unlandable { reason } }],
        })
    }

    /// Sets the marks of a story that lands. They are part of its checkpoint.
    fn set_marks(&self, story: &StoryId, attempt: u32) -> Vec<Event> {
        self.source.map(|source| set_marks(source, self.run, story, attempt)).unwrap_or_default()
    }

    async fn roll_back(&self, story: &StoryId, attempt: u32, base: &Base) -> Result<Vec<Event>> {
        let rolled = self.branch.roll_back(self.workspace, story, attempt, base).await?;
        if let Some(source) = self.source {
            restore_source(source, self.run, story, attempt);
        }
        let mut events: Vec<Event> = rolled.notices.into_iter().map(|notice| Event::Noticed { notice }).collect();
        events.push(Event::AttemptRolledBack { story: story.clone(), attempt, rescue: rolled.rescue, files: rolled.files });
        Ok(events)
    }
}

/// The result of judging an attempt again: whether the gates passed or failed.
enum SecondJudgement {
    Passed(Vec<Event>),
    Failed(Vec<Event>),
}

/// The notice about a checkpoint without changes.
pub(super) fn empty_notice(story: &StoryId, progress: &Progress) -> Notice {
    let story = story.clone();
    if progress.by_hand.is_some() { Notice::EmptyByHand { story } } else { Notice::EmptyCheckpoint { story } }
}

fn verdict(story: &StoryId, attempt: u32, outcome: Option<Outcome>) -> Event {
    match outcome {
        Some(outcome) => Event::AttemptRejected { story: story.clone(), attempt, outcome },
        None => Event::AttemptAccepted { story: story.clone(), attempt },
    }
}
