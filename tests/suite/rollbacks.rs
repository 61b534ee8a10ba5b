//! Tests rollbacks and aborts in repositories that could prevent them, and untrusted content of cloned repositories.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git_ralph::git::{Git, Head, Limits, Place, RefUpdate, Repo};
use tempfile::TempDir;

use crate::support::{COMPLETE, World, which};

const FAILED: &str = "echo '<promise>FAILED: no</promise>'";

/// A file `x.f` with a required filter, whose command `clean` is on PATH, and a story with one attempt.
fn with_filter() -> World {
    let world = World::new();
    let clean = world.program("clean", "exec cat");
    world.git(&["config", "filter.up.clean", &clean]);
    world.git(&["config", "filter.up.smudge", "cat"]);
    world.git(&["config", "filter.up.required", "true"]);
    world.write(".gitattributes", "*.f filter=up\n");
    world.write("x.f", "one\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.let_files_age();
    world.git(&["status"]);
    world.stories(1, "max-retries = 0");
    world
}

/// `breaking` breaks a filter; files behind it must still be saved, rolled back and aborted.
fn survives_a_filter(world: &World, breaking: &str) {
    let clean = world.outside("bin/clean");
    world.agent(&format!("CLEAN={}; {breaking}; echo agents >x.f; echo new >new.f; echo o >README; {FAILED}", clean.display()));
    world.start(&[]).code(1).says("rolled back").says("files were saved byte for byte");
    assert_eq!((world.read("x.f"), world.read("README")), ("one\n".to_owned(), "hello\n".to_owned()), "{breaking}");
    assert!(!world.exists("new.f"), "{breaking}");
    assert_eq!(world.git(&["cat-file", "-p", "refs/ralph/work/attempts/1/1:x.f"]), "agents", "{breaking}");
    assert_eq!(world.git(&["cat-file", "-p", "refs/ralph/work/attempts/1/1:new.f"]), "new", "{breaking}");
    world.ralph(&["abort"]).code(0);
    assert_eq!((world.branch(), world.read("x.f")), ("main".to_owned(), "one\n".to_owned()), "{breaking}");
}

#[test]
fn a_clean_filter_that_fails_or_is_missing_stops_neither_rollback_nor_abort() {
    for breaking in ["printf '#!/bin/sh\\nexit 1\\n' >$CLEAN", "rm $CLEAN"] {
        survives_a_filter(&with_filter(), breaking);
    }
}

#[test]
fn a_clean_filter_that_hangs_stops_neither_rollback_nor_abort() {
    let world = with_filter();
    world.git(&["config", "ralph.gitTimeout", "10s"]);
    survives_a_filter(&world, "printf '#!/bin/sh\\nexec sleep 1000\\n' >$CLEAN");
}

#[test]
fn a_file_that_is_invalid_in_its_encoding_stops_neither_rollback_nor_abort() {
    let world = World::new();
    world.stories(1, "max-retries = 0");
    world.agent(&format!("echo '*.u working-tree-encoding=UTF-16' >.gitattributes; printf odd >b.u; echo o >README; {FAILED}"));
    world.start(&[]).code(1).says("rolled back");
    assert_eq!(world.git(&["cat-file", "-p", "refs/ralph/work/attempts/1/1:b.u"]), "odd");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_eq!(world.read("README"), "hello\n");
    world.write("b.u", "no utf-16 either");
    world.write(".gitattributes", "*.u working-tree-encoding=UTF-16\n");
    world.ralph(&["abort"]).code(0).says("files were saved byte for byte");
    assert_eq!((world.branch().as_str(), world.exists("b.u")), ("main", false));
    assert_eq!(world.git(&["cat-file", "-p", "refs/ralph/work/done:b.u"]), "no utf-16 either");
}

#[test]
fn a_checkpoint_is_never_made_of_files_that_a_filter_could_not_convert() {
    let world = with_filter();
    let clean = world.outside("bin/clean");
    let script = format!("printf '#!/bin/sh\\nexit 1\\n' >{}; echo agents >x.f; {COMPLETE}", clean.display());
    // Two cases for the rollback: git has to read the file again, or recognises it by its times.
    for agent in [World::agent, World::unhurried_agent] {
        agent(&world, &script);
        world.start(&[]).code(1).says("could not be committed as a checkpoint").says("rolled back").says("files were saved byte for byte");
        assert_eq!((world.read("x.f"), world.count("checkpoint-landed")), ("one\n".to_owned(), 0));
        world.program("clean", "exec cat");
        world.ralph(&["abort"]).code(0);
    }
}

/// A directory on another file system than the given one.
fn on_another_file_system(than: &Path) -> TempDir {
    let device = than.metadata().unwrap().dev();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounted = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let likely = [PathBuf::from("/dev/shm"), std::env::temp_dir(), "/var/tmp".into(), env!("CARGO_MANIFEST_DIR").into()];
    let elsewhere = |dir: &PathBuf| dir.metadata().is_ok_and(|meta| meta.is_dir() && meta.dev() != device);
    let mut dirs = likely.into_iter().chain(mounted).filter(elsewhere);
    let made = dirs.find_map(|dir| tempfile::Builder::new().prefix("ralph-test-").tempdir_in(dir).ok());
    made.expect("this test needs a second file system that can be written to, such as /dev/shm")
}

#[test]
fn obstacles_are_moved_aside_even_if_the_git_directory_is_on_another_file_system() {
    let world = World::empty();
    let elsewhere = on_another_file_system(&world.repo);
    let git_dir = elsewhere.path().join("git");
    world.git(&["init", "-q", "-b", "main", "--separate-git-dir", git_dir.to_str().unwrap()]);
    world.git(&["config", "user.name", "Test"]);
    world.git(&["config", "user.email", "test@example.com"]);
    world.write("README", "hello\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "first"]);
    world.stories(1, "max-retries = 0");
    world.agent(&format!("{} init -q nested; echo mine >nested/f; mkfifo README.new; mv -f README.new README; {FAILED}", which("git")));
    world.start(&[]).code(1).says("nested is a repository of its own, moved to");
    assert_eq!((world.read("README").as_str(), world.exists("nested")), ("hello\n", false));
    assert_eq!(fs::read_to_string(git_dir.join("ralph/runs/work/1/moved/1-1/nested/f")).unwrap(), "mine\n");
    world.ralph(&["abort"]).code(0);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn files_that_git_cannot_add_are_moved_aside_and_spoil_no_later_attempt() {
    let world = World::new();
    world.stories(1, "max-retries = 1");
    let first = "mkdir -p git~1 deep/.GIT; echo a >git~1/x; echo b >deep/.GIT/x";
    world.agent(&format!("if test $RALPH_ATTEMPT = 1; then {first}; {FAILED}; else echo done >done; {COMPLETE}; fi"));
    world.start(&["--finish", "keep"]).code(0).says("git could not store deep/.GIT/x; moved to");
    assert!(!world.exists("git~1") && !world.exists("deep") && world.exists("done"));
    let moved = world.run_dir().join("moved/1-1");
    assert_eq!(fs::read_to_string(moved.join("git~1/x")).unwrap(), "a\n");
    assert_eq!(fs::read_to_string(moved.join("deep/.GIT/x")).unwrap(), "b\n");
}

#[test]
fn an_abort_moves_files_that_git_cannot_add_aside_and_says_where() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    world.start(&["--finish", "ask"]);
    world.write("git~1", "precious\n");
    world.ralph(&["abort"]).code(0).says("git could not store git~1; moved to");
    assert!(!world.exists("git~1"));
    assert_eq!(fs::read_to_string(world.run_dir().join("moved/finish/git~1")).unwrap(), "precious\n");
}

#[test]
fn a_path_in_gitmodules_that_leads_out_of_the_work_tree_is_no_submodule() {
    let other = World::new();
    for path in [
        other.repo.to_str().unwrap(),
        &format!("../../{}/repo", other.repo.parent().unwrap().file_name().unwrap().to_str().unwrap()),
        "link",
    ] {
        let world = World::new();
        std::os::unix::fs::symlink(&other.repo, world.path("link")).unwrap();
        world.write(".gitmodules", &format!("[submodule \"x\"]\n\tpath = {path}\n\turl = /nowhere\n"));
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "a module"]);
        world.stories(1, "max-retries = 0");
        let git = which("git");
        world.agent(&format!("cd {}; echo theirs >>README; {git} commit -qam theirs; {FAILED}", other.repo.display()));
        world.start(&[]).code(1);
        world.ralph(&["abort"]).code(0);
        assert_eq!(other.git(&["for-each-ref", "refs/ralph"]), "", "{path}");
    }
    assert_eq!(other.subjects("main"), ["theirs", "theirs", "theirs", "first"]);
    assert_eq!(other.read("README"), "hello\ntheirs\ntheirs\ntheirs\n");
}

