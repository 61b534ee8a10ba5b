//! Tests how runs end: what `--finish` does, the question at the end, what other commands may do while it waits, and the summary.

use std::fs;

use crate::screen::Screen;
use crate::support::{COMPLETE, World, is_gone, send};

const DOWN: &str = "\u{1b}[B";
const UP: &str = "\u{1b}[A";
const ENTER: &str = "\r";
const CTRL_C: &str = "\u{3}";

/// Two stories; the second one fails.
fn half_failing() -> World {
    let world = World::new();
    world.stories(2, "max-retries = 0");
    world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; test $RALPH_STORY = 2 && exit 1; {COMPLETE}"));
    world
}

fn on_screen(world: &World) -> Screen {
    Screen::new(world, &["start", "work", "--", world.outside("bin/agent").to_str().unwrap()])
}

#[test]
fn finish_on_the_command_line_acts_only_when_every_story_is_done() {
    for mode in ["cleanup", "keep"] {
        let world = half_failing();
        world
            .start(&["--finish", mode])
            .code(1)
            .says("the run stays open, because not every story is done")
            .says("git ralph resume work")
            .says("git ralph finish --cleanup work")
            .says("git ralph finish --keep work");
        assert_eq!(world.count("finished"), 0);
        world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
        world.ralph(&["resume", "--max-retries", "1"]).code(0);
        assert_eq!(world.count("finished"), 1, "the run remembers --finish, and every story is done now");
    }
}

#[test]
fn a_limit_or_a_selection_with_finish_leaves_the_run_open_and_stops_short() {
    for option in [["--limit", "1"], ["--only", "1"]] {
        let world = World::new();
        world.stories(2, "");
        world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
        world.start(&[&option[..], &["--finish", "cleanup"]].concat()).code(1).says("the run stays open");
        assert_eq!(world.count("finished"), 0);
        world.ralph(&["resume", "work", "--only", "2"]).code(0).says("all stories of work are done");
        assert_eq!(world.count("finished"), 1, "a selection that completes the change is no part of it");
    }
}

#[test]
fn a_selection_that_is_done_lets_resume_continue_with_the_other_stories() {
    let world = World::new();
    world.stories(3, "");
    world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
    world
        .start(&["--only", "1"])
        .code(0)
        .says("the selected stories are done")
        .says("git ralph resume work   to continue with the other stories");
    world.ralph(&["undo"]).code(0);
    world.ralph(&["resume"]).code(0).says("the selected stories are done");
    assert_eq!(world.count("checkpoint-landed"), 2, "a selection that is not done holds for a resume");
    world.ralph(&["resume", "work"]).code(0).says("all stories of work are done");
    assert_eq!(world.count("checkpoint-landed"), 4);
}

#[test]
fn a_selection_that_waits_for_other_stories_lets_resume_work_on_all_of_them() {
    let world = World::new();
    world.change("work", "[[story]]\nid = '1'\n[[story]]\nid = '2'\nafter = ['1']\n");
    world.agent(COMPLETE);
    world.start(&["--only", "2"]).code(1).says("stopped: story '2' comes after stories that are not selected");
    world.ralph(&["resume", "work"]).code(0).says("all stories of work are done");
}

#[test]
fn a_run_whose_budget_is_exceeded_is_not_finished_whatever_finish_says() {
    let world = World::new();
    world.stories(2, "");
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"<promise>COMPLETE</promise>","total_cost_usd":0.25,"usage":{"input_tokens":1}}"#;
    world.program("claude", &format!("cat >/dev/null; echo x >>x; echo '{result}'"));
    world
        .ralph(&["start", "work", "--agent", "claude", "--max-cost", "0.2", "--finish", "cleanup"])
        .code(1)
        .says("stopped: budget exceeded ($0.250 spent, limit $0.200)")
        .says("the run stays open, because not every story is done")
        .says("git ralph resume --max-cost 0.45 work   to raise the budget");
    assert_eq!((world.count("finished"), world.count("checkpoint-landed")), (0, 1));
    world.ralph(&["resume", "--max-cost", "0.45", "work"]).code(0).says("all stories of work are done");
}

#[test]
fn an_interrupted_run_is_not_finished_whatever_finish_says() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("touch {}; sleep 600", world.outside("at-work").display()));
    let running = world.spawn_start(&["--finish", "cleanup"]);
    world.wait_for("the agent", || world.outside("at-work").exists());
    running.signal("INT");
    running.finish().code(130).says("the run stays open").says("git ralph resume work");
    assert_eq!(world.count("finished"), 0);
}

