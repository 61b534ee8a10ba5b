//! Tests that whichever command comes next completes what a killed git-ralph left half done.

use std::fs;

use crate::support::{COMPLETE, SIGNING, World};

/// A fake git that kills its git-ralph once, where the script calls `strike`; `last` tests whether an event is the last one in the
/// journal.
fn deadly_git(world: &World, script: &str) {
    let armed = world.outside("armed");
    fs::write(&armed, "").unwrap();
    world.fake_git(&format!(
        "strike() {{ rm {} 2>/dev/null && kill -9 $PPID && exit; }}
         last() {{ tail -n 1 {} 2>/dev/null | grep -q \"\\\"event\\\":\\\"$1\\\"\"; }}
         {script}",
        armed.display(),
        world.run_dir().join("journal.jsonl").display()
    ));
}

/// A run that was killed after its first attempt was accepted, before the landing began.
fn killed_when_accepted(world: &World) {
    deadly_git(world, "last attempt-accepted && strike");
    world.start(&[]).code(-9);
    assert_eq!((world.count("attempt-accepted"), world.count("checkpoint-landed")), (1, 0));
    assert_eq!(world.subjects("ralph/work"), ["initial state", "first"]);
}

#[test]
fn a_finish_lands_accepted_attempts() {
    for mode in ["--keep", "--cleanup"] {
        let world = World::new();
        world.stories(2, "");
        world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
        killed_when_accepted(&world);
        world.ralph(&["finish", mode]).code(0);
        assert_eq!((world.count("checkpoint-landed"), world.count("attempt-rolled-back")), (1, 0), "{mode}");
        assert_eq!(world.read("s1"), "1\n", "{mode}");
        assert!(!world.has_ref("refs/ralph/work/attempts/1/1"), "{mode}");
        let run = if mode == "--keep" { "ralph/work" } else { "refs/ralph/work/done" };
        assert_eq!(world.subjects(run), ["checkpoint: 1", "initial state", "first"], "{mode}");
    }
}

#[test]
fn an_abort_saves_an_accepted_attempt_as_a_checkpoint_under_a_ref() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("echo x >x; {COMPLETE}"));
    killed_when_accepted(&world);
    world.ralph(&["abort"]).code(0);
    assert_eq!((world.branch().as_str(), world.exists("x")), ("main", false));
    assert_eq!(world.subjects("refs/ralph/work/done"), ["checkpoint: 1", "initial state", "first"]);
}

