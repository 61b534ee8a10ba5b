//! Tests kills: every command, disturbed at every git call and every journal write, ends in the same state as without the disturbance.

pub mod ending;
mod isolated;
pub mod scene;
pub mod stand_in;

use std::fs;

use ending::{Ending, broken, lost};
use scene::Scene;
use stand_in::{Call, Mode, arm, arm_at, calls, count, disarm};

use crate::support::{Output, World};

/// A command, the state in which it starts, and the event that shows that it is done. To test another command, add a row and its tests.
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
    /// Two stories are in progress: their calls interleave, and either may land first.
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

/// One story has landed, and the user has edited files since.
fn stopped(world: &World) {
    world.start(&["--limit", "1"]).code(0);
    world.write("unstaged", "edited between\n");
    world.write("between", "new between\n");
}

fn worked(world: &World) {
    world.start(&[]).code(0);
}

/// The run is done in a work tree that was clean at the start, so that only the run's work differs from the last commit.
fn clean(world: &World) {
    world.git(&["reset", "-q", "--hard"]);
    world.git(&["clean", "-q", "-fd"]);
    worked(world);
}

/// The run is done, and the original branch has moved meanwhile.
fn moved(world: &World) {
    worked(world);
    commit_elsewhere(world, 1);
}

/// The run is done, and the original branch has moved meanwhile by more files than the run changed.
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

/// The agent killed git-ralph during its first attempt.
fn half(world: &World) {
    arm(world, Mode::Agent, 4);
    world.start(&[]).code(-9);
    assert!(disarm(world));
}

