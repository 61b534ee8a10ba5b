//! Tests runners that delay an agent, lose it or never start it: a failure of the runner costs no retry.

use std::fs;

use serde_json::Value;

use crate::support::{COMPLETE, World, is_gone, send};

/// A story without retries, started through this script as the runner; in it, `first` is a command that succeeds only the first time.
fn behind(world: &World, runner: &str) {
    let seen = world.outside("seen");
    let first = format!("first() {{ test ! -e {0} && touch {0}; }}", seen.display());
    world.program("runner", &format!("{first}\n{runner}"));
    world.stories(1, "max-retries = 0\nrunner = ['runner']");
}

fn outcomes(world: &World) -> Vec<String> {
    let outcome = |event: &Value| event["outcome"]["outcome"].as_str().map(str::to_owned);
    world.events().iter().filter(|event| event["event"] == "attempt-rejected").filter_map(outcome).collect()
}

fn transcript(world: &World, attempt: u32, name: &str) -> String {
    fs::read_to_string(world.run_dir().join(format!("attempts/1/{attempt}/{name}"))).unwrap()
}

#[test]
fn the_time_in_a_runners_queue_is_no_silence_and_no_part_of_the_attempts_time() {
    let world = World::new();
    behind(&world, "echo queued >&2; sleep 2.5; \"$@\"; s=$?; echo bye >&2; exit $s");
    world.agent(&format!("echo to stderr >&2; cat >../input; {COMPLETE}"));
    let long = format!("max-retries = 0\nrunner = ['runner']\ncontext = '{}'", "x".repeat(1_000_000));
    world.stories(1, &long);
    world.start(&["--idle-timeout", "1s", "--attempt-timeout", "2s", "--finish", "keep"]).code(0);
    let ended: Vec<Value> = world.events().into_iter().filter(|event| event["event"] == "agent-ended").collect();
    let milliseconds = |name: &str| ended[0][name].as_u64().unwrap();
    assert!(milliseconds("waited-milliseconds") >= 2000 && milliseconds("milliseconds") < 2000, "{ended:?}");
    assert_eq!(transcript(&world, 1, "stderr"), "queued\nto stderr\nbye\n", "the reports of the start and the end are not in it");
    assert_eq!(fs::read_to_string(world.outside("input")).unwrap(), world.prompt("1", 1), "all of the prompt has arrived");
}

#[test]
fn an_agent_that_is_silent_after_its_runner_has_started_it_is_ended() {
    let world = World::new();
    behind(&world, "sleep 1.5; exec \"$@\"");
    world.agent("sleep 600");
    world.start(&["--idle-timeout", "1s"]).code(1).says("without any output");
    assert_eq!(outcomes(&world), ["abnormal"]);
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a process that has left its session")]
#[test]
fn a_runner_that_is_killed_or_loses_its_agent_costs_no_retry_whatever_its_exit_status() {
    for (end, message) in [
        ("kill -9 $$", "runner was killed by signal 9"),
        ("echo 'STEP CANCELLED' >&2; exit 143", "runner ended with exit status 143: STEP CANCELLED"),
        // srun does this when a node fails.
        ("echo 'Node failure' >&2; exit 0", "runner ended with exit status 0: Node failure"),
    ] {
        let world = World::new();
        let pid = world.outside("pid");
        // The agent leaves the runner's process group, like an agent on another machine.
        behind(&world, &format!("first || exec \"$@\"; setsid \"$@\" & while [ ! -e {} ]; do sleep 0.01; done; {end}", pid.display()));
        world.agent(&format!(
            "touch work-$RALPH_ATTEMPT; {COMPLETE}; test $RALPH_ATTEMPT != 1 || {{ echo $$ >{0}.new; mv {0}.new {0}; sleep 600; }}",
            pid.display()
        ));
        world
            .start(&["--finish", "keep"])
            .code(0)
            .says(&format!("1: attempt 1 was lost by its runner, which uses no retry: {message}"))
            .says("trying the runner again at");
        assert_eq!(outcomes(&world), ["lost"], "{end}");
        assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]).matches("work-").collect::<Vec<_>>().len(), 1);
        assert_eq!(world.git(&["show", "--name-only", "--format=", "ralph/work"]), "work-2", "what the lost agent did is not landed");
        assert!(is_gone(&fs::read_to_string(&pid).unwrap()), "what the runner left on this machine is ended");
    }
}

#[test]
fn a_runner_that_starts_nothing_ends_the_loop_without_a_retry_spent_and_says_why() {
    let world = World::new();
    behind(&world, "echo 'invalid partition specified: nix' >&2; exit 1");
    world.agent(COMPLETE);
    world
        .start(&[])
        .code(1)
        .says("1: attempt 1 was not started by its runner, which uses no retry: runner ended with exit status 1")
        .says("stopped: the runner failed 3 times in a row: runner ended with exit status 1: invalid partition specified: nix");
    assert_eq!(outcomes(&world), ["not-started"; 3]);
    behind(&world, "exec \"$@\"");
    world.ralph(&["resume", "--finish", "keep"]).code(0);
    assert_eq!(world.count("checkpoint-landed"), 1);
}

