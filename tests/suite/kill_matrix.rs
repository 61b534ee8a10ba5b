//! Kill anywhere: every command, disturbed at every git call and every journal write, ends where it would have ended.

pub mod ending;
mod isolated;
pub mod scene;
pub mod stand_in;

use std::fs;

use ending::{Ending, broken, lost};
use scene::Scene;
use stand_in::{Call, Mode, arm, arm_at, calls, count, disarm};

use crate::support::{Output, World};

/// A command, where it starts, and by which event one sees that it is done. One more command is one more of these, and its tests.
struct Row<'a> {
    name: &'a str,
    prepare: fn(&World),
    command: &'a [&'a str],
    done: fn(&serde_json::Value) -> bool,
    order: Order,
}

/// Whether two undisturbed runs of a command do the same things in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Fixed,
    /// Two stories are in flight: calls interleave, and either lands first.
    Any,
}

const START: Row = Row { name: "start", prepare: |_| {}, command: &["start", "work", "--", "agent"], done: all_done, order: Order::Fixed };
const RESUME: Row = Row { name: "resume", prepare: stopped, command: &["resume"], done: all_done, order: Order::Fixed };
const CLEANUP: Row = Row { name: "finish --cleanup", prepare: worked, command: &["finish", "--cleanup"], done: over, order: Order::Fixed };
const CLEANUP_MOVED: Row =
    Row { name: "finish --cleanup, original moved", prepare: moved, command: &["finish", "--cleanup"], done: over, order: Order::Fixed };
const CLEANUP_FAR: Row = Row {
    name: "finish --cleanup, original moved far",
    prepare: moved_far,
    command: &["finish", "--cleanup"],
    done: over,
    order: Order::Fixed,
};
const KEEP: Row = Row { name: "finish --keep", prepare: worked, command: &["finish", "--keep"], done: over, order: Order::Fixed };
const ABORT: Row = Row { name: "abort", prepare: worked, command: &["abort"], done: over, order: Order::Fixed };
const ABORT_CLEAN: Row = Row { name: "abort, nothing uncommitted", prepare: clean, command: &["abort"], done: over, order: Order::Fixed };
const ABORT_HALF: Row = Row { name: "abort, half an attempt", prepare: half, command: &["abort"], done: over, order: Order::Fixed };
const CLEANUP_HALF: Row =
    Row { name: "finish --cleanup, half an attempt", prepare: half, command: &["finish", "--cleanup"], done: over, order: Order::Fixed };
const UNDO: Row = Row { name: "undo", prepare: worked, command: &["undo"], done: undone, order: Order::Fixed };

const CARELESS: Row = Row {
    name: "start, a merge left and an ignored file deleted",
    prepare: World::careless_agent,
    command: &["start", "work", "--", "agent"],
    done: all_done,
    order: Order::Fixed,
};

fn undone(event: &serde_json::Value) -> bool {
    event["event"] == "undone"
}

fn all_done(event: &serde_json::Value) -> bool {
    event["event"] == "loop-ended" && event["end"]["why"] == "all-done"
}

fn over(event: &serde_json::Value) -> bool {
    event["event"] == "finished" || event["event"] == "aborted"
}

/// One story has landed, and the user has edited since.
fn stopped(world: &World) {
    world.start(&["--limit", "1"]).code(0);
    world.write("unstaged", "edited between\n");
    world.write("between", "new between\n");
}

fn worked(world: &World) {
    world.start(&[]).code(0);
}

/// The run is done, and all there is besides the last commit is what it did.
fn clean(world: &World) {
    world.git(&["reset", "-q", "--hard"]);
    world.git(&["clean", "-q", "-fd"]);
    worked(world);
}

/// The run is done, and somebody has committed to the original branch meanwhile.
fn moved(world: &World) {
    worked(world);
    commit_elsewhere(world, 1);
}

/// The run is done, and it is less than what somebody has committed to the original branch meanwhile.
fn moved_far(world: &World) {
    clean(world);
    commit_elsewhere(world, 20);
}

