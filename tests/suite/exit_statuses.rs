//! Tests the exit status of every command and outcome, in one table that the manual repeats.

use std::fs;
use std::path::Path;

use crate::golden;
use crate::support::{COMPLETE, Output, World};

/// A row of the table: commands, outcome, exit status, and a function that produces it.
struct Row(&'static str, &'static str, i32, fn(&World) -> Output);

/// Two stories; the second one fails if a certain file exists.
fn world() -> World {
    let world = World::new();
    world.stories(2, "max-retries = 0");
    world.agent(&format!(
        "echo $RALPH_STORY >s$RALPH_STORY; test -e {0} && {{ touch {1}; sleep 600; }}; test $RALPH_STORY = 2 && test -e {2} && exit 1; {COMPLETE}",
        world.outside("slow").display(),
        world.outside("at-work").display(),
        world.outside("failing").display()
    ));
    world
}

fn failing(world: &World) -> &World {
    fs::write(world.outside("failing"), "").unwrap();
    world
}

/// A run with one story done and one left.
fn begun(world: &World) -> &World {
    world.start(&["--limit", "1"]).code(0);
    world
}

/// Starts a loop whose agent never ends, disturbs it, and returns how the loop ended.
fn disturbed(world: &World, disturb: fn(&World, &crate::support::Running)) -> Output {
    fs::write(world.outside("slow"), "").unwrap();
    let running = world.spawn_start(&[]);
    world.wait_for("the agent", || world.outside("at-work").exists());
    disturb(world, &running);
    running.finish()
}

const TABLE: &[Row] = &[
    Row("start, resume", "every story is done", 0, |world| world.start(&[])),
    Row("start, resume", "the stories that --only or --limit asks for are done", 0, |world| world.start(&["--limit", "1"])),
    Row("start, resume", "the same with --finish, which waits for every story", 1, |world| {
        world.start(&["--limit", "1", "--finish", "keep"])
    }),
    Row("start, resume", "a story has no retries left", 1, |world| failing(world).start(&[])),
    Row("start, resume", "git ralph stop", 1, |world| disturbed(world, |world, _| drop(world.ralph(&["stop", "--now"]).code(0)))),
    Row("start, resume", "Ctrl-C or a signal", 130, |world| disturbed(world, |_, running| running.signal("INT"))),
    Row("start", "a run of the change is open", 2, |world| begun(world).start(&[])),
    Row("start", "stories of a finished run would be done again", 2, |world| {
        world.start(&["--finish", "cleanup"]).code(0);
        world.start(&[])
    }),
    Row("start", "the change file is a template that was never edited", 2, |world| {
        world.ralph(&["new", "fresh"]).code(0);
        world.ralph(&["start", "fresh", "--", "true"])
    }),
    Row("start", "there is no such change, or its file cannot be read", 128, |world| world.ralph(&["start", "absent", "--", "true"])),
    Row("start", "no change is named, and there is no terminal to ask on", 129, |world| world.ralph(&["start"])),
    Row("resume, finish, abort, undo, stop", "no run is open", 2, |world| {
        for command in ["finish", "abort", "undo", "stop"] {
            world.ralph(&[command]).code(2);
        }
        world.ralph(&["resume"])
    }),
    Row("resume, finish, abort, undo", "a loop is at work on the run", 2, |world| {
        fs::write(world.outside("slow"), "").unwrap();
        let running = world.spawn_start(&[]);
        world.wait_for("the agent", || world.outside("at-work").exists());
        for command in [&["finish", "--keep"][..], &["abort"], &["undo"]] {
            world.ralph(command).code(2);
        }
        let output = world.ralph(&["resume"]);
        running.signal("KILL");
        running.finish();
        output
    }),
    Row("resume, finish, abort, undo", "HEAD is not on the branch of the run", 2, |world| {
        begun(world).git(&["switch", "-q", "main"]);
        for command in [&["finish", "--cleanup"][..], &["abort"], &["undo"]] {
            world.ralph(command).code(2);
        }
        world.ralph(&["resume"])
    }),
    Row("finish, abort, undo", "done", 0, |world| {
        begun(world).ralph(&["undo"]).code(0);
        world.ralph(&["abort"]).code(0);
        begun(world).ralph(&["finish", "--keep"])
    }),
    Row("finish", "neither --cleanup nor --keep is given, and there is no terminal to ask on", 2, |world| begun(world).ralph(&["finish"])),
    Row("finish --cleanup", "the original branch has moved on and conflicts", 2, |world| {
        begun(world).move_original("s1", "theirs\n");
        world.ralph(&["finish", "--cleanup"])
    }),
    Row("stop", "no loop is at work on the open run", 2, |world| begun(world).ralph(&["stop"])),
    Row("prune", "deleted, or nothing to delete", 0, |world| world.ralph(&["prune"])),
    Row("prune", "--yes is not given, and there is no terminal to ask on", 2, |world| {
        world.start(&["--finish", "cleanup"]).code(0);
        world.ralph(&["prune"])
    }),
    Row("status, list, log, config", "shown, whatever became of the run", 0, |world| {
        failing(world).start(&[]).code(1);
        for command in ["status", "list", "config"] {
            world.ralph(&[command]).code(0);
        }
        world.ralph(&["log"])
    }),
    Row("log", "there is no run to look back at", 2, |world| world.ralph(&["log"])),
    Row("any", "the command line is wrong", 129, |world| {
        world.ralph(&["strat"]).code(129);
        world.ralph(&["status", "--no-such-option"])
    }),
    Row("any", "not in a git repository", 128, |_| World::empty().ralph(&["status"])),
];

