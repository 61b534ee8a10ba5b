//! Tests `hint`, `skip`, `retry`, `done`, `edit` and `--keep-going`: with and without a running loop, and after a kill.

use std::fs;

use crate::screen::Screen;
use crate::support::{COMPLETE, Running, World};

/// Three stories; `b` comes after `a`, `c` is independent.
const GRAPH: &str = "[[story]]\nid = \"a\"\n[[story]]\nid = \"b\"\nafter = [\"a\"]\n[[story]]\nid = \"c\"\n";
const FAILED: &str = "echo '<promise>FAILED: no</promise>'";

fn world(change: &str, agent: &str) -> World {
    let world = World::new();
    world.change("work", change);
    world.agent(agent);
    world
}

/// An agent that waits within a story until a file beside the repository exists.
fn held(world: &World, story: &str) -> String {
    let (there, go) = (world.outside("there"), world.outside("go"));
    let hold = format!("touch {}; while ! test -e {}; do sleep 0.02; done", there.display(), go.display());
    format!("if test $RALPH_STORY = {story} && ! test -e {0}; then echo work >>{story}.txt; {hold}; fi", go.display())
}

/// Starts a loop whose agent waits within a story.
fn start_held(world: &World, options: &[&str]) -> Running {
    let running = world.spawn_start(options);
    world.wait_for("the agent", || world.outside("there").exists());
    running
}

fn release(world: &World) {
    fs::write(world.outside("go"), "").unwrap();
}

fn landed(world: &World) -> Vec<String> {
    let landed = world.events().into_iter().filter(|event| event["event"] == "checkpoint-landed");
    landed.map(|event| event["story"].as_str().unwrap().to_owned()).collect()
}

fn is_noted(world: &World, event: &str) -> bool {
    world.count(event) > 0
}

/// Kills a loop and its agent, as a power failure would.
fn kill(running: Running) {
    running.signal("KILL");
    running.finish();
}

#[test]
fn retries_that_are_spent_are_renewed_by_retry_and_the_hint_says_so() {
    let world = world(GRAPH, &format!("test -e ../fixed && {COMPLETE} || {FAILED}"));
    let output = world.start(&["--max-retries", "1"]).code(1);
    let hint = output.stderr.lines().find(|line| line.contains("git ralph retry a")).unwrap_or_else(|| panic!("{}", output.stderr));
    assert!(output.stderr.contains("git ralph resume --max-retries 4 work"), "{}", output.stderr);
    world.ralph(&["resume", "work"]).code(1);
    assert_eq!(world.count("attempt-started"), 2, "a resume alone has nothing to try");
    fs::write(world.path("../fixed"), "").unwrap();
    let command = hint.trim_start_matches("hint:").trim().split("   ").next().unwrap().to_owned();
    let status = world.command("sh", &["-c", &command]).status().unwrap();
    assert!(status.success(), "{command}");
    assert_eq!(landed(&world), ["a", "b", "c"]);
}

#[test]
fn resume_with_more_retries_tries_again() {
    let world = world(GRAPH, &format!("test $RALPH_ATTEMPT -gt 2 && {COMPLETE} || {FAILED}"));
    world.start(&["--max-retries", "1"]).code(1);
    world.ralph(&["resume", "--max-retries", "4", "work"]).code(0);
    assert_eq!(landed(&world), ["a", "b", "c"]);
}

#[test]
fn retry_without_a_story_renews_every_story_that_failed_and_is_refused_where_there_is_none() {
    let world = world(GRAPH, &format!("test -e ../fixed && {COMPLETE} || {FAILED}"));
    world.start(&["--max-retries", "0", "--keep-going"]).code(1);
    fs::write(world.path("../fixed"), "").unwrap();
    world.ralph(&["retry"]).code(0).says("a: has a fresh set of retries").says("c: has a fresh set of retries");
    world.ralph(&["resume"]).code(0);
    world.ralph(&["retry"]).code(2).says("no story has failed and none is waiting for you").says("git ralph status work");
    world.ralph(&["retry", "a"]).code(2).says("story 'a' is already done");
}

#[test]
fn a_story_whose_retries_are_spent_leaves_the_others_to_go_on() {
    for options in [&["--keep-going"][..], &["--keep-going", "--jobs", "2"]] {
        let world = world(GRAPH, &format!("test $RALPH_STORY = a && {FAILED} || {COMPLETE}"));
        let mut all = vec!["--max-retries", "1"];
        all.extend(options);
        world.start(&all).code(1).says("git ralph retry ");
        assert_eq!((landed(&world), world.count("story-failed")), (vec!["c".to_owned()], 1), "{options:?}");
    }
}

#[test]
fn a_running_loop_passes_a_hint_to_the_next_attempt() {
    let world = world(GRAPH, "");
    world.agent(&format!("{}; test $RALPH_ATTEMPT = 1 && {FAILED} || {COMPLETE}", held(&world, "a")));
    let running = start_held(&world, &[]);
    world.ralph(&["hint", "a", "-m", "use the other table"]).code(0).says("to give the hint to the next attempt of a");
    world.wait_for("the hint", || is_noted(&world, "hint-given"));
    release(&world);
    running.finish().code(0);
    assert!(!world.prompt("a", 1).contains("other table") && world.prompt("a", 2).contains("use the other table"));
    assert!(!world.prompt("b", 1).contains("other table"));
}

