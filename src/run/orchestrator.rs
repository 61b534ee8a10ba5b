//! The orchestrator: starts every step that the machine offers, awaits one of them, writes down what came of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;

use super::attempt::MARK;
use super::event::StopKind;
use super::gate;
use super::library::Library;
use super::{
    Callbacks, End, Event, Journal, Next, Outcome, Policy, Progress, Record, RunDir, RunState, SourcePlace, Spare, Step, Verdict, judge,
};
use crate::agent::{Agent, Template};
use crate::checkpoint::{Footing, Keeper, Landed, Notice, Signature, Style};
use crate::config::{Environment, Setting, Settings};
use crate::process::{Exit, Program, Stop, Trail, Urgency};
use crate::regular;
use crate::report::{Activity, Reporter};
use crate::story::{Change, Story, StoryId};

/// How often a wait looks at the clock.
const TICK: Duration = Duration::from_secs(20);

/// What every step needs and none of them changes.
pub struct Workshop<'a> {
    /// The run's directory.
    pub run: &'a RunDir,
    /// The run's unique id.
    pub id: &'a str,
    /// The run's hold on the repository.
    pub keeper: &'a Keeper,
    /// What brings the run's own files back if they are deleted.
    pub spare: &'a Spare,
    /// Who works.
    pub agent: &'a Agent,
    /// Where the stories are kept, if that is in the work tree.
    pub source: Option<&'a SourcePlace>,
    /// The user's own prompt template.
    pub template: Option<&'a Template>,
    /// What children get to see.
    pub environment: &'a Environment,
    /// Limits and gates.
    pub settings: &'a Settings,
    /// Who tells.
    pub reporter: &'a dyn Reporter,
    /// Who may ask to stop.
    pub stop: Stop,
}

/// The loop over the stories of one change.
pub struct Orchestrator<'a> {
    /// What every step needs.
    pub workshop: Workshop<'a>,
    /// Where events are written.
    pub journal: &'a mut Journal,
    /// What they add up to.
    pub state: &'a mut RunState,
    /// The rules.
    pub policy: Policy,
    /// The stories as they are to begin with.
    pub change: Change,
    /// Reads the stories again.
    pub source: &'a dyn Fn() -> Result<Change>,
    /// What they are read from, if it is one file: as long as it is the same, they are not read again.
    pub bytes: &'a dyn Fn() -> Option<Vec<u8>>,
}

impl Orchestrator<'_> {
    /// Works until the machine says that the loop is over.
    ///
    /// # Errors
    /// If git, the journal or the transcript fails; the run can be resumed.
    pub async fn run(self) -> Result<End> {
        let Orchestrator { workshop, journal, state, policy, change, source, bytes } = self;
        let callbacks = workshop.callbacks();
        let mut scribe = Scribe { journal, state, reporter: workshop.reporter, callbacks: Some(&callbacks) };
        let in_work_tree = workshop.source.is_some();
        let mut library = Library::new(change, source, bytes, in_work_tree);
        let mut floor = Floor::new(&workshop);
        let mut stop = workshop.stop.clone();
        let mut heard = Urgency::None;
        loop {
            library.reload(&mut scribe).await?;
            match scribe.state.next(library.left(), &policy) {
                Next::End(end) if floor.underway.is_empty() => {
                    scribe.record(Event::LoopEnded { end: end.clone() }).await?;
                    return Ok(end);
                }
                Next::End(_) => {}
                Next::Steps(steps) => floor.launch(steps, &library, &mut scribe).await?,
            }
            tokio::select! {
                Some((story, events)) = floor.underway.next() => {
                    floor.busy.remove(&story);
                    for event in events? {
                        scribe.note(event).await?;
                    }
                }
                urgency = stop.reached(above(heard)) => {
                    heard = urgency;
                    scribe.stop(urgency).await?;
                }
            }
        }
    }
}

/// The steps that are under way, at most one a story.
struct Floor<'w> {
    workshop: &'w Workshop<'w>,
    underway: FuturesUnordered<LocalBoxFuture<'w, (StoryId, Result<Vec<Event>>)>>,
    busy: BTreeSet<StoryId>,
}

impl<'w> Floor<'w> {
    fn new(workshop: &'w Workshop<'w>) -> Self {
        Floor { workshop, underway: FuturesUnordered::new(), busy: BTreeSet::new() }
    }

    async fn launch(&mut self, steps: Vec<Step>, library: &Library<'_>, scribe: &mut Scribe<'_>) -> Result<()> {
        for step in steps {
            if !self.busy.insert(step.story().clone()) {
                continue;
            }
            if matches!(step, Step::Attempt { .. }) {
                self.verify_branch(scribe).await?;
            }
            let task = Task::new(step, library, scribe.state, self.workshop.agent)?;
            match task.intent() {
                Some(event) => scribe.record(event).await?,
                None if self.workshop.is_harmless(&task) => {}
                None => scribe.journal.sync().await?,
            }
            self.underway.push(Box::pin(self.workshop.perform(task)));
        }
        Ok(())
    }

