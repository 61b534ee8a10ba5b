//! Tests several stories at once: private clones and the landing queue.

use std::fs;

use crate::support::{COMPLETE, World};

/// Stories that may run in parallel.
fn world(ids: &[&str], head: &str) -> World {
    let world = World::new();
    let stories: String = ids.iter().map(|id| format!("[[story]]\nid = \"{id}\"\n")).collect();
    world.change("work", &format!("order = \"any\"\nmax-retries = 0\n{head}\n{stories}"));
    world
}

/// A shell script that waits until that many agents have reached this point.
fn rendezvous(world: &World, count: usize) -> String {
    let at = world.outside("at").display().to_string();
    format!("mkdir -p {at}; touch {at}/$RALPH_STORY-$RALPH_ATTEMPT; while test $(ls {at} | wc -l) -lt {count}; do sleep 0.02; done")
}

fn files(world: &World) -> String {
    world.git(&["ls-tree", "--name-only", "ralph/work"]).replace('\n', " ")
}

#[test]
fn stories_that_do_not_need_each_other_are_worked_on_at_the_same_time_and_all_land() {
    let world = world(&["a", "b", "c", "d"], "verify = [\"true\"]");
    let meet = rendezvous(&world, 4);
    world.agent(&format!("{meet}; echo $RALPH_SLOT >>\"$RALPH_RUN_DIR/slots\"; echo $RALPH_STORY >$RALPH_STORY; {COMPLETE}"));
    world.start(&["--jobs", "4"]).code(0).says("all stories of work are done");
    assert_eq!(files(&world), "README a b c d");
    let mut slots: Vec<String> = fs::read_to_string(world.run_dir().join("slots")).unwrap().lines().map(str::to_owned).collect();
    slots.sort();
    assert_eq!(slots, ["0", "1", "2", "3"]);
    assert_eq!(world.count("checkpoint-landed"), 4);
    let subjects = world.subjects("ralph/work");
    assert_eq!(subjects.iter().filter(|subject| subject.starts_with("checkpoint: ")).count(), 4, "{subjects:?}");
}

#[test]
fn a_conflict_costs_no_retry_and_is_in_the_next_prompt() {
    let world = world(&["a", "b"], "");
    let meet = rendezvous(&world, 2);
    world.agent(&format!("{meet}; if test -e taken; then echo $RALPH_STORY >>taken; else echo $RALPH_STORY >taken; fi; {COMPLETE}"));
    world.start(&["--jobs", "2"]).code(0).says("conflicts with checkpoint").says("all stories of work are done");
    let landed = world.git(&["show", "ralph/work:taken"]);
    let (winner, loser) = landed.split_once('\n').unwrap();
    assert_ne!(winner, loser);
    assert_eq!(world.count("attempt-beaten"), 1);
    let prompt = world.prompt(loser, 2);
    let kept = format!("refs/ralph/work/attempts/{loser}/1");
    for part in ["another story landed first", "- taken", "<<<<<<<", &kept] {
        assert!(prompt.contains(part), "{part} is missing in:\n{prompt}");
    }
    assert_eq!(world.git(&["show", &format!("{kept}:taken")]), loser);
}

#[test]
fn two_stories_whose_gates_pass_apart_and_fail_together_do_not_both_land_untested() {
    // One story renames what the other one uses.
    let world = world(&["rename", "use"], "verify = [\"sh ./check\"]");
    world.write("check", "#!/bin/sh\nfor user in uses-*; do test -e \"$user\" || continue; test -e \"$(cat $user)\" || { echo \"$user is broken\"; exit 1; }; done\n");
    world.write("thing", "1\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "check"]);
    let meet = rendezvous(&world, 2);
    world.agent(&format!(
        "{meet}; case $RALPH_STORY in rename) {0} mv thing gadget; for user in uses-*; do test -e $user && echo gadget >$user; done;;
         use) if test -e thing; then echo thing >uses-it; else echo gadget >uses-it; fi;; esac; {COMPLETE}",
        crate::support::which("git")
    ));
    world.start(&["--jobs", "2"]).code(0).says("passed its gates, but merged with checkpoint").says("all stories of work are done");
    assert_eq!((files(&world).as_str(), world.git(&["show", "ralph/work:uses-it"]).as_str()), ("README check gadget uses-it", "gadget"));
    assert_eq!(world.count("attempt-beaten"), 1);
}

