//! Simulates a run without git, agents or waiting: the real machine, driven by a clock that jumps to the end of the next step.
//!
//! Shared with `tests/suite/machine_queue.rs`, which asserts what must hold for any parameters.
#![expect(clippy::panic, reason = "a simulation whose promises are broken must stop")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use git_ralph::agent::Signal;
use git_ralph::config::Flags;
use git_ralph::git::{Head, Oid};
use git_ralph::process::Exit;
use git_ralph::run::{Defeat, DefeatCause, End, Event, Next, Opening, Policy, RunState, Step, Subject, Usage};
use git_ralph::story::{Order, Story, StoryId};

/// The parameters of a simulation.
#[derive(Clone, Copy)]
pub struct Scene {
    pub stories: usize,
    pub slots: usize,
    /// The mean working time of an agent. Times are log-normal, so some are five times as long.
    pub agent_seconds: f64,
    /// The duration of all gates of a story or of a merge.
    pub gate_seconds: f64,
    /// The probability that an attempt conflicts with work that has landed since it began, if ten stories have landed. Each pair of
    /// stories is drawn once.
    pub overlap: f64,
    pub seed: u64,
}

/// The result of a simulation.
#[derive(Debug, Default)]
pub struct Outcome {
    pub landed: usize,
    /// The total time in seconds.
    pub time: f64,
    pub landings: usize,
    pub largest_batch: usize,
    pub gate_runs: usize,
    /// How often gates failed on a merge.
    pub failed_gates: usize,
    pub attempts: usize,
    pub beaten: usize,
    /// In seconds.
    pub longest_wait: f64,
    /// Seconds from the first start of a story to its landing.
    pub longest_story: f64,
    /// The largest number of attempts in workspaces at the same time.
    pub most_at_work: usize,
    /// How often the machine decided.
    pub decisions: usize,
}

/// The number of landings that `Scene::overlap` refers to.
const TEN: f64 = 10.0;
/// The time to save the work of an attempt, or to put one commit on the branch.
const GIT_SECONDS: f64 = 0.2;
/// The time to make a clone.
const CLONE_SECONDS: f64 = 5.0;
/// One in this many conflicts is noticed only by gates.
const HIDDEN: u64 = 4;

/// Simulates the scene to its end.
pub fn play(scene: Scene) -> Outcome {
    let mut run = VirtualRun::new(scene);
    while let Some(next) = run.decide() {
        run.start(next);
        run.wait_for_one();
    }
    run.outcome
}

struct VirtualRun {
    scene: Scene,
    stories: Vec<Story>,
    numbers: HashMap<StoryId, usize>,
    /// The number of stories at the beginning of the list that are done.
    passed: usize,
    policy: Policy,
    state: RunState,
    now: u64,
    clock: BinaryHeap<Reverse<(u64, u64)>>,
    running: HashMap<u64, (Subject, Vec<Event>)>,
    busy: BTreeSet<Subject>,
    started: u64,
    /// The stories in the order in which they landed.
    landed: Vec<usize>,
    /// How many stories had landed when a story's attempt began.
    began_after: HashMap<usize, usize>,
    first_start: HashMap<usize, u64>,
    queued_at: BTreeMap<usize, u64>,
    at_work: usize,
    defeats: HashMap<usize, u32>,
    /// Stories that were beaten twice and are in progress.
    overdue: BTreeSet<usize>,
    outcome: Outcome,
}

fn mixed(mut number: u64) -> u64 {
    // SplitMix64: the same numbers on every machine.
    number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A number between 0 and 1 that depends only on the seed and these two numbers.
fn drawn(seed: u64, one: u64, other: u64) -> f64 {
    (mixed(mixed(seed ^ mixed(one)) ^ other) >> 11) as f64 / (1_u64 << 53) as f64
}

fn oid(number: usize) -> Option<Oid> {
    format!("{number:040x}").parse().ok()
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0) as u64
}

fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}

