//! Tests repositories inside the work tree: the user's own, which git does not look into, and submodules.

use std::fs;

use crate::support::{COMPLETE, World};

const FAILED: &str = "echo '<promise>FAILED: no</promise>'";
const IDENTITY: &str = "-c user.name=a -c user.email=a@b";

/// A world with a repository in `inner` that has a commit, a modified file, an untracked file and a stash entry.
fn with_inner() -> World {
    let world = World::new();
    world.git(&["init", "-q", "-b", "main", "inner"]);
    let inner = |args: &[&str]| world.git(&[&["-C", "inner", "-c", "user.name=a", "-c", "user.email=a@b"], args].concat());
    for text in ["one", "two"] {
        world.write("inner/f", &format!("{text}\n"));
        inner(&["add", "f"]);
        inner(&["commit", "-qm", text]);
    }
    world.write("inner/f", "stashed\n");
    inner(&["stash", "-q"]);
    world.write("inner/f", "dirty\n");
    world.write("inner/deep/new", "new\n");
    world
}

/// The state of the inner repository.
fn inner(world: &World) -> Vec<String> {
    let git = |args: &[&str]| world.git(&[&["-C", "inner"], args].concat());
    vec![
        git(&["log", "--all", "--format=%H %s"]),
        git(&["status", "--porcelain=v2", "--branch"]),
        git(&["stash", "list"]),
        git(&["fsck", "--no-dangling"]),
        world.read("inner/f"),
        world.read("inner/deep/new"),
    ]
}

/// Makes the repository an ordinary one inside the work tree, a gitlink that `.gitmodules` does not name, or an ignored one.
fn placed(world: &World, place: &str) {
    match place {
        "tracked" => {
            world.git(&["-c", "advice.addEmbeddedRepo=false", "add", "inner"]);
            world.git(&["commit", "-qm", "inner"]);
        }
        "ignored" => world.write(".git/info/exclude", "inner/\n"),
        _ => {}
    }
}