#[test]
fn a_story_that_is_beaten_twice_lands_before_any_other() {
    let ids: Vec<String> = (1..=6).map(|n| format!("fast{n}")).chain(["slow".to_owned()]).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    // The slow story is first in the list, so it is started at once.
    let order: Vec<&str> = ["slow"].into_iter().chain(ids.iter().copied().filter(|id| *id != "slow")).collect();
    let world = world(&order, "");
    let landed = world.run_dir().join("journal.jsonl");
    // Its agent ends only after another story has landed, unless no other can land any more.
    world.agent(&format!(
        "count() {{ grep -c '\"event\":\"checkpoint-landed\"' {0} || true; }}
         if test $RALPH_STORY = slow && test $RALPH_ATTEMPT -lt 3; then before=$(count); while test $(count) = $before; do sleep 0.02; done; fi
         echo $RALPH_STORY >>shared; {COMPLETE}",
        landed.display()
    ));
    world.start(&["--jobs", "2"]).code(0).says("all stories of work are done");
    let events = world.events();
    let is = |event: &serde_json::Value, kind: &str, story: &serde_json::Value| event["event"] == kind && event["story"] == *story;
    let beaten =
        |story: &serde_json::Value, until: usize| events[..=until].iter().filter(|event| is(event, "attempt-beaten", story)).count();
    // If several stories are beaten twice, the first of them has priority.
    let twice = (0..events.len()).find(|at| events[*at]["event"] == "attempt-beaten" && beaten(&events[*at]["story"], *at) == 2).unwrap();
    let story = &events[twice]["story"];
    let again = twice + events[twice..].iter().position(|event| is(event, "attempt-started", story)).unwrap();
    let next = events[again..].iter().find(|event| event["event"] == "checkpoint-landed").unwrap();
    assert_eq!(&next["story"], story, "nothing lands between its third start and its own landing");
    assert_eq!(world.git(&["show", "ralph/work:shared"]).lines().count(), 7);
}

#[test]
fn attempts_that_wait_are_tested_as_one_batch_and_a_batch_that_fails_is_halved() {
    let world = world(&["a", "b", "c", "d", "bad"], "verify = [\"echo x >>$RALPH_RUN_DIR/gates; test ! -e bad || test ! -e a\"]");
    // All begin from the initial state. The first one lands alone; the others wait while its gate on the merge is slow.
    let meet = rendezvous(&world, 5);
    world.agent(&format!("{meet}; if test $RALPH_ATTEMPT = 1; then echo $RALPH_STORY >$RALPH_STORY; fi; {COMPLETE}"));
    world.start(&["--jobs", "5"]).code(0).says("all stories of work are done");
    let landed = files(&world);
    let has = |file: &str| landed.split(' ').any(|landed| landed == file);
    assert!(has("b") && has("c") && has("d") && has("a") != has("bad"), "{landed}");
    assert!(world.count("attempt-beaten") >= 1);
}

