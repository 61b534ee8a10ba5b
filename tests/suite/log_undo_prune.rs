//! Tests `log`, `undo` and `prune`.

use std::fs;

use crate::support::{COMPLETE, World};

/// The moment at which a process is killed.
#[derive(Clone, Copy, Debug)]
enum When {
    Before,
    After,
}

/// Runs a command whose process is killed before or after git runs with the given words.
fn killed(world: &World, when: When, words: &str, args: &[&str]) {
    let call = match when {
        When::Before => "",
        When::After => "$REAL_GIT \"$@\";",
    };
    world.fake_git(&format!("case \"$*\" in *'{words}'*) {call} kill -9 $PPID; exit 1;; esac"));
    world.ralph(args).code(-9);
    fs::remove_file(world.outside("bin/git")).unwrap();
}

/// A run with the given number of checkpoints; story `n` writes `s<n>` and appends to `order`.
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
fn undo_removes_the_last_checkpoint_and_saves_its_work() {
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
fn undone_stories_run_again_without_feedback_from_before() {
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
fn edits_at_the_time_of_an_undo_are_saved_with_it_and_reported() {
    let world = landed(2);
    world.write("README", "staged only\n");
    world.git(&["add", "README"]);
    world.write("README", "edited\n");
    world.write("new/file", "untracked\n");
    fs::remove_file(world.path("s1")).unwrap();
    world.ralph(&["undo"]).code(0).says("your edits (3 files) were removed from the work tree; they are saved as refs/ralph/work/undone/1");
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
fn ignored_files_and_files_from_before_the_start_survive_an_undo() {
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
    world.ralph(&["undo"]).code(0).says("your commits up to").says("are saved as refs/ralph/work/undone/1");
    assert_eq!(world.subjects("HEAD"), ["checkpoint: 1", "initial state", "first"]);
    assert_eq!(world.subjects("refs/ralph/work/undone/1")[0], "by hand");
}

#[test]
fn undo_names_other_branches_that_contain_the_checkpoint() {
    let world = landed(2);
    world.git(&["branch", "copy"]);
    world.git(&["update-ref", "refs/remotes/origin/x", "HEAD"]);
    world.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/x"]);
    world.ralph(&["undo", "-q"]).code(0).says("warning: the checkpoint is also in copy, origin/x; undo leaves it there");
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
    world.ralph(&["undo"]).code(2).says("is working in this work tree");
    running.signal("KILL");
    running.finish().code(-9);
    world.ralph(&["undo"]).code(2).says("an attempt of the run of 'work' was interrupted").says("git ralph resume work");
}

/// Moments at which an undo is killed: before anything, after the refs, halfway, and when only the last event is missing.
const DEATHS: [(When, &str); 4] = [
    (When::Before, "update-ref -m reset: undo"),
    (When::After, "update-ref -m reset: undo"),
    (When::Before, "read-tree -m -u"),
    (When::After, "read-tree -m -u"),
];

#[test]
fn an_undo_that_was_killed_anywhere_is_completed_by_the_next_command() {
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

/// Runs a command that git-ralph printed.
#[track_caller]
fn typed(world: &World, command: &str) -> String {
    let output = world.command("sh", &["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The commands that a log prints below a ref, in order.
fn commands(log: &str, name: &str) -> Vec<String> {
    let below = log.lines().skip_while(|line| !line.starts_with(&format!("  {name}  "))).skip(1);
    let commands = below.take_while(|line| line.starts_with("    ")).filter_map(|line| line.trim().split_once(": "));
    commands.map(|(_, command)| command.to_owned()).collect()
}

/// A run whose second story fails once and then lands; the user has edited files in between.
fn eventful() -> World {
    let world = World::new();
    world.write("README", "staged\n");
    world.git(&["add", "README"]);
    world.change(
        "work",
        "max-retries = 0\n[[story]]\nid = \"one\"\ntitle = \"First\"\n[[story]]\nid = \"two words\"\n[[story]]\nid = \"three\"\n",
    );
    world.agent(&format!(
        "echo $RALPH_STORY >done; test \"$RALPH_STORY\" = one && {{ {COMPLETE}; exit; }}
         echo lost >'lost file'; echo glob >'*'; echo quote >\"it's\"; echo $(:) >'$(touch owned)'; echo '<promise>FAILED: too hard</promise>'"
    ));
    world.start(&[]).code(1);
    world.write("by-hand", "edit\n");
    world.agent(&format!("echo x >>x; {COMPLETE}"));
    world.ralph(&["resume", "--max-retries", "3"]).code(0);
    world.ralph(&["undo", "--to", "one"]).code(0);
    world
}

#[test]
fn log_lists_the_attempts_in_order_with_outcome_checkpoint_and_ref() {
    let world = eventful();
    let log = world.ralph(&["log"]).code(0);
    assert_eq!(log.stderr, "");
    let lines: Vec<&str> = log.stdout.lines().collect();
    assert!(lines[0].starts_with("work, run 1: open, from main, started 20"), "{}", lines[0]);
    assert_eq!(lines[1], "one: First");
    let checkpoint = &id(&world, "HEAD")[..10];
    assert!(lines[2].starts_with("  attempt 1 done (") && lines[2].ends_with(&format!("s), checkpoint {checkpoint}")), "{}", lines[2]);
    assert_eq!(lines[3], "two words");
    assert!(lines[4].starts_with("  attempt 1 failed: too hard ("), "{}", lines[4]);
    assert!(lines[4].ends_with("s), saved as refs/ralph/work/attempts/two%20words/1"), "{}", lines[4]);
    assert!(
        lines[5].starts_with("  attempt 2 done (") && lines[5].ends_with(", undone, saved as refs/ralph/work/undone/1"),
        "{}",
        lines[5]
    );
    assert_eq!((lines[6], lines[8]), ("three", "Summary"));
    assert!(lines.contains(&"Saved work"), "{}", log.stdout);
    assert_eq!(world.ralph(&["log", "work"]).code(0).stdout, log.stdout);
}

#[test]
fn every_command_that_log_prints_works_as_it_is_printed() {
    let world = eventful();
    let log = world.ralph(&["log"]).code(0).stdout;
    let attempt = commands(&log, "refs/ralph/work/attempts/two%20words/1");
    assert!(attempt[0].starts_with("git diff ") && typed(&world, &attempt[0]).contains("+lost"), "{attempt:?}");
    typed(&world, &attempt[1]);
    assert!(!world.exists("owned"));
    assert_eq!((world.read("*"), world.read("it's")), ("glob\n".to_owned(), "quote\n".to_owned()), "{attempt:?}");
    assert!(log.contains("(and 1 path more)"), "{log}");
    let adopted = log.lines().find_map(|line| line.strip_prefix("  refs/ralph/work/adopted/")).unwrap();
    let adopted = commands(&log, &format!("refs/ralph/work/adopted/{}", adopted.split(' ').next().unwrap()));
    assert!(typed(&world, &adopted[0]).contains("by-hand"));
    typed(&world, &adopted[1]);
    assert_eq!(world.read("by-hand"), "edit\n");
    let index = commands(&log, "refs/ralph/work/index");
    assert!(typed(&world, &index[0]).contains("+staged"));
    typed(&world, &index[1]);
    let undone = commands(&log, "refs/ralph/work/undone/1");
    assert!(undone[0].starts_with("git show --stat ") && typed(&world, &undone[0]).contains("checkpoint: three"));
    assert_eq!(undone[1], "git branch work-undone-1 refs/ralph/work/undone/1");
    typed(&world, &undone[1]);
    assert_eq!(world.subjects("work-undone-1")[0], "checkpoint: three");
    let again = world.ralph(&["log"]).code(0).stdout;
    assert_eq!(commands(&again, "refs/ralph/work/undone/1")[1], "git branch work-undone-1-2 refs/ralph/work/undone/1");
}

#[test]
fn log_commands_work_in_a_subdirectory_and_for_earlier_runs() {
    let mut world = eventful();
    world.git(&["reset", "-q", "--hard"]);
    world.ralph(&["finish", "--cleanup"]).code(0);
    let log = world.ralph(&["log"]).code(0).says("work, run 1: finished, from main").stdout;
    let done = commands(&log, "refs/ralph/work/done");
    assert_eq!(done[1], "git branch ralph/work refs/ralph/work/done");
    typed(&world, &done[1]);
    world.start(&["--restart", "--only", "one"]).code(0);
    fs::create_dir(world.path("sub")).unwrap();
    world.repo = world.path("sub");
    let log = world.ralph(&["log"]).code(0).says("work, run 2: open").stdout;
    for name in ["runs/1/done", "runs/1/undone/1", "runs/1/attempts/two%20words/1", "leftover/2"] {
        let commands = commands(&log, &format!("refs/ralph/work/{name}"));
        assert_eq!(commands.len(), 2, "{name}: {log}");
        commands.iter().for_each(|command| drop(typed(&world, command)));
    }
    assert!(world.exists("../it's") && !world.exists("it's"));
    assert_eq!(world.subjects("work-leftover-2")[0], "checkpoint: one");
}

#[test]
fn log_of_one_story_shows_no_other_story() {
    let world = eventful();
    for args in [&["log", "work", "two words"][..], &["log", "two words"]] {
        let log = world.ralph(args).code(0).stdout;
        assert!(log.contains("attempts/two%20words/1") && log.contains("undone/1"), "{log}");
        assert!(!log.contains("First") && !log.contains("adopted") && log.lines().all(|line| line != "three"), "{log}");
    }
    let log = world.ralph(&["log", "one"]).code(0).stdout;
    assert!(log.contains("one: First") && !log.contains("refs/"), "{log}");
}

#[test]
fn a_mistyped_change_or_story_gets_the_nearest_one() {
    let world = eventful();
    world.ralph(&["log", "wrok"]).code(128).says("did you mean 'work'?");
    world.ralph(&["log", "thre"]).code(128).says("did you mean 'three'?");
    world.ralph(&["log", "work", "thre"]).code(128).says("'work' has no story 'thre'; did you mean 'three'?");
    world.ralph(&["log", "wrok", "three"]).code(128).says("did you mean 'work'?");
}

#[test]
fn log_without_a_run_says_so_and_without_an_open_one_takes_the_latest() {
    let world = World::new();
    world.ralph(&["log"]).code(2).says("there is no run yet");
    world.stories(1, "");
    world.ralph(&["log", "work"]).code(2).says("has never been started");
    world.agent(COMPLETE);
    world.start(&["--finish", "cleanup"]).code(0);
    world.ralph(&["log"]).code(0).says("work, run 1: finished");
    world.change("other", "[[story]]\nid = \"work\"\n");
    let agent = world.outside("bin/agent");
    world.ralph(&["start", "other", "--", agent.to_str().unwrap()]).code(0);
    world.ralph(&["log"]).code(0).says("other, run 1: open");
    world.ralph(&["log", "work"]).code(0).says("work, run 1: finished");
    world.ralph(&["abort"]).code(0);
    world.ralph(&["log"]).code(0).says("other, run 1: aborted");
    world.start(&["--restart", "--finish", "cleanup"]).code(0);
    world.ralph(&["log"]).code(0).says("work, run 2: finished");
}

#[test]
fn log_shows_an_attempt_that_is_in_progress_or_was_cut_short() {
    let world = World::new();
    world.stories(1, "");
    let slept = world.outside("slept");
    world.agent(&format!("test -e {0} || {{ touch {0}; sleep 600; }}; {COMPLETE}", slept.display()));
    let running = world.spawn_start(&[]);
    world.wait_for("the agent", || slept.exists());
    world.ralph(&["log"]).code(0).says("open, running, from main").says("  attempt 1 is under way");
    running.signal("KILL");
    running.finish().code(-9);
    world.ralph(&["log"]).code(0).says("  attempt 1 was interrupted");
    world.ralph(&["resume"]).code(0);
    world.ralph(&["log"]).code(0).says("  attempt 1 was interrupted, saved as refs/ralph/work/attempts/1/1").says("  attempt 2 done");
}

/// Every ref below refs/ralph/.
fn ralph_refs(world: &World) -> String {
    world.git(&["for-each-ref", "refs/ralph/"])
}

/// Every file below a directory, with its content.
fn files(dir: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push((path.clone(), fs::read(&path).unwrap())) }
    }
    found.sort();
    found
}

fn stash(world: &World, message: &str) {
    world.write("README", &format!("{message}\n"));
    world.git(&["stash", "push", "-q", "-m", message]);
}

fn stashes(world: &World) -> Vec<String> {
    world.git(&["stash", "list", "--format=%gs"]).lines().map(str::to_owned).collect()
}

#[test]
fn prune_lists_everything_first_and_deletes_it_only_after_a_yes() {
    let world = eventful();
    world.git(&["reset", "-q", "--hard"]);
    world.ralph(&["finish", "--keep"]).code(0);
    fs::create_dir(world.path(".git/ralph/stale-locks")).unwrap();
    let (refs, runs) = (ralph_refs(&world), files(&world.path(".git/ralph/runs")));
    let list = world.ralph(&["prune", "--dry-run"]).code(0);
    for line in refs.lines() {
        assert!(list.stdout.contains(&format!("{}  ", line.split('\t').nth(1).unwrap())), "{}", list.stdout);
    }
    assert!(list.stdout.contains("rescue: attempt 1 of two words"), "{}", list.stdout);
    assert!(list.stdout.contains(".git/ralph/runs/work/1 ") && list.stdout.contains(".git/ralph/stale-locks "), "{}", list.stdout);
    let refused = world.ralph(&["prune"]).code(2).says("--yes is not given").says("hint: git ralph prune --yes");
    assert_eq!(refused.stdout, list.stdout);
    assert_eq!((ralph_refs(&world), files(&world.path(".git/ralph/runs"))), (refs, runs), "nothing is deleted");
    assert!(world.exists(".git/ralph/stale-locks"));
    let (tip, head) = (id(&world, "ralph/work"), world.git(&["for-each-ref", "refs/heads"]));
    assert_eq!(world.ralph(&["prune", "--yes"]).code(0).says("deleted: ").stdout, list.stdout);
    assert_eq!(ralph_refs(&world), "");
    assert!(!world.exists(".git/ralph/runs/work") && !world.exists(".git/ralph/stale-locks"));
    assert!(world.exists(".git/ralph/work.toml"), "the change stays");
    assert_eq!((id(&world, "HEAD"), world.git(&["for-each-ref", "refs/heads"])), (tip, head), "the user's branches stay");
    world.ralph(&["prune"]).code(0).says("nothing to prune");
    world.git(&["switch", "-q", "main"]);
    world.agent(COMPLETE);
    world.start(&[]).code(0).says("refs/ralph/work/leftover/1");
}

#[test]
fn prune_never_touches_an_open_run() {
    let world = eventful();
    world.git(&["reset", "-q", "--hard"]);
    let (refs, runs) = (ralph_refs(&world), files(&world.run_dir()));
    stash(&world, "ralph:work:left by an older tool");
    world.ralph(&["prune", "--yes"]).code(0).says("nothing to prune");
    assert_eq!((ralph_refs(&world), files(&world.run_dir())), (refs, runs));
    assert_eq!(stashes(&world), ["On ralph/work: ralph:work:left by an older tool"]);
    world.ralph(&["abort"]).code(0);
    world.git(&["branch", "ralph/work", "refs/ralph/work/done"]);
    world.git(&["stash", "drop", "-q"]);
    world.agent(COMPLETE);
    world.start(&["--limit", "1"]).code(0);
    world.ralph(&["undo"]).code(0);
    let second = world.path(".git/ralph/runs/work/2");
    let open: Vec<String> = ralph_refs(&world).lines().filter(|line| !line.contains("/work/runs/")).map(str::to_owned).collect();
    assert!(open.iter().any(|line| line.ends_with("leftover/2")) && open.iter().any(|line| line.ends_with("undone/1")), "{open:?}");
    let before = files(&second);
    world.ralph(&["prune", "--yes"]).code(0);
    assert_eq!(ralph_refs(&world).lines().collect::<Vec<_>>(), open, "only what earlier runs kept is gone");
    assert!(files(&second) == before && !world.run_dir().exists());
    world.ralph(&["resume"]).code(0);
    world.ralph(&["abort"]).code(0);
    assert_eq!((world.branch(), status(&world)), ("main".to_owned(), "M  README".to_owned()));
}

#[test]
fn prune_of_one_change_leaves_the_others() {
    let world = World::new();
    world.stories(1, "");
    world.change("other", "[[story]]\nid = \"1\"\n");
    let agent = world.agent(&format!("echo x >x; {COMPLETE}"));
    for change in ["work", "other"] {
        world.ralph(&["start", change, "--finish", "keep", "--", &agent]).code(0);
        world.git(&["switch", "-q", "main"]);
    }
    stash(&world, "ralph:other:x");
    stash(&world, "ralph:work:x");
    world.ralph(&["prune", "--yes", "--change", "wrok"]).code(128).says("did you mean 'work'?");
    world.ralph(&["prune", "--change", "work"]).code(2).says("git ralph prune --yes --change work");
    world.ralph(&["prune", "--yes", "--change", "work"]).code(0);
    assert!(!world.has_ref("refs/ralph/work/initial") && world.has_ref("refs/ralph/other/initial"));
    assert!(!world.exists(".git/ralph/runs/work") && world.exists(".git/ralph/runs/other/1/journal.jsonl"));
    assert_eq!(stashes(&world), ["On main: ralph:other:x"]);
}

#[test]
fn prune_drops_only_stash_entries_of_older_tools_wherever_they_are() {
    let world = World::new();
    for message in ["ralph:work:1", "mine", "ralph:old-change:2: more", "ralph: mine too", "about ralph:work:3", "ralph:work:4"] {
        stash(&world, message);
    }
    world.write("README", "stored\n");
    let commit = world.git(&["stash", "create"]);
    world.git(&["stash", "store", "-m", "ralph:work:stored", &commit]);
    world.git(&["reset", "-q", "--hard"]);
    world.git(&["config", "log.date", "iso"]);
    let list = world.ralph(&["prune", "--dry-run"]).code(0).stdout;
    assert_eq!(
        list,
        "stash@{0}  ralph:work:stored\nstash@{1}  ralph:work:4\nstash@{4}  ralph:old-change:2: more\nstash@{6}  ralph:work:1\n"
    );
    world.ralph(&["prune", "--yes"]).code(0).says("deleted: 4 stash entries");
    assert_eq!(stashes(&world), ["On main: about ralph:work:3", "On main: ralph: mine too", "On main: mine"]);
    assert_eq!(world.git(&["show", "stash@{2}:README"]), "mine");
}

#[test]
fn a_stash_entry_that_comes_in_between_is_not_dropped_for_another() {
    let world = World::new();
    stash(&world, "ralph:work:1");
    stash(&world, "ralph:work:2");
    let flag = world.outside("flag");
    // The user stashes after the first entry is dropped, so the entry now called stash@{0} is the user's.
    world.fake_git(&format!(
        "case \"$*\" in *'stash drop'*) test -e {0} || {{ touch {0}; $REAL_GIT \"$@\"; echo new >README; $REAL_GIT stash push -q -m mine; exit 0; }};; esac",
        flag.display()
    ));
    world.ralph(&["prune", "--yes"]).code(2).says("stash@{0} is not what it was");
    fs::remove_file(world.outside("bin/git")).unwrap();
    assert_eq!(stashes(&world), ["On main: mine", "On main: ralph:work:2"]);
    world.ralph(&["prune", "--yes"]).code(0);
    assert_eq!(stashes(&world), ["On main: mine"]);
}

#[test]
fn prune_waits_for_no_process_and_ends_none() {
    let world = World::new();
    world.stories(1, "");
    let pid = world.outside("pid");
    world.agent(&format!("echo $$ >{0}.new; mv {0}.new {0}; exec sleep 600", pid.display()));
    let running = world.spawn_start(&[]);
    world.wait_for("the agent", || pid.exists());
    world.ralph(&["prune", "--yes"]).code(2).says("is working in this work tree");
    world.ralph(&["prune", "--dry-run"]).code(0).says("nothing to prune");
    running.signal("KILL");
    running.finish().code(-9);
    world.ralph(&["prune", "--yes"]).code(2).says("is working in this work tree");
    assert!(!crate::support::is_gone(&fs::read_to_string(&pid).unwrap()), "prune does not end what a killed run left");
    world.ralph(&["abort"]).code(0);
    world.ralph(&["prune", "--yes"]).code(0).says("deleted: ");
}

#[test]
fn prune_lists_files_that_git_could_not_store_and_deletes_them_too() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.stories(1, "max-retries = 0");
    world.agent("git init -q nested; mkdir nested/deep; echo x >nested/deep/x; echo '<promise>FAILED: no</promise>'");
    world.start(&[]).code(1);
    world.ralph(&["abort"]).code(0);
    let deep = world.run_dir().join("moved/1-1/nested/deep");
    assert!(deep.join("x").exists());
    fs::set_permissions(&deep, fs::Permissions::from_mode(0o500)).unwrap();
    world.ralph(&["prune", "--yes"]).code(0).says("with files that were moved or copied there because git could not store them");
    assert!(!world.run_dir().exists());
}
