//! Tests that nothing is lost, whatever agents, users and crashes do to a repository.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::support::{COMPLETE, World, moving_main, which};

const FAILED: &str = "echo '<promise>FAILED: no</promise>'";

fn failing(world: &World, agent: &str) {
    world.stories(1, "max-retries = 0");
    world.agent(&format!("{agent}; {FAILED}"));
    world.start(&[]).code(1);
}

fn reachable(world: &World, subject: &str) -> bool {
    world.git(&["log", "--all", "--format=%s"]).lines().any(|line| line == subject)
}

#[test]
fn commits_on_the_branch_are_kept_when_the_agent_ends_elsewhere() {
    let world = World::new();
    failing(&world, "echo w >w; git add w; git commit -qm work; git checkout -q main");
    assert_eq!(world.branch(), World::branch_of_checkout());
    assert!(reachable(&world, "work"));
    assert!(!world.exists("w"));
}

#[test]
fn work_on_the_branch_is_landed_when_the_agent_ends_elsewhere() {
    let world = World::new();
    world.write("mine", "uncommitted\n");
    world.stories(2, "");
    world.agent(&format!(
        "case $RALPH_STORY in
         1) echo w >w; git add w; git commit -qm work; git checkout -q main; echo more >more;;
         2) git checkout -q -b side main; echo side >side; git add side; git commit -qm side; echo dirty >dirty;;
         esac; {COMPLETE}"
    ));
    world.start(&[]).code(0).says("its changes were moved to the run's branch");
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work~1"]), "README\nmine\nmore\nw");
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\ndirty\nmine\nmore\nside\nw");
    assert_eq!(world.git(&["status", "--porcelain"]), if World::is_isolated() { "?? mine" } else { "" });
    assert!(world.subjects("ralph/work").contains(&"side".to_owned()));
    assert_eq!(world.subjects("main"), ["first"]);
}

#[test]
fn commits_of_the_agents_to_files_of_earlier_checkpoints_are_landed() {
    let world = World::new();
    world.stories(3, "");
    world.agent(&format!("echo $RALPH_STORY >>README; echo $RALPH_STORY >>f; git add f; git commit -qam mine; {COMPLETE}"));
    world.start(&[]).code(0);
    assert_eq!(world.git(&["show", "ralph/work:f"]), "1\n2\n3");
    assert_eq!(world.git(&["show", "ralph/work:README"]), "hello\n1\n2\n3");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn an_agent_that_renames_deletes_or_rewinds_our_branch_changes_nothing() {
    for script in [
        "git branch -m ralph/work stolen",
        "git checkout -q --detach; git branch -q -D ralph/work",
        "git reset -q --hard HEAD~1",
        "git commit -q --amend --allow-empty -m amended",
        "git checkout -q --orphan fresh",
    ] {
        for end in [COMPLETE, FAILED] {
            let world = World::new();
            world.write("mine", "uncommitted\n");
            world.stories(2, "max-retries = 0");
            world.agent(&format!(
                "echo $RALPH_STORY >s$RALPH_STORY; test $RALPH_STORY = 1 && {COMPLETE} || {{ {script}; echo x >x; {end}; }}"
            ));
            let output = world.start(&[]);
            assert_eq!(world.branch(), World::branch_of_checkout(), "{script}");
            let status = if World::is_isolated() { "?? mine" } else { "" };
            assert_eq!(world.git(&["status", "--porcelain"]), status, "{script}");
            let subjects = world.subjects("ralph/work");
            assert!(subjects.contains(&"checkpoint: 1".to_owned()), "{script}: {subjects:?}");
            if end == COMPLETE && output.code == 0 {
                assert_eq!(world.read("x"), "x\n", "{script}");
                assert_eq!((world.read("mine"), world.read("s1")), ("uncommitted\n".to_owned(), "1\n".to_owned()), "{script}");
            } else {
                assert!(!world.exists("x"), "{script}");
                assert_eq!(world.git(&["show", "refs/ralph/work/attempts/2/1:x"]), "x", "{script}");
            }
            world.ralph(&["abort"]).code(0);
            assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("main".to_owned(), "?? mine".to_owned()), "{script}");
        }
    }
}

#[test]
fn operations_left_under_way_are_moved_aside() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    let world = World::new();
    world.write("README", "side\n");
    world.git(&["switch", "-q", "-c", "side"]);
    world.git(&["commit", "-qam", "side"]);
    world.git(&["switch", "-q", "main"]);
    for (script, file) in [
        ("git merge -q side", "MERGE_HEAD"),
        ("git rebase -q side", "rebase-merge"),
        ("git cherry-pick side", "CHERRY_PICK_HEAD"),
        ("git bisect start -q", "BISECT_LOG"),
    ] {
        world.stories(1, "max-retries = 0");
        world.agent(&format!("echo ours >README; git commit -qam ours; {script} >/dev/null 2>&1; {FAILED}"));
        world.start(&[]).code(1).says("the agent left");
        assert!(!world.exists(&format!(".git/{file}")), "{script}");
        assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("ralph/work".to_owned(), String::new()), "{script}");
        assert!(reachable(&world, "ours"), "{script}");
        world.ralph(&["abort"]).code(0);
        assert_eq!((world.branch(), world.read("README")), ("main".to_owned(), "hello\n".to_owned()), "{script}");
    }
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it sees whether any process has a lock file open")]
#[test]
fn locks_left_by_dead_processes_stop_nothing() {
    for lock in ["index.lock", "HEAD.lock", "refs/heads/ralph/work.lock", "packed-refs.lock", "config.lock"] {
        let world = World::new();
        world.stories(2, "max-retries = 0");
        world.agent(&format!("echo x >x; touch -d '1 minute ago' .git/{lock}; test $RALPH_STORY = 1 && {COMPLETE} || {FAILED}"));
        world.start(&[]).code(1);
        assert_eq!(world.subjects("ralph/work"), ["checkpoint: 1", "initial state", "first"], "{lock}");
        world.ralph(&["abort"]).code(0);
        assert_eq!(world.branch(), "main", "{lock}");
    }
}

