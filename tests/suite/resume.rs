//! Tests `resume` after a stop, a crash and a kill: nothing runs twice, nothing is lost.

use std::fs;

use crate::support::{COMPLETE, World, is_gone};

#[test]
fn finished_stories_are_not_run_again_after_a_kill() {
    let world = World::new();
    world.stories(3, "");
    let ran = world.outside("ran");
    world.agent(&format!(
        "echo $RALPH_STORY $RALPH_ATTEMPT >>{0}; echo $RALPH_STORY >s$RALPH_STORY
         if [ $RALPH_STORY = 2 ] && [ ! -e {1} ]; then touch {1}; sleep 600; fi; {COMPLETE}",
        ran.display(),
        world.outside("slept").display()
    ));
    let running = world.spawn_start(&[]);
    world.wait_for("the second story", || world.outside("slept").exists());
    running.signal("KILL");
    running.finish().code(-9);
    world.ralph(&["status"]).code(0).says("interrupted 2").says("next: git ralph resume work");
    world.ralph(&["resume"]).code(0);
    assert_eq!(fs::read_to_string(ran).unwrap(), "1 1\n2 1\n2 2\n3 1\n");
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 3", "checkpoint: 2", "checkpoint: 1", "initial state", "first"]);
    assert_eq!(world.git(&["show", "refs/ralph/work/attempts/2/1:s2"]), "2", "the half attempt is rescued");
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds an agent although git-ralph was killed before it could record it")]
#[test]
fn an_agent_that_outlives_a_killed_loop_is_ended_on_resume() {
    let world = World::new();
    world.stories(1, "");
    let pid = world.outside("pid");
    world.agent(&format!(
        "if [ ! -e {0} ]; then echo $$ >{0}; while :; do echo busy >>busy; sleep 0.05; done; fi; {COMPLETE}",
        pid.display()
    ));
    let running = world.spawn_start(&[]);
    world.wait_for("the agent", || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
    running.signal("KILL");
    running.finish().code(-9);
    let agent = fs::read_to_string(&pid).unwrap().trim().to_owned();
    assert!(!is_gone(&agent), "the orphan is alive");
    world.ralph(&["resume"]).code(0);
    assert!(is_gone(&agent), "the orphan is gone");
    assert!(!world.exists("busy"));
}

#[test]
fn a_half_attempt_costs_no_retry_and_spent_ones_are_remembered() {
    let world = World::new();
    world.stories(1, "max-retries = 1");
    let ran = world.outside("ran");
    world.agent(&format!(
        "echo $RALPH_ATTEMPT >>{}; case $RALPH_ATTEMPT in 2) touch {}; sleep 600;; *) echo '<promise>FAILED: no</promise>';; esac",
        ran.display(),
        world.outside("slept").display()
    ));
    let running = world.spawn_start(&[]);
    world.wait_for("the second attempt", || world.outside("slept").exists());
    running.signal("KILL");
    running.finish().code(-9);
    world.ralph(&["resume"]).code(1);
    assert_eq!(fs::read_to_string(ran).unwrap(), "1\n2\n3\n", "one first attempt, one retry, one that was cut short");
}

#[test]
fn edits_between_a_clean_stop_and_the_resume_are_kept_and_go_into_the_next_checkpoint() {
    let world = World::new();
    world.stories(2, "");
    world.agent(
        "case $RALPH_STORY.$RALPH_ATTEMPT in
         2.1) echo ruined >mine; rm README; echo '<promise>FAILED: no</promise>';;
         2.2) cat mine README >seen; echo '<promise>COMPLETE</promise>';;
         *) echo '<promise>COMPLETE</promise>';;
         esac",
    );
    world.start(&["--limit", "1"]).code(0);
    world.write("mine", "edited\n");
    world.write("README", "edited too\n");
    world.ralph(&["resume"]).code(0).says("your edits (2 files) go into the next checkpoint");
    assert_eq!(world.read("seen"), "edited\nedited too\n", "a failed attempt gives them back");
    assert_eq!(world.git(&["show", "ralph/work:mine"]), "edited");
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 2", "checkpoint: 1", "initial state", "first"]);
}