#[test]
fn stories_with_after_wait_and_those_that_touch_the_same_paths_do_not_run_together() {
    let world = World::new();
    world.change(
        "work",
        "max-retries = 0\n[[story]]\nid = \"base\"\n[[story]]\nid = \"x\"\nafter = [\"base\"]\ntouches = [\"src/**\"]\n[[story]]\nid = \"y\"\nafter = [\"base\"]\ntouches = [\"src/y.rs\"]\n[[story]]\nid = \"z\"\nafter = [\"base\"]\n",
    );
    let log = world.outside("log").display().to_string();
    world.agent(&format!(
        "echo + $RALPH_STORY >>{log}; sleep 0.3; echo - $RALPH_STORY >>{log}; echo $RALPH_STORY >$RALPH_STORY; {COMPLETE}"
    ));
    world.start(&["--jobs", "3"]).code(0);
    let log = fs::read_to_string(world.outside("log")).unwrap();
    let at = |what: &str| log.lines().position(|line| line == what).unwrap_or_else(|| panic!("{what} is not in\n{log}"));
    assert!(["x", "y", "z"].iter().all(|story| at("- base") < at(&format!("+ {story}"))), "{log}");
    assert!(at("- x") < at("+ y") || at("- y") < at("+ x"), "{log}");
}

#[test]
fn a_list_is_worked_on_one_after_the_other_however_many_jobs_there_are() {
    let world = World::new();
    world.stories(3, "max-retries = 0");
    world.agent(&format!(
        "test -e running && exit 1; echo $RALPH_STORY >>\"$RALPH_RUN_DIR/order\"; echo $RALPH_STORY >$RALPH_STORY; {COMPLETE}"
    ));
    world.start(&["--jobs", "3"]).code(0).says("form a list").says("order = \"any\"");
    assert_eq!(fs::read_to_string(world.run_dir().join("order")).unwrap(), "1\n2\n3\n");
    assert!(!world.outside("repo.ralph/work/2").exists(), "one workspace is enough");
}

#[test]
fn a_limit_on_stories_holds_over_all_workspaces() {
    let world = world(&["a", "b", "c", "d"], "");
    world.agent(&format!("echo $RALPH_STORY >$RALPH_STORY; {COMPLETE}"));
    world.start(&["--jobs", "4", "--limit", "2"]).code(0).says("stopped: the --limit is reached");
    assert_eq!((world.count("attempt-started"), world.count("checkpoint-landed")), (2, 2));
    world.ralph(&["resume"]).code(0).says("all stories of work are done");
}

#[test]
fn a_stop_ends_all_agents_and_resume_lands_everything() {
    for (how, code) in [(&["stop", "--now"][..], 1), (&["INT"], 130), (&["KILL"], -9)] {
        let world = world(&["a", "b", "c"], "");
        let meet = rendezvous(&world, 3);
        world.agent(&format!("{meet}; if test $RALPH_ATTEMPT = 1; then sleep 1000; fi; echo $RALPH_STORY >$RALPH_STORY; {COMPLETE}"));
        let running = world.spawn_start(&["--jobs", "3"]);
        world.wait_for("three agents", || fs::read_dir(world.outside("at")).is_ok_and(|entries| entries.count() == 3));
        match how {
            ["stop", ..] => drop(world.ralph(how).code(0)),
            [signal, ..] => running.signal(signal),
            [] => unreachable!(),
        }
        running.finish().code(code);
        world.ralph(&["resume"]).code(0).says("all stories of work are done");
        assert_eq!(files(&world), "README a b c", "{how:?}");
        assert_eq!(world.count("checkpoint-landed"), 3, "{how:?}");
        for story in ["a", "b", "c"] {
            assert!(world.has_ref(&format!("refs/ralph/work/attempts/{story}/1")), "{how:?} {story}");
        }
    }
}

#[test]
fn one_usage_limit_pauses_all_workspaces_once() {
    let world = world(&["a", "b", "c"], "");
    world.git(&["config", "ralph.limitPause", "10ms"]);
    let meet = rendezvous(&world, 3);
    world.agent(&format!(
        "{meet}; if test $RALPH_ATTEMPT = 1; then echo 'Claude usage limit reached.'; exit 1; fi; echo $RALPH_STORY >$RALPH_STORY; {COMPLETE}"
    ));
    world.start(&["--jobs", "3"]).code(0).says("all stories of work are done");
    assert_eq!(world.count("pause-started"), 1);
}

