//! Tests known clients by name, played by scripts that print what the real clients printed: verdicts, limits, budgets, prompts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{Output, World};

/// A line of a script that prints what a real client printed and ends with the same exit status.
fn replay(case: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(case);
    let path = path.display();
    format!("cat '{path}.stdout'; cat '{path}.stderr' >&2; exit $(cat '{path}.code')")
}

/// The work of an attempt that should land.
const WORK: &str = "cat > /dev/null; echo done > \"$RALPH_STORY\"";

fn start(world: &World, options: &[&str]) -> Output {
    let mut args = vec!["start", "work"];
    args.extend(options);
    world.ralph(&args)
}

fn outcomes(world: &World) -> Vec<String> {
    let rejected = |event: &serde_json::Value| Some(event["outcome"]["outcome"].as_str()?.to_owned());
    world.events().iter().filter(|event| event["event"] == "attempt-rejected").filter_map(rejected).collect()
}

#[test]
fn every_known_client_is_called_so_that_it_works_alone_and_lands_a_story() {
    for (name, flag) in [
        ("claude", "--dangerously-skip-permissions --model m --own"),
        ("codex", "--color never --model m --own -"),
        ("opencode", "run --auto --format json --model m --own"),
        ("gemini", "--yolo --skip-trust -o stream-json --model m --own"),
        ("qwen", "--yolo -o stream-json --model m --own"),
        ("aider", "--model m --own --message-file /dev/stdin"),
        ("goose", "--output-format stream-json --model m --own -i -"),
        ("copilot", "--output-format json --model m --own"),
    ] {
        let world = World::new();
        world.stories(1, "");
        world.program(name, &format!("echo \"$@\" > ../called; {WORK}; {}", replay(&format!("{name}-success"))));
        world.git(&["config", &format!("ralph.{name}.args"), "--own"]);
        start(&world, &["--agent", name, "--model", "m", "--finish", "keep"]).code(0);
        assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1", "{name}");
        let called = fs::read_to_string(world.outside("called")).unwrap();
        assert!(called.trim_end().ends_with(flag), "{name}: {called}");
    }
}

#[test]
fn with_no_agent_configured_the_first_known_one_is_used_and_reported() {
    let world = World::new();
    world.stories(1, "");
    world.program("claude", &format!("{WORK}; {}", replay("claude-success")));
    world.program("codex", "exit 9");
    start(&world, &["--finish", "keep"])
        .code(0)
        .says("no agent is configured, using claude")
        .says("git config ralph.agent claude")
        .says("claude runs with its permission prompts switched off");
    assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1");
}

#[test]
fn real_endings_lead_to_the_right_outcome() {
    for (client, case, outcome) in [
        ("claude", "failed", "failed"),
        ("claude", "decoy", "vanished"),
        ("gemini", "decoy", "vanished"),
        ("gemini", "sigint", "vanished"),
        ("gemini", "stall", "vanished"),
        ("goose", "500", "unavailable"),
        ("codex", "drop", "unavailable"),
        ("claude", "maxturns", "abnormal"),
        ("copilot", "plain", "vanished"),
    ] {
        let world = World::new();
        world.stories(1, "");
        world.program(client, &format!("{WORK}; {}", replay(&format!("{client}-{case}"))));
        start(&world, &["--agent", client, "--max-retries", "0"]).code(1);
        assert_eq!(outcomes(&world), [outcome], "{client}-{case}");
        assert_eq!(world.subjects("ralph/work")[0], "initial state", "{client}-{case}");
    }
}

