//! Tests the machine with several jobs: every order in which steps can end, and every way in which they can.
//!
//! A play is a run without git: it tracks the running steps as the orchestrator does, lets one of them end, and continues. All plays
//! advance together, one choice at a time, and two plays that reach the same state are merged. A search that is called complete continues
//! until every play has ended.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use jiff::Timestamp;

use git_ralph::agent::{Signal, Trouble};
use git_ralph::git::{Head, Oid};
use git_ralph::process::Exit;
use git_ralph::run::{
    Checkpoints, Closing, Defeat, DefeatCause, End, Event, LimitWaits, Next, Opening, Outcome, Policy, RunState, Stage, Step, StopKind,
    Subject, Usage, Verdict, judge,
};
use git_ralph::story::{Order, Story, StoryId, overlap};

use virtual_run::Scene;

#[path = "../../benches/ralph/virtual_run.rs"]
mod virtual_run;

fn oid(number: usize) -> Oid {
    format!("{number:040x}").parse().unwrap()
}

fn id(name: &str) -> StoryId {
    name.parse().unwrap()
}

/// What can happen in a search.
#[derive(Clone, Copy, Default)]
struct World {
    jobs: usize,
    max_retries: u32,
    limit: Option<u32>,
    /// Agents and gates fail.
    failures: bool,
    /// Agents report a usage limit.
    limits: bool,
    /// Merges conflict, and gates fail on merged trees.
    conflicts: bool,
    /// How often the user commits on the branch.
    commits: u32,
    /// How often the process is killed.
    kills: u32,
    /// How often the user asks to stop.
    stops: u32,
    /// Making clones, judging and rolling back take time; otherwise they end at once.
    slow: bool,
}

/// What the test itself knows about a run.
#[derive(Clone, Default)]
struct Truth {
    tip: usize,
    /// The number of commits so far.
    commits: usize,
    /// The attempts in workspaces: the workspace of each, and (in `bases`) where it began.
    at_work: BTreeMap<StoryId, u32>,
    bases: BTreeMap<StoryId, usize>,
    /// Accepted attempts, in order, until they land or fail; and which of them are saved.
    accepted: Vec<StoryId>,
    queued: BTreeSet<StoryId>,
    landed: Vec<StoryId>,
    landed_here: u32,
    failures: BTreeMap<StoryId, u32>,
    defeats: BTreeMap<StoryId, u32>,
    /// Stories that were beaten twice, in order.
    overdue: Vec<StoryId>,
    /// Gates have passed on what lands next.
    gated: bool,
    /// Stories that are on the branch but not in the journal.
    unwritten: Vec<StoryId>,
    stop: Option<StopKind>,
    /// How often the user has committed, the process was killed and the user has asked to stop.
    spent: [u32; 3],
    /// Something has happened that may end the run before every story is done.
    disturbed: bool,
}

/// The choices made in a play, newest first.
struct Trace {
    what: Rc<Choice>,
    before: Option<Rc<Trace>>,
}

#[derive(Clone)]
struct Play {
    state: RunState,
    running: BTreeMap<Subject, Step>,
    truth: Truth,
    trace: Option<Rc<Trace>>,
}

/// One thing that can happen next.
enum Choice {
    /// A step ends in one of its ways.
    Done(Subject, Vec<Event>),
    Stop(StopKind),
    /// The process is killed; this many checkpoints of a landing are already on the branch.
    Killed(usize),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Done(subject, events) => write!(f, "{subject:?}: {events:?}"),
            Choice::Stop(how) => write!(f, "stop {how:?}"),
            Choice::Killed(landed) => write!(f, "killed, {landed} on the branch"),
        }
    }
}

fn opened() -> Play {
    let opening = Opening {
        inbox: None,
        run: 1,
        id: "id".into(),
        change: "work".parse().unwrap(),
        original: Head::Branch { name: "refs/heads/main".into(), oid: oid(1) },
        worktree: "main".into(),
        workspaces: Some("/workspaces".into()),
        flags: git_ralph::config::Flags::default(),
        version: "0".into(),
    };
    let mut state = RunState::default();
    state.apply(&Event::RunStarting { opening });
    state.apply(&Event::RunStarted { initial: oid(0), branch: "ralph/work".into() });
    Play { state, running: BTreeMap::new(), truth: Truth::default(), trace: None }
}

impl Truth {
    fn is_under_way(&self, story: &StoryId) -> bool {
        self.at_work.contains_key(story) || self.queued.contains(story)
    }

    /// The story that must land before any other.
    fn first_to_land(&self) -> Option<&StoryId> {
        self.overdue.iter().find(|story| self.is_under_way(story))
    }

    fn is_hurried(&self) -> bool {
        self.stop.is_some_and(|how| how != StopKind::AfterAttempt)
    }

    fn forget(&mut self, story: &StoryId) {
        self.at_work.remove(story);
        self.queued.remove(story);
        self.accepted.retain(|other| other != story);
    }

