//! Tests `doctor`: every problem is shown in red with the command that fixes it, and `start` fails because of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{COMPLETE, World};

fn healthy() -> World {
    let world = World::new();
    world.stories(1, "verify = ['true']");
    world.git(&["config", "ralph.mine.cmd", &format!("cat >/dev/null; {COMPLETE}")]);
    world.git(&["config", "ralph.agent", "mine"]);
    world
}

#[test]
fn a_healthy_repository_passes_every_check_and_a_start_works() {
    let world = healthy();
    let text = world.ralph(&["doctor"]).code(0).stdout;
    for line in [
        "ok  git ",
        "ok  repository",
        "ok  identity",
        "ok  hooks",
        "ok  signing",
        "ok  disk",
        "ok  settings",
        "ok  change work",
        "ok  gates of work",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(text.contains("test <test@example.com>") || text.contains("Test <test@example.com>"), "{text}");
    world.ralph(&["start", "work", "--finish", "cleanup"]).code(0);
}

/// Each case breaks a healthy repository; `doctor` reports the problem and the fix, and `start` fails too.
#[test]
fn doctor_reports_every_problem_that_would_stop_a_start_with_its_fix() {
    type Harm<'a> = &'a dyn Fn(&World);
    let cases: &[(&str, Harm<'_>, &str, &str)] = &[
        (
            "a merge",
            &|world| _ = fs::copy(world.path(".git/refs/heads/main"), world.path(".git/MERGE_HEAD")).unwrap(),
            "a merge is under way",
            "git status",
        ),
        ("a branch", &|world| drop(world.git(&["branch", "ralph"])), "a branch named 'ralph' is in the way", "git branch -m ralph"),
        (
            "a setting",
            &|world| drop(world.git(&["config", "ralph.maxRetries", "x"])),
            "bad value for ralph.maxRetries in local",
            "git config --edit",
        ),
        (
            "an agent",
            &|world| drop(world.git(&["config", "ralph.agent", "nobody"])),
            "there is no agent 'nobody'",
            "git config ralph.agent",
        ),
        ("a change file", &|world| world.change("work", "titel = 'x'\n"), "did you mean 'title'?", "edit .git/ralph/work.toml"),
        ("the agent of the change", &|world| world.stories(1, "agent = 'nobody'"), "there is no agent 'nobody'", ""),
        ("the command of the change", &|world| world.stories(1, "command = ['./nope']"), "./nope", ""),
        (
            "a ref",
            &|world| drop(world.git(&["update-ref", "refs/ralph/work", "HEAD"])),
            "the ref 'refs/ralph/work' is in the way",
            "git branch",
        ),
        (
            "a program",
            &|world| drop(world.git(&["config", "ralph.mine.cmd", "no-such-program-here --go"])),
            "its program is not installed",
            "git config ralph.mine.cmd",
        ),
    ];
    for (case, sicken, found, fix) in cases {
        let world = healthy();
        sicken(&world);
        let output = world.ralph(&["doctor"]).code(1);
        let lines: Vec<&str> = output.stdout.lines().collect();
        let red =
            lines.windows(2).any(|pair| pair[0].starts_with("!!") && pair[0].contains(found) && pair[1].contains(&format!("fix: {fix}")));
        assert!(red, "{case}: {}", output.stdout);
        let start = world.ralph(&["start", "work", "--finish", "cleanup"]);
        assert!([2, 128].contains(&start.code), "{case}: {start:?}");
    }
}

#[test]
fn doctor_reports_whether_checkpoints_use_hooks_and_signing() {
    let world = healthy();
    world.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    fs::set_permissions(world.path(".git/hooks/pre-commit"), fs::Permissions::from_mode(0o755)).unwrap();
    world.git(&["config", "commit.gpgSign", "true"]);
    let output = world.ralph(&["doctor"]).code(0);
    let output = output.says("pre-commit: checkpoints do not run them").says("commit.gpgSign is set, but checkpoints are not signed");
    drop(output);
    world.git(&["config", "ralph.hooks", "true"]);
    world.git(&["config", "ralph.sign", "true"]);
    world.git(&["config", "gpg.program", "false"]);
    let objects = || world.git(&["count-objects"]);
    let before = objects();
    let output = world.ralph(&["doctor"]).code(1);
    output.says("pre-commit and commit-msg are gates").says("a trial signature failed").says("fix: git config user.signingKey");
    assert_eq!(objects(), before, "the trial leaves nothing behind");
    world.program("signs", "cat >/dev/null; printf '\\n[GNUPG:] SIG_CREATED \\n' >&2; echo '-----BEGIN PGP SIGNATURE-----'; echo x; echo '-----END PGP SIGNATURE-----'");
    world.git(&["config", "gpg.program", "signs"]);
    world.ralph(&["doctor"]).code(0).says("a trial signature worked");
}

#[test]
fn a_gate_whose_program_is_missing_fails() {
    let world = healthy();
    world.stories(1, "verify = ['./check.sh --fast', 'cd . && true', 'FOO=1 true']");
    world.ralph(&["doctor"]).code(1).says("'./check.sh --fast': there is no './check.sh'");
    world.write("check.sh", "#!/bin/sh\n");
    fs::set_permissions(world.path("check.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    world.ralph(&["doctor", "work"]).code(0).says("ok  gates of work");
}

#[test]
fn an_old_git_a_missing_identity_and_no_repository_are_reported() {
    let world = healthy();
    world.fake_git("test \"$*\" = --version && { echo git version 2.20.1; exit; }");
    world.ralph(&["doctor"]).code(1).says("git version 2.20.1, git 2.39 or later is needed").says("; lacks core.fsync, which");
    let world = healthy();
    world.fake_git("test \"$*\" = --version && { echo git version 2.39.5; exit; }");
    world
        .ralph(&["doctor"])
        .code(0)
        .says("ok  git")
        .says("git version 2.39.5; lacks repositories whose refs are in the reftable format (2.45)");
    let world = healthy();
    world.git(&["config", "--unset", "user.name"]);
    world.git(&["config", "--unset", "user.email"]);
    world.git(&["config", "user.useConfigOnly", "true"]);
    world.ralph(&["doctor"]).code(0).says("commits would be made as git-ralph <git-ralph@localhost>").says("fix: git config user.name");
    let output = World::empty().ralph(&["doctor"]).code(1);
    output.says("not a git repository").says("fix: git init   to make this directory a repository").says("ok  git");
}

#[test]
fn an_open_run_and_a_mistyped_setting_are_notes() {
    let world = healthy();
    world.git(&["config", "ralph.maxRetires", "3"]);
    world.ralph(&["start", "work"]).code(0);
    let output = world.ralph(&["doctor"]).code(0).says("a run of it is open").says("fix: git ralph resume work");
    output.says("did you mean 'ralph.maxRetries'?").says("fix: git config --local --unset-all ralph.maxretires");
    world.git(&["config", "--local", "--unset-all", "ralph.maxretires"]);
}

#[test]
fn completion_that_setup_installs_passes_the_check() {
    let world = healthy();
    world.ralph(&["doctor"]).code(0).says("not installed for").says("fix: git ralph setup");
    world.ralph(&["setup"]).code(0);
    world.ralph(&["doctor"]).code(0).says("ok  completion").says("bash, zsh, fish");
    let json: serde_json::Value = serde_json::from_str(&world.ralph(&["doctor", "--json"]).code(0).stdout).unwrap();
    assert_eq!(json["schema"], 1);
    assert!(json["checks"].as_array().unwrap().iter().all(|check| check["health"] != "red" && check["found"].is_string()), "{json}");
}
