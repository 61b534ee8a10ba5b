//! The state machine: decides from the state of a run which steps may come next. Pure, no I/O, not async.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::event::{Budget, StopKind, Why};
use super::{End, LimitWaits, Outcome, Pause, Phase, Policy, Progress, RunState, RunnerFailures, Span, Stage, Step};
use crate::agent::Signal;
use crate::config::{Finish, LimitWait};
use crate::process::Exit;
use crate::story::{Order, Story, StoryId, overlap};

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

impl RunState {
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
        let is_open = move |after: &StoryId| !self.marked_done.contains(after) && !self.has_landed(after) && is_there(after);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::agent::Usage;
    use crate::run::Event;

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
    fn closing_a_run_offers_the_remaining_steps_of_attempts_and_starts_none() {
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
