//! Tests what git-ralph prints about an isolated run: on the screen, in `status` and in `log`, with the commands to type next.

use std::fs;

use crate::man_pages::assert_on_page;
use crate::screen::Screen;
use crate::support::{COMPLETE, World};

/// Stories that may run in parallel.
fn world(ids: &[&str], head: &str) -> World {
    let world = World::new();
    let stories: String = ids.iter().map(|id| format!("[[story]]\nid = \"{id}\"\n")).collect();
    world.change("work", &format!("order = \"any\"\nmax-retries = 0\n{head}\n{stories}"));
    world
}

/// A shell script that waits until [`open`] creates a file of that name.
fn closed(world: &World, name: &str) -> String {
    format!("while ! test -e {}; do sleep 0.02; done", world.outside(name).display())
}

fn open(world: &World, name: &str) {
    fs::write(world.outside(name), "").unwrap();
}

/// Three stories: the second waits in the gate of its landing, and the agent of the third waits.
fn held_world(jobs: u32) -> World {
    let world = world(&["a", "b", "c"], "");
    let gate = format!("test $RALPH_SLOT != {jobs} || {{ {}; }}", closed(&world, "landing"));
    let stories = ["a", "b", "c"].map(|id| format!("[[story]]\nid = \"{id}\"\n")).concat();
    world.change("work", &format!("order = \"any\"\nmax-retries = 0\nverify = ['{gate}']\n{stories}"));
    world.agent(&format!(
        "echo \"reading $RALPH_STORY\"; if test $RALPH_STORY = c; then {}; else {}; fi; echo $RALPH_STORY >$RALPH_STORY; {COMPLETE}",
        closed(&world, "c"),
        closed(&world, "both")
    ));
    world
}

#[test]
fn the_screen_has_a_line_for_every_running_story_and_one_for_a_landing_under_test() {
    let world = held_world(2);
    let screen =
        Screen::new(&world, &["start", "work", "--jobs", "2", "--finish", "keep", "--", world.outside("bin/agent").to_str().unwrap()]);
    screen.wait_for(": a (attempt 1)");
    screen.wait_for(": b (attempt 1)");
    screen.wait_for("reading a");
    screen.wait_for("reading b");
    open(&world, "both");
    screen.wait_for("c (attempt 1)");
    screen.wait_for("landing ");
    screen.wait_for("gate: test $RALPH_SLOT");
    screen.wait_for("1/3 stories");
    let text = screen.text();
    let done = |story: &str| text.contains(&format!("{story}: done in"));
    assert!(done("a") != done("b"), "the first landing is in the scrollback, the second one is under test:\n{text}");
    open(&world, "landing");
    open(&world, "c");
    let (code, text) = screen.end();
    assert_eq!(code, 0, "{text}");
    for part in ["a: done in", "b: done in", "c: done in", "all stories of work are done", "finished; the result is on ralph/work"] {
        assert!(text.contains(part), "'{part}' is not on the screen:\n{text}");
    }
    assert!(!text.contains("(attempt 1)  "), "no line of what is running is left:\n{text}");
}

#[test]
fn a_conflict_in_the_landing_queue_is_on_the_screen() {
    let world = world(&["a", "b"], "");
    world.agent(&format!(
        "if test $RALPH_ATTEMPT = 1; then touch {0}/$RALPH_STORY.at; {1}; fi; echo $RALPH_STORY >>taken; {COMPLETE}",
        world.outside("bin").display(),
        closed(&world, "both")
    ));
    let screen =
        Screen::new(&world, &["start", "work", "--jobs", "2", "--finish", "keep", "--", world.outside("bin/agent").to_str().unwrap()]);
    screen.wait_for(": a (attempt 1)");
    screen.wait_for(": b (attempt 1)");
    world.wait_for("both agents", || ["a", "b"].iter().all(|story| world.outside(&format!("bin/{story}.at")).exists()));
    open(&world, "both");
    let (code, text) = screen.end();
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains(": attempt 1 conflicts with checkpoint ") && text.contains(" in taken; saved as refs/ralph/work/attempts/"),
        "{text}"
    );
}

