//! Tests the live view on a real terminal: its content at any width, and its keys.

use std::fs;

use crate::screen::Screen;
use crate::support::{COMPLETE, World};

const CTRL_C: &str = "\u{3}";

/// Three stories and a client that reports tokens, cost and tools. At the second story it waits until the file `go` exists.
fn at_the_second_story() -> World {
    let world = World::new();
    let titles = ["Parse the command line", "Read the 設定 file 👩\u{200d}👩\u{200d}👧", "Write the report"];
    let stories: String = titles
        .iter()
        .zip(["parse", "read", "write"])
        .map(|(title, id)| format!("[[story]]\nid = \"{id}\"\ntitle = \"{title}\"\n"))
        .collect();
    world.change("work", &stories);
    let usage = r#""usage":{"input_tokens":11200,"output_tokens":800}"#;
    world.program(
        "claude",
        &format!(
            r#"cat >/dev/null
            say() {{ printf '{{"type":"assistant","message":{{"id":"m%s","model":"opus","content":[%s],{usage}}}}}\n' "$RALPH_STORY" "$1"; }}
            say '{{"type":"tool_use","name":"Edit","input":{{"file_path":"'"$PWD"'/src/'"$RALPH_STORY"'.rs"}}}}'
            if [ $RALPH_STORY = read ]; then while [ ! -e {go} ]; do sleep 0.02; done; fi
            echo $RALPH_STORY >$RALPH_STORY
            printf '{{"type":"result","subtype":"success","result":"<promise>COMPLETE</promise>","total_cost_usd":0.25,{usage}}}\n'"#,
            go = world.outside("go").display()
        ),
    );
    world
}

fn go(world: &World) {
    fs::write(world.outside("go"), "").unwrap();
}

const START: [&str; 8] = ["start", "work", "--agent", "claude", "--model", "opus", "--finish", "keep"];

/// The rows of the live view, from the first row of a story to the row of keys.
fn view(screen: &Screen) -> Vec<String> {
    let rows = screen.rows();
    let first = rows.iter().position(|row| row.starts_with(|c| ('\u{2800}'..='\u{28ff}').contains(&c)));
    let view: Vec<String> = first.map(|first| rows[first..].to_vec()).unwrap_or_default();
    view.into_iter().filter(|row| !row.is_empty()).collect()
}

#[test]
fn the_live_view_shows_what_has_room_at_20_80_and_160_columns() {
    let table: [(u16, &[&str]); 3] = [
        (20, &["read (atte…", "1/3 stories", "q stop"]),
        (
            80,
            &[
                "read (attempt 1)",
                "Edit src/r",
                "1/3 stories",
                "2 left, about",
                "$0.250",
                "24.0k tokens",
                "q stop after this attempt",
                "Ctrl-C stop now",
                "claude (opus)",
            ],
        ),
        (160, &["read (attempt 1)", "Read the 設定 file", "Edit src/read.rs", "━━━━━━━━━━╌", "q stop after this attempt"]),
    ];
    for (columns, expected) in table {
        let world = at_the_second_story();
        let screen = Screen::sized(&world, &START, columns);
        screen.wait_for("1/3 stories");
        for part in expected {
            screen.wait_for(part);
        }
        world.wait_for("three lines of one row each", || view(&screen).len() == 3);
        go(&world);
        let (code, text) = screen.end();
        assert_eq!(code, 0, "{text}");
        assert!(!text.contains("q stop") && !text.contains('⠋'), "nothing of the live view is left:\n{text}");
    }
}

#[test]
fn the_clock_ticks_while_an_agent_works_in_silence() {
    let world = at_the_second_story();
    let screen = Screen::new(&world, &START);
    screen.wait_for("read (attempt 1)");
    let clock = || {
        let row = view(&screen).first().cloned().unwrap_or_default();
        row.split("  ").find(|part| part.starts_with("0:")).map(str::to_owned)
    };
    let first = clock();
    world.wait_for("the clock to tick", || clock() != first);
    go(&world);
    assert_eq!(screen.end().0, 0);
}