    /// Applies an event, and checks what must be true when it happens.
    fn take_in(&mut self, event: &Event) {
        match event {
            Event::AttemptStarted { story, slot, .. } => {
                self.at_work.insert(story.clone(), *slot);
                self.bases.insert(story.clone(), self.tip);
            }
            Event::AttemptAccepted { story, .. } => self.accepted.push(story.clone()),
            Event::AttemptQueued { story, .. } => {
                self.at_work.remove(story);
                self.queued.insert(story.clone());
            }
            Event::AttemptRejected { story, outcome, .. } => {
                self.accepted.retain(|other| other != story);
                *self.failures.entry(story.clone()).or_default() += u32::from(outcome.costs_retry());
                self.disturbed |= outcome.costs_retry();
            }
            Event::AttemptRolledBack { story, .. } => self.forget(story),
            Event::AttemptBeaten { story, .. } => {
                assert_ne!(self.bases[story], self.tip, "an attempt is beaten only where the branch has moved");
                self.forget(story);
                let defeats = self.defeats.entry(story.clone()).or_default();
                *defeats += 1;
                if *defeats == 2 {
                    self.overdue.push(story.clone());
                }
            }
            Event::GateEnded { exit, .. } => self.gated = *exit == Exit::Success,
            Event::CheckpointLanded { story, .. } => self.land(story),
            Event::CommitsAdopted { .. } => self.move_tip(),
            Event::StopRequested { how } => self.stop = Some(*how),
            Event::RunResumed {} => (self.stop, self.landed_here) = (None, 0),
            _ => {}
        }
    }

    fn move_tip(&mut self) {
        self.commits += 1;
        self.tip = self.commits;
    }

    fn land(&mut self, story: &StoryId) {
        assert!(self.queued.contains(story) && self.accepted.contains(story), "{story} lands and was not accepted and queued");
        assert!(!self.landed.contains(story), "{story} lands twice");
        match self.first_to_land() {
            Some(first) => assert_eq!(first, story, "something lands between the start of a story that was beaten twice and its landing"),
            None => assert_eq!(self.accepted.first(), Some(story), "attempts land in the order in which they were accepted"),
        }
        assert!(self.gated || self.bases[story] == self.tip, "{story} lands as a tree that no gate has seen");
        self.forget(story);
        self.overdue.retain(|other| other != story);
        self.defeats.remove(story);
        self.unwritten.retain(|other| other != story);
        self.landed.push(story.clone());
        self.landed_here += 1;
        self.move_tip();
    }
}

impl Play {
    fn tell(&mut self, event: &Event) {
        self.truth.take_in(event);
        self.state.apply(event);
    }

    /// Starts the steps that the machine offers, as `run/orchestrator.rs` does; returns the end of the loop, if it has ended.
    fn launch(&mut self, stories: &[Story], policy: &Policy) -> Option<End> {
        let done = stories.iter().take_while(|story| self.state.is_done(story)).count();
        match self.state.next(&stories[done..], policy) {
            Next::End(end) if self.running.is_empty() => return Some(end),
            Next::End(_) => {}
            Next::Steps(steps) => self.start(steps, stories, policy),
        }
        assert!(!self.running.is_empty(), "nothing is under way and nothing is offered");
        None
    }

    fn start(&mut self, steps: Vec<Step>, stories: &[Story], policy: &Policy) {
        for step in steps {
            let subject = step.subject();
            if self.running.contains_key(&subject) {
                continue;
            }
            self.check_start(&step, stories, policy);
            match &step {
                Step::Attempt { story, attempt, slot, .. } => self.tell(&Event::AttemptStarted {
                    story: story.clone(),
                    attempt: *attempt,
                    title: String::new(),
                    agent: String::new(),
                    gates: None,
                    base: Some(oid(self.truth.tip)),
                    slot: *slot,
                }),
                Step::Pause { story, why, begun: false, .. } => {
                    self.tell(&Event::PauseStarted { story: story.clone(), until: Timestamp::UNIX_EPOCH, why: *why });
                }
                _ => {}
            }
            self.running.insert(subject, step);
            self.check(stories, policy);
        }
    }

    /// Checks what must be true when a step starts.
    fn check_start(&self, step: &Step, stories: &[Story], policy: &Policy) {
        let truth = &self.truth;
        match step {
            Step::Attempt { story, slot, feedback, .. } => {
                assert!(truth.stop.is_none(), "an attempt starts after a request to stop");
                assert!(!truth.landed.contains(story) && !truth.is_under_way(story), "{story} starts again");
                let text = stories.iter().find(|text| text.id == *story).unwrap();
                assert!(text.after.iter().all(|after| truth.landed.contains(after)), "{story} starts before what it comes after");
                assert!(*slot < u32::try_from(policy.jobs).unwrap(), "there is no slot {slot}");
                assert!(!truth.at_work.values().any(|taken| taken == slot), "two attempts are in slot {slot}");
                let was_beaten = truth.defeats.get(story).is_some_and(|defeats| *defeats > 0);
                assert!(!was_beaten || feedback.is_some(), "a story that was beaten is told why");
            }
            Step::MakeWorkspace { .. } => assert!(truth.stop.is_none(), "a clone is made after a request to stop"),
            Step::LandQueued { batch } => self.check_landing(batch),
            Step::Land { .. } => panic!("only a run in place lands without the queue"),
            Step::Judge { .. }
            | Step::Queue { .. }
            | Step::TakeOut { .. }
            | Step::RollBack { .. }
            | Step::Pause { .. }
            | Step::GiveUp { .. } => {}
        }
    }