fn commit_elsewhere(world: &World, files: usize) {
    world.git(&["worktree", "add", "-q", "../elsewhere", "main"]);
    for number in 1..=files {
        fs::write(world.path(&format!("../elsewhere/theirs-{number}")), "theirs\n").unwrap();
    }
    world.git(&["-C", "../elsewhere", "add", "-A"]);
    world.git(&["-C", "../elsewhere", "commit", "-qm", "theirs"]);
    world.git(&["worktree", "remove", "../elsewhere"]);
}

/// The agent has killed git-ralph in the middle of its first attempt.
fn half(world: &World) {
    arm(world, Mode::Agent, 4);
    world.start(&[]).code(-9);
    assert!(disarm(world));
}

/// Where a run can have been killed, and how it gets there.
type Killed = (&'static str, fn(&World));

/// Those of a run that has begun.
const STAGES: [Killed; 5] = [
    ("working", half),
    ("ended", ended),
    ("accepted", |world| killed_at(world, "attempt-accepted", "")),
    ("rejected", |world| killed_at(world, "attempt-rejected", "")),
    ("rolled back", rolled_back),
];

/// Those of one that has not begun yet, or only half.
const BEGINNINGS: [Killed; 2] =
    [("starting", |world| killed_at(world, "run-starting", "")), ("half started", |world| killed_at(world, "run-starting", "update-ref"))];

/// The run was killed when that event was the last one in its journal, after a git call with those words if there are any.
fn killed_at(world: &World, event: &str, words: &str) {
    arm_at(world, event, words);
    world.start(&[]).code(-9);
    assert!(disarm(world));
}

/// The run was killed by the first gate of an attempt, before there was a verdict.
fn ended(world: &World) {
    let deadly = world.outside("deadly");
    fs::write(&deadly, "").unwrap();
    world.stories(2, &format!("max-retries = 3\nverify = ['test ! -e {0} || {{ rm {0}; kill -9 $PPID; }}']", deadly.display()));
    world.start(&[]).code(-9);
    assert!(!deadly.exists());
}

/// The run was killed when its first attempt was rolled back, just before the second one was written down.
fn rolled_back(world: &World) {
    arm(world, Mode::Agent, 5);
    world.start(&[]).code(-9);
    assert!(disarm(world));
    let journal = world.run_dir().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (last, before) = lines.split_last().unwrap();
    assert!(last.contains("\"attempt-started\"") && before.last().unwrap().contains("\"attempt-rolled-back\""), "{text}");
    fs::write(&journal, before.concat()).unwrap();
}

/// A row on its scene, with what an undisturbed run of it does and where it ends.
struct Stage<'a> {
    row: &'a Row<'a>,
    scene: Scene,
    calls: Vec<Call>,
    expected: Ending,
    before_the_start: Ending,
}

impl<'a> Stage<'a> {
    fn new(row: &'a Row<'a>) -> Self {
        let scene = Scene::new(row.prepare);
        scene.restore(if row.command[0] == "start" { "before" } else { "messy" });
        let mut before_the_start = Ending::of_the_users(&scene.world);
        scene.restore("before");
        if scene.workspaces().exists() {
            // An isolated run takes nothing of the user's back: edits that were made since it began stay.
            scene.world.ralph(&["abort"]).code(0);
            before_the_start = Ending::of_the_users(&scene.world);
            scene.restore("before");
        }
        count(&scene.world);
        scene.world.ralph(row.command).code(0);
        disarm(&scene.world);
        let calls = calls(&scene.world);
        scene.save("after");
        let expected = Ending::of(&scene, row.order);
        Stage { row, scene, calls, expected, before_the_start }
    }

    /// Disturbs the command at one call; gives what it said, or nothing if it never got there.
    fn disturb(&self, mode: Mode, at: usize) -> Option<Output> {
        let world = &self.scene.world;
        self.scene.restore("before");
        if mode == Mode::Hang {
            world.git(&["config", "ralph.gitTimeout", "1s"]);
        }
        arm(world, mode, at);
        let output = world.ralph(self.row.command);
        let fired = disarm(world);
        // A rollback takes the configuration back to what it was before the attempt.
        if mode == Mode::Hang && world.read(".git/config").contains("[ralph]") {
            world.git(&["config", "--remove-section", "ralph"]);
        }
        fired.then_some(output)
    }

