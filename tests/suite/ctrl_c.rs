//! Tests how a loop is stopped: Ctrl-C once and twice, SIGTERM, SIGHUP, `git ralph stop`.

use std::fs;
use std::time::Duration;

use crate::screen::Screen;
use crate::support::{COMPLETE, Running, World, is_gone, program_from_scratch, send};

/// A run whose first story is done and whose second agent is at work; `trap` can make that agent ignore TERM.
fn at_work(world: &World, trap: &str) -> Running {
    world.stories(2, "");
    let (pid, slept) = (world.outside("pid"), world.outside("slept"));
    world.agent(&format!(
        "{trap} echo $RALPH_STORY >s$RALPH_STORY
         if [ $RALPH_STORY = 2 ] && [ ! -e {1} ]; then echo $$ >{0}; touch {1}; while :; do sleep 0.1; done; fi; {COMPLETE}",
        pid.display(),
        slept.display()
    ));
    let running = world.spawn_start(&[]);
    world.wait_for("the second agent", || slept.exists());
    running
}

fn agent_is_gone(world: &World) -> bool {
    is_gone(&fs::read_to_string(world.outside("pid")).unwrap())
}

fn stopped_cleanly(world: &World) {
    assert!(agent_is_gone(world));
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert!(!world.exists("s2"));
    assert_eq!(world.git(&["show", "refs/ralph/work/attempts/2/1:s2"]), "2");
    world.ralph(&["resume"]).code(0);
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 2", "checkpoint: 1", "initial state", "first"]);
}

#[test]
fn one_ctrl_c_ends_the_agent_rolls_back_and_exits_130() {
    let world = World::new();
    let running = at_work(&world, "");
    running.signal("INT");
    running.finish().code(130).says("interrupted").says("git ralph resume work");
    stopped_cleanly(&world);
}

#[test]
fn sigterm_and_sighup_stop_cleanly() {
    for signal in ["TERM", "HUP"] {
        let world = World::new();
        let running = at_work(&world, "");
        running.signal(signal);
        running.finish().code(130);
        stopped_cleanly(&world);
    }
}

#[test]
fn a_second_ctrl_c_quits_now_and_leaves_a_resumable_run() {
    let world = World::new();
    let running = at_work(&world, "trap '' TERM;");
    running.signal("INT");
    running.signal("INT");
    std::thread::sleep(Duration::from_millis(800));
    assert!(!agent_is_gone(&world), "the same Ctrl-C twice within half a second is one: the agent has its grace period");
    running.signal("INT");
    running.finish().code(130).says("the run is left as it is").says("git ralph resume");
    assert!(agent_is_gone(&world));
    assert!(world.exists("s2"), "nothing was rolled back");
    world.ralph(&["resume"]).code(0);
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 2", "checkpoint: 1", "initial state", "first"]);
}

#[test]
fn stop_waits_for_the_attempt_and_stop_now_ends_it() {
    let world = World::new();
    let running = at_work(&world, "");
    world.ralph(&["stop"]).code(0).says("to stop after the current attempt");
    world.wait_for("the request to be taken", || world.count("stop-requested") == 1);
    assert!(!agent_is_gone(&world));
    world.ralph(&["stop", "--now"]).code(0);
    running.finish().code(1).says("stopped");
    stopped_cleanly(&world);
}

#[test]
fn stop_after_the_attempt_lets_it_land() {
    let world = World::new();
    world.stories(3, "");
    let (ready, go) = (world.outside("ready"), world.outside("go"));
    world.agent(&format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.02; done; echo $RALPH_STORY >>order; {COMPLETE}",
        ready.display(),
        go.display()
    ));
    let running = world.spawn_start(&[]);
    world.wait_for("the agent", || ready.exists());
    world.ralph(&["stop"]).code(0);
    world.wait_for("the request to be taken", || world.count("stop-requested") == 1);
    fs::write(go, "").unwrap();
    running.finish().code(1);
    assert_eq!(world.read("order"), "1\n");
    world.ralph(&["stop"]).code(2).says("is not running");
    world.ralph(&["resume"]).code(0);
    assert_eq!(world.read("order"), "1\n2\n3\n", "an old request does not stop a new loop");
}

#[test]
fn an_interrupted_gate_costs_no_retry() {
    let world = World::new();
    let ready = world.outside("ready");
    world.stories(1, &format!("max-retries = 0\nverify = ['test -e {0} || {{ touch {0}; sleep 600; }}']", ready.display()));
    world.agent(COMPLETE);
    let running = world.spawn_start(&[]);
    world.wait_for("the gate", || ready.exists());
    running.signal("INT");
    running.finish().code(130);
    world.ralph(&["resume"]).code(0);
    assert_eq!(world.count("attempt-started"), 2);
}

