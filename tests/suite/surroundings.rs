//! Tests runs with any git configuration and on any file system: hooks, signing, filters, formats, full and read-only disks.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{COMPLETE, Output, Running, SIGNING, World, program_from_scratch, which};

/// A run with a failed and a finished story, then cleanup.
fn whole_run(world: &World) {
    world.stories(2, "");
    world.agent("echo $RALPH_STORY >s$RALPH_STORY; test $RALPH_STORY.$RALPH_ATTEMPT = 1.1 && exit 1; echo '<promise>COMPLETE</promise>'");
    world.start(&["--finish", "cleanup"]).code(0);
    assert_eq!(world.branch(), "main");
    assert_eq!((world.read("s1"), world.read("s2")), ("1\n".to_owned(), "2\n".to_owned()));
}

#[test]
fn no_hook_runs_and_none_can_stop_a_checkpoint() {
    let world = World::new();
    for name in [
        "pre-commit",
        "commit-msg",
        "prepare-commit-msg",
        "post-commit",
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "pre-auto-gc",
    ] {
        world.hook(name, "touch \"$(git rev-parse --show-toplevel)/hook-ran\"; exit 1");
    }
    whole_run(&world);
    assert!(!world.exists("hook-ran"));
}

#[test]
fn with_ralph_hooks_a_failing_hook_is_a_failed_gate() {
    let world = World::new();
    world.stories(1, "");
    world.git(&["config", "ralph.hooks", "true"]);
    world.hook(
        "pre-commit",
        "git diff --cached --name-only | grep -q bad && { echo no bad files; exit 1; }; echo formatted >formatted; exit 0",
    );
    world.hook("commit-msg", "grep -q 'checkpoint: 1' \"$1\" && echo 'Signed-by: hook' >>\"$1\"");
    world.agent(&format!("test $RALPH_ATTEMPT = 1 && touch bad; touch good; {COMPLETE}"));
    world.start(&[]).code(0).says("gate failed: git add -A && git hook run");
    assert!(world.prompt("1", 2).contains("no bad files"));
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\nformatted\ngood");
    assert_eq!(world.git(&["log", "-1", "--format=%(trailers:key=Signed-by,valueonly)", "ralph/work"]).trim(), "hook");
}

#[test]
fn a_signature_is_made_only_if_ralph_sign_says_so() {
    let world = World::new();
    world.git(&["config", "commit.gpgSign", "true"]);
    world.git(&["config", "gpg.program", &world.program("fake-gpg", "echo called >>gpg-called; exit 1")]);
    whole_run(&world);
    assert!(!world.exists("gpg-called"));
    world.git(&["config", "ralph.sign", "true"]);
    world.stories(1, "");
    world.agent(COMPLETE);
    world.start(&["--restart"]).code(128).says("gpg failed to sign");
    world.git(&["config", "gpg.program", &world.program("fake-gpg", SIGNING)]);
    world.ralph(&["resume"]).code(0);
    assert!(world.git(&["cat-file", "commit", "ralph/work"]).contains("gpgsig"));
}

#[test]
fn the_users_configuration_changes_nothing() {
    for settings in [
        &[("commit.template", "/nowhere"), ("core.editor", "false"), ("core.pager", "false"), ("commit.cleanup", "scissors")][..],
        &[("status.showUntrackedFiles", "no"), ("core.untrackedCache", "true"), ("core.quotePath", "true"), ("color.ui", "always")],
        &[("core.fsmonitor", "true"), ("core.splitIndex", "true"), ("index.version", "4"), ("feature.manyFiles", "true")],
        &[("gc.auto", "1"), ("gc.pruneExpire", "now"), ("core.ignoreStat", "true"), ("core.safecrlf", "true")],
        &[("merge.ff", "false"), ("submodule.recurse", "true"), ("core.logAllRefUpdates", "false"), ("user.useConfigOnly", "true")],
        &[("alias.add", "!false"), ("alias.commit-tree", "!false"), ("i18n.commitEncoding", "ISO-8859-1"), ("core.trustctime", "false")],
        &[("core.autocrlf", "true"), ("core.commentChar", "c"), ("diff.ignoreSubmodules", "all"), ("core.checkStat", "minimal")],
    ] {
        let world = World::new();
        for (key, value) in settings {
            world.git(&["config", key, value]);
        }
        whole_run(&world);
        let status = program_from_scratch(which("git"))
            .args([
                "-C",
                world.repo.to_str().unwrap(),
                "-c",
                "status.showUntrackedFiles=all",
                "-c",
                "color.ui=false",
                "-c",
                "core.fsmonitor=false",
                "status",
                "--porcelain",
            ])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&status.stdout), "?? s1\n?? s2\n", "{settings:?}");
    }
}

