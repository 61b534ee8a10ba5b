//! Tests `finish` and `abort`: from every kind of start, with an original branch that moved or did not.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{COMPLETE, World, moving_main};

fn ran(world: &World) {
    world.stories(1, "");
    world.agent(&format!("echo loop >>README; echo loop >loop; {COMPLETE}"));
    world.start(&[]).code(0);
}

#[test]
fn keep_and_cleanup_are_suggested_where_no_question_can_be_asked() {
    let world = World::new();
    ran(&world);
    world.ralph(&["finish"]).code(2).says("git ralph finish --cleanup work").says("git ralph finish --keep work");
    assert_eq!(world.branch(), "ralph/work");
}

#[test]
fn a_moved_original_is_merged_into() {
    let world = World::new();
    world.write("other", "1\n");
    world.git(&["add", "other"]);
    ran(&world);
    world.move_original("elsewhere", "moved\n");
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.git(&["status", "--porcelain"]), " M README\nA  other\n?? loop");
    assert_eq!(world.read("elsewhere"), "moved\n");
    assert_eq!(world.subjects("main"), ["moved on", "first"]);
}

#[test]
fn a_conflict_with_a_moved_original_touches_nothing() {
    let world = World::new();
    ran(&world);
    world.move_original("README", "theirs\n");
    world.write("dirty", "x");
    let before = (world.git(&["for-each-ref"]), world.git(&["status", "--porcelain"]), world.read("README"));
    world.ralph(&["finish", "--cleanup"]).code(2).says("conflicts with the result of the run in:").says("README").says("finish --keep");
    assert_eq!((world.git(&["for-each-ref"]), world.git(&["status", "--porcelain"]), world.read("README")), before);
    world.ralph(&["finish", "--keep"]).code(0);
    assert_eq!(world.branch(), "ralph/work");
}

#[test]
fn a_conflict_can_be_resolved_on_the_runs_branch_as_the_hint_says() {
    let world = World::new();
    ran(&world);
    world.move_original("README", "theirs\n");
    world.git(&["merge", "-q", "-X", "ours", "main", "-m", "resolved"]);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.branch(), "main");
    assert_eq!(world.git(&["status", "--porcelain"]), " M README\n?? loop");
}

#[test]
fn an_original_branch_that_is_gone_or_in_use_is_a_clear_error() {
    let world = World::new();
    ran(&world);
    world.git(&["branch", "-m", "main", "renamed"]);
    world.ralph(&["finish", "--cleanup"]).code(2).says("the original branch 'main' no longer exists").says("git branch main");
    world.git(&["branch", "-m", "renamed", "main"]);
    let elsewhere = world.outside("elsewhere");
    world.git(&["worktree", "add", "-q", elsewhere.to_str().unwrap(), "main"]);
    world.ralph(&["finish", "--cleanup"]).code(2).says("is checked out at");
    world.git(&["worktree", "remove", elsewhere.to_str().unwrap()]);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.branch(), "main");
}

#[test]
fn uncommitted_changes_at_the_finish_come_along() {
    let world = World::new();
    ran(&world);
    world.write("late", "edit\n");
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.git(&["status", "--porcelain"]), " M README\n?? late\n?? loop");
    assert_eq!(world.read("late"), "edit\n");
}