impl VirtualRun {
    fn new(scene: Scene) -> Self {
        let ids = (0..scene.stories).filter_map(|number| format!("s{number}").parse::<StoryId>().ok());
        let stories: Vec<Story> = ids.map(|id| Story::stand_in(&id)).collect();
        let numbers = stories.iter().enumerate().map(|(number, story)| (story.id.clone(), number)).collect();
        let mut state = RunState::default();
        if let (Ok(change), Some(initial)) = ("work".parse(), oid(0)) {
            let opening = Opening {
                inbox: None,
                run: 1,
                id: String::new(),
                change,
                original: Head::Branch { name: "refs/heads/main".into(), oid: initial.clone() },
                worktree: "main".into(),
                workspaces: Some("/workspaces".into()),
                flags: Flags::default(),
                version: "0".into(),
            };
            state.apply(&Event::RunStarting { opening });
            state.apply(&Event::RunStarted { initial, branch: "ralph/work".into() });
        }
        VirtualRun {
            policy: Policy { jobs: scene.slots, order: Order::Graph, ..Policy::default() },
            scene,
            stories,
            numbers,
            passed: 0,
            state,
            now: 0,
            clock: BinaryHeap::new(),
            running: HashMap::new(),
            busy: BTreeSet::new(),
            started: 0,
            landed: Vec::new(),
            began_after: HashMap::new(),
            first_start: HashMap::new(),
            queued_at: BTreeMap::new(),
            at_work: 0,
            defeats: HashMap::new(),
            overdue: BTreeSet::new(),
            outcome: Outcome::default(),
        }
    }

    /// Asks the machine for the next steps; `None` if the loop has ended.
    fn decide(&mut self) -> Option<Vec<Step>> {
        self.passed += self.stories[self.passed..].iter().take_while(|story| self.state.is_done(story)).count();
        self.outcome.decisions += 1;
        match self.state.next(&self.stories[self.passed..], &self.policy) {
            Next::Steps(steps) => Some(steps),
            Next::End(_) if !self.running.is_empty() => Some(Vec::new()),
            Next::End(end) => {
                assert_eq!(end, End::AllDone);
                self.outcome.time = seconds(self.now);
                None
            }
        }
    }

    fn start(&mut self, steps: Vec<Step>) {
        for step in steps {
            if !self.busy.insert(step.subject()) {
                continue;
            }
            let subject = step.subject();
            let (time, events) = self.perform(step);
            self.started += 1;
            self.clock.push(Reverse((self.now + milliseconds(time), self.started)));
            self.running.insert(self.started, (subject, events));
        }
    }

    fn wait_for_one(&mut self) {
        let Some(Reverse((at, number))) = self.clock.pop() else { panic!("nothing is under way and nothing is offered") };
        self.now = at;
        let Some((subject, events)) = self.running.remove(&number) else { return };
        self.busy.remove(&subject);
        let batch = events.iter().filter(|event| matches!(event, Event::CheckpointLanded { .. })).count();
        self.outcome.landings += usize::from(batch > 0);
        self.outcome.largest_batch = self.outcome.largest_batch.max(batch);
        for event in &events {
            self.count(event);
            self.state.apply(event);
        }
    }

    fn number(&self, story: &StoryId) -> usize {
        self.numbers[story]
    }

    /// The duration of a step, and the events that it yields.
    fn perform(&mut self, step: Step) -> (f64, Vec<Event>) {
        match step {
            Step::MakeWorkspace { slot } => (CLONE_SECONDS, vec![Event::WorkspaceReady { slot, path: String::new(), files: 0, bytes: 0 }]),
            Step::Attempt { story, attempt, slot, .. } => self.attempt(story, attempt, slot),
            Step::Judge { story, attempt, .. } => (self.scene.gate_seconds, vec![Event::AttemptAccepted { story, attempt }]),
            Step::Queue { story, attempt } => {
                (GIT_SECONDS, oid(0).map(|commit| Event::AttemptQueued { story, attempt, commit, files: 1 }).into_iter().collect())
            }
            Step::LandQueued { batch } => self.land(&batch),
            Step::Land { .. } | Step::TakeOut { .. } | Step::RollBack { .. } | Step::Pause { .. } | Step::GiveUp { .. } => {
                panic!("in this scene nothing fails: {step:?}")
            }
        }
    }

