//! The rules of the house that no lint knows, and the map that must stay true.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(dir: &str) -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                found.push((path.clone(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(dir), &mut found);
    assert!(!found.is_empty(), "{dir}");
    found
}

/// The code of a file without its own tests.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap()
}

#[test]
fn no_room_looks_into_one_that_it_must_not_know() {
    let table: &[(&str, &[&str])] = &[
        ("src/process", &["git", "story", "agent", "run", "report", "checkpoint", "config", "cmd", "cli"]),
        ("src/git", &["story", "agent", "run", "report", "checkpoint", "config", "cmd", "cli"]),
        ("src/story", &["process", "git", "agent", "run", "report", "checkpoint", "cmd", "cli"]),
        ("src/checkpoint", &["agent", "run", "report", "config", "cmd", "cli"]),
        ("src/config", &["process", "git", "agent", "run", "report", "checkpoint", "cmd", "cli"]),
        ("src/agent", &["git", "run", "report", "checkpoint", "cmd", "cli"]),
        ("src/run", &["cmd", "cli"]),
        ("src/report", &["cmd", "cli", "agent"]),
        ("src/cli", &["process", "git", "agent", "run", "report", "checkpoint", "cmd"]),
    ];
    for (dir, forbidden) in table {
        for (path, text) in sources(dir) {
            for room in *forbidden {
                assert!(!code(&text).contains(&format!("crate::{room}::")), "{} knows {room}", path.display());
            }
        }
    }
}

#[test]
fn the_loop_neither_prints_nor_asks() {
    for (path, text) in sources("src/run") {
        for word in ["report::output", "report::ask", "println!", "dialoguer", "indicatif"] {
            assert!(!code(&text).contains(word), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn what_decides_does_no_io_and_does_not_wait() {
    for file in [
        "run/machine.rs",
        "run/line.rs",
        "run/judge.rs",
        "run/event.rs",
        "agent/signal.rs",
        "agent/prompt.rs",
        "agent/heard.rs",
        "agent/profile.rs",
        "agent/trouble.rs",
        "agent/reset.rs",
        "agent/stream/mod.rs",
        "agent/stream/talk.rs",
        "agent/stream/lines.rs",
        "fence.rs",
        "json.rs",
        "agent/stream/text.rs",
        "agent/stream/aider.rs",
        "agent/stream/claude.rs",
        "agent/stream/codex.rs",
        "agent/stream/copilot.rs",
        "agent/stream/gemini.rs",
        "agent/stream/goose.rs",
        "agent/stream/opencode.rs",
        "config/change_file.rs",
        "story/order.rs",
        "story/source/mod.rs",
        "story/source/markdown.rs",
        "story/source/openspec.rs",
        "story/source/plan.rs",
        "story/source/prd.rs",
        "story/source/settle.rs",
        "story/source/speckit.rs",
    ] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file)).unwrap();
        for word in ["std::fs", "std::io", "tokio", "async ", ".await", "std::env"] {
            assert!(!code(&text).contains(word), "{file} uses {word}");
        }
    }
}

#[test]
fn every_file_says_in_its_first_line_what_it_is_for() {
    for (path, text) in sources("src").into_iter().chain(sources("tests")) {
        assert!(text.starts_with("//! "), "{}", path.display());
    }
}

#[test]
fn the_map_names_every_room_and_file() {
    let map = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md")).unwrap();
    let whole = [
        "src/cli",
        "src/cmd",
        "src/story",
        "src/process",
        "src/complete",
        "src/install",
        "src/agent",
        "src/agent/stream",
        "src/story/source",
    ];
    for (path, _) in sources("src") {
        let name = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display().to_string();
        let (dir, file) = name.rsplit_once('/').unwrap();
        let known = file == "mod.rs"
            || whole.iter().any(|room| dir == *room && map.contains(&format!("`{room}/`")))
            || map.contains(&format!("`{name}`"))
            || map.contains(&format!("`{file}`"));
        assert!(known, "ARCHITECTURE.md does not name {name}");
    }
}
