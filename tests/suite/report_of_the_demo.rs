//! Compares the page of the demo in `docs/` with a new one; `RALPH_BLESS=1` rewrites it.

use std::fs;

use serde_json::{Value, json};

use crate::golden;
use crate::support::World;

/// How long each agent and each gate of the demo takes on the page, in milliseconds; the demo itself ends within seconds.
const AGENTS: [i64; 5] = [41_300, 63_800, 38_200, 52_600, 47_900];
const GATES: [i64; 4] = [2_100, 2_300, 3_400, 2_900];

/// The journal of the demo with the times of a realistic run, and without the path of the program.
fn with_real_times(journal: &str) -> String {
    let (mut now, mut agents, mut gates) = (1_772_355_600_000_i64, AGENTS.iter(), GATES.iter());
    let mut lines = String::new();
    for line in journal.lines() {
        let mut event: Value = serde_json::from_str(line).unwrap();
        event.as_object_mut().unwrap().remove("mac");
        let took = match event["event"].as_str().unwrap() {
            "agent-ended" => *agents.next().unwrap(),
            "gate-ended" => *gates.next().unwrap(),
            "checkpoint-landed" | "attempt-rolled-back" => 900,
            _ => 120,
        };
        if event["milliseconds"].is_u64() {
            event["milliseconds"] = took.into();
        }
        if event["event"] == "loop-started" {
            event["conditions"]["git"] = json!("2.47.3");
            for setting in event["conditions"]["settings"].as_array_mut().unwrap() {
                if setting["key"] == "ralph.demo.cmd" {
                    setting["values"] = json!(["git-ralph demo-agent"]);
                }
            }
        }
        now += took;
        event["at"] = json!(jiff::Timestamp::from_millisecond(now).unwrap());
        lines.push_str(&format!("{event}\n"));
    }
    lines
}

#[test]
fn the_page_in_the_documents_is_that_of_the_demo() {
    let mut world = World::empty();
    for name in ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"] {
        world.set_env(name, "2026-03-01T09:00:00Z");
    }
    let dir = world.outside("demo");
    world.ralph(&["demo", "--dir", dir.to_str().unwrap()]).code(0);
    world.repo = dir;
    let journal = world.path(".git/ralph/runs/greeter/1/journal.jsonl");
    fs::write(&journal, with_real_times(&fs::read_to_string(&journal).unwrap())).unwrap();
    let page = world.ralph(&["report", "greeter", "-o", "-"]).code(0).stdout;
    golden::compare("docs/demo-report.html", &page);
}