#[test]
fn a_commit_whose_editor_is_open_keeps_its_lock_and_an_in_place_start_is_refused() {
    if World::is_in_place_only("an isolated run leaves the user's index and HEAD alone") {
        return;
    }
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    let (open, close) = (world.outside("open"), world.outside("close"));
    let waits = format!("touch {}; while ! test -e {}; do sleep 0.05; done; echo mine >\"$1\"", open.display(), close.display());
    let editor = world.program("slow-editor", &waits);
    world.write("README", "committed\n");
    let mut commit = world.command(&which("git"), &["commit", "-qa"]).env("GIT_EDITOR", editor).spawn().unwrap();
    world.wait_for("the editor", || open.exists());
    let lock = world.path(".git/index.lock");
    let minute_ago = SystemTime::now() - Duration::from_secs(60);
    fs::File::open(&lock).unwrap().set_modified(minute_ago).unwrap();
    world.start(&[]).code(2).says("another git process holds");
    assert!(lock.exists() && world.branch() == "main");
    fs::write(close, "").unwrap();
    assert!(commit.wait().unwrap().success());
    assert_eq!(world.subjects("main"), ["mine", "first"]);
    world.start(&[]).code(0);
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it sees whether any process has a lock file open")]
#[test]
fn a_stale_lock_of_our_own_index_stops_nothing() {
    let world = World::new();
    world.stories(2, "");
    world.agent(COMPLETE);
    world.start(&["--limit", "1"]).code(0);
    fs::write(world.run_dir().join("index.lock"), "").unwrap();
    world.ralph(&["resume"]).code(0);
}

#[test]
fn a_link_out_of_the_repository_is_not_followed() {
    let world = World::new();
    world.write("d/f", "inside\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "d"]);
    fs::create_dir(world.outside("out")).unwrap();
    fs::write(world.outside("out/f"), "outside\n").unwrap();
    failing(&world, "rm -rf d; ln -s ../out d");
    assert_eq!(fs::read_to_string(world.outside("out/f")).unwrap(), "outside\n");
    assert_eq!(world.read("d/f"), "inside\n");
}

#[test]
fn files_and_directories_that_change_places_are_restored_with_their_ignored_files() {
    if World::is_in_place_only("a private clone has none of the user's ignored files") {
        return;
    }
    let world = World::new();
    world.write(".gitignore", "*.log\n");
    world.write("file", "file\n");
    world.write("dir/inner", "inner\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.write("dir/my.log", "mine\n");
    failing(
        &world,
        "rm file; mkdir file; echo a >file/a; echo agent >file/agent.log; mkdir kept; mv dir/my.log kept; rm -r dir; echo now >dir",
    );
    assert_eq!((world.read("file"), world.read("dir/inner")), ("file\n".to_owned(), "inner\n".to_owned()));
    assert_eq!(world.read("kept/my.log"), "mine\n", "ignored files stay where the agent has put them");
    let moved = world.run_dir().join("moved/1-1/file/agent.log");
    assert_eq!(fs::read_to_string(moved).unwrap(), "agent\n", "an ignored file in the way is moved, not removed");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn nested_repositories_keep_their_files() {
    let world = World::new();
    world.write("users/file", "mine\n");
    world.git(&["init", "-q", "users"]);
    world.stories(3, "max-retries = 0");
    world.agent(&format!(
        "case $RALPH_STORY in
         1) git init -q empty; echo e >empty/e; echo x >x; {COMPLETE};;
         2) git init -q full; cd full; echo f >f; git add f; git -c user.name=a -c user.email=a@b commit -qm f; cd ..; {COMPLETE};;
         3) git init -q failed; echo g >failed/g; rm x; {FAILED};;
         esac"
    ));
    world
        .start(&[])
        .code(1)
        .says("empty is a repository of its own")
        .says("full is a repository of its own")
        .says("failed is a repository of its own, moved to");
    assert_eq!(world.git(&["ls-tree", "-r", "--name-only", "ralph/work"]), "README\nx");
    assert_eq!(world.read("users/file"), "mine\n");
    let moved = world.run_dir().join(if World::is_isolated() { "workspaces/1/moved" } else { "moved" });
    assert_eq!(fs::read_to_string(moved.join("3-1/failed/g")).unwrap(), "g\n");
    assert!(!world.exists("failed"));
    if World::is_isolated() {
        // The next attempt in the same clone must not find them.
        let found = ["1-1/empty/e", "2-1/full/f"].map(|name| fs::read_to_string(moved.join(name)).unwrap());
        assert_eq!(found, ["e\n", "f\n"]);
        return;
    }
    assert_eq!((world.read("empty/e"), world.read("full/f")), ("e\n".to_owned(), "f\n".to_owned()));
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!((world.read("empty/e"), world.read("full/f")), ("e\n".to_owned(), "f\n".to_owned()));
}

#[test]
fn names_that_are_no_utf8_or_hold_newlines_are_kept_and_restored() {
    let world = World::new();
    world.stories(1, "max-retries = 0");
    world.agent(&format!("printf x >\"$(printf 'a\\nb')\"; printf y >\"$(printf 'bad\\377name')\"; printf z >'-rf'; printf q >'qu\"ote'; printf s >'*'; {FAILED}"));
    world.start(&[]).code(1);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_eq!(world.git(&["ls-tree", "-r", "-z", "--name-only", "refs/ralph/work/attempts/1/1", "--"]).split('\0').count(), 7);
}

#[test]
fn edits_that_were_adopted_stay_reachable_whatever_the_agent_makes_of_them() {
    if World::is_in_place_only("edits in the checkout are no part of an isolated run") {
        return;
    }
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("test $RALPH_STORY = 2 && git checkout -q -- . ; echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
    world.start(&["--limit", "1"]).code(0);
    world.write("README", "edited\n");
    world.ralph(&["resume"]).code(0);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert!(world.git(&["log", "--all", "-p", "--format="]).contains("+edited"));
}

#[test]
fn staged_content_stays_reachable_over_finish_and_abort() {
    for end in [&["finish", "--cleanup"][..], &["abort"]] {
        let world = World::new();
        world.stories(1, "");
        world.agent(COMPLETE);
        world.start(&[]).code(0);
        world.write("README", "only staged\n");
        world.git(&["add", "README"]);
        world.write("README", "work tree\n");
        world.ralph(end).code(0);
        // An isolated run leaves the user's index alone.
        let of_interest = if World::is_isolated() { &["diff", "--cached"][..] } else { &["log", "--all", "-p", "-m", "--format="] };
        assert!(world.git(of_interest).contains("+only staged"), "{end:?}");
    }
}

#[test]
fn content_that_cannot_be_staged_again_is_saved_and_reported() {
    if World::is_in_place_only("the user's index is not touched") {
        return;
    }
    let world = World::new();
    world.write("f", "1\n2\n3\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "f"]);
    world.write("f", "staged\n2\n3\n");
    world.git(&["add", "f"]);
    world.write("f", "1\n2\n3\n");
    world.stories(1, "");
    world.agent(COMPLETE);
    world.start(&[]).code(0);
    world.move_original("f", "main\n2\n3\n");
    world.ralph(&["finish", "--cleanup"]).code(0).says("they are saved as refs/ralph/work/index");
    assert_eq!(world.git(&["show", "refs/ralph/work/index:f"]), "staged\n2\n3");
}

/// Runs a command whose process is killed before git runs with the given words.
fn killed_at(world: &World, words: &str, args: &[&str]) {
    killed(world, words, "", args);
}

/// Runs a command whose process is killed after git has run with the given words.
fn killed_after(world: &World, words: &str, args: &[&str]) {
    killed(world, words, "$REAL_GIT \"$@\";", args);
}

fn killed(world: &World, words: &str, first: &str, args: &[&str]) {
    world.fake_git(&format!("case \"$*\" in *'{words}'*) {first} kill -9 $PPID; exit 1;; esac"));
    world.ralph(args).code(-9);
    fs::remove_file(world.outside("bin/git")).unwrap();
}

#[test]
fn edits_after_a_finish_or_an_abort_was_killed_are_not_lost_by_completing_it() {
    if World::is_in_place_only("kill_matrix/isolated.rs kills the finish and the abort of an isolated run") {
        return;
    }
    let (moving, recording) = ("symbolic-ref -m", "update-ref -m git ralph finish --no-deref");
    for (args, words, kept) in [
        (&["finish", "--cleanup"][..], moving, " M README\n?? late\n?? loop"),
        (&["finish", "--cleanup"], recording, " M README\n?? late\n?? loop"),
        (&["abort"], moving, " M README\n?? late"),
        // The abort had not changed anything yet, so the edits made until then belong to the run.
        (&["abort"], recording, ""),
    ] {
        let world = World::new();
        world.stories(1, "");
        world.agent(&format!("echo x >loop; {COMPLETE}"));
        world.start(&[]).code(0);
        killed_at(&world, words, args);
        world.write("README", "edited\n");
        world.write("late", "late\n");
        world.ralph(&["resume"]).code(0);
        assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("main".to_owned(), kept.to_owned()), "{args:?} {words}");
        assert_eq!(world.git(&["show", "refs/ralph/work/done:README"]), "edited", "{args:?} {words}");
        assert_eq!(world.git(&["show", "refs/ralph/work/done:late"]), "late", "{args:?} {words}");
    }
}

#[test]
fn a_user_who_switches_branches_after_a_killed_finish_still_gets_the_work() {
    if World::is_in_place_only("kill_matrix/isolated.rs kills the finish and the abort of an isolated run") {
        return;
    }
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("for n in 1 2 3; do echo x >loop$n; done; {COMPLETE}"));
    world.start(&[]).code(0);
    killed_at(&world, "update-ref -m git ralph finish --no-deref", &["finish", "--cleanup"]);
    killed_at(&world, "symbolic-ref -m", &["finish", "--cleanup"]);
    world.git(&["switch", "-q", "main"]);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.git(&["status", "--porcelain"]), "?? loop1\n?? loop2\n?? loop3");
}

#[test]
fn work_that_the_user_throws_away_does_not_come_back_with_a_cleanup_that_was_killed() {
    if World::is_in_place_only("kill_matrix/isolated.rs kills the finish and the abort of an isolated run") {
        return;
    }
    let world = World::new();
    let readme = world.read("README");
    world.stories(1, "");
    world.agent(&format!("echo a >a; echo b >b; echo more >>README; {COMPLETE}"));
    world.start(&[]).code(0);
    for name in ["a", "b"] {
        fs::remove_file(world.path(name)).unwrap();
    }
    world.write("README", &readme);
    world.write("mine", "mine\n");
    killed_after(&world, "symbolic-ref -m", &["finish", "--cleanup"]);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("main".to_owned(), "?? mine".to_owned()));
}

#[test]
fn edits_before_a_cleanup_to_a_moved_original_survive_its_kill() {
    if World::is_in_place_only("kill_matrix/isolated.rs kills the finish and the abort of an isolated run") {
        return;
    }
    let world = World::new();
    for name in ["m1", "m2", "m3", "g"] {
        world.write(name, "one\n");
    }
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.stories(1, "");
    world.agent(&format!("echo two >g; {COMPLETE}"));
    world.start(&[]).code(0);
    // Commits in another work tree: no file of this one changes, so git-ralph looks at none of them.
    let elsewhere = world.outside("elsewhere").to_str().unwrap().to_owned();
    world.git(&["worktree", "add", "-q", &elsewhere, "main"]);
    for name in ["m1", "m2", "m3"] {
        fs::write(world.outside("elsewhere").join(name), "moved\n").unwrap();
    }
    world.git(&["-C", &elsewhere, "commit", "-qam", "moved on"]);
    world.git(&["worktree", "remove", &elsewhere]);
    world.write("g", "three\n");
    killed_after(&world, "symbolic-ref -m", &["finish", "--cleanup"]);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("main".to_owned(), " M g".to_owned()));
    assert_eq!((world.read("g").as_str(), world.read("m2").as_str()), ("three\n", "moved\n"));
}

#[test]
fn content_staged_after_a_finish_or_an_abort_was_killed_stays_reachable() {
    if World::is_in_place_only("kill_matrix/isolated.rs kills the finish and the abort of an isolated run") {
        return;
    }
    for args in [&["finish", "--cleanup"][..], &["abort"]] {
        for kill in [killed_at, killed_after] {
            let world = World::new();
            world.stories(1, "");
            world.agent(&format!("echo a >a; {COMPLETE}"));
            world.start(&[]).code(0);
            kill(&world, "symbolic-ref -m", args);
            world.write("README", "only staged\n");
            world.git(&["add", "README"]);
            world.write("README", "work tree\n");
            world.ralph(args).code(0);
            assert!(world.git(&["log", "--all", "-p", "-m", "--format="]).contains("+only staged"), "{args:?}");
            assert_eq!(world.read("README"), "work tree\n", "{args:?}");
        }
    }
}

#[test]
fn content_staged_after_a_start_was_killed_stays_reachable() {
    for kill in [killed_at, killed_after] {
        let world = World::new();
        world.stories(1, "");
        let agent = world.agent(COMPLETE);
        kill(&world, "symbolic-ref -m", &["start", "work", "--", &agent]);
        world.write("new", "only staged\n");
        world.git(&["add", "new"]);
        fs::remove_file(world.path("new")).unwrap();
        world.ralph(&["resume"]).code(0);
        assert!(world.git(&["log", "--all", "-p", "-m", "--format="]).contains("+only staged"));
        assert!(!world.exists("new"));
    }
}

