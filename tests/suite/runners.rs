//! Tests runners, the commands with which git-ralph starts agents, gates and setup commands.

use std::fs;
use std::process::Stdio;

use crate::support::{COMPLETE, World, is_gone};

/// A runner that writes its own arguments, without those of the command, to the file `ran` beside the repository, then executes the
/// command.
fn logging_runner(world: &World) -> String {
    let log = world.outside("ran");
    world.program(
        "log-run",
        &format!("{{ while [ \"$1\" != -- ]; do printf '%s|' \"$1\"; shift; done; echo; }} >>{}\nshift; exec \"$@\"", log.display()),
    )
}

fn ran(world: &World) -> String {
    fs::read_to_string(world.outside("ran")).unwrap_or_default()
}

#[test]
fn agents_gates_and_setup_commands_are_started_by_the_runner_with_their_input_and_their_status() {
    let world = World::new();
    logging_runner(&world);
    world.stories(
        1,
        "max-retries = 1\nsetup = ['echo setup >>$RALPH_RUN_DIR/seen']\nverify = ['test -e \"good one\"']\nrunner = ['log-run', '{change}', '{story}', '{attempt}', '{slot}', '{workspace}', '--']",
    );
    world.agent(&format!(
        "read -r first; echo \"$RALPH_STORY/$RALPH_ATTEMPT: $first\" >>$RALPH_RUN_DIR/seen\ntest $RALPH_ATTEMPT = 2 && touch 'good one'; {COMPLETE}"
    ));
    world.start(&["--isolate", "--finish", "keep"]).code(0);
    let workspace = world.outside("repo.ralph/work/1");
    let at = workspace.display();
    let expected = [
        format!("work|setup|0|0|{at}|"),
        format!("work|1|1|0|{at}|"),
        format!("work|1|1|0|{at}|"),
        format!("work|1|2|0|{at}|"),
        format!("work|1|2|0|{at}|"),
    ];
    assert_eq!(ran(&world).lines().collect::<Vec<_>>(), expected);
    let seen = fs::read_to_string(world.run_dir().join("seen")).unwrap();
    assert!(seen.starts_with("setup\n1/1: ") && seen.contains("\n1/2: "), "{seen}");
    assert_eq!((world.count("gate-ended"), world.count("checkpoint-landed")), (2, 1));
}

#[test]
fn an_option_and_git_config_hold_the_runner_as_one_line_that_no_shell_reads() {
    let world = World::new();
    logging_runner(&world);
    world.stories(1, "");
    world.agent(COMPLETE);
    world.git(&["config", "ralph.runner", "log-run from-config --"]);
    world.start(&["--runner", "log-run 'a b' \"$HOME\" '*' --", "--finish", "cleanup"]).code(0);
    assert_eq!(ran(&world), "a b|$HOME|*|\n");
    world.ralph(&["config", "work"]).code(0).says("log-run from-config --");
    world.start(&["--restart", "--finish", "cleanup"]).code(0);
    world.start(&["--restart", "--runner", "", "--finish", "keep"]).code(0);
    assert_eq!(ran(&world), "a b|$HOME|*|\nfrom-config|\n", "an empty runner is none");
}

#[test]
fn gates_have_a_runner_of_their_own_or_none() {
    for (gate_runner, expected) in [("['log-run', 'gate', '--']", "agent|\ngate|\n"), ("[]", "agent|\n")] {
        let world = World::new();
        logging_runner(&world);
        world.stories(1, &format!("runner = ['log-run', 'agent', '--']\ngate-runner = {gate_runner}\nverify = ['true']"));
        world.agent(COMPLETE);
        world.start(&["--finish", "keep"]).code(0);
        assert_eq!(ran(&world), expected);
    }
}

