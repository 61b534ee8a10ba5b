//! Tests the machine with every sequence of outcomes up to depth 6.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use git_ralph::agent::{Signal, Trouble};
use git_ralph::config::LimitWait;
use git_ralph::cost::Cost;
use git_ralph::git::{Head, Oid};
use git_ralph::process::Exit;
use git_ralph::run::{
    Answer, Budget, End, Event, LimitWaits, Next, Opening, Outcome, Policy, Request, RunState, Span, Step, StopKind, Usage, Verdict, Why,
    Wish, judge,
};
use git_ralph::story::{Story, StoryId};

/// Every way in which an attempt can end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Green,
    RedGate,
    Failed,
    Vanished,
    Crashed,
    Conflict,
    /// git-ralph is killed while the agent works, and the run is resumed.
    Killed,
    /// git-ralph is killed after the agent has ended, and the run is resumed.
    KilledLate,
    /// The agent hits a usage limit with a known reset time.
    Limited,
    /// The agent hits a usage limit without a known reset time.
    LimitedUnknown,
    /// The agent cannot reach the model.
    Unavailable,
    /// The agent's API key is wrong.
    Misconfigured,
    /// The agent says BLOCKED: it needs the user.
    Blocked,
    /// The runner ended without reporting how the agent ended.
    Lost,
    /// The runner did not start the agent.
    NotStarted,
}

const WAYS: [Way; 8] = [Way::Green, Way::RedGate, Way::Failed, Way::Vanished, Way::Crashed, Way::Conflict, Way::Killed, Way::KilledLate];
/// Problems outside of the agent's work, and a few other ways.
const TROUBLES: [Way; 7] = [Way::Green, Way::Failed, Way::Killed, Way::Limited, Way::LimitedUnknown, Way::Unavailable, Way::Misconfigured];
/// Problems of a runner, and a few other ways.
const RUNNERS: [Way; 5] = [Way::Green, Way::Failed, Way::Killed, Way::Lost, Way::NotStarted];
const DEPTH: u32 = 6;

fn oid(number: usize) -> Oid {
    format!("{number:040x}").parse().unwrap()
}

fn opened() -> RunState {
    let mut state = RunState::default();
    let original = Head::Branch { name: "refs/heads/main".into(), oid: oid(1) };
    let opening = Opening {
        inbox: None,
        run: 1,
        id: "id".into(),
        change: "work".parse().unwrap(),
        original,
        worktree: "main".into(),
        workspaces: None,
        flags: git_ralph::config::Flags::default(),
        version: "0".into(),
    };
    state.apply(&Event::RunStarting { opening });
    state.apply(&Event::RunStarted { initial: oid(2), branch: "ralph/work".into() });
    state
}

fn stories() -> Vec<Story> {
    let ids: Vec<StoryId> = ["a", "b", "c"].iter().map(|id| id.parse().unwrap()).collect();
    let mut stories: Vec<Story> = ids.iter().map(Story::stand_in).collect();
    stories[0].after = vec![ids[1].clone()];
    stories
}

/// Plays one sequence and checks every rule on the way.
struct Play {
    state: RunState,
    ways: Vec<Way>,
    /// The ways that repeat after these.
    forever: Vec<Way>,
    played: usize,
    /// Consecutive waits for a usage limit.
    waits: u32,
    current: Way,
    counted: BTreeMap<StoryId, u32>,
    accepted: Option<(StoryId, u32)>,
    landed: Vec<StoryId>,
    policy: Policy,
    used: Usage,
}

impl Play {
    fn new(ways: Vec<Way>, max_retries: u32) -> Self {
        let policy = Policy { max_retries, ..Policy::default() };
        Play {
            state: opened(),
            ways,
            forever: vec![Way::Green],
            played: 0,
            waits: 0,
            current: Way::Green,
            counted: BTreeMap::new(),
            accepted: None,
            landed: Vec::new(),
            policy,
            used: Usage::default(),
        }
    }

    fn tell(&mut self, event: Event) {
        self.state.apply(&event);
    }