#[test]
fn an_abort_names_repositories_that_a_landed_attempt_has_left_in_the_work_tree() {
    let world = World::new();
    world.write("d/f", "one\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.git(&["init", "-q", "users"]);
    world.write("users/file", "mine\n");
    world.stories(1, "");
    world.agent(&format!("git init -q made; echo x >made/x; git init -q d; echo new >new; {COMPLETE}"));
    world.start(&[]).code(0);
    let output = world.ralph(&["abort"]).code(0).says("back on main, but not everything could be restored, see the warnings above");
    for path in ["made", "d/.git"] {
        let said = format!("{path} is a repository of its own: it did not exist before the run, and it stays where it is");
        assert!(output.stderr.contains(&said), "{path}: {}", output.stderr);
    }
    assert_eq!((world.read("made/x").as_str(), world.read("users/file").as_str()), ("x\n", "mine\n"));
    assert!(!output.stderr.contains("users"), "{}", output.stderr);
}

#[test]
fn repositories_of_the_users_come_back_whatever_a_failed_attempt_does_to_them() {
    for place in ["untracked", "tracked", "ignored"] {
        for script in [
            "rm -rf inner".to_owned(),
            "rm -rf inner/.git".to_owned(),
            "git clean -ffdxq".to_owned(),
            format!(
                "cd inner; git {IDENTITY} stash -qu; git stash clear; git reset -q --hard HEAD~1; git reflog expire --expire=now --all; git gc -q --prune=now; cd .."
            ),
            format!("cd inner; echo agents >f; git {IDENTITY} commit -qam agents; echo more >f; cd .."),
        ] {
            let world = with_inner();
            placed(&world, place);
            let before = inner(&world);
            world.stories(1, "max-retries = 1");
            world.agent(&format!("{script}; {FAILED}"));
            let output = world.start(&[]).code(1);
            assert_eq!(inner(&world), before, "{place}: {script}\n{}", output.stderr);
            // `git clean` removes no tracked path.
            if place != "tracked" || !script.starts_with("git clean") {
                output.says("inner is a repository of its own: it was");
            }
            world.ralph(&["abort"]).code(0);
            assert_eq!(inner(&world), before, "{place}: {script}");
        }
    }
}

#[test]
fn a_repository_of_the_users_that_landed_attempts_change_stays_so_until_an_abort() {
    for place in ["untracked", "tracked"] {
        let world = with_inner();
        placed(&world, place);
        let before = inner(&world);
        world.stories(2, "");
        world.agent(&format!("echo $RALPH_STORY >>inner/f; {COMPLETE}"));
        world.start(&[]).code(0).says("inner is a repository of its own: the agent changed it; a copy from before the attempt is in");
        assert_eq!(world.read("inner/f"), "dirty\n1\n2\n", "{place}");
        for (label, text) in [("start", "dirty\n"), ("2-1", "dirty\n1\n")] {
            assert_eq!(fs::read_to_string(world.run_dir().join(format!("nested-copies/{label}/inner/f"))).unwrap(), text, "{place}");
        }
        world.ralph(&["abort"]).code(0).says("it was changed and is restored");
        assert_eq!(inner(&world), before, "{place}");
        assert_eq!(fs::read_to_string(world.run_dir().join("moved/finish/inner/f")).unwrap(), "dirty\n1\n2\n", "{place}");
    }
}

#[test]
fn a_repository_of_the_users_that_a_landed_attempt_removes_comes_back() {
    let world = with_inner();
    let before = inner(&world);
    world.stories(1, "");
    world.agent(&format!("rm -rf inner; echo x >x; {COMPLETE}"));
    world.start(&[]).code(0).says("inner is a repository of its own: it was deleted and is restored");
    assert_eq!(inner(&world), before);
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\nx");
}

#[test]
fn a_repository_that_is_left_alone_is_copied_once_and_not_mentioned() {
    let world = with_inner();
    world.stories(3, "max-retries = 0");
    world.agent(&format!("git -C inner status >/dev/null; git status >/dev/null; test $RALPH_STORY = 3 && {FAILED} || {COMPLETE}"));
    let output = world.start(&[]).code(1);
    assert!(!output.stderr.contains("inner"), "{}", output.stderr);
    let copies: Vec<_> = fs::read_dir(world.run_dir().join("nested-copies")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(copies.iter().filter(|name| *name != "new").collect::<Vec<_>>(), ["start"]);
}

/// A world with a repository in `inner` that has a staged file, with the given index version and object format.
fn with_staged(version: &str, format: &str) -> World {
    let world = World::new();
    world.git(&["init", "-q", "-b", "main", &format!("--object-format={format}"), "inner"]);
    let inner = |args: &[&str]| world.git(&[&["-C", "inner", "-c", "user.name=a", "-c", "user.email=a@b"], args].concat());
    for (name, text) in [("f", "one\n"), ("deep/clean", "clean\n"), ("deep/cleaner", "cleaner\n")] {
        world.write(&format!("inner/{name}"), text);
    }
    inner(&["add", "-A"]);
    inner(&["update-index", "--index-version", version]);
    inner(&["commit", "-qm", "one"]);
    world.write("inner/f", "staged\n");
    inner(&["add", "f"]);
    world.write("inner/f", "dirty\n");
    if version == "3" {
        world.write("inner/intended", "intended\n");
        inner(&["add", "-N", "intended"]);
    }
    world.let_files_age();
    world
}

const INDEXES: [(&str, &str); 4] = [("2", "sha1"), ("3", "sha1"), ("4", "sha1"), ("4", "sha256")];

#[test]
fn content_staged_in_a_nested_repository_is_restored_after_a_failed_attempt_and_an_abort() {
    for (place, indexes) in [("untracked", &INDEXES[..]), ("ignored", &INDEXES[..1])] {
        for (version, format) in indexes {
            let world = with_staged(version, format);
            placed(&world, place);
            let staged = || world.git(&["-C", "inner", "ls-files", "-s"]);
            let before = staged();
            world.stories(1, "");
            world.agent(&format!(
                "test $RALPH_ATTEMPT = 1 && git -C inner restore --staged f && {FAILED} && exit
                 git -C inner diff --cached --quiet && {FAILED} && exit
                 git -C inner add f; echo x >x; {COMPLETE}"
            ));
            let output = world.start(&[]).code(0).says("inner is a repository of its own: it was changed and is restored");
            assert_eq!(world.count("attempt-started"), 2, "{version}, {format}: {}", output.stderr);
            assert_ne!(staged(), before, "the edit of an attempt that landed stays");
            let output = world.ralph(&["abort"]).code(0);
            assert_eq!(staged(), before, "{version}, {format}");
            assert_eq!(world.read("inner/f"), "dirty\n");
            assert!(!output.stderr.contains("there is no copy"), "{place}: {}", output.stderr);
        }
    }
}

#[test]
fn an_index_that_git_rewrites_with_the_same_content_is_no_change_of_a_repository() {
    for (version, format) in INDEXES {
        let world = with_staged(version, format);
        world.stories(1, "max-retries = 0");
        world.agent(&format!(
            "cp inner/.git/index ../before; touch -d 2001-01-01 inner/deep/clean; git -C inner status >/dev/null
             cmp -s inner/.git/index ../before || touch ../anew; {FAILED}"
        ));
        let output = world.start(&[]).code(1);
        assert!(world.outside("anew").exists(), "{version}, {format}");
        assert!(!output.stderr.contains("inner"), "{version}, {format}: {}", output.stderr);
    }
}

#[test]
fn a_repository_that_is_too_big_to_be_copied_is_named_before_the_first_attempt() {
    let world = with_inner();
    fs::write(world.path("inner/big"), vec![b'x'; 33 * 1024 * 1024]).unwrap();
    world.stories(1, "max-retries = 0");
    world.agent(&format!("rm -rf inner; {FAILED}"));
    let output = world.start(&[]).code(1).says("inner is a repository of its own: it is gone, and it was too big to copy");
    let at = |text: &str| output.stderr.find(text).unwrap_or_else(|| panic!("{text} is not in {}", output.stderr));
    assert!(at("it is too big to copy, so changes that an attempt makes there cannot be undone") < at("attempt 1"), "{}", output.stderr);
}

/// A world with a submodule in `sub`.
fn with_submodule() -> (World, World) {
    let (world, library) = (World::new(), World::new());
    world.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", library.repo.to_str().unwrap(), "sub"]);
    world.git(&["commit", "-qm", "sub"]);
    (world, library)
}

fn is_kept_in_sub(world: &World, text: &str) -> bool {
    world.git(&["-C", "sub", "log", "--all", "-p", "--format="]).lines().any(|line| line == format!("+{text}"))
}

#[test]
fn every_state_of_a_submodule_between_landed_stories_is_kept_and_an_undo_restores_it() {
    let (world, _library) = with_submodule();
    world.stories(3, "");
    world.agent(&format!("echo by-$RALPH_STORY >sub/f; {COMPLETE}"));
    world.start(&[]).code(0);
    assert_eq!(world.read("sub/f"), "by-3\n");
    for text in ["by-1", "by-2"] {
        assert!(is_kept_in_sub(&world, text), "{text}");
    }
    world.ralph(&["undo"]).code(0).says("the submodule sub is restored");
    assert_eq!(world.read("sub/f"), "by-2\n");
    assert!(is_kept_in_sub(&world, "by-3"));
    world.ralph(&["undo", "--to", "1"]).code(0);
    assert_eq!(world.read("sub/f"), "by-1\n");
    world.ralph(&["abort"]).code(0);
    assert!(!world.exists("sub/f"));
    for text in ["by-1", "by-2", "by-3"] {
        assert!(is_kept_in_sub(&world, text), "{text}");
    }
}

#[test]
fn a_second_run_leaves_what_the_first_has_rescued_in_a_submodule() {
    let (world, _library) = with_submodule();
    world.stories(1, "max-retries = 0");
    for text in ["first", "second"] {
        world.agent(&format!("echo {text} >sub/f; {FAILED}"));
        world.start(&[]).code(1).says("the submodule sub is restored");
        world.ralph(&["abort"]).code(0);
    }
    for text in ["first", "second"] {
        assert!(is_kept_in_sub(&world, text), "{text}");
    }
}

#[test]
fn files_moved_aside_are_restored_when_an_agent_deletes_the_state_of_the_run() {
    let world = with_inner();
    world.write(".git/info/exclude", ".env\n");
    world.write(".env", "SECRET\n");
    world.stories(1, "max-retries = 1");
    world.agent(&format!("test $RALPH_ATTEMPT = 2 && rm -rf .git/ralph; echo $RALPH_ATTEMPT >.env; rm -rf inner; {FAILED}"));
    world.start(&[]).code(1).says("the agent deleted or changed files of the run");
    for attempt in [1, 2] {
        assert_eq!(fs::read_to_string(world.run_dir().join(format!("moved/1-{attempt}/.env"))).unwrap(), format!("{attempt}\n"));
    }
    assert_eq!((world.read(".env"), world.read("inner/f")), ("SECRET\n".to_owned(), "dirty\n".to_owned()));
}

/// A world with a submodule in `sub` that is in no index, because the user has stashed the change that added it.
fn with_stray_submodule() -> (World, World) {
    let (world, library) = (World::new(), World::new());
    world.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", library.repo.to_str().unwrap(), "sub"]);
    world.write("sub/dirty", "mine\n");
    world.git(&["stash", "-q"]);
    assert_eq!(world.git(&["status", "--porcelain"]), "?? sub/");
    (world, library)
}

#[test]
fn a_submodule_that_only_the_stash_names_comes_back_whatever_an_attempt_does_to_it() {
    for (end, code) in [(FAILED, 1), (COMPLETE, 0)] {
        let (world, _library) = with_stray_submodule();
        world.stories(1, "max-retries = 0");
        world.agent(&format!("git clean -ffdxq; echo x >x; {end}"));
        world.start(&[]).code(code).says("the submodule sub is restored");
        assert_eq!((world.read("sub/dirty"), world.read("sub/README")), ("mine\n".to_owned(), "hello\n".to_owned()));
        world.ralph(&["abort"]).code(0);
        assert_eq!(world.git(&["-C", "sub", "status", "--porcelain"]), "?? dirty");
    }
    let (world, _library) = with_stray_submodule();
    world.stories(1, "max-retries = 0");
    world.agent(&format!("echo agents >sub/dirty; cd sub; git add -A; git {IDENTITY} commit -qm agents; {FAILED}"));
    world.start(&[]).code(1).says("the submodule sub is restored");
    assert_eq!((world.read("sub/dirty"), world.git(&["-C", "sub", "status", "--porcelain"])), ("mine\n".to_owned(), "?? dirty".to_owned()));
    assert!(is_kept_in_sub(&world, "agents"));
}

#[test]
fn a_submodule_comes_back_when_an_attempt_deletes_its_git_directory_or_puts_another_repository_in_its_place() {
    let forget = "git for-each-ref --format='delete %(refname)' | git update-ref --stdin; rm -rf logs; git gc -q --prune=now";
    for script in [
        "rm -rf .git/modules".to_owned(),
        "rm -rf .git/modules sub".to_owned(),
        "rm -f .git/modules/sub/HEAD".to_owned(),
        "rm -rf .git/modules/sub; mkdir .git/modules/sub; echo agents >.git/modules/sub/file".to_owned(),
        format!("rm -rf sub; git init -q sub; cd sub; echo agents >f; git add f; git {IDENTITY} commit -qm agents; cd .."),
        "rm -rf sub; echo agents >sub".to_owned(),
        "rm -rf sub; ln -s / sub".to_owned(),
        format!("cd .git/modules/sub; echo ref: refs/heads/none >HEAD; {forget}; cd ../../.."),
    ] {
        for (end, killed) in [(FAILED, false), ("kill -9 $PPID", true)] {
            let (world, _library) = with_submodule();
            world.git(&["-C", "sub", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "mine alone"]);
            world.write("sub/dirty", "mine\n");
            let state = |world: &World| {
                let git = |args: &[&str]| world.git(&[&["-C", "sub"], args].concat());
                (git(&["log", "--format=%H %s"]), git(&["status", "--porcelain=v2", "--branch"]), world.read("sub/dirty"))
            };
            let before = (state(&world), world.git(&["status", "--porcelain"]));
            world.stories(1, "max-retries = 0");
            world.agent(&format!("{script}; {end}"));
            let output = world.start(&[]);
            if !killed {
                assert_eq!(output.code, 1, "{script}\n{}", output.stderr);
                assert_eq!(state(&world), before.0, "{script}\n{}", output.stderr);
            }
            let output = world.ralph(&["abort"]);
            assert_eq!(output.code, 0, "{script}\n{}", output.stderr);
            assert_eq!((state(&world), world.git(&["status", "--porcelain"])), before, "{script}\n{}", output.stderr);
            world.git(&["-C", "sub", "fsck", "--no-dangling"]);
        }
    }
}

#[test]
fn a_linked_work_tree_inside_the_work_tree_comes_back_when_an_attempt_removes_it_and_is_left_alone_when_it_is_edited() {
    for (end, code) in [(FAILED, 1), (COMPLETE, 0)] {
        for script in ["rm -rf wt", "git worktree remove --force wt", "rm -rf wt; git worktree prune", "git clean -ffdxq"] {
            let world = World::new();
            world.git(&["worktree", "add", "-q", "-b", "other", "wt"]);
            world.write("wt/mine", "mine\n");
            world.write("wt/staged", "staged\n");
            world.git(&["-C", "wt", "add", "staged"]);
            let state = |world: &World| (world.git(&["-C", "wt", "status", "--porcelain=v2", "--branch"]), world.read("wt/mine"));
            let before = state(&world);
            world.stories(1, "max-retries = 0");
            world.agent(&format!("{script}; echo x >x; {end}"));
            let output = world.start(&[]).code(code).says("wt is a repository of its own: it was deleted and is restored");
            assert_eq!(state(&world), before, "{script}\n{}", output.stderr);
            world.ralph(&["abort"]).code(0);
            assert_eq!(state(&world), before, "{script}");
        }
        let world = World::new();
        world.git(&["worktree", "add", "-q", "-b", "other", "wt"]);
        world.write("wt/mine", "mine\n");
        world.stories(1, "max-retries = 0");
        world.agent(&format!("echo theirs >wt/mine; echo x >x; {end}"));
        world.start(&[]).code(code).says("wt is a repository of its own: the agent changed it; a copy from before the attempt is in");
        assert_eq!(world.read("wt/mine"), "theirs\n");
        assert_eq!(fs::read_to_string(world.run_dir().join("nested-copies/start/wt/mine")).unwrap(), "mine\n");
    }
}