    fn check_landing(&self, batch: &[(StoryId, u32)]) {
        let truth = &self.truth;
        assert!(!truth.is_hurried(), "a landing begins after an urgent request to stop");
        let names: Vec<StoryId> = batch.iter().map(|(story, _)| story.clone()).collect();
        assert!(names.iter().all(|story| truth.queued.contains(story)), "{names:?} is landed before it is saved");
        match truth.first_to_land() {
            Some(first) => assert!(names.len() == 1 && names[0] == *first, "{names:?}, not {first}"),
            None => assert!(!names.is_empty() && truth.accepted.starts_with(&names), "{names:?}, accepted: {:?}", truth.accepted),
        }
        assert!(names.starts_with(&truth.unwritten), "{names:?} does not have {:?}, which is on the branch already", truth.unwritten);
    }

    /// Checks what must always be true.
    fn check(&self, stories: &[Story], policy: &Policy) {
        let truth = &self.truth;
        let landings = self.running.values().filter(|step| matches!(step, Step::LandQueued { .. } | Step::Land { .. })).count();
        assert!(landings <= 1, "two landings at once");
        assert!(truth.at_work.len() <= policy.jobs, "more attempts than jobs");
        assert_eq!(truth.at_work.values().collect::<BTreeSet<_>>().len(), truth.at_work.len(), "two attempts in one slot");
        assert!(policy.limit.is_none_or(|limit| truth.landed_here <= limit), "more stories land than the limit says");
        assert_eq!(self.state.base.as_ref().unwrap().checkpoint, oid(truth.tip));
        for (story, progress) in &self.state.stories {
            assert_eq!(progress.failures, truth.failures.get(story).copied().unwrap_or(0), "only a failure costs a retry");
            assert!(!progress.is_queued() || progress.base == Some(oid(truth.bases[story])), "{story} began somewhere else");
        }
        let under_way: Vec<&Story> = stories.iter().filter(|story| truth.is_under_way(&story.id)).collect();
        for (at, one) in under_way.iter().enumerate() {
            assert!(!under_way[at + 1..].iter().any(|other| overlap(one, other)), "stories with overlapping paths are at work together");
        }
    }

    /// A number that is equal for two plays with the same future. It leaves out counters and commits that influence no decision.
    fn key(&self) -> u64 {
        let mut state = self.state.clone();
        let tip = state.base.take().map(|base| base.checkpoint);
        (state.opening, state.initial, state.checkpoints) = (None, None, Checkpoints::default());
        for progress in state.stories.values_mut() {
            progress.base = progress.base.take().filter(|base| Some(base) == tip.as_ref()).map(|_| oid(0));
            (progress.attempts, progress.milliseconds) = (0, 0);
            (progress.outcome, progress.usage) = (None, Usage::default());
            progress.feedback = None;
            progress.rescues.clear();
            match &mut progress.stage {
                Stage::Queued(commit) | Stage::Landed(commit) => *commit = oid(0),
                Stage::Idle | Stage::Working | Stage::Ended { .. } | Stage::Accepted | Stage::Rejected => {}
            }
        }
        let mut words = Digest { hasher: DefaultHasher::new(), leaving_out: false };
        write!(words, "{state:?}").unwrap();
        let truth = &self.truth;
        for (subject, step) in &self.running {
            subject.hash_into(&mut words.hasher);
            std::mem::discriminant(step).hash(&mut words.hasher);
            if let Step::LandQueued { batch } = step {
                batch.iter().for_each(|(story, _)| story.hash(&mut words.hasher));
            }
        }
        (&truth.accepted, &truth.unwritten, &truth.overdue, &truth.spent).hash(&mut words.hasher);
        (truth.landed_here, truth.disturbed).hash(&mut words.hasher);
        words.hasher.finish()
    }

    fn choose(&self, choice: &Rc<Choice>, stories: &[Story], policy: &Policy) -> Play {
        let mut play = self.clone();
        play.trace = Some(Rc::new(Trace { what: Rc::clone(choice), before: self.trace.clone() }));
        match &**choice {
            Choice::Done(subject, events) => {
                play.running.remove(subject);
                play.truth.spent[0] += u32::from(matches!(events[..], [Event::CommitsAdopted { .. }]));
                events.iter().for_each(|event| play.tell(event));
                play.truth.gated = false;
            }
            Choice::Stop(how) => {
                play.truth.spent[2] += 1;
                play.tell(&Event::StopRequested { how: *how });
            }
            Choice::Killed(landed) => {
                if let Some(Step::LandQueued { batch }) = play.running.get(&Subject::Queue)
                    && play.truth.unwritten.is_empty()
                {
                    play.truth.unwritten = batch.iter().take(*landed).map(|(story, _)| story.clone()).collect();
                }
                play.truth.spent[1] += 1;
                play.running.clear();
                play.tell(&Event::RunResumed {});
            }
        }
        play.check(stories, policy);
        play
    }

