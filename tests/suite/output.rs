//! Tests the output streams: data on stdout, messages on stderr, exit statuses, JSON.

use crate::support::{COMPLETE, World};

#[test]
fn start_json_prints_one_event_per_line_and_messages_on_stderr() {
    let world = World::new();
    world.stories(1, "verify = ['true']");
    world.agent(&format!("touch work; {COMPLETE}"));
    let output = world.start(&["--json", "--finish", "cleanup"]).code(0);
    let events: Vec<serde_json::Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "run-starting",
            "run-started",
            "loop-started",
            "attempt-started",
            "agent-ended",
            "gate-ended",
            "attempt-accepted",
            "checkpoint-landed",
            "loop-ended",
            "finish-started",
            "finished"
        ]
    );
    assert!(events.iter().enumerate().all(|(at, event)| event["seq"] == at + 1 && event["at"].is_string()));
    assert_eq!(world.events(), events, "the journal holds the same events");
    assert!(output.stderr.contains("checkpoint"), "{}", output.stderr);
}

#[test]
fn status_shows_the_state_of_the_run_and_the_next_command() {
    let world = World::new();
    world.change("work", "max-retries = 0\n[[story]]\nid = 'one'\ntitle = 'First'\n[[story]]\nid = 'two'\ntitle = 'Second'\n");
    world.agent("touch work; test $RALPH_STORY = one && echo '<promise>COMPLETE</promise>' || echo '<promise>FAILED: too hard</promise>'");
    world.start(&[]).code(1);
    let text = world.ralph(&["status"]).code(0).stdout;
    let timeless: String = text.lines().filter(|line| !line.starts_with("  effort ")).map(|line| format!("{line}\n")).collect();
    assert_eq!(
        timeless,
        "work: open, 1 of 2 stories done\non ralph/work, started from main\nstopped: story 'two' failed 1 time and has no retries left\n  done      one  First\n  \
         failed    two  Second; the last attempt failed: too hard\n  \
         saved     refs/ralph/work/attempts/two/1; git ralph log work lists all\nnext: git ralph retry two && git ralph resume work\n  or: git ralph resume --max-retries 3 work\n  \
         or: git ralph skip two && git ralph resume work\n  or: git ralph finish --cleanup work\n  \
         or: git ralph finish --keep work\n  or: git ralph abort work\n"
    );
    assert_eq!(world.ralph(&[]).code(0).stdout, text, "bare git ralph is status");
    let json: serde_json::Value = serde_json::from_str(&world.ralph(&["status", "--json"]).code(0).stdout).unwrap();
    assert_eq!((&json["schema"], &json["done"], &json["total"]), (&1.into(), &1.into(), &2.into()));
    assert_eq!(json["stories"][1]["outcome"], "failed: too hard");
    assert_eq!(json["stories"][1]["rescues"][0], "refs/ralph/work/attempts/two/1");
    let commands = text.lines().filter_map(|line| line.split_once(": git ralph ").map(|(_, rest)| rest));
    for command in commands.flat_map(|line| line.split(" && git ralph ")) {
        let args: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        world.ralph(&args).code(0);
    }
}

#[test]
fn dry_run_of_start_prints_the_plan_and_does_nothing() {
    let world = World::new();
    world.stories(2, "verify = ['make check']");
    world.agent("touch ran");
    let output = world.start(&["--dry-run"]).code(0);
    let agent = world.outside("bin/agent");
    let start = format!(
        "git checkout -B ralph/work\ngit add -A\ngit commit --allow-empty -m \"initial state\"\n\n# story 1: Story 1\n{}\nsh -c 'make check'\ngit add -A\ngit commit --allow-empty -m \"checkpoint: 1\"\n",
        agent.display()
    );
    assert!(output.stdout.starts_with(&start), "{}", output.stdout);
    world.start(&["--dry-run", "-v"]).code(0).says("## Story 2: Story 2");
    assert_eq!(world.branch(), "main");
    assert!(!world.exists("ran") && !world.exists(".git/ralph/runs") && !world.exists(".git/ralph/locks"));
}