#[test]
fn status_lists_the_workspaces_the_running_stories_and_the_queued_ones() {
    let world = held_world(2);
    let running = world.spawn_start(&["--jobs", "2"]);
    let status = || -> serde_json::Value { serde_json::from_str(&world.ralph(&["status", "--json"]).code(0).stdout).unwrap() };
    world.wait_for("two slots", || {
        world.run_dir().join("journal.jsonl").exists() && status()["slots"].as_array().is_some_and(|slots| slots.len() == 2)
    });
    let first = status();
    let of = |field: &str| {
        let mut values: Vec<String> = first["slots"].as_array().unwrap().iter().map(|slot| slot[field].to_string()).collect();
        values.sort();
        values.join(" ")
    };
    assert_eq!((of("slot"), of("story")), ("0 1".to_owned(), "\"a\" \"b\"".to_owned()));
    assert!(first["slots"].as_array().unwrap().iter().all(|slot| slot["attempt"] == 1 && slot["since"].is_string()), "{first}");
    let place = world.outside("repo.ralph/work").canonicalize().unwrap().display().to_string();
    assert_eq!(first["workspaces"], place);
    open(&world, "both");
    world.wait_for("a landing under test and c", || {
        let now = status();
        now["done"] == 1 && now["queue"].as_array().is_some_and(|queue| queue.len() == 1) && now["slots"][0]["story"] == "c"
    });
    let now = status();
    assert_on_page("status", &now);
    let waiting = now["queue"][0]["story"].as_str().unwrap().to_owned();
    let story = now["stories"].as_array().unwrap().iter().find(|story| story["id"] == *waiting).unwrap();
    assert_eq!((&story["state"], now["done"].as_u64()), (&serde_json::json!("queued"), Some(1)), "{now}");
    let output = world.ralph(&["status"]).code(0).says(&format!("workspaces in {place}")).says(": c, attempt 1, since ");
    output.says(&format!("landing queue: {waiting}\n")).says(&format!("queued    {waiting}"));
    world.ralph(&["log"]).code(0).says("attempt 1 waits in the landing queue");
    open(&world, "landing");
    open(&world, "c");
    running.finish().code(0);
    let end = status();
    assert_eq!((end["slots"].as_array().unwrap().len(), end["queue"].as_array().unwrap().len()), (0, 0));
}

#[test]
fn log_follows_every_agent_that_is_at_work() {
    let world = held_world(3);
    let running = world.spawn_start(&["--jobs", "3"]);
    world.wait_for("three agents", || world.run_dir().join("journal.jsonl").exists() && world.count("attempt-started") == 3);
    let follower = world.spawn(&["log", "--follow"]);
    for name in ["both", "landing", "c"] {
        open(&world, name);
    }
    running.finish().code(0);
    follower.finish().code(0).says("a| reading a").says("b| reading b").says("c| reading c").says("all stories of work are done");
}

#[test]
fn the_end_of_an_isolated_run_explains_finish_and_abort() {
    let world = World::new();
    world.stories(2, "max-retries = 0");
    world.agent(&format!("echo x >x; {COMPLETE}"));
    let output = world.start(&["--isolate", "--limit", "1"]).code(0);
    for part in [
        "agents work in ",
        "git ralph finish --cleanup work   to merge the result into this checkout, uncommitted",
        "git ralph finish --keep work   to leave the result on ralph/work",
        "to discard the run; this checkout stays as it is",
    ] {
        assert!(output.stderr.contains(part), "'{part}' is not in\n{}", output.stderr);
    }
    assert!(!output.stderr.contains("original branch") && !output.stderr.contains("to stay on"), "{}", output.stderr);
    world.ralph(&["finish"]).code(2).says("to merge the result into this checkout, uncommitted").says("to leave the result on ralph/work");
    let mut screen = Screen::new(&world, &["finish"]);
    screen.wait_for("cleanup  merge the result into this checkout, uncommitted; delete ralph/work");
    screen.wait_for("keep     leave the result on ralph/work; this checkout is not changed");
    // Not every story is done, so *later* is preselected; the arrow key moves to the first answer.
    screen.press("\u{1b}[B\r");
    assert_eq!(screen.end().0, 0);
    assert_eq!(world.read("x"), "x\n");
}

#[test]
fn a_gate_that_fails_in_a_new_workspace_names_ignored_files_that_were_not_copied() {
    let world = World::new();
    world.write(".gitignore", "deps/\n.env\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "rules"]);
    world.write("deps/lib", "installed\n");
    world.write(".env", "SECRET\n");
    world.stories(1, "max-retries = 1\nverify = [\"test -e deps/lib\"]");
    world.agent(&format!("echo x >>x; {COMPLETE}"));
    let output = world.start(&["--isolate"]).code(1);
    let words = "these ignored files of your checkout were not copied to the workspace: .env, deps/";
    assert_eq!(output.stderr.matches(words).count(), 1, "once, though two attempts failed:\n{}", output.stderr);
    assert!(
        output.stderr.contains("hint: echo .env >>.worktreeinclude") && output.stderr.contains("hint: git ralph edit   to add setup = "),
        "{}",
        output.stderr
    );
    world.git(&["config", "advice.ralphNextStep", "false"]);
    let quiet = world.ralph(&["resume", "--max-retries", "2"]).code(1).stderr;
    assert!(!quiet.contains("hint:"), "{quiet}");
    // Following the hint is enough.
    world.write(".worktreeinclude", "deps/\n");
    world.ralph(&["resume", "--max-retries", "3"]).code(0).says("copied 1 ignored file").says("all stories of work are done");
}

#[test]
fn a_setup_that_the_user_changes_runs_again_with_the_next_resume() {
    let world = World::new();
    world.stories(2, "max-retries = 0\nsetup = [\"mkdir -p .git/info; echo one >>$RALPH_RUN_DIR/setup\"]");
    world.agent(&format!("echo $RALPH_STORY >$RALPH_STORY; {COMPLETE}"));
    world.start(&["--isolate", "--limit", "1"]).code(0).says("workspace 1: setting up: mkdir");
    fs::write(world.outside("repo.ralph/work/1/by-hand"), "mine\n").unwrap();
    world.stories(2, "max-retries = 0\nsetup = [\"echo two >>$RALPH_RUN_DIR/setup\"]");
    world.ralph(&["resume"]).code(0).says("saved as refs/ralph/work/moved/workspace/1");
    assert_eq!(fs::read_to_string(world.run_dir().join("setup")).unwrap(), "one\ntwo\n");
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "1\n2\nREADME");
}

