//! Tests the other outputs of `log`: transcripts, following a loop, JSON, earlier runs.

use std::fs;

use crate::support::{COMPLETE, World};

const FAILED: &str = "echo '<promise>FAILED: not today</promise>'";

fn json(world: &World, args: &[&str]) -> serde_json::Value {
    let json: serde_json::Value = serde_json::from_str(&world.ralph(args).code(0).stdout).unwrap();
    assert_eq!(json["schema"], 1, "{json}");
    json
}

/// A story that fails once and then lands, with a gate that prints something.
fn world() -> World {
    let world = World::new();
    world.stories(1, "verify = ['echo all is well']\nmax-retries = 1");
    world.agent(&format!(
        "echo thinking; printf '\\033[31mred\\033[0m\\n'; echo oops >&2; test $RALPH_ATTEMPT = 1 && {{ {FAILED}; exit; }}; echo x >x; {COMPLETE}"
    ));
    world
}

#[test]
fn log_json_has_runs_stories_attempts_outcomes_and_refs() {
    let world = world();
    world.start(&["--finish", "cleanup"]).code(0);
    fs::remove_file(world.path("x")).unwrap();
    world.start(&["--restart", "--finish", "keep"]).code(0);
    let log = json(&world, &["log", "--json"]);
    assert_eq!((log["change"].as_str(), log["run"].as_u64(), log["state"].as_str()), (Some("work"), Some(2), Some("finished")));
    assert_eq!(log["earlier-runs"][0]["run"], 1);
    assert_eq!(log["earlier-runs"][0]["done"], 1);
    let attempts = log["stories"][0]["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0]["outcome"], "failed: not today");
    assert_eq!(attempts[0]["rescues"][0], "refs/ralph/work/attempts/1/1");
    assert!(attempts[1]["checkpoint"].is_string() && attempts[1]["milliseconds"].is_u64() && attempts[1]["started"].is_string());
    let kept = log["kept"].as_array().unwrap();
    let rescue = kept.iter().find(|kept| kept["ref"] == "refs/ralph/work/attempts/1/1").unwrap();
    assert!(rescue["look"].as_str().unwrap().starts_with("git diff "), "{rescue}");
    world.ralph(&["log"]).code(0).says("Earlier runs").says("  1: finished, 1 story done, started ");
    let first = json(&world, &["log", "--json", "--run", "1"]);
    assert_eq!((first["run"].as_u64(), first["earlier-runs"].as_array().map(Vec::len)), (Some(1), Some(0)));
    world.ralph(&["log", "--run", "7"]).code(128).says("'work' has no run 7, only 1, 2");
}

#[test]
fn an_attempt_is_shown_as_text_and_tool_calls_and_with_raw_byte_for_byte() {
    let world = world();
    world.start(&["--finish", "keep"]).code(0);
    let text = world.ralph(&["log", "work", "1", "--attempt", "2"]).code(0).stdout;
    assert!(text.starts_with("1 by agent: attempt 2 done ("), "{text}");
    assert!(text.contains("\nthinking\nred\n") && !text.contains('\u{1b}'), "{text:?}");
    assert!(text.contains("standard error\noops\n") && text.contains("gate 1\nall is well\n"), "{text}");
    let raw = world.ralph(&["log", "--attempt", "1", "--raw"]).code(0).stdout;
    assert_eq!(raw, "thinking\n\u{1b}[31mred\u{1b}[0m\n<promise>FAILED: not today</promise>\n");
    let page = json(&world, &["log", "1", "--attempt", "1", "--json"]);
    assert_eq!((&page["story"], &page["attempt"]["outcome"]), (&"1".into(), &"failed: not today".into()));
    assert_eq!(page["said"][0], "thinking");
    world.ralph(&["log", "1", "--attempt", "5"]).code(128).says("'1' has no attempt 5, only 1, 2");
    world.ralph(&["log", "1", "--raw"]).code(129);
    fs::remove_dir_all(world.run_dir().join("attempts")).unwrap();
    world.ralph(&["log", "1", "--attempt", "1"]).code(128).says("the transcript of attempt 1 of '1' is missing");
}

#[test]
fn the_transcript_of_a_known_client_is_rendered_from_its_stream() {
    let world = World::new();
    world.stories(1, "");
    world.program(
        "claude",
        r#"cat >/dev/null
echo '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"Looking around"},{"type":"tool_use","name":"Bash","input":{"command":"ls -l"}}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"<promise>COMPLETE</promise>","num_turns":1,"total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":5}}'"#,
    );
    world.ralph(&["start", "work", "--agent", "claude", "--finish", "keep"]).code(0);
    let text = world.ralph(&["log", "--attempt", "1"]).code(0).stdout;
    assert!(text.contains("Looking around\n> Bash ls -l\n"), "{text}");
    assert!(text.contains("1 by claude: attempt 1 done") && text.contains("$0.250, 15 tokens"), "{text}");
}

#[test]
fn which_story_is_asked_when_several_have_such_an_attempt() {
    let world = World::new();
    world.stories(2, "");
    world.agent(COMPLETE);
    world.start(&["--finish", "keep"]).code(0);
    let output = world.ralph(&["log", "--attempt", "1"]).code(128).says("attempt 1 of which story?");
    output.says("git ralph log --attempt 1 work 1").says("git ralph log --attempt 1 work 2");
    world.ralph(&["log", "--attempt", "1", "--", "work", "2"]).code(0);
    world.ralph(&["log", "--attempt", "9"]).code(128).says("no story of 'work' has an attempt 9");
}

#[test]
fn follow_tells_a_running_loop_as_it_goes_and_ends_with_it() {
    let world = World::new();
    world.stories(2, "");
    let go = world.outside("go");
    world.agent(&format!("echo first words; while ! test -e {}; do sleep 0.05; done; echo last words; {COMPLETE}", go.display()));
    let running = world.spawn_start(&["--finish", "keep"]);
    world.wait_for("the agent", || world.run_dir().join("attempts/1/1/stdout").exists());
    let follower = world.spawn(&["log", "-f"]);
    let events = world.spawn(&["log", "-f", "--json"]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    fs::write(&go, "").unwrap();
    let told = follower.finish().code(0).stdout;
    running.finish().code(0);
    for line in [
        "1: Story 1, attempt 1\n",
        "1| first words\n1| last words\n",
        "2| last words\n",
        "all stories of work are done\n",
        "finished; the result is on ralph/work\n",
    ] {
        assert!(told.contains(line), "{line}\n{told}");
    }
    let lines = events.finish().code(0).stdout;
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, world.events(), "one event per line, as they are in the journal");
}

#[test]
fn follow_of_a_run_without_a_loop_prints_it_and_ends() {
    let world = world();
    world.start(&[]).code(0);
    world.ralph(&["log", "-f"]).code(0).says("1: attempt 1 failed: not today").says("all stories of work are done");
}

#[test]
fn follow_ends_when_its_reader_is_gone() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("while :; do echo more; sleep 0.05; test -e stop && break; done; {COMPLETE}"));
    let running = world.spawn_start(&["--finish", "keep"]);
    world.wait_for("the agent", || world.run_dir().join("attempts/1/1/stdout").exists());
    let mut follower = world.spawn(&["log", "-f"]);
    drop(follower.child.stdout.take());
    drop(follower.child.stderr.take());
    world.wait_for("the follower to end", || follower.child.try_wait().unwrap().is_some());
    fs::write(world.path("stop"), "").unwrap();
    running.finish().code(0);
}
