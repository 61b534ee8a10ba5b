//! Tests that git-ralph finds the same differences between two trees as `git diff-tree` prints.

use std::fs;
use std::os::unix::fs::symlink;

use git_ralph::git::{Git, Head, Oid, Place, Repo};

use crate::support::World;

fn repo(world: &World) -> Repo {
    let env = world.env().iter().map(|(name, value)| (name.into(), value.into())).collect();
    let (top, git_dir) = (world.repo.clone(), world.path(".git"));
    let head = Head::Unborn { name: "refs/heads/main".to_owned() };
    Repo { git: Git::pinned(&git_dir, &top, env), place: Place { common_dir: git_dir.clone(), git_dir, top, head } }
}

/// The lines of `git diff-tree --raw`, built from what git-ralph finds.
fn found(world: &World, from: &str, to: &str) -> String {
    let (from, to): (Oid, Oid) = (from.parse().unwrap(), to.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let changes = runtime.block_on(async { repo(world).diff_trees(&from, &to).await }).unwrap();
    let line = |change: &git_ralph::git::PathChange| {
        let path = change.path.to_str().unwrap();
        format!(":{:06o} {:06o} {} {} {}\t{path}\n", change.old_mode, change.new_mode, change.old_oid, change.new_oid, change.status)
    };
    changes.iter().map(line).collect()
}

fn snapshot(world: &World) -> String {
    world.git(&["add", "-A"]);
    world.git(&["write-tree"])
}

#[track_caller]
fn same(world: &World, from: &str, to: &str) {
    for (from, to) in [(from, to), (to, from)] {
        let told = world.git(&["-c", "core.quotePath=false", "diff-tree", "-r", "--raw", "--no-renames", "--no-abbrev", from, to]);
        assert_eq!(found(world, from, to).trim_end(), told);
    }
}

#[test]
fn edits_modes_links_and_names_that_sort_oddly_differ_as_git_says() {
    let world = World::new();
    for name in ["a", "a.b", "a-b", "dir/x", "dir.x", "dir/sub/y", "deep/er/and/deeper/z", "swap/inner", "ünïcödé", "link"] {
        world.write(name, name);
    }
    let before = snapshot(&world);
    world.write("a.b", "other");
    fs::remove_file(world.path("a")).unwrap();
    world.write("a/now/a/directory", "x");
    fs::remove_dir_all(world.path("swap")).unwrap();
    world.write("swap", "now a file");
    fs::remove_dir_all(world.path("deep")).unwrap();
    fs::remove_file(world.path("link")).unwrap();
    symlink("dir/x", world.path("link")).unwrap();
    fs::set_permissions(world.path("dir/x"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world.write("dir/sub0", "new");
    let after = snapshot(&world);
    same(&world, &before, &after);
    same(&world, &world.git(&["rev-parse", "HEAD"]), &after);
    let empty = world.git(&["hash-object", "-w", "-t", "tree", "/dev/null"]);
    same(&world, &empty, &after);
}

#[test]
fn a_repository_inside_differs_as_git_says() {
    let world = World::new();
    let before = snapshot(&world);
    world.git(&["init", "-q", "inner"]);
    world.git(&["-C", "inner", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"]);
    let after = snapshot(&world);
    same(&world, &before, &after);
}
