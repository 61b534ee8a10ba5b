//! Tests the scenarios of the loop, one per test.

use crate::support::{COMPLETE, World};

#[test]
fn initialise_the_checkpoint_branch() {
    let world = World::new();
    world.stories(1, "");
    world.agent("git symbolic-ref HEAD >seen; git log -1 --format=%s >>seen; git status --porcelain -- . ':!seen' >>seen; echo '<promise>COMPLETE</promise>'");
    world.start(&[]).code(0);
    assert_eq!(world.read("seen"), "refs/heads/ralph/work\ninitial state\n");
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 1", "initial state", "first"]);
}

#[test]
fn save_after_completion() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("echo one >new; echo more >>README; {COMPLETE}"));
    world.start(&[]).code(0);
    assert_eq!(world.git(&["show", "ralph/work:new"]), "one");
    assert_eq!(world.git(&["show", "ralph/work:README"]), "hello\nmore");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    let trailers = world.git(&["log", "-1", "--format=%(trailers:only)", "ralph/work"]);
    assert_eq!(trailers.trim(), "Ralph-Change: work\nRalph-Story: 1\nRalph-Attempt: 1");
}

#[test]
fn the_agents_own_commits_stay_below_the_checkpoint() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("echo a >a; git add a; git commit -qm 'agent: a'; echo b >b; {COMPLETE}"));
    world.start(&[]).code(0);
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 1", "agent: a", "initial state", "first"]);
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\na\nb");
}

#[test]
fn revert_on_failure() {
    if World::is_in_place_only("the checkout keeps the uncommitted files") {
        return;
    }
    let world = World::new();
    world.write("kept", "as it was\n");
    world.stories(1, "max-retries = 0");
    world.agent(
        "echo changed >README; echo new >untracked; echo staged >staged; git add staged; rm kept
         echo c >committed; git add committed; git commit -qm mine; echo '<promise>FAILED: no</promise>'",
    );
    world.start(&[]).code(1);
    assert_eq!(world.read("README"), "hello\n");
    assert_eq!(world.read("kept"), "as it was\n");
    assert!(!world.exists("untracked") && !world.exists("staged") && !world.exists("committed"));
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_eq!(world.subjects("ralph/work"), ["initial state", "first"]);
    let rescue = "refs/ralph/work/attempts/1/1";
    assert_eq!(world.git(&["ls-tree", "--name-only", rescue]), "README\ncommitted\nstaged\nuntracked");
    assert_eq!(world.git(&["show", &format!("{rescue}:README")]), "changed");
    assert!(world.subjects(rescue).contains(&"mine".to_owned()), "the agent's commit is reachable");
}

#[test]
fn ignored_files_are_neither_committed_nor_removed() {
    let world = World::new();
    world.write(".gitignore", "*.log\n/cache/\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "ignore"]);
    world.write("my.log", "mine");
    world.write("cache/x", "cached");
    world.stories(2, "max-retries = 0");
    world.agent(
        "case $RALPH_STORY in
         1) rm .gitignore; echo x >new; echo '<promise>COMPLETE</promise>';;
         2) echo y >new; echo '<promise>FAILED: no</promise>';;
         esac",
    );
    world.start(&[]).code(1);
    assert_eq!(world.git(&["ls-tree", "-r", "--name-only", "ralph/work"]), "README\nnew");
    assert_eq!((world.read("my.log"), world.read("cache/x")), ("mine".to_owned(), "cached".to_owned()));
}

#[test]
fn cleanup_selected() {
    if World::is_in_place_only("the checkout stays on its branch; tests/suite/isolated.rs has the finish") {
        return;
    }
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo $RALPH_STORY >>README; echo $RALPH_STORY >new$RALPH_STORY; {COMPLETE}"));
    world.start(&["--finish", "cleanup"]).code(0).says("back on main");
    assert_eq!(world.branch(), "main");
    assert_eq!(world.git(&["status", "--porcelain"]), " M README\n?? new1\n?? new2");
    assert_eq!(world.read("README"), "hello\n1\n2\n");
    assert_eq!(world.subjects("main"), ["first"]);
    assert!(!world.has_ref("refs/heads/ralph/work"));
}

#[test]
fn keep_selected() {
    if World::is_in_place_only("the checkout stays on its branch") {
        return;
    }
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo $RALPH_STORY >>README; {COMPLETE}"));
    world.start(&["--finish", "keep"]).code(0).says("finished; the result is on ralph/work");
    assert_eq!(world.branch(), "ralph/work");
    assert_eq!(world.subjects("HEAD"), ["checkpoint: 2", "checkpoint: 1", "initial state", "first"]);
    assert_eq!(world.subjects("main"), ["first"]);
    world.ralph(&["resume"]).code(2).says("no open run");
}

