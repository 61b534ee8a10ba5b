//! Tests isolated runs: the agent works in a private clone beside the repository, and the user's checkout does not change.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::support::{COMPLETE, World, is_gone, send, which};

const FAILED: &str = "echo '<promise>FAILED: no</promise>'";

/// Every file of a directory with its bytes, including the user's files in the git directory.
fn everything(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(dir: &Path, top: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top).unwrap().to_owned();
            let ours = [
                ".git/ralph",
                ".git/ralph-spare",
                ".git/objects",
                ".git/refs/ralph",
                ".git/refs/heads/ralph",
                ".git/logs/refs/heads/ralph",
            ];
            if ours.iter().any(|ours| name.starts_with(ours)) {
                continue;
            }
            match path.symlink_metadata().unwrap() {
                meta if meta.is_dir() => walk(&path, top, found),
                meta if meta.is_symlink() => drop(found.insert(name, fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())),
                _ => drop(found.insert(name, fs::read(&path).unwrap())),
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(dir, dir, &mut found);
    found
}

/// A repository with a dirty checkout: a staged file, an edited one, an untracked one, an ignored one and a stash entry.
fn dirty_world() -> World {
    let world = World::new();
    world.write(".gitignore", "*.ignored\n.env\n");
    world.write("staged", "one\n");
    world.write("numbers", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.write("README", "stashed\n");
    world.git(&["stash", "-q"]);
    world.write("staged", "two\n");
    world.git(&["add", "staged"]);
    world.write("README", "edited\n");
    world.write("untracked", "mine\n");
    world.write("x.ignored", "secret\n");
    world.git(&["status", "--short"]);
    world
}

#[test]
fn the_checkout_is_byte_for_byte_the_same_whatever_the_agent_does_in_its_own_git() {
    let world = dirty_world();
    world.stories(4, "max-retries = 1");
    let git = which("git");
    world.agent(&format!(
        "cd \"$RALPH_WORKSPACE\" || exit 1
         case $RALPH_STORY in
           1) {git} for-each-ref --format='delete %(refname)' | {git} update-ref --stdin; {git} reflog expire --expire=now --all; {git} gc -q --prune=now;;
           2) rm -rf .git;;
           3) {git} config core.fsmonitor 'touch ../../evil'; {git} config alias.x y; mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch ../../evil' >.git/hooks/post-checkout; chmod +x .git/hooks/*
              {git} config filter.x.clean 'touch ../../evil; cat'; echo '* filter=x' >.git/info/attributes; {git} stash drop;;
           4) {git} clean -ffdxq; {git} checkout -qf main; {git} reset -q --hard HEAD~1;;
         esac
         echo $RALPH_STORY >story-$RALPH_STORY
         if test $RALPH_ATTEMPT = 1; then {FAILED}; else {COMPLETE}; fi"
    ));
    let before = everything(&world.repo);
    world.start(&["--isolate"]).code(0).says("all stories of work are done");
    assert_eq!(everything(&world.repo), before);
    assert!(!world.outside("evil").exists(), "nothing that an agent configured was run by git-ralph");
    for story in 1..=4 {
        assert_eq!(world.git(&["show", &format!("ralph/work:story-{story}")]), story.to_string());
    }
    assert_eq!(world.git(&["show", "ralph/work:README"]), "edited");
    assert_eq!(world.git(&["show", "ralph/work:untracked"]), "mine");
    world.git(&["fsck", "--connectivity-only"]);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "staged", "what was staged is staged");
    assert_eq!((world.read("story-4"), world.read("x.ignored"), world.branch()), ("4\n".into(), "secret\n".into(), "main".into()));
    assert_eq!(world.git(&["stash", "list"]).lines().count(), 1);
    assert!(!world.outside("repo.ralph").exists(), "the workspaces are removed");
}

