//! Generates a plan from a seed: the actions of the user and the agents, the kills, and how the run ends. Pure.

use std::fmt;

use super::deeds::{DEEDS, Who, is_favoured, is_on};

/// One action, as a shell script.
#[derive(Debug)]
pub struct Deed {
    pub name: &'static str,
    pub shell: String,
}

/// How an agent ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Complete,
    Failed,
    /// It ends without a promise.
    Vanished,
    /// It ends with exit status 1 and without a promise.
    Broken,
    /// It prints a promise, then ends with exit status 1.
    CompleteButBroken,
    /// It is killed by a signal.
    Killed,
}

/// The actions of one agent process, whichever story it gets.
#[derive(Debug)]
pub struct Attempt {
    pub deeds: Vec<Deed>,
    /// The agent kills git-ralph after this many actions.
    pub kills_after: Option<usize>,
    /// The gate kills git-ralph.
    pub gate_kills: bool,
    pub verdict: Verdict,
}

/// Where a command is disturbed; always determined by a count or an event, never by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// git-ralph is killed just before its n-th git call.
    RalphBefore(usize),
    /// git-ralph is killed just after its n-th git call.
    RalphAfter(usize),
    /// git-ralph is killed at the first git call after this event is in the journal.
    RalphAtEvent(&'static str),
    /// As `RalphAtEvent`, and the journal also ends with part of another line.
    RalphInJournal(&'static str),
    /// The n-th git process is killed before it does anything.
    GitBefore(usize),
    /// The n-th git process is killed after it has done its work.
    GitAfter(usize),
}

/// A git-ralph command of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `start`, or `resume` if a run is open.
    Work,
    Undo,
    Cleanup,
    Keep,
    Abort,
}

/// The user performs actions, then types a command, which may be killed.
#[derive(Debug)]
pub struct Step {
    pub user: Vec<Deed>,
    pub command: Command,
    pub kill: Option<Kill>,
}

#[derive(Debug)]
pub struct Plan {
    pub seed: u64,
    pub stories: u64,
    /// The user's actions before the start.
    pub before: Vec<Deed>,
    pub attempts: Vec<Attempt>,
    /// The last step is not killed, so the run ends with it.
    pub steps: Vec<Step>,
    /// The user's actions after the end of the run.
    pub after: Vec<Deed>,
}

impl Plan {
    pub fn from_seed(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let stories = 1 + dice.below(3);
        let before = dice.deeds(Who::Before, 8);
        let attempts = (0..2 + dice.below(4)).map(|_| dice.attempt()).collect();
        let mut steps = vec![Step { user: Vec::new(), command: Command::Work, kill: dice.kill(4) }];
        for _ in 0..dice.below(4) {
            steps.push(Step { user: dice.user(), command: Command::Work, kill: dice.kill(4) });
        }
        if dice.one_in(4) {
            steps.push(Step { user: dice.user(), command: Command::Undo, kill: dice.kill(3) });
            if dice.one_in(2) {
                steps.push(Step { user: dice.user(), command: Command::Work, kill: None });
            }
        }
        let end = *dice.pick(&[Command::Cleanup, Command::Cleanup, Command::Keep, Command::Abort, Command::Abort]);
        while let Some(kill) = dice.kill(3) {
            steps.push(Step { user: dice.user(), command: end, kill: Some(kill) });
        }
        steps.push(Step { user: dice.user(), command: end, kill: None });
        Plan { seed, stories, before, attempts, steps, after: dice.user() }
    }
}

/// A small random number generator (SplitMix64), so that a seed always gives the same plan.
struct Dice {
    state: u64,
    tokens: u64,
    seed: u64,
}

impl Dice {
    fn new(seed: u64) -> Self {
        Dice { state: seed.wrapping_mul(0x2545_F491_4F6C_DD1D), tokens: 0, seed }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }

    /// Up to `most` actions. Those that are switched off are drawn and then left out, so that the rest of the plan does not change.
    fn deeds(&mut self, who: Who, most: u64) -> Vec<Deed> {
        let known: Vec<_> = DEEDS.iter().filter(|deed| deed.by.contains(&who)).collect();
        let mut drawn = Vec::new();
        for _ in 0..self.below(most + 1) {
            let favoured: Vec<_> = known.iter().copied().filter(|deed| is_favoured(deed.name)).collect();
            let from = if !favoured.is_empty() && self.one_in(2) { &favoured } else { &known };
            let kind = *self.pick(from);
            drawn.push(self.fill_in(kind.name, kind.shell));
        }
        drawn.retain(|deed| is_on(deed.name));
        drawn
    }