#[test]
fn commits_on_a_detached_head_after_a_start_was_killed_stay_reachable() {
    for kill in [killed_at, killed_after] {
        for next in [&["resume"][..], &["abort"]] {
            let world = World::new();
            world.stories(1, "");
            let agent = world.agent(COMPLETE);
            world.git(&["checkout", "-q", "--detach"]);
            kill(&world, "symbolic-ref -m", &["start", "work", "--", &agent]);
            world.write("new", "mine\n");
            world.git(&["add", "new"]);
            world.git(&["commit", "-qm", "mine"]);
            world.ralph(next).code(0);
            if next[0] == "resume" {
                world.ralph(&["abort"]).code(0);
            }
            assert!(world.subjects("--all").iter().any(|subject| subject == "mine"), "{next:?}");
        }
    }
}

#[test]
fn edits_that_conflict_with_a_finish_or_an_abort_that_was_killed_are_kept_under_a_ref() {
    if World::is_in_place_only("kill_matrix/isolated.rs kills the finish and the abort of an isolated run") {
        return;
    }
    for args in [&["finish", "--cleanup"][..], &["abort"]] {
        let world = World::new();
        world.write("dir/file", "of the user\n");
        world.stories(1, "");
        world.agent(&format!("echo 'of the agent' >dir/file; {COMPLETE}"));
        world.start(&[]).code(0);
        world.move_original("README", "moved\n");
        killed_at(&world, "symbolic-ref -m", args);
        fs::remove_dir_all(world.path("dir")).unwrap();
        world.write("dir", "late\n");
        world.write("README", "edited\n");
        world.ralph(args).code(0).says("your edits").says("saved as refs/ralph/work/done");
        assert_eq!((world.branch().as_str(), world.read("README").as_str()), ("main", "moved\n"), "{args:?}");
        let file = if args[0] == "abort" { "of the user\n" } else { "of the agent\n" };
        assert_eq!(world.read("dir/file"), file, "{args:?}");
        assert_eq!(world.git(&["show", "refs/ralph/work/done:dir"]), "late", "{args:?}");
        assert_eq!(world.git(&["show", "refs/ralph/work/done:README"]), "edited", "{args:?}");
    }
}

#[test]
fn commits_after_a_finish_or_an_abort_was_killed_stay_reachable() {
    if World::is_in_place_only("kill_matrix/isolated.rs kills the finish and the abort of an isolated run") {
        return;
    }
    for args in [&["finish", "--cleanup"][..], &["abort"]] {
        for detached in [false, true] {
            let world = World::new();
            world.stories(1, "");
            world.agent(&format!("echo a >a; {COMPLETE}"));
            world.start(&[]).code(0);
            killed_at(&world, "symbolic-ref -m", args);
            if detached {
                world.git(&["checkout", "-q", "--detach"]);
            }
            world.git(&["commit", "-q", "--allow-empty", "-m", "made late"]);
            world.ralph(args).code(0);
            assert_eq!(world.branch(), "main", "{args:?}, detached: {detached}");
            assert!(world.git(&["log", "--all", "--format=%s"]).contains("made late"), "{args:?}, detached: {detached}");
        }
    }
}

#[test]
fn edits_that_a_killed_walk_has_seen_are_not_staged_by_a_cleanup() {
    if World::is_in_place_only("kill_matrix/isolated.rs kills the finish and the abort of an isolated run") {
        return;
    }
    for same in [false, true] {
        let world = World::new();
        world.write("f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
        world.write("g", "x\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "more"]);
        world.stories(2, "");
        world.agent(&format!("echo two >a; {COMPLETE}"));
        world.start(&["--limit", "1"]).code(0);
        world.move_original("z", "z\n");
        if same {
            world.move_original("f", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
            world.write("f", "eins\n2\n3\n4\n5\n6\n7\n8\n9\n");
        }
        world.write("g", "edited\n");
        world.write("n", "new\n");
        killed_after(&world, "write-tree", &["resume"]);
        world.ralph(&["finish", "--cleanup"]).code(0);
        let f = if same { " M f\n" } else { "" };
        assert_eq!(world.git(&["status", "--porcelain"]), format!("{f} M g\n?? a\n?? n").trim_start_matches('\n'));
    }
}

#[test]
fn a_lost_index_of_ours_is_no_reason_not_to_finish() {
    if World::is_in_place_only("the finish needs no index of ours") {
        return;
    }
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("echo a >a; {COMPLETE}"));
    world.start(&[]).code(0);
    world.move_original("z", "z\n");
    for spare in [".git/ralph", ".git/ralph-spare"] {
        let found = world.command("find", &[spare, "-name", "index", "-delete"]).status().unwrap();
        assert!(found.success());
    }
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.git(&["status", "--porcelain"]), "?? a");
}

#[test]
fn empty_directories_that_the_user_removes_do_not_come_back_with_a_cleanup() {
    let world = World::new();
    fs::create_dir_all(world.path("d/e")).unwrap();
    fs::create_dir(world.path("e")).unwrap();
    world.stories(1, "");
    world.agent(&format!("echo a >a; {COMPLETE}"));
    world.start(&[]).code(0);
    for name in ["d/e", "d", "e"] {
        fs::remove_dir(world.path(name)).unwrap();
    }
    fs::create_dir(world.outside("outside")).unwrap();
    symlink(world.outside("outside"), world.path("d")).unwrap();
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert!(!world.exists("e") && !world.outside("outside/e").exists());
}

#[test]
fn bytes_that_a_filter_makes_the_same_come_back_even_within_a_second() {
    if World::is_in_place_only("a clone has no bytes, modes or line ends of the user's to restore") {
        return;
    }
    let world = World::new();
    world.git(&["config", "filter.up.clean", "tr A-Z a-z"]);
    world.git(&["config", "filter.up.smudge", "tr a-z A-Z"]);
    world.write(".gitattributes", "*.up filter=up\n");
    world.write("x.up", "MiXed\n");
    // This file is too large for a copy, so it is restored as a checkout writes it.
    let big = "LARGE FILE\n".repeat(100_000);
    world.write("big.up", &big);
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.stories(1, "max-retries = 2");
    // Same inode and same size: within the same second, git cannot see the difference.
    world.agent(&format!("echo MIXED >x.up; yes 'large file' | head -100000 >big.up; {FAILED}"));
    world.start(&[]).code(1);
    assert_eq!(world.read("x.up"), "MiXed\n", "rolled back");
    assert!(world.read("big.up") == big, "rolled back");
    world.ralph(&["abort"]).code(0);
    assert_eq!(world.read("x.up"), "MiXed\n", "aborted");
}

#[test]
fn a_run_that_is_being_closed_cannot_be_closed_in_another_way() {
    if World::is_in_place_only("kill_matrix/isolated.rs kills the finish and the abort of an isolated run") {
        return;
    }
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("echo x >loop; {COMPLETE}"));
    world.start(&[]).code(0);
    killed_at(&world, "symbolic-ref -m", &["abort"]);
    world.ralph(&["finish", "--cleanup"]).code(2).says("a 'git ralph abort' of this run was interrupted").says("git ralph resume work");
    world.ralph(&["finish", "--keep"]).code(2);
    world.ralph(&["resume"]).code(0);
    assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("main".to_owned(), String::new()));
}

#[test]
fn a_start_that_died_before_it_touched_anything_is_no_run() {
    let world = World::new();
    world.git(&["branch", "dev"]);
    world.stories(1, "");
    let agent = world.agent(&format!("echo x >loop; {COMPLETE}"));
    killed_at(&world, "write-tree", &["start", "work", "--", &agent]);
    world.git(&["switch", "-q", "dev"]);
    world.ralph(&["abort"]).code(0).says("had not changed anything");
    assert_eq!(world.branch(), "dev");
    killed_at(&world, "write-tree", &["start", "work", "--", &agent]);
    world.git(&["switch", "-q", "main"]);
    world.ralph(&["resume", "--finish", "cleanup"]).code(0);
    assert_eq!(world.branch(), "main", "it starts from where the user is");
}

#[test]
fn an_abort_in_the_middle_of_an_attempt_works_wherever_the_agent_has_left_head() {
    let world = World::new();
    world.stories(1, "");
    world.agent("git checkout -q --detach; echo a >staged; git add staged; echo b >staged; kill -9 $PPID");
    world.start(&[]).code(-9);
    world.ralph(&["abort"]).code(0);
    assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("main".to_owned(), String::new()));
    assert!(world.git(&["log", "--all", "-p", "-m", "--format="]).contains("+a"));
}

#[test]
fn a_run_inside_a_submodule_and_with_a_separate_git_directory_finishes_after_a_kill() {
    if World::is_in_place_only("kill_matrix/isolated.rs kills the finish and the abort of an isolated run") {
        return;
    }
    let world = World::new();
    let library = World::new();
    world.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", library.repo.to_str().unwrap(), "sub"]);
    world.git(&["commit", "-qm", "sub"]);
    let mut inside = World::empty();
    inside.repo = world.path("sub");
    inside.git(&["config", "user.name", "Test"]);
    inside.git(&["config", "user.email", "test@example.com"]);
    inside.stories(1, "");
    inside.agent(&format!("echo x >loop; {COMPLETE}"));
    inside.start(&[]).code(0);
    killed_at(&inside, "update-ref -m git ralph finish --no-deref --stdin", &["finish", "--cleanup"]);
    inside.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!((inside.branch(), inside.git(&["status", "--porcelain"])), ("main".to_owned(), "?? loop".to_owned()));
}