    fn told(&self) -> String {
        let last = std::iter::successors(self.trace.as_deref(), |trace| trace.before.as_deref());
        let mut lines: Vec<String> = last.map(|trace| trace.what.to_string()).collect();
        lines.reverse();
        lines.join("\n")
    }
}

trait HashInto {
    fn hash_into(&self, hasher: &mut DefaultHasher);
}

impl HashInto for Subject {
    fn hash_into(&self, hasher: &mut DefaultHasher) {
        match self {
            Subject::Story(story) => story.hash(hasher),
            Subject::Queue => 1.hash(hasher),
            Subject::Workspace(slot) => (2, slot).hash(hasher),
        }
    }
}

/// A digest of a state without counters that only grow; only the order of acceptance that follows from them is included.
struct Digest {
    hasher: DefaultHasher,
    leaving_out: bool,
}

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if matches!(text, "accepted" | "acceptances" | "counted") {
            self.leaving_out = true;
        } else if self.leaving_out && text.starts_with([',', '}', ' ']) && !text.starts_with(": ") {
            self.leaving_out = false;
        }
        if !self.leaving_out {
            self.hasher.write(text.as_bytes());
        }
        Ok(())
    }
}

/// The ways in which steps end.
impl Play {
    /// Everything that can happen next; the first choice is the one without a problem.
    fn choices(&self, world: &World) -> Vec<Choice> {
        let [_, kills, stops] = self.truth.spent;
        let mut choices: Vec<Choice> = Vec::new();
        for (subject, step) in &self.running {
            choices.extend(self.ways(step, world).into_iter().map(|events| Choice::Done(subject.clone(), events)));
        }
        if stops < world.stops {
            choices.extend([StopKind::AfterAttempt, StopKind::Now, StopKind::Interrupt].map(Choice::Stop));
        }
        if kills < world.kills {
            choices.push(Choice::Killed(0));
            if let Some(Step::LandQueued { batch }) = self.running.get(&Subject::Queue) {
                choices.extend((1..=batch.len()).map(Choice::Killed));
            }
        }
        choices
    }

    fn ways(&self, step: &Step, world: &World) -> Vec<Vec<Event>> {
        match step {
            Step::MakeWorkspace { slot } => vec![vec![Event::WorkspaceReady { slot: *slot, path: String::new(), files: 0, bytes: 0 }]],
            Step::Attempt { story, attempt, .. } => self.ways_of_an_agent(story, *attempt, world),
            Step::Judge { story, attempt, exit, signal, trouble, .. } => {
                let rejected = |outcome| vec![Event::AttemptRejected { story: story.clone(), attempt: *attempt, outcome }];
                match judge(signal, exit, trouble.as_ref(), "") {
                    Verdict::Rejected(outcome) => vec![rejected(outcome)],
                    Verdict::Promised => {
                        let red = Outcome::GateFailed { command: "gate".into(), exit: Exit::Code { code: 1 }, output: String::new() };
                        let mut ways = vec![vec![Event::AttemptAccepted { story: story.clone(), attempt: *attempt }]];
                        ways.extend(world.failures.then(|| rejected(red)));
                        ways.extend(self.truth.is_hurried().then(|| rejected(Outcome::Interrupted)));
                        ways
                    }
                }
            }
            Step::Queue { story, attempt } => {
                let (story, attempt) = (story.clone(), *attempt);
                let outcome = Outcome::Unlandable { reason: "r".into() };
                let impossible = vec![Event::AttemptRejected { story: story.clone(), attempt, outcome }];
                let saved = vec![Event::AttemptQueued { story, attempt, commit: oid(0), files: 1 }];
                if world.failures { vec![saved, impossible] } else { vec![saved] }
            }
            Step::LandQueued { batch } => self.ways_of_a_landing(batch, world),
            Step::TakeOut { story, attempt } | Step::RollBack { story, attempt } => {
                vec![vec![Event::AttemptRolledBack { story: story.clone(), attempt: *attempt, rescue: "ref".into(), files: 0 }]]
            }
            // A pause that a stop request interrupts has not ended.
            Step::Pause { .. } if self.truth.stop.is_some() => vec![Vec::new()],
            Step::Pause { story, .. } => vec![vec![Event::PauseEnded { story: story.clone() }]],
            Step::GiveUp { story } => vec![vec![Event::StoryFailed { story: story.clone(), attempts: 0, outcome: None }]],
            Step::Land { .. } => panic!("only a run in place lands without the queue"),
        }
    }