#[test]
fn a_hint_now_ends_the_attempt_and_spends_no_retry() {
    for isolated in [false, true] {
        let world = world(GRAPH, "");
        world.agent(&format!("{}; {COMPLETE}", held(&world, "a").replace("-e", "-s")));
        // Here the agent waits until the file is not empty.
        let options = if isolated { &["--max-retries", "0", "--isolate"][..] } else { &["--max-retries", "0"] };
        let running = start_held(&world, options);
        fs::remove_file(world.outside("there")).unwrap();
        world.ralph(&["hint", "a", "--now", "-m", "stop dreaming"]).code(0);
        world.wait_for("the second attempt", || world.outside("there").exists());
        fs::write(world.outside("go"), "x").unwrap();
        running.finish().code(0);
        assert!(world.prompt("a", 2).contains("stop dreaming"));
        assert_eq!(landed(&world), ["a", "b", "c"]);
    }
}

#[test]
fn a_hint_for_every_story_is_read_from_standard_input() {
    let world = world(GRAPH, COMPLETE);
    world.start(&["--limit", "1"]).code(0);
    let file = world.outside("advice");
    fs::write(&file, "mind the gap\n").unwrap();
    let mut command = world.command(env!("CARGO_BIN_EXE_git-ralph"), &["hint"]);
    assert!(command.stdin(fs::File::open(&file).unwrap()).status().unwrap().success());
    world.ralph(&["hint"]).code(129).says("the hint is empty");
    world.ralph(&["resume"]).code(0);
    assert!(["b", "c"].iter().all(|story| world.prompt(story, 1).contains("mind the gap")));
}

#[test]
fn a_template_that_does_not_mention_hints_gets_them_all_the_same() {
    let world = world(GRAPH, COMPLETE);
    world.write(".git/ralph/prompt.md", "Do {{ story.id }}.\n");
    world.start(&["--limit", "1"]).code(0);
    world.ralph(&["hint", "c", "-m", "mind the gap"]).code(0);
    world.ralph(&["resume"]).code(0);
    assert!(world.prompt("c", 1).contains("## Hints from the user\n\nmind the gap"), "{}", world.prompt("c", 1));
}

#[test]
fn a_skipped_story_takes_those_after_it_along_and_names_them() {
    let world = world(GRAPH, &format!("test $RALPH_STORY = a && {FAILED} || {COMPLETE}"));
    world.start(&["--max-retries", "0"]).code(1).says("git ralph skip a && git ralph resume work");
    world.ralph(&["skip", "a"]).code(0).says("a: skipped, and so are the stories that come after it: b");
    world.ralph(&["skip", "a"]).code(2).says("story 'a' is already skipped");
    world.ralph(&["retry", "b"]).code(2).says("story 'b' comes after 'a', which is skipped");
    world.ralph(&["resume"]).code(0);
    assert_eq!(landed(&world), ["c"]);
    let status = world.ralph(&["status"]).stdout;
    assert!(status.lines().filter(|line| line.trim_start().starts_with("skipped")).count() == 2, "{status}");
    world.agent(COMPLETE);
    world.ralph(&["retry", "a"]).code(0);
    world.ralph(&["resume"]).code(0);
    assert_eq!(landed(&world), ["c", "a", "b"]);
}

#[test]
fn a_running_loop_attempts_a_failed_story_again_after_a_retry_request() {
    let world = world(GRAPH, "");
    let fails = format!("if [ $RALPH_STORY$RALPH_ATTEMPT = a1 ]; then {FAILED}; else {COMPLETE}; fi");
    world.agent(&format!("{}; {fails}", held(&world, "c")));
    let running = start_held(&world, &["--keep-going", "--max-retries", "0"]);
    world.ralph(&["retry", "a"]).code(0);
    release(&world);
    running.finish().code(0);
    assert_eq!(landed(&world), ["c", "a", "b"]);
}

#[test]
fn skipping_a_story_that_is_under_way_ends_its_attempt() {
    let world = world(GRAPH, "");
    world.agent(&format!("{}; {COMPLETE}", held(&world, "a")));
    let running = start_held(&world, &[]);
    world.ralph(&["skip", "a"]).code(0).says("to skip a");
    running.finish().code(0);
    assert_eq!((landed(&world), world.exists("a.txt")), (vec!["c".to_owned()], false));
    assert!(world.has_ref("refs/ralph/work/attempts/a/1"), "what it did is kept");
}

#[test]
fn the_last_word_about_a_story_that_is_under_way_counts_and_the_loop_goes_on() {
    for (words, lands) in [
        ([&["done", "a"][..], &["skip", "a"]], false),
        ([&["skip", "a"], &["done", "a"]], true),
        ([&["hint", "a", "--now", "-m", "x"], &["done", "a"]], true),
    ] {
        let world = world(GRAPH, "");
        // The agent ends only after both requests have arrived.
        let over = world.outside("over").display().to_string();
        world.agent(&format!("trap 'while ! test -e {over}; do sleep 0.02; done; exit 1' TERM; {}; {COMPLETE}", held(&world, "a")));
        let running = start_held(&world, &[]);
        for words in words {
            let event = ["done-by-hand", "story-skipped", "hint-given"]
                [["done", "skip", "hint"].iter().position(|word| *word == words[0]).unwrap()];
            world.ralph(words).code(0);
            world.wait_for(event, || is_noted(&world, event));
        }
        fs::write(&over, "").unwrap();
        running.finish().code(0);
        assert_eq!(landed(&world).contains(&"a".to_owned()), lands, "{words:?}");
        assert!(world.count("attempt-accepted") <= 3, "{words:?}");
    }
}

