//! Tests the rules of ARCHITECTURE.md that no lint checks, and that its map of the files is complete.

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

/// The code of a file without its unit tests.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap()
}

/// The modules from the bottom up. Each may use only those on lower floors, and none on its own floor.
const FLOORS: [&[&str]; 14] = [
    &["shell_word", "portable_word"],
    &["error", "nearest", "safe_read", "fence", "free_name", "stamp", "json", "cost", "sandbox_program"],
    &["process", "relocate", "safe_write", "vault"],
    &["git"],
    &["story"],
    &["config"],
    &["names"],
    &["remote"],
    &["workspace", "agent", "runner"],
    &["branch"],
    &["run"],
    &["report", "worker"],
    &["cli", "install"],
    &["cmd", "complete"],
];

/// Modules that a module must not use although they are lower, with the reason.
const STRANGERS: [(&str, &[&str], &str); 5] = [
    ("story", &["process", "git"], "stories are read from text alone"),
    ("config", &["process", "git"], "settings are read from text alone"),
    ("agent", &["git"], "what an agent does to a repository is not its profile's business"),
    ("report", &["agent", "branch"], "reporters render events, and events say what happened"),
    ("cli", &["process", "git", "story", "agent", "workspace", "branch", "run", "report"], "clap definitions only"),
];

/// The module that a source file belongs to.
fn module(path: &Path) -> String {
    let inner = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    inner.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

/// The modules that a text uses as `crate::…`, in code but not in comments.
fn used_modules(text: &str) -> Vec<String> {
    let lines = code(text).lines().filter(|line| !line.trim_start().starts_with("//"));
    let word = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    lines.flat_map(|line| line.split("crate::").skip(1).map(word).collect::<Vec<_>>()).filter(|word| !word.is_empty()).collect()
}

#[test]
fn a_module_uses_only_what_stands_below_it() {
    let floor = |name: &str| FLOORS.iter().position(|floor| floor.contains(&name));
    for (path, text) in sources("src") {
        let name = module(&path);
        if matches!(name.as_str(), "lib" | "main") {
            continue;
        }
        let own = floor(&name).unwrap_or_else(|| panic!("{name} has no floor"));
        for used in used_modules(&text).into_iter().filter(|used| *used != name) {
            let below = floor(&used).unwrap_or_else(|| panic!("{}: {used} has no floor", path.display()));
            assert!(below < own, "{} uses {used}, which does not stand below {name}", path.display());
            let stranger = STRANGERS.iter().find(|(module, strangers, _)| *module == name && strangers.contains(&used.as_str()));
            assert!(stranger.is_none(), "{} uses {used}: {}", path.display(), stranger.unwrap().2);
        }
    }
}

/// The arms of every `match` in a source: the text of each block, without nested braces.
fn matches_of(text: &str) -> Vec<String> {
    let found = text.match_indices("match ").filter_map(|(at, _)| {
        let open = at + text[at..].find('{')?;
        let mut depth = 0;
        let mut arms = String::new();
        for c in text[open..].chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ if depth == 1 => arms.push(c),
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        Some(arms)
    });
    found.collect()
}

/// A new event needs a decision at every match on events, so none may have a catch-all arm.
#[test]
fn no_match_on_events_has_a_catch_all() {
    let catch_all = |arm: &str| {
        let word = arm.trim_start().split("=>").next().unwrap().trim();
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_') && arm.contains("=>")
    };
    let mut looked_at = 0;
    for (path, text) in sources("src") {
        if path.ends_with("run/state.rs") {
            // The state handles the events of stories in a second match, behind one that names them all.
            continue;
        }
        for arms in matches_of(code(&text)) {
            // A name with a path before it, such as process::Event, is a different enum.
            let on_events = arms.lines().any(|line| line.trim_start().trim_start_matches("| ").starts_with("Event::"));
            looked_at += usize::from(on_events);
            assert!(!on_events || !arms.lines().any(catch_all), "{}: a match on Event has a catch-all arm:{arms}", path.display());
        }
    }
    assert!(looked_at >= 4, "only {looked_at} matches on Event were found");
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
fn tests_start_programs_from_scratch() {
    for (path, text) in sources("tests").into_iter().filter(|(path, _)| !path.ends_with("support.rs")) {
        let makes = ["process::Command::", " Command::"].map(|start| format!("{start}new("));
        assert!(!makes.iter().any(|words| text.contains(words)), "{} starts a program with what our own starter ignores", path.display());
    }
}

#[test]
fn modules_that_decide_do_no_io_and_are_not_async() {
    for file in [
        "run/machine.rs",
        "run/state.rs",
        "run/progress.rs",
        "run/policy.rs",
        "run/step.rs",
        "run/queue.rs",
        "run/checkpoints.rs",
        "run/judge.rs",
        "run/event.rs",
        "report/secrets.rs",
        "report/page/history.rs",
        "report/page/timeline.rs",
        "report/page/foreign.rs",
        "report/page/model.rs",
        "agent/signal.rs",
        "agent/enclosure.rs",
        "agent/verdict.rs",
        "agent/prompt.rs",
        "agent/report.rs",
        "agent/profile.rs",
        "agent/trouble.rs",
        "agent/sentences.rs",
        "agent/reset.rs",
        "agent/zones.rs",
        "agent/stream/mod.rs",
        "agent/stream/stream_state.rs",
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
        "workspace/isolated/carried.rs",
        "story/order.rs",
        "story/source/mod.rs",
        "story/source/markdown.rs",
        "story/source/openspec.rs",
        "story/source/plan.rs",
        "story/source/prd.rs",
        "story/source/marking.rs",
        "story/source/speckit.rs",
    ] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file)).unwrap();
        for word in ["std::fs", "std::io", "tokio", "async ", ".await", "std::env"] {
            assert!(!code(&text).contains(word), "{file} uses {word}");
        }
    }
}