#[test]
fn a_run_that_was_finished_before_every_story_was_done_is_listed_as_partial() {
    let world = half_failing();
    world.start(&[]).code(1);
    assert!(world.ralph(&["list"]).code(0).stdout.contains("open"));
    world.ralph(&["finish", "--keep"]).code(0);
    let list = world.ralph(&["list"]).code(0).stdout;
    assert!(list.contains("partial") && list.contains("1/2"), "{list}");
    assert!(world.ralph(&["list", "--json"]).code(0).stdout.contains("\"state\": \"partial\""));
}

#[test]
fn enter_leaves_a_run_open_that_has_more_to_do() {
    let world = half_failing();
    let mut screen = on_screen(&world);
    screen.wait_for("Story '2' has no retries left, 1 of 2 stories done. What now?");
    screen.wait_for("later    leave the run open");
    screen.press(ENTER);
    assert_eq!(screen.end().0, 1);
    assert_eq!((world.count("finished"), world.branch()), (0, "ralph/work".to_owned()));
    let mut screen = Screen::new(&world, &["finish"]);
    screen.wait_for("1 of 2 stories done. What now?");
    screen.press(ENTER);
    assert_eq!((screen.end().0, world.count("finished")), (2, 0));
}

#[test]
fn while_the_question_waits_status_says_so_and_other_commands_work() {
    let world = half_failing();
    let mut screen = on_screen(&world);
    screen.wait_for("What now?");
    let status = world.ralph(&["status"]).code(0).stdout;
    assert!(status.contains("work: open, waiting for your answer, 1 of 2 stories done"), "{status}");
    let json: serde_json::Value = serde_json::from_str(&world.ralph(&["status", "--json"]).code(0).stdout).unwrap();
    assert_eq!(json["asking"].as_u64(), screen.child.process_id().map(u64::from));
    world.ralph(&["undo"]).code(0);
    screen.press(UP);
    screen.press(ENTER);
    let (code, text) = screen.end();
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("another command has changed the run of 'work' since the question was asked; nothing was done"), "{text}");
    assert_eq!((world.count("finished"), world.branch()), (0, "ralph/work".to_owned()));
    assert!(!world.ralph(&["status"]).code(0).stdout.contains("waiting for your answer"));
}

#[test]
fn a_run_can_be_closed_from_elsewhere_while_the_question_waits() {
    let world = half_failing();
    let mut screen = on_screen(&world);
    screen.wait_for("What now?");
    world.ralph(&["abort"]).code(0);
    screen.press(UP);
    screen.press(ENTER);
    let (code, text) = screen.end();
    assert_eq!(code, 2, "{text}");
    assert_eq!((world.count("aborted"), world.count("finished"), world.branch()), (1, 0, "main".to_owned()));
}

#[test]
fn an_answer_to_an_outdated_question_names_no_command_that_fails() {
    for (key, code) in [(ENTER, 1), ("q", 1), (CTRL_C, 130)] {
        let world = half_failing();
        let mut screen = on_screen(&world);
        screen.wait_for("What now?");
        world.ralph(&["finish", "--cleanup"]).code(0);
        screen.press(key);
        let (ended, text) = screen.end();
        assert_eq!(ended, code, "{text}");
        assert!(text.contains("another command has changed the run of 'work' since the question was asked"), "{text}");
        assert!(text.contains("git ralph status work"), "{text}");
        for wrong in ["the run is open", "git ralph resume", "git ralph finish", "git ralph abort"] {
            assert!(!text.contains(wrong), "{wrong}: {text}");
        }
    }
}

#[test]
fn quiet_leaves_out_the_commands_to_type_next() {
    let world = half_failing();
    let start = world.start(&["-q"]).code(1);
    let resume = world.ralph(&["resume", "-q"]).code(1);
    for text in [start.stderr, resume.stderr] {
        assert!(!text.contains("the run is open") && !text.contains("git ralph finish"), "{text}");
    }
    let finish =
        world.ralph(&["resume", "-q", "--finish", "cleanup"]).code(1).says("warning: the run stays open, because not every story is done");
    assert!(!finish.stderr.contains("git ralph finish"), "{}", finish.stderr);
}

