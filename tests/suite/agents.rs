//! Tests agents as commands: how git-ralph finds and starts them, passes the prompt, reads the output and ends them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{COMPLETE, World, is_gone, send};

#[test]
fn a_missing_program_is_found_before_the_first_write() {
    let world = World::new();
    world.stories(1, "command = ['no-such-agent', '--flag']");
    world.ralph(&["start", "work"]).code(128).says("the agent 'no-such-agent' was not found");
    world.ralph(&["start", "work", "--", "./nor-this"]).code(128).says("nor-this' does not exist");
    world.git(&["config", "ralph.mine.cmd", "nor-that --x"]);
    world.ralph(&["start", "work", "--agent", "mine"]).code(128).says("the agent 'nor-that' was not found");
    world.ralph(&["start", "work", "--agent", "mien"]).code(128).says("there is no agent 'mien'; did you mean 'mine'?");
    world.stories(1, "");
    world.ralph(&["start", "work"]).code(128).says("no agent is configured");
    assert_eq!(world.branch(), "main");
    assert!(!world.exists(".git/ralph/runs"));
}

#[test]
fn the_command_of_the_change_file_and_of_the_configuration() {
    let world = World::new();
    let agent = world.agent(&format!("echo \"$1\" >arg; {COMPLETE}"));
    world.stories(1, &format!("command = ['{agent}', 'from file']"));
    world.ralph(&["start", "work", "--restart", "--finish", "cleanup"]).code(0);
    assert_eq!(world.read("arg"), "from file\n");
    world.git(&["config", "ralph.mine.cmd", &format!("{agent} \"from $RALPH_STORY\"")]);
    world.git(&["config", "ralph.agent", "mine"]);
    world.stories(1, "");
    world.ralph(&["start", "work", "--restart", "--finish", "cleanup"]).code(0);
    assert_eq!(world.read("arg"), "from 1\n");
    world.ralph(&["start", "work", "--restart", "--finish", "cleanup", "--", &agent, "typed"]).code(0);
    assert_eq!(world.read("arg"), "typed\n");
}

#[test]
fn a_relative_command_is_meant_from_where_it_is_typed() {
    let mut world = World::new();
    world.stories(1, "");
    world.write("tools/agent", &format!("#!/bin/sh\npwd >where; {COMPLETE}\n"));
    fs::set_permissions(world.path("tools/agent"), fs::Permissions::from_mode(0o755)).unwrap();
    let top = world.repo.clone();
    world.repo = top.join("tools");
    world.ralph(&["start", "work", "--", "./agent"]).code(0);
    assert_eq!(fs::read_to_string(top.join("where")).unwrap(), format!("{}\n", top.display()));
}

#[test]
fn a_transcript_of_every_attempt_is_on_the_disk_for_the_owner_alone() {
    let world = World::new();
    world.stories(1, "");
    world.agent("echo out; echo err >&2; test $RALPH_ATTEMPT = 2 && echo '<promise>COMPLETE</promise>'");
    world.start(&[]).code(0);
    for attempt in 1..=2 {
        let dir = world.run_dir().join(format!("attempts/1/{attempt}"));
        assert!(fs::read_to_string(dir.join("stdout")).unwrap().starts_with("out\n"));
        assert_eq!(fs::read_to_string(dir.join("stderr")).unwrap(), "err\n");
        for file in ["stdout", "stderr", "prompt.md"] {
            assert_eq!(fs::metadata(dir.join(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
        }
    }
}

#[test]
fn an_echoed_prompt_or_a_quoted_tag_is_not_a_promise() {
    let world = World::new();
    world.change("work", "max-retries = 4\n[[story]]\nid = '1'\nprompt = '''\nSay:\n<promise>COMPLETE</promise>\n'''\n");
    world.agent(
        "case $RALPH_ATTEMPT in
         1) cat;;
         2) sed 's/^/  /';;
         3) tr -s ' \\n' '\\n\\n';;
         4) echo 'I shall say <promise>COMPLETE</promise> soon'; echo '```'; echo '<promise>COMPLETE</promise>'; echo '```';;
         5) echo '<promise>COMPLETE</promise>' >&2;;
         esac",
    );
    world.start(&[]).code(1);
    assert_eq!(world.count("attempt-started"), 5);
    assert_eq!(world.count("checkpoint-landed"), 0);
}