#[test]
fn a_repository_that_gitmodules_names_but_git_does_not_track_is_no_submodule() {
    let world = World::new();
    world.git(&["init", "-q", "mine"]);
    world.write(".gitmodules", "[submodule \"x\"]\n\tpath = mine\n\turl = /nowhere\n");
    world.write(".gitignore", "mine\n");
    world.stories(1, "max-retries = 0");
    world.agent(FAILED);
    world.start(&[]).code(1);
    assert_eq!(world.git(&["-C", "mine", "for-each-ref"]), "");
}

#[test]
fn a_hint_can_be_pasted_whatever_the_names_in_it_are() {
    let world = World::new();
    world.git(&["switch", "-qc", "f;touch$IFS-x"]);
    world.stories(1, "");
    world.agent(COMPLETE);
    world.start(&["--finish", "ask"]);
    world.git(&["branch", "-qD", "f;touch$IFS-x"]);
    let said = world.ralph(&["finish", "--cleanup"]).code(2).says("hint: git branch 'f;touch$IFS-x' ").stderr;
    let hint = said.lines().find_map(|line| line.strip_prefix("hint: git branch ")).unwrap().split("   ").next().unwrap().to_owned();
    assert!(world.command("sh", &["-c", &format!("git branch {hint}")]).output().unwrap().status.success());
    assert!(world.has_ref("refs/heads/f;touch$IFS-x"));
}