#[test]
fn status_names_the_runs_where_several_are_open() {
    let world = World::new();
    let agent = world.agent(COMPLETE);
    for name in ["one", "two"] {
        world.change(name, "[[story]]\nid = '1'\ntitle = 'x'\nprompt = 'x'\n");
        world.ralph(&["start", name, "--isolate", "--", &agent]).code(0);
    }
    for options in [&["status"][..], &["status", "--json"], &[]] {
        let output = world.ralph(options).code(2).says("more than one run is open in this work tree: name one of them");
        assert!(output.stderr.contains("git ralph status one") && output.stderr.contains("git ralph status two"), "{}", output.stderr);
        assert_eq!(output.stdout, "");
    }
    world.ralph(&["abort", "one"]).code(0);
    assert!(world.ralph(&["status"]).code(0).stdout.contains("two: open"));
    world.ralph(&["abort", "two"]).code(0);
    assert!(world.ralph(&["status"]).code(0).stdout.contains("no run is open"));
}

#[test]
fn stop_withdraws_the_question_and_leaves_the_run_open() {
    let world = half_failing();
    let screen = on_screen(&world);
    screen.wait_for("What now?");
    world.ralph(&["stop"]).code(0).says("withdraw its question; the run stays open");
    let (code, text) = screen.end();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("git ralph resume work"), "{text}");
    assert_eq!(world.count("finished"), 0);
    world.ralph(&["stop"]).code(2).says("the run of 'work' is not running");
}

#[test]
fn stop_reaches_the_loop_of_another_terminal_while_a_question_waits() {
    let world = World::new();
    world.stories(3, "");
    world.agent(COMPLETE);
    let agent = world.outside("bin/agent");
    let mut screen = Screen::new(&world, &["start", "work", "--limit", "1", "--", agent.to_str().unwrap()]);
    screen.wait_for("1 of 3 stories done. What now?");
    let (at_work, go_on) = (world.outside("at-work"), world.outside("go-on"));
    world.agent(&format!("touch {}; until test -e {}; do sleep 0.05; done; {COMPLETE}", at_work.display(), go_on.display()));
    let running = world.spawn(&["resume", "work"]);
    world.wait_for("the agent", || at_work.exists());
    world.ralph(&["stop"]).code(0).says(&format!("asked process {} to stop after the current attempt", running.pid()));
    world.wait_for("the loop has heard of it", || world.count("stop-requested") == 1);
    fs::write(&go_on, "").unwrap();
    running.finish().code(1);
    assert_eq!(world.count("checkpoint-landed"), 2, "the loop has stopped");
    assert!(world.ralph(&["status"]).code(0).stdout.contains("waiting for your answer"));
    screen.press(DOWN);
    screen.press(ENTER);
    assert_eq!(screen.end().0, 2);
}

#[test]
fn a_stop_that_ended_the_loop_does_not_answer_the_question() {
    let world = World::new();
    world.stories(2, "");
    let (at_work, go_on) = (world.outside("at-work"), world.outside("go-on"));
    world.agent(&format!("touch {}; until test -e {}; do sleep 0.05; done; {COMPLETE}", at_work.display(), go_on.display()));
    let mut screen = on_screen(&world);
    world.wait_for("the agent", || at_work.exists());
    world.ralph(&["stop"]).code(0).says("after the current attempt");
    screen.wait_for("stopping after this attempt");
    fs::write(&go_on, "").unwrap();
    screen.wait_for("The run is paused, 1 of 2 stories done. What now?");
    screen.press(DOWN);
    screen.press(ENTER);
    assert_eq!((screen.end().0, world.count("finished"), world.branch()), (1, 1, "main".to_owned()));
}