#[test]
fn edits_of_the_user_become_the_checkpoint_of_a_story_that_is_done_by_hand() {
    for isolated in [false, true] {
        let world = world(GRAPH, &format!("test $RALPH_STORY = a && {FAILED} || {COMPLETE}"));
        let options = if isolated { &["--max-retries", "0", "--isolate"][..] } else { &["--max-retries", "0"] };
        world.start(options).code(1);
        world.write("mine", "by hand\n");
        world.ralph(&["done", "-m", "I did it."]).code(0).says("a: marked as done by hand");
        let message = world.git(&["log", "-1", "--format=%B", "ralph/work"]);
        assert_eq!(
            message.trim_end(),
            "checkpoint: a\n\nI did it.\n\nRalph-Change: work\nRalph-Story: a\nRalph-Attempt: 2\nRalph-By: human",
            "isolated: {isolated}"
        );
        assert_eq!(world.git(&["show", "ralph/work:mine"]), "by hand");
        assert_eq!(world.git(&["log", "-1", "--format=%(trailers:key=Ralph-By,valueonly)", "ralph/work"]), "human");
        world.ralph(&["resume"]).code(0);
        assert_eq!(landed(&world), ["a", "b", "c"]);
        world.ralph(&["done", "a"]).code(2).says("story 'a' is already done");
        world.ralph(&["finish", "--cleanup"]).code(0);
        assert_eq!((world.branch().as_str(), world.read("mine").as_str()), ("main", "by hand\n"));
    }
}

#[test]
fn a_story_in_progress_is_done_by_hand_with_the_files_that_the_agent_left() {
    if World::is_in_place_only("in an isolated run the user's checkout is taken") {
        return;
    }
    let world = world(GRAPH, "");
    world.agent(&format!("{}; {COMPLETE}", held(&world, "a")));
    world.git(&["config", "ralph.verify", "test $RALPH_STORY != a"]);
    let running = start_held(&world, &[]);
    world.ralph(&["done", "a"]).code(0).says("to mark a as done");
    world.wait_for("the checkpoint", || is_noted(&world, "checkpoint-landed"));
    release(&world);
    running.finish().code(0);
    assert_eq!(landed(&world), ["a", "b", "c"]);
    let commit = world.git(&["log", "--format=%h", "--grep=Ralph-Story: a", "ralph/work"]);
    assert_eq!(world.git(&["show", &format!("{commit}:a.txt")]), "work");
    assert!(world.git(&["log", "-1", "--format=%B", &commit]).contains("Ralph-By: human"));
}

#[test]
fn done_in_an_isolated_run_takes_the_checkout_and_not_the_agents_unfinished_work() {
    let world = world(GRAPH, "");
    world.agent(&format!("{}; {COMPLETE}", held(&world, "a")));
    let running = start_held(&world, &["--isolate"]);
    world.write("mine", "by hand\n");
    world.ralph(&["done", "a"]).code(0);
    world.wait_for("the checkpoint", || is_noted(&world, "checkpoint-landed"));
    release(&world);
    running.finish().code(0);
    assert_eq!(landed(&world), ["a", "b", "c"]);
    let commit = world.git(&["log", "--format=%h", "--grep=Ralph-Story: a", "ralph/work"]);
    assert_eq!(world.git(&["show", "--format=", "--name-only", &commit]), "mine");
    assert!(world.has_ref("refs/ralph/work/attempts/a/1"), "what the agent did is kept");
}

#[test]
fn done_for_another_story_is_refused_while_an_attempt_has_the_checkout() {
    if World::is_in_place_only("in an isolated run the checkout is the user's") {
        return;
    }
    let world = world(GRAPH, "");
    world.agent(&format!("{}; {FAILED}", held(&world, "a")));
    let running = start_held(&world, &["--max-retries", "0"]);
    world.write("mine", "by hand\n");
    let refused = world.ralph(&["done", "c"]).code(2).says("an attempt of 'a' is under way in this checkout");
    assert!(
        refused.stderr.contains("git ralph stop work") && refused.stderr.contains("git ralph done --change work c"),
        "{}",
        refused.stderr
    );
    release(&world);
    running.finish().code(1);
    assert_eq!((landed(&world).len(), world.count("done-by-hand")), (0, 0));
}

#[test]
fn a_checkpoint_by_hand_that_changes_nothing_is_warned_about() {
    for isolated in [&[][..], &["--isolate"]] {
        let world = world(GRAPH, COMPLETE);
        world.start(&[&["--limit", "1"], isolated].concat()).code(0);
        world.ralph(&["done", "c"]).code(0).says("warning: c: marked as done by hand, but nothing has changed");
        assert_eq!(landed(&world), ["a", "c"]);
    }
}

