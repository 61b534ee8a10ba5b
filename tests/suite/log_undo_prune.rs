//! Looking back, taking back and throwing away: `log`, `undo`, `prune`.

use std::fs;

use crate::support::{COMPLETE, World};

/// When a process is killed.
#[derive(Clone, Copy, Debug)]
enum When {
    Before,
    After,
}

/// Runs a command whose process is killed before or after git is called with the given words.
fn killed(world: &World, when: When, words: &str, args: &[&str]) {
    let call = match when {
        When::Before => "",
        When::After => "$REAL_GIT \"$@\";",
    };
    world.fake_git(&format!("case \"$*\" in *'{words}'*) {call} kill -9 $PPID; exit 1;; esac"));
    world.ralph(args).code(-9);
    fs::remove_file(world.outside("bin/git")).unwrap();
}

/// A run with the given number of checkpoints: story `n` writes `s<n>` and appends to `order`.
fn landed(stories: usize) -> World {
    let world = World::new();
    world.stories(stories, "");
    world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; echo $RALPH_STORY >>order; {COMPLETE}"));
    world.start(&[]).code(0);
    world
}

fn status(world: &World) -> String {
    world.git(&["status", "--porcelain"])
}

fn id(world: &World, rev: &str) -> String {
    world.git(&["rev-parse", rev])
}

#[test]
fn undo_takes_the_last_checkpoint_back_and_keeps_what_it_held() {
    let world = landed(3);
    let (tip, before) = (id(&world, "HEAD"), id(&world, "HEAD~1"));
    world.ralph(&["undo"]).code(0).says("undone: 3; ralph/work is back at checkpoint").says("refs/ralph/work/undone/1");
    assert_eq!(world.subjects("HEAD"), ["checkpoint: 2", "checkpoint: 1", "initial state", "first"]);
    assert_eq!((world.branch(), status(&world)), ("ralph/work".to_owned(), String::new()));
    assert!(!world.exists("s3") && world.exists("s2"));
    assert_eq!(world.read("order"), "1\n2\n");
    assert_eq!((id(&world, "refs/ralph/work/undone/1"), id(&world, "refs/ralph/work/checkpoint")), (tip.clone(), before));
    world.ralph(&["status"]).code(0).says("2 of 3 stories done").says("next: git ralph resume work");
    world.git(&["branch", "back", "refs/ralph/work/undone/1"]);
    assert_eq!(id(&world, "back"), tip);
}

#[test]
fn undo_of_the_first_checkpoint_goes_to_the_initial_state() {
    let world = World::new();
    world.write("mine", "uncommitted\n");
    world.stories(1, "");
    world.agent(&format!("rm mine README; echo x >x; {COMPLETE}"));
    world.start(&[]).code(0);
    world.ralph(&["undo"]).code(0).says("back at the initial state");
    assert_eq!((world.subjects("HEAD"), status(&world)), (vec!["initial state".to_owned(), "first".to_owned()], String::new()));
    assert_eq!((world.read("mine"), world.read("README")), ("uncommitted\n".to_owned(), "hello\n".to_owned()));
    world.ralph(&["undo"]).code(2).says("has no checkpoint to undo");
    world.ralph(&["abort"]).code(0);
    assert_eq!((world.branch(), status(&world)), ("main".to_owned(), "?? mine".to_owned()));
}

#[test]
fn undo_to_a_story_makes_its_checkpoint_the_tip() {
    let world = landed(4);
    let (tip, target) = (id(&world, "HEAD"), id(&world, "HEAD~2"));
    world.ralph(&["undo", "work", "--to", "2"]).code(0).says("undone: 3, 4;");
    assert_eq!((id(&world, "HEAD"), status(&world)), (target, String::new()));
    assert_eq!(id(&world, "refs/ralph/work/undone/1"), tip);
    assert_eq!(world.read("order"), "1\n2\n");
}

#[test]
fn undo_with_nothing_to_undo_or_a_story_that_is_not_there_changes_nothing() {
    let world = World::new();
    world.change("work", "[[story]]\nid = \"first\"\n[[story]]\nid = \"second\"\n");
    world.agent(COMPLETE);
    world.ralph(&["undo"]).code(2).says("there is no open run");
    world.start(&["--limit", "1"]).code(0);
    let before = (world.git(&["for-each-ref"]), world.events().len());
    world.ralph(&["undo", "--to", "frist"]).code(128).says("'work' has no story 'frist'; did you mean 'first'?");
    world.ralph(&["undo", "--to", "second"]).code(2).says("'second' has no checkpoint to go back to");
    world.ralph(&["undo", "--to", "first"]).code(2).says("is the last one");
    assert_eq!((world.git(&["for-each-ref"]), world.events().len()), before);
}