    /// No agent is started unless the branch is active and at the checkpoint; commits of the user's on it are taken in.
    async fn verify_branch(&self, scribe: &mut Scribe<'_>) -> Result<()> {
        let footing = scribe.state.footing.clone().context("the journal has no initial state")?;
        if scribe.callbacks.is_some_and(|callbacks| callbacks.on_story.is_some()) {
            // It may have made or removed a ref, which the agent shall not be blamed for.
            self.workshop.keeper.forget_refs();
        }
        match self.workshop.keeper.ready_for_attempt(&footing).await? {
            Some(checkpoint) => scribe.record(Event::CommitsAdopted { checkpoint }).await,
            None => Ok(()),
        }
    }
}

/// The user does not want to wait: everything is left as it is, for `resume`.
#[derive(Debug)]
pub struct Quit;

impl std::fmt::Display for Quit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted: the run is left as it is")
    }
}

impl std::error::Error for Quit {}

fn above(heard: Urgency) -> Urgency {
    match heard {
        Urgency::None => Urgency::AfterAttempt,
        Urgency::AfterAttempt => Urgency::Now,
        Urgency::Now => Urgency::Interrupt,
        Urgency::Interrupt => Urgency::Terminate,
        Urgency::Terminate | Urgency::Quit => Urgency::Quit,
    }
}

fn stop_kind(urgency: Urgency) -> Option<StopKind> {
    match urgency {
        Urgency::None | Urgency::AfterAttempt => Some(StopKind::AfterAttempt),
        Urgency::Now => Some(StopKind::Now),
        Urgency::Interrupt => Some(StopKind::Interrupt),
        Urgency::Terminate => Some(StopKind::Terminate),
        Urgency::Quit => None,
    }
}

/// Writes an event down, takes it in, tells it: in this order, in one place.
pub struct Scribe<'a> {
    /// Where events are written.
    pub journal: &'a mut Journal,
    /// What they add up to.
    pub state: &'a mut RunState,
    /// Who tells them.
    pub reporter: &'a dyn Reporter,
    /// Which commands of the user's are told, where they are.
    pub callbacks: Option<&'a Callbacks>,
}

impl Scribe<'_> {
    /// Records one event.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn record(&mut self, event: Event) -> Result<()> {
        let record = self.journal.append(event).await?;
        self.take_in(&record).await;
        Ok(())
    }

    /// Records what has come of a step. It reaches the disk before the next step that does anything begins: until then
    /// losing it means no more than that the step is done again.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub async fn note(&mut self, event: Event) -> Result<()> {
        let record = self.journal.note(event)?;
        self.take_in(&record).await;
        Ok(())
    }

    async fn take_in(&mut self, record: &Record) {
        self.state.apply(&record.event);
        self.reporter.event(record, self.state);
        if let Some(callbacks) = self.callbacks
            && let Some(failure) = callbacks.tell(record).await
        {
            self.reporter.activity(&Activity::CallbackFailed { failure: &failure });
        }
    }

    async fn stop(&mut self, urgency: Urgency) -> Result<()> {
        match stop_kind(urgency) {
            Some(how) => self.record(Event::StopRequested { how }).await,
            None => bail!(Quit),
        }
    }
}

/// A step with everything that it needs, cut loose from the state that goes on changing.
struct Task {
    step: Step,
    change: Change,
    story: Option<Story>,
    footing: Footing,
    agent: String,
    progress: Progress,
    /// When a wait is over.
    until: Timestamp,
}

impl Task {
    fn new(step: Step, library: &Library<'_>, state: &RunState, agent: &Agent) -> Result<Self> {
        let footing = state.footing.clone().context("the journal has no initial state")?;
        let (change, story) = (library.change(), library.story(step.story()).cloned());
        let change =
            Change { name: change.name.clone(), title: change.title.clone(), context: change.context.clone(), stories: Vec::new() };
        let progress = state.stories.get(step.story()).cloned().unwrap_or_default();
        let until = match &step {
            Step::Pause { span, .. } => span.end(Timestamp::now()),
            _ => Timestamp::MIN,
        };
        Ok(Task { step, change, story, footing, agent: agent.name.clone(), progress, until })
    }

    /// What is written down before the step begins; judging, landing and rolling back follow from what is written already.
    fn intent(&self) -> Option<Event> {
        match (&self.step, &self.story) {
            (Step::Attempt { story, attempt, .. }, Some(text)) => Some(Event::AttemptStarted {
                story: story.clone(),
                attempt: *attempt,
                title: text.title.clone(),
                agent: self.agent.clone(),
            }),
            (Step::Pause { story, why, begun: false, .. }, _) => {
                Some(Event::PauseStarted { story: story.clone(), until: self.until, why: *why })
            }
            _ => None,
        }
    }

