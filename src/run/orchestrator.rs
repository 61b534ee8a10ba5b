//! The orchestrator: starts every step that the state machine offers, waits for one of them to end, and records the resulting events.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;

use super::branch_source::{BranchSource, SourceWatch};
use super::inbox::arrived;
use super::scribe::Scribe;
use super::steer::Followed;
use super::step_runner::{StepRunner, Task};
use super::story_list::StoryList;
use super::{Closing, End, Event, Inbox, Journal, Next, Outcome, Policy, Request, RunState, Step, Subject, Wish};
use crate::error::Problem;
use crate::names::attempt_label;
use crate::process::Urgency;
use crate::shell_word::quoted;
use crate::story::StoryId;

/// Performs the steps of one run.
pub(super) struct Orchestrator<'a> {
    /// Performs a single step.
    pub step_runner: StepRunner<'a>,
    /// The journal.
    pub journal: &'a mut Journal,
    /// The fold of the events.
    pub state: &'a mut RunState,
    /// The stories.
    pub stories: StoryList<'a>,
}

impl Orchestrator<'_> {
    /// Runs the loop until the state machine ends it. `view` is the source of an isolated run, and `watch` watches the user's copy of it.
    pub async fn run(self, mut policy: Policy, view: Option<BranchSource>, mut watch: Option<SourceWatch<'_>>) -> Result<End> {
        let mut inbox = Inbox::of(self.step_runner.run, self.state);
        let _attending = inbox.as_ref().map(Inbox::attend).transpose().context("cannot write to the inbox of the run")?;
        let Orchestrator { step_runner, journal, state, mut stories } = self;
        let callbacks = step_runner.callbacks();
        let mut scribe = Scribe { journal, state, reporter: step_runner.reporter, callbacks: Some(&callbacks) };
        let mut running = RunningSteps::new(&step_runner);
        let mut stop = step_runner.stop.clone();
        let mut heard = Urgency::None;
        let mut shown = scribe.state.base.clone();
        loop {
            if let Some(view) = view.as_ref().filter(|_| scribe.state.base != shown) {
                shown.clone_from(&scribe.state.base);
                let base = shown.as_ref().context("the journal has no initial state")?;
                view.refresh(&step_runner.branch.repo, &base.checkpoint).await?;
            }
            if let (Some(watch), Some(base)) = (&mut watch, &scribe.state.base) {
                watch.look(&base.checkpoint, &step_runner.branch.names.short_branch(), scribe.reporter).await?;
            }
            step_runner.take_requests(inbox.as_mut(), &mut scribe, &mut stories).await?;
            policy.order = stories.change().order;
            policy.in_flight = step_runner.in_flight.settle(|| scribe.state.usage());
            match scribe.state.next(stories.remaining(), &policy) {
                Next::End(end) if running.underway.is_empty() => {
                    // This comes before the event, so that nothing is left to do once the end is recorded.
                    if step_runner.pool.is_none() {
                        step_runner.workspace.unpin().await?;
                    }
                    scribe.record(Event::LoopEnded { end: end.clone() }).await?;
                    return Ok(end);
                }
                Next::End(_) => {}
                Next::Steps(steps) => running.launch(steps, &stories, &mut scribe).await?,
            }
            tokio::select! {
                done = running.one_done() => scribe.note_all(done?).await?,
                () = arrived(inbox.as_ref()) => {}
                urgency = stop.reached(above(heard)) => {
                    heard = urgency;
                    scribe.stop(urgency).await?;
                }
            }
        }
    }

    /// Performs the remaining steps of attempts that were begun. Starts no attempt.
    pub async fn complete_attempts(self, closing: Closing) -> Result<()> {
        let Orchestrator { step_runner, journal, state, stories } = self;
        let callbacks = step_runner.callbacks();
        let mut scribe = Scribe { journal, state, reporter: step_runner.reporter, callbacks: Some(&callbacks) };
        complete(&step_runner, &mut scribe, &stories, closing).await
    }

    /// Follows requests of the user, and lands stories that were done by hand.
    ///
    /// # Errors
    /// A [`Problem`] if a request is not possible.
    pub async fn follow_requests(self, mut inbox: Option<Inbox>, requests: &[Request]) -> Result<()> {
        let Orchestrator { step_runner, journal, state, mut stories } = self;
        let callbacks = step_runner.callbacks();
        let was_busy = state.is_busy();
        let mut scribe = Scribe { journal, state, reporter: step_runner.reporter, callbacks: Some(&callbacks) };
        step_runner.take_requests(inbox.as_mut(), &mut scribe, &mut stories).await?;
        if !was_busy {
            complete(&step_runner, &mut scribe, &stories, Closing::Finish).await?;
        }
        for request in requests {
            let followed = step_runner.follow(request, &mut scribe, &stories).await?;
            if !was_busy {
                complete(&step_runner, &mut scribe, &stories, Closing::Finish).await?;
            }
            if let Followed::Refused(error) = followed {
                return Err(error);
            }
            match &request.wish {
                Wish::Done { story, .. } if !was_busy && !scribe.state.has_landed(story) => bail!(not_landed(story, scribe.state)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The error if the user's edits could not be committed as a checkpoint.
fn not_landed(story: &StoryId, state: &RunState) -> Problem {
    let progress = state.stories.get(story);
    let why = match progress.and_then(|progress| progress.outcome.as_ref()) {
        Some(Outcome::Unlandable { reason }) => format!(": {reason}"),
        _ => String::new(),
    };
    let problem = Problem::refused(format!("your work on '{story}' could not be committed as a checkpoint{why}"));
    match progress.and_then(|progress| progress.rescues.last()) {
        Some(kept) => problem.hint(format!("git show {}   shows your edits", quoted(kept))),
        None => problem,
    }
}

/// Performs the remaining steps of attempts that were begun. Starts no attempt.
async fn complete(step_runner: &StepRunner<'_>, scribe: &mut Scribe<'_>, stories: &StoryList<'_>, closing: Closing) -> Result<()> {
    let mut running = RunningSteps::new(step_runner);
    let mut stop = step_runner.stop.clone();
    let heard = stop.urgency();
    loop {
        let steps = scribe.state.unfinished(closing);
        if steps.is_empty() && running.underway.is_empty() {
            return scribe.journal.sync().await;
        }
        running.launch(steps, stories, scribe).await?;
        tokio::select! {
            biased;
            // `finish` and `abort` end on the same request, and their error names the command to go on with.
            _ = stop.reached(above(heard)) => std::future::pending::<()>().await,
            done = running.one_done() => scribe.note_all(done?).await?,
        }
    }
}

/// The running steps, at most one per subject.
struct RunningSteps<'w> {
    step_runner: &'w StepRunner<'w>,
    underway: FuturesUnordered<LocalBoxFuture<'w, (Subject, Result<Vec<Event>>)>>,
    busy: BTreeSet<Subject>,
}

impl<'w> RunningSteps<'w> {
    fn new(step_runner: &'w StepRunner<'w>) -> Self {
        RunningSteps { step_runner, underway: FuturesUnordered::new(), busy: BTreeSet::new() }
    }

    /// Waits until one of the steps ends. Waits forever if there is none.
    async fn one_done(&mut self) -> Result<Vec<Event>> {
        match self.underway.next().await {
            Some((subject, events)) => {
                self.busy.remove(&subject);
                events
            }
            None => std::future::pending().await,
        }
    }

    async fn launch(&mut self, steps: Vec<Step>, stories: &StoryList<'_>, scribe: &mut Scribe<'_>) -> Result<()> {
        for step in steps {
            if !self.busy.insert(step.subject()) {
                continue;
            }
            if let Step::Attempt { story, attempt, .. } = &step
                && self.step_runner.pool.is_none()
            {
                self.verify_branch(scribe, &attempt_label(story, *attempt)).await?;
            }
            self.step_runner.agents.enter(&step);
            let task = Task::new(step, stories, scribe.state, self.step_runner)?;
            match task.intent() {
                Some(event) => scribe.record(event).await?,
                None if self.step_runner.is_harmless(&task) => {}
                None => scribe.journal.sync().await?,
            }
            self.underway.push(Box::pin(self.step_runner.perform(task)));
        }
        Ok(())
    }

    /// Makes sure that the branch is checked out and at the checkpoint before an agent starts. Adopts commits that the user made on it.
    async fn verify_branch(&self, scribe: &mut Scribe<'_>, label: &str) -> Result<()> {
        let base = scribe.state.base.clone().context("the journal has no initial state")?;
        if scribe.callbacks.is_some_and(|callbacks| callbacks.on_story.is_some()) {
            // The user's command may have created or deleted a ref, or created an ignored file. The agent must not be blamed for that.
            self.step_runner.branch.forget_refs();
        }
        match self.step_runner.branch.ready_for_attempt(self.step_runner.workspace, &base, label).await? {
            Some(checkpoint) => scribe.record(Event::CommitsAdopted { checkpoint }).await,
            None => Ok(()),
        }
    }
}

/// The error if the user does not want to wait for a stop. Everything is left as it is.
#[derive(Debug)]
pub struct Quit {
    /// The command to go on with.
    pub again: String,
}

impl Quit {
    /// The error for a loop.
    pub(super) fn of_loop() -> Self {
        Quit { again: "git ralph resume".to_owned() }
    }
}

impl std::fmt::Display for Quit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted: the run is left as it is")
    }
}

impl std::error::Error for Quit {}
pub(super) fn above(heard: Urgency) -> Urgency {
    match heard {
        Urgency::None => Urgency::AfterAttempt,
        Urgency::AfterAttempt => Urgency::Now,
        Urgency::Now => Urgency::Interrupt,
        Urgency::Interrupt => Urgency::Terminate,
        Urgency::Terminate | Urgency::Quit => Urgency::Quit,
    }
}
