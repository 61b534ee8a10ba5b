//! Tests how git-ralph calls the sandbox, with a fake bubblewrap; `tests/real-sandbox` tests the real one.

use std::fs;

use crate::support::{COMPLETE, World};

/// A fake bubblewrap that records its arguments, one per line, and starts the command after `--` without a sandbox.
fn stand_in(world: &World) {
    let log = world.outside("bwrap.log").display().to_string();
    world.program("bwrap", &format!("printf '%s\\n' \"$@\" >>{log}; while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\""));
}

/// A fake bubblewrap that fails as if the kernel denied it everything.
fn refused(world: &World) {
    world.program("bwrap", "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1");
}

/// The command lines with which bubblewrap was started.
fn started(world: &World) -> Vec<Vec<String>> {
    let log = fs::read_to_string(world.outside("bwrap.log")).unwrap_or_default();
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut words = log.lines().peekable();
    while let Some(word) = words.next() {
        if word == "--ro-bind" && words.peek() == Some(&"/") {
            lines.push(Vec::new());
        }
        lines.last_mut().unwrap().push(word.to_owned());
    }
    lines
}

/// Whether a command line contains these consecutive words.
fn has(line: &[String], words: &[&str]) -> bool {
    line.windows(words.len()).any(|window| window == words)
}

#[test]
fn agents_gates_and_setup_commands_are_started_by_bubblewrap() {
    let mut world = World::new();
    stand_in(&world);
    world.set_env("AWS_SECRET_ACCESS_KEY", "secret");
    for dir in [".ssh", ".cache", ".cargo/registry", "mine"] {
        fs::create_dir_all(world.outside("home").join(dir)).unwrap();
    }
    fs::write(world.outside("home/.netrc"), "").unwrap();
    world.git(&["config", "ralph.sandboxWrite", "~/mine"]);
    world.git(&["config", "ralph.passEnv", "PASSED*"]);
    world.set_env("PASSED_ON", "yes");
    world.stories(1, "setup = ['test -z \"$AWS_SECRET_ACCESS_KEY\"']\nverify = ['test -z \"$AWS_SECRET_ACCESS_KEY\"']\nsandbox = 'bwrap'");
    world.agent(&format!("test -z \"$AWS_SECRET_ACCESS_KEY\" && test $PASSED_ON = yes && {COMPLETE}"));
    world.start(&["--isolate", "--finish", "keep", "--max-retries", "0"]).code(0);
    let lines = started(&world);
    let (repo, home) = (world.repo.display().to_string(), world.outside("home").canonicalize().unwrap());
    let (workspace, at) = (format!("{repo}.ralph/work/1"), |name: &str| home.join(name).display().to_string());
    assert_eq!(lines.len(), 4, "the trial, the setup command, the agent, the gate");
    for line in &lines[1..] {
        for option in ["--unshare-user", "--unshare-pid", "--die-with-parent", "--new-session"] {
            assert!(has(line, &[option]), "{option}: {line:?}");
        }
        assert!(has(line, &["--cap-drop", "ALL"]) && has(line, &["--chdir", &workspace]));
        assert!(has(line, &["--bind", &workspace, &workspace]) && has(line, &["--ro-bind", &repo, &repo]), "{line:?}");
        assert!(has(line, &["--tmpfs", &at(".ssh")]) && has(line, &["--dev-bind", "/dev/null", &at(".netrc")]), "{line:?}");
        assert!(has(line, &["--tmpfs", &at(".local/state/git-ralph")]), "{line:?}");
        for dir in [".cache", ".cargo/registry", "mine"] {
            assert!(has(line, &["--bind", &at(dir), &at(dir)]), "{dir}: {line:?}");
        }
        assert!(!line.iter().any(|word| word == "secret"));
    }
}

#[test]
fn in_place_the_git_directory_is_read_only_and_the_learnings_are_not() {
    let world = World::new();
    stand_in(&world);
    world.stories(1, "");
    world.agent(COMPLETE);
    world.start(&["--sandbox", "--finish", "keep"]).code(0);
    let (repo, line) = (world.repo.display().to_string(), started(&world).pop().unwrap());
    let (git, learnings) = (format!("{repo}/.git"), format!("{repo}/.git/ralph/runs/work/1/learnings.md"));
    let at = |words: &[&str]| line.windows(words.len()).position(|window| window == words).unwrap_or_else(|| panic!("{words:?}: {line:?}"));
    let (tree, git, learnings) = (at(&["--bind", &repo, &repo]), at(&["--ro-bind", &git, &git]), at(&["--bind", &learnings, &learnings]));
    assert!(tree < git && git < learnings, "{line:?}");
}

#[test]
fn a_linked_work_tree_has_both_git_directories_read_only() {
    let mut world = World::new();
    stand_in(&world);
    world.stories(1, "");
    world.git(&["worktree", "add", "-q", "../linked"]);
    let main = world.repo.clone();
    world.repo = world.outside("linked").canonicalize().unwrap();
    world.agent(COMPLETE);
    world.start(&["--sandbox", "--finish", "keep"]).code(0);
    let line = started(&world).pop().unwrap();
    for path in [main.join(".git").display().to_string(), world.path(".git").display().to_string()] {
        assert!(
            has(&line, &["--ro-bind", &path, &path]) || has(&line, &["--ro-bind", main.to_str().unwrap(), main.to_str().unwrap()]),
            "{path}: {line:?}"
        );
    }
    let top = world.repo.display().to_string();
    assert!(has(&line, &["--bind", &top, &top]), "{line:?}");
}