#[test]
fn a_clone_has_the_users_branches_tags_remotes_and_settings_and_cannot_push() {
    let world = World::new();
    world.git(&["branch", "feature"]);
    world.git(&["tag", "v1"]);
    world.git(&["tag", "-a", "v2", "-m", "two"]);
    let bare = world.outside("remote.git");
    world.git(&["init", "-q", "--bare", bare.to_str().unwrap()]);
    world.git(&["remote", "add", "origin", bare.to_str().unwrap()]);
    world.git(&["push", "-q", "origin", "main"]);
    world.git(&["config", "core.autocrlf", "input"]);
    world.git(&["config", "alias.st", "status"]);
    world.hook("pre-commit", "exit 1");
    world.stories(1, "max-retries = 0");
    world.agent(&format!(
        "exec >\"$RALPH_RUN_DIR/seen\" 2>&1
         git for-each-ref --format='%(refname) %(objectname)'; git symbolic-ref HEAD; git config core.autocrlf; git config alias.st
         git fetch -q origin && echo fetched
         git push origin HEAD:refs/heads/evil; git push {} HEAD:refs/heads/evil
         echo x >x; git add x; git commit -qm 'no hook runs' && echo committed
         git describe --tags
         exec 1>&3; {COMPLETE}",
        bare.display()
    ));
    // git-ralph looks for the promise in the agent's own standard output.
    let script = fs::read_to_string(world.outside("bin/agent")).unwrap().replacen("exec >", "exec 3>&1; exec >", 1);
    fs::write(world.outside("bin/agent"), script).unwrap();
    world.start(&["--isolate"]).code(0);
    let seen = fs::read_to_string(world.run_dir().join("seen")).unwrap();
    for part in [
        "refs/heads/feature ",
        "refs/heads/main ",
        "refs/tags/v1 ",
        "refs/tags/v2 ",
        "refs/remotes/origin/main ",
        "refs/heads/ralph/work\n",
        "\ninput\n",
    ] {
        assert!(seen.contains(part), "{part:?} is missing in\n{seen}");
    }
    assert!(seen.contains("fetched") && seen.contains("committed") && seen.contains("v2"), "{seen}");
    assert_eq!(seen.matches("git-ralph does not let an agent push; the user pushes ralph/work from").count(), 2, "{seen}");
    assert!(!seen.contains("status\n"), "aliases stay with the user:\n{seen}");
    assert_eq!(world.git(&["ls-remote", bare.to_str().unwrap()]).lines().filter(|line| line.contains("evil")).count(), 0);
    assert_eq!(world.subjects("ralph/work")[..2], ["checkpoint: 1".to_owned(), "no hook runs".to_owned()]);
}

#[test]
fn the_user_may_edit_commit_and_switch_while_agents_work() {
    let world = dirty_world();
    world.stories(2, "max-retries = 0");
    let (repo, git) = (world.repo.display().to_string(), which("git"));
    world.agent(&format!(
        "(cd {repo}; if test $RALPH_STORY = 1; then echo by-the-user >>README; {git} add -A; {git} commit -qm 'the user commits'
         else {git} switch -q -c other; echo more >>untracked; fi)
         echo $RALPH_STORY >story-$RALPH_STORY; {COMPLETE}"
    ));
    world.start(&["--isolate"]).code(0).says("all stories of work are done");
    assert_eq!((world.branch().as_str(), world.read("untracked").as_str()), ("other", "mine\nmore\n"));
    // The run was started on main, so its result goes there.
    world
        .ralph(&["finish", "--cleanup"])
        .code(2)
        .says("this checkout is on other, and the run was started on main")
        .says("git switch main");
    world.git(&["switch", "-q", "main"]);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(
        (world.read("README"), world.read("story-1"), world.read("untracked")),
        ("edited\nby-the-user\n".into(), "1\n".into(), "mine\nmore\n".into())
    );
}

#[test]
fn a_finish_merges_into_a_dirty_checkout_and_a_conflict_changes_nothing_and_names_the_files() {
    let world = dirty_world();
    world.stories(1, "max-retries = 0");
    world.agent(&format!("sed -i 's/^1$/one/' numbers; echo new >new; rm untracked; {COMPLETE}"));
    world.start(&["--isolate"]).code(0);
    world.write("numbers", "uno\n2\n3\n4\n5\n6\n7\n8\n9\n");
    let before = everything(&world.repo);
    let output = world.ralph(&["finish", "--cleanup"]).code(2).says("conflicts with the result of the run in").says("\tnumbers");
    assert!(!output.stderr.contains("\tnew"), "{}", output.stderr);
    assert_eq!(everything(&world.repo), before);
    world.write("numbers", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.read("numbers"), "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    assert_eq!((world.read("new"), world.exists("untracked")), ("new\n".to_owned(), false));
    assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "staged");
}