    fn story(&self) -> Result<&Story> {
        self.story.as_ref().with_context(|| format!("story '{}' is no longer in its source", self.step.story()))
    }
}

impl Workshop<'_> {
    /// Whether a step only thinks: what it follows from need not be on the disk yet.
    fn is_harmless(&self, task: &Task) -> bool {
        match (&task.step, &task.story) {
            (Step::Judge { .. }, Some(story)) => self.gates(story).is_empty() && !self.settings.hooks.value,
            (Step::Judge { .. } | Step::GiveUp { .. }, _) => true,
            _ => false,
        }
    }

    async fn perform(&self, task: Task) -> (StoryId, Result<Vec<Event>>) {
        let story = task.step.story().clone();
        let events = self.events_of(&task).await.with_context(|| format!("story '{story}'"));
        (story, events)
    }

    async fn events_of(&self, task: &Task) -> Result<Vec<Event>> {
        match &task.step {
            Step::Attempt { attempt, feedback, .. } => {
                self.spare.keep().context("cannot link the run's files")?;
                let ended = self.attempt(&task.change, task.story()?, *attempt, feedback.as_ref()).await?;
                let lost = self.spare.restore().context("cannot restore the run's files")?;
                let notice = lost.then_some(Event::Noticed { notice: Notice::StateRestored {} });
                Ok(notice.into_iter().chain([ended]).collect())
            }
            Step::Judge { story, attempt, exit, signal, trouble } => {
                self.judge(story, *attempt, judge(signal, exit, trouble.as_ref()), task).await
            }
            Step::Land { story, attempt } => {
                // Its source may have dropped the story meanwhile; it is done all the same.
                let text = task.story.clone().unwrap_or_else(|| Story::stand_in(story));
                self.land(&text, *attempt, &task.footing).await
            }
            Step::RollBack { story, attempt } => self.roll_back(story, *attempt, &task.footing).await,
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
            Verdict::Rejected(outcome) => Some(outcome),
            // Its source has dropped the story meanwhile: there is nothing that it could be done for.
            Verdict::Promised if task.story.is_none() => Some(Outcome::Interrupted),
            Verdict::Promised => {
                let (mut events, outcome) = self.run_gates(task.story()?, attempt).await?;
                events.push(verdict(story, attempt, outcome));
                return Ok(events);
            }
        };
        Ok(vec![verdict(story, attempt, outcome)])
    }

    /// Waits, in steps, so that a clock that is set or a machine that sleeps does not make it longer.
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

    /// The commands that must succeed before the story counts as done.
    pub(super) fn gates(&self, story: &Story) -> Vec<String> {
        self.settings.verify.value.iter().chain(&story.verify).cloned().collect()
    }

    /// The repository's hooks as gates: the message of the checkpoint is in a file, as for `git commit`.
    fn hooks(&self, story: &Story, attempt: u32) -> Result<Vec<String>> {
        if !self.settings.hooks.value {
            return Ok(Vec::new());
        }
        let file = self.message_file(story, attempt);
        self.attempt_dir(story, attempt)?;
        std::fs::write(&file, self.keeper.names.checkpoint_message(story, attempt))
            .with_context(|| format!("cannot write {}", file.display()))?;
        let quoted = file.display().to_string().replace('\'', "'\\''");
        Ok(vec![
            "git add -A && git hook run --ignore-missing pre-commit".to_owned(),
            format!("git hook run --ignore-missing commit-msg -- '{quoted}'"),
        ])
    }

    /// The directory of an attempt; an agent may have deleted it.
    fn attempt_dir(&self, story: &Story, attempt: u32) -> Result<PathBuf> {
        let dir = self.run.attempt(&story.id, attempt);
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }

    fn message_file(&self, story: &Story, attempt: u32) -> PathBuf {
        self.run.attempt(&story.id, attempt).join("message")
    }

    async fn run_gates(&self, story: &Story, attempt: u32) -> Result<(Vec<Event>, Option<Outcome>)> {
        let mut events = Vec::new();
        let dir = self.attempt_dir(story, attempt)?;
        let hooks = self.hooks(story, attempt)?;
        for (number, command) in self.gates(story).into_iter().chain(hooks).enumerate() {
            self.reporter.activity(&Activity::GateStarted { story: &story.id, command: &command });
            let log = dir.join(format!("gate-{}", number + 1));
            let program = self.gate_program(story, attempt, &command);
            let mut stop = self.stop.clone();
            let trail = Trail::begin(MARK, &self.mark(story, attempt));
            let ran = gate::run(&program, self.settings.verify_timeout.value, self.settings.grace.value, &mut stop, &log).await;
            trail.end_after_child(self.settings.grace.value).await;
            let ran = ran?;
            events.push(Event::GateEnded {
                story: story.id.clone(),
                attempt,
                command: command.clone(),
                exit: ran.exit.clone(),
                milliseconds: u64::try_from(ran.duration.as_millis()).unwrap_or(u64::MAX),
            });
            if ran.exit == Exit::Interrupted {
                return Ok((events, Some(Outcome::Interrupted)));
            }
            if !ran.is_green() {
                return Ok((events, Some(Outcome::GateRed { command, exit: ran.exit, output: ran.output })));
            }
        }
        Ok((events, None))
    }

    /// The user's own commands that are told of the end of stories and of the loop.
    fn callbacks(&self) -> Callbacks {
        let command = |setting: &Option<Setting<String>>| setting.as_ref().map(|setting| setting.value.clone());
        let change = ("RALPH_CHANGE", self.run.change.as_str().into());
        Callbacks {
            on_story: command(&self.settings.on_story),
            on_finish: command(&self.settings.on_finish),
            env: self.environment.for_children(&[change, ("RALPH_RUN_DIR", self.run.path().into())]),
            cwd: self.keeper.repo.place.top.clone(),
            stop: self.stop.clone(),
        }
    }

    fn gate_program(&self, story: &Story, attempt: u32, command: &str) -> Program {
        let top: &Path = &self.keeper.repo.place.top;
        Program {
            program: "sh".into(),
            args: vec!["-c".into(), command.into()],
            env: self.child_environment(story, attempt),
            cwd: top.to_owned(),
        }
    }

    async fn land(&self, story: &Story, attempt: u32, footing: &Footing) -> Result<Vec<Event>> {
        let id = story.id.clone();
        let marked = self.set_marks(&id, attempt);
        let style = Style {
            message: self.settings.hooks.value.then(|| std::fs::read_to_string(self.message_file(story, attempt)).ok()).flatten(),
            signature: if self.settings.sign.value { Signature::Users } else { Signature::None },
        };
        Ok(match self.keeper.land(story, attempt, footing, &style).await? {
            Landed::Checkpoint { commit, files, notices } => {
                let notices = notices.into_iter().map(|notice| Event::Noticed { notice });
                let mut events: Vec<Event> = marked.into_iter().chain(notices).collect();
                events.push(Event::CheckpointLanded { story: id, attempt, commit, files });
                events
            }
            Landed::Impossible(reason) => vec![Event::AttemptRejected { story: id, attempt, outcome: Outcome::Unlandable { reason } }],
        })
    }

    /// The marks of a story that lands are part of its checkpoint.
    fn set_marks(&self, story: &StoryId, attempt: u32) -> Vec<Event> {
        self.source.map(|source| set_marks(source, self.run, story, attempt)).unwrap_or_default()
    }

    async fn roll_back(&self, story: &StoryId, attempt: u32, footing: &Footing) -> Result<Vec<Event>> {
        let rolled = self.keeper.roll_back(story, attempt, footing).await?;
        if let Some(source) = self.source {
            take_marks_back(source, self.run, story, attempt);
        }
        let mut events: Vec<Event> = rolled.notices.into_iter().map(|notice| Event::Noticed { notice }).collect();
        events.push(Event::AttemptRolledBack { story: story.clone(), attempt, rescue: rolled.rescue, files: rolled.files });
        Ok(events)
    }
}