    fn next_way(&mut self) -> Way {
        let at = self.played;
        self.played += 1;
        let way = self.ways.get(at).copied().unwrap_or_else(|| self.forever[(at - self.ways.len()) % self.forever.len()]);
        if !matches!(way, Way::Limited | Way::LimitedUnknown | Way::Unavailable) {
            self.waits = 0;
        }
        way
    }

    fn perform(&mut self, step: Step) {
        match step {
            Step::Attempt { story, attempt, feedback, .. } => self.attempt(story, attempt, feedback.is_some()),
            Step::Judge { story, attempt, exit, signal, trouble, .. } => self.judge(story, attempt, &exit, &signal, trouble.as_ref()),
            Step::Pause { story, why, begun, .. } => {
                self.waits += u32::from(why == Why::Limit);
                assert!(self.waits <= self.policy.limit_waits.guessed, "never more waits for a limit than the policy says");
                if !begun {
                    self.tell(Event::PauseStarted { story: story.clone(), until: Timestamp::UNIX_EPOCH, why });
                }
                self.tell(Event::PauseEnded { story });
            }
            Step::Land { story, attempt } => {
                assert_eq!(self.accepted, Some((story.clone(), attempt)), "a checkpoint only after COMPLETE and green gates");
                if self.current == Way::Conflict {
                    self.reject(story, attempt, Outcome::Unlandable { reason: "conflict".into() });
                } else {
                    assert_eq!(self.current, Way::Green);
                    self.landed.push(story.clone());
                    self.tell(Event::CheckpointLanded { story, attempt, commit: oid(10 + self.played), files: 1 });
                }
                self.accepted = None;
            }
            Step::RollBack { story, attempt } => {
                self.tell(Event::AttemptRolledBack { story, attempt, rescue: "ref".into(), files: 0 });
            }
            Step::Queue { .. } | Step::LandQueued { .. } | Step::TakeOut { .. } | Step::MakeWorkspace { .. } => {
                panic!("only an isolated run has a queue")
            }
            Step::GiveUp { story } => self.tell(Event::StoryFailed { story, attempts: 0, outcome: None }),
        }
    }

    fn attempt(&mut self, story: StoryId, attempt: u32, feedback: bool) {
        assert!(!self.landed.contains(&story), "a finished story is never run again");
        let failures = *self.counted.get(&story).unwrap_or(&0);
        assert!(failures <= self.policy.max_retries, "never more than max-retries + 1 attempts of a story");
        let told = matches!(self.state.stories.get(&story).and_then(|progress| progress.outcome.clone()), Some(outcome) if outcome.feedback().is_some());
        assert!(!told || feedback, "what can be told about the last attempt is told");
        self.current = self.next_way();
        self.tell(Event::AttemptStarted {
            story: story.clone(),
            attempt,
            title: String::new(),
            agent: String::new(),
            gates: None,
            base: None,
            slot: 0,
        });
        let message = || "m".to_owned();
        let trouble = match self.current {
            Way::Limited => Some(Trouble::Limit { message: message(), resets: Some(Timestamp::UNIX_EPOCH) }),
            Way::LimitedUnknown => Some(Trouble::Limit { message: message(), resets: None }),
            Way::Unavailable => Some(Trouble::Unavailable { message: message() }),
            Way::Misconfigured => Some(Trouble::Configuration { message: message() }),
            _ => None,
        };
        let (exit, signal) = match self.current {
            Way::Limited | Way::LimitedUnknown | Way::Unavailable | Way::Misconfigured => (Exit::Code { code: 1 }, Signal::Complete),
            Way::Killed => return self.tell(Event::RunResumed {}),
            Way::Green | Way::RedGate | Way::Conflict | Way::KilledLate => (Exit::Success, Signal::Complete),
            Way::Failed => (Exit::Success, Signal::Failed { reason: "no".into() }),
            Way::Blocked => (Exit::Success, Signal::Blocked { needs: "help".into() }),
            Way::Vanished => (Exit::Success, Signal::Nothing),
            Way::Crashed => (Exit::Signal { signal: 9 }, Signal::Complete),
            // A promise from before the loss does not count.
            Way::Lost => (Exit::Lost { message: message() }, Signal::Complete),
            Way::NotStarted => (Exit::NotStarted { message: message() }, Signal::Nothing),
        };
        self.tell(Event::AgentEnded {
            story,
            attempt,
            exit,
            signal,
            trouble,
            usage: self.used.clone(),
            milliseconds: 1,
            waited_milliseconds: 0,
            survivors: Vec::new(),
            words: String::new(),
            tools: BTreeMap::new(),
        });
        if self.current == Way::KilledLate {
            self.current = Way::Green;
            self.tell(Event::RunResumed {});
        }
    }

