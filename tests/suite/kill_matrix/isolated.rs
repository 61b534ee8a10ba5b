//! Tests kills in isolated runs: with one story at a time in a private clone, and with two at once.

use std::fs;

use super::scene::side_by_side;
use super::stand_in::{Call, Mode, arm, arm_at, disarm};
use super::{KILLED, Killed, Order, Row, Stage, Tally, all_done, drive_agent, drive_journal, drive_where, is_due, is_full, over, undone};
use crate::support::{World, send};

const START: Row = Row {
    name: "start --isolate",
    prepare: |_| {},
    command: &["start", "work", "--isolate", "--", "agent"],
    done: all_done,
    order: Order::Fixed,
};
const TWO: Row = Row {
    name: "start --jobs 2",
    prepare: side_by_side,
    command: &["start", "work", "--jobs", "2", "--", "agent"],
    done: all_done,
    order: Order::Any,
};
const RESUME: Row = Row { name: "resume, isolated", prepare: stopped, command: &["resume"], done: all_done, order: Order::Fixed };
const RESUME_TWO: Row = Row { name: "resume, two killed", prepare: two_killed, command: &["resume"], done: all_done, order: Order::Any };
const CLEANUP: Row =
    Row { name: "finish --cleanup, isolated", prepare: worked, command: &["finish", "--cleanup"], done: over, order: Order::Fixed };
const CLEANUP_EDITED: Row = Row {
    name: "finish --cleanup, isolated, checkout edited since",
    prepare: edited,
    command: &["finish", "--cleanup"],
    done: over,
    order: Order::Fixed,
};
const KEEP: Row = Row { name: "finish --keep, isolated", prepare: worked, command: &["finish", "--keep"], done: over, order: Order::Fixed };
const ABORT: Row = Row { name: "abort, isolated", prepare: worked, command: &["abort"], done: over, order: Order::Fixed };
const UNDO: Row = Row { name: "undo, isolated", prepare: worked, command: &["undo"], done: undone, order: Order::Fixed };

/// One story has landed, and the user has edited files in the checkout since, which do not concern the run.
fn stopped(world: &World) {
    world.start(&["--isolate", "--limit", "1"]).code(0);
    world.write("unstaged", "edited between\n");
    world.write("between", "new between\n");
}

fn worked(world: &World) {
    world.start(&["--isolate"]).code(0);
}

/// The run is done, and the user has edited another part of a file that the run changed, and created a file.
fn edited(world: &World) {
    worked(world);
    world.write("README", "above\nhello\n");
    world.write("unstaged", "edited between\n");
    world.write("between", "new between\n");
}

/// Two agents were at work when one of them killed git-ralph.
fn two_killed(world: &World) {
    side_by_side(world);
    arm(world, Mode::Agent, 4);
    world.start(&["--jobs", "2"]).code(-9);
    assert!(disarm(world));
}

/// Moments at which an isolated run can be killed.
const STAGES: [Killed; 6] = [
    ("working", |world| {
        arm(world, Mode::Agent, 4);
        world.start(&["--isolate"]).code(-9);
        assert!(disarm(world));
    }),
    ("ended", ended),
    ("accepted", |world| killed_at(world, "attempt-accepted", "")),
    ("queued", |world| killed_at(world, "attempt-queued", "")),
    ("rejected", |world| killed_at(world, "attempt-rejected", "")),
    ("landed", |world| killed_at(world, "attempt-queued", "update-ref")),
];

fn killed_at(world: &World, event: &str, words: &str) {
    arm_at(world, event, words);
    world.start(&["--isolate"]).code(-9);
    assert!(disarm(world));
}

/// The first gate of an attempt killed the run, before there was a verdict.
fn ended(world: &World) {
    let deadly = world.outside("deadly");
    fs::write(&deadly, "").unwrap();
    world.stories(2, &format!("max-retries = 3\nverify = ['test ! -e {0} || {{ rm {0}; kill -9 $PPID; }}']", deadly.display()));
    world.start(&["--isolate"]).code(-9);
    assert!(!deadly.exists());
}

/// Selects all calls if everything was requested, else one of `one_of`, a different one per row.
fn sampled(row: &Row<'_>, one_of: usize) -> impl Fn(Mode, usize, &Call) -> bool {
    let turn = row.name.len();
    move |mode, at, call| match mode {
        Mode::Kill | Mode::KillAfter if is_full() => true,
        Mode::Kill => (at + turn).is_multiple_of(one_of),
        Mode::KillAfter => (at + turn) % one_of == one_of / 2,
        _ => is_due(mode, at, call),
    }
}

fn drive(row: &Row<'_>, one_of: usize) {
    drive_where(row, &KILLED, sampled(row, one_of));
}

#[test]
fn an_isolated_start_killed_at_any_git_call_ends_in_the_same_place() {
    drive(&START, 9);
}