#[test]
fn keep_leaves_the_branch_and_abort_leaves_the_checkout_alone() {
    for ending in ["--keep", "abort"] {
        let world = dirty_world();
        world.stories(1, "max-retries = 0");
        world.agent(&format!("echo work >work; {COMPLETE}"));
        let before = everything(&world.repo);
        world.start(&["--isolate"]).code(0);
        match ending {
            "--keep" => {
                world.ralph(&["finish", "--keep"]).code(0).says("git merge ralph/work");
                assert_eq!(world.git(&["show", "ralph/work:work"]), "work");
            }
            _ => {
                world.ralph(&["abort"]).code(0).says("refs/ralph/work/done");
                assert!(!world.has_ref("refs/heads/ralph/work"));
                assert_eq!(world.git(&["show", "refs/ralph/work/done:work"]), "work");
            }
        }
        assert_eq!(everything(&world.repo), before, "{ending}");
        assert!(!world.outside("repo.ralph").exists(), "{ending}");
    }
}

#[test]
fn the_work_of_a_failed_attempt_is_saved_and_the_next_one_starts_clean() {
    let world = World::new();
    world.stories(1, "max-retries = 1");
    world.agent(&format!(
        "if test $RALPH_ATTEMPT = 1; then echo junk >junk; git add junk; git commit -qm 'by the agent'; echo more >>README; {FAILED}
         else ls >\"$RALPH_RUN_DIR/seen\"; git status --porcelain >>\"$RALPH_RUN_DIR/seen\"; cat README >>\"$RALPH_RUN_DIR/seen\"; {COMPLETE}; fi"
    ));
    world.start(&["--isolate"]).code(0);
    assert_eq!(fs::read_to_string(world.run_dir().join("seen")).unwrap(), "README\nhello\n");
    let rescue = "refs/ralph/work/attempts/1/1";
    assert_eq!(world.git(&["show", &format!("{rescue}:README")]), "hello\nmore");
    assert_eq!(world.git(&["log", "--format=%s", &format!("{rescue}^2"), "-1"]), "by the agent");
}

#[test]
fn ignored_files_that_worktreeinclude_names_are_copied_and_setup_runs_once_per_workspace() {
    let world = World::new();
    world.write(".gitignore", ".env\nnode_modules/\ncache/\n");
    world.write(".worktreeinclude", ".env\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "rules"]);
    world.write(".env", "SECRET\n");
    world.write("app/.env", "INNER\n");
    world.write("node_modules/p/.env", "not this one\n");
    world.write("cache/big", "warm\n");
    world.git(&["config", "--add", "ralph.workspaceInclude", "cache/"]);
    let log = world.outside("log");
    world.stories(
        2,
        &format!(
            "max-retries = 0\nsetup = [\"echo $RALPH_SLOT $RALPH_ROOT $PWD >>{}; mkdir node_modules; echo i >node_modules/i\"]",
            log.display()
        ),
    );
    world.agent(&format!(
        "cat .env app/.env cache/big node_modules/i >>\"$RALPH_RUN_DIR/seen\" || exit 1; test -e node_modules/p && exit 1
         echo AGENT >.env; rm -f .gitignore; echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"
    ));
    world.start(&["--isolate"]).code(0).says("copied 3 ignored files");
    assert_eq!(fs::read_to_string(world.run_dir().join("seen")).unwrap(), "SECRET\nINNER\nwarm\ni\n".repeat(2));
    let place = world.outside("repo.ralph/work/1").canonicalize().unwrap();
    assert_eq!(fs::read_to_string(log).unwrap(), format!("0 {} {}\n", world.repo.display(), place.display()));
    let landed = world.git(&["ls-tree", "-r", "--name-only", "ralph/work"]);
    assert!(!landed.contains(".env") && !landed.contains("node_modules"), "what was ignored is committed by no one: {landed}");
    assert_eq!(world.read(".env"), "SECRET\n");
}

#[test]
fn a_setup_that_fails_stops_before_the_first_agent_and_costs_nothing() {
    let world = World::new();
    world.stories(1, "max-retries = 0\nsetup = [\"echo broken; exit 3\"]");
    world.agent(COMPLETE);
    let output =
        world.start(&["--isolate"]).code(128).says("the setup command 'echo broken; exit 3' failed").says("broken").says("setup-1");
    assert!(output.stderr.contains("git ralph resume work"), "{}", output.stderr);
    assert_eq!(world.count("attempt-started"), 0);
    world.stories(1, "max-retries = 0\nsetup = [\"true\"]");
    world.ralph(&["resume"]).code(0).says("all stories of work are done");
}

#[test]
fn workspaces_are_never_made_inside_a_repository_or_over_something_else() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    for dir in ["inside", ".git/inside"] {
        let option = format!("ralph.workspaceDir={dir}");
        let output = world.command("git", &["-c", &option, "ralph", "start", "work", "--isolate", "--", "true"]).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && words.contains("inside the repository"), "{words}");
    }
    fs::create_dir_all(world.outside("repo.ralph/work")).unwrap();
    fs::write(world.outside("repo.ralph/work/precious"), "mine").unwrap();
    world.start(&["--isolate"]).code(2).says("git-ralph did not make it");
    assert_eq!(fs::read_to_string(world.outside("repo.ralph/work/precious")).unwrap(), "mine");
    assert!(!world.has_ref("refs/heads/ralph/work"), "nothing was begun");
}