#[test]
fn modes_and_links_survive_a_failed_attempt() {
    let world = World::new();
    world.write("tool", "#!/bin/sh\n");
    fs::set_permissions(world.path("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("/nowhere", world.path("dangling")).unwrap();
    failing(&world, "chmod -x tool; rm dangling; echo file >dangling");
    assert_eq!(fs::metadata(world.path("tool")).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::read_link(world.path("dangling")).unwrap().to_str(), Some("/nowhere"));
}

#[test]
fn refs_newer_than_the_start_are_restored_when_a_later_attempt_destroys_them() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    for told in [false, true] {
        let world = World::new();
        if told {
            world.git(&["config", "ralph.onStory", "grep -q checkpoint-landed && git tag told"]);
        }
        world.stories(2, "max-retries = 0");
        world.agent(&format!(
            "case $RALPH_STORY in
             1) git branch made; echo x >one; {COMPLETE};;
             2) git branch -q -D made; git tag -d told >/dev/null 2>&1; {FAILED};;
             esac"
        ));
        world.start(&[]).code(1);
        assert!(world.has_ref("refs/heads/made"), "by the agent before");
        assert_eq!(world.has_ref("refs/tags/told"), told, "by a command of the user's");
    }
}

#[test]
fn branches_tags_and_stash_entries_that_the_agent_destroys_come_back() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    for end in [COMPLETE, FAILED] {
        let world = World::new();
        for number in 1..=2 {
            world.write("README", &format!("stashed {number}\n"));
            world.git(&["stash", "-q"]);
        }
        world.git(&["branch", "feature"]);
        world.git(&["tag", "v1"]);
        world.git(&["tag", "-a", "-m", "annotated", "v2"]);
        world.write("second", "x\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "second"]);
        let before = (world.git(&["for-each-ref", "refs/heads", "refs/tags", "refs/stash"]), world.git(&["stash", "list"]));
        world.stories(1, "max-retries = 0");
        world.agent(&format!(
            "git stash clear; git branch -q -D feature; git tag -d v1 >/dev/null; git tag -f v2 HEAD >/dev/null 2>&1; git branch -q -f main main~1
             git reflog expire --expire=now --all; git gc -q --prune=now; {end}"
        ));
        let output = world.start(&[]);
        assert!(output.stderr.contains("the agent deleted refs/heads/feature; it is restored"), "{}", output.stderr);
        assert!(output.stderr.contains("the agent rewrote refs/heads/main; it is restored"), "{}", output.stderr);
        assert!(world.has_ref("refs/ralph/work/moved/1/1/heads/main"));
        world.ralph(&["abort"]).code(0);
        let after = (world.git(&["for-each-ref", "refs/heads", "refs/tags", "refs/stash"]), world.git(&["stash", "list"]));
        assert_eq!(after, before);
        assert_eq!(world.git(&["show", "stash@{1}:README"]), "stashed 1");
    }
}

#[test]
fn stash_entries_of_a_failed_agent_are_removed_and_saved() {
    let world = World::new();
    world.write("README", "users\n");
    world.git(&["stash", "-q"]);
    let before = world.git(&["stash", "list"]);
    failing(&world, "echo agents >README; git stash -q");
    assert_eq!(world.git(&["stash", "list"]), before);
    assert!(world.git(&["log", "-p", "-m", "--format=", "refs/ralph/work/attempts/1/1"]).contains("+agents"));
}

#[test]
fn a_branch_that_gains_commits_is_left_alone_and_reported() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    let world = World::new();
    failing(&world, "git checkout -q main; echo m >m; git add m; git commit -qm moved; git checkout -q ralph/work");
    assert_eq!(world.subjects("main"), ["moved", "first"]);
    assert!(world.ralph(&["status"]).code(0).stdout.contains("failed"));
    let noticed = world.events().into_iter().any(|event| event["notice"]["kind"] == "ref-moved-on");
    assert!(noticed);
}