    fn ways_of_an_agent(&self, story: &StoryId, attempt: u32, world: &World) -> Vec<Vec<Event>> {
        let ended = |exit, signal, trouble| {
            vec![Event::AgentEnded {
                story: story.clone(),
                attempt,
                exit,
                signal,
                trouble,
                usage: Usage::default(),
                milliseconds: 1,
                waited_milliseconds: 0,
                survivors: Vec::new(),
                words: String::new(),
                tools: BTreeMap::new(),
            }]
        };
        let mut ways = vec![ended(Exit::Success, Signal::Complete, None)];
        if world.failures {
            ways.push(ended(Exit::Success, Signal::Failed { reason: "no".into() }, None));
        }
        if world.failures && world.slow {
            ways.push(ended(Exit::Success, Signal::Nothing, None));
            ways.push(ended(Exit::Signal { signal: 9 }, Signal::Complete, None));
        }
        if world.limits {
            ways.push(ended(Exit::Code { code: 1 }, Signal::Nothing, Some(Trouble::Limit { message: "m".into(), resets: None })));
        }
        if self.truth.is_hurried() {
            ways.push(ended(Exit::Interrupted, Signal::Nothing, None));
        }
        ways
    }

    /// The same events as `run/clone_steps.rs` yields for a landing.
    fn ways_of_a_landing(&self, batch: &[(StoryId, u32)], world: &World) -> Vec<Vec<Event>> {
        let truth = &self.truth;
        let landed = |count: usize| {
            let commit = |(at, (story, attempt)): (usize, &(StoryId, u32))| Event::CheckpointLanded {
                story: story.clone(),
                attempt: *attempt,
                commit: oid(truth.commits + at + 1),
                files: 1,
            };
            batch.iter().take(count).enumerate().map(commit)
        };
        let (first, attempt) = batch[0].clone();
        let gate =
            |exit| Event::GateEnded { story: first.clone(), attempt, command: "gate".into(), exit, milliseconds: 1, output: String::new() };
        let passed = |count: usize| std::iter::once(gate(Exit::Success)).chain(landed(count)).collect::<Vec<Event>>();
        if !truth.unwritten.is_empty() {
            // The killed process had already run the gates.
            return vec![passed(truth.unwritten.len())];
        }
        let beaten = |cause| Event::AttemptBeaten {
            story: first.clone(),
            attempt,
            defeat: Defeat { tip: oid(truth.tip), cause },
            kept: "ref".into(),
        };
        let mut ways = Vec::new();
        if truth.bases[&first] == truth.tip {
            assert_eq!(batch.len(), 1, "what needs no gate does not wait for one");
            ways.push(landed(1).collect());
        } else {
            let red = || gate(Exit::Code { code: 1 });
            ways.push(passed(batch.len()));
            if world.conflicts {
                // A conflict later in the batch shortens the batch.
                ways.extend((1..batch.len()).map(passed));
                ways.push(vec![beaten(DefeatCause::Conflict { paths: Vec::new(), hunks: String::new() })]);
                ways.push(vec![red(), beaten(DefeatCause::Gate { command: String::new(), output: String::new() })]);
                let stories = |count: usize| batch.iter().take(count).map(|(story, _)| story.clone()).collect();
                ways.extend(
                    (2..=batch.len()).map(|count| vec![red(), Event::BatchFailed { stories: stories(count), command: String::new() }]),
                );
            }
            if truth.is_hurried() {
                ways.push(vec![gate(Exit::Interrupted)]);
            }
        }
        if truth.spent[0] < world.commits {
            ways.push(vec![Event::CommitsAdopted { checkpoint: oid(truth.commits + 1) }]);
        }
        ways
    }
}

/// What a search has found.
#[derive(Debug, Default)]
struct Found {
    /// The largest number of choices in one play.
    longest: usize,
    /// The number of different plays.
    plays: u128,
    /// The number of different states at the same depth.
    states: usize,
    ends: BTreeMap<&'static str, u128>,
    largest_batch: usize,
    most_defeats: u32,
}

/// An upper limit: no play is longer.
const LONGEST: usize = 150;

struct Search {
    /// Whether plays that reach the same state are merged.
    merging: bool,
    world: World,
    stories: Vec<Story>,
    policy: Policy,
    found: Found,
}

type Layer = HashMap<u64, (Play, u128)>;

impl Search {
    fn new(world: World, stories: &[Story]) -> Self {
        let policy = Policy {
            jobs: world.jobs,
            max_retries: world.max_retries,
            limit: world.limit,
            order: Order::Graph,
            limit_waits: LimitWaits { announced: 1, guessed: 1 },
            ..Policy::default()
        };
        Search { merging: true, world, stories: stories.to_vec(), policy, found: Found::default() }
    }