#[test]
fn writing_refs_has_no_time_limit_of_questions() {
    let world = World::new();
    let oid: git_ralph::git::Oid = world.git(&["rev-parse", "HEAD"]).parse().unwrap();
    let (git_dir, env) = (world.path(".git"), world.env().iter().map(|(name, value)| (name.into(), value.into())).collect());
    let git = Git::pinned(&git_dir, &world.repo, env).with_limits(Limits { query: Some(Duration::from_nanos(1)), work: None });
    let head = Head::Detached { oid: oid.clone() };
    let place = Place { common_dir: git_dir.clone(), git_dir, top: world.repo.clone(), head };
    let updates: Vec<RefUpdate> =
        (0..2000).map(|number| RefUpdate::Set { name: format!("refs/heads/many/{number}"), to: oid.clone() }).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Repo { git, place }.update_refs(&updates, "many")).unwrap();
    assert_eq!(world.git(&["for-each-ref", "refs/heads/many"]).lines().count(), 2000);
}

/// Breaks a repository during an attempt that fails; the rollback and the abort must restore everything.
fn survives(world: &World, breaking: &str) {
    world.stories(1, "max-retries = 0");
    world.agent(&format!("{breaking}\necho o >README; echo new >new; {FAILED}"));
    world.start(&[]).code(1).says("rolled back, 2 files saved");
    assert_eq!((world.read("README").as_str(), world.exists("new")), ("hello\n", false), "{breaking}");
    assert_eq!(world.git(&["cat-file", "-p", "refs/ralph/work/attempts/1/1:new"]), "new", "{breaking}");
    world.ralph(&["abort"]).code(0);
    assert_eq!((world.branch().as_str(), world.git(&["status", "--porcelain"]).as_str()), ("main", ""), "{breaking}");
}