#[test]
fn original_branch_stored() {
    let world = World::new();
    world.git(&["checkout", "-q", "-b", "feature/deep"]);
    world.stories(1, "");
    world.agent(&format!("echo x >x; {COMPLETE}"));
    world.start(&[]).code(0);
    world.ralph(&["status"]).code(0).says("started from feature/deep");
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.branch(), "feature/deep");
}

#[test]
fn start_the_loop() {
    if World::is_in_place_only("the directory of the agent is another one") {
        return;
    }
    let world = World::new();
    world.change(
        "work",
        "context = 'House rules.'\n[[story]]\nid = 's'\ntitle = 'The title'\nprompt = 'The text'\ntasks = ['t1']\nacceptance = ['a1']\n",
    );
    world.agent(
        "cat >prompt; echo \"$RALPH_CHANGE $RALPH_STORY $RALPH_ATTEMPT $RALPH_RUN_DIR $PWD\" >env
         echo \"$GIT_TERMINAL_PROMPT $GIT_EDITOR $GIT_PAGER ${GIT_DIR-unset} ${GIT_INDEX_FILE-unset}\" >>env; echo '<promise>COMPLETE</promise>'",
    );
    world.start(&[]).code(0);
    let prompt = world.read("prompt");
    for part in ["House rules.", "The title", "The text", "t1", "a1"] {
        assert!(prompt.contains(part), "{part} is missing:\n{prompt}");
    }
    let expected = format!("work s 1 {} {}\n0 true cat unset unset\n", world.run_dir().display(), world.repo.display());
    assert_eq!(world.read("env"), expected);
}

#[test]
fn story_iteration() {
    let world = World::new();
    world.change(
        "work",
        "[[story]]\nid = 'late'\nafter = ['early', 'middle']\n[[story]]\nid = 'middle'\n[[story]]\nid = 'early'\nafter = ['middle']\n",
    );
    world.agent(&format!("echo $RALPH_STORY >>order; {COMPLETE}"));
    world.start(&[]).code(0);
    assert_eq!(world.read("order"), "middle\nearly\nlate\n");
}

#[test]
fn loop_completion() {
    if World::is_in_place_only("the checkout stays on its branch") {
        return;
    }
    let world = World::new();
    world.stories(3, "");
    world.agent(&format!("echo $RALPH_STORY >>order; {COMPLETE}"));
    world
        .start(&[])
        .code(0)
        .says("all stories of work are done")
        .says("git ralph finish --cleanup work")
        .says("git ralph finish --keep work");
    assert_eq!(world.branch(), "ralph/work");
    world.ralph(&["status"]).code(0).says("3 of 3 stories done");
    world.ralph(&["resume"]).code(0).says("all stories of work are done");
    assert_eq!(world.read("order"), "1\n2\n3\n", "a finished story is not run again");
}

#[test]
fn branch_verified_before_spawn() {
    if World::is_in_place_only("HEAD of the checkout does not matter to an isolated run") {
        return;
    }
    let world = World::new();
    world.stories(3, "");
    world.agent(&format!("echo $RALPH_STORY >>{}; echo $RALPH_STORY >new$RALPH_STORY; {COMPLETE}", world.outside("ran").display()));
    world.start(&["--limit", "1"]).code(0);
    world.git(&["checkout", "-q", "main"]);
    world.ralph(&["resume"]).code(2).says("HEAD is on main, not on ralph/work").says("git switch ralph/work");
    world.git(&["switch", "-q", "ralph/work"]);
    // The user switches to another branch between two stories.
    world.fake_git("case \"$*\" in *' update-ref -m commit: checkpoint: 2 '*) $REAL_GIT \"$@\" && $REAL_GIT symbolic-ref HEAD refs/heads/main; exit;; esac");
    world.ralph(&["resume"]).code(2).says("HEAD is on main, not on ralph/work");
    assert_eq!(std::fs::read_to_string(world.outside("ran")).unwrap(), "1\n2\n", "the third agent was not started");
}

#[test]
fn retry_without_signal() {
    let world = World::new();
    world.stories(1, "");
    world.agent("if [ $RALPH_ATTEMPT = 1 ]; then echo half >half; echo 'I am off'; else ls >seen; echo '<promise>COMPLETE</promise>'; fi");
    world.start(&[]).code(0).says("attempt 1 ended without a promise");
    assert_eq!(world.read("seen"), "README\nseen\n", "the half work is gone");
    assert_eq!(world.prompt("1", 1), world.prompt("1", 2), "no extra text");
}