    fn judge(&mut self, story: StoryId, attempt: u32, exit: &Exit, signal: &Signal, trouble: Option<&Trouble>) {
        if self.state.stories[&story].by_hand.is_some() {
            (self.accepted, self.current) = (Some((story.clone(), attempt)), Way::Green);
            return self.tell(Event::AttemptAccepted { story, attempt });
        }
        match judge(signal, exit, trouble, "") {
            Verdict::Rejected(outcome) => self.reject(story, attempt, outcome),
            Verdict::Promised if self.current == Way::RedGate => {
                let outcome = Outcome::GateFailed { command: "gate".into(), exit: Exit::Code { code: 1 }, output: String::new() };
                self.reject(story, attempt, outcome);
            }
            Verdict::Promised => {
                assert_eq!(*signal, Signal::Complete);
                self.accepted = Some((story.clone(), attempt));
                self.tell(Event::AttemptAccepted { story, attempt });
            }
        }
    }

    fn reject(&mut self, story: StoryId, attempt: u32, outcome: Outcome) {
        if outcome.costs_retry() {
            *self.counted.entry(story.clone()).or_default() += 1;
        }
        self.tell(Event::AttemptRejected { story, attempt, outcome });
    }

    fn run(mut self) -> (End, Vec<StoryId>) {
        let stories = stories();
        for _ in 0..1000 {
            match self.state.next(&stories, &self.policy) {
                Next::End(end) => return (end, self.landed),
                Next::Steps(steps) => {
                    let is_report = |step: &Step| matches!(step, Step::GiveUp { .. });
                    assert!(steps.len() == 1 || steps.iter().all(is_report), "one job, one step: {steps:?}");
                    steps.into_iter().for_each(|step| self.perform(step));
                }
            }
        }
        panic!("{:?} does not end", self.ways);
    }
}

/// The requests that a user can make during a play.
fn wishes() -> Vec<Wish> {
    let story = |id: &str| -> StoryId { id.parse().unwrap() };
    let mut wishes = vec![Wish::Hint { story: None, text: "t".into(), now: false }];
    for id in ["a", "b", "c"] {
        wishes.push(Wish::Hint { story: Some(story(id)), text: "t".into(), now: true });
        wishes.push(Wish::Skip { story: story(id) });
        wishes.push(Wish::Retry { story: story(id) });
        wishes.push(Wish::Done { story: story(id), text: None });
    }
    wishes
}

impl Play {
    /// Makes a request; returns whether it was followed.
    fn ask(&mut self, wish: &Wish, stories: &[Story]) -> bool {
        let request = Request::new(wish.clone());
        let event = match self.state.answer(&request, stories) {
            Answer::Now(event) => *event,
            Answer::ByHand { story, attempt } => {
                (self.accepted, self.current) = (Some((story.clone(), attempt)), Way::Green);
                Event::DoneByHand { request: request.id.clone(), story, attempt, text: None, edits: None }
            }
            Answer::Wait | Answer::Occupied { .. } | Answer::Refused(_) => return false,
            Answer::Known => panic!("a new request is not known"),
        };
        if let Wish::Retry { story } = wish {
            self.counted.remove(story);
        }
        self.tell(event.clone());
        assert_eq!(self.state.answer(&request, stories), Answer::Known);
        let once = self.state.clone();
        self.tell(event);
        assert_eq!(self.state, once, "a request that is read twice is followed once");
        true
    }
}