const UNREADABLE: [&str; 5] = [
    "echo '[broken' >>.git/config",
    "git config core.repositoryFormatVersion 7",
    "git config core.repositoryFormatVersion 1; git config extensions.nope 1",
    "rm .git/config; mkfifo .git/config",
    "git config include.path /nonexistent/../dev/null; echo garbage >>.git/config",
];

#[test]
fn a_configuration_that_git_cannot_read_is_replaced_by_the_one_of_before_the_attempt() {
    for breaking in UNREADABLE {
        let world = World::new();
        let before = world.read(".git/config");
        survives(&world, breaking);
        assert_eq!(world.read(".git/config"), before, "{breaking}");
    }
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds an agent although git-ralph was killed before it could record it")]
#[test]
fn a_repository_that_git_refuses_after_a_kill_can_be_aborted() {
    let head = "echo garbage >.git/HEAD";
    for breaking in UNREADABLE.into_iter().chain(["git config core.bare true", head]) {
        let world = World::new();
        let before = world.read(".git/config");
        world.stories(1, "");
        world.agent(&format!("echo o >README; {breaking}; kill -9 $PPID; exec sleep 1000"));
        world.start(&[]);
        world.ralph(&["abort"]).code(0);
        assert_eq!((world.branch(), world.read("README")), ("main".to_owned(), "hello\n".to_owned()), "{breaking}");
        assert_eq!(world.read(".git/config"), before, "{breaking}");
    }
}

#[test]
fn alternates_that_an_agent_removes_come_back() {
    for (end, status) in [(FAILED, 1), (COMPLETE, 0)] {
        let world = World::new();
        let source = world.outside("source");
        world.git(&["clone", "-q", "--bare", ".", source.to_str().unwrap()]);
        world.git(&["-C", source.to_str().unwrap(), "repack", "-adq"]);
        world.write(".git/objects/info/alternates", &format!("{}/objects\n", source.display()));
        world.git(&["repack", "-adlq"]);
        world.git(&["prune-packed"]);
        world.stories(1, "max-retries = 0");
        world.agent(&format!("rm .git/objects/info/alternates; echo o >new; {end}"));
        world
            .start(&["--finish", "keep"])
            .code(status)
            .says("the agent deleted or replaced alternates in the git directory; it is restored");
        assert_eq!(world.exists("new"), status == 0);
        assert_eq!(world.subjects("main"), ["first"]);
    }
}

#[test]
fn a_ref_that_names_a_missing_object_stops_nothing() {
    let missing = "1234567890123456789012345678901234567890";
    let world = World::new();
    world.git(&["branch", "other"]);
    let hint = "to remove it, type: git update-ref -d refs/heads/bad";
    world.stories(1, "max-retries = 0");
    world.agent(&format!("echo {missing} | tee .git/refs/heads/bad >.git/refs/heads/other; echo o >README; {FAILED}"));
    world.start(&[]).code(1).says("rolled back").says(hint).says("refs/heads/other; it is restored");
    assert_eq!((world.read("README"), world.subjects("other")), ("hello\n".to_owned(), vec!["first".to_owned()]));
    world.ralph(&["abort"]).code(0);
    assert_eq!(world.branch(), "main");
}

#[test]
fn a_branch_whose_commit_was_destroyed_is_not_reported_as_restored() {
    let world = World::new();
    world.git(&["switch", "-qc", "other"]);
    world.git(&["commit", "-q", "--allow-empty", "-m", "doomed"]);
    let doomed = world.git(&["rev-parse", "HEAD"]);
    world.git(&["switch", "-q", "main"]);
    world.stories(1, "max-retries = 0");
    // The agent also deletes the hard link to the object.
    let second = "find .git/ralph-spare -name";
    world.agent(&format!(
        "rm -f .git/objects/{}/{1}; {second} '*{1}' -exec rm -f {{}} +; echo o >README; {FAILED}",
        &doomed[..2],
        &doomed[2..]
    ));
    let said = world.start(&[]).code(1).says("rolled back").says("refs/heads/other names an object that does not exist");
    assert!(!said.stderr.contains("it is back"), "{}", said.stderr);
    assert_eq!(world.read("README"), "hello\n");
    world.ralph(&["abort"]).code(0);
}

#[test]
fn a_shallow_clone_stays_one_that_git_can_read() {
    let world = World::new();
    world.git(&["commit", "-q", "--allow-empty", "-m", "second"]);
    let full = world.outside("full");
    fs::rename(&world.repo, &full).unwrap();
    let url = format!("file://{}", full.display());
    let clone = ["clone", "-q", "--depth", "1", url.as_str(), world.repo.to_str().unwrap()];
    assert!(world.command(&which("git"), &clone).current_dir(world.outside("")).status().unwrap().success());
    world.git(&["config", "user.name", "Test"]);
    world.git(&["config", "user.email", "test@example.com"]);
    survives(&world, "rm .git/shallow");
    assert_eq!(world.subjects("main"), ["second"]);
}

#[test]
fn a_branch_called_head_is_not_mistaken_for_head() {
    let world = World::new();
    world.git(&["update-ref", "refs/heads/HEAD", "HEAD"]);
    survives(&world, "git update-ref refs/tags/HEAD HEAD");
    assert!(world.has_ref("refs/heads/HEAD"));
    world.git(&["checkout", "-q", "--detach", "main"]);
    world.agent(COMPLETE);
    world.start(&["--finish", "cleanup"]).code(0);
    assert_eq!(world.read(".git/HEAD").trim_end(), world.git(&["rev-parse", "refs/heads/main"]));
}

#[test]
fn directories_that_an_agent_makes_read_only_are_usable_again() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let mode = |path: &str| world.path(path).metadata().unwrap().permissions().mode() & 0o777;
    let all = [".", ".git", ".git/objects", ".git/refs/heads", ".git/HEAD", ".git/config"];
    let before = all.map(mode);
    survives(&world, "chmod -R a-w .git; chmod 0555 .");
    assert_eq!(all.map(mode), before);
}