#[test]
fn a_stop_during_the_last_story_ends_a_run_that_is_done() {
    for key in [None, Some("q")] {
        let world = World::new();
        world.stories(1, "");
        let (at_work, go_on) = (world.outside("at-work"), world.outside("go-on"));
        world.agent(&format!("touch {}; until test -e {}; do sleep 0.05; done; {COMPLETE}", at_work.display(), go_on.display()));
        if let Some(key) = key {
            let mut screen = on_screen(&world);
            world.wait_for("the agent", || at_work.exists());
            screen.press(key);
            screen.wait_for("stopping after this attempt");
            fs::write(&go_on, "").unwrap();
            screen.wait_for("Every story is done. How should the run be completed?");
            screen.press(ENTER);
            assert_eq!((screen.end().0, world.count("finished"), world.branch()), (0, 1, "main".to_owned()));
        } else {
            let running = world.spawn_start(&["--finish", "cleanup"]);
            world.wait_for("the agent", || at_work.exists());
            world.ralph(&["stop"]).code(0);
            world.wait_for("the loop has heard of it", || world.count("stop-requested") == 1);
            fs::write(&go_on, "").unwrap();
            running.finish().code(0).says("all stories of work are done");
            assert_eq!(world.count("finished"), 1);
        }
    }
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it sees that a process has ended although its parent has not reaped it")]
#[test]
fn a_withdrawn_question_leaves_no_trace_in_status() {
    let world = half_failing();
    for signal in ["TERM", "KILL"] {
        let screen = if signal == "TERM" { on_screen(&world) } else { Screen::new(&world, &["finish"]) };
        screen.wait_for("What now?");
        let process = screen.child.process_id().unwrap().to_string();
        send(signal, &process);
        world.wait_for("the end of the process", || is_gone(&process));
        assert!(!world.ralph(&["status"]).code(0).stdout.contains("waiting for your answer"), "{signal}");
    }
    let mut screen = Screen::new(&world, &["finish"]);
    screen.wait_for("What now?");
    screen.press(CTRL_C);
    assert_eq!(screen.end().0, 130);
}

#[test]
fn a_loop_ends_with_a_summary_that_log_and_status_repeat() {
    let world = World::new();
    world.stories(3, "max-retries = 1");
    world.agent(&format!("seq $RALPH_STORY >s$RALPH_STORY; test $RALPH_STORY = 2 && exit 1; {COMPLETE}"));
    let output = world.start(&[]).code(1);
    let facts = [
        "  stories   1 of 3 done; 1 failed (2); 1 open (3)\n",
        "  effort    3 attempts in ",
        "; agents worked for ",
        "  changes   1 file, 1 line added\n",
        "  saved     refs/ralph/work/attempts/2/1, refs/ralph/work/attempts/2/2; git ralph log work lists all\n",
    ];
    for fact in facts {
        assert!(output.stderr.contains(fact), "{fact}: {}", output.stderr);
    }
    // `log` lists every ref with saved work, and commands for it.
    for fact in &facts[..4] {
        assert!(world.ralph(&["log"]).code(0).stdout.contains(fact), "{fact}");
    }
    for fact in [facts[1], facts[2], facts[4]] {
        assert!(world.ralph(&["status"]).code(0).stdout.contains(fact), "{fact}");
    }
    for command in ["log", "status"] {
        let json: serde_json::Value = serde_json::from_str(&world.ralph(&[command, "--json"]).code(0).stdout).unwrap();
        let summary = &json["summary"];
        assert_eq!((summary["attempts"].as_u64(), summary["saved"].as_array().map(Vec::len)), (Some(3), Some(2)), "{json}");
        assert_eq!(summary["stories"][1], serde_json::json!({ "state": "failed", "ids": ["2"] }));
    }
    let quiet = world.ralph(&["resume", "-q"]).code(1);
    assert!(!quiet.stderr.contains("agents worked"), "{}", quiet.stderr);
}

#[test]
fn a_summary_has_cost_and_tokens_if_the_agent_reports_them() {
    let world = World::new();
    world.stories(1, "");
    let usage = r#""total_cost_usd":0.25,"usage":{"input_tokens":1000,"output_tokens":500}"#;
    let result = format!(r#"{{"type":"result","subtype":"success","is_error":false,"result":"<promise>COMPLETE</promise>",{usage}}}"#);
    world.program("claude", &format!("cat >/dev/null; echo '{result}'"));
    let output = world.ralph(&["start", "work", "--agent", "claude", "--finish", "keep"]).code(0);
    assert!(output.stderr.contains(", $0.250, 1.5k tokens\n  changes   none\n"), "{}", output.stderr);
}

#[test]
fn the_next_command_for_a_finished_run_is_printed_last() {
    for (mode, command) in [("cleanup", "git status"), ("keep", "git switch main && git merge ralph/work")] {
        let world = World::new();
        world.stories(1, "");
        world.agent(&format!("echo x >new; {COMPLETE}"));
        world.start(&["--finish", mode]).code(0).says(&format!("hint: {command}   "));
        let shell = world.command("sh", &["-c", command]).output().unwrap();
        assert!(shell.status.success(), "{}", String::from_utf8_lossy(&shell.stderr));
    }
}

/// A change with one story that was done and kept; HEAD is back on main.
fn kept() -> (World, String) {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("echo x >new; {COMPLETE}"));
    world.start(&["--finish", "keep"]).code(0);
    if !World::is_isolated() {
        world.git(&["switch", "-q", "main"]);
    }
    world.agent(&format!("echo y >other; {COMPLETE}"));
    let tip = world.git(&["rev-parse", "ralph/work"]);
    (world, tip)
}

#[test]
fn an_abort_puts_a_kept_branch_back_in_its_place() {
    for options in [&["--restart"][..], &["--restart", "--isolate"]] {
        let (world, tip) = kept();
        world.start(options).code(0);
        assert_ne!(world.git(&["rev-parse", "ralph/work"]), tip);
        world.ralph(&["abort"]).code(0).says(&format!("branch ralph/work from before the run is back at {}", &tip[..10]));
        assert_eq!(world.git(&["rev-parse", "ralph/work"]), tip);
        assert!(!world.has_ref("refs/ralph/work/leftover/2"), "it is in one place only");
        world.ralph(&["prune", "--yes"]).code(0);
        assert_eq!(world.git(&["rev-parse", "ralph/work"]), tip, "prune deletes no branch");
    }
}

#[test]
fn an_abort_that_is_killed_after_its_last_ref_leaves_the_kept_branch_alone() {
    for options in [&["--restart"][..], &["--restart", "--isolate"]] {
        let (world, tip) = kept();
        world.start(options).code(0);
        let journal = world.path(".git/ralph/runs/work/2/journal.jsonl");
        // The transaction that restores the branch is the last step of an abort.
        world.fake_git(&format!(
            "\"$REAL_GIT\" \"$@\"; code=$?; test \"$($REAL_GIT rev-parse ralph/work)\" = {tip} && kill -9 $PPID; exit $code"
        ));
        world.ralph(&["abort"]).code(-9);
        world.program("git", &format!("exec {} \"$@\"", crate::support::which("git")));
        assert!(!fs::read_to_string(&journal).unwrap().contains("\"aborted\""));
        world.ralph(&["abort"]).code(0);
        assert_eq!((world.git(&["rev-parse", "ralph/work"]), world.branch()), (tip, "main".to_owned()));
    }
}

#[test]
fn a_branch_that_was_kept_is_pruned_only_if_it_is_named() {
    let (world, tip) = kept();
    world.start(&["--restart"]).code(0);
    world.ralph(&["finish", "--cleanup"]).code(0);
    let kept = "refs/ralph/work/leftover/2";
    let output = world.ralph(&["prune", "--yes"]).code(0).says(&format!("git ralph prune {kept}"));
    assert!(!output.stdout.contains("leftover"), "{}", output.stdout);
    world.ralph(&["prune", "--yes", "--change", "work"]).code(0);
    assert_eq!(world.git(&["rev-parse", kept]), tip);
    world.git(&["stash", "-q", "-u"]);
    world.agent(COMPLETE);
    for _ in 0..3 {
        world.start(&["--restart", "--finish", "keep"]).code(0);
        world.git(&["switch", "-q", "main"]);
        world.ralph(&["prune", "--yes"]).code(0);
        assert_eq!(world.git(&["rev-parse", kept]), tip, "no later run takes its number");
    }
    world.ralph(&["prune", "--yes", "refs/heads/main"]).code(128).says("'refs/heads/main' is not a ref of a finished or aborted run");
    world.ralph(&["prune", kept]).code(2).says(&format!("git ralph prune --yes {kept}"));
    world.ralph(&["prune", "--yes", kept]).code(0);
    assert!(!world.has_ref(kept) && world.has_ref("ralph/work"));
}

#[test]
fn a_finished_change_is_not_run_again_without_being_asked_for() {
    let world = World::new();
    world.stories(3, "");
    world.agent(&format!("echo $RALPH_STORY >>{}; {COMPLETE}", world.outside("ran").display()));
    world.start(&["--limit", "2"]).code(0);
    world.ralph(&["finish", "--cleanup"]).code(0);
    let ran = || fs::read_to_string(world.outside("ran")).unwrap();
    world
        .start(&[])
        .code(2)
        .says("run 1 of 'work' is finished, and these stories would be done again: 1, 2")
        .says("git ralph start --restart work")
        .says("git ralph start --only 3 work   to do only the others");
    assert_eq!((ran().as_str(), world.branch()), ("1\n2\n", "main".to_owned()));
    let mut screen = on_screen(&world);
    screen.wait_for("Do them again? (y/n)");
    screen.press("n");
    assert_eq!((screen.end().0, ran().as_str()), (2, "1\n2\n"));
    world.start(&["--only", "3", "--finish", "ask"]).code(0);
    assert_eq!(ran(), "1\n2\n3\n", "a story that was not done needs no leave");
    world.ralph(&["abort"]).code(0);
    world.start(&["--limit", "1"]).code(0);
    assert_eq!(ran(), "1\n2\n3\n1\n", "nothing is left of an aborted run");
}

#[test]
fn stories_that_their_source_marks_as_done_are_not_done_again_and_not_asked_about() {
    let world = World::new();
    world.write("TODO.md", "- [ ] first\n- [ ] second\n");
    world.change("work", "source = 'TODO.md'\n");
    world.agent(&format!("echo x >>{}; {COMPLETE}", world.outside("ran").display()));
    world.start(&["--finish", "cleanup"]).code(0).says("2 stories in TODO.md");
    world.start(&["--finish", "cleanup"]).code(0).says("2 stories in TODO.md, 2 of them done already");
    assert_eq!(fs::read_to_string(world.outside("ran")).unwrap(), "x\nx\n");
}

#[test]
fn a_template_that_was_never_edited_starts_no_agent() {
    let world = World::new();
    world.ralph(&["new", "work"]).code(0);
    world.agent(&format!("touch {}; {COMPLETE}", world.outside("ran").display()));
    world.start(&[]).code(2).says("story 'story-1' of .git/ralph/work.toml still says \"Say what is to be done\"");
    world.start(&["--dry-run"]).code(2).says("Say what is to be done");
    assert!(!world.outside("ran").exists() && !world.has_ref("ralph/work"));
    let text = world.read(".git/ralph/work.toml").replace("Say what is to be done", "Greet");
    fs::write(world.path(".git/ralph/work.toml"), text.replace("Describe the story for the agent.", "Say hello.")).unwrap();
    world.start(&[]).code(0).says("1 story in .git/ralph/work.toml");
}

#[test]
fn after_a_switch_by_hand_status_says_where_head_is_and_its_command_leads_back() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo x >>new; {COMPLETE}"));
    world.ralph(&["start", "work", "--limit", "1", "--", world.outside("bin/agent").to_str().unwrap()]).code(0);
    world.git(&["switch", "-q", "main"]);
    let status = world.ralph(&["status"]).code(0).stdout;
    assert!(status.contains("\nHEAD is on main, not on ralph/work; started from main\n"), "{status}");
    let json: serde_json::Value = serde_json::from_str(&world.ralph(&["status", "--json"]).code(0).stdout).unwrap();
    assert_eq!(json["head"], "main");
    world.ralph(&["resume"]).code(2).says("HEAD is on main, not on ralph/work").says("hint: git switch ralph/work");
    let next = status.lines().find_map(|line| line.strip_prefix("next: ")).unwrap();
    assert_eq!(next, "git switch ralph/work && git ralph resume work");
    let shell = world.command("sh", &["-c", next]).output().unwrap();
    assert!(shell.status.success(), "{}", String::from_utf8_lossy(&shell.stderr));
    assert_eq!((world.branch(), world.count("checkpoint-landed")), ("ralph/work".to_owned(), 2));
    world.git(&["switch", "-q", "--detach"]);
    assert!(world.ralph(&["status"]).code(0).stdout.contains("HEAD is detached at "), "a commit is named");
}