#[test]
fn a_committer_without_an_author_is_no_identity() {
    let mut world = World::new();
    for (key, value) in [("user.useConfigOnly", "true"), ("user.name", ""), ("user.email", "")] {
        world.git(&["config", key, value]);
    }
    world.git(&["config", "--unset", "user.name"]);
    world.git(&["config", "--unset", "user.email"]);
    world.set_env("GIT_COMMITTER_NAME", "Committer");
    world.set_env("GIT_COMMITTER_EMAIL", "c@example.com");
    world.stories(1, "");
    world.agent(COMPLETE);
    world.start(&["--finish", "cleanup"]).code(0).says("no name and email are configured");
}

#[test]
fn git_variables_of_the_surroundings_change_nothing() {
    let world = World::new();
    world.stories(1, "");
    let agent = world.agent(&format!("echo x >x; {COMPLETE}"));
    let elsewhere = World::new();
    let output = world
        .command(env!("CARGO_BIN_EXE_git-ralph"), &["start", "work", "--finish", "cleanup", "--", &agent])
        .env("GIT_DIR", world.path(".git"))
        .env("GIT_WORK_TREE", &world.repo)
        .env("GIT_INDEX_FILE", elsewhere.path(".git/index"))
        .env("GIT_OBJECT_DIRECTORY", world.path(".git/objects"))
        .env("GIT_PREFIX", "x/")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("main".to_owned(), "?? x".to_owned()));
    assert_eq!(elsewhere.git(&["status", "--porcelain"]), "");
}