#[test]
fn the_live_view_survives_resizes_and_no_event_line_is_lost() {
    let world = at_the_second_story();
    let screen = Screen::new(&world, &START);
    screen.wait_for("read (attempt 1)");
    for columns in [30, 120, 20, 25, 160, 40] {
        screen.resize(columns);
        let keys = if columns >= 60 { "Ctrl-C stop now" } else { "q stop" };
        screen.wait_for(keys);
        world.wait_for("three rows", || view(&screen).len() == 3);
        for event in ["on ralph/work", "parse: Parse", "parse: done in", "read: Read"] {
            assert_eq!(screen.text().matches(event).count(), 1, "'{event}' at {columns} columns:\n{}", screen.text());
        }
    }
    go(&world);
    let (code, text) = screen.end();
    assert_eq!(code, 0, "{text}");
    for event in ["parse: done in", "read: done in", "write: done in", "all stories of work"] {
        assert_eq!(text.matches(event).count(), 1, "{event}:\n{text}");
    }
}

#[test]
fn q_stops_after_the_story_that_is_under_way() {
    let world = at_the_second_story();
    let mut screen = Screen::new(&world, &START);
    screen.wait_for("read (attempt 1)");
    screen.press("xq");
    screen.wait_for("stopping after this attempt");
    assert_eq!(world.count("stop-requested"), 1);
    go(&world);
    let (code, text) = screen.end();
    assert_eq!(code, 1, "{text}");
    assert_eq!(world.count("checkpoint-landed"), 2, "the story landed, and no other one began:\n{text}");
    assert_eq!(world.count("attempt-started"), 2);
}

#[test]
fn without_a_keyboard_there_is_a_live_view_that_offers_no_key() {
    let world = at_the_second_story();
    let line = format!("{} {} </dev/null", env!("CARGO_BIN_EXE_git-ralph"), START.join(" "));
    let screen = Screen::of(&world, &["sh", "-c", &line], 100);
    screen.wait_for("1/3 stories");
    screen.wait_for("Ctrl-C stop now");
    assert!(!screen.text().contains("q stop"), "{}", screen.text());
    go(&world);
    assert_eq!(screen.end().0, 0);
}

#[test]
fn ctrl_c_leaves_no_spinner_on_the_screen() {
    let world = at_the_second_story();
    let mut screen = Screen::new(&world, &START[..6]);
    screen.wait_for("read (attempt 1)");
    screen.press(CTRL_C);
    screen.wait_for("The run is paused, 1 of 3 stories done. What now?");
    screen.wait_for("❯ later");
    assert!(view(&screen).is_empty() && !screen.text().contains("q stop"), "{}", screen.text());
    screen.press(CTRL_C);
    assert_eq!(screen.end().0, 130);
}

#[test]
fn a_terminal_that_cannot_draw_gets_plain_lines() {
    for term in [Some("dumb"), Some(""), None] {
        let mut world = at_the_second_story();
        go(&world);
        match term {
            Some(term) => world.set_env("TERM", term),
            None => world.unset_env("TERM"),
        }
        let screen = Screen::new(&world, &START[..6]);
        screen.wait_for("the run is open");
        let raw = screen.raw();
        let (code, text) = screen.end();
        assert_eq!(code, 0, "{text}");
        for line in ["parse: Parse the command line, attempt 1", "write: done in", "all stories of work are done"] {
            assert!(text.contains(line), "TERM={term:?}: '{line}' is not in\n{text}");
        }
        assert!(!raw.contains("\u{1b}["), "TERM={term:?}: {raw:?}");
    }
}

#[test]
fn the_live_view_is_coloured_unless_no_color_is_set() {
    for plain in [false, true] {
        let mut world = at_the_second_story();
        world.change("work", "verify = ['test $RALPH_ATTEMPT = 2']\n[[story]]\nid = 'parse'\n");
        if plain {
            world.set_env("NO_COLOR", "1");
        }
        let screen = Screen::new(&world, &START);
        screen.wait_for("parse: done in");
        screen.wait_for("finished");
        let raw = screen.raw();
        assert_eq!(screen.end().0, 0);
        for (what, colour) in [("parse: done in", "\u{1b}[32m"), ("parse: attempt 1 failed", "\u{1b}[31m"), ("0/1 story", "\u{1b}[32m")] {
            assert!(raw.contains(what), "{what}");
            assert_eq!(raw.contains(colour), !plain, "{what} with NO_COLOR={plain}: {raw:?}");
        }
    }
}