/// 25 branches, each with a commit of its own.
fn with_branches() -> World {
    let world = World::new();
    for number in 1..=25 {
        let commit = world.git(&["commit-tree", "-p", "HEAD", "-m", &format!("topic {number}"), "HEAD^{tree}"]);
        world.git(&["branch", &format!("topic-{number}"), &commit]);
    }
    world
}

#[test]
fn log_all_graph_shows_only_the_commits_of_the_user_and_of_the_run() {
    let world = with_branches();
    let before = world.git(&["log", "--all", "--graph", "--format=%s"]);
    let seen = world.outside("seen");
    world.stories(2, "");
    world.agent(&format!(
        "{0} log --all --graph --format=%s >{1}-$RALPH_STORY; {0} for-each-ref refs/ralph/work/pins | wc -l >{1}-pins; echo x >>new; {COMPLETE}",
        crate::support::which("git"),
        seen.display()
    ));
    world.start(&[]).code(0);
    let pins = fs::read_to_string(format!("{}-pins", seen.display())).unwrap();
    assert_eq!(pins.trim(), if World::is_isolated() { "0" } else { "26" }, "each branch has a second ref during an attempt");
    let commits = |graph: &str| graph.lines().filter(|line| line.contains('*')).count();
    let during = fs::read_to_string(format!("{}-1", seen.display())).unwrap();
    assert_eq!(commits(&during), commits(&before) + 2, "the initial state and the index of the start are the only commits more:\n{during}");
    let widest = |graph: &str| graph.lines().map(|line| line.find(|c: char| c.is_alphanumeric()).unwrap_or(0)).max();
    assert!(widest(&during) <= widest(&before).map(|width| width + 2), "{during}");
    let after = world.git(&["log", "--all", "--graph", "--format=%s"]);
    assert_eq!(commits(&after), commits(&before) + 4, "{after}");
    assert_eq!(world.git(&["for-each-ref", "refs/ralph/work/pins"]), "", "no attempt is under way");
}