#[test]
fn parts_of_the_git_directory_that_are_garbage_or_of_another_kind_stop_nothing() {
    for breaking in [
        "git pack-refs --all; echo garbage >.git/packed-refs",
        "rm -rf .git/refs/heads; echo x >.git/refs/heads",
        "rm -rf .git/refs",
        "rm -rf .git/logs; echo x >.git/logs",
        "rm .git/index; mkdir .git/index",
        "echo /nonexistent >.git/commondir",
    ] {
        let world = World::new();
        world.git(&["branch", "other"]);
        survives(&world, breaking);
        assert_eq!((world.subjects("main"), world.subjects("other")), (vec!["first".to_owned()], vec!["first".to_owned()]), "{breaking}");
    }
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a directory that was moved while it was open")]
#[test]
fn a_git_directory_that_was_moved_or_replaced_is_back_in_its_place() {
    for breaking in [
        "mv .git ../moved; echo 'gitdir: /nonexistent' >.git",
        "mv .git ../moved; echo 'gitdir: ../moved' >.git",
        "mv .git ../moved",
        "mv .git ../moved; git init -q .",
    ] {
        let world = World::new();
        survives(&world, breaking);
        assert!(world.path(".git").is_dir() && !world.outside("moved").exists(), "{breaking}");
    }
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a directory that was moved while it was open")]
#[test]
fn a_work_tree_that_was_moved_is_back_and_no_other_directory_is_taken_for_it() {
    for (in_its_place, verdict, code) in [
        ("ln -s other repo", COMPLETE, 0),
        ("ln -s other repo", FAILED, 1),
        ("mkdir repo; echo x >repo/x", FAILED, 1),
        ("true", COMPLETE, 0),
    ] {
        let world = World::new();
        world.stories(1, "max-retries = 0");
        fs::create_dir(world.outside("other")).unwrap();
        fs::write(world.outside("other/README"), "precious\n").unwrap();
        world.write("mine", "mine\n");
        world.agent(&format!("echo work >work; cd ..; mv repo moved; {in_its_place}; {verdict}"));
        world.start(&[]).code(code).says("the agent moved the work tree to");
        assert_eq!(fs::read_to_string(world.outside("other/README")).unwrap(), "precious\n", "{in_its_place}");
        assert_eq!(fs::read_dir(world.outside("other")).unwrap().count(), 1, "{in_its_place}");
        assert_eq!((world.read("mine").as_str(), world.read("README").as_str()), ("mine\n", "hello\n"), "{in_its_place}");
        assert_eq!(world.path("work").exists(), code == 0, "{in_its_place}");
        world.ralph(&["abort"]).code(0);
        assert_eq!(world.git(&["status", "--porcelain"]), "?? mine", "{in_its_place}");
    }
}

#[test]
fn edits_within_a_second_that_keep_size_and_times_are_landed_as_the_gates_saw_them_and_rolled_back() {
    for options in [&[][..], &["--isolate"]] {
        let world = World::new();
        world.stories(7, "max-retries = 0\nverify = ['grep -q $RALPH_STORY keep']");
        world.write("keep", "0\n");
        world.agent(&format!("echo $RALPH_STORY >keep; touch -d 2020-01-01 keep; test $RALPH_STORY = 7 && {FAILED} || {COMPLETE}"));
        world.start(options).code(1);
        for story in 1..7 {
            let commit = world.git(&["log", "--format=%H", &format!("--grep=^checkpoint: {story}$"), "ralph/work"]);
            assert_eq!(world.git(&["show", &format!("{commit}:keep")]), story.to_string(), "{options:?}");
        }
        assert_eq!(world.git(&["show", "refs/ralph/work/attempts/7/1:keep"]), "7", "{options:?}");
        assert_eq!(world.read("keep"), if options.is_empty() { "6\n" } else { "0\n" }, "{options:?}");
    }
}

#[test]
fn a_git_directory_that_was_deleted_is_named() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("rm -rf .git; {FAILED}"));
    world.start(&[]).code(128).says("the agent deleted the git directory");
}