/// The files that may contain unsafe code, each with the reason.
const UNSAFE: [(&str, &str); 4] = [
    ("src/relocate.rs", "no safe function makes a special file on macOS"),
    ("src/process/interrupt.rs", "no safe function tells whether a signal is ignored"),
    ("src/process/platform/macos.rs", "libproc has no safe interface"),
    ("src/process/launch.rs", "no safe function starts a child in a session of its own without a fork"),
];

#[test]
fn only_files_with_a_reason_contain_unsafe_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (path, text) in sources("src").into_iter().chain(sources("benches")) {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let is_unsafe = text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains("unsafe"));
        let allowed = UNSAFE.iter().any(|(file, _)| *file == name);
        // A file without unsafe code must not be on the list.
        assert_eq!(is_unsafe, allowed, "{name}");
    }
    for (file, _) in UNSAFE {
        assert!(root.join(file).exists(), "{file}");
    }
}

#[test]
fn every_file_says_in_its_first_line_what_it_is_for() {
    for (path, text) in sources("src").into_iter().chain(sources("tests")) {
        assert!(text.starts_with("//! "), "{}", path.display());
    }
}

#[test]
fn the_map_names_every_directory_and_file() {
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

#[test]
fn every_file_that_the_documents_for_contributors_name_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for document in ["CONTRIBUTING.md", "ARCHITECTURE.md"] {
        let text = fs::read_to_string(root.join(document)).unwrap();
        let quoted = text.split('`').skip(1).step_by(2);
        let rooms = ["src/", "tests/", "man/", "docs/", "fuzz/", "benches/", "completions/"];
        let paths = quoted.filter(|word| rooms.iter().any(|room| word.starts_with(room)) && !word.contains(['<', ' ', '*', '[']));
        let mut named = 0;
        for path in paths.map(|path| path.split("::").next().unwrap()) {
            assert!(root.join(path).exists(), "{document} names {path}");
            named += 1;
        }
        assert!(named > 10, "{document} names only {named} files");
    }
}

/// A test that is ignored on other systems must say why it needs Linux.
#[test]
fn every_test_that_only_linux_can_pass_says_why() {
    let mut named = 0;
    for (path, text) in sources("tests").into_iter().filter(|(path, _)| !path.ends_with("house_rules.rs")) {
        for line in text.lines().filter(|line| line.contains("cfg_attr(ralph_portable")) {
            let why =
                line.trim().strip_prefix("#[cfg_attr(ralph_portable, ignore = \"needs Linux: ").and_then(|rest| rest.strip_suffix("\")]"));
            assert!(why.is_some_and(|why| why.len() > 20), "{}: {line}", path.display());
            named += 1;
        }
    }
    assert!(named > 0, "no test needs Linux any more");
}
