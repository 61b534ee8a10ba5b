//! Tests isolated runs in repositories with submodules and filters, with workspaces on another file system, and the cleanup of workspaces.

use std::fs;
use std::path::Path;

use crate::kill_matrix::scene::in_memory;
use crate::kill_matrix::stand_in::{arm_at, disarm, install};
use crate::support::{COMPLETE, World, which};

const FAILED: &str = "echo '<promise>FAILED: no</promise>'";

/// A repository with a submodule that has one of its own.
fn with_submodules() -> World {
    let world = World::new();
    for (name, file) in [("inner", "deep"), ("lib", "file")] {
        let top = world.outside(name);
        world.git(&["init", "-q", "-b", "main", top.to_str().unwrap()]);
        fs::write(top.join(file), "one\n").unwrap();
        let at = top.to_str().unwrap();
        if name == "lib" {
            world.git(&[
                "-C",
                at,
                "-c",
                "protocol.file.allow=always",
                "submodule",
                "--quiet",
                "add",
                world.outside("inner").to_str().unwrap(),
                "inner",
            ]);
        }
        world.git(&["-C", at, "add", "-A"]);
        world.git(&["-C", at, "-c", "user.name=T", "-c", "user.email=t@e", "commit", "-qm", "one"]);
    }
    let lib = world.outside("lib");
    world.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib.to_str().unwrap(), "libs/lib"]);
    world.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive"]);
    world.git(&["commit", "-qm", "submodule"]);
    // From here on nothing can be fetched.
    fs::remove_dir_all(lib).unwrap();
    fs::remove_dir_all(world.outside("inner")).unwrap();
    world
}

fn state_of(world: &World, path: &str) -> String {
    ["status --porcelain", "rev-parse HEAD", "symbolic-ref -q HEAD", "for-each-ref refs/heads refs/tags"]
        .map(|words| {
            let args: Vec<&str> = ["-C", path].into_iter().chain(words.split(' ')).collect();
            let output = world.command(&which("git"), &args).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        })
        .concat()
}

#[test]
fn submodules_of_the_checkout_work_in_a_private_clone_without_any_network_and_their_commits_reach_the_user() {
    let world = with_submodules();
    let git = which("git");
    world.stories(2, "max-retries = 1\nverify = [\"test -e libs/lib/file && test -e libs/lib/inner/deep\"]");
    // Story 1 fails once and leaves commits and edits in submodules; then each story commits in both.
    world.agent(&format!(
        "test \"$(cat libs/lib/file libs/lib/inner/deep | wc -l)\" = $((2*RALPH_STORY)) || exit 1
         test -z \"$({git} status --porcelain)$({git} -C libs/lib status --porcelain)\" || exit 1
         export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b
         echo $RALPH_STORY$RALPH_ATTEMPT >>libs/lib/inner/deep; {git} -C libs/lib/inner commit -qam inner-$RALPH_STORY$RALPH_ATTEMPT
         echo $RALPH_STORY$RALPH_ATTEMPT >>libs/lib/file; {git} -C libs/lib commit -qam lib-$RALPH_STORY$RALPH_ATTEMPT
         echo $RALPH_STORY >s$RALPH_STORY
         if test $RALPH_STORY$RALPH_ATTEMPT = 11; then echo loose >libs/lib/loose; {FAILED}; else {COMPLETE}; fi"
    ));
    let before = (state_of(&world, "."), state_of(&world, "libs/lib"), state_of(&world, "libs/lib/inner"));
    world.start(&["--isolate"]).code(0).says("all stories of work are done");
    let branches = |text: &str| text.replace(&world.git(&["for-each-ref", "refs/heads/ralph"]), "").trim_end().to_owned();
    assert_eq!(branches(&state_of(&world, ".")), branches(&before.0));
    assert_eq!(
        (state_of(&world, "libs/lib"), state_of(&world, "libs/lib/inner")),
        (before.1, before.2),
        "nothing of the user's is touched"
    );
    let link = world.git(&["rev-parse", "ralph/work:libs/lib"]);
    assert_eq!(world.git(&["-C", "libs/lib", "log", "--format=%s", &link]), "lib-21\nlib-12\none");
    let deep = world.git(&["-C", "libs/lib", "rev-parse", &format!("{link}:inner")]);
    assert_eq!(world.git(&["-C", "libs/lib/inner", "show", &format!("{deep}:deep")]), "one\n12\n21");
    let kept = "refs/ralph/work/submodule/1-1";
    assert_eq!(world.git(&["-C", "libs/lib", "show", &format!("{kept}:loose")]), "loose");
    assert_eq!(world.git(&["-C", "libs/lib", "log", "-1", "--format=%s", &format!("{kept}^")]), "lib-11");
    world.git(&["-C", "libs/lib", "gc", "-q", "--prune=now"]);
    world.ralph(&["finish", "--cleanup"]).code(0).says("git submodule update");
    assert_eq!(world.read("libs/lib/file"), "one\n");
    world.git(&["submodule", "--quiet", "update", "--recursive"]);
    assert_eq!((world.read("libs/lib/file"), world.read("libs/lib/inner/deep")), ("one\n12\n21\n".into(), "one\n12\n21\n".into()));
    assert!(!world.outside("repo.ralph").exists());
}