#[test]
fn every_request_at_every_point_of_a_play_is_kept_and_the_play_ends() {
    const STEERED: [Way; 5] = [Way::Green, Way::Failed, Way::Blocked, Way::Killed, Way::Conflict];
    let stories = stories();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for (number, keep_going) in (0..STEERED.len().pow(3)).flat_map(|number| [(number, false), (number, true)]) {
        let ways: Vec<Way> = (0..3).map(|at| STEERED[number / STEERED.len().pow(at) % STEERED.len()]).collect();
        for wish in wishes() {
            for point in 0..12 {
                let mut play = Play::new(ways.clone(), 1);
                play.policy.keep_going = keep_going;
                let (end, attempted, followed) = play.steered(&wish, point, &stories);
                let context = format!("{ways:?}, {wish:?} at {point}, keep going: {keep_going}, ends as {end:?}");
                let is_done = |story: &StoryId| play.landed.contains(story);
                if let (Wish::Skip { story }, true) = (&wish, followed) {
                    assert!(!attempted.contains(story), "{context}");
                    assert!(
                        story.as_str() != "b" || is_done(&"b".parse().unwrap()) || !attempted.contains(&"a".parse().unwrap()),
                        "{context}"
                    );
                }
                if let (Wish::Done { story, .. }, true) = (&wish, followed) {
                    // If an agent's landing conflicts, the story is not done, even though the user marked it.
                    assert!(is_done(story) || play.state.stories[story].rescues.len() > 1, "{context}");
                }
                match &end {
                    End::AllDone => assert!(play.landed.len() == 3 || !play.state.skipped.is_empty(), "{context}"),
                    End::NeedsUser { story, .. } => assert!(ways.contains(&Way::Blocked) && !is_done(story), "{context}"),
                    End::RetriesSpent { story } => assert!(!is_done(story), "{context}"),
                    other => panic!("{context}: {other:?}"),
                }
                *seen.entry(format!("{end:?}").split([' ', '{']).next().unwrap().to_owned()).or_default() += 1;
            }
        }
    }
    assert!(seen.len() == 3 && seen.values().all(|count| *count > 1000), "{seen:?}");
}

impl Play {
    /// Plays to the end with one request at a point; returns the end, the stories attempted after the request, and whether it was
    /// followed.
    fn steered(&mut self, wish: &Wish, point: usize, stories: &[Story]) -> (End, Vec<StoryId>, bool) {
        let (mut attempted, mut followed) = (Vec::new(), false);
        for at in 0..1000 {
            if at == point {
                followed = self.ask(wish, stories);
            }
            match self.state.next(stories, &self.policy) {
                Next::End(end) if at > point => return (end, attempted, followed),
                Next::End(_) => {}
                Next::Steps(steps) => {
                    attempted.extend(steps.iter().filter_map(|step| match step {
                        Step::Attempt { story, .. } if followed => Some(story.clone()),
                        _ => None,
                    }));
                    steps.into_iter().for_each(|step| self.perform(step));
                }
            }
        }
        panic!("{:?} does not end", self.ways);
    }
}

#[test]
fn a_story_without_retries_or_a_blocked_one_holds_up_only_the_stories_after_it() {
    for (way, keep_going) in [(Way::Failed, true), (Way::Blocked, false), (Way::Blocked, true)] {
        // `b` is the first story, `a` comes after it, `c` is independent.
        let mut play = Play::new(vec![way], 0);
        play.policy.keep_going = keep_going;
        let (end, landed) = play.run();
        let b: StoryId = "b".parse().unwrap();
        let expected = if way == Way::Failed { End::RetriesSpent { story: b } } else { End::NeedsUser { story: b, needs: "help".into() } };
        assert_eq!((end, landed), (expected, vec!["c".parse().unwrap()]));
    }
}

#[test]
fn every_sequence_of_outcomes_to_depth_6_keeps_the_promises_and_ends() {
    let order: Vec<StoryId> = ["b", "a", "c"].iter().map(|id| id.parse().unwrap()).collect();
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    for max_retries in 0..=2 {
        for number in 0..WAYS.len().pow(DEPTH) {
            let ways: Vec<Way> = (0..DEPTH).map(|at| WAYS[number / WAYS.len().pow(at) % WAYS.len()]).collect();
            let (end, landed) = Play::new(ways.clone(), max_retries).run();
            assert!(order.starts_with(&landed), "{ways:?}: landed in the order of `after`: {landed:?}");
            match &end {
                End::AllDone => assert_eq!(landed.len(), 3, "{ways:?}"),
                End::RetriesSpent { story } => assert_eq!(order.get(landed.len()), Some(story), "{ways:?}"),
                other => panic!("{ways:?} ends as {other:?}"),
            }
            *ends.entry(format!("{max_retries} {}", if end == End::AllDone { "done" } else { "spent" })).or_default() += 1;
        }
    }
    assert_eq!(ends.values().sum::<u32>(), 3 * 8u32.pow(DEPTH));
    assert!(ends.values().all(|count| *count > 1000), "every kind of end is reached: {ends:?}");
}