#[test]
fn an_abort_does_not_claim_that_a_moved_branch_is_unchanged() {
    let world = World::new();
    world.stories(1, "max-retries = 0");
    world.agent(&format!("git checkout -q main; echo m >m; git add m; git commit -qm moved; git checkout -q ralph/work; {FAILED}"));
    world.start(&[]).code(1);
    let tip = world.git(&["rev-parse", "main"]);
    let said = world.ralph(&["abort"]).code(0).says(&format!("which has moved to {}", &tip[..10]));
    assert!(!said.stderr.contains("everything as before"), "{}", said.stderr);
}

#[test]
fn a_source_that_is_a_link_out_of_the_repository_is_neither_read_nor_written() {
    let world = World::new();
    let secret = world.outside("secret");
    fs::write(&secret, "## 1. SECRET\n\n- [ ] 1.1 SECRET\n").unwrap();
    for (link, target) in [("tasks.md", secret.as_path()), ("proposal.md", &secret), ("proposal.md", &world.path(".git/config"))] {
        let _ = fs::remove_dir_all(world.path("openspec"));
        world.write("openspec/changes/x/tasks.md", "## 1. One\n\n- [ ] 1.1 Do it\n");
        world.write("openspec/changes/x/proposal.md", "why\n");
        fs::remove_file(world.path(&format!("openspec/changes/x/{link}"))).unwrap();
        std::os::unix::fs::symlink(target, world.path(&format!("openspec/changes/x/{link}"))).unwrap();
        let agent = world.agent(COMPLETE);
        let words = format!("openspec/changes/x/{link} is a link that leads out of the work tree");
        world.ralph(&["start", "x", "--", &agent]).code(128).says(&words);
    }
    assert_eq!(fs::read_to_string(secret).unwrap(), "## 1. SECRET\n\n- [ ] 1.1 SECRET\n");
}