#[test]
fn an_edit_of_the_source_in_the_checkout_is_reported_once_until_it_is_on_the_branch() {
    let world = World::new();
    world.write(
        "plan.md",
        "# Plan\n\n### Task 1: First\n\n- [ ] do a\n\n### Task 2: Second\n\n- [ ] do b\n\n### Task 3: Third\n\n- [ ] do c\n",
    );
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "plan"]);
    world.change("work", "source = \"plan.md\"\nmax-retries = 0\n");
    let plan = world.path("plan.md").display().to_string();
    // The user edits while the first agent works.
    world.agent(&format!("test $RALPH_STORY != 1 || sed -i 's/do c/do c well/' {plan}; echo $RALPH_STORY >>done; {COMPLETE}"));
    let output = world.start(&["--isolate", "--limit", "2"]).code(0);
    let words = "plan.md has edits in your checkout that the run does not see: it reads the stories from ralph/work";
    assert_eq!(output.stderr.matches(words).count(), 1, "{}", output.stderr);
    assert!(output.stderr.contains("hint: git worktree add ../edit ralph/work "), "{}", output.stderr);
    let status = world.ralph(&["status"]).code(0).says(words).says("git worktree add ../edit ralph/work");
    assert_eq!(status.stdout.matches(words).count(), 1);
    let json: serde_json::Value = serde_json::from_str(&world.ralph(&["status", "--json"]).code(0).stdout).unwrap();
    assert_eq!(json["source-edits"], serde_json::json!(["plan.md"]));
    // Edits the source as the message suggests: on the run's branch.
    world.git(&["worktree", "add", "-q", "../edit", "ralph/work"]);
    let edit = world.outside("edit/plan.md");
    fs::write(&edit, fs::read_to_string(&edit).unwrap().replace("do c", "do c well")).unwrap();
    world.git(&["-C", "../edit", "commit", "-qam", "more"]);
    world.git(&["worktree", "remove", "../edit"]);
    let output = world.ralph(&["resume"]).code(0).says("all stories of work are done");
    assert!(!output.stderr.contains(words), "{}", output.stderr);
    assert!(world.prompt("3", 1).contains("do c well"));
    assert!(!world.ralph(&["status"]).code(0).stdout.contains(words), "the branch has the edit, and more boxes ticked");
    // The checkout's copy of the line conflicts with the ticked box. One of the hints discards it.
    let conflict = world.ralph(&["finish", "--cleanup"]).code(2).says("\tplan.md").says("to see your edits since the start of the run");
    let hint = conflict.stderr.lines().find_map(|line| line.strip_prefix("hint: git restore ")).unwrap();
    let words: Vec<&str> = hint.split("   ").next().unwrap().split(' ').collect();
    world.git(&[&["restore"], &words[..]].concat());
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert!(world.read("plan.md").contains("[x] do c well"));
}

#[test]
fn log_shows_a_notice_with_the_attempt_that_it_is_about_also_when_another_one_lands_first() {
    let world = held_world(3);
    // Story c creates a repository inside its clone. It is moved aside when c is queued, while the gates of another story run.
    world.agent(&format!(
        "if test $RALPH_STORY = c; then {}; git init -q inner; touch inner/file; else {}; fi; echo $RALPH_STORY >$RALPH_STORY; {COMPLETE}",
        closed(&world, "c"),
        closed(&world, "both")
    ));
    let running = world.spawn_start(&["--jobs", "3"]);
    world.wait_for("three agents", || world.run_dir().join("journal.jsonl").exists() && world.count("attempt-started") == 3);
    open(&world, "both");
    world.wait_for("two in the queue", || world.count("attempt-queued") == 2);
    open(&world, "c");
    world.wait_for("c in the queue", || world.count("attempt-queued") == 3);
    open(&world, "landing");
    running.finish().code(0);
    let log: serde_json::Value = serde_json::from_str(&world.ralph(&["log", "--json"]).code(0).stdout).unwrap();
    for story in log["stories"].as_array().unwrap() {
        let notices = story["attempts"][0]["notices"].as_array().map_or(0, Vec::len);
        assert_eq!(notices, usize::from(story["id"] == "c"), "{log:#}");
    }
}