/// Sets the marks of a story that lands in its source; says what there is to say.
pub fn set_marks(source: &SourcePlace, run: &RunDir, story: &StoryId, attempt: u32) -> Vec<Event> {
    let before = regular::text(&run.source_copy(story, attempt)).unwrap_or_default();
    let aside = run.source_aside(story, attempt);
    let marked = source.mark(&before, story, &aside);
    let strays = (!marked.strays.is_empty()).then(|| Event::StrayMarks { story: story.clone(), others: marked.strays });
    let put_back = marked.put_back.then(|| Event::SourcePutBack { story: story.clone(), aside: aside.display().to_string() });
    let problem = marked.problem.map(|error| Event::MarksNotSet { story: story.clone(), error });
    strays.into_iter().chain(put_back).chain(problem).collect()
}

/// A source that git does not carry is not rolled back by git.
pub fn take_marks_back(source: &SourcePlace, run: &RunDir, story: &StoryId, attempt: u32) {
    if let Ok(before) = regular::text(&run.source_copy(story, attempt)) {
        // What cannot be written back is not believed anyway.
        let _ = source.restore(&before, &run.source_aside(story, attempt));
    }
}

fn verdict(story: &StoryId, attempt: u32, outcome: Option<Outcome>) -> Event {
    match outcome {
        Some(outcome) => Event::AttemptRejected { story: story.clone(), attempt, outcome },
        None => Event::AttemptAccepted { story: story.clone(), attempt },
    }
}