#[test]
fn a_repository_that_a_failed_attempt_makes_of_a_tracked_directory_is_moved_away_and_one_of_the_users_stays() {
    if World::is_in_place_only("a clone is removed with the run") {
        return;
    }
    let world = World::new();
    for file in ["d/f", "e/deep/f", "mine/f"] {
        world.write(file, "tracked\n");
    }
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.git(&["init", "-q", "mine"]);
    world.stories(1, "max-retries = 1");
    world.agent(&format!(
        "test $RALPH_ATTEMPT = 2 && {{ echo x >d/new; {COMPLETE}; exit; }}; git init -q d; echo kept >d/.git/note; git init -q e/deep; {FAILED}"
    ));
    world.start(&["--finish", "keep"]).code(0).says("d/.git is a repository of its own, moved to").says("e/deep/.git is a repository");
    assert!(!world.exists("d/.git") && !world.exists("e/deep/.git") && world.path("mine/.git").is_dir());
    assert_eq!(fs::read_to_string(world.run_dir().join("moved/1-1/d/.git/note")).unwrap(), "kept\n");
    assert_eq!(world.git(&["-C", "d", "rev-parse", "--show-prefix"]), "d/");
}

#[test]
fn no_kind_of_source_is_read_through_a_link_or_a_linked_directory_that_leaves_the_tree() {
    let world = World::new();
    let outside = world.outside("out");
    fs::create_dir(&outside).unwrap();
    let files = [
        ("tasks.md", "# Plan\n\n- [ ] SECRET\n"),
        ("plan.md", "# Plan\n\n- [ ] SECRET\n"),
        (
            "prd.json",
            r#"{"userStories":[{"id":"1","title":"SECRET","description":"","acceptanceCriteria":[],"priority":1,"passes":false}]}"#,
        ),
    ];
    for (name, text) in files {
        fs::write(outside.join(name), text).unwrap();
        std::os::unix::fs::symlink(outside.join(name), world.path(name)).unwrap();
    }
    std::os::unix::fs::symlink(&outside, world.path("docs")).unwrap();
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "links"]);
    world.agent(&format!("cat >../prompt; {COMPLETE}"));
    for source in ["tasks.md", "plan.md", "prd.json", "docs/tasks.md", "docs/prd.json", "./docs/plan.md", "docs"] {
        let said = "is a link that leads out of the work tree";
        world.ralph(&["new", "made", "--from", source]).code(128).says(said);
        world.change("work", &format!("source = \"{source}\"\n"));
        world.start(&[]).code(128).says(said);
        assert!(!world.outside("prompt").exists(), "{source}");
    }
    for (name, text) in files {
        assert_eq!(fs::read_to_string(outside.join(name)).unwrap(), text, "{name}");
    }
}

#[test]
fn a_source_that_an_agent_makes_a_link_is_not_written_through() {
    let world = World::new();
    let target = world.outside("target");
    fs::write(&target, "# Plan\n\n- [ ] one\n- [ ] two\n").unwrap();
    world.write("TODO.md", "# Plan\n\n- [ ] one\n- [ ] two\n");
    world.change("work", "source = \"TODO.md\"\nmax-retries = 0\n");
    world.agent(&format!("ln -sf {} TODO.md; {COMPLETE}", target.display()));
    world.start(&["--limit", "1", "--finish", "keep"]);
    assert_eq!(fs::read_to_string(&target).unwrap(), "# Plan\n\n- [ ] one\n- [ ] two\n");
}