#[test]
fn failed_beats_complete_in_one_message() {
    let world = World::new();
    world.stories(1, "max-retries = 1");
    world.agent(
        "if [ $RALPH_ATTEMPT = 1 ]; then printf '<promise>FAILED: a</promise>\\n<promise>COMPLETE</promise>\\n'
         else printf '<promise>COMPLETE</promise>\\n<promise>FAILED: b</promise>\\n'; fi",
    );
    world.start(&[]).code(1);
    assert_eq!(world.count("checkpoint-landed"), 0);
}

#[test]
fn a_promise_counts_only_as_the_last_line_of_what_a_command_prints() {
    let world = World::new();
    world.stories(1, "max-retries = 4");
    world.agent(
        "tag='<promise>COMPLETE</promise>'
         case $RALPH_ATTEMPT in
         1) echo \"$tag\"; echo 'but 3 tests are still red';;
         2) echo '- FAILED'; echo \"$tag\";;
         3) printf '<!--\\n%s\\n' \"$tag\";;
         4) echo '<promise>failed: it is red</promise>'; echo \"$tag\";;
         5) echo '3 tests failed before, all pass now'; echo; printf -- '- **%s**.\\n\\n' \"$tag\";;
         esac",
    );
    world.start(&[]).code(0).says("attempt 2 failed: its final message says COMPLETE, and also: - FAILED");
    assert_eq!((world.count("attempt-rejected"), world.count("checkpoint-landed")), (4, 1));
    assert!(world.prompt("1", 5).contains("it is red"), "{}", world.prompt("1", 5));
}

#[test]
fn a_promise_before_a_failing_or_killed_command_does_not_count() {
    let world = World::new();
    world.stories(1, "max-retries = 2");
    world.agent(
        "echo '<promise>COMPLETE</promise>'
         case $RALPH_ATTEMPT in
         1) echo 'Traceback (most recent call last):' >&2; exit 1;;
         2) sh -c 'kill -9 $$'; exit $?;;
         esac",
    );
    world.start(&[]).code(0).says("attempt 1 ended with exit status 1").says("attempt 2 ended with exit status 137");
    assert_eq!((world.count("attempt-rejected"), world.count("checkpoint-landed")), (2, 1));
}

#[test]
fn the_needs_of_a_blocked_agent_are_in_the_events() {
    let world = World::new();
    world.stories(1, "");
    world.agent("echo '<promise>BLOCKED: a key for the API</promise>'");
    world.start(&[]).code(1).says("attempt 1 is blocked and needs you: a key for the API");
    let ended = world.events().into_iter().find(|event| event["event"] == "agent-ended").unwrap();
    assert_eq!((&ended["signal"]["said"], &ended["signal"]["needs"]), (&"blocked".into(), &"a key for the API".into()));
}

#[test]
fn the_question_that_an_agent_ends_with_is_on_the_screen_in_the_events_and_in_the_log() {
    let world = World::new();
    world.stories(1, "max-retries = 0");
    world.agent("echo working; echo 'There are two ways.'; echo; echo 'Shall I use tabs or blanks?'");
    let words = "ended without a promise; its last words: working There are two ways. Shall I use tabs or blanks?";
    world.start(&[]).code(1).says(words);
    world.ralph(&["log"]).code(0).says(words);
    world.ralph(&["status"]).says("Shall I use tabs or blanks?");
    let event = |name: &str| world.events().into_iter().find(|event| event["event"] == name).unwrap();
    let lines = "working\nThere are two ways.\nShall I use tabs or blanks?";
    assert_eq!((&event("agent-ended")["words"], &event("attempt-rejected")["outcome"]["words"]), (&lines.into(), &lines.into()));
}

#[test]
fn an_agent_that_goes_on_after_its_promise_is_not_ended_for_lingering() {
    let world = World::new();
    world.stories(1, "max-retries = 0");
    world.git(&["config", "ralph.lingerTimeout", "1s"]);
    world.agent("echo '<promise>COMPLETE</promise>'; echo 'one more thing'; sleep 3; echo '<promise>COMPLETE</promise>'");
    world.start(&[]).code(0);
    let ended = world.events().into_iter().find(|event| event["event"] == "agent-ended").unwrap();
    assert_eq!(ended["exit"]["kind"], "success");
}