#[test]
fn stories_done_by_hand_one_after_the_other_in_an_isolated_run_go_on_from_each_other() {
    let world = world(GRAPH, COMPLETE);
    world.start(&["--isolate", "--limit", "1"]).code(0);
    world.write("mine", "1\n");
    world.ralph(&["done", "b"]).code(0);
    world.write("mine", "1\n2\n");
    world.ralph(&["done", "c"]).code(0);
    assert_eq!(landed(&world), ["a", "b", "c"]);
    assert_eq!(world.git(&["show", "ralph/work:mine"]), "1\n2");
    world.write("mine", "1\n2\n3\n");
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.read("mine"), "1\n2\n3\n");
    assert!(!world.has_ref("refs/ralph/work/by-hand"));
}

#[test]
fn an_undo_of_a_story_done_by_hand_leaves_the_edits_in_the_checkout_of_an_isolated_run() {
    let world = world(GRAPH, COMPLETE);
    world.start(&["--isolate", "--limit", "1"]).code(0);
    world.write("mine", "1\n");
    world.ralph(&["done", "b"]).code(0);
    world.ralph(&["undo"]).code(0);
    world.ralph(&["done", "c"]).code(0);
    assert_eq!(world.git(&["show", "ralph/work:mine"]), "1");
    world.ralph(&["undo"]).code(0);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.read("mine"), "1\n");
}

#[test]
fn done_that_conflicts_with_landed_work_is_refused_and_changes_nothing() {
    let world = world(GRAPH, &format!("echo theirs >same; {COMPLETE}"));
    world.start(&["--isolate", "--limit", "1"]).code(0);
    let before = world.git(&["for-each-ref"]);
    world.write("same", "mine\n");
    world.ralph(&["done", "c"]).code(2).says("conflict with landed stories in:\n\tsame").says("git diff ralph/work -- same");
    assert_eq!((world.git(&["for-each-ref"]), world.count("done-by-hand"), world.count("request-refused")), (before, 0, 0));
    assert_eq!(world.read("same"), "mine\n");
}

#[test]
fn done_is_refused_in_the_middle_of_a_cherry_pick() {
    for isolated in [&[][..], &["--isolate"]] {
        let world = world(GRAPH, COMPLETE);
        world.write("same", "main\n");
        world.git(&["add", "same"]);
        world.git(&["commit", "-qm", "main"]);
        world.git(&["switch", "-qc", "side", "HEAD~1"]);
        world.write("same", "side\n");
        world.git(&["add", "same"]);
        world.git(&["commit", "-qm", "side"]);
        world.git(&["switch", "-q", "main"]);
        world.start(&[&["--limit", "1"], isolated].concat()).code(0);
        let picked = world.command("git", &["cherry-pick", "side"]).output().unwrap();
        assert!(!picked.status.success());
        world.ralph(&["done", "c"]).code(2).says("cherry-pick");
        assert_eq!((landed(&world).len(), world.exists(".git/CHERRY_PICK_HEAD")), (1, true));
    }
}

#[test]
fn done_on_another_branch_reports_the_problem_and_the_command_once() {
    if World::is_in_place_only("in an isolated run the checkout stays on its branch") {
        return;
    }
    let world = world(GRAPH, COMPLETE);
    world.start(&["--limit", "1"]).code(0);
    world.git(&["switch", "-q", "main"]);
    let refused = world.ralph(&["done", "c"]).code(2).says("git switch ralph/work");
    assert_eq!(refused.stderr.matches("HEAD is on main").count(), 1, "{}", refused.stderr);
}

#[test]
fn requests_that_a_killed_loop_did_not_handle_are_handled_by_resume() {
    let world = world(GRAPH, "");
    world.agent(&format!("{}; {COMPLETE}", held(&world, "a")));
    let running = start_held(&world, &[]);
    running.signal("STOP");
    world.ralph(&["hint", "a", "-m", "use the other table"]).code(0);
    world.ralph(&["skip", "c"]).code(0);
    kill(running);
    assert!(!is_noted(&world, "hint-given"), "the loop was asleep");
    release(&world);
    world.ralph(&["resume"]).code(0);
    assert_eq!(landed(&world), ["a", "b"]);
    assert!(world.prompt("a", 2).contains("use the other table"));
    assert_eq!((world.count("hint-given"), world.count("story-skipped")), (1, 1));
}

#[test]
fn a_request_that_a_loop_handled_before_it_was_killed_is_not_handled_again() {
    let world = world(GRAPH, "");
    world.agent(&format!("{}; {COMPLETE}", held(&world, "a")));
    let running = start_held(&world, &[]);
    world.ralph(&["hint", "a", "-m", "once"]).code(0);
    world.wait_for("the hint", || is_noted(&world, "hint-given"));
    kill(running);
    // Restores the file of a request that was carried out, as if the kill had come before the file was removed.
    let hint = world.events().into_iter().find(|event| event["event"] == "hint-given").unwrap();
    let id = hint["request"].as_str().unwrap();
    let inbox = inbox(&world);
    fs::create_dir_all(&inbox).unwrap();
    let request = serde_json::json!({ "id": id, "wish": "hint", "story": "a", "text": "once", "now": false });
    fs::write(inbox.join(format!("{id}.json")), request.to_string()).unwrap();
    release(&world);
    world.ralph(&["resume"]).code(0);
    assert_eq!((world.count("hint-given"), world.prompt("a", 2).matches("once").count()), (1, 1));
    assert!(!inbox.join(format!("{id}.json")).exists());
}