#[test]
fn an_isolated_start_killed_at_any_journal_write_ends_in_the_same_place() {
    drive_journal(&START);
}

#[test]
fn an_agent_that_kills_its_isolated_start_changes_nothing_about_where_it_ends() {
    drive_agent(&START);
}

#[test]
fn a_start_with_two_stories_in_flight_killed_at_any_git_call_ends_in_the_same_place() {
    drive(&TWO, 17);
    if is_full() {
        drive_journal(&TWO);
    }
}

#[test]
fn an_agent_that_kills_its_start_while_another_is_at_work_changes_nothing_about_where_it_ends() {
    drive_agent(&TWO);
}

#[test]
fn an_isolated_resume_killed_at_any_git_call_or_journal_write_ends_in_the_same_place() {
    drive(&RESUME, 9);
    drive_journal(&RESUME);
}

#[test]
fn a_resume_after_two_stories_were_killed_ends_in_the_same_place_if_it_is_killed_too() {
    drive(&RESUME_TWO, 17);
}

#[test]
fn an_isolated_cleanup_killed_at_any_git_call_or_journal_write_ends_in_the_same_place() {
    for row in [&CLEANUP, &CLEANUP_EDITED] {
        drive(row, 5);
        drive_journal(row);
    }
}

#[test]
fn an_isolated_run_that_is_kept_given_up_or_undone_ends_in_the_same_place_if_that_is_killed() {
    for row in [&KEEP, &ABORT, &UNDO] {
        drive(row, 3);
        drive_journal(row);
    }
}

#[test]
fn an_isolated_run_that_was_killed_at_any_stage_is_closed_in_the_same_place_if_that_is_killed_too() {
    for (turn, command) in [&["finish", "--cleanup"][..], &["finish", "--keep"], &["abort"]].into_iter().enumerate() {
        let due = |number: &usize| is_full() || number % 3 == turn;
        for (_, (stage, prepare)) in STAGES.into_iter().enumerate().filter(|(number, _)| due(number)) {
            let name = format!("{}, isolated, killed when {stage}", command.join(" "));
            let row = Row { name: &name, prepare, command, done: over, order: Order::Fixed };
            drive(&row, 23);
        }
    }
}

/// Every kind of event that a run with two stories in progress writes.
const EVENTS: [&str; 10] = [
    "run-starting",
    "run-started",
    "workspace-ready",
    "attempt-started",
    "agent-ended",
    "attempt-accepted",
    "attempt-queued",
    "attempt-rejected",
    "attempt-rolled-back",
    "checkpoint-landed",
];

#[test]
fn a_start_with_two_stories_in_flight_killed_behind_any_kind_of_event_ends_in_the_same_place() {
    let stage = Stage::new(&TWO);
    let mut tally = Tally::new(&TWO, "event");
    for event in EVENTS {
        stage.scene.restore("before");
        arm_at(&stage.scene.world, event, "");
        let output = stage.scene.world.ralph(TWO.command);
        // With two stories in progress, another event may follow immediately.
        let fired = disarm(&stage.scene.world);
        assert_eq!(fired, output.code == -9, "{event}: {}", output.stderr);
        tally.note(event, stage.settle(event.len().is_multiple_of(2), format!("killed behind {event}\n{}", output.stderr)));
    }
    let wrong = tally.close();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

#[test]
fn an_agent_that_is_killed_alone_costs_its_story_one_attempt_and_the_other_one_nothing() {
    for victim in ["1", "2"] {
        let world = World::new();
        world.stories(2, "order = \"any\"\nmax-retries = 1");
        let at = world.outside("at").display().to_string();
        // Both agents are at work when one is killed; the other one continues when the killed one has its second attempt.
        world.agent(&format!(
            "wait_for() {{ until test -s {at}-$1; do sleep 0.02; done; }}
             test ! -e half || exit 1; echo half >half; echo $$ >{at}-$RALPH_STORY-$RALPH_ATTEMPT
             case $RALPH_STORY-$RALPH_ATTEMPT in
             {victim}-1) sleep 1000;;
             {victim}-2) ;;
             *) wait_for {victim}-2;;
             esac
             rm half; echo $RALPH_STORY >s$RALPH_STORY; echo '<promise>COMPLETE</promise>'"
        ));
        let running = world.spawn_start(&["--jobs", "2"]);
        let pid = |story: &str| fs::read_to_string(format!("{at}-{story}-1")).ok().filter(|pid| pid.ends_with('\n'));
        world.wait_for("both agents", || pid("1").is_some() && pid("2").is_some());
        send("KILL", &pid(victim).unwrap());
        running.finish().code(0);
        assert_eq!(world.count("attempt-started"), 3, "{victim}");
        assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\ns1\ns2", "{victim}");
        assert_eq!(world.git(&["show", &format!("refs/ralph/work/attempts/{victim}/1:half")]), "half", "{victim}");
    }
}