#[test]
fn a_run_of_another_work_tree_is_running_only_if_it_is_at_work_there() {
    let world = World::new();
    let linked = world.outside("linked");
    world.git(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    world.change("other", "[[story]]\nid = \"1\"\n[[story]]\nid = \"2\"\n");
    let other = world.program("other", COMPLETE);
    let mut beside = World::empty();
    beside.repo = linked;
    beside.ralph(&["start", "other", "--limit", "1", "--", &other]).code(0);
    world.stories(1, "");
    let (ready, go) = (world.outside("ready"), world.outside("go"));
    world.agent(&format!("touch {}; while [ ! -e {} ]; do sleep 0.02; done; {COMPLETE}", ready.display(), go.display()));
    let running = world.spawn_start(&[]);
    world.wait_for("the agent", || ready.exists());
    for (place, from) in [(&world, "where another run is at work"), (&beside, "its own work tree")] {
        for (change, at_work) in [("work", true), ("other", false)] {
            let status = place.ralph(&["status", change, "--json"]).code(0);
            let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
            assert_eq!(status["running"], at_work, "{change}, asked from {from}");
            let next = format!("git ralph {} {change}", if at_work { "stop" } else { "resume" });
            place.ralph(&["status", change]).code(0).says(&next);
        }
        place.ralph(&["stop", "other"]).code(2).says("the run of 'other' is not running").says("git ralph resume other");
    }
    for args in [&["status", "work"][..], &["status", "other"], &["list"]] {
        assert_eq!(world.ralph(args).stdout, beside.ralph(args).stdout, "{args:?}");
    }
    fs::write(go, "").unwrap();
    running.finish().code(0);
    assert_eq!((world.count("stop-requested"), world.count("checkpoint-landed")), (0, 1), "nobody asked it to stop");
    beside.ralph(&["resume"]).code(0);
}

#[test]
fn a_checkpoint_landed_by_finish_has_the_message_that_the_hooks_left() {
    let world = World::new();
    world.stories(1, "");
    world.git(&["config", "ralph.hooks", "true"]);
    world.hook("commit-msg", "echo 'Signed-by: hook' >>\"$1\"");
    world.agent(&format!("echo x >x; {COMPLETE}"));
    killed_when_accepted(&world);
    world.ralph(&["finish", "--keep"]).code(0);
    assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1");
    assert_eq!(world.git(&["log", "-1", "--format=%(trailers:key=Signed-by,valueonly)", "ralph/work"]).trim(), "hook");
}

#[test]
fn a_checkpoint_landed_by_finish_is_signed_if_ralph_sign_says_so() {
    for sign in [true, false] {
        let world = World::new();
        world.stories(1, "");
        world.git(&["config", "ralph.sign", &sign.to_string()]);
        world.git(&["config", "gpg.program", &world.program("fake-gpg", SIGNING)]);
        world.agent(&format!("echo x >x; {COMPLETE}"));
        killed_when_accepted(&world);
        world.ralph(&["finish", "--keep"]).code(0);
        assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1");
        assert_eq!(world.git(&["cat-file", "commit", "ralph/work"]).contains("gpgsig"), sign);
    }
}

/// A world whose first agent leaves an unfinished merge and deletes an ignored file.
fn careless(stories: usize) -> World {
    let world = World::new();
    world.stories(stories, "");
    world.careless_agent();
    world
}

/// The run of `careless`, killed right after the branch has moved to its first checkpoint, before anything else.
fn killed_when_the_branch_has_moved(stories: usize) -> World {
    let world = careless(stories);
    deadly_git(
        &world,
        "case \"$*\" in *update-ref*) last attempt-accepted || exec $REAL_GIT \"$@\"
           $REAL_GIT \"$@\"; status=$?
           test \"$($REAL_GIT log -1 --format=%s refs/heads/ralph/work)\" = 'checkpoint: 1' && strike
           exit $status;; esac",
    );
    world.start(&[]).code(-9);
    assert_eq!((world.count("attempt-accepted"), world.count("checkpoint-landed")), (1, 0));
    assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1");
    assert!(world.exists(".git/MERGE_HEAD") && !world.exists(".env"), "this is where the landing was cut short");
    world
}

#[test]
fn the_agent_after_an_interrupted_landing_finds_the_same_state_as_after_any_other() {
    let (undisturbed, killed) = (careless(2), killed_when_the_branch_has_moved(2));
    undisturbed.start(&[]).code(0);
    killed.ralph(&["resume"]).code(0);
    for world in [undisturbed, killed] {
        assert_eq!(world.read("seen-by-2"), ".env\n");
        assert_eq!(world.read(".env"), "SECRET\n");
        assert!(!world.exists(".git/MERGE_HEAD"));
        assert_eq!(world.count("checkpoint-landed"), 2);
    }
}

#[test]
fn an_ignored_file_is_back_after_a_landing_that_was_cut_short_and_a_cleanup() {
    for command in [&["resume", "--finish", "cleanup"][..], &["finish", "--cleanup"]] {
        let world = killed_when_the_branch_has_moved(1);
        world.ralph(command).code(0);
        assert_eq!(world.branch(), "main");
        assert!(world.exists(".env"), "{command:?}");
        assert_eq!(world.read(".env"), "SECRET\n");
        assert!(!world.exists(".git/MERGE_HEAD"), "{command:?}");
    }
}

#[test]
fn a_landing_that_was_cut_short_counts_the_files_that_any_other_counts() {
    let (undisturbed, killed) = (careless(1), killed_when_the_branch_has_moved(1));
    undisturbed.start(&[]).code(0);
    killed.ralph(&["resume"]).code(0);
    let files = |world: &World| world.events().into_iter().find(|event| event["event"] == "checkpoint-landed").unwrap()["files"].clone();
    assert_eq!(files(&undisturbed), 2, "the file of the merge, and what the agent saw");
    assert_eq!(files(&killed), files(&undisturbed));
}

#[test]
fn a_start_that_was_killed_before_it_touched_anything_is_not_taken_for_the_kept_run_before_it() {
    for command in [&["abort"][..], &["finish", "--cleanup"], &["resume", "--finish", "cleanup"]] {
        let world = World::new();
        world.stories(1, "");
        world.agent(&format!("echo $RALPH_ATTEMPT >>made; {COMPLETE}"));
        world.start(&["--finish", "keep"]).code(0);
        world.git(&["switch", "-q", "main"]);
        world.write("mine", "mine\n");
        world.git(&["add", "mine"]);
        world.write("README", "edited\n");
        let journal = world.path(".git/ralph/runs/work/2/journal.jsonl");
        world.fake_git(&format!("test -e {0} && ! test -e {0}.killed && : >{0}.killed && kill -9 $PPID && exit", journal.display()));
        world.start(&["--restart"]).code(-9);
        world.ralph(command).code(0);
        assert_eq!(world.branch(), "main", "{command:?}");
        assert_eq!((world.read("mine").as_str(), world.read("README").as_str()), ("mine\n", "edited\n"), "{command:?}");
        assert_eq!(world.exists("made"), command[0] == "resume", "{command:?}");
        if command[0] != "resume" {
            assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "mine", "{command:?}");
            assert_eq!(world.subjects("ralph/work"), ["checkpoint: 1", "initial state", "first"], "{command:?}");
        }
    }
}

/// A gate that kills its git-ralph the first time, and runs `verdict` after that.
fn deadly_gate(world: &World, verdict: &str) -> String {
    let armed = world.outside("armed");
    fs::write(&armed, "").unwrap();
    format!("rm {} 2>/dev/null && kill -9 $PPID && exit 1; {verdict}", armed.display())
}