#[test]
fn trouble_around_agents_never_lands_and_a_limit_costs_no_retry() {
    let mut ends: BTreeMap<&str, u32> = BTreeMap::new();
    for max_retries in 0..=2 {
        for number in 0..TROUBLES.len().pow(DEPTH) {
            let ways: Vec<Way> = (0..DEPTH).map(|at| TROUBLES[number / TROUBLES.len().pow(at) % TROUBLES.len()]).collect();
            let (end, landed) = Play::new(ways.clone(), max_retries).run();
            let costly = |way: &&Way| matches!(way, Way::Failed | Way::Unavailable);
            *ends
                .entry(match &end {
                    End::AllDone => {
                        assert_eq!(landed.len(), 3, "{ways:?}");
                        "done"
                    }
                    End::RetriesSpent { .. } => {
                        assert!(ways.iter().filter(costly).count() > max_retries as usize, "{ways:?}: a limit has cost a retry");
                        "spent"
                    }
                    End::Misconfigured { .. } => {
                        assert!(ways.contains(&Way::Misconfigured), "{ways:?}");
                        "misconfigured"
                    }
                    other => panic!("{ways:?} ends as {other:?}"),
                })
                .or_default() += 1;
        }
    }
    assert!(ends.len() == 3 && ends.values().all(|count| *count > 1000), "every kind of end is reached: {ends:?}");
}

#[test]
fn an_agent_that_a_runner_loses_or_cannot_start_never_lands_and_costs_no_retry() {
    let mut ends: BTreeMap<&str, u32> = BTreeMap::new();
    for max_retries in 0..=2 {
        for number in 0..RUNNERS.len().pow(DEPTH) {
            let ways: Vec<Way> = (0..DEPTH).map(|at| RUNNERS[number / RUNNERS.len().pow(at) % RUNNERS.len()]).collect();
            let (end, landed) = Play::new(ways.clone(), max_retries).run();
            *ends
                .entry(match &end {
                    End::AllDone => {
                        assert_eq!(landed.len(), 3, "{ways:?}");
                        "done"
                    }
                    End::RetriesSpent { .. } => {
                        let failed = ways.iter().filter(|way| **way == Way::Failed).count();
                        assert!(failed > max_retries as usize, "{ways:?}: the runner has cost a retry");
                        "spent"
                    }
                    End::RunnerFailed { times, .. } => {
                        let is_runners = |way: &Way| matches!(way, Way::Lost | Way::NotStarted);
                        let longest = ways.split(|way| !is_runners(way)).map(<[Way]>::len).max();
                        assert!(*times >= 3 && longest.is_some_and(|most| most >= 3), "{ways:?}: not often enough in a row");
                        "runner failed"
                    }
                    other => panic!("{ways:?} ends as {other:?}"),
                })
                .or_default() += 1;
        }
    }
    assert!(ends.len() == 3 && ends.values().all(|count| *count > 1000), "every kind of end is reached: {ends:?}");
}

#[test]
fn a_runner_that_fails_every_time_ends_the_loop_and_a_resume_tries_again() {
    for (way, most, longest) in [(Way::NotStarted, 3, 4), (Way::Lost, 10, 300)] {
        let mut play = Play::new(Vec::new(), 0);
        play.forever = vec![way];
        let mut waits = Vec::new();
        let end = loop {
            match play.state.next(&stories(), &play.policy) {
                Next::End(end) => break end,
                Next::Steps(steps) => steps.into_iter().for_each(|step| {
                    if let Step::Pause { span: Span::For(duration), why: Why::Runner, .. } = &step {
                        waits.push(duration.as_secs());
                    }
                    play.perform(step);
                }),
            }
        };
        assert_eq!(end, End::RunnerFailed { times: most, message: "m".into() });
        assert!(waits.starts_with(&[2, 4]) && waits.len() == most as usize - 1 && waits.last() == Some(&longest), "{waits:?}");
        play.tell(Event::LoopEnded { end });
        assert!(!play.state.is_closed(), "the run stays open");
        play.tell(Event::RunResumed {});
        let Next::Steps(steps) = play.state.next(&stories(), &play.policy) else { panic!("a resume tries again") };
        assert!(matches!(steps[..], [Step::Attempt { .. }]), "{steps:?}");
    }
}