#[test]
fn commands_work_from_inside_a_workspace() {
    let world = World::new();
    world.stories(2, "max-retries = 0");
    world.agent(&format!("if test $RALPH_STORY = 2; then {FAILED}; else echo 1 >one; {COMPLETE}; fi"));
    world.start(&["--isolate"]).code(1);
    let inside = world.outside("repo.ralph/work/1");
    let ralph = |args: &[&str]| {
        let output = world.command(env!("CARGO_BIN_EXE_git-ralph"), args).current_dir(&inside).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    };
    let (code, words) = ralph(&["status"]);
    assert!(code == Some(0) && words.contains("1 of 2 stories done"), "{words}");
    assert_eq!(ralph(&["log"]).0, Some(0));
    let (code, words) = ralph(&["undo"]);
    assert!(code == Some(0) && !world.has_ref("refs/heads/ralph/work:one"), "{words}");
    let (code, words) = ralph(&["abort"]);
    assert_eq!(code, Some(0), "{words}");
    assert!(!inside.exists());
}

#[test]
fn a_run_is_resumed_and_finished_from_inside_a_workspace() {
    let world = World::new();
    world.stories(2, "max-retries = 0");
    world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
    world.start(&["--isolate", "--limit", "1"]).code(0);
    let inside = world.outside("repo.ralph/work/1");
    for (args, code) in [(&["stop"][..], 2), (&["prune", "--dry-run"], 0), (&["resume"], 0), (&["finish", "--cleanup"], 0)] {
        let output = world.command(env!("CARGO_BIN_EXE_git-ralph"), args).current_dir(&inside).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!((world.read("s1"), world.read("s2"), inside.exists()), ("1\n".to_owned(), "2\n".to_owned(), false));
}

#[test]
fn an_agent_that_deletes_or_replaces_its_workspace_harms_nothing_else() {
    let world = World::new();
    world.write("keep/me", "mine\n");
    world.stories(2, "max-retries = 1");
    world.agent(&format!(
        "if test $RALPH_ATTEMPT = 1; then
           if test $RALPH_STORY = 1; then rm -rf \"$RALPH_WORKSPACE\"; else cd /; rm -rf \"$RALPH_WORKSPACE\"; ln -s \"$RALPH_ROOT\" \"$RALPH_WORKSPACE\"; fi; {FAILED}
         else echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}; fi"
    ));
    let before = everything(&world.repo);
    world.start(&["--isolate"]).code(0);
    assert_eq!(everything(&world.repo), before);
    assert_eq!(world.git(&["show", "ralph/work:s2"]), "2");
}