#[test]
fn an_agent_that_lingers_after_its_promise_is_ended_and_counts() {
    let world = World::new();
    world.stories(1, "");
    world.git(&["config", "ralph.lingerTimeout", "1s"]);
    world.agent("echo x >done; echo '<promise>COMPLETE</promise>'; sleep 600");
    world.start(&[]).code(0);
    assert_eq!(world.count("checkpoint-landed"), 1);
    let ended = world.events().into_iter().find(|event| event["event"] == "agent-ended").unwrap();
    assert_eq!(ended["exit"]["kind"], "lingered");
}

#[test]
fn an_agent_that_takes_too_long_is_ended_and_the_next_prompt_says_so() {
    let world = World::new();
    world.stories(1, "");
    world.agent("test $RALPH_ATTEMPT -ge 2 && { echo '<promise>COMPLETE</promise>'; exit; }; while :; do echo busy; sleep 0.1; done");
    world.start(&["--attempt-timeout", "1s"]).code(0);
    assert!(world.prompt("1", 2).contains("was stopped after 1 seconds, the time limit for an attempt"));
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a process that has left its session")]
#[test]
fn an_agent_that_ignores_term_is_killed_and_nothing_of_it_is_left() {
    let world = World::new();
    world.stories(1, "max-retries = 0");
    world.git(&["config", "ralph.grace", "1s"]);
    let pids = world.outside("pids");
    world.agent(&format!(
        "trap '' TERM; echo $$ >>{0}; setsid sh -c 'trap \"\" TERM; echo $$ >>{0}; while :; do sleep 0.1; done' &
         until test $(wc -l <{0}) = 2; do echo waiting; sleep 0.1; done; while :; do sleep 0.1; done",
        pids.display()
    ));
    world.start(&["--idle-timeout", "3s"]).code(1);
    for pid in fs::read_to_string(&pids).unwrap().lines() {
        assert!(is_gone(pid), "{pid} is alive");
    }
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a process that has left its session")]
#[test]
fn processes_that_a_successful_agent_leaves_running_are_ended_and_reported() {
    let world = World::new();
    world.stories(1, "");
    let pid = world.outside("pid");
    world.agent(&format!("setsid sh -c 'echo $$ >{}; exec sleep 600' >/dev/null 2>&1 & {}; {COMPLETE}", pid.display(), until_asleep(&pid)));
    world.start(&[]).code(0).says("ended processes that the agent left running: sleep");
    assert!(is_gone(&fs::read_to_string(&pid).unwrap()));
}

/// A shell script that leaves a process behind without parent, session, group or environment; the process writes its id to a file.
fn leave_an_orphan(world: &World, file: &str) -> String {
    let pid = world.outside(file);
    format!("{}; {}", leave_behind(&world.program("orphan", "echo $$ >$1; exec sleep 600"), &pid), until_asleep(&pid))
}

/// A shell script that waits until the process whose id is in the file has become `sleep`, because git-ralph reports it by that name.
fn until_asleep(pid: &Path) -> String {
    format!("until grep -qsx sleep /proc/$(cat {})/comm; do echo waiting; sleep 0.01; done", pid.display())
}

fn leave_behind(program: &str, file: &Path) -> String {
    let file = file.display();
    format!("(env -i setsid {program} {file} >/dev/null 2>&1 </dev/null &); while [ ! -s {file} ]; do echo waiting; sleep 0.01; done")
}

/// The processes that each attempt left running, as listed in its event.
fn survivors(world: &World) -> Vec<String> {
    let ended = world.events().into_iter().filter(|event| event["event"] == "agent-ended");
    ended.map(|event| event["survivors"].to_string()).collect()
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a process that has left its session and its environment")]
#[test]
fn an_orphan_that_cleared_its_environment_is_ended_and_reported() {
    let world = World::new();
    world.stories(1, "");
    let pid = world.outside("pid");
    world.agent(&format!("{}; {COMPLETE}", leave_an_orphan(&world, "pid")));
    world.start(&[]).code(0).says("ended processes that the agent left running: sleep");
    let pid = fs::read_to_string(&pid).unwrap();
    assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists(), "ended and reaped");
    assert_eq!(survivors(&world), [format!("[\"sleep ({})\"]", pid.trim())]);
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a process that has left its session and its environment")]
#[test]
fn an_orphan_is_ended_after_a_failure_and_after_a_timeout() {
    let world = World::new();
    world.stories(1, "max-retries = 1");
    let leave = leave_an_orphan(&world, "pid.$RALPH_ATTEMPT");
    // The script prints while it waits for the orphan, so the idle timeout starts only once the orphan exists, however busy the machine
    // is.
    world.agent(&format!("{leave}; test $RALPH_ATTEMPT = 2 && exec sleep 600; exit 1"));
    world.start(&["--idle-timeout", "5s"]).code(1);
    let pids: Vec<String> = (1..=2).map(|n| fs::read_to_string(world.outside(&format!("pid.{n}"))).unwrap().trim().to_owned()).collect();
    for pid in &pids {
        assert!(is_gone(pid), "{pid} is alive");
    }
    assert_eq!(survivors(&world), pids.iter().map(|pid| format!("[\"sleep ({pid})\"]")).collect::<Vec<_>>());
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a process that has left its session and its environment")]
#[test]
fn an_orphan_that_ignores_term_is_killed_after_the_grace_with_all_that_it_started() {
    let world = World::new();
    world.stories(1, "");
    world.git(&["config", "ralph.grace", "1s"]);
    let pids = world.outside("pids");
    let child = world.program("child", "trap '' TERM; echo $1 $$ >$2; while :; do sleep 0.1; done");
    let stubborn = world.program("stubborn", &format!("trap '' TERM; setsid {child} $$ $1 & while :; do sleep 0.1; done"));
    world.agent(&format!("{}; {COMPLETE}", leave_behind(&stubborn, &pids)));
    world.start(&[]).code(0);
    for pid in fs::read_to_string(&pids).unwrap().split_whitespace() {
        assert!(is_gone(pid), "{pid} is alive");
    }
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a process that has left its session and its environment")]
#[test]
fn orphans_that_end_by_themselves_are_reaped_while_the_agent_works() {
    let world = World::new();
    world.stories(1, "");
    let (left, go) = (world.outside("left"), world.outside("go"));
    world.agent(&format!(
        "for n in 1 2 3 4 5; do (setsid sh -c 'sleep 0.1; echo $$ >>{0}' &); done; while [ ! -e {1} ]; do sleep 0.01; done; {COMPLETE}",
        left.display(),
        go.display()
    ));
    let running = world.spawn_start(&[]);
    world.wait_for("the orphans", || fs::read_to_string(&left).is_ok_and(|text| text.lines().count() == 5));
    let left = fs::read_to_string(&left).unwrap();
    world.wait_for("them to be reaped", || left.lines().all(|pid| !Path::new("/proc").join(pid).exists()));
    fs::write(&go, "").unwrap();
    running.finish().code(0);
    assert_eq!(survivors(&world), ["[]"]);
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a process that has left its session and its environment")]
#[test]
fn an_orphan_of_a_gate_is_ended_before_the_landing() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    let pid = world.outside("pid");
    world.start(&["--verify", &leave_an_orphan(&world, "pid")]).code(0);
    assert!(is_gone(&fs::read_to_string(&pid).unwrap()));
    assert_eq!(survivors(&world), ["[]"]);
}

#[test]
fn a_process_from_before_the_loop_is_left_alone() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    let (agent, program) = (world.outside("bin/agent"), env!("CARGO_BIN_EXE_git-ralph"));
    let script = format!("sleep 600 & echo $! >../pid; exec {program} start work -q -- {}", agent.display());
    assert!(world.command("sh", &["-c", &script]).status().unwrap().success());
    let pid = fs::read_to_string(world.outside("pid")).unwrap();
    assert!(!is_gone(&pid), "it is not the agent's");
    send("TERM", &pid);
}

#[test]
fn a_prompt_that_is_never_read_blocks_nothing() {
    let world = World::new();
    world.change("work", &format!("[[story]]\nid = '1'\nprompt = '''{}'''\n", "x".repeat(1_000_000)));
    world.agent(COMPLETE);
    world.start(&[]).code(0);
}

#[test]
fn a_big_prompt_arrives_whole_and_stdin_is_closed() {
    let world = World::new();
    world.change("work", &format!("[[story]]\nid = '1'\nprompt = '''{}'''\n", "x".repeat(200_000)));
    world.agent(&format!("tr -dc x | wc -c >count; {COMPLETE}"));
    world.start(&[]).code(0);
    assert!(world.read("count").trim().parse::<u32>().unwrap() >= 200_000);
}

#[test]
fn gates_run_in_order_in_the_work_tree_each_with_its_limit() {
    let world = World::new();
    world.change("work", "verify = ['echo one >>gates; pwd >>gates']\nverify-timeout = '3s'\nmax-retries = 1\n[[story]]\nid = '1'\nverify = ['echo two >>gates', 'test $RALPH_ATTEMPT = 2 || sleep 600']\n");
    world.agent(COMPLETE);
    world.start(&[]).code(0).says("did not end within 3 s");
    assert_eq!(world.read("gates"), format!("one\n{}\ntwo\n", world.repo.display()));
    assert!(world.prompt("1", 2).contains("stopped after 3 seconds"), "{}", world.prompt("1", 2));
}

#[test]
fn output_without_end_stays_within_a_fixed_buffer() {
    let world = World::new();
    world.stories(1, "");
    world.agent("head -c 200000000 /dev/zero | tr '\\0' x; echo; yes | head -c 5000000; echo '<promise>COMPLETE</promise>'");
    let (output, peak) = world.spawn_start(&["-q"]).finish_and_measure();
    output.code(0);
    assert!(peak < 64 * 1024, "peak memory {peak} kB");
    assert_eq!(fs::metadata(world.run_dir().join("attempts/1/1/stdout")).unwrap().len(), 205_000_029);
}

#[test]
fn a_promise_without_a_newline_counts_when_the_agent_lingers() {
    let world = World::new();
    world.stories(1, "");
    world.git(&["config", "ralph.lingerTimeout", "1s"]);
    world.agent("printf 'all done\\n<promise>COMPLETE</promise>'; exec sleep 600");
    world.start(&["--idle-timeout", "30s"]).code(0);
}

#[test]
fn chatter_on_stderr_does_not_keep_a_promised_agent_alive() {
    let world = World::new();
    world.stories(1, "");
    world.git(&["config", "ralph.lingerTimeout", "1s"]);
    world.agent("echo '<promise>COMPLETE</promise>'; while :; do echo heartbeat >&2; sleep 0.1; done");
    world.start(&["--attempt-timeout", "40s"]).code(0);
    let ended = world.events().into_iter().find(|event| event["event"] == "agent-ended").unwrap();
    assert_eq!(ended["exit"]["kind"], "lingered");
    assert!(ended["milliseconds"].as_u64().unwrap() < 30_000);
}

#[test]
fn a_story_that_asks_for_the_tag_itself_can_be_promised() {
    let world = World::new();
    world.change("work", "[[story]]\nid = '1'\nprompt = 'When done output <promise>COMPLETE</promise>'\n");
    world.agent("cat >/dev/null; echo '<promise>COMPLETE</promise>'");
    world.start(&[]).code(0);
    assert!(world.prompt("1", 1).contains("When done output <promise>WORD</promise>"));
    assert!(world.prompt("1", 1).ends_with('\n'));
}

#[test]
fn limits_without_measure_are_no_panic() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    let huge = "18446744073709551615";
    world.git(&["config", "ralph.grace", huge]);
    world.git(&["config", "ralph.lingerTimeout", huge]);
    world.start(&["--attempt-timeout", huge, "--idle-timeout", huge, "--max-retries", "4294967295", "--dry-run"]).code(0);
    world.start(&["--attempt-timeout", huge, "--idle-timeout", huge, "--max-retries", "4294967295"]).code(0);
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a process that has left its session")]
#[test]
fn processes_that_a_gate_leaves_running_are_ended_before_the_landing() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    let pid = world.outside("pid");
    let gate = format!("setsid sh -c 'echo $$ >{0}; sleep 600' >/dev/null 2>&1 & while [ ! -s {0} ]; do sleep 0.01; done", pid.display());
    world.start(&["--verify", &gate]).code(0);
    assert!(is_gone(&fs::read_to_string(&pid).unwrap()));
}

#[test]
fn a_story_that_is_dropped_while_its_gate_runs_is_landed_all_the_same() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo $RALPH_STORY >>order; {COMPLETE}"));
    world.start(&["--verify", "printf '[[story]]\\nid = \"2\"\\n' >.git/ralph/work.toml"]).code(0);
    assert_eq!(world.subjects("ralph/work"), ["checkpoint: 2", "checkpoint: 1", "initial state", "first"]);
}