#[test]
fn agents_that_a_runner_loses_together_are_one_failure_and_those_it_has_not_lost_work_on() {
    let mut state = opened();
    let policy = Policy { jobs: 4, ..Policy::default() };
    let stories: Vec<Story> = (0..4).map(|n| Story::stand_in(&format!("s{n}").parse().unwrap())).collect();
    for (slot, story) in stories.iter().enumerate() {
        state.apply(&Event::AttemptStarted {
            story: story.id.clone(),
            attempt: 1,
            title: String::new(),
            agent: String::new(),
            gates: None,
            base: None,
            slot: u32::try_from(slot).unwrap(),
        });
    }
    for story in stories.iter().take(3).map(|story| story.id.clone()) {
        let outcome = Outcome::Lost { message: "m".into() };
        state.apply(&Event::AttemptRejected { story: story.clone(), attempt: 1, outcome });
        state.apply(&Event::AttemptRolledBack { story, attempt: 1, rescue: "ref".into(), files: 0 });
    }
    let Next::Steps(steps) = state.next(&stories, &policy) else { panic!("three agents lost at once are one failure") };
    let [Step::Pause { story, span: Span::For(wait), why: Why::Runner, .. }] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(*wait, Duration::from_secs(2), "the pause is not put off until the agent that is still at work ends");
    state.apply(&Event::PauseStarted { story: story.clone(), until: Timestamp::UNIX_EPOCH, why: Why::Runner });
    state.apply(&Event::PauseEnded { story: story.clone() });
    let Next::Steps(steps) = state.next(&stories, &policy) else { panic!("they are tried again") };
    assert_eq!(steps.iter().filter(|step| matches!(step, Step::Attempt { .. })).count(), 3, "{steps:?}");
}

/// Every way except those in which git-ralph is started again each time.
const REPEATED: [Way; 13] = [
    Way::Green,
    Way::RedGate,
    Way::Failed,
    Way::Vanished,
    Way::Crashed,
    Way::Conflict,
    Way::KilledLate,
    Way::Limited,
    Way::LimitedUnknown,
    Way::Unavailable,
    Way::Misconfigured,
    Way::Lost,
    Way::NotStarted,
];

#[test]
fn every_play_ends_whatever_happens_again_and_again_forever() {
    let begin = [&REPEATED[..], &[Way::Killed]].concat();
    let mut ends: BTreeMap<&str, u32> = BTreeMap::new();
    let pick = |from: &[Way], number: usize, count: u32| -> Vec<Way> {
        (0..count).map(|at| from[number / from.len().pow(at) % from.len()]).collect()
    };
    for number in 0..begin.len().pow(2) {
        for cycle in 0..REPEATED.len().pow(2) {
            let mut play = Play::new(pick(&begin, number, 2), 1);
            play.forever = pick(&REPEATED, cycle, 2);
            play.policy.limit_waits = LimitWaits { announced: 2, guessed: 3 };
            let ways = (play.ways.clone(), play.forever.clone());
            let happens = |way: Way| ways.0.contains(&way) || ways.1.contains(&way);
            let (end, landed) = play.run();
            *ends
                .entry(match &end {
                    End::AllDone => {
                        assert_eq!(landed.len(), 3, "{ways:?}");
                        "done"
                    }
                    End::RetriesSpent { .. } => "spent",
                    End::Misconfigured { .. } => {
                        assert!(happens(Way::Misconfigured), "{ways:?}");
                        "misconfigured"
                    }
                    End::StillLimited { waits, resets } => {
                        let (way, most) = if resets.is_some() { (Way::Limited, 2..=3) } else { (Way::LimitedUnknown, 3..=3) };
                        assert!(happens(way) && most.contains(waits), "{ways:?} ends as {end:?}");
                        "still limited"
                    }
                    End::RunnerFailed { .. } => {
                        assert!(happens(Way::Lost) || happens(Way::NotStarted), "{ways:?}");
                        "runner failed"
                    }
                    other => panic!("{ways:?} ends as {other:?}"),
                })
                .or_default() += 1;
        }
    }
    assert!(ends.len() == 5 && ends.values().all(|count| *count > 100), "every kind of end is reached: {ends:?}");
}