#[test]
fn refs_deleted_and_objects_collected_by_an_agent_are_restored_in_every_loop_and_with_many_branches() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    for more in [0, 60] {
        let world = with_branches();
        for number in 0..more {
            let commit = world.git(&["commit-tree", "-p", "HEAD", "-m", &format!("more {number}"), "HEAD^{tree}"]);
            world.git(&["branch", &format!("more-{number}"), &commit]);
        }
        world.write("README", "stashed\n");
        world.git(&["stash", "-q"]);
        let mine = |world: &World| (world.git(&["for-each-ref", "refs/heads/topic*", "refs/heads/more*"]), world.git(&["stash", "list"]));
        let before = mine(&world);
        world.stories(2, "");
        world.agent(&format!(
            "GIT={}; $GIT branch -q -D $($GIT for-each-ref --format='%(refname:short)' 'refs/heads/topic*' 'refs/heads/more*')
             $GIT stash clear; $GIT reflog expire --expire=now --all; $GIT gc -q --prune=now; echo x >>new; {COMPLETE}",
            crate::support::which("git")
        ));
        world.start(&["--limit", "1"]).code(0).says("the agent deleted refs/heads/topic-1; it is restored");
        assert_eq!(mine(&world), before);
        world.ralph(&["resume"]).code(0).says("the agent deleted refs/heads/topic-1; it is restored");
        assert_eq!(mine(&world), before, "the second loop protects them as well");
        world.git(&["fsck", "--connectivity-only"]);
    }
}