    /// Does what a user does: types the command again, or `resume`, until it is done. A refusal must say what to type.
    fn recover(&self, resume_first: bool, told: &mut Vec<String>) -> Result<(), String> {
        // A resumed run would go on with the stories that an undo has just opened again.
        let commands = [self.row.command, if self.row.command[0] == "undo" { self.row.command } else { &["resume"] }];
        let resume_first = resume_first && self.is_under_way();
        for turn in usize::from(resume_first)..5 {
            if self.scene.events().last().is_some_and(self.row.done) {
                return Ok(());
            }
            let output = self.scene.world.ralph(commands[turn % 2]);
            told.push(format!("{:?} -> {}\n{}", commands[turn % 2], output.code, output.stderr));
            if output.code != 0 && !output.stderr.contains("hint: git ralph") {
                return Err("it does not say what to type".to_owned());
            }
        }
        Err("it does not get done".to_owned())
    }

    /// Whether `resume` takes up what was asked for. Before a way back is written down, it would go on with the stories.
    fn is_under_way(&self) -> bool {
        let back = |event: &serde_json::Value| event["event"] == "finish-started" || event["event"] == "abort-started";
        self.row.command[0] == "start" || self.row.command[0] == "resume" || self.scene.events().iter().any(back)
    }

    /// Compares, then goes back to before the start, which shows whether the user's index survived it.
    fn verify(&self) -> Result<(), String> {
        let mut wrong = Ending::of(&self.scene, self.row.order).differences(&self.expected);
        wrong.extend(lost(&self.scene));
        wrong.extend(broken(&self.scene));
        if !self.scene.events().last().is_some_and(over) {
            let output = self.scene.world.ralph(&["abort"]);
            if output.code != 0 {
                wrong.push(format!("abort -> {}\n{}", output.code, output.stderr));
            }
            let back = Ending::of_the_users(&self.scene.world).differences(&self.before_the_start);
            wrong.extend(back.into_iter().map(|text| format!("after an abort, {text}")));
        }
        if self.scene.workspaces().exists() {
            wrong.push("workspaces are left".to_owned());
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    fn settle(&self, resume_first: bool, first: String) -> Result<(), String> {
        let mut told = vec![first];
        let ended = self.recover(resume_first, &mut told).and_then(|()| self.verify());
        ended.map_err(|wrong| format!("{wrong}{TOLD}{}", told.join("\n")))
    }

    /// One point of the matrix.
    fn point(&self, mode: Mode, at: usize) -> Result<(), String> {
        let Some(output) = self.disturb(mode, at) else {
            // The undisturbed run may have been slow, and a slow run lists refs once more before each attempt.
            let is_near_the_end = at + SLOW_CALLS > self.calls.len();
            return if is_near_the_end || self.row.order == Order::Any { Ok(()) } else { Err("the call never came".to_owned()) };
        };
        let killed = matches!(mode, Mode::Kill | Mode::KillAfter | Mode::KillEarly | Mode::KillLate | Mode::Agent);
        if killed != (output.code == -9) {
            return Err(format!("ended with {}\n{}", output.code, output.stderr));
        }
        if output.code > 0 && output.stderr.is_empty() {
            return Err("it fails without a word".to_owned());
        }
        self.settle((at + mode as usize).is_multiple_of(2), format!("disturbed -> {}\n{}", output.code, output.stderr))
    }
}

/// What was tried and how it went.
struct Tally {
    title: String,
    tried: usize,
    wrong: Vec<String>,
}

impl Tally {
    fn new(row: &Row<'_>, mode: &'static str) -> Self {
        Tally { title: format!("kill matrix: {} {mode}", row.name), tried: 0, wrong: Vec::new() }
    }

    fn note(&mut self, place: &str, result: Result<(), String>) {
        self.tried += 1;
        if let Err(why) = result {
            self.wrong.push(format!("=== {}, at {place}: {why}\n", self.title));
        }
    }

    /// Prints the figure; gives what went wrong.
    #[expect(clippy::print_stdout, reason = "the figure is what the matrix is for")]
    fn close(self) -> Vec<String> {
        println!("{}: tried {}, recovered {}", self.title, self.tried, self.tried - self.wrong.len());
        self.wrong
    }
}

/// How many git calls more than a fast run a slow one makes at most: one before each attempt.
const SLOW_CALLS: usize = 4;

/// Between what was found and what git-ralph had said before.
const TOLD: &str = "\n--- told\n";

/// Rows of isolated runs take several times as long as others: all points of those are tried only if `everything` is asked for. A test runs
/// in a thread of its name.
fn is_full() -> bool {
    let is_isolated = std::thread::current().name().is_some_and(|name| name.starts_with("kill_matrix::isolated::"));
    match std::env::var("RALPH_MATRIX").as_deref() {
        Ok("everything") => true,
        Ok("full") => !is_isolated,
        _ => false,
    }
}

/// Every call for `kill`; of the other modes a sample, unless everything is asked for. A hang takes a second each.
fn is_due(mode: Mode, at: usize, call: &Call) -> bool {
    match mode {
        Mode::KillEarly | Mode::KillLate => call.words.starts_with("read-tree -m -u "),
        Mode::Kill | Mode::Agent => true,
        Mode::Hang => at % if is_full() { 8 } else { 24 } == 5,
        _ => is_full() || at % 5 == mode as usize % 5,
    }
}

fn drive(row: &Row<'_>, modes: &[Mode]) {
    drive_where(row, modes, is_due);
}

fn drive_where(row: &Row<'_>, modes: &[Mode], is_due: impl Fn(Mode, usize, &Call) -> bool) {
    let stage = Stage::new(row);
    let mut wrong = Vec::new();
    for mode in modes {
        let mut tally = Tally::new(row, mode.name());
        for (at, call) in (1..).zip(&stage.calls) {
            if is_due(*mode, at, call) {
                tally.note(&format!("call {at}, git {}", call.words), stage.point(*mode, at));
            }
        }
        wrong.extend(tally.close());
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

/// How much of a journal line had reached the disk.
#[derive(Clone, Copy, Debug)]
enum Torn {
    /// Nothing: killed just before it was written.
    Missing,
    /// Its first byte.
    Begun,
    /// Half of it.
    Half,
    /// All but the newline.
    Unended,
    /// Its length, but none of its bytes, as a file system may leave it after the machine went down.
    Zeros,
}

impl Torn {
    fn kinds() -> &'static [Torn] {
        if is_full() { &[Torn::Missing, Torn::Begun, Torn::Half, Torn::Unended, Torn::Zeros] } else { &[Torn::Half] }
    }

    fn apply(self, line: &[u8]) -> Vec<u8> {
        match self {
            Torn::Missing => Vec::new(),
            Torn::Begun => line[..1].to_vec(),
            Torn::Half => line[..line.len() / 2].to_vec(),
            Torn::Unended => line[..line.len() - 1].to_vec(),
            Torn::Zeros => [vec![0; line.len() - 1], vec![b'\n']].concat(),
        }
    }
}

impl Stage<'_> {
    /// Tears each line from `first` on (counted from 0) of the journal as it is now, and recovers from each.
    ///
    /// A torn line is the last thing that a killed process did: whatever comes after that line must not have happened.
    /// So lines are torn only in a state that was reached by a kill at the first git call after them, before that call did
    /// anything, and only those that were written since the call before. Between two calls git-ralph writes lines and
    /// touches files of its own, but each of those touches comes before the line that tells of it. The one exception is the
    /// agent, which runs after `attempt-started` without a call in between: so no line up to that one is torn here, and
    /// `an_agent_…` tears it at the agent's first moment, when it has not done anything yet.
    fn tear(&self, first: usize, at: usize, tally: &mut Tally) {
        self.scene.save("killed");
        let path = self.scene.journal().unwrap();
        let text = fs::read(&path).unwrap();
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        for (number, line) in lines.iter().enumerate().skip(first) {
            for (turn, torn) in Torn::kinds().iter().enumerate() {
                self.scene.restore("killed");
                fs::write(&path, [lines[..number].concat(), torn.apply(line)].concat()).unwrap();
                self.scene.forget_length();
                let place = format!("call {at}, journal line {} {torn:?}: {}", number + 1, String::from_utf8_lossy(line));
                tally.note(&place, self.settle((at + number + turn).is_multiple_of(2), String::new()));
            }
        }
    }

    /// Where the lines begin that may be torn, of those written since `written`.
    fn tearable(&self, written: usize) -> usize {
        let events = self.scene.events();
        let started = events.iter().rposition(|event| event["event"] == "attempt-started");
        started.map_or(written, |started| written.max(started + 1))
    }

    /// The moments of the agent in an undisturbed run.
    fn moments(&self) -> Vec<Call> {
        self.disturb(Mode::Agent, 0);
        calls(&self.scene.world)
    }
}

fn drive_journal(row: &Row<'_>) {
    let stage = Stage::new(row);
    let mut tally = Tally::new(row, "journal");
    stage.scene.restore("before");
    let mut written = stage.scene.events().len();
    for (at, call) in (1..).zip(&stage.calls) {
        if call.lines > written {
            stage.disturb(Mode::Kill, at);
            stage.tear(stage.tearable(written), at, &mut tally);
            written = call.lines;
        }
    }
    // What is written after the last call.
    stage.scene.restore("after");
    // The key goes when the last line is on the disk: before that line, it was there.
    stage.scene.restore_key("before");
    stage.tear(stage.tearable(written), stage.calls.len() + 1, &mut tally);
    let wrong = tally.close();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

fn drive_agent(row: &Row<'_>) {
    let stage = Stage::new(row);
    let (mut killed, mut torn) = (Tally::new(row, "agent"), Tally::new(row, "journal, as the agent starts"));
    for (at, moment) in (1..).zip(stage.moments()) {
        killed.note(&format!("moment {at}"), stage.point(Mode::Agent, at));
        // Where another one is at work, the last line may tell of that one, and of work that it has begun.
        if moment.words == "first" && row.order == Order::Fixed {
            stage.disturb(Mode::Agent, at);
            stage.tear(stage.scene.events().len() - 1, at, &mut torn);
        }
    }
    let wrong = [killed.close(), torn.close()].concat();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

const KILLED: [Mode; 4] = [Mode::Kill, Mode::KillAfter, Mode::KillEarly, Mode::KillLate];
/// For rows that differ from another only in what a half-switched work tree looks like.
fn halfway() -> &'static [Mode] {
    if is_full() { &KILLED } else { &KILLED[2..] }
}

/// Kills a way back from stages that a run can have been killed at: at every call and journal write if everything is asked
/// for, else at a sample of the calls, another one for each stage.
fn drive_from(stages: &[Killed], command: &[&str]) {
    for (turn, (stage, prepare)) in stages.iter().enumerate() {
        let name = format!("{}, killed when {stage}", command.join(" "));
        let row = Row { name: &name, prepare: *prepare, command, done: over, order: Order::Fixed };
        if is_full() {
            drive(&row, &KILLED);
            drive_journal(&row);
        } else {
            drive_where(&row, &KILLED, |mode, at, call| match mode {
                Mode::Kill => (at + turn).is_multiple_of(6),
                Mode::KillAfter => (at + turn) % 6 == 3,
                _ => is_due(mode, at, call),
            });
        }
    }
}

const FAILING: [Mode; 5] = [Mode::Die, Mode::DieAfter, Mode::Fail, Mode::FailAfter, Mode::Hang];

#[test]
fn a_start_killed_at_any_git_call_ends_in_the_same_place() {
    drive(&START, &KILLED);
}

#[test]
fn a_start_whose_git_fails_at_any_call_ends_in_the_same_place() {
    drive(&START, &FAILING);
}

#[test]
fn a_start_killed_at_any_journal_write_ends_in_the_same_place() {
    drive_journal(&START);
}

#[test]
fn an_agent_that_kills_its_start_or_resume_changes_nothing_about_where_it_ends() {
    drive_agent(&START);
    drive_agent(&RESUME);
}

#[test]
fn a_resume_killed_at_any_git_call_or_journal_write_ends_in_the_same_place() {
    drive(&RESUME, &KILLED);
    drive_journal(&RESUME);
}

#[test]
fn a_resume_whose_git_fails_at_any_call_ends_in_the_same_place() {
    drive(&RESUME, &FAILING);
}

#[test]
fn a_cleanup_killed_at_any_git_call_or_journal_write_ends_in_the_same_place() {
    for row in [&CLEANUP, &CLEANUP_MOVED] {
        drive(row, &KILLED);
        drive_journal(row);
    }
    drive(&CLEANUP_FAR, halfway());
}

#[test]
fn a_cleanup_whose_git_fails_at_any_call_ends_in_the_same_place() {
    drive(&CLEANUP, &FAILING);
    drive(&CLEANUP_MOVED, &FAILING);
}

#[test]
fn a_run_killed_while_it_is_kept_ends_in_the_same_place() {
    drive(&KEEP, &KILLED);
    drive(&KEEP, &FAILING);
    drive_journal(&KEEP);
}

#[test]
fn an_abort_killed_at_any_git_call_or_journal_write_ends_in_the_same_place() {
    drive(&ABORT, &KILLED);
    drive_journal(&ABORT);
    drive(&ABORT_CLEAN, halfway());
}

#[test]
fn an_abort_whose_git_fails_at_any_call_ends_in_the_same_place() {
    drive(&ABORT, &FAILING);
}

#[test]
fn half_an_attempt_is_settled_by_an_abort_or_a_cleanup_killed_at_any_git_call_or_journal_write() {
    for row in [&ABORT_HALF, &CLEANUP_HALF] {
        drive(row, &KILLED);
        drive_journal(row);
    }
}

#[test]
fn half_an_attempt_is_settled_by_an_abort_or_a_cleanup_whose_git_fails_at_any_call() {
    drive(&ABORT_HALF, &FAILING);
    drive(&CLEANUP_HALF, &FAILING);
}

#[test]
fn an_undo_disturbed_at_any_git_call_or_journal_write_ends_in_the_same_place() {
    drive(&UNDO, &KILLED);
    drive(&UNDO, &FAILING);
    drive_journal(&UNDO);
}

#[test]
fn a_cleanup_of_a_run_that_was_killed_at_any_stage_ends_in_the_same_place_if_it_is_killed_too() {
    drive_from(&STAGES, &["finish", "--cleanup"]);
}

#[test]
fn a_run_that_was_killed_at_any_stage_is_kept_in_the_same_place_if_that_is_killed_too() {
    drive_from(&STAGES, &["finish", "--keep"]);
}

#[test]
fn an_abort_of_a_run_that_was_killed_at_any_stage_ends_in_the_same_place_if_it_is_killed_too() {
    drive_from(&BEGINNINGS, &["abort"]);
    drive_from(&STAGES, &["abort"]);
}

#[test]
fn a_finish_of_a_run_that_was_killed_while_it_began_ends_in_the_same_place_if_it_is_killed_too() {
    drive_from(&BEGINNINGS, &["finish", "--cleanup"]);
    drive_from(&BEGINNINGS, &["finish", "--keep"]);
}

#[test]
fn a_landing_after_a_careless_agent_ends_in_the_same_place_if_it_is_killed_at_any_git_call_or_journal_write() {
    drive_where(&CARELESS, &KILLED, |mode, at, call| is_due(mode, at, call) || mode == Mode::KillAfter);
    drive_journal(&CARELESS);
}