/// `git ralph start`, started by another program.
fn started_by(world: &World, starter: &[&str], agent: &str) -> Running {
    let mut command = world.command(starter[0], &starter[1..]);
    Running { child: command.args([env!("CARGO_BIN_EXE_git-ralph"), "start", "work", "--", agent]).spawn().unwrap() }
}

#[test]
fn an_end_is_noticed_even_if_its_signal_was_blocked_or_ignored_when_the_loop_was_started() {
    for how in ["--block-signal=CHLD", "--ignore-signal=CHLD"] {
        let world = World::new();
        world.stories(1, "");
        // The agent closes its output some time before it ends.
        let agent = world.agent(&format!("echo x >x; {COMPLETE}; exec >&- 2>&-; sleep 0.3"));
        started_by(&world, &["env", how], &agent).finish().code(0);
        assert_eq!(world.count("checkpoint-landed"), 1, "{how}");
    }
}

#[test]
fn a_loop_started_with_hangup_ignored_goes_on_when_the_terminal_closes() {
    let world = World::new();
    world.stories(1, "");
    let (ready, go) = (world.outside("ready"), world.outside("go"));
    let agent = world.agent(&format!("touch {}; while [ ! -e {} ]; do sleep 0.02; done; {COMPLETE}", ready.display(), go.display()));
    let running = started_by(&world, &["nohup"], &agent);
    world.wait_for("the agent", || ready.exists());
    running.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    fs::write(go, "").unwrap();
    running.finish().code(0);
    assert_eq!(world.count("checkpoint-landed"), 1);
}

#[test]
fn a_second_ctrl_c_during_a_git_step_leaves_no_git_behind() {
    let world = World::new();
    world.stories(1, "");
    let (pid, slow) = (world.outside("pid"), world.outside("slow"));
    world.agent(&format!("echo x >x; touch {}; {COMPLETE}", slow.display()));
    world.fake_git(&format!(
        "case \"$*\" in *' add -A'*) [ ! -e {0} ] || {{ rm {0}; echo $$ >{1}; sleep 600; }};; esac",
        slow.display(),
        pid.display()
    ));
    let running = world.spawn_start(&[]);
    world.wait_for("the slow git", || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
    running.signal("INT");
    std::thread::sleep(Duration::from_millis(700));
    running.signal("INT");
    running.finish().code(130);
    assert!(is_gone(&fs::read_to_string(&pid).unwrap()));
    world.ralph(&["resume"]).code(0);
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 1", "initial state", "first"]);
}

/// The signals that a process ignores and those that it blocks, from its status file. Signals above 31 are left out: libc uses some of
/// them.
fn deaf_to(status: &str) -> [u64; 2] {
    ["SigIgn:", "SigBlk:"].map(|field| {
        let value = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        u64::from_str_radix(value.trim(), 16).unwrap() & ((1 << 31) - 1)
    })
}

#[test]
fn programs_started_by_tests_ignore_and_block_no_signal() {
    let world = World::new();
    let status = world.command("cat", &["/proc/self/status"]).output().unwrap();
    assert_eq!(deaf_to(&String::from_utf8_lossy(&status.stdout)), [0, 0]);
    world.stories(1, "");
    let screen = Screen::new(&world, &["start", "work", "--", &world.agent(COMPLETE)]);
    screen.wait_for("How should the run be completed?");
    let pid = screen.child.process_id().unwrap().to_string();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    // Rust programs ignore SIGPIPE and get an error instead.
    assert_eq!(deaf_to(&status), [1 << (libc::SIGPIPE - 1), 0]);
    send("TERM", &pid);
    assert_eq!(screen.end().0, 130);
}

#[test]
fn tests_pass_even_if_their_parent_ignores_signals() {
    let tests = [
        "ctrl_c::programs_started_by_tests_ignore_and_block_no_signal",
        "ctrl_c::one_ctrl_c_ends_the_agent_rolls_back_and_exits_130",
        "ctrl_c::sigterm_and_sighup_stop_cleanly",
        "prompts::ctrl_c_that_arrives_as_a_signal_ends_a_question_too",
    ];
    let script = "trap '' INT HUP TERM QUIT TSTP TTIN TTOU USR1; exec \"$0\" --exact \"$@\"";
    let mut shell = program_from_scratch("sh");
    let output = shell.args(["-c", script]).arg(std::env::current_exe().unwrap()).args(tests).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(&format!("{} passed", tests.len())), "{said}");
}