#[test]
fn a_runner_that_takes_too_long_to_start_an_agent_is_ended_if_a_limit_is_set() {
    let world = World::new();
    behind(&world, "if first; then trap 'touch ../cancelled; exit 1' TERM; sleep 600 & wait; fi; exec \"$@\"");
    world.git(&["config", "ralph.runnerTimeout", "1s"]);
    world.agent(COMPLETE);
    world.start(&["--finish", "keep"]).code(0).says("was not started by its runner").says("it was not started within 1 s");
    assert_eq!(outcomes(&world), ["not-started"]);
    assert!(world.outside("cancelled").exists());
}

#[test]
fn the_agents_own_exit_status_counts_and_not_the_runners() {
    for (agent, runner, expected) in [
        ("exit 3", "\"$@\"; exit 0", "ended with exit status 3"),
        ("kill -9 $$", "\"$@\"; exit 1", "ended with exit status 137"),
        ("exit 200", "exec \"$@\"", "ended with exit status 200"),
        ("exit 0", "\"$@\"; exit 143", "ended without a promise"),
        // A runner that does not end when its program has ended.
        ("exit 4", "\"$@\"; sleep 600", "ended with exit status 4"),
    ] {
        let world = World::new();
        behind(&world, runner);
        world.git(&["config", "ralph.lingerTimeout", "1s"]);
        world.agent(agent);
        world.start(&[]).code(1).says(expected).says("has no retries left");
    }
}

#[test]
fn a_gate_that_a_runner_loses_is_run_again_and_is_not_a_gate_that_failed() {
    let world = World::new();
    behind(&world, "exec \"$@\"");
    let seen = world.outside("gate-seen");
    world.git(&["config", "ralph.gateRunner", "gate-lose"]);
    world.stories(1, "max-retries = 0\nrunner = ['runner']\nverify = ['test -e work']");
    world.program("gate-lose", &format!("test -e {0} && exec \"$@\"; touch {0}; echo node down >&2; exit 0", seen.display()));
    world.agent(&format!("touch work; {COMPLETE}"));
    world.start(&["--finish", "keep"]).code(0).says("gate not started by its runner (gate-lose ended with exit status 0: node down)");
    assert_eq!((world.count("gate-ended"), outcomes(&world).len(), world.count("checkpoint-landed")), (2, 0, 1));
}

#[test]
fn a_setup_command_that_a_runner_loses_ends_the_loop_before_an_attempt_is_spent() {
    let world = World::new();
    behind(&world, "first || exec \"$@\"; echo no node >&2; exit 1");
    world.stories(1, "runner = ['runner']\nsetup = ['touch ready']");
    world.agent(COMPLETE);
    world
        .start(&["--isolate"])
        .code(128)
        .says("the runner did not run the setup command 'touch ready' to its end: runner ended with exit status 1: no node")
        .says("no retry was used");
    world.ralph(&["resume", "--finish", "keep"]).code(0);
}

#[test]
fn a_killed_runner_that_may_have_left_a_program_running_is_reported() {
    let world = World::new();
    behind(&world, "trap '' TERM; \"$@\" & touch ../started; while :; do sleep 0.05; done");
    world.git(&["config", "ralph.grace", "1s"]);
    world.agent("sleep 600");
    let running = world.spawn_start(&[]);
    world.wait_for("the agent", || world.outside("started").exists());
    running.signal("INT");
    running.finish().code(130).says("1: runner did not end when asked to and was killed; what it started may still be running elsewhere");
}

/// A runner that queues a job and removes it only when it is asked to end. Its standard error goes nowhere: a shell that reports the end
/// of a child to a closed pipe dies of SIGPIPE before its trap runs.
fn queued(world: &World) {
    behind(
        world,
        "if first; then exec 2>/dev/null; trap 'touch ../cancelled; exit 1' TERM; echo $$ >../pid; touch ../queued; while :; do sleep 0.05; done; fi\nexec \"$@\"",
    );
    world.agent(COMPLETE);
}

#[test]
fn a_queued_job_is_removed_from_the_queue_by_a_stop_by_one_ctrl_c_and_by_two() {
    for how in ["stop", "one", "two"] {
        let world = World::new();
        queued(&world);
        let running = world.spawn_start(&[]);
        world.wait_for("the queue", || world.outside("queued").exists());
        match how {
            "stop" => world.ralph(&["stop", "--now"]).code(0),
            _ => {
                running.signal("INT");
                if how == "two" {
                    std::thread::sleep(std::time::Duration::from_millis(800));
                    running.signal("INT");
                }
                world.ralph(&["status"])
            }
        };
        running.finish().code(if how == "stop" { 1 } else { 130 });
        world.wait_for("the end of the runner", || is_gone(&fs::read_to_string(world.outside("pid")).unwrap()));
        assert!(world.outside("cancelled").exists(), "{how}: the runner was killed, not asked");
        world.ralph(&["resume", "--finish", "keep"]).code(0);
    }
}

#[test]
fn a_queued_job_of_a_killed_git_ralph_is_removed_from_the_queue_by_a_resume() {
    let world = World::new();
    queued(&world);
    let running = world.spawn_start(&[]);
    world.wait_for("the queue", || world.outside("queued").exists());
    send("KILL", &running.pid().to_string());
    running.finish().code(-9);
    assert!(!world.outside("cancelled").exists());
    world.ralph(&["resume", "--finish", "keep"]).code(0);
    assert!(world.outside("cancelled").exists());
    assert_eq!(outcomes(&world), ["interrupted"; 0], "it counts as interrupted, without a verdict");
}