#[test]
fn a_limit_that_is_there_after_every_wait_ends_the_loop_and_a_resume_tries_again() {
    for (way, resets, most) in [(Way::Limited, Some(Timestamp::UNIX_EPOCH), 10), (Way::LimitedUnknown, None, 30)] {
        let mut play = Play::new(Vec::new(), 0);
        play.forever = vec![way];
        let mut waited = Duration::ZERO;
        let end = loop {
            match play.state.next(&stories(), &play.policy) {
                Next::End(end) => break end,
                Next::Steps(steps) => steps.into_iter().for_each(|step| {
                    if let Step::Pause { span: Span::For(duration), .. } = &step {
                        waited += *duration;
                    }
                    play.perform(step);
                }),
            }
        };
        assert_eq!(end, End::StillLimited { waits: most, resets });
        assert!(resets.is_some() || waited > Duration::from_hours(24), "a quota that is renewed once per day is waited for: {waited:?}");
        play.tell(Event::LoopEnded { end });
        assert!(!play.state.is_closed(), "the run stays open");
        play.tell(Event::RunResumed {});
        let Next::Steps(steps) = play.state.next(&stories(), &play.policy) else { panic!("a resume tries again") };
        assert!(matches!(steps[..], [Step::Attempt { .. }]), "{steps:?}");
    }
}

#[test]
fn limits_of_agents_that_work_at_the_same_time_are_waited_for_once() {
    let mut state = opened();
    let policy = Policy { jobs: 8, limit_waits: LimitWaits { announced: 1, guessed: 1 }, ..Policy::default() };
    let stories: Vec<Story> = (0..8).map(|n| Story::stand_in(&format!("s{n}").parse().unwrap())).collect();
    for story in stories.iter().map(|story| story.id.clone()) {
        state.apply(&Event::AttemptStarted {
            story,
            attempt: 1,
            title: String::new(),
            agent: String::new(),
            gates: None,
            base: None,
            slot: 0,
        });
    }
    for story in stories.iter().map(|story| story.id.clone()) {
        let outcome = Outcome::Limited { message: "m".into(), resets: None };
        state.apply(&Event::AttemptRejected { story: story.clone(), attempt: 1, outcome });
        state.apply(&Event::AttemptRolledBack { story, attempt: 1, rescue: "ref".into(), files: 0 });
    }
    let Next::Steps(steps) = state.next(&stories, &policy) else { panic!("eight limits at once are one") };
    assert!(matches!(steps[..], [Step::Pause { span: Span::For(wait), .. }] if wait == Duration::from_secs(300)), "{steps:?}");
}

#[test]
fn waits_of_unknown_length_grow_and_are_over_when_a_story_lands() {
    let policy = Policy { limit_pause: Duration::from_secs(300), ..Policy::default() };
    let mut play = Play::new([&[Way::LimitedUnknown; 6][..], &[Way::Green, Way::LimitedUnknown]].concat(), 0);
    let mut waits = Vec::new();
    while let Next::Steps(steps) = play.state.next(&stories(), &policy) {
        for step in steps {
            if let Step::Pause { span: Span::For(duration), .. } = &step {
                waits.push(duration.as_secs() / 60);
            }
            play.perform(step);
        }
    }
    assert_eq!(waits, [5, 10, 20, 40, 60, 60, 5]);
}

