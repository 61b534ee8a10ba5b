//! Tests that no attempt removes the user's ignored files, although no tree object holds them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::support::{COMPLETE, World};

const FAILED: &str = "echo '<promise>FAILED: no</promise>'";

/// A world that ignores `.env`, `*.big` and `build/`, with a secret in `.env`.
fn with_a_secret() -> World {
    let world = World::new();
    world.write(".gitignore", ".env\n*.big\nbuild/\nlink\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "ignore"]);
    world.write(".env", "SECRET\n");
    fs::set_permissions(world.path(".env"), fs::Permissions::from_mode(0o600)).unwrap();
    world
}

fn in_run(world: &World, name: &str) -> String {
    fs::read_to_string(world.run_dir().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn small_ignored_files_that_a_failed_attempt_edits_are_restored_and_its_versions_are_saved() {
    let world = with_a_secret();
    world.write("deep/er/.env", "DEEP\n");
    symlink("somewhere", world.path("link")).unwrap();
    world.stories(1, "max-retries = 1");
    world.agent(&format!(
        "cat .env deep/er/.env >>../seen; readlink link >>../seen
         echo AGENT$RALPH_ATTEMPT >.env; chmod 644 .env; ln -sf elsewhere link; rm -r deep; echo file >deep; {FAILED}"
    ));
    world.start(&[]).code(1).says("changed ignored files are restored: .env, link");
    assert_eq!(world.read("../seen"), "SECRET\nDEEP\nsomewhere\n".repeat(2));
    assert_eq!((world.read(".env"), world.read("deep/er/.env")), ("SECRET\n".to_owned(), "DEEP\n".to_owned()));
    assert_eq!(fs::read_link(world.path("link")).unwrap().to_str(), Some("somewhere"));
    assert_eq!(fs::metadata(world.path(".env")).unwrap().permissions().mode() & 0o777, 0o600);
    for attempt in 1..=2 {
        assert_eq!(in_run(&world, &format!("moved/1-{attempt}/.env")), format!("AGENT{attempt}\n"));
    }
}

#[test]
fn an_edit_that_changes_neither_size_nor_times_is_rolled_back_too() {
    let world = with_a_secret();
    world.let_files_age();
    world.let_files_age();
    world.stories(1, "max-retries = 0");
    world.agent(&format!("touch -r .env ../time; echo AGENTS >.env; truncate -s 7 .env; touch -r ../time .env; {FAILED}"));
    world.start(&[]).code(1);
    assert_eq!(world.read(".env"), "SECRET\n");
}

#[test]
fn an_ignored_file_that_landed_attempts_edit_stays_so_and_every_version_before_is_kept() {
    let world = with_a_secret();
    world.stories(3, "");
    world.agent(&format!("echo $RALPH_STORY >>.env; {COMPLETE}"));
    let output = world.start(&[]).code(0).says("the agent changed ignored files: .env; copies from before the attempt are in ");
    assert_eq!(output.stderr.matches("the agent changed ignored files").count(), 3);
    assert_eq!(world.read(".env"), "SECRET\n1\n2\n3\n");
    let log = world.ralph(&["log"]).code(0);
    for (label, text) in [("1-1", "SECRET\n"), ("2-1", "SECRET\n1\n"), ("3-1", "SECRET\n1\n2\n")] {
        assert_eq!(in_run(&world, &format!("ignored-files/{label}/.env")), text);
        assert!(log.stdout.contains(&format!("ralph/runs/work/1/ignored-files/{label}\n")), "{}", log.stdout);
    }
    world.ralph(&["abort"]).code(0).says("changed ignored files are restored: .env");
    assert_eq!(world.read(".env"), "SECRET\n");
    assert_eq!(in_run(&world, "moved/finish/.env"), "SECRET\n1\n2\n3\n");
    assert_eq!(fs::metadata(world.path(".env")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn an_ignored_file_that_was_landed_by_force_is_restored_by_an_abort() {
    let world = with_a_secret();
    world.stories(1, "");
    world.agent(&format!("echo more >>.env; git add -f .env; git commit -qm env; {COMPLETE}"));
    world.start(&[]).code(0);
    world.ralph(&["abort"]).code(0);
    assert_eq!(world.read(".env"), "SECRET\n");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_cleanup_leaves_ignored_files_as_the_run_left_them() {
    let world = with_a_secret();
    world.stories(1, "");
    world.agent(&format!("echo more >>.env; {COMPLETE}"));
    world.start(&["--finish", "cleanup"]).code(0);
    assert_eq!(world.read(".env"), "SECRET\nmore\n");
}

#[test]
fn an_ignored_file_that_the_user_removes_between_two_attempts_stays_removed() {
    let world = with_a_secret();
    world.stories(2, "");
    world.agent(COMPLETE);
    world.start(&["--limit", "1"]).code(0);
    fs::remove_file(world.path(".env")).unwrap();
    world.ralph(&["resume"]).code(0);
    assert!(!world.exists(".env"));
    world.ralph(&["abort"]).code(0);
    assert_eq!(world.read(".env"), "SECRET\n", "an abort goes back to before the start");
}

#[test]
fn ignored_files_that_cannot_be_restored_are_reported() {
    let world = with_a_secret();
    let big = "x".repeat(1024 * 1024 + 1);
    for name in ["kept.big", "edited.big", "deleted.big"] {
        world.write(name, &big);
    }
    for name in ["build/one/file", "build/two/file"] {
        world.write(name, "mine\n");
    }
    world.let_files_age();
    world.stories(1, "max-retries = 0");
    world.agent(&format!("echo x >>edited.big; rm deleted.big; {FAILED}"));
    let lost = "these ignored files were changed and cannot be restored, because there is no copy: ";
    world.start(&[]).code(1).says(&format!("{lost}deleted.big, edited.big\n"));
    assert!(!world.ralph(&["abort"]).code(0).says(&format!("{lost}deleted.big, edited.big\n")).stderr.contains("build"));
    world.agent(&format!("echo x >>build/two/file; {FAILED}"));
    world.start(&[]).code(1);
    world.ralph(&["abort"]).code(0).says(&format!("{lost}build/\n"));
    assert_eq!(world.read("build/one/file"), "mine\n");
}

#[test]
fn an_attempt_that_is_killed_with_git_ralph_leaves_no_edit_in_ignored_files() {
    let world = with_a_secret();
    world.stories(1, "max-retries = 0");
    world.agent(&format!("test -e ../again && {{ {FAILED}; exit; }}; touch ../again; echo AGENT >.env; kill -9 $PPID"));
    world.start(&[]).code(-9);
    assert_eq!(world.read(".env"), "AGENT\n");
    world.ralph(&["resume"]).code(1);
    assert_eq!(world.read(".env"), "SECRET\n");
    assert_eq!(in_run(&world, "moved/1-1/.env"), "AGENT\n");
}

#[test]
fn an_ignored_file_and_a_repository_that_the_user_makes_before_a_resume_come_back() {
    for (end, code) in [(FAILED, 1), (COMPLETE, 0)] {
        let world = World::new();
        world.write(".gitignore", ".env\n");
        world.stories(2, "max-retries = 0");
        world.agent(&format!("test $RALPH_STORY = 1 && {{ {COMPLETE}; exit; }}; git clean -ffdxq; echo x >x; {end}"));
        world.start(&["--limit", "1"]).code(0);
        world.write(".env", "SECRET\n");
        world.git(&["init", "-q", "inner"]);
        world.write("inner/f", "mine\n");
        world.ralph(&["resume"]).code(code).says("the agent deleted the ignored file .env; it is restored");
        assert_eq!((world.read(".env"), world.read("inner/f")), ("SECRET\n".to_owned(), "mine\n".to_owned()));
    }
}

#[test]
fn an_ignored_file_comes_back_when_an_attempt_writes_into_its_copies_or_deletes_all_of_them() {
    let everywhere = "grep -rl SECRET . | while read file; do echo REDACTED >$file; done";
    let without_state = "rm -rf .git/ralph .git/ralph-spare .env";
    for script in [everywhere, without_state] {
        let world = World::new();
        world.write(".git/info/exclude", ".env\n");
        world.write(".env", "SECRET\n");
        world.stories(2, "max-retries = 0");
        world.agent(&format!("test $RALPH_STORY = 1 && {{ echo x >x; {COMPLETE}; exit; }}; {script}; {FAILED}"));
        world.start(&[]).code(1).says(".env");
        assert_eq!(world.read(".env"), "SECRET\n", "{script}");
        world.ralph(&["abort"]).code(0);
        assert_eq!(world.read(".env"), "SECRET\n", "{script}");
    }
    let world = World::new();
    world.write(".git/info/exclude", ".env\n");
    world.write(".env", "SECRET\n");
    world.stories(1, "max-retries = 0");
    world.agent(&format!("{everywhere}; kill -9 $PPID"));
    world.start(&[]).code(-9);
    world.ralph(&["abort"]).code(0);
    assert_eq!(world.read(".env"), "SECRET\n");
}

#[test]
fn an_ignored_file_that_one_attempt_makes_and_a_later_one_edits_or_deletes_is_kept_as_a_copy() {
    for settings in [&[][..], &["core.splitIndex", "true"], &["index.version", "4"]] {
        let world = with_a_secret();
        if !settings.is_empty() {
            world.git(&[&["config"], settings].concat());
        }
        makes_edits_and_deletes_an_ignored_file(&world);
    }
}

fn makes_edits_and_deletes_an_ignored_file(world: &World) {
    world.stories(3, "");
    world.agent(&format!(
        "case $RALPH_STORY in
         1) mkdir sub; echo MADE >sub/.env; echo work >sub/work ;;
         2) echo EDITED >sub/.env ;;
         3) rm sub/.env ;;
         esac; {COMPLETE}"
    ));
    let output = world.start(&[]).code(0);
    assert!(!output.stderr.contains("ignored"), "what attempts do to ignored files of attempts is their business: {}", output.stderr);
    assert!(!world.path("sub/.env").exists());
    assert_eq!(in_run(world, "ignored-files/2-1/sub/.env"), "MADE\n");
    assert_eq!(in_run(world, "ignored-files/3-1/sub/.env"), "EDITED\n");
}

#[test]
fn an_ignored_file_that_a_command_of_the_users_makes_between_two_attempts_is_copied_before_the_second() {
    if World::is_in_place_only("a private clone has none of the user's ignored files") {
        return;
    }
    let world = with_a_secret();
    world.git(&["config", "ralph.onStory", "test -e between.big || echo BETWEEN >between.big"]);
    world.stories(2, "");
    world.agent(&format!("test $RALPH_STORY = 2 && rm between.big; echo x >f$RALPH_STORY; {COMPLETE}"));
    world.start(&[]).code(0);
    assert_eq!(in_run(&world, "ignored-files/2-1/between.big"), "BETWEEN\n");
}
