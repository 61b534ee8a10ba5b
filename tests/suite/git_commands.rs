//! Tests that the porcelain commands named in the documents have the same effect as the commands that git-ralph really runs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{COMPLETE, World};

/// A repository with files in every kind of state, the same each time.
fn messy() -> World {
    let world = World::new();
    world.write(".gitignore", "*.log\n");
    for name in ["edited", "deleted", "staged", "both", "renamed", "dir/inner", "swapped/file"] {
        world.write(name, &format!("{name}\n"));
    }
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "second"]);
    world.write("edited", "more\n");
    fs::remove_file(world.path("deleted")).unwrap();
    world.write("staged", "staged\n");
    world.write("both", "staged\n");
    world.git(&["add", "staged", "both"]);
    world.write("both", "both\n");
    world.git(&["mv", "renamed", "moved"]);
    world.write("untracked dir/file", "new\n");
    world.write("ignored.log", "ignored\n");
    world.write("script", "#!/bin/sh\n");
    fs::set_permissions(world.path("script"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("edited", world.path("link")).unwrap();
    world.stories(1, "max-retries = 0");
    world
}

/// The work of the agent in both repositories.
const WORK: &str = "echo agent >>edited; rm dir/inner; echo agent >dir/new; rm -r swapped; echo now-a-file >swapped; echo agent >other.log; chmod -x script";

/// Every file of the work tree with its kind, executable bit and content.
fn files(world: &World) -> BTreeMap<String, String> {
    fn walk(dir: &Path, top: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            if path.file_name().unwrap() == ".git" {
                continue;
            }
            let name = path.strip_prefix(top).unwrap().display().to_string();
            if meta.is_dir() {
                walk(&path, top, found);
            } else if meta.is_symlink() {
                found.insert(name, format!("-> {}", fs::read_link(&path).unwrap().display()));
            } else {
                found.insert(name, format!("{} {}", meta.permissions().mode() & 0o111 != 0, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&world.repo, &world.repo, &mut found);
    found
}

/// The results that must be equal: HEAD, the history, the trees, the status, the files.
fn effect(world: &World) -> (String, Vec<String>, String, String, BTreeMap<String, String>) {
    (
        world.branch(),
        world.subjects("HEAD"),
        world.git(&["log", "--format=%T", "HEAD"]),
        world.git(&["status", "--porcelain=v2", "--ignored"]),
        files(world),
    )
}

fn sh(world: &World, script: &str) {
    let output = world.command("sh", &["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The documented commands, up to the end of the agent.
fn documented_start(world: &World) {
    sh(world, "git checkout -q -B ralph/work; git add -A; git commit -q --allow-empty -m 'initial state'");
}

#[test]
fn start_has_the_effect_of_checkout_add_and_commit() {
    let (ours, documented) = (messy(), messy());
    // An agent that does nothing leaves the repository as `start` made it.
    ours.agent("exit 0");
    ours.start(&[]).code(1);
    documented_start(&documented);
    assert_eq!(effect(&ours), effect(&documented));
}

#[test]
fn a_checkpoint_has_the_effect_of_add_and_commit() {
    let (ours, documented) = (messy(), messy());
    ours.agent(&format!("{WORK}; {COMPLETE}"));
    ours.start(&[]).code(0);
    documented_start(&documented);
    sh(&documented, WORK);
    sh(&documented, "git add -A; git commit -q --allow-empty -m 'checkpoint: 1'");
    assert_eq!(effect(&ours), effect(&documented));
}

#[test]
fn a_rollback_has_the_effect_of_reset_and_clean() {
    let (ours, documented) = (messy(), messy());
    ours.agent(&format!("{WORK}; exit 1"));
    ours.start(&[]).code(1);
    documented_start(&documented);
    sh(&documented, WORK);
    sh(&documented, "git reset -q --hard HEAD; git clean -q -fd");
    assert_eq!(effect(&ours), effect(&documented));
}

#[test]
fn an_undo_has_the_effect_of_reset_and_clean() {
    const MORE: &str = "echo two >>edited; rm both; echo two >two; mkdir -p dir; echo two >dir/inner; echo two >two.log";
    const EDITS: &str =
        "echo user >>staged; rm script; echo user >user; mkdir fresh; echo user >fresh/file; echo user >user.log; git add user";
    let (ours, documented) = (messy(), messy());
    ours.stories(2, "");
    ours.agent(&format!("if [ $RALPH_STORY = 1 ]; then {WORK}; else {MORE}; fi; {COMPLETE}"));
    ours.start(&[]).code(0);
    documented_start(&documented);
    for (number, work) in [(1, WORK), (2, MORE)] {
        sh(&documented, work);
        sh(&documented, &format!("git add -A; git commit -q --allow-empty -m 'checkpoint: {number}'"));
    }
    for world in [&ours, &documented] {
        sh(world, EDITS);
    }
    ours.ralph(&["undo"]).code(0);
    sh(&documented, "git reset -q --hard HEAD~1 && git clean -q -fd");
    assert_eq!(effect(&ours), effect(&documented));
}

#[test]
fn cleanup_has_the_effect_of_checkout_merge_squash_reset_and_branch_delete() {
    let (ours, documented) = (World::new(), World::new());
    for world in [&ours, &documented] {
        world.write("edited", "1\n");
        world.write("dir/inner", "1\n");
        world.write("swapped/file", "1\n");
        world.write("script", "1\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "second"]);
        world.stories(1, "");
    }
    ours.agent(&format!("{WORK}; {COMPLETE}"));
    ours.start(&["--finish", "cleanup"]).code(0);
    documented_start(&documented);
    sh(&documented, WORK);
    sh(&documented, "git add -A; git commit -q --allow-empty -m 'checkpoint: 1'");
    sh(&documented, "git checkout -q main; git merge -q --squash ralph/work; git reset -q HEAD; git branch -q -D ralph/work");
    assert_eq!(effect(&ours), effect(&documented));
    // Not by commit id, because the two may have been committed in different seconds.
    let branches = |world: &World| world.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert_eq!(branches(&ours), branches(&documented));
}

/// The commands that `--dry-run` prints for an isolated run, up to the first comment with that text, as a user would type them.
fn printed(plan: &str, until: &str) -> String {
    plan.lines().take_while(|line| !line.starts_with(until)).collect::<Vec<_>>().join("\n")
}

/// The results that must be equal at the start of an isolated run: the checkout, the branch, and the files of the clone.
fn isolated_effect(world: &World) -> (String, String, String, BTreeMap<String, String>, String, String) {
    let clone = world.outside("repo.ralph/work/1").display().to_string();
    (
        world.branch(),
        world.git(&["log", "--format=%T %s", "ralph/work"]),
        world.git(&["status", "--porcelain=v2", "--ignored"]),
        files(world),
        world.git(&["-C", &clone, "symbolic-ref", "HEAD"]),
        world.git(&["-C", &clone, "ls-files", "-s"]),
    )
}

#[test]
fn an_isolated_start_has_the_effect_of_a_commit_with_an_index_of_its_own_and_a_clone() {
    let (ours, documented) = (messy(), messy());
    ours.agent("exit 0");
    ours.start(&["--isolate"]).code(1);
    documented.agent("exit 0");
    let plan = documented.start(&["--isolate", "--dry-run"]).code(0).stdout;
    sh(&documented, &printed(&plan, "#"));
    let ours = isolated_effect(&ours);
    assert_eq!(ours, isolated_effect(&documented));
    assert_eq!((ours.0.as_str(), ours.4.as_str()), ("main", "refs/heads/ralph/work"));
}

#[test]
fn a_landing_on_a_branch_that_has_moved_has_the_effect_of_merge_tree_commit_tree_and_update_ref() {
    let world = World::new();
    world.change("work", "order = \"any\"\nmax-retries = 0\n[[story]]\nid = \"a\"\n[[story]]\nid = \"b\"\n");
    let at = world.outside("at").display().to_string();
    world.agent(&format!(
        "mkdir -p {at}; touch {at}/$RALPH_STORY; while test $(ls {at} | wc -l) -lt 2; do sleep 0.02; done; echo $RALPH_STORY >$RALPH_STORY; {COMPLETE}"
    ));
    world.start(&["--jobs", "2"]).code(0);
    let events = world.events();
    let last = events.iter().rev().find(|event| event["event"] == "checkpoint-landed").unwrap();
    let queued = events.iter().find(|event| event["event"] == "attempt-queued" && event["story"] == last["story"]).unwrap();
    let merged = world.git(&["merge-tree", "--write-tree", "ralph/work~1", queued["commit"].as_str().unwrap()]);
    assert_eq!(world.git(&["rev-parse", "ralph/work^{tree}"]), merged);
    assert_eq!(world.git(&["rev-parse", "ralph/work"]), last["commit"].as_str().unwrap());
    let parents = world.git(&["log", "-1", "--format=%P", "ralph/work"]);
    assert_eq!(parents, world.git(&["rev-parse", "ralph/work~1"]), "the checkpoint stands on the tip alone");
}

#[test]
fn an_isolated_cleanup_has_the_effect_of_diff_apply_and_branch_delete() {
    let (ours, documented) = (messy(), messy());
    for world in [&ours, &documented] {
        world.agent(&format!("{WORK}; {COMPLETE}"));
        world.start(&["--isolate"]).code(0);
        // The user continues to work during the run, and stages some of it.
        world.write("mine", "more\n");
        world.write("staged", "staged twice\n");
        world.git(&["add", "staged"]);
    }
    let plan = documented.ralph(&["finish", "--cleanup", "--dry-run"]).code(0).stdout;
    sh(&documented, &printed(&plan, "#"));
    ours.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(effect(&ours), effect(&documented));
    let branches = |world: &World| world.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert_eq!(branches(&ours), branches(&documented));
    assert!(ours.ralph(&["finish", "--keep", "--dry-run"]).code(2).stdout.is_empty(), "the run is over");
}

#[test]
fn the_commands_of_the_dry_run_are_the_documented_ones() {
    let page = include_str!("../../docs/git-commands.md").replace("\\|", "|");
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    let plan = world.start(&["--dry-run"]).code(0).stdout;
    world.start(&[]).code(0);
    let finish = world.ralph(&["finish", "--cleanup", "--dry-run"]).code(0).stdout;
    world.ralph(&["finish", "--keep"]).code(0);
    world.git(&["switch", "-q", "main"]);
    let isolated = world.start(&["--isolate", "--dry-run"]).code(0).stdout;
    world.start(&["--isolate", "--restart"]).code(0);
    let merge = world.ralph(&["finish", "--cleanup", "--dry-run"]).code(0).stdout;
    let keep = world.ralph(&["finish", "--keep", "--dry-run"]).code(0).stdout;
    assert_eq!(keep, "# ralph/work stays; the workspaces are removed, and this checkout is not touched\n");
    let initial = world.git(&["rev-parse", "refs/ralph/work/initial"]);
    let clones = world.repo.with_file_name("repo.ralph").display().to_string();
    for line in [plan, finish, isolated, merge].iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("git ")) {
        let line = line.replace(&clones, "../<repository>.ralph").replace(&initial[..10], "<initial state>");
        let command: String = line.replace("work", "<change>").replace("main", "<original>").replace("checkpoint: 1", "checkpoint: <id>");
        assert!(page.contains(&format!("`{command}`")), "docs/git-commands.md does not name `{command}`");
    }
}