#[test]
fn verbose_keeps_the_live_view_and_prints_the_agents_output_above_it() {
    let world = at_the_second_story();
    let screen = Screen::new(&world, &[&START[..], &["-v"]].concat());
    screen.wait_for("read> Edit src/read.rs");
    screen.wait_for("q stop after this attempt");
    go(&world);
    let (_, text) = screen.end();
    assert!(text.contains("parse> Edit src/parse.rs") && text.contains("write> Edit src/write.rs"), "{text}");
}

#[test]
fn only_counts_the_stories_that_it_selects() {
    let world = at_the_second_story();
    world.stories(4, "");
    let ready = world.outside("go");
    let agent = world.agent(&format!("while [ ! -e {} ]; do sleep 0.02; done; {COMPLETE}", ready.display()));
    let screen = Screen::new(&world, &["start", "work", "--only", "1", "--finish", "keep", "--", &agent]);
    screen.wait_for("0/1 story");
    go(&world);
    screen.end();
}

#[test]
fn a_failed_gate_shows_its_last_lines_and_the_command_for_all_of_it() {
    let world = World::new();
    world.stories(1, "max-retries = 0\nverify = ['seq 1 30; echo expected 4 but got 5; exit 1']");
    world.agent(COMPLETE);
    let output = world.start(&[]).code(1);
    for line in
        ["\n  | 27\n", "\n  | 30\n", "\n  | expected 4 but got 5\n", "\n  git ralph log --attempt 1 work 1   shows all of its output\n"]
    {
        assert!(output.stderr.contains(line), "{line:?} is missing in\n{}", output.stderr);
    }
    assert!(!output.stderr.contains("  | 26"), "five lines are enough:\n{}", output.stderr);
    world.ralph(&["log", "work", "1", "--attempt", "1"]).code(0).says("\n1\n2\n3\n").says("expected 4 but got 5");
}

#[test]
fn the_time_of_a_story_includes_its_gates() {
    let world = World::new();
    world.stories(1, "verify = ['sleep 1.2']");
    world.agent(COMPLETE);
    let output = world.start(&[]).code(0);
    let time = output.stderr.split("1: done in ").nth(1).unwrap().split(" s").next().unwrap();
    assert!(time.parse::<f32>().unwrap() >= 1.2, "{}", output.stderr);
    let status: serde_json::Value = serde_json::from_str(&world.ralph(&["status", "--json"]).code(0).stdout).unwrap();
    assert!(status["stories"][0]["seconds"].as_u64().unwrap() >= 1, "{status}");
}

#[test]
fn a_limit_that_a_client_tells_in_seconds_is_shown_as_a_time() {
    let world = World::new();
    world.stories(1, "");
    world.git(&["config", "ralph.limitWait", "stop"]);
    world.program("claude", "cat >/dev/null; echo 'Claude AI usage limit reached|4070908800'; exit 1");
    let output = world.ralph(&["start", "work", "--agent", "claude"]).code(1);
    assert!(output.stderr.contains("resets at Thu 2099-01-01 00:00"), "{}", output.stderr);
    assert!(!output.stderr.contains("4070908800"), "{}", output.stderr);
}

#[test]
fn the_demo_on_a_terminal_can_be_followed_in_the_live_view() {
    let world = World::empty();
    let mut screen = Screen::new(&world, &["demo", "--dir", "scratch"]);
    screen.wait_for("== the loop");
    screen.wait_for("greet (attempt 1)  Greet the world");
    screen.wait_for("Write greet.sh");
    screen.wait_for("0/3 stories");
    assert!(screen.raw().contains("\u{1b}[36m"), "in colour");
    screen.press(CTRL_C);
    assert_eq!(screen.end().0, 130);
}

#[test]
fn the_fast_demo_shows_both_kinds_of_runs_and_where_to_go_next() {
    let mut world = World::empty();
    let temporary = world.outside("").display().to_string();
    world.set_env("TMPDIR", &temporary);
    let screen = Screen::new(&world, &["demo", "--fast", "--clean"]);
    screen.wait_for_raw("agents work in");
    let (code, text) = screen.end();
    assert_eq!(code, 0, "{text}");
    for part in ["spanish: done in", "the result is merged into your checkout", "?? hello.fr", "git ralph new <change>"] {
        assert!(text.contains(part), "'{part}' is not on the screen:\n{text}");
    }
    let left: Vec<_> = fs::read_dir(world.outside("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "nothing is left beside the repository: {left:?}");
}
