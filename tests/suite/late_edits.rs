//! Tests edits that the user makes while git-ralph restores the work tree.

use std::fs;

use crate::support::{COMPLETE, World};

const FAILED: &str = "echo '<promise>FAILED: no</promise>'";

/// Makes the user write to files right before the first git call that matches the pattern.
fn write_before(world: &World, pattern: &str, script: &str) {
    let done = world.outside("written");
    let _ = fs::remove_file(&done);
    world.fake_git(&format!("case \"$*\" in *{pattern}*) test -e {0} || {{ touch {0}; {script}; }};; esac", done.display()));
}

fn moved(world: &World, name: &str) -> String {
    fs::read_to_string(world.run_dir().join("moved").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn an_edit_between_the_snapshot_and_the_end_of_a_rollback_is_moved_aside_and_stops_nothing() {
    // The moments: after the snapshot, and right before git writes.
    for pattern in ["'rolled back'", "'read-tree -m -u'"] {
        let world = World::new();
        world.write("g", "mine\n");
        world.stories(1, "max-retries = 1");
        world.agent(&format!("echo agents >README; echo agents >g; echo new >new; {FAILED}"));
        // As many bytes as the agent wrote, so that the size does not show the edit.
        write_before(&world, pattern, "echo mylate >README; echo late >new; echo untouched >other; rm -f g");
        world.start(&[]).code(1).says("README was written while git-ralph restored the work tree; that version is in");
        assert_eq!((world.read("README"), world.read("g")), ("hello\n".to_owned(), "mine\n".to_owned()), "{pattern}");
        assert_eq!((moved(&world, "1-1/README"), moved(&world, "1-1/new")), ("mylate\n".to_owned(), "late\n".to_owned()), "{pattern}");
        assert_eq!(world.count("attempt-rolled-back"), 2, "{pattern}: the loop goes on");
        assert!(!world.run_dir().join("set-aside").exists(), "{pattern}");
    }
}

#[test]
fn an_edit_during_an_abort_an_undo_or_a_cleanup_is_moved_aside() {
    for (command, restored) in [(&["abort"][..], "hello\n"), (&["undo"], "hello\n"), (&["finish", "--cleanup"], "moved on\n")] {
        let world = World::new();
        world.stories(1, "");
        world.agent(&format!("{}; echo x >x; {COMPLETE}", if command[0] == "finish" { "true" } else { "echo agents >README" }));
        world.start(&[]).code(0);
        if command[0] == "finish" {
            world.move_original("README", "moved on\n");
        }
        write_before(&world, "'read-tree -m -u'", "echo late >README");
        world.ralph(command).code(0).says("README was written while git-ralph restored the work tree");
        assert_eq!(world.read("README"), restored, "{command:?}");
        let label = if command[0] == "undo" { "undone-1" } else { "finish" };
        assert_eq!(moved(&world, &format!("{label}/README")), "late\n", "{command:?}");
    }
}

#[test]
fn files_that_are_as_the_snapshot_has_them_leave_nothing_behind() {
    let world = World::new();
    world.stories(1, "max-retries = 0");
    world.agent(&format!("echo agents >README; mkdir d; ln -s x d/link; echo new >d/new; chmod +x README; {FAILED}"));
    let output = world.start(&[]).code(1);
    assert!(!output.stderr.contains("was written while"), "{}", output.stderr);
    assert!(!world.run_dir().join("moved").exists());
    assert!(!world.exists("d"));
}

#[test]
fn a_kill_while_files_are_set_aside_loses_none_of_them() {
    for (end, command) in [(FAILED, &["resume"][..]), (COMPLETE, &["abort"])] {
        let world = World::new();
        world.write("mine", "mine\n");
        world.stories(1, "max-retries = 0");
        world.agent(&format!("echo agents >README; echo agents >mine; echo new >new; {end}"));
        let kill = "case \"$*\" in *'read-tree -m -u'*) test -e ../killed || { touch ../killed; kill -9 $PPID; exit 1; };; esac";
        if end == FAILED {
            world.fake_git(kill);
            world.start(&[]).code(-9);
        } else {
            world.start(&[]).code(0);
            world.fake_git(kill);
            world.ralph(&["abort"]).code(-9);
        }
        assert!(!world.exists("new"), "they are set aside");
        let code = i32::from(end == FAILED);
        world.ralph(command).code(code);
        assert_eq!((world.read("README"), world.read("mine")), ("hello\n".to_owned(), "mine\n".to_owned()));
        assert!(!world.exists("new"));
        assert!(world.git(&["log", "--all", "-p", "--format="]).contains("+new"));
    }
}