#[test]
fn a_sandbox_that_is_asked_for_and_does_not_work_is_fatal_before_anything_is_made() {
    let world = World::new();
    refused(&world);
    world.stories(1, "");
    world.agent(COMPLETE);
    world
        .start(&["--sandbox"])
        .code(128)
        .says("fatal: the sandbox does not work here")
        .says("setting up uid map: Permission denied")
        .says("hint: ");
    world.git(&["config", "ralph.sandbox", "bwrap"]);
    world.start(&[]).code(128).says("fatal: the sandbox does not work here");
    world.ralph(&["doctor"]).code(1).says("setting up uid map: Permission denied");
    stand_in(&world);
    world.git(&["config", "ralph.sandboxWrite", "~/gone"]);
    world.start(&[]).code(128).says("ralph.sandboxWrite names").says("home/gone, which does not exist");
    assert!(!world.run_dir().exists() && !world.has_ref("refs/heads/ralph/work"));
}

#[test]
fn the_sandbox_of_another_system_is_fatal_with_the_one_of_this_system_as_the_hint() {
    let world = World::new();
    stand_in(&world);
    world.stories(1, "sandbox = 'sandbox-exec'");
    world.agent(COMPLETE);
    world
        .start(&[])
        .code(128)
        .says("fatal: the sandbox does not work here: sandbox-exec needs macOS")
        .says("hint: git ralph start --sandbox=bwrap");
    assert!(!world.run_dir().exists() && started(&world).is_empty());
    world.start(&["--sandbox=bwrap", "--finish", "keep"]).code(0);
    assert_eq!(started(&world).len(), 2, "the trial and the agent");
}

#[test]
fn auto_uses_the_sandbox_where_it_works_and_says_which_it_is() {
    let world = World::new();
    world.stories(1, "sandbox = 'auto'");
    world.agent(COMPLETE);
    refused(&world);
    world.start(&["--finish", "cleanup"]).code(0).says("warning: no sandbox: ").says("setting up uid map");
    world.ralph(&["doctor"]).says("none: ");
    stand_in(&world);
    world.start(&["--restart", "--finish", "cleanup"]).code(0).says("sandbox: bubblewrap");
    assert_eq!(started(&world).len(), 2, "the trial and the agent");
    world.start(&["--restart", "--sandbox=off", "--finish", "cleanup"]).code(0);
    assert_eq!(started(&world).len(), 2, "an option is stronger than the change file");
}

#[test]
fn a_bubblewrap_that_an_agent_could_have_written_is_passed_over() {
    let mut world = World::new();
    stand_in(&world);
    world.stories(1, "");
    let planted = world.path("tools/bwrap");
    world.write("tools/bwrap", "#!/bin/sh\ntouch ../planted\nwhile [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n");
    fs::set_permissions(&planted, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = world.env().iter().find(|(name, _)| name == "PATH").unwrap().1.clone();
    world.set_env("PATH", &format!("{}:{path}", world.path("tools").display()));
    world.agent(COMPLETE);
    world.start(&["--sandbox", "--finish", "keep"]).code(0);
    assert!(!world.outside("planted").exists() && started(&world).len() == 2);
}

#[test]
fn the_runner_is_outside_of_the_sandbox_and_sees_the_whole_environment() {
    let mut world = World::new();
    stand_in(&world);
    world.set_env("TOKEN", "secret");
    let seen = world.outside("seen").display().to_string();
    world.program("near", &format!("echo \"$TOKEN $1\" >>{seen}; exec \"$@\""));
    world.stories(1, "verify = ['test -z \"$TOKEN\"']");
    world.agent(&format!("test -z \"$TOKEN\" && {COMPLETE}"));
    world.start(&["--sandbox", "--runner", "near", "--finish", "keep", "--max-retries", "0"]).code(0);
    assert_eq!(fs::read_to_string(&seen).unwrap(), "secret sh\nsecret sh\n", "the shell that reports the start and the end");
    assert_eq!(started(&world).len(), 3, "the trial, the agent, the gate");
}

#[test]
fn hooks_as_gates_need_a_private_clone_in_the_sandbox() {
    let world = World::new();
    stand_in(&world);
    world.stories(1, "");
    world.agent(COMPLETE);
    world.git(&["config", "ralph.hooks", "true"]);
    world
        .start(&["--sandbox"])
        .code(128)
        .says("hooks cannot be run as gates in your checkout")
        .says("hint: git ralph start --isolate --sandbox");
    world.hook("commit-msg", "echo edited >>$1");
    world.start(&["--sandbox", "--isolate", "--finish", "keep"]).code(0);
    let message = world.run_dir().join("attempts/1/1/message").display().to_string();
    assert!(has(&started(&world).pop().unwrap(), &["--bind", &message, &message]));
}