#[test]
fn an_isolated_run_that_is_killed_goes_on_where_it_was() {
    let world = World::new();
    world.stories(2, "max-retries = 0");
    world.agent(&format!(
        "echo half >half; if test $RALPH_STORY$RALPH_ATTEMPT = 21; then echo $$ >{}; sleep 1000; fi; rm -f half; echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}",
        world.outside("pid").display()
    ));
    let running = world.spawn_start(&["--isolate"]);
    world.wait_for("the second agent", || {
        world.outside("pid").exists() && fs::read_to_string(world.outside("pid")).is_ok_and(|pid| pid.ends_with('\n'))
    });
    let agent = fs::read_to_string(world.outside("pid")).unwrap();
    running.signal("KILL");
    assert_eq!(running.finish().code, -9);
    world.ralph(&["resume"]).code(0).says("all stories of work are done");
    world.wait_for("the orphan's end", || is_gone(&agent));
    assert_eq!(world.git(&["show", "refs/ralph/work/attempts/2/1:half"]), "half");
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\ns1\ns2");
    let _ = send;
}

#[test]
fn two_isolated_runs_and_one_in_place_go_on_side_by_side() {
    let world = World::new();
    let go = world.outside("go");
    for name in ["one", "two", "three"] {
        world.change(name, "max-retries = 0\n[[story]]\nid = \"1\"\n");
    }
    let agent = world.program(
        "agent",
        &format!("echo $$ >>{0}.at; while ! test -e {0}; do sleep 0.02; done; echo $RALPH_CHANGE >$RALPH_CHANGE; {COMPLETE}", go.display()),
    );
    let spawn = |name: &str, isolate: bool| {
        let mut args = vec!["start", name];
        args.extend(isolate.then_some("--isolate"));
        args.extend(["--", &agent]);
        world.spawn(&args)
    };
    let runs = [spawn("one", true), spawn("two", true), spawn("three", false)];
    let at_work = || fs::read_to_string(world.outside("go.at")).map_or(0, |text| text.lines().count());
    world.wait_for("three agents", || at_work() == 3);
    world.ralph(&["status", "one"]).code(0).says("running");
    world.ralph(&["status", "three"]).code(0).says("running");
    fs::write(&go, "").unwrap();
    for run in runs {
        run.finish().code(0);
    }
    for name in ["one", "two", "three"] {
        assert_eq!(world.git(&["show", &format!("ralph/{name}:{name}")]), name);
    }
    world.ralph(&["finish", "--cleanup", "three"]).code(0);
    world.ralph(&["finish", "--cleanup", "one"]).code(0);
    world.ralph(&["finish", "--cleanup", "two"]).code(0);
    assert_eq!((world.read("one"), world.read("two"), world.read("three")), ("one\n".into(), "two\n".into(), "three\n".into()));
}