#[test]
fn commits_of_the_user_on_the_branch_are_merged_with_what_lands() {
    let world = world(&["a"], "verify = [\"true\"]");
    let repo = world.repo.display().to_string();
    let git = crate::support::which("git");
    world.agent(&format!(
        "(cd {repo}; export GIT_INDEX_FILE={repo}/../other; {git} read-tree ralph/work; blob=$(echo user | {git} hash-object -w --stdin)
          {git} update-index --add --cacheinfo 100644,$blob,by-user; {git} update-ref refs/heads/ralph/work $({git} commit-tree $({git} write-tree) -p ralph/work -m user))
         echo a >a; {COMPLETE}"
    ));
    world.start(&["--isolate"]).code(0).says("which appeared on the run's branch");
    assert_eq!(files(&world), "README a by-user");
}

#[test]
fn marks_of_stories_that_land_at_the_same_time_do_not_conflict() {
    let world = World::new();
    world.write("tasks.md", "# Tasks\n\n- [ ] first thing\n- [ ] second thing\n- [ ] third thing\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "tasks"]);
    world.change("work", "source = \"tasks.md\"\norder = \"any\"\nmax-retries = 0\n");
    let meet = rendezvous(&world, 3);
    world.agent(&format!("{meet}; sed -i 's/- \\[ \\]/- [x]/' tasks.md; echo $RALPH_STORY >$RALPH_STORY; {COMPLETE}"));
    world.start(&["--jobs", "3"]).code(0).says("all stories of work are done");
    assert_eq!(world.git(&["show", "ralph/work:tasks.md"]).matches("[x]").count(), 3);
    assert_eq!(world.count("attempt-beaten"), 0);
}

#[test]
fn a_budget_counts_what_agents_that_are_at_work_have_used_so_far() {
    let world = world(&["a", "b", "c"], "max-tokens = 1000");
    // The first agent reports its usage so far and is ended; the second ends by itself, and no third one is started.
    let told = world.outside("told").display().to_string();
    let message =
        r#"{"type":"assistant","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":990,"output_tokens":10}}}"#;
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"<promise>COMPLETE</promise>","usage":{"input_tokens":1,"output_tokens":0}}"#;
    let agent = world.agent(&format!(
        "cat >/dev/null; echo $RALPH_STORY >$RALPH_STORY
         case $RALPH_STORY in a) touch {told}; echo '{message}'; sleep 600;;
           *) while ! test -e {told}; do sleep 0.02; done; sleep 0.3; echo '{result}';; esac"
    ));
    world.git(&["config", "ralph.mine.cmd", &agent]);
    world.git(&["config", "ralph.mine.format", "claude"]);
    world.ralph(&["start", "work", "--jobs", "2", "--agent", "mine"]).code(1).says("tokens used, limit");
    let started: Vec<String> =
        world.events().iter().filter(|event| event["event"] == "attempt-started").map(|event| event["story"].to_string()).collect();
    assert_eq!(started.len(), 2, "{started:?}");
    assert_eq!((world.count("checkpoint-landed"), world.count("attempt-rolled-back")), (1, 1), "what had ended well lands");
}

#[test]
fn a_merge_made_by_the_agent_reverts_nothing_that_another_story_has_landed() {
    let world = World::new();
    world.git(&["switch", "-qc", "feature"]);
    world.write("feature", "F\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "feature"]);
    world.git(&["switch", "-q", "main"]);
    world.stories(2, "order = 'any'");
    let landed = world.run_dir().join("journal.jsonl").display().to_string();
    world.agent(&format!(
        "case $RALPH_STORY in
         1) git merge -q --no-edit feature; echo 1 >one;;
         2) git merge -q -s ours --no-edit feature; while ! grep -q checkpoint-landed {landed}; do sleep 0.05; done; echo 2 >two;;
         esac; {COMPLETE}"
    ));
    world.start(&["--jobs", "2"]).code(0);
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\nfeature\none\ntwo");
}