#[test]
fn copies_of_files_that_are_for_their_owner_alone_are_so_too() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let private = |path: &str| fs::set_permissions(world.path(path), fs::Permissions::from_mode(0o600)).unwrap();
    world.write(".gitattributes", "* text=auto\n");
    world.write(".gitignore", ".env\n");
    world.write(".env", "SECRET\n");
    world.write("mine", "SECRET\r\n");
    world.write("TODO.md", "# SECRET\n\n- [ ] one\n");
    world.hook("pre-push", "SECRET");
    world.git(&["config", "http.extraHeader", "SECRET"]);
    for path in [".env", "mine", "TODO.md", ".git/config", ".git/hooks/pre-push"] {
        private(path);
    }
    world.change("work", "source = \"TODO.md\"\nmax-retries = 0\n");
    world.agent(&format!("for f in .env mine TODO.md .git/config .git/hooks/pre-push; do echo '# SECRET' >>$f; done; {FAILED}"));
    world.start(&[]).code(1);
    let mut copies = 0;
    let mut dirs = vec![world.path(".git/ralph")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                // Other users cannot read anything inside a directory that is closed to them.
                dirs.extend((meta.mode() & 0o077 != 0).then(|| entry.path()));
            } else if fs::read(entry.path()).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains("SECRET")) {
                let journal = entry.file_name() == "journal.jsonl";
                assert!(journal || meta.mode() & 0o077 == 0, "{} can be read by others", entry.path().display());
                copies += 1;
            }
        }
    }
    assert!(copies >= 4, "only {copies} copies were found");
}

#[test]
fn a_branch_that_moves_on_is_not_set_back_when_git_is_killed_while_it_is_asked() {
    let world = World::new();
    world.git(&["branch", "topic"]);
    world.stories(1, "max-retries = 0");
    let script = "git update-ref refs/heads/topic $(git commit-tree topic^{tree} -p topic -m more)";
    world.agent(&format!("{script}; echo '<promise>FAILED: no</promise>'"));
    world.fake_git("case \"$*\" in *--is-ancestor*) mkdir \"$(dirname $0)/once\" 2>/dev/null && kill -9 $$;; esac");
    world.start(&[]).code(128).says("was killed by signal 9");
    let output = world.ralph(&["resume"]).code(1);
    assert!(!output.stderr.contains("rewrote"), "{}", output.stderr);
    assert_eq!(world.subjects("topic"), ["more", "first"]);
}

#[test]
fn objects_that_an_attempt_deletes_moves_or_overwrites_are_restored_and_no_branch_is_reported_as_broken() {
    let replace = |files: &str| format!("for file in {files}; do rm -f $file; echo garbage >$file; done");
    let scripts = [
        "rm -rf .git/objects".to_owned(),
        "mv .git/objects .git/objects.away; echo x >.git/objects".to_owned(),
        "rm -rf .git/objects/pack".to_owned(),
        replace(".git/objects/pack/*"),
        replace(".git/objects/[0-9a-f][0-9a-f]/*"),
    ];
    for (script, is_packed) in scripts.iter().flat_map(|script| [(script, false), (script, true)]) {
        for (end, code) in [("echo '<promise>FAILED: no</promise>'", 1), (COMPLETE, 0), ("kill -9 $PPID", -9)] {
            let world = World::new();
            world.write("README", "dirty\n");
            if is_packed {
                world.git(&["gc", "-q"]);
            }
            world.stories(1, "max-retries = 0");
            world.agent(&format!("{script}; echo x >x; {end}"));
            let started = world.start(&[]).code(code);
            let aborted = world.ralph(&["abort"]).code(0).says("work tree and index as before the run");
            for output in [&started, &aborted] {
                assert!(!output.stderr.contains("does not exist"), "{script}\n{}", output.stderr);
            }
            world.git(&["fsck", "--no-dangling"]);
            assert_eq!((world.branch(), world.read("README")), ("main".to_owned(), "dirty\n".to_owned()), "{script}");
            assert_eq!(world.git(&["show", "refs/ralph/work/done:README"]), "dirty", "{script}");
        }
    }
}
