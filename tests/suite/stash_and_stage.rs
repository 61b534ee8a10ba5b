//! Tests that stash entries and staged content survive, although no file of the work tree holds them.

use std::fs;

use crate::support::{COMPLETE, World, which};

const FAILED: &str = "echo '<promise>FAILED: no</promise>'";

/// A world with two stash entries of the user.
fn with_stash() -> World {
    let world = World::new();
    for number in [1, 2] {
        world.write("README", &format!("stashed {number}\n"));
        world.git(&["stash", "-q"]);
    }
    world
}

fn reachable(world: &World, text: &str) -> bool {
    world.git(&["log", "--all", "-p", "-m", "--format="]).lines().any(|line| line == format!("+{text}"))
}

/// Kills git-ralph right after the git call that matches the pattern for the given time.
fn kill_after(world: &World, pattern: &str, time: usize) {
    let count = world.outside("count");
    fs::write(&count, "").unwrap();
    world.fake_git(&format!(
        "case \"$*\" in *{pattern}*) echo >>{0}; test $(wc -l <{0}) = {time} && {{ $REAL_GIT \"$@\"; kill -9 $PPID; exit; }};; esac",
        count.display()
    ));
}

#[test]
fn a_kill_while_the_stash_is_rebuilt_loses_no_entry() {
    for (script, end) in [("echo agents >README; git stash -q; git stash drop -q stash@{1}", FAILED), ("git stash drop -q", COMPLETE)] {
        for (pattern, time) in [("'update-ref -d refs/stash'", 1), ("'stash store'", 1), ("'stash store'", 2)] {
            let world = with_stash();
            let before = world.git(&["stash", "list"]);
            world.stories(1, "max-retries = 0");
            world.agent(
                &format!("test -e ../again || {{ touch ../again; {script}; }} >/dev/null 2>&1; {end}")
                    .replace("git stash", &format!("{} stash", which("git"))),
            );
            kill_after(&world, pattern, time);
            world.start(&[]).code(-9);
            assert!(end == COMPLETE || reachable(&world, "agents"), "{pattern} {time}: the agent's own entry");
            world.git(&["reflog", "expire", "--expire=now", "--all", "--expire-unreachable=now"]);
            world.git(&["gc", "-q", "--prune=now"]);
            world.ralph(&["resume"]);
            assert_eq!(world.git(&["stash", "list"]), before, "{pattern} {time}");
            assert_eq!(world.git(&["show", "stash@{1}:README"]), "stashed 1", "{pattern} {time}");
            assert!(end == COMPLETE || reachable(&world, "agents"), "{pattern} {time}: the agent's own entry");
        }
    }
}

#[test]
fn a_stash_whose_log_has_expired_keeps_its_tip() {
    for script in ["echo agents >README; git stash -q", "git stash clear", "git update-ref -d refs/stash"] {
        let world = with_stash();
        let tip = world.git(&["rev-parse", "refs/stash"]);
        world.git(&["reflog", "expire", "--expire=now", "refs/stash"]);
        assert_eq!(world.git(&["stash", "list"]), "");
        world.stories(1, "max-retries = 0");
        world.agent(&format!("{script}; {FAILED}"));
        world.start(&[]).code(1);
        assert_eq!(world.git(&["rev-parse", "refs/stash"]), tip, "{script}");
        assert_eq!(world.git(&["show", "refs/stash:README"]), "stashed 2", "{script}");
    }
}

#[test]
fn a_stash_entry_that_the_user_makes_between_a_crash_and_the_resume_stays_in_the_stash() {
    let world = with_stash();
    world.stories(1, "max-retries = 0");
    world.agent(&format!("test -e ../again && {{ {FAILED}; exit; }}; touch ../again; echo agents >README; kill -9 $PPID"));
    world.start(&[]).code(-9);
    world.write("README", "mine\n");
    world.git(&["stash", "-q"]);
    let before = world.git(&["stash", "list"]);
    world.ralph(&["resume"]).code(1).says("left in the stash: 1 entry that you or the interrupted agent stashed");
    assert_eq!(world.git(&["stash", "list"]), before);
    assert_eq!(world.git(&["show", "stash@{0}:README"]), "mine");
}

#[test]
fn content_staged_before_a_resume_stays_reachable_whatever_the_outcome_of_the_attempt() {
    for end in [COMPLETE, FAILED] {
        let world = World::new();
        world.stories(2, "max-retries = 0");
        world.agent(&format!("test $RALPH_STORY = 1 && {COMPLETE} || {{ echo x >x; {end}; }}"));
        world.start(&["--limit", "1"]).code(0);
        world.write("f", "only staged\n");
        world.git(&["add", "f"]);
        fs::remove_file(world.path("f")).unwrap();
        world.ralph(&["resume"]).says("your staged changes differ from the work tree; they are saved as refs/ralph/work/adopted/");
        assert!(reachable(&world, "only staged"));
        assert!(!world.exists("f"));
        world.ralph(&["abort"]).code(0);
        assert!(reachable(&world, "only staged"));
    }
}

#[test]
fn content_staged_during_a_landed_attempt_is_saved_and_reported() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("echo 'only staged' >f; git add f; rm f; {COMPLETE}"));
    world.start(&[]).code(0).says("staged changes that are not in the checkpoint are saved as refs/ralph/work/abandoned/1/1");
    assert!(reachable(&world, "only staged"));
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn an_earlier_version_that_was_staged_is_saved_silently_and_one_that_was_committed_is_not_staged_content() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!(
        "if test $RALPH_STORY = 1; then echo earlier >f; git add f; echo later >f; else echo c >c; git add c; git commit -qm c; echo d >d; fi; {COMPLETE}"
    ));
    let output = world.start(&[]).code(0);
    assert!(!output.stderr.contains("saved as"), "{}", output.stderr);
    assert!(reachable(&world, "earlier"));
    assert!(!world.has_ref("refs/ralph/work/abandoned/2/1"));
}

#[test]
fn content_that_the_user_stages_after_an_interrupted_landing_is_kept() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("echo x >x; {COMPLETE}"));
    kill_after(&world, "'commit: checkpoint'", 1);
    world.start(&[]).code(-9);
    assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1", "it has landed, and the journal does not know it");
    world.write("f", "only staged\n");
    world.git(&["add", "f"]);
    fs::remove_file(world.path("f")).unwrap();
    world.ralph(&["resume"]).code(0);
    assert!(reachable(&world, "only staged"));
}

#[test]
fn content_staged_beside_a_conflict_stays_reachable() {
    for (end, code) in [(FAILED, 1), (COMPLETE, 0)] {
        let world = World::new();
        world.git(&["checkout", "-q", "-b", "side"]);
        world.write("README", "side\n");
        world.git(&["commit", "-qam", "side"]);
        world.git(&["checkout", "-q", "main"]);
        world.write("README", "main\n");
        world.git(&["commit", "-qam", "main"]);
        world.stories(1, "max-retries = 0");
        world.agent(&format!("git merge -q side; echo staged >f; git add f; echo later >f; test -e .git/MERGE_HEAD || exit 3; {end}"));
        world.start(&[]).code(code);
        world.ralph(&["abort"]).code(0);
        world.git(&["reflog", "expire", "--expire=now", "--all"]);
        world.git(&["gc", "-q", "--prune=now"]);
        let blob = world.git(&["rev-list", "--objects", "--all"]);
        let staged =
            blob.lines().filter_map(|line| line.strip_suffix(" f")).map(|oid| world.git(&["cat-file", "-p", oid])).collect::<Vec<_>>();
        assert!(staged.iter().any(|text| text == "staged"), "{staged:?}");
    }
}