#[test]
fn a_skipped_story_is_reported_and_a_run_without_it_is_not_partial() {
    let world = half_failing();
    world.start(&[]).code(1);
    world.ralph(&["skip", "2"]).code(0);
    let output = world.ralph(&["resume", "--finish", "keep"]).code(0);
    assert!(output.stderr.contains("  stories   1 of 2 done; 1 skipped (2)\n"), "{}", output.stderr);
    assert!(world.ralph(&["list"]).code(0).stdout.contains("finished"), "leaving a story out is the user's choice");
}

#[test]
fn a_blocked_story_is_in_the_summary_and_leaves_the_run_open() {
    let world = World::new();
    world.stories(1, "");
    world.agent("echo x >x; echo '<promise>BLOCKED: a key</promise>'");
    let output = world.start(&["--finish", "cleanup"]).code(1).says("the run stays open");
    assert!(output.stderr.contains("  stories   0 of 1 done; 1 blocked (1)\n"), "{}", output.stderr);
}

#[test]
fn a_change_whose_open_stories_are_skipped_ends_in_one_way_with_or_without_finish() {
    for options in [&[][..], &["--finish", "keep"]] {
        let world = half_failing();
        world.start(&[]).code(1);
        world.ralph(&["skip", "2"]).code(0);
        let output = world.ralph(&[&["resume"], options].concat()).code(0);
        assert!(output.stderr.contains("nothing is left to do: every story of work is done or skipped"), "{}", output.stderr);
        assert!(!output.stderr.contains("git ralph resume"), "nothing can go on: {}", output.stderr);
    }
}