/// A moment at which a run can be killed, and a function that leads there.
type Killed = (&'static str, fn(&World));

/// Moments after a run has begun.
const STAGES: [Killed; 5] = [
    ("working", half),
    ("ended", ended),
    ("accepted", |world| killed_at(world, "attempt-accepted", "")),
    ("rejected", |world| killed_at(world, "attempt-rejected", "")),
    ("rolled back", rolled_back),
];

/// Moments before a run has begun, or while it begins.
const BEGINNINGS: [Killed; 2] =
    [("starting", |world| killed_at(world, "run-starting", "")), ("half started", |world| killed_at(world, "run-starting", "update-ref"))];

/// Kills the run when that event is the last one in its journal; if `words` are given, after a git call that contains them.
fn killed_at(world: &World, event: &str, words: &str) {
    arm_at(world, event, words);
    world.start(&[]).code(-9);
    assert!(disarm(world));
}

/// The first gate of an attempt killed the run, before there was a verdict.
fn ended(world: &World) {
    let deadly = world.outside("deadly");
    fs::write(&deadly, "").unwrap();
    world.stories(2, &format!("max-retries = 3\nverify = ['test ! -e {0} || {{ rm {0}; kill -9 $PPID; }}']", deadly.display()));
    world.start(&[]).code(-9);
    assert!(!deadly.exists());
}

/// The run was killed after its first attempt was rolled back, just before the journal recorded the second one.
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

/// A row in its repository, with the calls and the final state of an undisturbed run.
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
            // An abort of an isolated run keeps edits that the user made since the start.
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

    /// Disturbs the command at one call; returns its output, or `None` if that call never came.
    fn disturb(&self, mode: Mode, at: usize) -> Option<Output> {
        let world = &self.scene.world;
        self.scene.restore("before");
        if mode == Mode::Hang {
            world.git(&["config", "ralph.gitTimeout", "1s"]);
        }
        arm(world, mode, at);
        let output = world.ralph(self.row.command);
        let fired = disarm(world);
        // A rollback restores the configuration from before the attempt, which may already have removed the setting.
        if mode == Mode::Hang && world.read(".git/config").contains("[ralph]") {
            world.git(&["config", "--remove-section", "ralph"]);
        }
        fired.then_some(output)
    }

    /// Acts as a user would: types the command again, or `resume`, until it is done. A refusal must name the command to type.
    fn recover(&self, resume_first: bool, told: &mut Vec<String>) -> Result<(), String> {
        // A resume would start the stories again that an undo has just reopened.
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

    /// Whether `resume` would continue this command. Before a finish or an abort is in the journal, `resume` would continue the stories
    /// instead.
    fn is_under_way(&self) -> bool {
        let back = |event: &serde_json::Value| event["event"] == "finish-started" || event["event"] == "abort-started";
        self.row.command[0] == "start" || self.row.command[0] == "resume" || self.scene.events().iter().any(back)
    }

    /// Compares the final state, then aborts the run, which shows whether the user's index has survived.
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

    /// Tests one point of the matrix.
    fn point(&self, mode: Mode, at: usize) -> Result<(), String> {
        let Some(output) = self.disturb(mode, at) else {
            // The undisturbed run may have been slow, and a slow run lists the refs once more before each attempt.
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

/// The number of points tried, and the failures.
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

    /// Prints the number of points and returns the failures.
    #[expect(clippy::print_stdout, reason = "the figure is what the matrix is for")]
    fn close(self) -> Vec<String> {
        println!("{}: tried {}, recovered {}", self.title, self.tried, self.tried - self.wrong.len());
        self.wrong
    }
}

/// How many more git calls a slow run makes than a fast one at most: one before each attempt.
const SLOW_CALLS: usize = 4;

/// Separates the failure from the earlier output of git-ralph.
const TOLD: &str = "\n--- told\n";

/// Whether to try all points. Rows of isolated runs take several times as long, so all of theirs are tried only with
/// `RALPH_MATRIX=everything`. The name of the thread is the name of the test.
fn is_full() -> bool {
    let is_isolated = std::thread::current().name().is_some_and(|name| name.starts_with("kill_matrix::isolated::"));
    match std::env::var("RALPH_MATRIX").as_deref() {
        Ok("everything") => true,
        Ok("full") => !is_isolated,
        _ => false,
    }
}

/// Whether to try this point: for `kill` every call, for other modes a sample, unless everything was requested. A hang takes a second.
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
    /// Nothing: killed just before the line was written.
    Missing,
    /// Its first byte.
    Begun,
    /// Half of it.
    Half,
    /// All but the newline.
    Unended,
    /// Its length but none of its bytes, as some file systems leave it after a crash of the machine.
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
    /// Tears each line of the current journal from `first` on (counted from 0), and recovers from each.
    ///
    /// A torn line is the last thing that a killed process did, so nothing that comes after that line may have happened. Therefore lines
    /// are torn only in a state that was reached by a kill at the first git call after them, before that call had an effect, and only
    /// lines that were written since the previous call. Between two calls git-ralph writes lines and changes files of its own, but it
    /// changes each file before it writes the line that reports the change. The one exception is the agent, which runs after
    /// `attempt-started` without a git call in between: no line up to that one is torn here, and `an_agent_…` tears it when the agent has
    /// started and not done anything yet.
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

    /// The first line that may be torn, among those written since `written`.
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
    // The lines that are written after the last call.
    stage.scene.restore("after");
    // git-ralph deletes the key after the last line is on disk, so without that line the key must exist.
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
        // If another agent is at work, the last line may be about that agent, and about work that it has already done.
        if moment.words == "first" && row.order == Order::Fixed {
            stage.disturb(Mode::Agent, at);
            stage.tear(stage.scene.events().len() - 1, at, &mut torn);
        }
    }
    let wrong = [killed.close(), torn.close()].concat();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

const KILLED: [Mode; 4] = [Mode::Kill, Mode::KillAfter, Mode::KillEarly, Mode::KillLate];
/// The modes for rows that differ from another row only by a half-switched work tree.
fn halfway() -> &'static [Mode] {
    if is_full() { &KILLED } else { &KILLED[2..] }
}

/// Kills an abort or a finish, in each of the stages: at every call and journal write if everything was requested, else at a sample of
/// calls that differs per stage.
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