#[test]
fn undone_stories_are_run_again_and_told_nothing_of_before() {
    let world = World::new();
    world.stories(2, "max-retries = 0");
    world.agent(&format!("echo $RALPH_STORY >>order; echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
    world.start(&[]).code(0);
    world.ralph(&["undo"]).code(0);
    world.agent("echo '<promise>FAILED: not now</promise>'");
    world.ralph(&["resume"]).code(1).says("2 failed after").says("refs/ralph/work/attempts/2/2");
    assert!(!world.prompt("2", 2).contains("attempt 1"), "{}", world.prompt("2", 2));
    world.ralph(&["undo", "--to", "1"]).code(2);
    world.agent(&format!("echo again >>order; echo again >s$RALPH_STORY; {COMPLETE}"));
    world.ralph(&["resume", "--max-retries", "1"]).code(0);
    assert_eq!(world.subjects("HEAD"), ["checkpoint: 2", "checkpoint: 1", "initial state", "first"]);
    assert_eq!((world.read("order"), world.read("s2")), ("1\nagain\n".to_owned(), "again\n".to_owned()));
    assert_eq!(world.git(&["show", "refs/ralph/work/undone/1:s2"]), "2");
    world.ralph(&["undo"]).code(0).says("refs/ralph/work/undone/2");
    assert_eq!(world.git(&["show", "refs/ralph/work/undone/2:s2"]), "again");
}

#[test]
fn edits_at_the_time_of_an_undo_are_kept_with_it_and_said() {
    let world = landed(2);
    world.write("README", "staged only\n");
    world.git(&["add", "README"]);
    world.write("README", "edited\n");
    world.write("new/file", "untracked\n");
    fs::remove_file(world.path("s1")).unwrap();
    world.ralph(&["undo"]).code(0).says("your edits (3 files) are not in the work tree now, they are kept as refs/ralph/work/undone/1");
    assert_eq!(status(&world), "");
    assert_eq!((world.read("README"), world.read("s1")), ("hello\n".to_owned(), "1\n".to_owned()));
    assert!(!world.exists("new"));
    let kept = "refs/ralph/work/undone/1";
    assert_eq!(world.git(&["show", &format!("{kept}:README")]), "edited");
    assert_eq!(world.git(&["show", &format!("{kept}:new/file")]), "untracked");
    assert_eq!(world.git(&["ls-tree", "--name-only", kept]), "README\nnew\norder\ns2");
    assert_eq!(world.subjects(&format!("{kept}^1"))[0], "checkpoint: 2");
    assert!(world.git(&["log", "--all", "-p", "-m", "--format="]).contains("+staged only"));
}

#[test]
fn ignored_files_and_what_was_there_at_the_start_survive_an_undo() {
    let world = World::new();
    world.write(".gitignore", "*.log\n");
    world.write("my.log", "mine\n");
    world.write("untracked", "mine\n");
    world.stories(2, "");
    world.agent(&format!("rm -f untracked; echo x >x$RALPH_STORY; echo '*.tmp' >>.gitignore; echo t >t$RALPH_STORY.tmp; {COMPLETE}"));
    world.start(&[]).code(0);
    world.ralph(&["undo"]).code(0);
    world.ralph(&["undo"]).code(0);
    assert_eq!((world.read("my.log"), world.read("untracked")), ("mine\n".to_owned(), "mine\n".to_owned()));
    assert!(!world.exists("x1") && !world.exists("x2"));
    world.ralph(&["abort"]).code(0);
    assert_eq!(world.read("untracked"), "mine\n");
}

#[test]
fn commits_of_the_users_that_go_with_an_undo_are_named_and_kept() {
    let world = landed(2);
    world.write("by-hand", "x\n");
    world.git(&["add", "by-hand"]);
    world.git(&["commit", "-qm", "by hand"]);
    world.ralph(&["undo"]).code(0).says("your commits up to").says("are kept as refs/ralph/work/undone/1");
    assert_eq!(world.subjects("HEAD"), ["checkpoint: 1", "initial state", "first"]);
    assert_eq!(world.subjects("refs/ralph/work/undone/1")[0], "by hand");
}

#[test]
fn undo_says_where_a_checkpoint_is_besides() {
    let world = landed(2);
    world.git(&["branch", "copy"]);
    world.git(&["update-ref", "refs/remotes/origin/x", "HEAD"]);
    world.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/x"]);
    world.ralph(&["undo", "-q"]).code(0).says("warning: already in copy, origin/x: undo does not take it back there");
    assert_eq!(world.subjects("copy")[0], "checkpoint: 2");
    assert!(!world.ralph(&["undo"]).code(0).stderr.contains("origin/HEAD"));
}

#[test]
fn undo_is_refused_where_the_run_is_not_at_its_checkpoint() {
    let world = landed(2);
    world.git(&["switch", "-q", "main"]);
    world.ralph(&["undo"]).code(2).says("HEAD is on main, not on ralph/work").says("git switch ralph/work");
    world.git(&["switch", "-q", "ralph/work"]);
    let tip = id(&world, "HEAD");
    world.git(&["reset", "-q", "--hard", "HEAD~1"]);
    world.ralph(&["undo"]).code(2).says("does not contain the last checkpoint");
    world.git(&["reset", "-q", "--hard", &tip]);
    fs::write(world.path(".git/MERGE_HEAD"), format!("{tip}\n")).unwrap();
    world.ralph(&["undo"]).code(2).says("a merge is under way");
    fs::remove_file(world.path(".git/MERGE_HEAD")).unwrap();
    assert_eq!(id(&world, "HEAD"), tip);
    world.ralph(&["undo"]).code(0).says("undone: 2;");
    world.ralph(&["finish", "--keep"]).code(0);
    world.ralph(&["undo"]).code(2).says("there is no open run");
}

#[test]
fn undo_is_refused_while_a_loop_is_at_work_or_an_attempt_is_half_done() {
    let world = World::new();
    world.stories(2, "");
    let slept = world.outside("slept");
    world.agent(&format!("test $RALPH_STORY = 2 && {{ touch {}; sleep 600; }}; {COMPLETE}", slept.display()));
    let running = world.spawn_start(&[]);
    world.wait_for("the second story", || slept.exists());
    world.ralph(&["undo"]).code(2).says("is at work in this work tree");
    running.signal("KILL");
    running.finish().code(-9);
    world.ralph(&["undo"]).code(2).says("an attempt of the run of 'work' was cut short").says("git ralph resume work");
}

/// Where an undo is killed: before anything, after the refs, half-way, and with all but the last event done.
const DEATHS: [(When, &str); 4] = [
    (When::Before, "update-ref -m reset: undo"),
    (When::After, "update-ref -m reset: undo"),
    (When::Before, "read-tree -m -u"),
    (When::After, "read-tree -m -u"),
];

#[test]
fn an_undo_that_was_killed_anywhere_is_completed_by_what_comes_next() {
    for (when, words) in DEATHS {
        for next in [&["undo"][..], &["undo", "--to", "1"], &["resume"], &["finish", "--keep"], &["abort"]] {
            let world = landed(3);
            let (tip, target) = (id(&world, "HEAD"), id(&world, "HEAD~2"));
            world.write("dirty", "edit\n");
            killed(&world, when, words, &["undo", "--to", "1"]);
            assert_eq!((world.count("undo-started"), world.count("undone")), (1, 0), "{when:?} {words}");
            world.ralph(next).code(0).says("undone: 2, 3;");
            let case = format!("{when:?} {words} {next:?}");
            assert_eq!((world.count("undo-started"), world.count("undone")), (1, 1), "{case}");
            assert_eq!(id(&world, "refs/ralph/work/undone/1^1"), tip, "{case}");
            assert_eq!(world.git(&["show", "refs/ralph/work/undone/1:dirty"]), "edit", "{case}");
            assert!(!world.has_ref("refs/ralph/work/undone/2"), "{case}");
            assert_eq!(status(&world), "", "{case}");
            match next[0] {
                "resume" => assert_eq!((world.subjects("HEAD").len(), world.read("order")), (5, "1\n2\n3\n".to_owned()), "{case}"),
                "abort" => assert_eq!((world.branch(), world.exists("order")), ("main".to_owned(), false), "{case}"),
                _ => assert_eq!((id(&world, "HEAD"), world.read("order")), (target, "1\n".to_owned()), "{case}"),
            }
        }
    }
}

#[test]
fn edits_and_commits_after_an_undo_was_killed_are_not_lost_by_completing_it() {
    for (when, words) in DEATHS {
        let world = landed(2);
        killed(&world, when, words, &["undo"]);
        world.write("README", "committed\n");
        world.git(&["add", "README"]);
        world.git(&["commit", "-qm", "in between"]);
        world.write("README", "edited\n");
        world.ralph(&["undo"]).code(0).says("your edits (").says("undone: 2;");
        assert_eq!(world.subjects("HEAD"), ["checkpoint: 1", "initial state", "first"], "{when:?} {words}");
        assert_eq!((status(&world), world.read("README")), (String::new(), "hello\n".to_owned()), "{when:?} {words}");
        let kept = world.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/work/undone"]);
        let last = kept.lines().last().unwrap().to_owned();
        assert_eq!(world.git(&["show", &format!("{last}:README")]), "edited", "{when:?} {words}");
        let reachable = world.git(&["log", "--all", "--format=%s"]);
        for subject in ["in between", "checkpoint: 2"] {
            assert!(reachable.lines().any(|line| line == subject), "{when:?} {words}: {reachable}");
        }
    }
}