#[test]
fn a_wrong_key_ends_the_loop_at_once_and_costs_no_retry() {
    for (client, case, words) in [
        ("claude", "401", "Invalid API key"),
        ("claude", "nokey", "Not logged in"),
        ("claude", "root-refused", "root/sudo privileges"),
        ("goose", "401", "Authentication failed"),
        ("aider", "401", "invalid x-api-key"),
        ("gemini", "400", "prompt is too long"),
    ] {
        let world = World::new();
        world.stories(2, "");
        world.program(client, &format!("{WORK}; {}", replay(&format!("{client}-{case}"))));
        start(&world, &["--agent", client]).code(1).says("stopped: the agent cannot work: ").says(words);
        assert_eq!((world.count("attempt-started"), outcomes(&world)), (1, vec!["misconfigured".to_owned()]), "{client}-{case}");
        world.program(client, &format!("{WORK}; {}", replay(&format!("{client}-success"))));
        world.ralph(&["resume", "work", "--max-retries", "0", "--finish", "keep"]).code(0);
        assert_eq!(world.subjects("ralph/work")[..2], ["checkpoint: 2", "checkpoint: 1"], "{client}-{case}");
    }
}

#[test]
fn an_expired_login_or_used_up_credits_end_the_loop_at_once_and_cost_no_retry() {
    let claude = |words: &str| format!(r#"{{"type":"result","subtype":"success","is_error":true,"result":"{words}"}}"#);
    let codex = |words: &str| format!(r#"{{"type":"turn.failed","error":{{"message":"{words}"}}}}"#);
    let opencode = |words: &str| format!(r#"{{"type":"error","error":{{"name":"UnknownError","data":{{"message":"{words}"}}}}}}"#);
    for (client, line, words) in [
        ("claude", claude("Login expired · Please run /login"), "Login expired"),
        ("claude", claude("Usage is paused for your organization. For help, please contact support."), "Usage is paused"),
        ("codex", codex("Your workspace is out of credits. Add credits to continue."), "out of credits"),
        ("codex", codex("You hit your spend cap set in your workspace."), "spend cap"),
        ("opencode", opencode("Model not found: a/b. Did you mean: c?"), "Model not found: a/b"),
    ] {
        let world = World::new();
        world.stories(1, "");
        world.program(client, &format!("{WORK}; echo '{line}'; exit 1"));
        start(&world, &["--agent", client]).code(1).says("stopped: the agent cannot work: ").says(words);
        assert_eq!((world.count("attempt-started"), outcomes(&world)), (1, vec!["misconfigured".to_owned()]), "{line}");
    }
}

#[test]
fn a_model_that_cannot_be_reached_is_tried_again_after_a_moment() {
    let world = World::new();
    world.stories(1, "");
    let script = format!("{WORK}; if mkdir ../seen; then {}; else {}; fi", replay("claude-529"), replay("claude-success"));
    world.program("claude", &script);
    start(&world, &["--agent", "claude", "--max-retries", "1", "--finish", "keep"])
        .code(0)
        .says("could not reach its model")
        .says("trying again at");
    assert_eq!((outcomes(&world), world.count("pause-ended")), (vec!["unavailable".to_owned()], 1));
}

/// A client that reaches its usage limit once, with a reset that many seconds later, and works after that.
fn limited_once(seconds: &str) -> String {
    let limit = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":'$(($(date +%s) + SECONDS_UNTIL))',"rateLimitType":"five_hour"}}"#;
    let result = r#"{"type":"result","subtype":"success","is_error":true,"result":"You have hit your limit"}"#;
    let limited = format!("echo '{}'; echo '{result}'; exit 1", limit.replace("SECONDS_UNTIL", seconds));
    format!("{WORK}; if mkdir ../seen; then {limited}; else {}; fi", replay("claude-success"))
}

#[test]
fn a_usage_limit_is_waited_for_and_costs_no_retry() {
    let world = World::new();
    world.stories(1, "");
    world.program("claude", &limited_once("2"));
    start(&world, &["--agent", "claude", "--max-retries", "0", "--finish", "keep"]).code(0).says("usage limit reached, waiting until");
    assert_eq!((outcomes(&world), world.count("pause-started"), world.count("pause-ended")), (vec!["limited".to_owned()], 1, 1));
    assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1");
    assert!(!world.prompt("1", 2).contains("previous attempt"));
}

#[test]
fn a_limit_without_a_time_is_tried_again_after_the_configured_pause() {
    let world = World::new();
    world.stories(1, "");
    let script = format!("{WORK}; if mkdir ../seen; then {}; else {}; fi", replay("gemini-quota"), replay("gemini-success"));
    world.program("gemini", &script);
    world.git(&["config", "ralph.limitPause", "1s"]);
    start(&world, &["--agent", "gemini", "--max-retries", "0", "--finish", "keep"]).code(0).says("exhausted your daily quota");
    assert_eq!(outcomes(&world), ["limited"]);
}

#[test]
fn a_client_that_always_reports_its_limit_ends_the_loop_after_thirty_waits_and_a_resume_tries_again() {
    let world = World::new();
    world.stories(1, "");
    world.program("gemini", &format!("{WORK}; echo x >>../calls; {}", replay("gemini-quota")));
    // The wait doubles each time: all of them together take a second.
    world.git(&["config", "ralph.limitPause", "1ns"]);
    let calls = || fs::read_to_string(world.outside("calls")).unwrap().lines().count();
    start(&world, &["--agent", "gemini", "--max-retries", "0"])
        .code(1)
        .says("the agent's usage limit is still in force after 30 waits in a row")
        .says("git ralph resume");
    assert_eq!((calls(), world.count("pause-ended"), world.count("checkpoint-landed"), world.count("finished")), (31, 30, 0, 0));
    let ended = world.events().into_iter().rfind(|event| event["event"] == "loop-ended").unwrap();
    assert_eq!(ended["end"]["why"], "still-limited", "{ended}");

    world.program("gemini", &format!("{WORK}; {}", replay("gemini-success")));
    world.ralph(&["resume", "--finish", "keep"]).code(0);
    assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1");
}

#[test]
fn with_limit_wait_stop_a_limit_ends_the_loop_and_resume_tries_at_once() {
    let world = World::new();
    world.stories(1, "");
    world.program("claude", &limited_once("3600"));
    world.git(&["config", "ralph.limitWait", "stop"]);
    start(&world, &["--agent", "claude", "--max-retries", "0"]).code(1).says("usage limit is reached, it resets at");
    assert_eq!(world.count("pause-started"), 0);
    world.ralph(&["resume", "--finish", "keep"]).code(0);
    assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1");
}

/// The moment until which the program takes a limit to last, on a machine in New York, when its client says so.
fn reset_in_new_york(words: &str) -> jiff::Timestamp {
    let mut world = World::new();
    world.set_env("TZ", "America/New_York");
    world.stories(1, "");
    world.git(&["config", "ralph.limitWait", "stop"]);
    let result = format!(r#"{{"type":"result","subtype":"success","is_error":true,"result":"You have hit your limit · resets {words}"}}"#);
    world.program(
        "claude",
        &format!("{WORK}; echo '{}'; exit 1", result.replace("You have hit", "Youve hit").replace("Youve", r"You\u2019ve")),
    );
    start(&world, &["--agent", "claude", "--max-retries", "0"]).code(1).says("usage limit is reached, it resets at");
    let rejected = world.events().into_iter().find(|event| event["event"] == "attempt-rejected").unwrap();
    rejected["outcome"]["resets"].as_str().unwrap_or_else(|| panic!("{words}: {rejected}")).parse().unwrap()
}

#[test]
fn the_program_reads_a_reset_in_the_zone_of_its_client_and_else_in_that_of_the_machine() {
    let now = jiff::Zoned::now();
    let hour = |zone: &str| {
        let then = now.in_tz(zone).unwrap().saturating_add(jiff::Span::new().hours(3));
        then.with().minute(0).second(0).subsec_nanosecond(0).build().unwrap()
    };
    for (zone, form) in
        [("Asia/Tokyo", "%H:%M GMT+9"), ("Europe/Berlin", "%-I%P Europe/Berlin"), ("UTC", "%H:%M UTC"), ("America/New_York", "%-I%P")]
    {
        let then = hour(zone);
        let words = then.strftime(form).to_string();
        assert_eq!(reset_in_new_york(&words), then.timestamp(), "{words}");
    }
    let stamp = now.timestamp().as_second() + 7200;
    assert_eq!(reset_in_new_york(&format!("at {stamp}")).as_second(), stamp);
}

#[test]
fn a_wait_can_be_stopped_and_goes_on_after_a_stop_or_a_kill() {
    let world = World::new();
    world.stories(1, "");
    world.program("claude", &limited_once("3600"));
    let running = world.spawn(&["start", "work", "--agent", "claude", "--max-retries", "0"]);
    world.wait_for("the wait", || world.run_dir().join("journal.jsonl").exists() && world.count("pause-started") == 1);
    let status: serde_json::Value = serde_json::from_str(&world.ralph(&["status", "--json"]).code(0).stdout).unwrap();
    assert!(status["waiting-until"].is_string(), "{status}");
    world.ralph(&["status"]).code(0).says("waiting until");
    world.ralph(&["stop"]).code(0);
    running.finish().code(1).says("stopped");

    for signal in ["KILL", "TERM"] {
        let resumed = world.spawn(&["resume"]);
        world.wait_for("the run to be taken up", || world.ralph(&["status"]).stdout.contains("open, running"));
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!((world.count("attempt-started"), world.count("pause-started")), (1, 1), "the same wait goes on");
        resumed.signal(signal);
        resumed.finish();
    }
    world.git(&["config", "ralph.limitWait", "stop"]);
    world.ralph(&["resume", "--finish", "keep"]).code(0);
    assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1");
}

#[test]
fn a_budget_applies_to_the_whole_run_and_cost_is_reported_per_story() {
    let world = World::new();
    world.stories(3, "");
    world.program("claude", &format!("{WORK}; {}", replay("claude-success")));
    start(&world, &["--agent", "claude", "--max-cost", "0.03"])
        .code(1)
        .says("done in")
        .says("$0.017, 11.1k tokens")
        .says("budget exceeded ($0.035 spent, limit $0.030)");
    assert_eq!(world.count("attempt-started"), 2);
    world.ralph(&["resume"]).code(1).says("spent, limit $0.030)");
    assert_eq!(world.count("attempt-started"), 2, "a resumed run remembers its budget and what it has used");
    world.ralph(&["resume", "--max-cost", "1", "--max-tokens", "20k"]).code(1).says("budget exceeded (22.3k tokens used, limit 20.0k)");
    let status: serde_json::Value = serde_json::from_str(&world.ralph(&["status", "--json"]).code(0).stdout).unwrap();
    assert_eq!((status["cost-usd"].as_f64(), status["tokens"].as_u64()), (Some(0.03456), Some(22308)), "{status}");
    assert_eq!(status["stories"][0]["cost-usd"].as_f64(), Some(0.01728), "{status}");
    world.ralph(&["log"]).code(0).says("attempt 1 done (").says("$0.017, 11.1k tokens)");
    world.ralph(&["resume", "--max-cost", "1", "--max-tokens", "1M", "--finish", "keep"]).code(0);
    let ended = world.events().into_iter().find(|event| event["event"] == "agent-ended").unwrap();
    assert_eq!((ended["usage"]["cost"].as_f64(), ended["usage"]["input"].as_u64()), (Some(0.01728), Some(11000)), "{ended}");
}

#[test]
fn an_attempt_that_uses_up_the_budget_is_ended_and_kept_and_the_next_process_goes_on_with_it() {
    let world = World::new();
    world.stories(2, "");
    let step = r#"printf '%s\n' '{"type":"step_finish","sessionID":"s","part":{"type":"step-finish","reason":"tool-calls","cost":0.5,"tokens":{"input":900,"output":100}}}'"#;
    // If git-ralph did not end it, the client would complete the story.
    world.program("opencode", &format!("{WORK}; {step}; sleep 20; {}", replay("opencode-success")));
    start(&world, &["--agent", "opencode", "--max-cost", "0.4"]).code(1).says("budget exceeded ($0.500 spent, limit $0.400)");
    assert_eq!((world.count("attempt-started"), world.count("checkpoint-landed")), (1, 0));
    let ended = world.events().into_iter().find(|event| event["event"] == "agent-ended").unwrap();
    assert_eq!(ended["exit"]["kind"], "interrupted", "{ended}");
    assert_eq!(world.count("attempt-rolled-back"), 1, "what it has written is kept");
    world.program("opencode", &format!("{WORK}; {}", replay("opencode-success")));
    world.ralph(&["resume", "--max-cost", "9", "--max-retries", "0", "--finish", "keep"]).code(0);
    assert_eq!(world.count("checkpoint-landed"), 2, "an attempt that was ended for its cost is no retry");
}

#[test]
fn a_budget_that_cannot_be_enforced_is_reported() {
    let world = World::new();
    world.stories(1, "max-cost = 2.5\n");
    world.program("codex", &format!("{WORK}; {}", replay("codex-success")));
    start(&world, &["--agent", "codex", "--finish", "keep"]).code(0).says("codex does not report its cost").says("use --max-tokens");
    world.ralph(&["start", "work", "--max-cost", "free"]).code(129).says("not an amount of dollars");
}

#[test]
fn an_agent_that_lingers_after_its_promise_is_ended_and_counts() {
    let world = World::new();
    world.stories(1, "");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/claude-success.stdout");
    world.program("claude", &format!("{WORK}; cat '{}'; exec sleep 600", path.display()));
    world.git(&["config", "ralph.lingerTimeout", "500ms"]);
    start(&world, &["--agent", "claude", "--finish", "keep"]).code(0);
    assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1");
}

#[test]
fn learnings_outlive_a_rollback_and_reach_the_next_attempt_and_story() {
    let world = World::new();
    world.stories(2, "");
    world.agent(
        r#"cat > /dev/null; echo "lesson of $RALPH_STORY.$RALPH_ATTEMPT" >> "$RALPH_LEARNINGS"; echo "<promise>COMPLETE</promise>" >> "$RALPH_LEARNINGS"
        [ "$RALPH_STORY.$RALPH_ATTEMPT" = 1.1 ] && echo '<promise>FAILED: no</promise>' && exit; echo '<promise>COMPLETE</promise>'"#,
    );
    world.start(&["--finish", "keep"]).code(0);
    let file = world.run_dir().join("learnings.md");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let first = world.prompt("1", 1);
    assert!(first.contains(file.to_str().unwrap()) && !first.contains("lesson of"), "{first}");
    assert!(world.prompt("1", 2).contains("lesson of 1.1"));
    let last = world.prompt("2", 1);
    assert!(last.contains("lesson of 1.1") && last.contains("lesson of 1.2"), "{last}");
    assert!(!last.contains("<promise>COMPLETE</promise>"), "{last}");
    assert_eq!(world.git(&["ls-tree", "-r", "--name-only", "ralph/work"]), "README");
}

#[test]
fn a_custom_prompt_template_is_used_and_a_broken_one_is_reported_first() {
    let world = World::new();
    world.stories(1, "context = \"Mind the gap.\"\n");
    world.agent(crate::support::COMPLETE);
    fs::write(
        world.path(".git/ralph/prompt.md"),
        "Please do {{ story.title }}. {{ context }}\n{% for g in gates %}Run {{ g }}.\n{% endfor %}",
    )
    .unwrap();
    let plan = world.start(&["--dry-run", "-v", "--verify", "true"]).code(0).stdout;
    assert!(plan.contains("    Please do Story 1. Mind the gap.\n    Run true.\n") && plan.contains("<promise>WORD</promise>"), "{plan}");
    world.start(&["--verify", "true", "--finish", "keep"]).code(0);
    assert!(world.prompt("1", 1).starts_with("Please do Story 1. Mind the gap.\nRun true.\n"), "{}", world.prompt("1", 1));

    fs::write(world.path(".git/ralph/prompt.md"), "\n{{ stori.title }}").unwrap();
    world.git(&["checkout", "-q", "main"]);
    world.start(&[]).code(128).says("prompt.md:2: the prompt cannot be made");
    assert_eq!(world.branch(), "main");
}

#[test]
fn a_prompt_of_200_kilobytes_arrives_whole() {
    let world = World::new();
    let text: String = (0..20_000).map(|n| format!("word{n:06}")).collect();
    world.change("work", &format!("[[story]]\nid = \"1\"\nprompt = \"{text}\"\n"));
    world.agent(&format!("cat > ../heard; {}", crate::support::COMPLETE));
    world.start(&["--finish", "keep"]).code(0);
    assert_eq!(fs::read_to_string(world.outside("heard")).unwrap(), world.prompt("1", 1));
    assert!(world.prompt("1", 1).len() > 200_000);
}

#[test]
fn doctor_shows_program_version_format_and_a_trial_start_of_every_agent() {
    let world = World::new();
    world.program("claude", "echo '2.1.325 (Claude Code)'");
    world.program("codex", "echo 'cannot find node' >&2; exit 127");
    world.git(&["config", "ralph.mine.cmd", "cat | something"]);
    world.git(&["config", "ralph.agent", "claude"]);
    let output = world.ralph(&["doctor"]).code(1);
    let output = output.says("agent claude").says("2.1.325 (Claude Code)").says("format claude");
    output.says("a trial start ended with exit status 127: cannot find node").says("agent mine").says("default agent");
    world.program("codex", "echo codex 1");
    let json: serde_json::Value = serde_json::from_str(&world.ralph(&["doctor", "--json"]).code(0).stdout).unwrap();
    let claude = json["checks"].as_array().unwrap().iter().find(|check| check["name"] == "agent claude").unwrap();
    assert_eq!((json["schema"].as_u64(), claude["health"].as_str()), (Some(1), Some("green")), "{json}");
    world.git(&["config", "ralph.agent", "nobody"]);
    world.ralph(&["doctor"]).code(1).says("there is no agent 'nobody'").says("fix: git config ralph.agent");
}

#[test]
fn whatever_an_agent_makes_of_the_learnings_is_no_reason_to_stop() {
    for made in [
        "rm -f \"$F\"; mkfifo \"$F\"",
        "rm -f \"$F\"; mkdir \"$F\"",
        "rm -f \"$F\"; ln -s /dev/zero \"$F\"",
        "truncate -s 4G \"$F\"",
        "rm -f \"$F\"",
    ] {
        let world = World::new();
        world.stories(2, "");
        world.agent(&format!("cat > /dev/null; F=$RALPH_LEARNINGS; {made}; {}", crate::support::COMPLETE));
        world.start(&["--finish", "keep"]).code(0);
        assert_eq!(world.subjects("ralph/work")[..2], ["checkpoint: 2", "checkpoint: 1"], "{made}");
    }
}

#[test]
fn a_fifo_in_place_of_one_of_our_files_does_not_block() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!(
        "cat > /dev/null; mkfifo \"$RALPH_RUN_DIR/stop\"; rm .git/ralph/work.toml; mkfifo .git/ralph/work.toml; {}",
        crate::support::COMPLETE
    ));
    let before = world.read(".git/ralph/work.toml");
    world.start(&["--finish", "keep"]).code(0).says("work.toml changed during the attempt and was restored");
    assert_eq!((world.subjects("ralph/work")[0].as_str(), world.read(".git/ralph/work.toml")), ("checkpoint: 1", before));
}

#[test]
fn gates_run_though_the_agent_deleted_the_directory_of_its_attempt() {
    let world = World::new();
    world.stories(1, "verify = ['true']");
    world.git(&["config", "ralph.hooks", "true"]);
    world.agent(&format!("cat > /dev/null; rm -rf .git/ralph; {}", crate::support::COMPLETE));
    world.start(&["--finish", "keep"]).code(0).says("they are restored");
    assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1");
}

#[test]
fn a_promise_that_is_followed_by_work_does_not_outlive_the_time_limit() {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("cat > /dev/null; {}; while :; do echo working; sleep 0.1; done", crate::support::COMPLETE));
    world.start(&["--attempt-timeout", "3s", "--max-retries", "0"]).code(1).says("was stopped after 3 seconds");
    assert_eq!(outcomes(&world), ["abnormal"]);
}

#[test]
fn a_client_that_is_through_but_keeps_printing_is_ended_and_counts() {
    let world = World::new();
    world.stories(1, "");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/claude-success.stdout");
    let beat = r#"while :; do echo '{"type":"keep_alive"}'; sleep 0.1; done"#;
    world.program("claude", &format!("{WORK}; cat '{}'; {beat}", path.display()));
    world.git(&["config", "ralph.lingerTimeout", "1s"]);
    start(&world, &["--agent", "claude", "--finish", "keep"]).code(0);
    assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1");
}

#[test]
fn another_agent_does_not_wait_for_the_limit_of_the_first() {
    let world = World::new();
    world.stories(1, "");
    world.program("claude", &limited_once("3600"));
    world.program("codex", &format!("{WORK}; {}", replay("codex-success")));
    let running = world.spawn(&["start", "work", "--agent", "claude"]);
    world.wait_for("the wait", || world.run_dir().join("journal.jsonl").exists() && world.count("pause-started") == 1);
    world.ralph(&["stop"]).code(0);
    running.finish().code(1);
    world.ralph(&["resume", "--agent", "codex", "--finish", "keep"]).code(0);
    assert_eq!(world.subjects("ralph/work")[0], "checkpoint: 1");
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a process that has left its session")]
#[test]
fn processes_of_a_killed_run_are_ended_before_the_next_attempt() {
    let world = World::new();
    world.stories(1, "");
    // The descriptors are closed, so the process inherits the mark in the environment but not the lock.
    let stray = "setsid sh -c 'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- </dev/null >/dev/null 2>&1; echo $$ > ../stray; exec sleep 600' &";
    world.agent(&format!("cat > /dev/null; if mkdir ../seen; then {stray} sleep 600; fi; {}", crate::support::COMPLETE));
    let running = world.spawn_start(&[]);
    world.wait_for("the stray", || fs::read_to_string(world.outside("stray")).is_ok_and(|pid| pid.ends_with('\n')));
    running.signal("KILL");
    running.finish();
    world.ralph(&["resume", "--finish", "keep"]).code(0);
    let pid = fs::read_to_string(world.outside("stray")).unwrap();
    assert!(crate::support::is_gone(&pid), "{pid}");
}

#[test]
fn usage_from_before_git_ralph_was_killed_counts_for_the_budget() {
    let world = World::new();
    world.stories(1, "");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/claude-success.stdout");
    world.program("claude", &format!("{WORK}; head -n 4 '{}'; sleep 0.3; kill -9 $PPID; sleep 600", path.display()));
    start(&world, &["--agent", "claude", "--max-tokens", "12k"]).code(-9);
    world
        .ralph(&["resume", "--max-tokens", "11k"])
        .code(1)
        .says("stopped: budget exceeded (11.0k tokens used, limit 11.0k)")
        .says("git ralph resume --max-tokens 22");
    assert_eq!((world.count("attempt-started"), world.count("usage-found")), (1, 1));
    world.ralph(&["resume"]).code(1);
    assert_eq!(world.count("usage-found"), 1, "counted once");
}