#[test]
fn uncommitted_changes_at_the_finish_come_along_to_an_original_branch_that_has_moved() {
    for moved in ["elsewhere", "late"] {
        let world = World::new();
        ran(&world);
        world.move_original(moved, "theirs\n");
        world.write("late", "edit\n");
        world.write("loop", "edited\n");
        for (name, mode) in [("loop", 0o640), ("late", 0o600)] {
            fs::set_permissions(world.path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let output = world.ralph(&["finish", "--cleanup"]);
        assert_eq!(["loop", "late"].map(|name| world.path(name).metadata().unwrap().permissions().mode() & 0o777), [0o640, 0o600]);
        assert_eq!((world.read("late").as_str(), world.read("loop").as_str()), ("edit\n", "edited\n"));
        if moved == "late" {
            // Both sides added a file of this name, so git-ralph changes nothing.
            output.code(2).says("'main' has moved and conflicts with the result of the run in:");
            assert_eq!(world.branch(), "ralph/work");
        } else {
            output.code(0);
            assert_eq!(world.git(&["status", "--porcelain"]), " M README\n?? late\n?? loop");
            assert_eq!(world.read("elsewhere"), "theirs\n");
        }
    }
}

#[test]
fn a_private_file_stays_private_when_the_original_branch_has_changed_it() {
    let world = World::new();
    world.write("key", "1\n2\n3\n");
    world.git(&["add", "key"]);
    world.git(&["commit", "-qm", "key"]);
    fs::set_permissions(world.path("key"), fs::Permissions::from_mode(0o600)).unwrap();
    world.stories(1, "");
    let moving = moving_main("key", "1\\n2\\n4\\n");
    world.agent(&format!("{moving}; echo loop >loop; {COMPLETE}"));
    world.start(&[]).code(0);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.read("key"), "1\n2\n4\n");
    assert_eq!(world.path("key").metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_run_from_a_detached_head_goes_back_to_it() {
    let world = World::new();
    world.git(&["checkout", "-q", "--detach"]);
    let commit = world.git(&["rev-parse", "HEAD"]);
    ran(&world);
    world.ralph(&["finish", "--cleanup"]).code(0).says("detached HEAD");
    assert_eq!(world.git(&["rev-parse", "HEAD"]), commit);
    assert_eq!(world.git(&["rev-parse", "--abbrev-ref", "HEAD"]), "HEAD");
    assert_eq!(world.git(&["status", "--porcelain"]), " M README\n?? loop");
}

#[test]
fn a_run_from_an_unborn_branch_goes_back_to_it() {
    let world = World::empty();
    world.git(&["init", "-q", "-b", "trunk"]);
    world.git(&["config", "user.name", "Test"]);
    world.git(&["config", "user.email", "test@example.com"]);
    world.write("staged", "x\n");
    world.write("untracked", "y\n");
    world.git(&["add", "staged"]);
    world.stories(1, "");
    world.agent(&format!("echo loop >loop; {COMPLETE}"));
    world.start(&[]).code(0);
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 1", "initial state"]);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.branch(), "trunk");
    assert_eq!(world.git(&["status", "--porcelain"]), "A  staged\n?? loop\n?? untracked");
}

#[test]
fn abort_leaves_an_empty_repository_without_an_index() {
    let world = World::empty();
    world.git(&["init", "-q", "-b", "trunk"]);
    world.stories(1, "");
    world.agent(&format!("echo loop >loop; {COMPLETE}"));
    world.start(&[]).code(0).says("no name and email are configured");
    assert_eq!(world.git(&["log", "-1", "--format=%an <%ae>", "ralph/work"]), "git-ralph <git-ralph@localhost>");
    world.ralph(&["abort"]).code(0);
    assert_eq!(world.branch(), "trunk");
    assert!(!world.exists(".git/index") && !world.exists("loop"));
}

#[test]
fn abort_restores_everything() {
    let world = World::new();
    for (name, text) in [("both", "1\n"), ("deleted", "1\n"), ("unstaged-delete", "1\n"), ("mode", "#!/bin/sh\n"), ("old", "r\n")] {
        world.write(name, text);
    }
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.write("both", "staged\n");
    world.git(&["add", "both"]);
    world.write("both", "work tree\n");
    world.git(&["rm", "-q", "deleted"]);
    fs::remove_file(world.path("unstaged-delete")).unwrap();
    world.git(&["mv", "old", "new"]);
    world.write("intended", "later\n");
    world.git(&["add", "-N", "intended"]);
    world.write("secret", "s\n");
    fs::set_permissions(world.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(world.path("mode"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("README", world.path("link")).unwrap();
    let index = fs::read(world.path(".git/index")).unwrap();
    let before = (world.git(&["status", "--porcelain=v2"]), world.git(&["for-each-ref", "refs/heads"]));
    world.stories(2, "max-retries = 0");
    world.agent("echo x >>README; rm -f both link; git add -A; test $RALPH_STORY = 1 && echo '<promise>COMPLETE</promise>'");
    world.start(&[]).code(1);
    world.write("late", "edit\n");
    let tip = world.git(&["rev-parse", "ralph/work"]);
    world.ralph(&["abort"]).code(0).says("back on main, work tree and index as before the run").says("refs/ralph/work/done");
    assert!(fs::read(world.path(".git/index")).unwrap() == index, "the index is the same to the byte");
    assert_eq!((world.git(&["status", "--porcelain=v2"]), world.git(&["for-each-ref", "refs/heads"])), before);
    assert_eq!((world.read("both"), world.read("README")), ("work tree\n".to_owned(), "hello\n".to_owned()));
    assert_eq!(fs::read_link(world.path("link")).unwrap().to_str(), Some("README"));
    assert!(world.subjects("refs/ralph/work/done").contains(&"checkpoint: 1".to_owned()), "the run is reachable: {tip}");
    assert_eq!(world.git(&["show", "refs/ralph/work/done:late"]), "edit");
}

#[test]
fn a_run_in_a_linked_work_tree_and_a_subdirectory() {
    let world = World::new();
    let linked = world.outside("linked tree");
    world.git(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    world.stories(1, "");
    let agent = world.agent(&format!("echo loop >loop; {COMPLETE}"));
    let mut inside = World::empty();
    inside.repo = linked.join("sub");
    fs::create_dir(&inside.repo).unwrap();
    inside.ralph(&["start", "work", "--", &agent]).code(0);
    inside.ralph(&["status"]).code(0).says("started from side");
    world.ralph(&["resume", "work"]).code(2).says("belongs to another work tree");
    inside.ralph(&["finish", "--cleanup"]).code(0);
    assert!(linked.join("loop").exists());
    assert_eq!(inside.git(&["status", "--porcelain", ":/"]), "?? loop");
}

#[test]
fn dry_run_of_finish_prints_the_commands_and_does_nothing() {
    let world = World::new();
    ran(&world);
    let before = world.git(&["for-each-ref"]);
    let output = world.ralph(&["finish", "--cleanup", "--dry-run"]).code(0);
    assert_eq!(output.stdout, "git checkout main\ngit merge --squash ralph/work\ngit reset HEAD\ngit branch -D ralph/work\n");
    assert_eq!(world.git(&["for-each-ref"]), before);
    assert_eq!(world.branch(), "ralph/work");
}

#[test]
fn a_finish_of_a_killed_run_rolls_the_half_attempt_back_first() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!(
        "echo $RALPH_STORY >s$RALPH_STORY; test $RALPH_STORY = 2 && {{ touch {}; sleep 600; }}; {COMPLETE}",
        world.outside("slept").display()
    ));
    let running = world.spawn_start(&[]);
    world.wait_for("the second story", || world.outside("slept").exists());
    running.signal("KILL");
    running.finish().code(-9);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.git(&["status", "--porcelain"]), "?? s1");
    assert_eq!(world.git(&["show", "refs/ralph/work/attempts/2/1:s2"]), "2");
}

#[test]
fn starting_where_it_cannot_work_changes_nothing() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    world.write("README", "side\n");
    world.git(&["switch", "-q", "-c", "side"]);
    world.git(&["commit", "-qam", "side"]);
    world.git(&["switch", "-q", "main"]);
    world.write("README", "main\n");
    world.git(&["commit", "-qam", "main"]);
    assert!(!world.command("git", &["merge", "-q", "side"]).output().unwrap().status.success());
    let before = (world.git(&["status", "--porcelain=v2"]), world.git(&["for-each-ref"]));
    world.start(&[]).code(2).says("a merge is under way");
    assert_eq!((world.git(&["status", "--porcelain=v2"]), world.git(&["for-each-ref"])), before);
    assert!(world.exists(".git/MERGE_HEAD"));
    world.git(&["merge", "--abort"]);
    world.git(&["branch", "ralph"]);
    world.start(&[]).code(2).says("a branch named 'ralph' is in the way");
    world.git(&["branch", "-D", "-q", "ralph"]);
    world.git(&["branch", "ralph/work/below"]);
    world.start(&[]).code(2).says("the branch 'ralph/work/below' is in the way");
    let bare = World::empty();
    bare.git(&["init", "-q", "--bare"]);
    bare.ralph(&["start", "x", "--", "true"]).code(2).says("bare repository");
    let nowhere = World::empty();
    nowhere.ralph(&["start", "x"]).code(128).says("not a git repository");
}