#[test]
fn retry_with_reason() {
    let world = World::new();
    world.stories(1, "verify = ['test ! -e bad || { echo the gate saw bad; exit 1; }']");
    world.agent(
        "case $RALPH_ATTEMPT in
         1) printf '<promise>FAILED: the schema\\nis missing</promise>\\n';;
         2) touch bad; echo '<promise>COMPLETE</promise>';;
         *) touch good; echo '<promise>COMPLETE</promise>';;
         esac",
    );
    world.start(&[]).code(0);
    assert!(!world.prompt("1", 1).contains("previous attempt"));
    assert!(world.prompt("1", 2).contains("the schema\nis missing"));
    assert!(world.prompt("1", 3).contains("the gate saw bad"));
    assert!(!world.prompt("1", 3).contains("the schema"));
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\ngood");
}

#[test]
fn max_retries() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo $RALPH_STORY $RALPH_ATTEMPT >>{}; echo '<promise>FAILED: never</promise>'", world.outside("ran").display()));
    world.start(&["--max-retries", "2"]).code(1).says("error: 1 failed after 3 attempts; the last one failed: never");
    assert_eq!(std::fs::read_to_string(world.outside("ran")).unwrap(), "1 1\n1 2\n1 3\n");
    assert_eq!(world.count("story-failed"), 1);
    world.ralph(&["resume"]).code(1);
    assert_eq!(std::fs::read_to_string(world.outside("ran")).unwrap(), "1 1\n1 2\n1 3\n", "spent retries are remembered");
    world.ralph(&["resume", "--max-retries", "3"]).code(1);
    assert_eq!(std::fs::read_to_string(world.outside("ran")).unwrap(), "1 1\n1 2\n1 3\n1 4\n");
}

#[test]
fn the_default_is_three_retries() {
    let world = World::new();
    world.stories(1, "");
    world.agent("exit 0");
    world.start(&[]).code(1);
    assert_eq!(world.count("attempt-started"), 4);
}

#[test]
fn abnormal_end() {
    let world = World::new();
    world.stories(1, "");
    world.agent(
        "case $RALPH_ATTEMPT in
         1) exit 7;;
         2) kill -SEGV $$;;
         3) echo said; sleep 600;;
         *) echo '<promise>COMPLETE</promise>';;
         esac",
    );
    world.start(&["--idle-timeout", "10s"]).code(0);
    assert!(world.prompt("1", 2).contains("ended with exit status 7"), "{}", world.prompt("1", 2));
    assert!(world.prompt("1", 3).contains("was killed by signal 11"), "{}", world.prompt("1", 3));
    assert!(world.prompt("1", 4).contains("was stopped after 10 seconds without any output"), "{}", world.prompt("1", 4));
}

#[test]
fn completion_options_on_error() {
    if World::is_in_place_only("the checkout stays on its branch") {
        return;
    }
    let world = World::new();
    world.stories(2, "max-retries = 0");
    let agent = "echo $RALPH_STORY >done$RALPH_STORY; test $RALPH_STORY = 1 && echo '<promise>COMPLETE</promise>'";
    world.agent(agent);
    world.start(&[]).code(1).says("git ralph finish --cleanup work").says("git ralph finish --keep work").says("git ralph resume work");
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.git(&["status", "--porcelain"]), "?? done1");
    world.start(&["--restart", "--finish", "cleanup"]).code(1).says("the run stays open");
    assert_eq!(world.branch(), "ralph/work");
    world.ralph(&["finish", "--cleanup"]).code(0).says("back on main");
    assert_eq!(world.git(&["status", "--porcelain"]), "?? done1");
}

#[test]
fn uncommitted_changes_at_start() {
    let world = World::new();
    world.write("tracked", "one\n");
    world.write("gone", "x\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.write("tracked", "staged\n");
    world.write("added", "staged\n");
    world.git(&["add", "tracked", "added"]);
    world.write("tracked", "unstaged\n");
    world.write("untracked", "mine\n");
    std::fs::remove_file(world.path("gone")).unwrap();
    let before = world.git(&["status", "--porcelain=v2"]);
    world.stories(1, "");
    world.agent(&format!("cat tracked untracked added; test ! -e gone && echo x >loop; {COMPLETE}"));
    world.start(&[]).code(0);
    assert_eq!(world.git(&["show", "ralph/work~:tracked"]), "unstaged", "the initial state holds the user's edits");
    assert_eq!(world.git(&["show", "ralph/work~:untracked"]), "mine");
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.git(&["status", "--porcelain=v2"]), before.replace("? untracked", "? loop\n? untracked"));
    assert_eq!(world.git(&["show", ":tracked"]), "staged", "what was staged is staged again");
    assert_eq!(world.read("tracked"), "unstaged\n");
}