#[test]
fn an_agent_that_configures_a_submodule_has_nothing_run_by_git_ralph() {
    let world = with_submodules();
    let git = which("git");
    world.stories(1, "max-retries = 0");
    let evil = world.outside("evil");
    world.agent(&format!(
        "{git} -C libs/lib config core.fsmonitor 'touch {0}; false'; {git} -C libs/lib config core.hooksPath /nowhere; echo more >>libs/lib/file
         {git} -C libs/lib/inner config core.fsmonitor 'touch {0}; false'; echo more >>libs/lib/inner/deep; rm -f {0}; {COMPLETE}",
        evil.display()
    ));
    world.start(&["--isolate"]).code(0);
    assert!(!evil.exists());
}

#[test]
fn filters_of_the_user_work_in_a_private_clone() {
    let world = World::new();
    // Like Git LFS: git stores a pointer, and the content is elsewhere.
    let store = world.outside("store").display().to_string();
    fs::create_dir(world.outside("store")).unwrap();
    let clean = world.program(
        "clean",
        &format!("cat >{store}/new.$$; id=$(cksum <{store}/new.$$ | tr ' ' -); mv {store}/new.$$ {store}/$id; echo pointer $id"),
    );
    let smudge = world.program("smudge", &format!("read word id; cat {store}/$id"));
    world.git(&["config", "filter.big.clean", &clean]);
    world.git(&["config", "filter.big.smudge", &smudge]);
    world.git(&["config", "filter.big.required", "true"]);
    world.write(".gitattributes", "*.big filter=big\n");
    world.write("one.big", "a big file\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "big"]);
    world.stories(2, "max-retries = 0\nverify = [\"grep -q 'big file' one.big\"]");
    world.agent(&format!(
        "grep -q '^a big file' one.big || exit 1; echo $RALPH_STORY >>one.big; echo new $RALPH_STORY >new$RALPH_STORY.big
         {} add new$RALPH_STORY.big; {COMPLETE}",
        which("git")
    ));
    world.start(&["--isolate"]).code(0);
    assert!(world.git(&["cat-file", "-p", "ralph/work:one.big"]).starts_with("pointer "));
    assert!(world.git(&["cat-file", "-p", "ralph/work:new2.big"]).starts_with("pointer "));
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!((world.read("one.big"), world.read("new2.big")), ("a big file\n1\n2\n".into(), "new 2\n".into()));
}

#[test]
fn a_required_filter_that_fails_stops_an_isolated_run_before_its_first_agent_and_an_abort_is_clean() {
    let world = World::new();
    world.git(&["config", "filter.up.clean", "cat"]);
    world.git(&["config", "filter.up.smudge", "false"]);
    world.git(&["config", "filter.up.required", "true"]);
    world.write(".gitattributes", "*.f filter=up\n");
    world.write("x.f", "one\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.write("z.f", "mine\n");
    let before = world.git(&["status", "--porcelain"]);
    world.stories(1, "max-retries = 0");
    let ran = world.outside("ran");
    world.agent(&format!("touch {}; {COMPLETE}", ran.display()));
    let start = world.start(&["--isolate"]);
    start.code(128).says("x.f: smudge filter up failed");
    assert!(!ran.exists(), "no agent may start in an incomplete clone");
    world.ralph(&["abort"]).code(0);
    assert_eq!(world.git(&["status", "--porcelain"]), before);
    assert_eq!((world.read("x.f").as_str(), world.read("z.f").as_str()), ("one\n", "mine\n"));
    assert!(!world.has_ref("refs/heads/ralph/work"));
}

#[test]
fn workspaces_may_be_on_another_file_system() {
    let world = World::new();
    world.write(".gitignore", ".env\n");
    world.write(".worktreeinclude", ".env\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "rules"]);
    world.write(".env", "SECRET\n");
    let memory = in_memory();
    let elsewhere = memory.path().canonicalize().unwrap();
    world.git(&["config", "ralph.workspaceDir", elsewhere.to_str().unwrap()]);
    world.change("work", "order = \"any\"\nmax-retries = 1\nverify = [\"true\"]\n[[story]]\nid = \"1\"\n[[story]]\nid = \"2\"\n");
    // git-ralph moves files that git cannot store out of the clone, to another file system.
    world.agent(&format!(
        "test \"$(cat .env)\" = SECRET || exit 1; case $PWD in {}/*) ;; *) exit 1;; esac
         if test $RALPH_ATTEMPT = 1; then mkfifo fifo; {1} init -q nested; echo n >nested/n; {FAILED}; exit; fi
         echo $RALPH_STORY >s$RALPH_STORY; {1} add -A; {1} commit -qm own; {COMPLETE}",
        elsewhere.display(),
        which("git")
    ));
    world.start(&["--jobs", "2"]).code(0);
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), ".gitignore\n.worktreeinclude\nREADME\ns1\ns2");
    world.git(&["fsck", "--no-dangling"]);
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!((world.read("s1"), fs::read_dir(&elsewhere).map_or(0, Iterator::count)), ("1\n".to_owned(), 0));
}

/// A directory of workspaces as a killed run leaves it.
fn leftover(path: &Path, lines: [&str; 4]) {
    fs::create_dir_all(path.join("1")).unwrap();
    fs::write(path.join(".git-ralph"), lines.join("\n") + "\n").unwrap();
    fs::write(path.join("1/file"), [b'x'; 5000]).unwrap();
}

#[test]
fn prune_removes_the_workspaces_of_closed_and_unknown_runs_and_no_others() {
    let world = World::new();
    world.stories(1, "max-retries = 0");
    world.change("open", "max-retries = 0\n[[story]]\nid = \"1\"\n");
    let agent = world.agent(&format!("echo x >x; {COMPLETE}"));
    world.start(&["--isolate"]).code(0);
    let owner = fs::read_to_string(world.outside("repo.ralph/work/.git-ralph")).unwrap();
    let closed = owner.lines().nth(3).unwrap().to_owned();
    world.ralph(&["finish", "--keep"]).code(0);
    world.ralph(&["start", "open", "--isolate", "--", &agent]).code(0);
    let (top, common) = (world.repo.to_str().unwrap().to_owned(), world.path(".git").to_str().unwrap().to_owned());
    let at = |name: &str| world.outside("repo.ralph").canonicalize().unwrap().join(name);
    leftover(&at("work"), [&common, &top, "work", &closed]);
    leftover(&at("work.removing-123"), [&common, &top, "work", &closed]);
    leftover(&at("unknown"), [&common, &top, "unknown", "some-run"]);
    leftover(&at("foreign"), ["/elsewhere/.git", "/elsewhere", "work", "some-run"]);
    fs::create_dir(at("precious")).unwrap();
    fs::write(at("precious/file"), "mine").unwrap();
    std::os::unix::fs::symlink(at("unknown"), at("link")).unwrap();
    // Although its owner file names another run, this is the directory of an open run.
    let id = fs::read_to_string(at("open/.git-ralph")).unwrap();
    fs::write(at("open/.git-ralph"), id.replace(id.lines().nth(3).unwrap(), "another-run")).unwrap();
    world.ralph(&["doctor"]).says("3 left by finished and aborted runs").says("git ralph prune");
    let dry = world.ralph(&["prune", "--dry-run"]).code(0).says("private clones of a run of work, 5.").says("kB");
    for name in ["foreign", "precious", "repo.ralph/open", "link"] {
        assert!(!dry.stdout.contains(name), "{name} is in\n{}", dry.stdout);
    }
    assert!(at("work").exists());
    world.ralph(&["prune", "--yes"]).code(0).says("3 directories of private clones");
    for (name, stays) in
        [("work", false), ("work.removing-123", false), ("unknown", false), ("foreign", true), ("precious", true), ("open/1/x", true)]
    {
        assert_eq!(at(name).exists(), stays, "{name}");
    }
    world.ralph(&["abort", "open"]).code(0);
    assert!(!at("open").exists());
}

#[test]
fn an_interrupted_removal_is_completed_by_the_next_command() {
    for command in ["resume", "prune"] {
        let world = World::new();
        install(&world);
        world.stories(1, "max-retries = 0");
        world.agent(&format!("echo x >x; {COMPLETE}"));
        world.start(&["--isolate"]).code(0);
        arm_at(&world, "finish-started", "update-ref");
        world.ralph(&["finish", "--cleanup"]).code(-9);
        assert!(disarm(&world));
        let around = world.outside("repo.ralph");
        fs::rename(around.join("work"), around.join("work.removing-1")).unwrap();
        fs::remove_dir_all(around.join("work.removing-1/1/.git")).unwrap();
        if command == "prune" {
            // It belongs to a run that is still open.
            world.ralph(&["prune", "--dry-run"]).code(0).says("nothing to prune");
        }
        world.ralph(&["resume"]).code(0);
        assert!(!around.exists(), "{command}");
    }
}

/// An agent that adds a submodule with a commit and an edit of its own. A failed attempt adds it first.
#[test]
fn a_submodule_that_an_agent_adds_in_its_clone_lands_and_its_commits_are_saved() {
    let (library, world) = (World::new(), World::new());
    let git = which("git");
    world.stories(3, "max-retries = 1\nverify = [\"test ! -e failed -a ! -e sub/failed\"]");
    world.agent(&format!(
        "case $RALPH_STORY-$RALPH_ATTEMPT in
         1-1) {git} -c protocol.file.allow=always submodule add -q {lib} sub; echo x >sub/failed; echo '<promise>FAILED: no</promise>'; exit;;
         1-2) {git} -c protocol.file.allow=always submodule add -q {lib} sub || exit 1; cd sub; echo own >own; {git} add own
              {git} -c user.name=a -c user.email=a@b commit -qm 'in the submodule'; echo edit >edit; cd ..; {git} add sub;;
         2-1) ls sub >$RALPH_RUN_DIR/seen; echo 2 >two;;
         3-1) {git} rm -qrf sub; echo 3 >three;;
         esac; {COMPLETE}",
        lib = library.repo.display()
    ));
    world.start(&["--isolate"]).code(0).says("sub is a repository of its own, moved to");
    let tree = |rev: &str| world.git(&["ls-tree", "-r", "--name-only", rev]);
    assert_eq!(tree("ralph/work~2"), ".gitmodules\nREADME\nsub");
    assert_eq!(tree("ralph/work~1"), ".gitmodules\nREADME\nsub\ntwo");
    assert_eq!(tree("ralph/work"), ".gitmodules\nREADME\nthree\ntwo");
    // The commit that the checkpoint records is nowhere else.
    let recorded = world.git(&["rev-parse", "ralph/work~2:sub"]);
    assert_eq!(world.git(&["log", "-1", "--format=%s", &recorded]), "in the submodule");
    let all = world.git(&["log", "--all", "--format=%H %s"]);
    assert!(all.contains(&recorded) && all.contains("state of a submodule"), "{all}");
    world.git(&["fsck", "--no-dangling"]);
    assert_eq!(fs::read_to_string(world.run_dir().join("workspaces/1/moved/1-1/sub/failed")).unwrap(), "x\n");
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.read("three"), "3\n");
}