#[test]
fn an_edit_that_git_cannot_keep_is_refused_before_an_agent_can_lose_it() {
    let world = World::new();
    world.stories(2, "max-retries = 0");
    world.agent("test $RALPH_STORY = 2 && { rm -f 'git~1'; exit 1; }; echo '<promise>COMPLETE</promise>'");
    world.start(&["--limit", "1"]).code(0);
    world.write("git~1", "precious\n");
    world.ralph(&["resume"]).code(128).says("git cannot add every file of the work tree").says("git~1");
    assert_eq!(world.read("git~1"), "precious\n");
    fs::remove_file(world.path("git~1")).unwrap();
    world.ralph(&["resume"]).code(1);
}

#[test]
fn a_commit_of_the_users_on_the_branch_is_part_of_the_run() {
    let world = World::new();
    world.stories(2, "max-retries = 1");
    world.agent("test $RALPH_STORY.$RALPH_ATTEMPT = 2.1 && { rm mine; exit 1; }; echo '<promise>COMPLETE</promise>'");
    world.start(&["--limit", "1"]).code(0);
    world.write("mine", "x");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "mine"]);
    world.ralph(&["resume"]).code(0).says("which appeared on the run's branch");
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 2", "mine", "checkpoint: 1", "initial state", "first"]);
    assert_eq!(world.git(&["show", "ralph/work:mine"]), "x");
}

#[test]
fn an_ignored_file_that_the_user_commits_on_the_branch_is_no_deletion() {
    let world = World::new();
    world.write(".gitignore", "*.log\n");
    world.stories(2, "max-retries = 1");
    world.agent("test $RALPH_STORY.$RALPH_ATTEMPT = 2.1 && { rm mine.log; exit 1; }; echo '<promise>COMPLETE</promise>'");
    world.start(&["--limit", "1"]).code(0);
    world.write("mine.log", "x");
    world.write("README", "edited\n");
    world.git(&["add", "-f", "mine.log", "README"]);
    world.git(&["commit", "-qm", "mine"]);
    let output = world.ralph(&["resume"]).code(0).says("which appeared on the run's branch");
    assert!(!output.stderr.contains("your edits"), "{}", output.stderr);
    assert_eq!(world.git(&["show", "ralph/work:mine.log"]), "x");
    assert_eq!(world.git(&["show", "ralph/work:README"]), "edited");
    assert_eq!((world.read("mine.log"), world.git(&["status", "--porcelain"])), ("x".to_owned(), String::new()));
}

#[test]
fn an_ignored_file_that_the_user_commits_between_two_attempts_is_no_deletion() {
    let world = World::new();
    world.write(".gitignore", "*.log\n");
    world.stories(2, "");
    world.agent(COMPLETE);
    // The user edits right after the checkpoint, before the next agent starts.
    world.fake_git(
        "case \"$*\" in *' update-ref -m commit: checkpoint: 1 '*)
           $REAL_GIT \"$@\" || exit; echo x >mine.log; unset GIT_INDEX_FILE; $REAL_GIT add -f mine.log && $REAL_GIT commit -qm mine; exit;; esac",
    );
    world.start(&[]).code(0).says("which appeared on the run's branch");
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 2", "mine", "checkpoint: 1", "initial state", "first"]);
    assert_eq!(world.git(&["show", "ralph/work:mine.log"]), "x");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_branch_that_has_lost_the_checkpoint_is_a_clear_error() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo x >s$RALPH_STORY; {COMPLETE}"));
    world.start(&["--limit", "1"]).code(0);
    world.git(&["reset", "-q", "--hard", "HEAD~"]);
    world.ralph(&["resume"]).code(2).says("does not contain the last checkpoint").says("git reset --keep");
}

#[test]
fn the_command_given_to_start_is_remembered() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo $RALPH_STORY >>order; {COMPLETE}"));
    world.start(&["--limit", "1", "--verify", "test -e order"]).code(0);
    world.ralph(&["resume"]).code(0).says("gate passed: test -e order");
    assert_eq!(world.read("order"), "1\n2\n");
}

#[test]
fn a_torn_last_line_of_the_journal_is_dropped() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo $RALPH_STORY >>order; {COMPLETE}"));
    world.start(&["--limit", "1"]).code(0);
    let journal = world.run_dir().join("journal.jsonl");
    let mut text = fs::read_to_string(&journal).unwrap();
    text.push_str("{\"seq\":99,\"at\":\"2026-");
    fs::write(&journal, text).unwrap();
    world.ralph(&["status"]).code(0).says("1 of 2 stories done");
    world.ralph(&["resume"]).code(0);
    assert_eq!(world.read("order"), "1\n2\n");
    assert_eq!(world.count("checkpoint-landed"), 2);
}