#[test]
fn dry_run_of_resume_prints_the_remaining_steps_and_does_nothing() {
    let world = World::new();
    world.stories(3, "");
    world.agent(COMPLETE);
    world.start(&["--limit", "1"]).code(0);
    world.ralph(&["skip", "2"]).code(0);
    let plan = world.ralph(&["resume", "--dry-run", "--verify", "make check"]).code(0).stdout;
    let agent = world.outside("bin/agent");
    let expected = format!(
        "# run 1 of work: 1 of 3 stories done\n\n# story 3: Story 3\n{}\nsh -c 'make check'\ngit add -A\ngit commit --allow-empty -m \"checkpoint: 3\"\n",
        agent.display()
    );
    assert_eq!(plan, expected);
    assert!(world.ralph(&["resume", "--dry-run", "-v"]).code(0).stdout.contains("## Story 3: Story 3"));
    assert_eq!((world.count("attempt-started"), world.count("run-resumed")), (1, 0));
}

#[test]
fn usage_errors_exit_129_and_help_and_version_0() {
    let world = World::new();
    for args in [
        &["no-such-command"][..],
        &["start", "--no-such-option"],
        &["finish", "--cleanup", "--keep"],
        &["start", "x", "--max-retries", "many"],
        &["start"],
    ] {
        if args != ["start"] {
            world.ralph(args).code(129);
        }
    }
    world.stories(1, "");
    world.ralph(&["start"]).code(129).says("which change?");
    world.ralph(&["-h"]).code(0).says("Usage: git ralph");
    assert!(world.ralph(&["--version"]).code(0).stdout.starts_with("git-ralph "));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let world = World::new();
    let script = format!("{} -h | head -1 >/dev/null; exit 0", env!("CARGO_BIN_EXE_git-ralph"));
    let output = world.command("bash", &["-c", &format!("set -o pipefail; {script}")]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn agent_text_cannot_steer_the_terminal() {
    let world = World::new();
    world.stories(1, "max-retries = 0");
    world.agent("printf '\\033]0;owned\\007<promise>FAILED: \\033[31mred\\033[0m \\033]52;c;aGk=\\007bell\\007</promise>\\n'");
    let output = world.start(&["-v"]).code(1);
    assert!(!output.stderr.contains('\u{1b}') && !output.stderr.contains('\u{7}'), "{:?}", output.stderr);
}

#[test]
fn quiet_prints_only_errors_and_warnings() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("touch work; {COMPLETE}"));
    let output = world.start(&["-q", "--finish", "cleanup"]).code(0);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""));
}

#[test]
fn any_mistyped_word_gets_the_nearest_valid_one() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    world
        .ralph(&["strat", "work"])
        .code(129)
        .says("'strat' is not a git ralph command; did you mean 'start'?")
        .says("hint: git ralph start");
    world.ralph(&["xyzzy"]).code(129).says("'xyzzy' is not a git ralph command").says("hint: git ralph -h");
    for command in ["start", "status", "log", "config"] {
        world.ralph(&[command, "wrok"]).code(128).says("did you mean 'work'?");
    }
    for command in ["resume", "finish", "abort", "undo", "stop"] {
        world.ralph(&[command, "wrok"]).code(2).says("there is no open run of 'wrok'; did you mean 'work'?");
        world.ralph(&[command, "work"]).code(2).says("there is no open run of 'work'").says("git ralph start work");
    }
    world.start(&["--only", "11"]).code(128).says("did you mean '1'?");
    world.ralph(&["finish", "--cleanpu"]).code(129).says("--cleanup");
}

#[test]
fn no_command_fails_when_its_reader_is_gone() {
    let world = World::new();
    world.stories(3, "");
    world.agent(COMPLETE);
    world.start(&[]).code(0);
    for args in ["status", "log", "log 1 --attempt 1", "list", "doctor", "config", "log -f", "status --json", "--help", "prune --dry-run"] {
        let script = format!("set -o pipefail; {} {args} | true", env!("CARGO_BIN_EXE_git-ralph"));
        let output = world.command("bash", &["-c", &script]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        // The exit status of doctor depends on what it finds, not on the closed pipe.
        assert!(output.status.success() || args == "doctor", "{args}: {errors}");
        assert!(!errors.contains("panicked") && !errors.contains("Broken pipe"), "{args}: {errors}");
    }
}

#[test]
fn standard_output_that_cannot_be_written_is_an_error() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    world.start(&[]).code(0);
    for args in ["status", "log", "list", "config", "log --attempt 1 --raw", "log -f --json"] {
        let script = format!("{} {args} >/dev/full", env!("CARGO_BIN_EXE_git-ralph"));
        let output = world.command("sh", &["-c", &script]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(128), "{args}: {errors}");
        assert!(errors.contains("fatal: cannot write to standard output: "), "{args}: {errors}");
    }
    world.start(&["--dry-run"]).code(2).says("a run of 'work' is open").says("git ralph resume work");
}