#[test]
fn an_unknown_placeholder_and_a_missing_runner_are_fatal_before_anything_is_made() {
    let world = World::new();
    world.stories(1, "verify = ['true']");
    world.agent(COMPLETE);
    world
        .start(&["--runner", "srun {stroy}"])
        .code(129)
        .says("'{stroy}' is not a placeholder")
        .says("{workspace}, {change}, {story}, {attempt}, {slot}");
    world
        .start(&["--runner", "no-such-runner -n1"])
        .code(128)
        .says("fatal: the runner 'no-such-runner' was not found on PATH")
        .says("hint: git ralph config");
    world.start(&["--runner", "'no such'"]).code(128).says("the program and its arguments are separate words");
    world.git(&["config", "ralph.gateRunner", "./gone"]);
    world.start(&[]).code(128).says("fatal: the runner './gone' does not exist");
    world.git(&["config", "ralph.gateRunner", "env {what}"]);
    world.start(&[]).code(128).says("ralph.gateRunner").says("'{what}' is not a placeholder");
    world.git(&["config", "--unset", "ralph.gateRunner"]);
    world.stories(1, "runner = ['env', '{who}']");
    world.start(&[]).code(128).says("work.toml:1: 'runner': '{who}' is not a placeholder");
    assert!(!world.run_dir().exists() && !world.has_ref("refs/heads/ralph/work"));
}

#[test]
fn the_runner_of_an_attempts_gates_is_the_one_that_the_attempt_began_with() {
    let world = World::new();
    logging_runner(&world);
    let killed = world.outside("killed").display().to_string();
    let head = |runner: &str| {
        format!(
            "verify = ['test -e {killed} || {{ touch {killed}; kill -9 $(ps -o ppid= $PPID); }}']\nrunner = ['log-run', '{runner}', '--']"
        )
    };
    world.stories(1, &head("old"));
    world.agent(COMPLETE);
    world.start(&["--finish", "keep"]).code(-9);
    world.stories(1, &head("new"));
    world.ralph(&["resume"]).code(0);
    assert_eq!(ran(&world), "old|\nold|\nold|\n", "the agent, the gate that was killed, the gate");
}

#[test]
fn an_agent_that_ignores_term_behind_a_runner_is_killed_when_its_time_is_up() {
    let world = World::new();
    world.stories(1, "max-retries = 0");
    world.program("stay", "trap '' TERM; \"$@\" & echo $! >../pid; while :; do sleep 0.05; done");
    world.agent("trap '' TERM; while :; do sleep 0.05; done");
    world.git(&["config", "ralph.grace", "1s"]);
    world.start(&["--runner", "stay", "--attempt-timeout", "1s"]).code(1).says("time");
    assert!(is_gone(fs::read_to_string(world.outside("pid")).unwrap().trim()));
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a process that has left its session")]
#[test]
fn a_program_that_a_runner_started_elsewhere_and_did_not_end_is_ended_and_reported() {
    let world = World::new();
    world.stories(1, "");
    let (fifo, pid) = (world.outside("fifo"), world.outside("elsewhere.pid"));
    // This process is not a descendant of git-ralph, like the daemon of a cluster or of a container engine.
    world.program(
        "daemon",
        &format!(
            "mkfifo {0}; read -r mark <{0}; RALPH_RUN=\"$mark\" setsid sleep 600 & echo $! >{1}.new; mv {1}.new {1}; wait",
            fifo.display(),
            pid.display()
        ),
    );
    world.program(
        "remote",
        &format!("echo \"$RALPH_RUN\" >{}; while [ ! -e {} ]; do sleep 0.01; done; exec \"$@\"", fifo.display(), pid.display()),
    );
    let mut daemon =
        world.command(world.outside("bin/daemon").to_str().unwrap(), &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    world.wait_for("the daemon", || fifo.exists());
    world.agent(COMPLETE);
    let output = world.start(&["--runner", "remote", "--finish", "keep"]);
    let elsewhere = fs::read_to_string(&pid).unwrap();
    output.code(0).says(&format!("ended processes that the agent left running: sleep ({})", elsewhere.trim()));
    daemon.wait().unwrap();
    assert!(is_gone(elsewhere.trim()));
}