#[test]
fn a_source_is_read_from_the_branch_and_marked_there() {
    let world = World::new();
    world.write("plan.md", "# Plan\n\n## First\n\n- [ ] do a\n\n## Second\n\n- [ ] do b\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "plan"]);
    world.change("work", "source = \"plan.md\"\nmax-retries = 0\n");
    world.agent(&format!("sed -i 's/- \\[ \\]/- [x]/' plan.md; echo $RALPH_STORY >>done; {COMPLETE}"));
    let before = everything(&world.repo);
    world.start(&["--isolate"]).code(0).says("all stories of work are done");
    assert_eq!(everything(&world.repo), before);
    let plan = world.git(&["show", "ralph/work:plan.md"]);
    assert_eq!(plan.matches("[x]").count(), 2, "{plan}");
    assert_eq!(world.git(&["show", "ralph/work~1:plan.md"]).matches("[x]").count(), 1, "each story is marked when it lands");
}

#[test]
fn all_kinds_of_repositories_can_be_isolated() {
    let kinds: [(&str, &[&str]); 3] = [("sha256", &["--object-format=sha256"]), ("reftable", &["--ref-format=reftable"]), ("plain", &[])];
    let newer = world_git_knows_ref_formats();
    for (kind, options) in kinds.into_iter().filter(|(kind, _)| newer || *kind != "reftable") {
        let world = World::empty();
        world.git(&[&["init", "-q", "-b", "main"], options].concat());
        world.git(&["config", "user.name", "Test"]);
        world.git(&["config", "user.email", "test@example.com"]);
        world.write("file", "one\n");
        if kind != "sha256" {
            world.git(&["add", "-A"]);
            world.git(&["commit", "-qm", "first"]);
        }
        // With sha256, the branch is also unborn.
        world.stories(2, "max-retries = 0");
        world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; git add -A; git commit -qm own; {COMPLETE}"));
        world.start(&["--isolate"]).code(0);
        assert_eq!(world.git(&["show", "ralph/work:s2"]), "2", "{kind}");
        world.ralph(&["finish", "--cleanup"]).code(0);
        assert_eq!((world.read("s1"), world.read("s2"), world.read("file")), ("1\n".into(), "2\n".into(), "one\n".into()), "{kind}");
    }
}

fn world_git_knows_ref_formats() -> bool {
    let world = World::empty();
    world.command(&which("git"), &["init", "-q", "--ref-format=reftable", "probe"]).output().unwrap().status.success()
}

#[test]
fn shallow_partial_sparse_detached_and_linked_checkouts_can_be_isolated() {
    let origin = World::new();
    for number in 1..=3 {
        origin.write(&format!("dir{number}/file"), &format!("{number}\n"));
        origin.git(&["add", "-A"]);
        origin.git(&["commit", "-qm", &number.to_string()]);
    }
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", origin.repo.display());
    for (kind, options) in [("shallow", &["--depth=1"][..]), ("partial", &["--filter=blob:none"]), ("sparse", &["--sparse"])] {
        let mut world = World::empty();
        world.git(&[&["clone", "-q", &url, "clone"], options].concat());
        world.repo.push("clone");
        world.git(&["config", "user.name", "Test"]);
        world.git(&["config", "user.email", "test@example.com"]);
        if kind == "sparse" {
            world.git(&["sparse-checkout", "set", "dir1"]);
        } else {
            world.git(&["checkout", "-q", "--detach"]);
        }
        world.stories(2, "max-retries = 0");
        world.agent(&format!("ls -d dir* >>\"$RALPH_RUN_DIR/seen\"; git log --oneline | wc -l >>\"$RALPH_RUN_DIR/log\"; echo $RALPH_STORY >dir1/s$RALPH_STORY; {COMPLETE}"));
        world.start(&["--isolate"]).code(0);
        let seen = fs::read_to_string(world.run_dir().join("seen")).unwrap();
        assert_eq!(seen.contains("dir3"), kind != "sparse", "{kind}: {seen}");
        world.ralph(&["finish", "--cleanup"]).code(0);
        assert_eq!(world.read("dir1/s2"), "2\n", "{kind}");
        assert_eq!(world.git(&["status", "--porcelain"]), "?? dir1/s1\n?? dir1/s2", "{kind}");
    }
    // A linked work tree, and a subdirectory of it.
    let mut world = World::new();
    world.git(&["worktree", "add", "-q", "-b", "side", "../linked"]);
    world.stories(1, "max-retries = 0");
    world.agent(&format!("echo s >s; {COMPLETE}"));
    world.repo.pop();
    world.repo.push("linked");
    fs::create_dir(world.path("sub")).unwrap();
    world.repo.push("sub");
    world.start(&["--isolate"]).code(0);
    assert!(world.outside("linked.ralph/work/1/s").exists());
    world.ralph(&["finish", "--cleanup"]).code(0);
    world.repo.pop();
    assert_eq!((world.read("s"), world.branch()), ("s\n".to_owned(), "side".to_owned()));
}

#[test]
fn hooks_of_the_user_are_gates_in_a_private_clone_too() {
    let world = World::new();
    world.hook("pre-commit", "! grep -q bad work");
    world.hook("commit-msg", "echo 'Signed-off-by: hook' >>\"$1\"");
    world.git(&["config", "ralph.hooks", "true"]);
    world.stories(1, "max-retries = 1");
    world.agent(&format!("if test $RALPH_ATTEMPT = 1; then echo bad >work; else echo good >work; fi; {COMPLETE}"));
    world.start(&["--isolate"]).code(0).says("attempt 1 failed");
    assert_eq!(world.git(&["show", "ralph/work:work"]), "good");
    assert!(world.git(&["log", "-1", "--format=%B", "ralph/work"]).contains("Signed-off-by: hook"));
}

#[test]
fn edits_that_a_user_makes_in_a_workspace_between_two_commands_are_saved() {
    let world = World::new();
    world.stories(2, "max-retries = 0");
    world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
    world.start(&["--isolate", "--limit", "1"]).code(0);
    fs::write(world.outside("repo.ralph/work/1/by-hand"), "mine\n").unwrap();
    world.ralph(&["resume"]).code(0).says("saved as refs/ralph/work/moved/workspace/1");
    assert_eq!(world.git(&["show", "refs/ralph/work/moved/workspace/1:by-hand"]), "mine");
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\ns1\ns2");
    let _ = symlink::<&str, &str>;
}

#[test]
fn files_that_the_user_leaves_in_a_workspace_are_saved_when_the_run_is_closed() {
    for end in [&["finish", "--cleanup"][..], &["finish", "--keep"], &["abort"]] {
        let world = World::new();
        world.stories(2, "max-retries = 0");
        world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
        world.start(&["--isolate", "--limit", "1"]).code(0);
        let clone = world.outside("repo.ralph/work/1");
        let git = |args: &[&str]| world.git(&[&["-C", clone.to_str().unwrap()], args].concat());
        fs::write(clone.join("committed"), "first\n").unwrap();
        git(&["add", "committed"]);
        git(&["-c", "user.name=u", "-c", "user.email=u@example.com", "commit", "-qm", "by hand"]);
        fs::write(clone.join("committed"), "staged\n").unwrap();
        git(&["add", "committed"]);
        fs::write(clone.join("committed"), "last\n").unwrap();
        world.ralph(end).code(0).says("saved as refs/ralph/work/moved/workspace/1");
        assert!(!clone.exists());
        let kept = "refs/ralph/work/moved/workspace/1";
        assert_eq!(world.git(&["show", &format!("{kept}:committed")]), "last");
        let parents = world.git(&["rev-parse", &format!("{kept}^@")]);
        let versions: Vec<String> = parents.lines().skip(1).map(|parent| world.git(&["show", &format!("{parent}:committed")])).collect();
        assert!(versions.contains(&"first".to_owned()) && versions.contains(&"staged".to_owned()), "{end:?}: {versions:?}");
    }
}

#[test]
fn commits_of_a_user_on_the_branch_are_part_of_the_result_and_kept_by_an_abort() {
    for end in [&["finish", "--cleanup"][..], &["abort"]] {
        let world = World::new();
        world.stories(2, "max-retries = 0");
        world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
        world.start(&["--isolate", "--limit", "1"]).code(0);
        commit_on_branch(&world);
        world.ralph(end).code(0);
        if end[0] == "abort" {
            assert_eq!(world.git(&["show", "refs/ralph/work/moved/branch:by-hand"]), "mine");
        } else {
            assert_eq!(world.read("by-hand"), "mine\n");
        }
    }
}

#[test]
fn commits_of_a_user_after_an_undo_that_was_killed_are_kept() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
    world.start(&["--isolate"]).code(0);
    let once = world.outside("once").display().to_string();
    world.fake_git(&format!("case \"$*\" in *update-ref*) if mkdir {once} 2>/dev/null; then kill -9 $PPID; exit 1; fi;; esac"));
    world.ralph(&["undo"]).code(-9);
    commit_on_branch(&world);
    world.ralph(&["undo"]).code(0);
    assert_eq!(world.git(&["show", "refs/ralph/work/moved/branch:by-hand"]), "mine");
}

/// A commit on the run's branch, made in a linked work tree.
fn commit_on_branch(world: &World) {
    let tree = world.outside("tree");
    world.git(&["worktree", "add", "-q", tree.to_str().unwrap(), "ralph/work"]);
    fs::write(tree.join("by-hand"), "mine\n").unwrap();
    world.git(&["-C", tree.to_str().unwrap(), "add", "-A"]);
    world.git(&["-C", tree.to_str().unwrap(), "-c", "user.name=u", "-c", "user.email=u@example.com", "commit", "-qm", "by hand"]);
    world.git(&["worktree", "remove", "--force", tree.to_str().unwrap()]);
}