    /// Follows every play to this depth, and from there on only the choice without a problem, until all plays have ended.
    fn run(mut self, depth: usize) -> Found {
        let mut layer = Layer::new();
        self.arrive(opened(), 1, &mut layer);
        let calm = World { failures: false, limits: false, conflicts: false, commits: 0, kills: 0, stops: 0, ..self.world };
        while !layer.is_empty() {
            assert!(self.found.longest < LONGEST, "some play does not end");
            self.found.longest += 1;
            self.found.states += layer.len();
            let mut next = Layer::new();
            for (play, plays) in std::mem::take(&mut layer).into_values() {
                let is_free = self.found.longest <= depth;
                let choices = play.choices(if is_free { &self.world } else { &calm });
                for choice in choices.into_iter().take(if is_free { usize::MAX } else { 1 }) {
                    self.follow(&play, &Rc::new(choice), plays, &mut next);
                }
            }
            layer = next;
        }
        self.found
    }

    #[expect(clippy::print_stderr, reason = "a play that breaks a promise must be seen")]
    fn follow(&mut self, play: &Play, choice: &Rc<Choice>, plays: u128, next: &mut Layer) {
        // If a rule is broken, the play that breaks it is printed.
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let play = play.choose(choice, &self.stories, &self.policy);
            if matches!(**choice, Choice::Killed(_)) {
                self.close(&play, Closing::Finish);
                self.close(&play, Closing::Abort);
            }
            self.arrive(play, plays, next);
        }));
        if let Err(panic) = played {
            eprintln!("{}\n{choice}", play.told());
            std::panic::resume_unwind(panic);
        }
    }

    /// Starts the steps that can start, performs those that take no time, and records the state of the play.
    fn arrive(&mut self, mut play: Play, plays: u128, layer: &mut Layer) {
        let end = loop {
            let end = play.launch(&self.stories, &self.policy);
            match play.running.iter().find(|(_, step)| self.is_instant(step)) {
                Some((subject, step)) => {
                    let done = Choice::Done(subject.clone(), play.ways(step, &self.world).swap_remove(0));
                    play = play.choose(&Rc::new(done), &self.stories, &self.policy);
                }
                None => break end,
            }
        };
        let batch = play.running.get(&Subject::Queue).map_or(0, |step| if let Step::LandQueued { batch } = step { batch.len() } else { 0 });
        self.found.largest_batch = self.found.largest_batch.max(batch);
        self.found.most_defeats = self.found.most_defeats.max(play.truth.defeats.values().copied().max().unwrap_or(0));
        match end {
            Some(end) => self.end(play, &end, plays, layer),
            None => {
                let key = if self.merging { play.key() } else { layer.len() as u64 };
                layer.entry(key).and_modify(|(_, count)| *count += plays).or_insert((play, plays));
            }
        }
    }

    /// Whether the moment at which a step ends influences nothing.
    fn is_instant(&self, step: &Step) -> bool {
        let is_slow = self.world.slow;
        match step {
            Step::MakeWorkspace { .. } | Step::TakeOut { .. } | Step::RollBack { .. } => !is_slow,
            Step::Judge { .. } => !is_slow && !self.world.failures,
            Step::Pause { .. } | Step::GiveUp { .. } => true,
            Step::Attempt { .. } | Step::Land { .. } | Step::Queue { .. } | Step::LandQueued { .. } => false,
        }
    }

    fn end(&mut self, mut play: Play, end: &End, plays: u128, layer: &mut Layer) {
        let truth = &play.truth;
        assert!(truth.at_work.is_empty(), "the loop ends while an attempt is in a workspace");
        assert!(truth.queued.is_empty() || truth.is_hurried(), "the loop ends while attempts wait to be landed");
        let name = match end {
            End::AllDone => {
                assert_eq!(truth.landed.len(), self.stories.len());
                "done"
            }
            End::RetriesSpent { story } => {
                assert!(truth.failures[story] > self.policy.max_retries, "{story} is given up too early");
                "spent"
            }
            End::StillLimited { .. } if self.world.limits => "limited",
            // The run is resumed later.
            End::LimitReached | End::Stopped | End::Interrupted { .. } => {
                assert_eq!(truth.stop.is_none(), *end == End::LimitReached);
                assert!(truth.stop.is_some() || Some(truth.landed_here) == self.policy.limit, "the limit is not reached");
                play.tell(&Event::RunResumed {});
                return self.arrive(play, plays, layer);
            }
            other => panic!("{other:?}"),
        };
        assert!(*end == End::AllDone || truth.disturbed || self.world.limits, "nothing has failed, and the run ends as {end:?}");
        self.found.plays += plays;
        *self.found.ends.entry(name).or_default() += plays;
    }

    /// Checks `finish` and `abort` of a run in this state.
    fn close(&self, left: &Play, closing: Closing) {
        let mut play = left.clone();
        let (waiting, landed) = (play.truth.queued.len() + play.truth.accepted.len(), play.truth.landed.len());
        for _ in 0..LONGEST {
            for step in play.state.unfinished(closing) {
                assert!(!matches!(step, Step::Attempt { .. } | Step::MakeWorkspace { .. }), "{step:?}");
                play.running.entry(step.subject()).or_insert(step);
            }
            let Some((subject, step)) = play.running.pop_first() else { break };
            let events = play.ways(&step, &World { ..World::default() }).swap_remove(0);
            play = play.choose(&Rc::new(Choice::Done(subject, events)), &self.stories, &self.policy_of_closing());
        }
        assert!(!play.state.is_busy(), "{closing:?} leaves something half done");
        if closing == Closing::Finish && waiting > 0 {
            assert!(play.truth.landed.len() > landed, "what waits in the queue is part of a finished run");
        }
    }

    /// The policy for closing a run, which completes what was begun, whatever the limits of the loop were.
    fn policy_of_closing(&self) -> Policy {
        Policy { limit: None, ..self.policy.clone() }
    }
}

