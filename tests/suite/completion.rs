//! Tests shell completion: the values that git-ralph offers. `tests/real-shells` drives the shells themselves.

use std::path::Path;

use crate::support::{COMPLETE, World};

/// The values that git-ralph offers for the last word.
#[track_caller]
fn offered(world: &World, words: &[&str]) -> Vec<String> {
    offered_in(world, &world.repo, &[], words)
}

#[track_caller]
fn offered_in(world: &World, dir: &Path, env: &[(&str, &str)], words: &[&str]) -> Vec<String> {
    let text = answer(world, dir, env, words.len(), words);
    text.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[track_caller]
fn answer(world: &World, dir: &Path, env: &[(&str, &str)], at: usize, words: &[&str]) -> String {
    let mut command = world.command(env!("CARGO_BIN_EXE_git-ralph"), &["--", "git-ralph"]);
    command.args(words).current_dir(dir).env("GIT_RALPH_COMPLETE", at.to_string()).envs(env.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A world with an open run of `work`, whose first story has landed, and with changes that have never been run.
fn world() -> World {
    let world = World::new();
    world.stories(2, "title = 'Some work'");
    world.agent(&format!("test $RALPH_STORY = 1 && {COMPLETE}"));
    world.start(&["--max-retries", "0"]).code(1);
    world.change("other", "[[story]]\nid = 'one: of two'\n[[story]]\nid = 'two'\ntitle = 'Second'\n");
    world.write("openspec/changes/add-greeting/tasks.md", "## 1. Setup\n- [ ] 1.1 do it\n");
    world
}

#[test]
fn commands_and_options_are_offered() {
    let world = World::empty();
    assert_eq!(offered(&world, &["st"]), ["start", "status", "stop"]);
    assert!(!offered(&world, &[""]).contains(&"demo-agent".to_owned()));
    assert_eq!(offered(&world, &["start", "--max-"]), ["--max-cost", "--max-tokens", "--max-retries"]);
    assert_eq!(offered(&world, &["start", "--finish", ""]), ["ask", "cleanup", "keep"]);
    assert_eq!(offered(&world, &["start", "--finish=k"]), ["--finish=keep"]);
    assert_eq!(offered(&world, &["help", "res"]), ["resume"]);
}

#[test]
fn each_command_is_offered_the_changes_that_it_can_be_about() {
    let world = world();
    let table: [(&str, &[&str]); 6] = [
        ("start", &["add-greeting", "other", "work"]),
        ("resume", &["work"]),
        ("stop", &["work"]),
        ("status", &["work"]),
        ("log", &["work", "1", "2"]),
        ("new", &["add-greeting"]),
    ];
    for (command, expected) in table {
        assert_eq!(offered(&world, &[command, ""]), expected, "{command}");
    }
    assert_eq!(offered(&world, &["prune", "--change", ""]), ["work"]);
    world.ralph(&["abort"]).code(0);
    assert!(offered(&world, &["resume", ""]).iter().all(|word| word.starts_with('-')), "only options are left");
    assert_eq!(answer(&world, &world.repo, &[], 2, &["start", "w"]), "work\tSome work\n", "with its title");
}

#[test]
fn stories_are_those_of_the_change_that_the_line_names_or_means() {
    let world = world();
    assert_eq!(offered(&world, &["start", "other", "--only", ""]), ["one: of two", "two"]);
    assert_eq!(offered(&world, &["start", "add-greeting", "--only", ""]), ["1"]);
    assert_eq!(offered(&world, &["resume", "--only", ""]), ["1", "2"], "of the open run");
    assert_eq!(offered(&world, &["undo", "--to", ""]), ["1"], "only what has landed");
    for command in ["hint", "skip", "retry", "done"] {
        assert_eq!(offered(&world, &[command, ""]), ["1", "2"], "{command}");
        assert_eq!(offered(&world, &[command, "--change", ""]), ["work"], "{command}");
    }
    assert_eq!(offered(&world, &["log", "work", ""]), ["1", "2"]);
    assert_eq!(answer(&world, &world.repo, &[], 4, &["start", "other", "--only", "t"]), "two\tSecond\n");
}

#[test]
fn agents_are_the_known_ones_and_those_of_the_users_own() {
    let world = World::new();
    world.git(&["config", "ralph.mine.cmd", "./my-agent"]);
    let agents = offered(&world, &["start", "--agent", ""]);
    assert!(agents.contains(&"mine".to_owned()) && agents.contains(&"claude".to_owned()), "{agents:?}");
}

#[test]
fn no_git_is_started_but_for_the_agents() {
    let world = world();
    world.fake_git(&format!("echo x >> {}", world.outside("calls").display()));
    for words in [&["start", ""][..], &["start", "work", "--only", ""], &["undo", "--to", ""], &["resume", ""]] {
        assert!(!offered(&world, words).is_empty(), "{words:?}");
    }
    assert!(!world.outside("calls").exists());
}

#[test]
fn the_repository_is_found_from_subdirectories_work_trees_and_git_dir() {
    let world = world();
    let changes = ["add-greeting", "other", "work"];
    assert_eq!(offered_in(&world, &world.path("openspec/changes"), &[], &["start", ""]), changes);
    let linked = world.outside("linked");
    world.git(&["worktree", "add", "-q", linked.to_str().unwrap()]);
    assert_eq!(offered_in(&world, &linked, &[], &["start", ""]), changes[1..], "openspec/ is not committed");
    let git_dir = world.path(".git");
    assert_eq!(offered_in(&world, &world.outside(""), &[("GIT_DIR", git_dir.to_str().unwrap())], &["start", ""]), changes[1..]);
}

#[test]
fn broken_files_print_nothing_in_completion() {
    let world = World::new();
    world.change("broken", "[[[");
    world.write(".git/ralph/runs/torn/1/journal.jsonl", "no event\nand another\n");
    world.write(".git/ralph/runs/empty/1/journal.jsonl", "");
    for words in [&["start", ""][..], &["resume", ""], &["start", "broken", "--only", ""], &["log", "torn", ""], &["undo", "--to", ""]] {
        offered(&world, words);
    }
    assert_eq!(offered(&world, &["start", "br"]), ["broken"]);
    assert_eq!(answer(&world, &world.repo, &[], 99, &["start"]), "", "a word that is not there");
    assert_eq!(answer(&world, &world.repo, &[], 0, &[]), "");
    world.write(".git/HEAD", "");
    offered(&world, &["start", ""]);
}

#[test]
fn a_variable_that_happens_to_be_set_disturbs_no_command() {
    let world = World::new();
    let mut command = world.command(env!("CARGO_BIN_EXE_git-ralph"), &["list", "--json"]);
    let output = command.env("GIT_RALPH_COMPLETE", "1").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("changes"));
}