#[test]
fn a_symbolic_ref_moves_with_its_target_and_is_restored_as_a_symbolic_ref() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    let world = World::new();
    world.git(&["symbolic-ref", "refs/heads/current", "refs/heads/ralph/work"]);
    world.git(&["symbolic-ref", "refs/tags/latest", "refs/heads/ralph/work"]);
    world.git(&["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    world.stories(3, "max-retries = 0");
    world.agent(&format!(
        "echo x >>x; test $RALPH_STORY = 3 || {{ {COMPLETE}; exit; }}
         git symbolic-ref -d refs/tags/latest; git update-ref --no-deref refs/heads/alias HEAD; {FAILED}"
    ));
    let output = world.start(&["--limit", "2"]).code(0);
    assert!(!output.stderr.contains("warning"), "{}", output.stderr);
    assert_eq!(world.git(&["rev-parse", "refs/tags/latest"]), world.git(&["rev-parse", "ralph/work"]));
    world.ralph(&["resume"]).code(1).says("the agent deleted refs/tags/latest; it is restored").says("the agent rewrote refs/heads/alias");
    for (name, target) in [("heads/current", "ralph/work"), ("tags/latest", "ralph/work"), ("heads/alias", "main")] {
        assert_eq!(world.git(&["symbolic-ref", &format!("refs/{name}")]), format!("refs/heads/{target}"), "{name}");
    }
    assert!(world.has_ref("refs/ralph/work/moved/3/1/heads/alias"));
}

#[test]
fn a_run_in_another_work_tree_is_not_the_agents_doing_and_no_news_here() {
    let world = World::new();
    let linked = world.outside("linked");
    world.git(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    let (bad, begun, done) = (world.outside("bad"), world.outside("begun"), world.outside("done"));
    let waits = |file: &Path| format!("while [ ! -e {} ]; do sleep 0.02; done", file.display());
    world.change("other", "max-retries = 1\n[[story]]\nid = \"1\"\ntitle = \"Other\"\n");
    let other = world.program(
        "other",
        &format!(
            "test $RALPH_ATTEMPT = 1 || {{ echo good >good; {COMPLETE}; exit; }}
             echo bad >bad; git add bad; git commit -qm bad; touch {}; {}; {FAILED}",
            bad.display(),
            waits(&begun)
        ),
    );
    let mut beside = World::empty();
    beside.repo = linked;
    let running = beside.spawn(&["start", "other", "--finish", "keep", "--", &other]);
    world.wait_for("the other agent", || bad.exists());
    world.stories(1, "");
    world.agent(&format!("touch {}; {}; echo x >x; {COMPLETE}", begun.display(), waits(&done)));
    let ours = world.spawn_start(&[]);
    running.finish().code(0);
    fs::write(&done, "").unwrap();
    let output = ours.finish().code(0);
    assert!(!output.stderr.contains("ralph/other"), "{}", output.stderr);
    assert_eq!(world.subjects("ralph/other"), ["checkpoint: 1", "initial state", "first"]);
    assert_eq!(beside.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_branch_rewritten_where_it_is_checked_out_is_left_alone_and_its_old_commit_is_saved() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    let world = World::new();
    let linked = world.outside("linked");
    world.git(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    let before = world.git(&["rev-parse", "side"]);
    world.git(&["branch", "other"]);
    let rewrites = "git commit -q --amend -m amended";
    failing(&world, &format!("(cd {}; {rewrites}); git worktree add -q ../agents other; (cd ../agents; {rewrites})", linked.display()));
    assert_eq!(world.subjects("side"), ["amended"]);
    assert_eq!(world.git(&["rev-parse", "refs/ralph/work/moved/1/1/heads/side"]), before);
    assert_eq!(world.subjects("other"), ["first"], "in a work tree of the agent's own");
}

#[test]
fn configuration_and_hooks_are_restored_after_a_failed_attempt_and_its_version_is_saved() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    let world = World::new();
    let before = world.read(".git/config");
    world.write(".git/info/exclude", "secret\n");
    world.write("secret", "mine\n");
    failing(
        &world,
        "git config core.hooksPath /tmp/x; git config user.name Agent; git config core.bare true; git config core.worktree /nowhere
         echo 'exit 1' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; : >.git/info/exclude; echo '*' >.gitignore; echo x >x",
    );
    assert_eq!(world.read(".git/config"), before);
    assert!(!world.exists(".git/hooks/pre-commit"));
    assert_eq!((world.read(".git/info/exclude"), world.read("secret")), ("secret\n".to_owned(), "mine\n".to_owned()));
    assert_eq!(fs::read_to_string(world.run_dir().join("moved/1-1/git-dir/hooks/pre-commit")).unwrap(), "exit 1\n");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    world.ralph(&["abort"]).code(0);
}

#[test]
fn rules_in_the_git_directory_that_a_landed_attempt_overwrites_are_restored_and_its_version_is_saved() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    let world = World::new();
    world.write(".git/info/exclude", "mine\n");
    world.stories(1, "");
    world.agent(&format!("echo other >.git/info/exclude; echo '* -text' >.git/info/attributes; echo x >other; {COMPLETE}"));
    let kept = world.run_dir().join("moved/1-1/git-dir/info");
    let restored = |name: &str| {
        format!(
            "the agent changed info/{name} in the git directory; it is restored, and the agent's version is in {}",
            kept.join(name).display()
        )
    };
    world.start(&[]).code(0).says(&restored("exclude")).says(&restored("attributes"));
    assert_eq!((world.read(".git/info/exclude"), world.exists(".git/info/attributes")), ("mine\n".to_owned(), false));
    assert_eq!(fs::read_to_string(kept.join("exclude")).unwrap(), "other\n");
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work", "other"]), "other", "what the agent excluded lands");
}

#[test]
fn grafts_shallow_entries_and_replace_refs_that_a_landed_attempt_plants_are_removed_and_reported() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    let world = World::new();
    world.write("README", "second\n");
    world.git(&["commit", "-qam", "second"]);
    let before = world.git(&["log", "--format=%H %s", "main"]);
    world.stories(1, "");
    world.agent(&format!(
        "echo work >work; tip=$(git rev-parse main); git rev-parse main >.git/shallow; echo $tip >.git/info/grafts
         git replace $tip $(git commit-tree -m fake $(git write-tree)); {COMPLETE}"
    ));
    let out = world.start(&[]).code(0).says("the agent changed shallow in the git directory").says("the agent changed info/grafts");
    let tip = world.git(&["rev-parse", "main"]);
    out.says(&format!("refs/replace/{tip} appeared during the attempt"));
    for file in [".git/shallow", ".git/info/grafts"] {
        assert!(!world.exists(file), "{file}");
    }
    assert!(world.has_ref(&format!("refs/ralph/work/moved/1/1/replace/{tip}")));
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 1", "initial state", "second", "first"]);
    world.ralph(&["abort"]).code(0);
    assert_eq!((world.git(&["log", "--format=%H %s", "main"]), world.git(&["replace", "--list"])), (before, String::new()));
}

#[test]
fn gates_see_the_history_without_what_an_attempt_planted_to_hide_it() {
    let planted = [
        "git replace $tip $fake",
        "git replace $tip $fake; git pack-refs --all",
        "echo $tip >.git/shallow",
        "echo $tip >.git/info/grafts",
        "git config alias.x '!false'; git replace $tip $fake",
    ];
    for planting in planted {
        let world = World::new();
        world.write("README", "second\n");
        world.git(&["commit", "-qam", "second"]);
        let gates = r#"verify = ['test "$(git log --format=%s main | tail -1)" = first', 'test -z "$(git replace --list)"']"#;
        world.stories(1, &format!("max-retries = 0\n{gates}"));
        world.agent(&format!(
            "echo work >work; tip=$(git rev-parse main); fake=$(git commit-tree -m fake $(git write-tree)); {planting}; {COMPLETE}"
        ));
        world.start(&["--finish", "keep"]).code(0);
        assert_eq!((world.git(&["replace", "--list"]).as_str(), world.count("gate-ended")), ("", 2), "{planting}");
    }
}

#[test]
fn a_file_of_the_git_directory_that_an_attempt_deletes_is_restored_and_no_version_of_the_attempt_is_promised() {
    if World::is_in_place_only("the git directory of a clone is not the user's") {
        return;
    }
    for verdict in [COMPLETE, "echo '<promise>FAILED: no</promise>'"] {
        let world = World::new();
        world.write(".git/info/exclude", "mine\n");
        world.stories(1, "max-retries = 0");
        world.agent(&format!("rm -f .git/info/exclude; echo x >work; {verdict}"));
        let out = world.start(&[]).says("the agent deleted or replaced info/exclude in the git directory");
        assert!(!out.stderr.contains("the agent's version"), "{}", out.stderr);
        assert_eq!(world.read(".git/info/exclude"), "mine\n");
    }
}

#[test]
fn entries_of_shallow_that_a_shallow_fetch_needs_stay_and_planted_ones_go() {
    if World::is_in_place_only("the git directory of a clone is not the user's") {
        return;
    }
    for verdict in [COMPLETE, "echo '<promise>FAILED: no</promise>'"] {
        let (world, other) = (World::new(), World::new());
        for text in ["two\n", "three\n"] {
            other.write("README", text);
            other.git(&["commit", "-qam", "more"]);
        }
        world.write("README", "second\n");
        world.git(&["commit", "-qam", "second"]);
        world.stories(1, "max-retries = 0");
        let url = format!("file://{}", other.repo.display());
        world.agent(&format!("git fetch -q --depth=1 {url} main:fetched; git rev-parse main >>.git/shallow; echo x >work; {verdict}"));
        world.start(&[]).says("the agent changed shallow in the git directory");
        let fetched = other.git(&["rev-parse", "main"]);
        assert_eq!(world.subjects("main"), ["second", "first"], "{verdict}");
        assert_eq!(world.git(&["cat-file", "-t", &fetched]), "commit");
        assert_eq!(world.read(".git/shallow"), format!("{fetched}\n"), "{verdict}");
        world.git(&["fsck", "--connectivity-only"]);
    }
}

#[test]
fn settings_of_another_work_tree_that_name_a_command_are_restored_whether_the_attempt_lands_or_fails() {
    if World::is_in_place_only("the git directory of a clone is not the user's") {
        return;
    }
    for verdict in [COMPLETE, "echo '<promise>FAILED: no</promise>'"] {
        let world = World::new();
        world.git(&["config", "extensions.worktreeConfig", "true"]);
        world.git(&["worktree", "add", "-q", "../other"]);
        world.git(&["-C", "../other", "config", "--worktree", "core.editor", "vi"]);
        world.stories(1, "max-retries = 0");
        let set = "git -C ../other config --worktree";
        world.agent(&format!("{set} core.editor evil; {set} core.hooksPath /evil; {set} alias.x '!evil'; echo x >work; {verdict}"));
        world.start(&[]).says("alias.x, core.editor, core.hookspath in worktrees/other/config.worktree");
        assert_eq!(world.git(&["-C", "../other", "config", "--worktree", "--list"]), "core.editor=vi", "{verdict}");
    }
}

#[test]
fn files_that_an_attempt_leaves_alone_keep_their_hard_links_times_and_everything_else() {
    let world = World::new();
    world.write("kept", "kept\n");
    world.write("changed", "before\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.write("untracked", "mine\n");
    let names = ["kept", "untracked", "README"];
    for name in names {
        fs::hard_link(world.path(name), world.outside(name)).unwrap();
    }
    world.let_files_age();
    let look = || {
        names.map(|name| {
            let meta = fs::metadata(world.path(name)).unwrap();
            (meta.ino(), meta.nlink(), meta.mtime(), meta.mtime_nsec())
        })
    };
    let before = look();
    world.stories(1, "max-retries = 0");
    world.agent("echo after >changed; echo '<promise>FAILED: no</promise>'");
    world.start(&[]).code(1);
    assert_eq!((look(), world.read("changed").as_str()), (before, "before\n"));
    world.ralph(&["abort"]).code(0);
    assert_eq!(look(), before);
}

#[test]
fn an_attempt_that_changes_the_patterns_of_a_users_sparse_checkout_does_not_land() {
    if World::is_in_place_only("the patterns of a clone are not the user's") {
        return;
    }
    let world = World::new();
    world.write("in/f", "in\n");
    world.write("also/f", "also\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.git(&["sparse-checkout", "set", "in", "also"]);
    world.stories(1, "max-retries = 0");
    world.agent(&format!("git sparse-checkout set in; echo work >in/work; {COMPLETE}"));
    world.start(&[]).code(1).says("the attempt changed sparse checkout");
    world.ralph(&["abort"]).code(0);
    assert_eq!(world.git(&["sparse-checkout", "list"]), "also\nin");
    assert_eq!((world.read("also/f"), world.git(&["status", "--porcelain"])), ("also\n".to_owned(), String::new()));
}

#[test]
fn settings_that_blind_git_are_put_back_even_when_the_attempt_lands() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    let world = World::new();
    world.stories(2, "max-retries = 0");
    world.agent(&format!(
        "echo $RALPH_STORY >s$RALPH_STORY
         test $RALPH_STORY = 1 && {{ git config test.note kept; git config core.worktree /nowhere; git config core.bare true; git config core.ignoreStat true; }}; {COMPLETE}"
    ));
    world.start(&["--finish", "cleanup"]).code(0).says("the agent changed config in the git directory");
    assert_eq!(world.git(&["status", "--porcelain"]), "?? s1\n?? s2");
    assert_eq!(world.git(&["config", "test.note"]), "kept", "other settings are the agent's business");
    assert_eq!(world.git(&["config", "core.bare"]), "false");
}

#[test]
fn settings_that_change_how_git_reads_the_work_tree_are_put_back_before_a_landing_and_an_abort() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    let world = World::new();
    symlink("README", world.path("link")).unwrap();
    symlink("README", world.path("mine")).unwrap();
    world.write("script", "true\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    let before = world.read(".git/config");
    world.stories(1, "");
    world.agent(&format!(
        "git config core.symlinks false; git config core.fileMode false; git config core.autocrlf input; git config core.ignoreCase true
         git config core.checkStat minimal; git config core.trustctime false; git config index.skipHash true
         rm link; printf README >link; chmod +x script; printf 'a\\r\\n' >crlf; {COMPLETE}"
    ));
    world
        .start(&[])
        .code(0)
        .says("core.autocrlf, core.checkstat, core.filemode, core.ignorecase, core.symlinks, core.trustctime, index.skiphash in config");
    assert_eq!(world.read(".git/config"), before);
    let modes = world.git(&["ls-tree", "--format=%(objectmode) %(path)", "ralph/work", "link", "mine", "script"]);
    assert_eq!(modes, "100644 link\n120000 mine\n100755 script");
    assert_eq!(world.git(&["cat-file", "-s", "ralph/work:crlf"]), "3");
    world.ralph(&["abort"]).code(0);
    assert!(world.path("link").is_symlink() && world.path("mine").is_symlink());
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_sparse_checkout_by_the_agent_hides_nothing() {
    for end in [COMPLETE, FAILED] {
        let world = World::new();
        world.write("d/f", "f\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "more"]);
        world.write("d/mine", "untracked\n");
        world.write("README", "edited\n");
        world.stories(1, "max-retries = 0");
        world.agent(&format!("git sparse-checkout set --no-cone /README; {end}"));
        world.start(&[]).code(1);
        world.ralph(&["abort"]).code(0);
        assert_eq!(world.git(&["status", "--porcelain"]), " M README\n?? d/mine");
        assert_eq!((world.read("d/f"), world.read("d/mine")), ("f\n".to_owned(), "untracked\n".to_owned()));
    }
}

#[test]
fn a_deleted_head_or_index_is_restored() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    for script in ["rm .git/HEAD", "echo garbage >.git/HEAD", "rm .git/index", "echo garbage >.git/index", "rm -rf .git/logs"] {
        for end in [COMPLETE, FAILED] {
            let world = World::new();
            world.write("mine", "mine\n");
            world.stories(1, "max-retries = 0");
            world.agent(&format!("echo x >x; {script}; {end}"));
            world.start(&[]).code(i32::from(end == FAILED));
            assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("ralph/work".to_owned(), String::new()), "{script}");
            world.ralph(&["abort"]).code(0);
            assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("main".to_owned(), "?? mine".to_owned()), "{script}");
        }
    }
}

#[test]
fn commits_that_only_the_log_of_head_knows_are_kept() {
    for end in [COMPLETE, FAILED] {
        let world = World::new();
        world.stories(1, "max-retries = 0");
        world.agent(&format!("git checkout -q --detach; echo w >w; git add w; git commit -qm detached; git checkout -q ralph/work; {end}"));
        world.start(&[]);
        assert!(reachable(&world, "detached"), "{end}");
    }
}

#[test]
fn an_autostash_of_a_rebase_left_under_way_is_kept() {
    let world = World::new();
    world.git(&["switch", "-q", "-c", "other"]);
    world.write("README", "other\n");
    world.git(&["commit", "-qam", "other"]);
    world.git(&["switch", "-q", "main"]);
    world.write("g", "g\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "g"]);
    failing(&world, "echo mine >README; git commit -qam mine; echo dirty >g; git rebase --autostash other >/dev/null 2>&1");
    let rescue = world.git(&["log", "-p", "-m", "--format=%s", "refs/ralph/work/attempts/1/1"]);
    assert!(rescue.contains("+dirty") && rescue.contains("mine"), "{rescue}");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn branches_above_or_below_ours_are_moved_out_of_the_way() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    let world = World::new();
    failing(
        &world,
        "git checkout -q --detach; git branch -q -D ralph/work; git branch ralph/work/below; git branch -q -m main trunk; git branch main trunk",
    );
    assert_eq!(world.branch(), "ralph/work");
    assert!(world.has_ref("refs/ralph/work/moved/1/1/heads/ralph/work/below"));
    world.ralph(&["abort"]).code(0);
    assert_eq!(world.branch(), "main");
}

#[test]
fn raw_bytes_modes_and_empty_directories_of_the_user_survive_attempts_and_abort() {
    if World::is_in_place_only("a clone has no bytes, modes or line ends of the user's to restore") {
        return;
    }
    for attributes in [true, false] {
        let world = World::new();
        if attributes {
            world.write(".gitattributes", "* text=auto\n");
        } else {
            world.git(&["config", "core.autocrlf", "input"]);
        }
        world.write("f", "1\n2\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "more"]);
        world.write("f", "1\r\nmine\r\n3\n");
        world.write("new", "a\r\nb\r\n");
        fs::set_permissions(world.path("new"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir_all(world.path("empty/inner")).unwrap();
        let held = |world: &World| {
            assert_eq!((world.read("f"), world.read("new")), ("1\r\nmine\r\n3\n".to_owned(), "a\r\nb\r\n".to_owned()));
            assert_eq!(fs::metadata(world.path("new")).unwrap().permissions().mode() & 0o777, 0o600);
            assert!(world.path("empty/inner").is_dir());
        };
        world.stories(2, "max-retries = 0");
        world.agent(&format!(
            "test $RALPH_STORY = 1 && {{ echo s >s; {COMPLETE}; exit; }}; echo x >>f; echo x >>new; chmod 644 new; echo y >empty/inner/y; rm -r empty; {FAILED}"
        ));
        world.start(&[]).code(1);
        held(&world);
        world.ralph(&["abort"]).code(0);
        held(&world);
        assert!(!world.exists("s"));
    }
}

#[test]
fn line_ends_of_committed_files_stay_as_they_are_whatever_a_checkout_would_write() {
    if World::is_in_place_only("a clone has no bytes, modes or line ends of the user's to restore") {
        return;
    }
    let cases: &[(&str, &str, &str, &str)] = &[
        ("core.autocrlf", "true", "", "1\n2\n"),
        ("core.autocrlf", "input", "", "1\r\n2\r\n"),
        ("core.autocrlf", "input", "", "1\r\n2\n"),
        ("core.autocrlf", "true", "", "1\r\n2\n"),
        ("core.eol", "crlf", "* text=auto\n", "1\n2\n"),
        ("core.eol", "lf", "f text eol=crlf\n", "1\n2\n"),
        ("core.eol", "lf", "f text=auto eol=lf\n", "1\r\n2\r\n"),
        ("core.eol", "lf", "f ident\n", "$Id$\n"),
        ("core.attributesFile", "ATTRIBUTES", "", "1\n2\n"),
    ];
    for (key, value, attributes, bytes) in cases {
        let world = World::new();
        let global = world.outside("attributes");
        fs::write(&global, "f text eol=crlf\n").unwrap();
        world.git(&["config", key, &value.replace("ATTRIBUTES", global.to_str().unwrap())]);
        if !attributes.is_empty() {
            world.write(".gitattributes", attributes);
        }
        world.write("f", bytes);
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "more"]);
        let case = format!("{key}={value} {attributes}{bytes:?}");
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{case}");
        world.stories(2, "max-retries = 0");
        world.agent(&format!(
            "test $RALPH_STORY = 1 && {{ printf '{}' >s; {COMPLETE}; exit; }}; echo x >>f; echo x >>s; {FAILED}",
            bytes.escape_default()
        ));
        world.start(&[]).code(1);
        assert_eq!((world.read("f").as_str(), world.read("s").as_str()), (*bytes, *bytes), "{case}");
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{case}");
        world.write("f", &format!("{bytes}mine\r\nand\n"));
        world.ralph(&["resume"]).code(1);
        assert_eq!(world.read("f"), format!("{bytes}mine\r\nand\n"), "{case}");
        world.ralph(&["abort"]).code(0);
        assert_eq!(world.read("f"), *bytes, "{case}");
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{case}");
    }
}

/// The bytes and permissions of files, and git's status of the work tree.
fn sight(world: &World, names: &[&str]) -> String {
    let file = |name: &&str| {
        let mode = fs::metadata(world.path(name)).unwrap().permissions().mode() & 0o777;
        format!("{name} {mode:o} {:?}\n", String::from_utf8_lossy(&fs::read(world.path(name)).unwrap()))
    };
    names.iter().map(file).collect::<String>() + &world.git(&["status", "--porcelain", "--", "."])
}

#[test]
fn rules_that_an_attempt_brings_change_no_bytes_that_it_leaves_behind() {
    for rule in ["* text eol=crlf", "* text=auto eol=crlf", "*.id ident"] {
        let world = World::new();
        world.write("lf", "a\nb\n");
        world.write("x.id", "$Id$\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "more"]);
        world.write("mine", "c\nd\n");
        let before = sight(&world, &["lf", "x.id", "mine"]);
        world.stories(1, "max-retries = 1");
        world.unhurried_agent(&format!(
            "test $RALPH_ATTEMPT = 2 && {{ {COMPLETE}; exit; }}; echo '{rule}' >.gitattributes; for f in lf mine; do sed -i 's/$/\\r/' $f; done; rm x.id; git checkout -q x.id; {FAILED}"
        ));
        world.start(&[]).code(0);
        assert_eq!(
            world.git(&["show", "--format=", "--name-only", "ralph/work"]),
            "",
            "{rule}: nothing of the first attempt is in the checkpoint"
        );
        world.let_files_age();
        world.ralph(&["abort"]).code(0);
        assert_eq!(sight(&world, &["lf", "x.id", "mine"]), before, "{rule}");
    }
}

#[test]
fn rules_that_a_story_lands_do_not_outlive_abort_or_undo() {
    if World::is_in_place_only("a clone has no bytes, modes or line ends of the user's to restore") {
        return;
    }
    for back in ["abort", "undo"] {
        let world = World::new();
        world.write("lf", "a\nb\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "more"]);
        let before = sight(&world, &["lf"]);
        world.stories(2, "max-retries = 0");
        world.unhurried_agent(&format!(
            "test $RALPH_STORY = 2 && {{ echo zz >lf; {FAILED}; exit; }}; echo '* text eol=crlf' >.gitattributes; sed -i 's/$/\\r/' lf; {COMPLETE}"
        ));
        world.start(&[]).code(1);
        assert_eq!(world.read("lf"), "a\r\nb\r\n", "as it was landed");
        world.let_files_age();
        world.ralph(&[back]).code(0);
        assert_eq!(sight(&world, &["lf"]), before, "{back}");
    }
}

#[test]
fn edits_between_stories_keep_their_bytes_under_rules_that_a_story_has_landed() {
    if World::is_in_place_only("edits in the checkout are no part of an isolated run") {
        return;
    }
    let world = World::new();
    world.write("notes", "a\nb\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.stories(2, "max-retries = 0");
    world
        .agent(&format!("test -e .gitattributes && {{ echo zz >notes; {FAILED}; exit; }}; echo '* text=auto' >.gitattributes; {COMPLETE}"));
    world.start(&["--limit", "1"]).code(0);
    world.write("notes", "mine\r\nmixed\nlines\r\n");
    world.ralph(&["resume"]).code(1);
    assert_eq!(world.read("notes"), "mine\r\nmixed\nlines\r\n");
}

#[test]
fn files_marked_as_text_that_do_not_look_like_text_are_restored_byte_for_byte() {
    for (rule, eol) in [("* text", "lf"), ("* text", "crlf"), ("* text eol=lf", "lf"), ("* text eol=crlf", "lf")] {
        let world = World::new();
        world.git(&["config", "core.eol", eol]);
        world.write(".gitattributes", &format!("{rule}\n"));
        world.write("bin", "a\r\n\0b\n");
        world.write("lone", "a\r\n\rb\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "more"]);
        let before = sight(&world, &["bin", "lone"]);
        world.stories(1, "max-retries = 0");
        world.agent(&format!("rm .gitattributes; echo zz >bin; echo zz >lone; git add -A; git commit -qm x; {FAILED}"));
        world.start(&[]).code(1);
        assert_eq!(sight(&world, &["bin", "lone"]), before, "{rule} {eol}");
        world.ralph(&["abort"]).code(0);
        assert_eq!(sight(&world, &["bin", "lone"]), before, "{rule} {eol}");
    }
}

#[test]
fn a_filter_that_cannot_be_run_does_not_stop_a_rollback_or_an_abort() {
    if World::is_in_place_only("no clone can be made with such a filter; isolated_surroundings.rs has the error") {
        return;
    }
    let world = World::new();
    world.git(&["config", "filter.up.clean", "cat"]);
    world.git(&["config", "filter.up.smudge", "false"]);
    world.git(&["config", "filter.up.required", "true"]);
    world.write(".gitattributes", "*.f filter=up\n");
    world.write("x.f", "one\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.write("z.f", "mine\n");
    let before = sight(&world, &["x.f", "z.f"]);
    world.stories(1, "max-retries = 0");
    world.agent(&format!("rm .gitattributes; echo zz >x.f; echo zz >z.f; {FAILED}"));
    world.start(&[]).code(1);
    assert_eq!((world.read("x.f").as_str(), world.read("z.f").as_str()), ("one\n", "mine\n"));
    world.ralph(&["abort"]).code(0);
    assert_eq!(sight(&world, &["x.f", "z.f"]), before);
}

#[test]
fn a_submodule_whose_git_file_an_agent_breaks_does_not_stop_a_rollback() {
    let other = World::new();
    let world = World::new();
    let source = other.repo.to_str().unwrap();
    world.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", source, "sm"]);
    world.git(&["commit", "-qm", "submodule"]);
    world.stories(1, "max-retries = 0");
    world.agent(&format!("rm -f sm/.git; mkdir sm/.git; echo x >x; {FAILED}"));
    world.start(&[]).code(1);
    assert!(!world.exists("x"));
    world.ralph(&["abort"]).code(0);
    assert_eq!((world.branch(), world.read("sm/README")), ("main".to_owned(), "hello\n".to_owned()));
}

#[test]
fn files_that_an_agent_creates_at_paths_excluded_by_sparse_checkout_are_removed_with_its_attempt() {
    for sparse_index in ["--no-sparse-index", "--sparse-index"] {
        let world = World::new();
        world.write("in/f", "a\n");
        world.write("out/f", "b\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "more"]);
        world.git(&["sparse-checkout", "set", sparse_index, "in"]);
        assert!(!world.exists("out"));
        world.stories(1, "max-retries = 0");
        world.agent(&format!("git sparse-checkout disable; echo zz >out/f; git add -A; git commit -qm x; {FAILED}"));
        world.start(&[]).code(1);
        assert!(!world.path("out/f").exists(), "{sparse_index}");
        assert_eq!(world.git(&["show", "refs/ralph/work/attempts/1/1^2:out/f"]), "zz", "what the agent committed is kept");
        world.ralph(&["abort"]).code(0);
        assert!(!world.exists("out/f"), "{sparse_index}");
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{sparse_index}");
        assert_eq!(world.git(&["config", "core.sparseCheckout"]), "true");
    }
}

/// A sparse checkout of one directory, with a file of the user's outside of it; if `back`, one of the excluded files exists again.
fn sparse(back: bool) -> World {
    let world = World::new();
    for name in ["in/i", "out/o", "out/p"] {
        world.write(name, "1\n");
    }
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.git(&["sparse-checkout", "set", "in"]);
    world.write("u/x", "precious\n");
    if back {
        world.write("out/o", "mine\n");
    }
    world
}

#[test]
fn the_users_files_at_paths_excluded_by_sparse_checkout_survive_attempts_and_abort() {
    for back in [false, true] {
        for deed in [
            "true",
            "rm -rf u out",
            "mkdir -p u out v; echo bad >u/x; echo bad >out/o; echo v >v/v",
            "mkdir -p u out; echo bad >u/x; echo bad >out/o; git add --sparse -A; git commit -qm x",
        ] {
            let world = sparse(back);
            let names: &[&str] = if back { &["in/i", "u/x", "out/o"] } else { &["in/i", "u/x"] };
            let look = || (sight(&world, names), world.git(&["ls-files", "-t"]), world.exists("out/p"), world.exists("v"));
            let before = look();
            world.stories(1, "max-retries = 0");
            world.agent(&format!("{deed}; exit 1"));
            world.start(&[]).code(1);
            assert_eq!(
                names.iter().map(|name| world.read(name)).collect::<String>(),
                if back { "1\nprecious\nmine\n" } else { "1\nprecious\n" }
            );
            world.ralph(&["abort"]).code(0);
            assert_eq!(look(), before, "{back} {deed}");
        }
    }
}

#[test]
fn edits_at_paths_excluded_by_sparse_checkout_are_adopted_by_resume_and_landed() {
    if World::is_in_place_only("edits in the checkout are no part of an isolated run") {
        return;
    }
    let world = sparse(false);
    world.stories(2, "max-retries = 0");
    world.agent(&format!("test $RALPH_STORY = 2 && {{ rm -rf u out w; exit 1; }}; mkdir v; echo v >v/v; {COMPLETE}"));
    world.start(&["--limit", "1"]).code(0);
    assert_eq!(world.git(&["show", "ralph/work:v/v"]), "v");
    world.write("w/x", "late\n");
    world.write("out/o", "late\n");
    world.ralph(&["resume"]).code(1);
    assert_eq!(["u/x", "v/v", "w/x", "out/o"].map(|name| world.read(name)).concat(), "precious\nv\nlate\nlate\n");
}

#[test]
fn a_cleanup_whose_original_has_moved_at_paths_excluded_by_sparse_checkout_is_a_clear_error() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    let world = sparse(false);
    world.stories(1, "");
    let moving = moving_main("out/o", "theirs\\n");
    world.agent(&format!("{moving}; {COMPLETE}"));
    world.start(&[]).code(0);
    world.write("out/o", "late\n");
    world.ralph(&["finish", "--cleanup"]).code(2).says("'main' has moved and conflicts with the result of the run in:").says("out/o");
    assert_eq!(world.read("out/o"), "late\n");
}

#[test]
fn private_directories_stay_private() {
    if World::is_in_place_only("a clone has no bytes, modes or line ends of the user's to restore") {
        return;
    }
    let world = World::new();
    world.write("vault/deep/key", "secret\n");
    fs::create_dir(world.path("empty")).unwrap();
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.write("own/untracked", "secret\n");
    let dirs = [("vault", 0o700), ("vault/deep", 0o750), ("empty", 0o700), ("own", 0o700)];
    for (name, mode) in dirs {
        fs::set_permissions(world.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    world.stories(1, "max-retries = 0");
    world.agent(&format!("rm -rf vault empty own; {FAILED}"));
    world.start(&[]).code(1);
    let modes = || dirs.map(|(name, _)| (name, fs::metadata(world.path(name)).unwrap().permissions().mode() & 0o777));
    assert_eq!(modes(), dirs, "rolled back");
    fs::remove_dir_all(world.path("vault")).unwrap();
    world.ralph(&["abort"]).code(0);
    assert_eq!(modes(), dirs, "aborted");
}

#[test]
fn private_files_stay_private() {
    if World::is_in_place_only("a clone has no bytes, modes or line ends of the user's to restore") {
        return;
    }
    let world = World::new();
    let chmod = |name: &str, mode: u32| fs::set_permissions(world.path(name), fs::Permissions::from_mode(mode)).unwrap();
    for name in ["key", "tool", "touched"] {
        world.write(name, "secret\n");
    }
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    chmod("key", 0o600);
    chmod("tool", 0o700);
    world.git(&["commit", "-qam", "executable"]);
    chmod("touched", 0o640);
    let before = sight(&world, &["key", "tool", "touched"]);
    world.stories(2, "max-retries = 0");
    world.agent(&format!(
        "test $RALPH_STORY = 1 && {{ echo s >s; {COMPLETE}; exit; }}; echo zz >key; rm tool; chmod 666 touched; rm -f new; {FAILED}"
    ));
    world.start(&["--limit", "1"]).code(0);
    world.write("new", "of the user\n");
    chmod("new", 0o600);
    world.ralph(&["resume"]).code(1);
    assert_eq!(sight(&world, &["key", "tool", "touched"]).replace("A  new", ""), before, "rolled back");
    assert_eq!(fs::metadata(world.path("new")).unwrap().permissions().mode() & 0o777, 0o600, "made between stories");
    world.ralph(&["abort"]).code(0);
    assert_eq!(sight(&world, &["key", "tool", "touched"]), before, "aborted");
}

#[test]
fn line_ends_that_an_agent_configures_for_everything_change_nothing_of_the_users() {
    let world = World::new();
    world.write("lf", "a\nb\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.write("mine", "c\nd\n");
    let before = sight(&world, &["lf", "mine"]);
    world.stories(1, "max-retries = 0");
    world.agent(&format!("git config --global core.autocrlf true; git config core.autocrlf true; echo zz >lf; echo zz >mine; {FAILED}"));
    world.start(&[]).code(1);
    assert_eq!((world.read("lf").as_str(), world.read("mine").as_str()), ("a\nb\n", "c\nd\n"));
    world.ralph(&["abort"]).code(0);
    assert_eq!(sight(&world, &["lf", "mine"]), before);
}

#[test]
fn small_ignored_files_that_the_agent_deletes_are_restored() {
    if World::is_in_place_only("a private clone has none of the user's ignored files") {
        return;
    }
    for end in [COMPLETE, FAILED] {
        let world = World::new();
        world.write(".gitignore", ".env\nsub/.env\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "ignore"]);
        world.write(".env", "SECRET\n");
        fs::set_permissions(world.path(".env"), fs::Permissions::from_mode(0o600)).unwrap();
        world.stories(1, "max-retries = 0");
        world.agent(&format!("rm .env; {end}"));
        let output = world.start(&[]);
        assert!(output.stderr.contains("the agent deleted the ignored file .env; it is restored"), "{}", output.stderr);
        assert_eq!(world.read(".env"), "SECRET\n");
        assert_eq!(fs::metadata(world.path(".env")).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn an_agent_that_deletes_our_state_stops_nothing() {
    if World::is_in_place_only("the agent has a git directory of its own") {
        return;
    }
    for end in [COMPLETE, FAILED] {
        let world = World::new();
        world.write("mine", "mine\n");
        world.git(&["add", "mine"]);
        world.stories(2, "max-retries = 0");
        world.agent(&format!("echo x >x$RALPH_STORY; test $RALPH_STORY = 1 && rm -rf .git/ralph; {end}"));
        world.start(&[]).code(i32::from(end == FAILED)).says("the agent deleted or changed files of the run");
        assert!(world.exists(".git/ralph/work.toml") && world.exists(".git/ralph/locks/main"));
        world.ralph(&["status"]).code(0);
        world.ralph(&["abort"]).code(0);
        assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("main".to_owned(), "A  mine".to_owned()));
        assert!(!world.exists(".git/ralph-spare"));
    }
}

#[test]
fn a_run_whose_state_was_deleted_before_a_kill_can_be_resumed() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!(
        "echo x >x$RALPH_STORY; test $RALPH_STORY.$RALPH_ATTEMPT = 2.1 && {{ rm -rf .git/ralph; kill -9 $PPID; sleep 600; }}; {COMPLETE}"
    ));
    world.start(&[]).code(-9);
    world.ralph(&["resume"]).code(0);
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 2", "checkpoint: 1", "initial state", "first"]);
}

#[test]
fn fifos_and_sockets_stop_nothing() {
    for script in [
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => q(s), Listen => 1) or die'; rm README; mv s README",
        "mkdir ff; mkfifo ff/.gitignore",
        "rm README; mkfifo README",
        "mkfifo plain",
        "mkfifo .gitattributes; rm README; mkfifo README",
    ] {
        let world = World::new();
        failing(&world, &format!("{script}; echo x >x"));
        assert_eq!((world.read("README"), world.exists("x")), ("hello\n".to_owned(), false), "{script}");
        assert_eq!(world.git(&["show", "refs/ralph/work/attempts/1/1:x"]), "x", "{script}");
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{script}");
    }
}

#[test]
fn submodules_come_back_with_their_dirty_files() {
    if World::is_in_place_only("isolated_surroundings.rs has the submodules of a clone") {
        return;
    }
    let library = World::new();
    for script in [
        "cd sub; echo agent >README; git -c user.name=a -c user.email=a@b commit -qam agent; echo more >README; echo new >new; cd ..",
        "rm -rf sub",
        "rm sub/mine; echo agent >sub/README",
    ] {
        let world = World::new();
        world.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", library.repo.to_str().unwrap(), "sub"]);
        world.git(&["commit", "-qm", "sub"]);
        world.write("sub/README", "edited\n");
        world.write("sub/mine", "untracked\n");
        world.write("sub/staged", "staged\n");
        world.git(&["-C", "sub", "add", "staged"]);
        let state = |world: &World| {
            (world.git(&["-C", "sub", "status", "--porcelain=v2", "--branch"]), world.read("sub/README"), world.read("sub/mine"))
        };
        let before = (state(&world), world.git(&["status", "--porcelain"]));
        world.stories(2, "max-retries = 0");
        world.agent(&format!("test $RALPH_STORY = 1 && {{ echo s >s; {COMPLETE}; exit; }}; {script}; {FAILED}"));
        world.start(&[]).code(1).says("the submodule sub is restored");
        assert_eq!(state(&world), before.0, "{script}");
        assert!(!world.git(&["-C", "sub", "for-each-ref", "refs/ralph/work/attempts"]).is_empty(), "{script}");
        world.ralph(&["abort"]).code(0);
        assert_eq!((state(&world), world.git(&["status", "--porcelain"])), before, "{script}");
    }
}

#[test]
fn a_name_that_changes_its_case_is_not_lost() {
    let world = World::new();
    world.write("name", "x\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "name"]);
    world.git(&["config", "core.ignoreCase", "true"]);
    world.stories(2, "max-retries = 0");
    world.agent(&format!("test $RALPH_STORY = 1 && {{ mv name NAME; {COMPLETE}; exit; }}; mv NAME Name; {FAILED}"));
    world.start(&[]).code(1);
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "NAME\nREADME");
    assert_eq!((world.read("NAME"), world.exists("Name")), ("x\n".to_owned(), false));
}

#[test]
fn a_submodule_that_a_failed_attempt_adds_goes_with_it() {
    let library = World::new();
    let world = World::new();
    failing(&world, &format!("git -c protocol.file.allow=always submodule add -q {} sub; echo mine >sub/mine", library.repo.display()));
    assert_eq!((world.git(&["status", "--porcelain"]), world.exists("sub")), (String::new(), false));
    let moved = if World::is_isolated() { "workspaces/1/moved/1-1/sub/mine" } else { "moved/1-1/sub/mine" };
    assert_eq!(fs::read_to_string(world.run_dir().join(moved)).unwrap(), "mine\n");
}

#[test]
fn a_big_file_survives_rollback_and_landing_and_never_is_in_our_memory() {
    let world = World::new();
    world.stories(1, "max-retries = 1");
    let size = 64 * 1024 * 1024;
    world.agent(&format!(
        "head -c {size} /dev/urandom | tee {}.$RALPH_ATTEMPT >big; test $RALPH_ATTEMPT = 2 && {{ {COMPLETE}; exit; }}; {FAILED}",
        world.outside("copy").display()
    ));
    let (output, peak) = world.spawn_start(&["-q"]).finish_and_measure();
    output.code(0);
    assert!(peak < 32 * 1024, "peak memory {peak} kB");
    for (attempt, rev) in [(1, "refs/ralph/work/attempts/1/1"), (2, "ralph/work")] {
        let copy = world.outside(&format!("copy.{attempt}"));
        assert_eq!(fs::metadata(&copy).unwrap().len(), size);
        let bytes = world.git(&["hash-object", "--no-filters", copy.to_str().unwrap()]);
        assert_eq!(world.git(&["rev-parse", &format!("{rev}:big")]), bytes, "{rev}");
    }
    if World::is_isolated() {
        world.ralph(&["finish", "--cleanup"]).code(0);
    }
    let kept = world.git(&["hash-object", "--no-filters", "big"]);
    let landed = if World::is_isolated() { "refs/ralph/work/done:big" } else { "HEAD:big" };
    assert_eq!(world.git(&["rev-parse", landed]), kept);
}

#[test]
fn hooks_that_are_links_stay_links_and_are_no_change() {
    for whole in [false, true] {
        let world = World::new();
        world.write("scripts/pre-push", "#!/bin/sh\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "hook"]);
        let link = world.path(if whole { ".git/hooks" } else { ".git/hooks/pre-push" });
        if whole {
            fs::remove_dir_all(&link).unwrap();
        }
        symlink(if whole { "../scripts" } else { "../../scripts/pre-push" }, &link).unwrap();
        world.stories(1, "max-retries = 2");
        world.agent(&format!("case $RALPH_ATTEMPT in 3) {COMPLETE};; 2) echo evil >scripts/pre-push; {FAILED};; *) {FAILED};; esac"));
        let output = world.start(&[]).code(0);
        assert!(!output.stderr.contains("hooks"), "{}", output.stderr);
        assert!(link.is_symlink(), "{whole}");
        assert_eq!(world.read("scripts/pre-push"), "#!/bin/sh\n");
    }
}

#[test]
fn files_hidden_by_the_ignore_rules_of_a_failed_attempt_are_in_no_checkpoint() {
    for before in [None, Some("*.log\n")] {
        let world = World::new();
        if let Some(rules) = before {
            world.write(".gitignore", rules);
        }
        world.stories(1, "");
        world.agent(&format!(
            "test $RALPH_ATTEMPT = 1 && {{ echo junk >>.gitignore; echo x >junk; mkdir sub; echo x >sub/junk; {FAILED}; exit; }}
             echo good >good; {COMPLETE}"
        ));
        world.start(&[]).code(0).says("junk is ignored by rules that the attempt added; moved to");
        let landed = world.git(&["ls-tree", "-r", "--name-only", "ralph/work"]);
        assert_eq!(landed.trim_start_matches(".gitignore\n"), "README\ngood");
        assert!(!world.exists("junk") && !world.exists("sub/junk"));
        let moved = world.run_dir().join(if World::is_isolated() { "workspaces/1/moved/hidden" } else { "moved/1-1" });
        assert_eq!(["junk", "sub/junk"].map(|name| fs::read_to_string(moved.join(name)).unwrap()), ["x\n", "x\n"]);
    }
}