/// Stories that do not depend on each other.
fn free(count: usize) -> Vec<Story> {
    ["a", "b", "c", "d", "e"].iter().take(count).map(|name| Story::stand_in(&id(name))).collect()
}

/// `b` comes after `a`; `c` and `d` touch the same paths; `e`, if it exists, is independent.
fn graph(count: usize) -> Vec<Story> {
    let mut stories = free(count);
    stories[1].after = vec![id("a")];
    stories[2].touches = vec!["src/**".into()];
    stories[3].touches = vec!["src/db/x.rs".into()];
    stories
}

/// Runs a search and prints how far it went.
#[expect(clippy::print_stdout, reason = "the figure is what the search is for")]
fn search(name: &str, stories: &[Story], depth: usize, world: World) -> Found {
    let started = std::time::Instant::now();
    let found = Search::new(world, stories).run(depth);
    let how_far = if found.longest <= depth { "every play to its end".to_owned() } else { format!("every play to depth {depth}") };
    println!(
        "{name}: {} stories, {} jobs, {how_far}: {} plays of up to {} choices over {} states {:?}, {:.1} s",
        stories.len(),
        world.jobs,
        found.plays,
        found.longest - 1,
        found.states,
        found.ends.keys().collect::<Vec<_>>(),
        started.elapsed().as_secs_f64()
    );
    found
}

fn ends(found: &Found) -> Vec<&'static str> {
    found.ends.keys().copied().collect()
}

/// A depth that no play reaches.
const COMPLETE: usize = LONGEST;

#[test]
fn stories_that_do_not_fail_all_land_whatever_the_order_and_whatever_conflicts() {
    for (jobs, depth) in [(2, COMPLETE), (3, 12)] {
        let conflicts = World { jobs, conflicts: true, ..World::default() };
        let found = search("conflicts", &free(4), depth, conflicts);
        assert!(found.largest_batch >= jobs && found.most_defeats >= 2, "{found:?}");
        assert_eq!(ends(&found), ["done"]);
        let found = search("conflicts and commits of the user's", &graph(2 + jobs), depth, World { commits: 1, ..conflicts });
        assert_eq!(ends(&found), ["done"]);
    }
}

#[test]
fn with_one_job_each_attempt_begins_from_the_one_before_and_none_is_beaten() {
    let found =
        search("one job", &graph(4), COMPLETE, World { jobs: 1, failures: true, conflicts: true, max_retries: 1, ..World::default() });
    assert_eq!((found.most_defeats, found.largest_batch), (0, 1));
}

#[test]
fn failures_and_conflicts_in_any_order_keep_the_promises_and_end() {
    let complete = [(2, free(2), 1), (2, free(3), 0), (3, free(3), 0), (2, graph(4), 0)]
        .map(|(jobs, stories, retries)| (jobs, stories, retries, COMPLETE));
    for (jobs, stories, max_retries, depth) in complete.into_iter().chain([(3, graph(5), 1, 8)]) {
        let found = search("failures", &stories, depth, World { jobs, max_retries, failures: true, conflicts: true, ..World::default() });
        assert_eq!(ends(&found), ["done", "spent"]);
    }
}

#[test]
fn a_kill_at_any_moment_loses_nothing_that_was_accepted() {
    for jobs in [2, 3] {
        let found = search("kills", &free(3), COMPLETE, World { jobs, conflicts: true, kills: 1, ..World::default() });
        assert_eq!(ends(&found), ["done"]);
    }
}

#[test]
fn a_limit_on_stories_holds_over_all_slots_and_whatever_is_beaten_or_killed() {
    for (jobs, kills) in [(2, 1), (3, 0)] {
        let found = search("limit", &free(4), COMPLETE, World { jobs, conflicts: true, kills, limit: Some(2), ..World::default() });
        assert_eq!(ends(&found), ["done"]);
    }
}

#[test]
fn a_stop_at_any_moment_lets_everything_settle_and_a_resume_goes_on() {
    for jobs in [2, 3] {
        let found = search("stops", &free(3), COMPLETE, World { jobs, conflicts: true, stops: 1, ..World::default() });
        assert_eq!(ends(&found), ["done"]);
    }
}

#[test]
fn a_usage_limit_of_one_agent_among_several_ends_or_is_over() {
    for jobs in [2, 3] {
        let found = search("usage limits", &free(3), COMPLETE, World { jobs, limits: true, conflicts: true, ..World::default() });
        assert_eq!(ends(&found), ["done", "limited"]);
    }
}