#[test]
fn a_finish_judges_by_the_gates_that_were_configured_when_the_attempt_started() {
    for mode in ["--keep", "--cleanup"] {
        let world = World::new();
        world.stories(1, "");
        world.agent("echo nothing");
        world.start(&["--max-retries", "0"]).code(1);
        world.agent(&format!("echo work >work; {COMPLETE}"));
        let gate = deadly_gate(&world, "exit 1");
        world.ralph(&["resume", "--max-retries", "1", "--verify", &gate]).code(-9);
        // That gate was an option of `resume`: it is neither among the options of `start` nor in the configuration.
        world.ralph(&["finish", mode]).code(0);
        assert_eq!((world.count("checkpoint-landed"), world.count("gate-ended")), (0, 1), "{mode}");
        assert_eq!(world.git(&["show", "refs/ralph/work/attempts/1/2:work"]), "work", "{mode}");
    }
}

#[test]
fn a_finish_judges_an_ended_attempt_even_if_the_change_can_no_longer_be_read() {
    let world = World::new();
    world.agent(&format!("echo work >work; {COMPLETE}"));
    let gate = deadly_gate(&world, "test -e work");
    world.stories(1, &format!("verify = ['{gate}']"));
    world.start(&[]).code(-9);
    world.change("work", "this is no change file");
    world.write(".git/ralph/runs/work/1/stop", "now\n");
    world.ralph(&["finish", "--keep"]).code(0);
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 1", "initial state", "first"]);
}

#[test]
fn a_finish_does_not_judge_a_work_tree_that_the_user_has_switched_away() {
    let world = World::new();
    world.agent(&format!("echo work >work; {COMPLETE}"));
    let gate = deadly_gate(&world, "true");
    world.stories(1, &format!("verify = ['{gate}']"));
    world.start(&[]).code(-9);
    world.git(&["stash", "-q", "-u"]);
    world.git(&["switch", "-q", "main"]);
    world.ralph(&["finish", "--cleanup"]).code(2).says("HEAD is on main, not on ralph/work").says("git switch ralph/work");
    world.git(&["switch", "-q", "ralph/work"]);
    world.git(&["stash", "pop", "-q"]);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!((world.branch().as_str(), world.read("work").as_str()), ("main", "work\n"));
}

#[test]
fn an_abort_is_stopped_neither_by_a_signature_that_cannot_be_made_nor_by_a_setting_that_cannot_be_read() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("echo work >work; {COMPLETE}"));
    world.git(&["config", "ralph.sign", "true"]);
    world.git(&["config", "gpg.program", "false"]);
    world.git(&["config", "user.signingKey", "X"]);
    world.start(&[]).code(128);
    world.git(&["config", "ralph.maxRetries", "many"]);
    world.ralph(&["finish", "--keep"]).code(128).says("bad value for ralph.maxRetries");
    world.ralph(&["abort"]).code(0);
    assert_eq!((world.branch().as_str(), world.exists("work")), ("main", false));
    assert_eq!(world.git(&["show", "refs/ralph/work/done:work"]), "work");
}

#[test]
fn a_checkpoint_is_recognised_whatever_a_hook_has_written_behind_its_trailers() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("echo work >work; {COMPLETE}"));
    world.git(&["config", "ralph.hooks", "true"]);
    world.hook("commit-msg", "printf '\\nSeen by the hook.\\n' >>\"$1\"");
    deadly_git(&world, "case \"$*\" in *update-ref*) last attempt-accepted && { \"$REAL_GIT\" \"$@\"; strike; };; esac");
    world.start(&[]).code(-9);
    world.ralph(&["finish", "--keep"]).code(0);
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 1", "initial state", "first"]);
    assert!(world.git(&["log", "-1", "--format=%B", "ralph/work"]).ends_with("Seen by the hook."));
}

#[test]
fn a_finish_that_is_interrupted_or_stopped_leaves_everything_as_it_is_and_says_how_to_go_on() {
    for way in ["INT", "TERM", "stop --now"] {
        let world = World::new();
        world.agent(&format!("echo work >work; {COMPLETE}"));
        let slow = world.outside("slow");
        let gate = deadly_gate(&world, &format!("test -e {0} || {{ : >{0}; sleep 100; }}", slow.display()));
        world.stories(1, &format!("verify = ['{gate}']"));
        world.start(&[]).code(-9);
        let before = world.events().len();
        let finish = world.spawn(&["finish", "--keep"]);
        world.wait_for("the gate", || slow.exists());
        match way {
            "stop --now" => drop(world.ralph(&["stop", "--now"]).code(0)),
            signal => finish.signal(signal),
        }
        finish.finish().code(130).says("git ralph finish --keep work");
        assert_eq!(world.events().len(), before, "{way}");
        world.ralph(&["finish", "--keep"]).code(0);
        assert_eq!(world.subjects("ralph/work"), ["checkpoint: 1", "initial state", "first"], "{way}");
    }
}