    fn attempt(&mut self, story: StoryId, attempt: u32, slot: u32) -> (f64, Vec<Event>) {
        let number = self.number(&story);
        self.began_after.insert(number, self.landed.len());
        self.first_start.entry(number).or_insert(self.now);
        self.outcome.attempts += 1;
        if self.defeats.get(&number).is_some_and(|defeats| *defeats >= 2) {
            self.overdue.insert(number);
        }
        self.at_work += 1;
        self.outcome.most_at_work = self.outcome.most_at_work.max(self.at_work);
        self.state.apply(&Event::AttemptStarted {
            story: story.clone(),
            attempt,
            title: String::new(),
            agent: String::new(),
            gates: None,
            base: self.state.base.as_ref().map(|base| base.checkpoint.clone()),
            slot,
        });
        let ended = Event::AgentEnded {
            story,
            attempt,
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
        (self.agent_time(number as u64, u64::from(attempt)), vec![ended])
    }

    /// A log-normal time with the mean of the scene; the standard deviation of its logarithm is 0.7.
    fn agent_time(&self, story: u64, attempt: u64) -> f64 {
        // The sum of twelve uniform draws is approximately normal.
        let normal: f64 = (0..12).map(|at| drawn(self.scene.seed, story * 1000 + attempt, at)).sum::<f64>() - 6.0;
        let deviation = 0.7_f64;
        self.scene.agent_seconds * (deviation * normal - deviation * deviation / 2.0).exp()
    }

    /// Whether two stories change the same lines, and whether only gates notice that. The answer is always the same.
    fn conflict(&self, one: usize, other: usize) -> Option<Conflict> {
        let (low, high) = (one.min(other) as u64, one.max(other) as u64);
        let per_pair = 1.0 - (1.0 - self.scene.overlap).powf(1.0 / TEN);
        let does = drawn(self.scene.seed ^ 1, low, high) < per_pair;
        does.then(|| if mixed(low * 1_000_003 + high).is_multiple_of(HIDDEN) { Conflict::Hidden } else { Conflict::Open })
    }

    /// The conflict of a story with stories that have landed since it began, and with the given ones.
    fn conflict_with_landed(&self, story: usize, before: &[usize]) -> Option<Conflict> {
        let since = self.landed[self.began_after[&story]..].iter().chain(before);
        since.filter_map(|other| self.conflict(story, *other)).max()
    }

    /// The same events as `run/clone_steps.rs` yields for a landing.
    fn land(&mut self, batch: &[(StoryId, u32)]) -> (f64, Vec<Event>) {
        let numbers: Vec<usize> = batch.iter().map(|(story, _)| self.number(story)).collect();
        let merge_time = GIT_SECONDS * batch.len() as f64;
        if self.began_after[&numbers[0]] == self.landed.len() {
            return (merge_time, self.landed_events(batch, 1));
        }
        let (mut clean, mut is_hidden) = (Vec::new(), false);
        for number in numbers {
            match self.conflict_with_landed(number, &clean) {
                Some(Conflict::Open) => break,
                Some(Conflict::Hidden) => is_hidden = true,
                None => {}
            }
            clean.push(number);
        }
        if clean.is_empty() {
            return (merge_time, self.beaten(&batch[0]));
        }
        let time = merge_time + self.scene.gate_seconds;
        self.outcome.gate_runs += 1;
        if !is_hidden {
            return (time, self.landed_events(batch, clean.len()));
        }
        self.outcome.failed_gates += 1;
        let stories: Vec<StoryId> = batch.iter().take(clean.len()).map(|(story, _)| story.clone()).collect();
        match clean.len() {
            1 => (time, self.beaten(&batch[0])),
            _ => (time, vec![Event::BatchFailed { stories, command: String::new() }]),
        }
    }

    fn landed_events(&self, batch: &[(StoryId, u32)], count: usize) -> Vec<Event> {
        let landed = batch.iter().take(count).enumerate().filter_map(|(at, (story, attempt))| {
            let commit = oid(self.landed.len() + at + 1)?;
            Some(Event::CheckpointLanded { story: story.clone(), attempt: *attempt, commit, files: 1 })
        });
        landed.collect()
    }

    fn beaten(&self, (story, attempt): &(StoryId, u32)) -> Vec<Event> {
        let cause = DefeatCause::Conflict { paths: Vec::new(), hunks: String::new() };
        let defeat = oid(self.landed.len()).map(|tip| Defeat { tip, cause });
        let beaten = |defeat| Event::AttemptBeaten { story: story.clone(), attempt: *attempt, defeat, kept: String::new() };
        defeat.map(beaten).into_iter().collect()
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::AttemptQueued { story, .. } => {
                self.at_work -= 1;
                self.queued_at.insert(self.number(story), self.now);
            }
            Event::AttemptBeaten { story, .. } => {
                let number = self.number(story);
                self.outcome.beaten += 1;
                self.leave_queue(number);
                self.overdue.remove(&number);
                *self.defeats.entry(number).or_default() += 1;
            }
            Event::CheckpointLanded { story, .. } => {
                let number = self.number(story);
                self.leave_queue(number);
                assert!(self.overdue.remove(&number) || self.overdue.is_empty(), "a story that was beaten twice lands before any other");
                self.landed.push(number);
                self.outcome.landed += 1;
                self.outcome.longest_story = self.outcome.longest_story.max(seconds(self.now - self.first_start[&number]));
            }
            _ => {}
        }
    }

    fn leave_queue(&mut self, number: usize) {
        let since = self.queued_at.remove(&number).unwrap_or(self.now);
        self.outcome.longest_wait = self.outcome.longest_wait.max(seconds(self.now - since));
    }
}

/// A conflict between two stories.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Conflict {
    /// The merge is clean, but the gates fail on it.
    Hidden,
    /// The merge has conflicts.
    Open,
}