#[test]
fn every_step_can_take_its_time() {
    for jobs in [2, 3] {
        let slow = World { jobs, slow: true, conflicts: true, ..World::default() };
        assert_eq!(ends(&search("slow steps", &graph(4), COMPLETE, slow)), ["done"]);
        let everything = World { failures: true, limits: true, commits: 1, kills: 1, stops: 1, ..slow };
        search("everything", &graph(4), 6, everything);
    }
}

/// A run in which `b`, which comes after `a`, was beaten twice.
fn beaten_twice() -> RunState {
    let mut state = opened().state;
    let started = |story: &StoryId, attempt, base: usize| Event::AttemptStarted {
        story: story.clone(),
        attempt,
        title: String::new(),
        agent: String::new(),
        gates: None,
        base: Some(oid(base)),
        slot: 0,
    };
    let queued = |story: &StoryId, attempt| {
        [
            Event::AttemptAccepted { story: story.clone(), attempt },
            Event::AttemptQueued { story: story.clone(), attempt, commit: oid(9), files: 1 },
        ]
    };
    let (a, b) = (id("a"), id("b"));
    let mut events = vec![started(&a, 1, 0)];
    events.extend(queued(&a, 1));
    events.push(Event::CheckpointLanded { story: a.clone(), attempt: 1, commit: oid(1), files: 1 });
    for attempt in 1..=2 {
        let tip = oid(attempt as usize + 1);
        let cause = DefeatCause::Conflict { paths: Vec::new(), hunks: String::new() };
        events.push(started(&b, attempt, attempt as usize));
        events.extend(queued(&b, attempt));
        events.push(Event::CommitsAdopted { checkpoint: tip.clone() });
        events.push(Event::AttemptBeaten { story: b.clone(), attempt, defeat: Defeat { tip, cause }, kept: "ref".into() });
    }
    events.push(Event::WorkspaceReady { slot: 0, path: String::new(), files: 0, bytes: 0 });
    events.iter().for_each(|event| state.apply(event));
    state
}

#[test]
fn a_story_that_was_beaten_twice_comes_first_but_not_before_the_stories_it_depends_on() {
    let policy = Policy::default();
    let stories = graph(4);
    let first = |state: &RunState| match state.next(&stories, &policy) {
        Next::Steps(steps) => steps.first().and_then(|step| step.story().cloned()),
        Next::End(end) => panic!("{end:?}"),
    };
    let mut state = beaten_twice();
    assert_eq!(first(&state), Some(id("b")));
    state.apply(&Event::Undone { to: oid(0), stories: vec![id("a")], kept: "ref".into() });
    assert_eq!(first(&state), Some(id("a")), "what it comes after was taken back");
}

#[test]
fn plays_that_are_followed_as_one_go_on_in_the_same_way() {
    let world = World { jobs: 2, failures: true, conflicts: true, ..World::default() };
    let merged = Search::new(world, &free(2)).run(COMPLETE);
    let apart = Search { merging: false, ..Search::new(world, &free(2)) }.run(COMPLETE);
    assert_eq!((merged.plays, &merged.ends, merged.longest), (apart.plays, &apart.ends, apart.longest));
    assert!(merged.states < apart.states / 2, "{merged:?} {apart:?}");
}

#[test]
fn a_simulated_run_lands_every_story_once_and_more_slots_are_no_slower_where_nothing_overlaps() {
    let scene = Scene { stories: 60, slots: 1, agent_seconds: 600.0, gate_seconds: 600.0, overlap: 0.0, seed: 1 };
    let mut before = f64::INFINITY;
    for slots in [1, 4, 16] {
        let outcome = virtual_run::play(Scene { slots, ..scene });
        assert_eq!((outcome.landed, outcome.attempts, outcome.beaten, outcome.failed_gates), (60, 60, 0, 0));
        assert!(outcome.time < before && outcome.most_at_work <= slots, "{slots}: {outcome:?}");
        assert!(outcome.largest_batch <= 2 * slots, "no more wait to be landed than work: {outcome:?}");
        before = outcome.time;
    }
}

#[test]
fn a_simulated_run_with_conflicts_repeats_only_beaten_attempts() {
    for (slots, overlap, gate_seconds) in [(2, 0.2, 30.0), (8, 0.2, 600.0), (16, 0.05, 30.0), (16, 0.5, 30.0)] {
        let scene = Scene { stories: 60, slots, agent_seconds: 600.0, gate_seconds, overlap, seed: 2 };
        let outcome = virtual_run::play(scene);
        assert_eq!((outcome.landed, outcome.attempts), (60, 60 + outcome.beaten), "{outcome:?}");
        assert!(outcome.beaten > 0 && outcome.failed_gates <= outcome.gate_runs, "{outcome:?}");
        assert!(outcome.longest_wait <= outcome.longest_story && outcome.longest_story <= outcome.time, "{outcome:?}");
        assert!(outcome.landings <= outcome.landed && outcome.decisions > outcome.attempts);
        assert_eq!(format!("{outcome:?}"), format!("{:?}", virtual_run::play(scene)), "the same scene plays out in the same way");
    }
}