#[test]
fn user_edits_during_the_loop() {
    if World::is_in_place_only("edits in the checkout are no part of an isolated run") {
        return;
    }
    let world = World::new();
    world.stories(2, "max-retries = 0");
    let (ready, go) = (world.outside("ready"), world.outside("go"));
    world.agent(&format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.02; done; rm {}; echo agent >agent$RALPH_STORY
         test $RALPH_STORY = 1 && echo '<promise>COMPLETE</promise>'",
        ready.display(),
        go.display(),
        go.display()
    ));
    let running = world.spawn_start(&[]);
    world.wait_for("the first agent", || ready.exists());
    world.write("mine", "first\n");
    std::fs::remove_file(&ready).unwrap();
    std::fs::write(&go, "").unwrap();
    world.wait_for("the second agent", || ready.exists());
    world.write("mine", "second\n");
    std::fs::write(&go, "").unwrap();
    running.finish().code(1);
    assert_eq!(world.git(&["show", "ralph/work:mine"]), "first", "an edit beside a finished story is in its checkpoint");
    assert_eq!(world.read("mine"), "first\n");
    assert_eq!(world.git(&["show", "refs/ralph/work/attempts/2/1:mine"]), "second", "an edit beside a failed one is rescued");
}

#[test]
fn branch_left_over_from_an_earlier_run() {
    let world = World::new();
    world.git(&["checkout", "-q", "-b", "ralph/work"]);
    world.write("old", "work");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "old work"]);
    let old = world.git(&["rev-parse", "HEAD"]);
    world.git(&["checkout", "-q", "main"]);
    world.stories(1, "");
    world.agent(COMPLETE);
    world.start(&[]).code(0).says("branch ralph/work from an earlier run was moved to refs/ralph/work/leftover/1");
    assert_eq!(world.git(&["rev-parse", "refs/ralph/work/leftover/1"]), old);
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 1", "initial state", "first"]);
}

#[test]
fn a_kept_branch_is_not_lost_by_a_second_start() {
    if World::is_in_place_only("the second start begins on the kept branch") {
        return;
    }
    let world = World::new();
    world.stories(1, "max-retries = 1");
    world.agent("echo $RALPH_ATTEMPT >file; test $RALPH_ATTEMPT = 2 && echo '<promise>COMPLETE</promise>'");
    world.start(&["--finish", "keep"]).code(0);
    let (tip, rescue) = (world.git(&["rev-parse", "ralph/work"]), world.git(&["rev-parse", "refs/ralph/work/attempts/1/1"]));
    world.start(&["--restart"]).code(2).says("git switch");
    world.git(&["checkout", "-q", "main"]);
    world.start(&["--restart"]).code(0);
    assert_eq!(world.git(&["rev-parse", "refs/ralph/work/leftover/2"]), tip);
    assert_eq!(world.git(&["rev-parse", "refs/ralph/work/runs/1/attempts/1/1"]), rescue);
    assert!(world.has_ref("refs/ralph/work/attempts/1/1"), "the new run has its own");
}

#[test]
fn allow_empty_initial_commit() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    world.start(&[]).code(0);
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 1", "initial state", "first"]);
    let trees: Vec<String> =
        ["ralph/work", "ralph/work~", "ralph/work~2"].iter().map(|rev| world.git(&["rev-parse", &format!("{rev}^{{tree}}")])).collect();
    assert!(trees.iter().all(|tree| *tree == trees[0]), "nothing was changed, and each step is a commit all the same");
}

#[test]
fn only_and_limit_choose_stories() {
    let world = World::new();
    world.stories(4, "");
    world.agent(&format!("echo $RALPH_STORY >>order; {COMPLETE}"));
    world.start(&["--only", "3", "--only", "2"]).code(0).says("the selected stories are done");
    assert_eq!(world.read("order"), "2\n3\n");
    world.ralph(&["finish", "--cleanup", "-q"]).code(0);
    world.start(&["--restart", "--limit", "1"]).code(0).says("stopped: the --limit is reached");
    assert_eq!(world.read("order"), "2\n3\n1\n");
    world.ralph(&["abort"]).code(0);
    world.start(&["--only", "33"]).code(128).says("'work' has no story '33'; did you mean '3'?");
}

#[test]
fn the_demo_runs_the_whole_loop() {
    let world = World::empty();
    let output = world.ralph(&["demo", "--dir", "scratch"]).code(0);
    for part in ["checkpoint: shout", "refs/ralph/greeter/attempts/name/1", "refs/ralph/greeter/attempts/shout/1", "## main\n?? greet.sh"] {
        assert!(output.stdout.contains(part), "{part} is missing in\n{}", output.stdout);
    }
    assert!(output.stderr.contains("gate failed: sh check.sh"), "{}", output.stderr);
    assert!(output.stderr.contains("name: attempt 1 failed: greet.sh must still say 'world'"), "{}", output.stderr);
}