    /// The actions of the user; none in a third of all cases.
    fn user(&mut self) -> Vec<Deed> {
        self.deeds(Who::User, 2)
    }

    /// Fills in a template: `$F` and `$G` are files, `$N` a new one, `$I` an ignored one, `$B` a branch, `$T` and `$U` unique contents.
    fn fill_in(&mut self, name: &'static str, template: &str) -> Deed {
        const FILES: [&str; 6] = ["a", "b", "c.txt", "d.crlf", "sub/e", "sub/deep/f"];
        let values = [
            ("$F", (*self.pick(&FILES)).to_owned()),
            ("$G", (*self.pick(&FILES)).to_owned()),
            ("$N", format!("new/{}", self.below(6))),
            ("$I", (*self.pick(&[".env", "x.ign", "sub/y.ign"])).to_owned()),
            ("$B", (*self.pick(&["side", "topic"])).to_owned()),
            ("$T", self.token()),
            ("$U", self.token()),
        ];
        let shell = values.iter().fold(template.to_owned(), |shell, (place, value)| shell.replace(place, value));
        Deed { name, shell }
    }

    fn token(&mut self) -> String {
        self.tokens += 1;
        format!("token-{}-{}", self.seed, self.tokens)
    }

    fn attempt(&mut self) -> Attempt {
        let deeds = self.deeds(Who::Agent, 6);
        let kills_after = self.one_in(4).then(|| usize::try_from(self.below(7)).unwrap().min(deeds.len()));
        let verdicts = [
            Verdict::Complete,
            Verdict::Complete,
            Verdict::Complete,
            Verdict::Failed,
            Verdict::Failed,
            Verdict::Vanished,
            Verdict::Broken,
            Verdict::CompleteButBroken,
            Verdict::Killed,
        ];
        let verdict = *self.pick(&verdicts);
        let verdict = if is_on(&format!("{verdict:?}")) { verdict } else { Verdict::Broken };
        Attempt { deeds, kills_after, gate_kills: self.one_in(8), verdict }
    }

    /// A kill in `n` of five cases.
    fn kill(&mut self, n: u64) -> Option<Kill> {
        let at = 1 + usize::try_from(self.below(24)).unwrap();
        let events = [
            "run-starting",
            "run-started",
            "run-resumed",
            "agent-ended",
            "attempt-accepted",
            "attempt-rejected",
            "attempt-rolled-back",
            "checkpoint-landed",
            "undo-started",
            "finish-started",
            "abort-started",
        ];
        let event = *self.pick(&events);
        let kinds = [
            Kill::RalphBefore(at),
            Kill::RalphAfter(at),
            Kill::RalphAfter(at),
            Kill::RalphAtEvent(event),
            Kill::RalphInJournal(event),
            Kill::GitBefore(at),
            Kill::GitAfter(at),
        ];
        let kill = *self.pick(&kinds);
        (self.below(5) < n).then_some(kill)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |out: &mut fmt::Formatter<'_>, deeds: &[Deed]| {
            deeds.iter().try_for_each(|deed| writeln!(out, "    {}: {}", deed.name, deed.shell))
        };
        writeln!(out, "{} stories; before the start the user does", self.stories)?;
        list(out, &self.before)?;
        for (turn, attempt) in self.attempts.iter().enumerate() {
            let Attempt { kills_after, gate_kills, verdict, .. } = attempt;
            writeln!(out, "  agent {turn} ends as {verdict:?}, kills git-ralph after deed {kills_after:?}, gate kills it: {gate_kills}")?;
            list(out, &attempt.deeds)?;
        }
        for step in &self.steps {
            writeln!(out, "  {:?}, disturbed: {:?}, when the user has done", step.command, step.kill)?;
            list(out, &step.user)?;
        }
        writeln!(out, "  afterwards the user does")?;
        list(out, &self.after)
    }
}