#[test]
fn other_formats_of_repositories_work() {
    let newest = program_from_scratch(which("git")).arg("--version").output().unwrap();
    let reftable = !String::from_utf8_lossy(&newest.stdout).contains("2.39");
    for options in [&["--object-format=sha256"][..], &["--ref-format=reftable"]] {
        if options[0].contains("reftable") && !reftable {
            continue;
        }
        let world = World::empty();
        let mut args = vec!["init", "-q", "-b", "main"];
        args.extend(options);
        world.git(&args);
        world.git(&["config", "user.name", "Test"]);
        world.git(&["config", "user.email", "test@example.com"]);
        world.write("README", "hello\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "first"]);
        whole_run(&world);
        assert_eq!(world.git(&["status", "--porcelain"]), "?? s1\n?? s2");
    }
}

#[test]
fn a_users_sparse_checkout_and_filters_stay_as_they_are() {
    let world = World::new();
    world.write("in/f", "in\n");
    world.write("out/f", "out\n");
    world.write(".gitattributes", "*.up filter=up\n");
    world.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
    world.git(&["config", "filter.up.smudge", "tr A-Z a-z"]);
    world.write("x.up", "shout\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.git(&["sparse-checkout", "set", "in"]);
    assert!(!world.exists("out/f"));
    whole_run(&world);
    assert!(!world.exists("out/f"));
    assert_eq!(world.git(&["status", "--porcelain"]), "?? s1\n?? s2");
    assert_eq!(world.git(&["show", "refs/ralph/work/done:out/f"]), "out");
    assert_eq!(world.git(&["show", "refs/ralph/work/done:x.up"]), "SHOUT");
}

#[test]
fn hidden_edits_are_saved_and_stay_hidden() {
    let world = World::new();
    world.write("assumed", "1\n");
    world.write("skipped", "1\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.git(&["update-index", "--assume-unchanged", "assumed"]);
    world.git(&["update-index", "--skip-worktree", "skipped"]);
    world.write("assumed", "mine\n");
    world.write("skipped", "mine\n");
    world.stories(1, "max-retries = 0");
    world.agent("echo agent >assumed; echo agent >skipped; exit 1");
    world.start(&[]).code(1);
    assert_eq!((world.read("assumed"), world.read("skipped")), ("mine\n".to_owned(), "mine\n".to_owned()));
    world.ralph(&["abort"]).code(0);
    assert_eq!(world.git(&["ls-files", "-v"]), "H README\nh assumed\nS skipped");
    assert_eq!((world.read("assumed"), world.read("skipped")), ("mine\n".to_owned(), "mine\n".to_owned()));
}

/// A repository on a file system of its own, of the given size.
struct Mounted(World, std::path::PathBuf);

impl Mounted {
    fn new(size: &str) -> Self {
        let mut world = World::empty();
        let point = world.outside("disk");
        fs::create_dir(&point).unwrap();
        let mount = program_from_scratch("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", point.to_str().unwrap()])
            .status()
            .unwrap();
        assert!(mount.success(), "these tests mount a small file system, which only root can");
        world.repo = point.clone();
        world.git(&["init", "-q", "-b", "main"]);
        world.git(&["config", "user.name", "Test"]);
        world.git(&["config", "user.email", "test@example.com"]);
        world.write("README", "hello\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "first"]);
        Mounted(world, point)
    }

    fn remount(&self, options: &str) {
        let status = program_from_scratch("mount").args(["-o", &format!("remount,{options}"), self.1.to_str().unwrap()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = program_from_scratch("umount").args(["-l", self.1.to_str().unwrap()]).status();
    }
}

#[test]
fn a_full_disk_is_a_clear_error_and_nothing_is_lost() {
    let mounted = Mounted::new("4m");
    let world = &mounted.0;
    world.write("mine", "mine\n");
    world.stories(2, "max-retries = 0");
    world.agent(&format!(
        "test $RALPH_STORY = 1 && {{ echo one >one; {COMPLETE}; exit; }}; head -c 50000000 /dev/urandom >big 2>/dev/null; {COMPLETE}"
    ));
    world.start(&[]).code(128).says("No space left on device");
    assert_eq!((world.read("mine"), world.read("one")), ("mine\n".to_owned(), "one\n".to_owned()));
    mounted.remount("size=200m");
    world.agent(&format!("echo two >two; {COMPLETE}"));
    world.ralph(&["resume", "--finish", "cleanup"]).code(0);
    assert_eq!(world.git(&["status", "--porcelain"]), "?? mine\n?? one\n?? two");
}

#[test]
fn a_read_only_disk_is_a_clear_error_and_nothing_is_lost() {
    let mounted = Mounted::new("20m");
    let world = &mounted.0;
    world.stories(2, "");
    world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
    mounted.remount("ro");
    world.start(&[]).code(128).says("Read-only file system");
    mounted.remount("rw");
    world.start(&["--limit", "1"]).code(0);
    mounted.remount("ro");
    for args in [&["resume"][..], &["finish", "--cleanup"], &["abort"]] {
        world.ralph(args).code(128).says("Read-only file system");
    }
    world.ralph(&["status"]).code(0);
    mounted.remount("rw");
    world.ralph(&["resume", "--finish", "cleanup"]).code(0);
    assert_eq!(world.git(&["status", "--porcelain"]), "?? s1\n?? s2");
}

#[test]
fn a_repository_of_another_user_is_refused_in_gits_words() {
    let world = World::new();
    world.stories(1, "");
    let owned = program_from_scratch("chown").args(["-R", "65534:65534", world.repo.to_str().unwrap()]).status().unwrap();
    assert!(owned.success(), "only root can give files away");
    world.ralph(&["status"]).code(128).says("detected dubious ownership").says("safe.directory");
}

#[test]
fn starting_in_the_middle_of_something_is_refused_and_changes_nothing() {
    let conflict =
        "git switch -q -c side; echo side >README; git commit -qam side; git switch -q main; echo main >README; git commit -qam main;";
    for (script, words) in [
        ("git rebase side", "a rebase is under way"),
        ("git cherry-pick side", "a cherry-pick is under way"),
        ("git revert --no-edit HEAD~1", "a revert is under way"),
        ("git bisect start -q", "a bisect is under way"),
        ("git merge side; rm .git/MERGE_HEAD", "the index has conflicts"),
        ("git branch ralph/work; git worktree add -q ../elsewhere ralph/work", "is checked out at"),
    ] {
        let world = World::new();
        let _ = world.command("sh", &["-c", &format!("{conflict} {script}")]).output().unwrap();
        world.stories(1, "");
        world.agent(COMPLETE);
        let before = (world.git(&["status", "--porcelain=v2"]), world.git(&["for-each-ref"]));
        world.start(&[]).code(2).says(words);
        assert_eq!((world.git(&["status", "--porcelain=v2"]), world.git(&["for-each-ref"])), before, "{script}");
    }
}

#[test]
fn files_in_an_unreadable_directory_of_an_ordinary_user_are_restored_with_their_permissions() {
    let world = World::new();
    let chmod = |name: &str, mode: u32| fs::set_permissions(world.path(name), fs::Permissions::from_mode(mode)).unwrap();
    world.write("d/secret", "s\n");
    world.write("d/sub/s", "s\n");
    fs::create_dir_all(world.path("d/sub/empty")).unwrap();
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "d"]);
    chmod("d/secret", 0o600);
    chmod("d/sub/s", 0o600);
    world.stories(1, "max-retries = 0");
    let agent = world.agent("chmod 700 d; rm -rf d; exit 1");
    chmod("d", 0o300);
    assert_eq!(as_nobody(&world, &["start", "work", "--", &agent]).status.code(), Some(1));
    let mode = |name: &str| world.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("d/secret"), mode("d/sub/s")), (0o600, 0o600));
    assert!(world.exists("d/sub/empty"));
}

/// Runs git-ralph as an ordinary user, to whom permissions apply.
fn as_nobody(world: &World, args: &[&str]) -> std::process::Output {
    give_away(world);
    nobodys(world, args).output().unwrap()
}

/// Gives the whole world to an ordinary user, and puts git-ralph where that user may run it.
pub fn give_away(world: &World) {
    fs::copy(env!("CARGO_BIN_EXE_git-ralph"), world.outside("git-ralph")).unwrap();
    let root = world.outside("");
    assert!(
        program_from_scratch("chown").args(["-R", "65534:65534", root.to_str().unwrap()]).status().unwrap().success(),
        "only root can give files away"
    );
}

pub fn nobodys(world: &World, args: &[&str]) -> std::process::Command {
    let program = world.outside("git-ralph");
    let mut command = world.command("setpriv", &["--reuid=65534", "--regid=65534", "--clear-groups", program.to_str().unwrap()]);
    command.args(args);
    command
}

#[test]
fn read_only_and_unreadable_paths_of_an_ordinary_user_are_rescued_and_restored() {
    let world = World::new();
    world.write("d/f", "1\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "d"]);
    world.stories(1, "max-retries = 0");
    let agent = world
        .agent("echo 2 >d/f; echo new >d/new; chmod 555 d; mkdir x; echo y >x/y; chmod 000 x; echo u >unread; chmod 000 unread; exit 1");
    let output = as_nobody(&world, &["start", "work", "--", &agent]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let git = |args: &[&str]| {
        let output = program_from_scratch(which("git"))
            .args(["-c", "safe.directory=*", "-C", world.repo.to_str().unwrap()])
            .args(args)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(git(&["ls-tree", "-r", "--name-only", "refs/ralph/work/attempts/1/1"]), "README\nd/f\nd/new\nunread\nx/y\n");
    assert_eq!(
        (world.read("d/f"), world.exists("d/new"), world.exists("x"), world.exists("unread")),
        ("1\n".to_owned(), false, false, false)
    );
}

/// A world of an ordinary user with a story whose attempt fails after root has run `script` in its work tree, as a container would.
fn failing_while_root_does(script: &str) -> (World, Output) {
    let world = World::new();
    for (name, text) in [("d/f", "1\n"), ("deep/g", "1\n"), ("deep/gone", "1\n")] {
        world.write(name, text);
    }
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "files"]);
    world.git(&["config", "--global", "safe.directory", "*"]);
    world.stories(1, "max-retries = 0");
    let agent = world.agent(
        "echo 2 >d/f; echo new >d/new; chmod 555 d; touch ../ready; while ! test -e ../go; do sleep 0.05; done; echo '<promise>FAILED: no</promise>'",
    );
    give_away(&world);
    let running = Running { child: nobodys(&world, &["start", "work", "--", &agent]).spawn().unwrap() };
    world.wait_for("the agent", || world.outside("ready").exists());
    assert!(world.command("sh", &["-ec", script]).status().unwrap().success());
    fs::write(world.outside("go"), "").unwrap();
    let output = running.finish();
    (world, output)
}

fn abort_as_nobody(world: &World) -> Output {
    Running { child: nobodys(world, &["abort"]).spawn().unwrap() }.finish()
}

#[test]
fn files_of_another_owner_in_a_directory_of_an_ordinary_user_are_rescued_or_moved_aside_and_restored() {
    let (world, output) = failing_while_root_does("echo s >secret; chmod 600 secret; echo p >public; rm deep/g; echo 2 >deep/g");
    output.code(1).says("secret");
    assert_eq!((world.exists("secret"), world.exists("public"), world.read("deep/g")), (false, false, "1\n".to_owned()));
    assert_eq!((world.read("d/f"), world.exists("d/new")), ("1\n".to_owned(), false));
    assert_eq!(world.git(&["show", "refs/ralph/work/attempts/1/1:public"]), "p");
    assert_eq!(fs::read_to_string(world.run_dir().join("moved/1-1/secret")).unwrap(), "s\n");
    abort_as_nobody(&world).code(0).says("work tree and index as before the run");
    assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("main".to_owned(), String::new()));
}

#[test]
fn files_in_directories_of_another_owner_stop_neither_rollback_nor_abort_and_are_reported_with_a_command() {
    let script =
        "mkdir -p rooted/sub; echo r >rooted/sub/file; echo 2 >deep/g; echo n >deep/new; rm deep/gone; chown root deep; chmod 755 deep";
    let (world, output) = failing_while_root_does(script);
    let uid = "sudo chown -R 65534 -- deep rooted && git restore --source=";
    let output =
        output.code(1).says("because their directories belong to another user: deep/g, deep/gone, deep/new, rooted/sub/file").says(uid);
    assert_eq!((world.read("d/f"), world.exists("d/new")), ("1\n".to_owned(), false));
    assert_eq!(world.git(&["show", "refs/ralph/work/attempts/1/1:rooted/sub/file"]), "r");

    let aborted = abort_as_nobody(&world).code(0).says(uid).says("but not everything could be restored");
    assert_eq!((world.branch(), world.read("deep/g")), ("main".to_owned(), "2\n".to_owned()));
    // The suggested commands work when root types them.
    for told in [&output.stderr, &aborted.stderr] {
        let command = told.lines().find_map(|line| line.split_once("; type: ")).unwrap().1.replace("sudo ", "");
        let typed = world.command("sh", &["-ec", &command.replace("rm --", "rm -f --")]).output().unwrap();
        assert!(typed.status.success(), "{command}: {}", String::from_utf8_lossy(&typed.stderr));
        assert_eq!((world.read("deep/g"), world.read("deep/gone"), world.exists("deep/new")), ("1\n".to_owned(), "1\n".to_owned(), false));
        assert_eq!(world.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn a_directory_that_only_another_owner_may_look_into_is_named_by_rollback_and_abort_and_one_of_before_the_run_is_not() {
    let (world, output) = failing_while_root_does("mkdir closed; chmod 700 closed; echo c >closed/c");
    output.code(1).says("closed");
    abort_as_nobody(&world).code(0).says("closed");
    assert_eq!(world.read("closed/c"), "c\n");

    fs::remove_dir_all(world.outside("repo/.git/ralph/runs")).unwrap();
    let agent = world.agent("echo '<promise>FAILED: no</promise>'");
    let output = Running { child: nobodys(&world, &["start", "work", "--", &agent]).spawn().unwrap() }.finish().code(1);
    assert!(!output.stderr.contains("closed"), "{}", output.stderr);
    let output = abort_as_nobody(&world).code(0).says("work tree and index as before the run");
    assert!(!output.stderr.contains("closed"), "{}", output.stderr);
}