#[test]
fn a_story_that_was_done_by_hand_lands_although_the_loop_is_killed_on_the_way() {
    let world = world(GRAPH, "");
    // The agent ignores TERM, so git-ralph is killed before the agent ends.
    world.agent(&format!("trap '' TERM; {}; {COMPLETE}", held(&world, "a")));
    let running = start_held(&world, &[]);
    world.ralph(&["done", "a"]).code(0);
    world.wait_for("the request", || is_noted(&world, "done-by-hand"));
    kill(running);
    assert!(!is_noted(&world, "agent-ended"));
    world.agent(COMPLETE);
    world.ralph(&["resume"]).code(0);
    assert_eq!(landed(&world), ["a", "b", "c"]);
    assert_eq!((world.read("a.txt").as_str(), world.count("attempt-rolled-back")), ("work\n", 0));
}

#[test]
fn skip_and_retry_after_a_kill_need_no_loop() {
    let world = world(GRAPH, "");
    world.agent(&format!("{}; {COMPLETE}", held(&world, "a")));
    kill(start_held(&world, &[]));
    world.ralph(&["done", "c"]).code(2).says("git ralph resume work");
    world.ralph(&["skip", "a"]).code(0).says("a: skipped");
    world.ralph(&["resume"]).code(0);
    assert_eq!((landed(&world), world.exists("a.txt")), (vec!["c".to_owned()], false));
}