#[test]
fn a_second_start_of_an_open_run_is_refused_and_restart_rescues_it() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
    world.write("mine", "before");
    world.start(&["--limit", "1"]).code(0);
    let tip = world.git(&["rev-parse", "ralph/work"]);
    world.start(&[]).code(2).says("a run of 'work' is open").says("git ralph resume work").says("git ralph start --restart work");
    assert_eq!(world.git(&["rev-parse", "ralph/work"]), tip);
    world.start(&["--restart"]).code(0);
    assert_eq!(world.git(&["rev-parse", "refs/ralph/work/runs/1/done"]), tip, "the old run is kept");
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 2", "checkpoint: 1", "initial state", "first"]);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.branch(), "main");
    assert_eq!(world.git(&["status", "--porcelain"]), "?? mine\n?? s1\n?? s2");
}

#[test]
fn a_run_of_another_change_in_the_same_work_tree_is_refused() {
    let world = World::new();
    world.stories(2, "");
    world.change("other", "[[story]]\nid = '1'\n");
    let agent = world.agent(COMPLETE);
    world.start(&["--limit", "1"]).code(0);
    world.ralph(&["start", "other", "--", &agent]).code(2).says("a run of 'work' is open in this work tree").says("git ralph finish work");
}

#[test]
fn two_loops_in_one_work_tree_are_refused() {
    let world = World::new();
    world.stories(1, "");
    let (ready, go) = (world.outside("ready"), world.outside("go"));
    world.agent(&format!("touch {}; while [ ! -e {} ]; do sleep 0.02; done; {COMPLETE}", ready.display(), go.display()));
    let running = world.spawn_start(&[]);
    world.wait_for("the agent", || ready.exists());
    for args in [&["resume"][..], &["finish", "--cleanup"], &["abort"], &["start", "work", "--restart", "--", "true"]] {
        world.ralph(args).code(2).says("another git ralph").says("git ralph stop");
    }
    fs::write(go, "").unwrap();
    running.finish().code(0);
}

#[test]
fn without_a_run_there_is_nothing_to_resume() {
    let world = World::new();
    for command in ["resume", "finish", "abort", "stop"] {
        world.ralph(&[command]).code(2).says("no open run");
    }
    world.ralph(&[]).code(0).says("no run is open").says("git ralph new my-change");
}

#[test]
fn a_story_that_its_source_has_dropped_does_not_stop_the_loop() {
    let world = World::new();
    world.stories(3, "");
    world.agent(&format!("echo $RALPH_STORY >>order; {COMPLETE}"));
    // The user's callback command edits the file between two attempts.
    let edit = "printf '[[story]]\\nid = \"1\"\\n[[story]]\\nid = \"new\"\\n' >.git/ralph/work.toml";
    world.git(&["config", "ralph.onStory", edit]);
    world.start(&[]).code(0);
    assert_eq!(world.read("order"), "1\nnew\n", "the source is read again before every story");
}

#[test]
fn a_source_that_breaks_during_the_run_is_reported_and_the_last_readable_version_is_used() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo $RALPH_STORY >>order; {COMPLETE}"));
    world.git(&["config", "ralph.onStory", "echo broken >.git/ralph/work.toml"]);
    world.start(&[]).code(0).says("cannot read the stories again, continuing with the last version");
    assert_eq!(world.read("order"), "1\n2\n");
    assert_eq!(world.count("source-unreadable"), 1);
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds an agent although git-ralph was killed before it could record it")]
#[test]
fn orphans_that_ignore_term_are_ended_on_resume() {
    let world = World::new();
    world.stories(1, "");
    let pid = world.outside("pid");
    world.agent(&format!("[ -e {0} ] && {{ {COMPLETE}; exit; }}; trap '' TERM; echo $$ >{0}; while :; do sleep 0.05; done", pid.display()));
    let running = world.spawn_start(&[]);
    world.wait_for("the agent", || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
    running.signal("KILL");
    running.finish().code(-9);
    world.ralph(&["resume"]).code(0);
    assert!(is_gone(&fs::read_to_string(&pid).unwrap()));
}

#[test]
fn a_recycled_process_id_is_not_taken_for_the_owner() {
    let world = World::new();
    world.stories(2, "");
    world.agent(COMPLETE);
    world.start(&["--limit", "1"]).code(0);
    fs::write(world.path(".git/ralph/locks/main"), "1 1\n").unwrap();
    world.ralph(&["stop"]).code(2).says("is not running");
    world.ralph(&["resume"]).code(0);
}
