//! Tests Ctrl-Z, and that the terminal settings are restored however git-ralph ends.

use std::fs;
use std::time::{Duration, Instant};

use crate::screen::Screen;
use crate::support::{COMPLETE, World, send};

/// The letter that the kernel uses for the state of a process.
fn state(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// An agent that waits for a line from a FIFO without starting a process, because the state of a process that has just forked is not
/// reliable.
fn waiting_agent(world: &World) -> String {
    let (pid, go) = (world.outside("pid"), world.outside("go"));
    assert!(world.command("mkfifo", &[go.to_str().unwrap()]).status().unwrap().success());
    world.agent(&format!("echo $$ >{}; read line <{}; echo x >x; {COMPLETE}", pid.display(), go.display()))
}

fn pid_of_agent(world: &World) -> String {
    let pid = world.outside("pid");
    world.wait_for("the agent", || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
    fs::read_to_string(&pid).unwrap()
}

#[test]
fn ctrl_z_suspends_the_agent_too_and_fg_continues_both() {
    let world = World::new();
    world.stories(1, "");
    let agent = waiting_agent(&world);
    let mut shell = Screen::of(&world, &["bash", "--norc", "--noprofile", "-i"], 100);
    let began = Instant::now();
    shell.press(&format!("{} start work --idle-timeout 2m --finish keep -- {agent}\r", env!("CARGO_BIN_EXE_git-ralph")));
    shell.wait_for("q stop after this attempt");
    let pid = pid_of_agent(&world);
    shell.press("\u{1a}");
    shell.wait_for("Stopped");
    world.wait_for("the agent to be suspended", || state(&pid) == Some('T'));
    assert!(!shell.text().contains("q stop after this attempt"), "the live view is gone:\n{}", shell.text());
    let suspended = Duration::from_millis(2500);
    std::thread::sleep(suspended);
    shell.press("fg\r");
    shell.wait_for("q stop after this attempt");
    world.wait_for("the agent to go on", || state(&pid).is_some_and(|state| state != 'T'));
    fs::write(world.outside("go"), "go\n").unwrap();
    shell.wait_for("finished; the result is on ralph/work");
    let most = u64::try_from((began.elapsed() - suspended).as_millis()).unwrap();
    shell.press("exit\r");
    assert_eq!(shell.end().0, 0);
    assert_eq!(world.count("attempt-started"), 1);
    let worked = world.events().iter().find_map(|event| event["milliseconds"].as_u64().filter(|_| event["event"] == "agent-ended"));
    assert!(worked.is_some_and(|worked| worked <= most), "the suspension counts as work: {worked:?} of {most}");
}

#[test]
fn a_question_is_asked_again_after_ctrl_z_and_fg() {
    let world = World::new();
    world.stories(1, "");
    let agent = world.agent(COMPLETE);
    let mut shell = Screen::of(&world, &["bash", "--norc", "--noprofile", "-i"], 100);
    shell.press(&format!("{} start work -- {agent}\r", env!("CARGO_BIN_EXE_git-ralph")));
    shell.wait_for("❯ cleanup");
    shell.press("\u{1a}");
    shell.wait_for("Stopped");
    assert!(!shell.text().contains("❯ cleanup"), "the question is off the screen:\n{}", shell.text());
    shell.press("fg\r");
    shell.wait_for("❯ cleanup");
    shell.press("\r");
    shell.wait_for("back on main");
    shell.press("exit\r");
    assert_eq!(shell.end().0, 0);
}

#[test]
fn time_in_which_git_ralph_was_stopped_is_no_silence_of_the_agent() {
    let world = World::new();
    world.stories(1, "max-retries = 0");
    waiting_agent(&world);
    let running = world.spawn_start(&["--idle-timeout", "6s"]);
    let pid = pid_of_agent(&world);
    running.signal("STOP");
    send("STOP", &pid);
    std::thread::sleep(Duration::from_secs(7));
    send("CONT", &pid);
    running.signal("CONT");
    std::thread::sleep(Duration::from_millis(500));
    fs::write(world.outside("go"), "go\n").unwrap();
    running.finish().code(0);
    assert_eq!(world.count("checkpoint-landed"), 1);
}

#[test]
fn a_terminal_has_its_settings_again_after_sigterm_in_the_loop() {
    let world = World::new();
    world.stories(1, "");
    let agent = waiting_agent(&world);
    let screen = Screen::new(&world, &["start", "work", "--", &agent]);
    screen.wait_for("q stop after this attempt");
    assert!(!screen.echoes(), "keys are read without echo");
    send("TERM", &screen.child.process_id().unwrap().to_string());
    assert_eq!(screen.end().0, 130);
}

#[test]
#[ignore = "a part of the test below, which runs it on a terminal"]
fn panic_while_keys_are_read() {
    let _keyboard = git_ralph::report::Keyboard::open().expect("a terminal");
    println!("reading keys");
    let mut line = String::new();
    while line.is_empty() {
        line = git_ralph::report::Keyboard::open().map(|keyboard| format!("{:?}", keyboard.typed())).unwrap_or_default().replace("[]", "");
    }
    panic!("with keys {line}");
}

#[test]
fn a_terminal_has_its_settings_again_after_a_panic() {
    let world = World::new();
    let tests = std::env::current_exe().unwrap();
    let program = [tests.to_str().unwrap(), "--ignored", "--exact", "suspending::panic_while_keys_are_read", "--nocapture"];
    let mut screen = Screen::of(&world, &program, 100);
    screen.wait_for("reading keys");
    screen.press("q");
    screen.wait_for("with keys");
    assert_eq!(screen.end().0, 101);
}