#[test]
fn a_story_that_failed_and_has_retries_left_is_open_in_the_summary() {
    let world = World::new();
    world.stories(2, "max-retries = 3");
    let (first, second) = (world.outside("first"), world.outside("second"));
    world.agent(&format!("test -e {0} && {{ touch {1}; sleep 600; }}; touch {0}; exit 1", first.display(), second.display()));
    let running = world.spawn_start(&[]);
    world.wait_for("the second attempt", || second.exists());
    running.signal("INT");
    let output = running.finish().code(130);
    assert!(output.stderr.contains("  stories   0 of 2 done; 2 open (1 after a failed attempt, 2)\n"), "{}", output.stderr);
    let json: serde_json::Value = serde_json::from_str(&world.ralph(&["status", "--json"]).code(0).stdout).unwrap();
    assert_eq!(json["summary"]["stories"], serde_json::json!([{ "state": "open", "ids": ["1", "2"] }]));
}

#[test]
fn status_after_a_kill_says_that_the_attempt_was_cut_short() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("touch {}; sleep 600", world.outside("at-work").display()));
    let running = world.spawn_start(&[]);
    world.wait_for("the agent", || world.outside("at-work").exists());
    assert!(world.ralph(&["status"]).code(0).stdout.contains("\n  working   1 "));
    running.signal("KILL");
    running.finish().code(-9);
    let status = world.ralph(&["status"]).code(0).stdout;
    assert!(status.contains("\n  interrupted 1 "), "{status}");
    world.ralph(&["abort"]).code(0);
}

#[test]
fn the_hint_at_a_conflict_puts_untracked_files_aside_too() {
    let world = World::new();
    world.stories(1, "");
    let agent = world.agent(&format!("echo agent >new; {COMPLETE}"));
    world.ralph(&["start", "work", "--isolate", "--", &agent]).code(0);
    world.write("new", "user\n");
    let output = world.ralph(&["finish", "--cleanup"]).code(2).says("your checkout conflicts with the result of the run in:");
    let hint = output.stderr.lines().find_map(|line| line.strip_prefix("hint: ").filter(|hint| hint.starts_with("git stash"))).unwrap();
    let command: Vec<&str> = hint.split("   ").next().unwrap().split(' ').skip(1).collect();
    world.git(&command);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!((world.read("new").as_str(), world.git(&["stash", "list"]).lines().count()), ("agent\n", 1));
}

#[test]
fn hints_for_a_story_whose_id_looks_like_an_option_can_be_pasted() {
    for end in ["<promise>BLOCKED: a key</promise>", "<promise>FAILED: no</promise>"] {
        let world = World::new();
        world.change("work", "max-retries = 0\n[[story]]\nid = '-m'\ntitle = 'x'\nprompt = 'x'\n");
        world.agent(&format!("echo '{end}'"));
        let status = {
            world.start(&[]).code(1);
            world.ralph(&["status"]).code(0).stdout
        };
        let steering = ["git ralph retry", "git ralph skip", "git ralph hint"];
        let lines: Vec<&str> = status.lines().filter_map(|line| line.split_once(": ").map(|(_, command)| command)).collect();
        let commands: Vec<&str> = lines.into_iter().filter(|line| steering.iter().any(|start| line.starts_with(start))).collect();
        assert!(commands.len() >= 2, "{status}");
        for command in commands {
            let command = command.split(" && ").next().unwrap().replace("<answer>", "an answer");
            let shell = world.command("sh", &["-c", &command]).output().unwrap();
            assert!(shell.status.success(), "{command}: {}", String::from_utf8_lossy(&shell.stderr));
        }
    }
}

#[test]
fn a_run_that_is_kept_after_a_switch_by_hand_does_not_claim_to_be_on_its_branch() {
    let world = half_failing();
    let mut screen = on_screen(&world);
    screen.wait_for("What now?");
    world.git(&["switch", "-q", "main"]);
    screen.press(UP);
    screen.press(ENTER);
    let (code, text) = screen.end();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("finished; the result is on ralph/work") && !text.contains("staying"), "{text}");
    assert_eq!(world.branch(), "main");
}