/// The directory in which requests wait for the loop.
fn inbox(world: &World) -> std::path::PathBuf {
    let vaults = world.outside("home/.local/state/git-ralph");
    let of_repository = fs::read_dir(&vaults).unwrap().next().unwrap().unwrap().path();
    of_repository.join("work/1/inbox")
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it sees that a process without our environment descends from git-ralph")]
#[test]
fn an_agent_can_leave_no_request_for_the_loop() {
    let program = env!("CARGO_BIN_EXE_git-ralph");
    let forged = r#"{"id":"1","wish":"done","story":"c","text":null}"#;
    let world = world(GRAPH, "");
    world.agent(&format!(
        "for command in 'skip b' 'retry b' 'done b' 'hint b -m x'; do {program} $command >>../said 2>&1; echo $? >>../said; done
         env -u RALPH_RUN {program} done >>../unmarked 2>&1; env -u RALPH_RUN {program} skip c >>../unmarked 2>&1
         (env -i HOME=$HOME PATH=$PATH setsid {program} done >../orphaned 2>&1; touch ../over) & while ! test -e ../over; do sleep 0.02; done; rm ../over
         mkdir -p $RALPH_RUN_DIR/inbox; echo '{forged}' >$RALPH_RUN_DIR/inbox/1.json; {COMPLETE}"
    ));
    world.start(&[]).code(0);
    let said = fs::read_to_string(world.outside("said")).unwrap();
    assert_eq!(said.matches("cannot be called from inside an attempt").count(), 12, "{said}");
    let refused = "accepts no requests from processes that it has started";
    let (unmarked, orphaned) =
        (fs::read_to_string(world.outside("unmarked")).unwrap(), fs::read_to_string(world.outside("orphaned")).unwrap());
    assert_eq!((unmarked.matches(refused).count(), orphaned.matches(refused).count()), (6, 1), "{unmarked}{orphaned}");
    assert_eq!((landed(&world).len(), world.count("done-by-hand"), world.count("story-skipped")), (3, 0, 0));
}

#[test]
fn a_blocked_story_waits_for_a_hint_and_the_others_go_on() {
    for options in [&[][..], &["--jobs", "2"]] {
        let blocked = "echo '<promise>BLOCKED: which database?</promise>'";
        let world = world(
            GRAPH,
            &format!(
                "cat >../prompt-$RALPH_STORY; grep -q 'use sqlite' ../prompt-$RALPH_STORY && {{ {COMPLETE}; exit; }}; echo x >left; test $RALPH_STORY = a && {blocked} || {COMPLETE}"
            ),
        );
        if !options.is_empty() {
            let dir = world.outside("");
            world.agent(&format!("cat >{0}/prompt-$RALPH_STORY; grep -q 'use sqlite' {0}/prompt-$RALPH_STORY && {{ {COMPLETE}; exit; }}; test $RALPH_STORY = a && {blocked} || {COMPLETE}", dir.display()));
        }
        let mut all = vec!["--max-retries", "0"];
        all.extend(options);
        let output = world.start(&all).code(1).says("needs you: a: which database?");
        assert!(output.stderr.contains("git ralph hint -m '<answer>' "), "{}", output.stderr);
        assert_eq!(landed(&world), ["c"]);
        assert_eq!((world.count("attempt-started"), world.count("story-failed")), (2, 0), "no retry is spent, none is tried");
        assert!(world.has_ref("refs/ralph/work/attempts/a/1"));
        world.ralph(&["resume"]).code(1).says("needs you: a: which database?");
        assert_eq!(world.count("attempt-started"), 2, "it waits");
        world.ralph(&["status"]).code(0).says("blocked");
        world.ralph(&["hint", "a", "-m", "use sqlite"]).code(0);
        world.ralph(&["resume"]).code(0);
        assert_eq!(landed(&world), ["c", "a", "b"]);
        let prompt = world.prompt("a", 2);
        assert!(prompt.contains("which database?") && prompt.contains("use sqlite"), "{prompt}");
    }
}

#[test]
fn the_subject_of_checkpoints_follows_the_template() {
    for options in [&[][..], &["--isolate"]] {
        let world = World::new();
        world.stories(2, "subject = \"feat: {title} [{id}]\"");
        world.agent(COMPLETE);
        world.start(options).code(0);
        assert_eq!(world.subjects("ralph/work")[..2], ["feat: Story 2 [2]", "feat: Story 1 [1]"]);
        world.ralph(&["undo"]).code(0);
        world.ralph(&["resume"]).code(0);
        assert_eq!(world.count("checkpoint-landed"), 3);
    }
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    world.git(&["config", "ralph.subject", "{story}: {title}"]);
    world.start(&[]).code(128).says("'{story}' is not a placeholder; there are {id} and {title}");
}

#[test]
fn a_dry_run_shows_the_subject() {
    let world = World::new();
    world.stories(1, "subject = \"feat: {title}\"");
    world.agent(COMPLETE);
    world.start(&["--dry-run"]).code(0).says("git commit --allow-empty -m \"feat: Story 1\"");
}

#[test]
fn a_killed_agent_of_a_steered_run_is_gone() {
    let world = world(GRAPH, "");
    let pid = world.outside("pid");
    world.agent(&format!("echo $$ >{}; {}; {COMPLETE}", pid.display(), held(&world, "a")));
    let running = start_held(&world, &[]);
    let agent = fs::read_to_string(&pid).unwrap();
    world.ralph(&["skip", "a"]).code(0);
    world.wait_for("the rollback", || is_noted(&world, "attempt-rolled-back"));
    assert!(!std::path::Path::new(&format!("/proc/{}", agent.trim())).exists());
    running.finish().code(0);
}

/// Sets a script as the editor; `$1` is the file.
fn editor(world: &mut World, script: &str) {
    let program = world.program("editor", script);
    world.set_env("GIT_EDITOR", &program);
}

#[test]
fn a_broken_edit_is_reopened_with_the_error_and_accepted_once_fixed() {
    let mut world = world(GRAPH, COMPLETE);
    editor(
        &mut world,
        "cp \"$1\" ../seen-$(ls .. | grep -c seen-)
         if grep -q broken \"$1\"; then sed -i 's/broken/title = \"fixed\"/' \"$1\"; else echo broken >>\"$1\"; fi",
    );
    world.ralph(&["edit"]).code(0).says("error: ").says("is saved");
    let seen = fs::read_to_string(world.outside("seen-1")).unwrap();
    assert!(seen.starts_with("# git ralph: ") && seen.contains("work.toml:"), "{seen}");
    let text = world.read(".git/ralph/work.toml");
    assert!(text.ends_with("title = \"fixed\"\n") && !text.contains("# git ralph"), "{text}");
}

#[test]
fn an_edit_that_stays_broken_changes_nothing_and_the_next_edit_continues_it() {
    let mut world = world(GRAPH, COMPLETE);
    editor(&mut world, "grep -q broken \"$1\" || echo broken >>\"$1\"");
    world.ralph(&["edit", "work"]).code(128).says("the change file was not changed").says("git ralph edit work");
    assert_eq!(world.read(".git/ralph/work.toml"), GRAPH);
    editor(&mut world, "sed -i 's/broken/# fine/' \"$1\"");
    world.ralph(&["edit", "work"]).code(0).says("is saved");
    assert_eq!(world.read(".git/ralph/work.toml"), format!("{GRAPH}# fine\n"));
    editor(&mut world, ": >\"$1\"");
    world.ralph(&["edit", "work"]).code(0).says("was not changed");
    editor(&mut world, "exit 1");
    world.ralph(&["edit", "work"]).code(128).says("failed; the change file was not changed");
    world.ralph(&["edit", "other"]).code(2).says("git ralph new other");
}

#[test]
fn an_edit_during_an_attempt_is_followed_after_it() {
    for isolated in [false, true] {
        let mut world = world(GRAPH, "");
        world.agent(&format!("{}; {COMPLETE}", held(&world, "a")));
        let running = start_held(&world, if isolated { &["--isolate"] } else { &[] });
        editor(&mut world, "printf '[[story]]\\nid = \"d\"\\n' >>\"$1\"");
        world.ralph(&["edit"]).code(0);
        release(&world);
        running.finish().code(0);
        assert_eq!(landed(&world), ["a", "b", "c", "d"], "isolated: {isolated}");
        assert!(world.events().iter().all(|event| event["notice"]["kind"] != "edit-set-aside"), "it is no edit of the agent's");
    }
}

#[test]
fn a_new_change_is_opened_in_the_editor_if_the_user_agrees() {
    let mut world = World::new();
    editor(&mut world, "printf '[[story]]\\nid = \"d\"\\n' >\"$1\"");
    let mut screen = Screen::new(&world, &["new", "work"]);
    screen.wait_for("Open it in your editor now? (y/n)");
    screen.press("y");
    screen.wait_for("is saved");
    assert_eq!(screen.end().0, 0);
    assert_eq!(world.read(".git/ralph/work.toml"), "[[story]]\nid = \"d\"\n");
}

#[test]
fn done_in_an_isolated_run_lands_edits_of_the_checkout_while_another_story_is_worked_on() {
    let world = world(GRAPH, "");
    world.agent(&format!("{}; {COMPLETE}", held(&world, "a")));
    let running = start_held(&world, &["--isolate"]);
    world.write("mine", "by hand\n");
    world.ralph(&["done", "c"]).code(0);
    world.wait_for("the checkpoint", || is_noted(&world, "checkpoint-landed"));
    assert_eq!(world.git(&["show", "ralph/work:mine"]), "by hand");
    release(&world);
    running.finish().code(0);
    assert_eq!(landed(&world), ["c", "a", "b"]);
}

#[test]
fn done_in_an_isolated_run_is_refused_on_another_branch_than_that_of_the_start() {
    let world = world(GRAPH, COMPLETE);
    world.start(&["--isolate", "--limit", "1"]).code(0);
    world.git(&["switch", "-q", "-c", "side"]);
    world.ralph(&["done", "c"]).code(2).says("this checkout is on side, and the run was started on main");
    world.git(&["switch", "-q", "main"]);
    world.ralph(&["done", "c"]).code(0);
    assert_eq!(landed(&world), ["a", "c"]);
}

#[test]
fn the_status_after_a_retry_names_no_end_that_is_over() {
    let world = world(GRAPH, FAILED);
    world.start(&["--max-retries", "0"]).code(1);
    world.ralph(&["status"]).code(0).says("git ralph retry a && git ralph resume work");
    world.ralph(&["retry", "a"]).code(0);
    let status = world.ralph(&["status"]).code(0).stdout;
    assert!(status.contains("next: git ralph resume work\n") && !status.contains("stopped"), "{status}");
}

#[test]
fn a_list_is_warned_about_with_keep_going() {
    let world = World::new();
    world.stories(2, "");
    world.agent(FAILED);
    world.start(&["--max-retries", "0", "--keep-going"]).code(1).says("form a list and each waits for the one before it").says("order = ");
}

/// Suspends a loop, makes a request, and kills the loop before it sees the request.
fn asked_and_killed(world: &World, running: Running, request: &[&str]) {
    running.signal("STOP");
    world.ralph(request).code(0);
    kill(running);
}

#[test]
fn finish_abort_and_undo_follow_requests_that_a_killed_loop_did_not_handle() {
    if World::is_in_place_only("in an isolated run the user's checkout is taken") {
        return;
    }
    for command in [&["finish", "--cleanup"][..], &["finish", "--keep"], &["resume"], &["abort"]] {
        let world = world(GRAPH, "");
        world.agent(&format!("{}; {COMPLETE}", held(&world, "a")));
        let running = start_held(&world, &[]);
        world.write("mine", "by hand\n");
        asked_and_killed(&world, running, &["done", "a"]);
        release(&world);
        world.ralph(command).code(0);
        assert_eq!(landed(&world)[0], "a", "{command:?}");
        assert_eq!(world.count("done-by-hand"), 1, "{command:?}");
        let kept = if command[1..] == ["--cleanup"] || command == ["abort"] { "refs/ralph/work/done" } else { "ralph/work" };
        assert_eq!(world.git(&["show", &format!("{kept}:mine")]), "by hand", "{command:?}");
    }
    let world = world(GRAPH, "");
    world.agent(&format!("{}; {COMPLETE}", held(&world, "c")));
    let running = start_held(&world, &[]);
    asked_and_killed(&world, running, &["skip", "c"]);
    world.ralph(&["undo"]).code(2);
    assert!(is_noted(&world, "story-skipped"));
}

#[test]
fn a_process_that_is_no_loop_is_asked_for_nothing() {
    let world = world(GRAPH, "");
    let (there, go) = (world.outside("gate"), world.outside("go"));
    world.agent(COMPLETE);
    let gate = format!("touch {}; while ! test -e {}; do sleep 0.02; done", there.display(), go.display());
    world.git(&["config", "ralph.verify", &gate]);
    let running = world.spawn_start(&[]);
    world.wait_for("the gate", || there.exists());
    kill(running);
    fs::remove_file(&there).unwrap();
    let finish = world.spawn(&["finish", "--keep"]);
    world.wait_for("the gate of finish", || there.exists());
    let said = format!("process {} works on the run of 'work', but it does not accept requests", finish.pid());
    world.ralph(&["skip", "b"]).code(2).says(&said).says("git ralph status work");
    release(&world);
    finish.finish().code(0);
    assert!(!is_noted(&world, "story-skipped"));
}

#[test]
fn a_request_reaches_an_isolated_run_from_a_terminal_with_another_state_directory() {
    let mut world = world(GRAPH, "");
    world.agent(&format!("{}; {COMPLETE}", held(&world, "a")));
    let running = start_held(&world, &["--isolate"]);
    let elsewhere = world.outside("elsewhere").display().to_string();
    world.set_env("XDG_STATE_HOME", &elsewhere);
    world.ralph(&["skip", "c"]).code(0);
    world.wait_for("the request", || is_noted(&world, "story-skipped"));
    release(&world);
    running.finish().code(0);
    assert_eq!(landed(&world), ["a", "b"]);
}

/// Starts a loop whose gate waits at the first attempt of a story.
fn start_gated(world: &World, options: &[&str]) -> Running {
    let (there, go) = (world.outside("gate"), world.outside("go"));
    let hold = format!("touch {}; while ! test -e {}; do sleep 0.02; done", there.display(), go.display());
    world.agent(&format!("echo work >$RALPH_STORY.txt; {COMPLETE}"));
    world.git(&["config", "ralph.verify", &format!("if test $RALPH_STORY$RALPH_ATTEMPT = a1; then {hold}; fi")]);
    let running = world.spawn_start(options);
    world.wait_for("the gate", || there.exists());
    running
}

#[test]
fn a_gate_is_ended_by_skip_hint_now_and_done() {
    for options in [&[][..], &["--isolate"], &["--jobs", "2"]] {
        let skipped = world(GRAPH, "");
        let running = start_gated(&skipped, options);
        skipped.ralph(&["skip", "a"]).code(0);
        running.finish().code(0);
        assert_eq!(landed(&skipped), ["c"], "{options:?}");
        assert!(skipped.has_ref("refs/ralph/work/attempts/a/1"), "what it did is kept");

        let hinted = world(GRAPH, "");
        let running = start_gated(&hinted, options);
        hinted.ralph(&["hint", "a", "--now", "-m", "mind the gap"]).code(0);
        running.finish().code(0);
        assert_eq!(landed(&hinted).len(), 3, "{options:?}");
        assert!(hinted.prompt("a", 2).contains("mind the gap"));

        let done = world(GRAPH, "");
        let running = start_gated(&done, options);
        done.ralph(&["done", "a"]).code(0);
        running.finish().code(0);
        assert_eq!((landed(&done).len(), done.count("done-by-hand")), (3, 1), "{options:?}");
    }
}

#[test]
fn a_skipped_story_in_the_landing_queue_is_removed_from_it() {
    let change = "order = \"any\"\n[[story]]\nid = \"a\"\n[[story]]\nid = \"b\"\n[[story]]\nid = \"c\"\n";
    let world = world(change, "");
    let go = world.outside("go");
    let hold = format!("while ! test -e {}; do sleep 0.02; done", go.display());
    world.agent(&format!(
        "echo work >$RALPH_STORY.txt; test $RALPH_STORY != b || while ! test -e {}; do sleep 0.02; done; {COMPLETE}",
        world.outside("landed").display()
    ));
    // Only the gate on a merge sees the work of another story.
    world.git(&[
        "config",
        "ralph.verify",
        &format!("if test -e b.txt && test -e a.txt; then touch {}; {hold}; fi", world.outside("gate").display()),
    ]);
    let running = world.spawn_start(&["--jobs", "2"]);
    world.wait_for("a checkpoint", || world.git(&["log", "--all", "--format=%s"]).contains("checkpoint: a"));
    fs::write(world.outside("landed"), "").unwrap();
    world.wait_for("the gate of the merge", || world.outside("gate").exists());
    world.ralph(&["skip", "b"]).code(0);
    world.wait_for("the end of the attempt", || world.has_ref("refs/ralph/work/attempts/b/1"));
    release(&world);
    running.finish().code(0);
    assert!(!landed(&world).contains(&"b".to_owned()));
    assert!(!world.has_ref("refs/ralph/work/queued/b/1"));
}

#[test]
fn a_hint_is_reported_with_its_effect() {
    let world = world(GRAPH, COMPLETE);
    world.start(&["--limit", "1"]).code(0);
    world.ralph(&["hint", "b", "--now", "-m", "x"]).code(0).says("b: hint saved for the next attempt");
    world.ralph(&["skip", "c"]).code(0);
    world
        .ralph(&["hint", "c", "-m", "x"])
        .code(0)
        .says("c: hint saved, but the story is skipped; to include it again, type: git ralph retry c");
    world.ralph(&["hint", "b", "-m", "<answer>"]).code(129).says("'<answer>' is a placeholder: replace it with your answer");
}

#[test]
fn a_story_done_by_hand_has_its_attempt_in_the_log() {
    let world = world(GRAPH, COMPLETE);
    world.start(&["--limit", "1"]).code(0);
    world.write("mine", "by hand\n");
    world.ralph(&["done", "c"]).code(0);
    let log = world.ralph(&["log", "c"]).code(0).stdout;
    assert!(log.contains("by hand") && !log.contains("no attempt yet"), "{log}");
}

#[test]
fn where_several_runs_are_open_the_hints_are_the_command_with_each_of_them() {
    let world = world(GRAPH, COMPLETE);
    world.change("two", GRAPH);
    let agent = world.agent(COMPLETE);
    for change in ["work", "two"] {
        world.ralph(&["start", change, "--isolate", "--limit", "1", "--", &agent]).code(0);
    }
    world.ralph(&["skip", "b"]).code(2).says("git ralph skip --change two b").says("git ralph skip --change work b");
}
