//! Tests that nothing blocks the runtime, and that every git call has a time limit that takes effect.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::support::{COMPLETE, World, is_gone, which};
use git_ralph::git::{Git, Limits};

#[tokio::test(flavor = "current_thread")]
async fn git_operations_do_not_block_the_runtime() {
    let world = World::new();
    world.fake_git("sleep 1");
    let env = world.env().iter().map(|(name, value)| (name.into(), value.into())).collect();
    let git = Git::plain(world.repo.clone(), env);
    let mut ticks = 0;
    let mut ticker = tokio::time::interval(Duration::from_millis(10));
    let mut call = std::pin::pin!(git.call(["rev-parse", "HEAD"]).line());
    let answer = loop {
        tokio::select! {
            answer = &mut call => break answer.unwrap(),
            _ = ticker.tick() => ticks += 1,
        }
    };
    assert_eq!(answer, world.git(&["rev-parse", "HEAD"]));
    assert!(ticks > 20, "the timer ticked {ticks} times while git slept for a second");
}

#[tokio::test(flavor = "current_thread")]
async fn a_git_call_that_exceeds_its_limit_is_really_ended() {
    let world = World::new();
    let pids = world.outside("pids");
    // A child of git that keeps the pipes open must also be ended.
    world.fake_git(&format!("echo $$ >>{0}; sh -c 'echo $$ >>{0}; sleep 600' & sleep 600", pids.display()));
    let env = world.env().iter().map(|(name, value)| (name.into(), value.into())).collect();
    let limit = Some(Duration::from_millis(300));
    let git = Git::plain(world.repo.clone(), env).with_limits(Limits { query: limit, work: limit });
    let error = git.call(["rev-parse", "HEAD"]).line().await.unwrap_err().to_string();
    assert!(error.contains("'git rev-parse HEAD' did not end within"), "{error}");
    assert!(error.contains("ralph.gitTimeout"), "{error}");
    let pids = fs::read_to_string(pids).unwrap();
    assert!(!pids.is_empty());
    for pid in pids.lines() {
        world.wait_for("the group to go", || is_gone(pid));
    }
}

#[test]
fn a_hanging_git_is_a_clear_fatal_error() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    world.git(&["config", "ralph.gitTimeout", "1s"]);
    world.fake_git("case \"$*\" in *' status --porcelain'*) sleep 600;; esac");
    world.start(&[]).code(128).says("did not end within 1 s and was killed");
    assert_eq!(world.branch(), "main", "nothing was touched yet");
    fs::remove_file(world.outside("bin/git")).unwrap();
    world.start(&[]).code(0);
}

/// Installs the program `worker` in its own directory.
fn worker(world: &World, dir: &str, script: &str) -> String {
    let dir = world.outside(dir);
    let file = dir.join("worker");
    fs::create_dir(&dir).unwrap();
    fs::write(&file, script).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    dir.display().to_string()
}

fn look_first_in(world: &mut World, dirs: &[String]) {
    let path = world.env().iter().find(|(name, _)| name == "PATH").unwrap().1.clone();
    world.set_env("PATH", &format!("{}:{path}", dirs.join(":")));
}

#[test]
fn a_program_is_found_where_a_shell_would_find_it() {
    let mut world = World::new();
    world.stories(1, "max-retries = 0");
    // The first program has a missing interpreter; the second has no `#!` line, so a shell runs it.
    let dirs = [worker(&world, "first", "#!/nowhere/interpreter\n"), worker(&world, "second", &format!("{COMPLETE}\n"))];
    look_first_in(&mut world, &dirs);
    world.ralph(&["start", "work", "--", "worker"]).code(0);
    assert_eq!(world.count("checkpoint-landed"), 1);
}

#[test]
fn the_reason_why_a_program_cannot_be_started_is_reported() {
    let mut world = World::new();
    world.stories(1, "max-retries = 1");
    let dir = worker(&world, "programs", "#!/bin/sh\nchmod -x $0\n");
    look_first_in(&mut world, &[dir]);
    world.ralph(&["start", "work", "--", "worker"]).code(1).says("Permission denied");
}

#[test]
fn without_a_path_programs_are_where_the_system_has_them() {
    let world = World::new();
    world.stories(1, "");
    let agent = world.agent(&format!("PATH=/usr/bin:/bin; {COMPLETE}"));
    let mut command = world.command(env!("CARGO_BIN_EXE_git-ralph"), &["start", "work", "--", &agent]);
    let output = command.env_remove("PATH").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_loop_runs_with_git_found_on_the_path() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    let calls = world.outside("calls");
    world.fake_git(&format!("echo x >>{}", calls.display()));
    world.start(&["--finish", "cleanup"]).code(0);
    let calls = fs::read_to_string(calls).unwrap().lines().count();
    assert!((10..60).contains(&calls), "{calls} calls of {}", which("git"));
}

#[test]
fn a_story_that_lands_costs_six_git_processes_and_the_agents_own_commits_two_more() {
    for (agent, cost) in [("echo $RALPH_STORY >>f", 6), ("echo $RALPH_STORY >>f; $GIT add f; $GIT commit -qm mine", 8)] {
        let calls = |stories: usize| {
            let world = World::new();
            world.stories(stories, "");
            // The agent calls git by its path, so its own calls do not count.
            world.agent(&format!("GIT={}; {agent}; {COMPLETE}", which("git")));
            let calls = world.outside("calls");
            world.fake_git(&format!("echo \"$*\" >>{}", calls.display()));
            world.start(&[]).code(0);
            fs::read_to_string(calls).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let (one, three) = (calls(1), calls(3));
        // A slow attempt lists refs and ignored files again, which is two more calls.
        assert!((2 * cost..=2 * (cost + 2)).contains(&(three.len() - one.len())), "{}", three[one.len()..].join("\n"));
    }
}