#[test]
fn a_wait_survives_a_restart_and_a_user_can_try_without_waiting() {
    let (story, until) = ("b".parse::<StoryId>().unwrap(), Timestamp::from_second(4_000_000_000).unwrap());
    let mut play = Play::new(vec![Way::Limited], 0);
    let limited = |play: &mut Play, policy: &Policy| match play.state.next(&stories(), policy) {
        Next::Steps(steps) => steps.into_iter().next().unwrap(),
        Next::End(end) => panic!("{end:?}"),
    };
    let policy = Policy::default();
    while !matches!(limited(&mut play, &policy), Step::Pause { .. }) {
        let step = limited(&mut play, &policy);
        play.perform(step);
    }
    let stop = Policy { limit_wait: LimitWait::Stop, ..Policy::default() };
    assert_eq!(play.state.next(&stories(), &stop), Next::End(End::UsageLimit { resets: Some(Timestamp::UNIX_EPOCH) }));
    play.tell(Event::PauseStarted { story: story.clone(), until, why: Why::Limit });
    play.tell(Event::RunResumed {});
    assert_eq!(limited(&mut play, &policy), Step::Pause { story, why: Why::Limit, span: Span::Until(until), begun: true });
    assert!(matches!(limited(&mut play, &stop), Step::Attempt { .. }));
}

#[test]
fn a_budget_ends_the_loop_before_the_next_agent_and_a_bigger_one_goes_on() {
    let used = Usage { input: 900, output: 100, cost: Cost::dollars(0.5), ..Usage::default() };
    let mut play = Play::new(vec![Way::Failed], 3);
    play.used = used;
    let broke = Policy { max_cost: Cost::dollars(0.5), ..Policy::default() };
    let counted = Policy { max_tokens: Some(1000), ..Policy::default() };
    let rich = Policy { max_cost: Cost::dollars(0.6), max_tokens: Some(1001), ..Policy::default() };
    while !play.state.stories.values().any(|progress| !progress.rescues.is_empty()) {
        let Next::Steps(steps) = play.state.next(&stories(), &broke) else { panic!("ended too early") };
        steps.into_iter().for_each(|step| play.perform(step));
    }
    let spent = |policy: &Policy| match play.state.next(&stories(), policy) {
        Next::End(End::BudgetSpent { spent }) => Some(spent),
        _ => None,
    };
    assert_eq!(spent(&broke), Some(Budget::Cost { used: Cost::dollars(0.5).unwrap(), most: Cost::dollars(0.5).unwrap() }));
    assert_eq!(spent(&counted), Some(Budget::Tokens { used: 1000, most: 1000 }));
    assert_eq!(spent(&rich), None);
}

#[test]
fn a_stop_at_any_moment_lets_half_attempts_settle_and_then_ends() {
    let stories = stories();
    for how in [StopKind::AfterAttempt, StopKind::Now, StopKind::Interrupt, StopKind::Terminate] {
        for after in 0..12 {
            let mut play = Play::new(vec![Way::Green, Way::Failed, Way::RedGate, Way::Green, Way::Green], 3);
            let mut stopped = false;
            let end = (0..100).find_map(|at| {
                if at == after {
                    play.tell(Event::StopRequested { how });
                    stopped = true;
                }
                match play.state.next(&stories, &play.policy) {
                    Next::End(end) => Some(end),
                    Next::Steps(steps) => {
                        assert!(!stopped || !steps.iter().any(|step| matches!(step, Step::Attempt { .. })), "no attempt after a stop");
                        steps.into_iter().for_each(|step| play.perform(step));
                        None
                    }
                }
            });
            assert!(!play.state.is_busy());
            match end.unwrap() {
                End::Stopped => assert!(matches!(how, StopKind::AfterAttempt | StopKind::Now)),
                End::Interrupted { how: kind } => assert_eq!(kind, how),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn the_machine_offers_every_step_that_could_start_now() {
    let state = opened();
    let policy = |jobs| Policy { jobs, ..Policy::default() };
    let offered = |jobs| match state.next(&stories(), &policy(jobs)) {
        Next::Steps(steps) => steps.iter().filter_map(|step| step.story().map(ToString::to_string)).collect::<Vec<_>>(),
        Next::End(end) => panic!("{end:?}"),
    };
    assert_eq!(offered(1), ["b"]);
    assert_eq!(offered(8), ["b", "c"], "not a, which waits for b");
}