#[test]
fn every_command_ends_with_the_exit_status_of_the_table() {
    if World::is_in_place_only("where HEAD is does not matter to an isolated run") {
        return;
    }
    for Row(commands, outcome, status, how) in TABLE {
        let world = world();
        let output = how(&world);
        assert_eq!(output.code, *status, "{commands}: {outcome}\n{}{}", output.stdout, output.stderr);
    }
}

#[test]
fn the_manual_has_the_same_table() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("man/sections/git-ralph.roff")).unwrap();
    let roff = |text: &str| text.replace('-', "\\-");
    let rows: String = TABLE
        .iter()
        .map(|Row(commands, outcome, status, _)| format!(".TP\n\\fB{}\\fR, {}\n{status}\n", roff(commands), roff(outcome)))
        .collect();
    assert!(text.contains(&rows), "man/sections/git-ralph.roff lacks:\n{rows}");
}

#[test]
fn the_page_of_exit_statuses_has_the_same_table() {
    let meaning = [
        (0, "done"),
        (1, "stopped short: a story has no retries left, a limit was reached, or you stopped the run"),
        (2, "not possible in this state, or nothing to do"),
        (128, "fatal error"),
        (129, "usage error"),
        (130, "interrupted"),
    ];
    let mut page = "# Exit statuses\n\nThis page is generated from `tests/suite/exit_statuses.rs`, which brings about every row.\n\n\
        | status | meaning |\n|--:|---|\n"
        .to_owned();
    page.extend(meaning.map(|(status, text)| format!("| {status} | {text} |\n")));
    page.push_str("\nIn detail:\n\n| command | what happened | status |\n|---|---|--:|\n");
    page.extend(TABLE.iter().map(|Row(commands, outcome, status, _)| {
        let commands: Vec<String> =
            commands.split(", ").map(|command| if command == "any" { command.to_owned() } else { format!("`{command}`") }).collect();
        format!("| {} | {outcome} | {status} |\n", commands.join(", "))
    }));
    assert!(TABLE.iter().all(|row| meaning.iter().any(|(status, _)| *status == row.2)));
    golden::compare("docs/exit-statuses.md", &page);
}
