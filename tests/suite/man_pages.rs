//! Generates the manual from the definition of the command line, the table of settings and `man/sections/`, and compares it with `man/`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use git_ralph::cli::Cli;
use git_ralph::config::{KEYS, change_file_schema};
use git_ralph::install::{COMPLETIONS, PAGES};

use crate::golden;
use crate::support::{COMPLETE, World};

/// The date of the last change to the text. The date of the build would make builds differ.
const DATE: &str = "2026-11-18";
const MANUAL: &str = "Git Ralph Manual";
const HEAD: &str = ".\\\" Part of git-ralph. Written by tests/suite/man_pages.rs from src/cli and man/sections: do not edit.\n";

type Section = fn(&Man, &mut dyn std::io::Write) -> std::io::Result<()>;

/// Sections rendered by clap_mangen, without the preamble that it puts before each of them.
fn generated(man: &Man, sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        let mut bytes = Vec::new();
        section(man, &mut bytes).unwrap();
        let lines = String::from_utf8(bytes).unwrap();
        let preamble = |line: &&str| line.starts_with(".ie \\n(.g") || line.starts_with(".el .ds Aq");
        lines.lines().filter(|line| !preamble(line)).for_each(|line| {
            let _ = writeln!(text, "{}", line.trim_end());
        });
    }
    text.replace("\\*(Aq", "\\(aq")
}

fn man(command: Command, name: &str) -> Man {
    let version = format!("git-ralph {}", env!("CARGO_PKG_VERSION"));
    Man::new(command).title(name.to_uppercase()).section("1").date(DATE).source(version).manual(MANUAL)
}

fn section_file(name: &str) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("man/sections").join(format!("{name}.roff"))).ok()
}

/// Plain text as roff.
fn roff(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq")
}

/// Formats the text as mandoc recommends: short lines outside of examples, no paragraph macro at the beginning of a section.
fn tidy(text: &str) -> String {
    let text = &text.replace(".br\n\n.br\n", ".sp\n");
    let (mut tidied, mut is_example, mut before) = (String::new(), false, "");
    for line in text.lines() {
        is_example = (is_example || line == ".nf") && line != ".fi";
        if is_example || line.starts_with('.') {
            if !(line == ".PP" && before.starts_with(".SH")) {
                let _ = writeln!(tidied, "{line}");
            }
        } else {
            let _ = writeln!(tidied, "{}", wrapped(line));
        }
        before = line;
    }
    tidied
}

fn wrapped(line: &str) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in line.split(' ') {
        // A line must not begin with a character that starts a roff request.
        if width > 0 && width + 1 + word.len() > 78 && !word.starts_with(['.', '\'']) {
            text.push('\n');
            width = 0;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += word.len();
    }
    text
}

fn keys() -> String {
    let mut text = String::new();
    for key in KEYS {
        let _ = write!(text, ".TP\n\\fB{}\\fR = \\fI{}\\fR\n{}\n", roff(key.name), roff(key.value), roff(key.meaning));
        let _ = writeln!(text, "Default: {}.", roff(key.default));
        match (key.option, key.change_file) {
            (Some(option), Some(file)) => {
                let _ = writeln!(text, "Option: \\fB{}\\fR; in the change file: \\fB{}\\fR.", roff(option), roff(file));
            }
            (None, Some(file)) => {
                let _ = writeln!(text, "In the change file: \\fB{}\\fR.", roff(file));
            }
            (Some(option), None) => {
                let _ = writeln!(text, "Option: \\fB{}\\fR.", roff(option));
            }
            (None, None) => {}
        }
    }
    text
}

/// The keys of a change file except for its stories: its own keys and the settings; `command` is listed next to `agent`.
fn change_file_keys() -> String {
    let settings = KEYS.iter().filter_map(|key| key.change_file);
    let settings = settings.flat_map(|name| if name == "agent" { vec![name, "command"] } else { vec![name] });
    let names: Vec<String> =
        ["title", "context", "source", "order"].into_iter().chain(settings).map(|name| format!("\\fB{}\\fR", roff(name))).collect();
    names.join(", ") + ".\n"
}

fn commands(cli: &Command) -> String {
    let mut text = ".SH COMMANDS\n".to_owned();
    for command in cli.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help") {
        let about = roff(&command.get_about().unwrap().to_string());
        let _ = write!(text, ".TP\n\\fBgit\\-ralph\\-{}\\fR(1)\n{about}.\n", roff(command.get_name()));
    }
    text
}

fn main_page(cli: &Command) -> String {
    let man = man(cli.clone(), "git-ralph");
    let top = generated(&man, &[|man, w| man.render_title(w), |man, w| man.render_name_section(w)]);
    let written = section_file("git-ralph").unwrap();
    let (before, after) = written.split_once(".\\\" COMMANDS\n").unwrap();
    let (middle, end) = after.split_once(".\\\" KEYS\n").unwrap();
    let (file, end) = end.split_once(".\\\" CHANGE FILE KEYS\n").unwrap();
    tidy(&format!("{HEAD}{top}{before}{}{middle}{}{file}{}{end}", commands(cli), keys(), change_file_keys()))
}

fn command_page(command: &Command) -> String {
    let name = command.get_name().to_owned();
    let mut command = command.clone().bin_name(format!("git ralph {name}")).display_name(format!("git-ralph-{name}"));
    let usage = command.render_usage().to_string();
    command = command.override_usage(usage.trim_start_matches("Usage: ").to_owned());
    let about = roff(&command.get_about().unwrap().to_string());
    let man = man(command, &format!("git-ralph-{name}"));
    let text =
        generated(&man, &[|man, w| man.render_title(w), |man, w| man.render_name_section(w), |man, w| man.render_synopsis_section(w)]);
    let options = generated(&man, &[|man, w| man.render_options_section(w)]);
    // The handwritten text continues the description, and may have further sections.
    let written = section_file(&name).unwrap_or_default();
    let (more, sections) = written.split_at(written.find(".SH ").unwrap_or(written.len()));
    let see = ".SH SEE ALSO\n\\fBgit\\-ralph\\fR(1), \\fBgit\\-ralph\\-events\\fR(5)\n";
    tidy(&format!("{HEAD}{text}.SH DESCRIPTION\n{about}.\n{more}{options}{sections}{see}"))
}

fn events_page() -> String {
    let title = format!(".TH GIT-RALPH-EVENTS 5 {DATE} \"git-ralph {}\" \"{MANUAL}\"\n", env!("CARGO_PKG_VERSION"));
    tidy(&format!("{HEAD}{title}{}", section_file("events").unwrap()))
}

fn pages() -> Vec<(String, String)> {
    let mut cli = Cli::command();
    cli.build();
    let visible = cli.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let mut pages: Vec<(String, String)> =
        visible.map(|command| (format!("git-ralph-{}.1", command.get_name()), command_page(command))).collect();
    pages.push(("git-ralph.1".to_owned(), main_page(&cli)));
    pages.push(("git-ralph-events.5".to_owned(), events_page()));
    pages
}

#[test]
fn the_committed_pages_are_the_generated_ones() {
    for (name, text) in pages() {
        golden::compare(&format!("man/{name}"), &text);
    }
}

#[test]
fn every_page_has_examples() {
    for (name, text) in pages() {
        assert!(text.contains(".SH EXAMPLES\n"), "{name}");
    }
}

#[test]
fn no_page_has_a_section_twice() {
    for (name, text) in pages() {
        let sections: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        let once: std::collections::BTreeSet<&str> = sections.iter().copied().collect();
        assert_eq!(once.len(), sections.len(), "{name}: {sections:?}");
    }
}

#[test]
fn every_page_and_completion_is_shipped_and_no_other() {
    let mut names: Vec<String> = pages().into_iter().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(golden::files("man"), names);
    let mut shipped: Vec<&str> = PAGES.iter().map(|page| page.name).collect();
    shipped.sort_unstable();
    assert_eq!(shipped, names);
    let mut shipped: Vec<&str> = COMPLETIONS.iter().map(|file| file.name).collect();
    shipped.sort_unstable();
    assert_eq!(shipped, golden::files("completions"));
}

#[test]
fn the_main_page_has_every_section_and_key() {
    let page = main_page(&Cli::command());
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).map(|name| name.trim_matches('"')).collect();
    let expected = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "COMMANDS",
        "CONFIGURATION",
        "SECURITY",
        "NOTIFICATIONS",
        "CHANGE FILE",
        "FILES",
        "ENVIRONMENT",
        "EXIT STATUS",
    ];
    let expected: Vec<&str> = expected.into_iter().chain(["EXAMPLES", "GIT", "SEE ALSO"]).collect();
    assert_eq!(sections, expected);
    for key in KEYS {
        assert!(page.contains(&format!("\\fB{}\\fR", roff(key.name))), "{}", key.name);
    }
}

#[test]
fn the_main_page_names_every_key_of_a_change_file() {
    let schema = change_file_schema();
    let page = main_page(&Cli::command());
    let part = page.split(".SH \"CHANGE FILE\"").nth(1).unwrap().split("\n.SH ").next().unwrap();
    for object in [&schema, &schema["properties"]["story"]["items"]] {
        let keys = object["properties"].as_object().unwrap();
        assert!(keys.len() > 4, "{keys:?}");
        for key in keys.keys() {
            assert!(part.contains(&format!("\\fB{}\\fR", roff(key))) || part.contains(&format!("[[{key}]]")), "{key}");
        }
    }
}

/// The events in the code with their fields, read from the source text: `RunStarted { initial: Oid, … }` is `run-started` with `initial`.
fn events_of_the_code() -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/run/event.rs")).unwrap();
    let body = text.split("pub enum Event {").nth(1).unwrap().split("\n}\n").next().unwrap();
    let mut events: Vec<(String, Vec<String>)> = Vec::new();
    for line in body.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.starts_with('#')) {
        let fields = match line.split_once(" {") {
            Some((variant, fields)) if variant.starts_with(char::is_uppercase) => {
                events.push((kebab(variant), Vec::new()));
                fields
            }
            _ => line,
        };
        let names = fields.split(", ").filter_map(|field| field.trim().split_once(": ")).map(|(name, _)| name.replace('_', "-"));
        let names: Vec<String> = names.collect();
        if let Some((_, known)) = events.last_mut() {
            known.extend(names);
        }
    }
    events
}

fn kebab(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(c.to_lowercase());
    }
    text
}

#[test]
fn the_page_of_events_has_every_event_with_its_fields() {
    let events = events_of_the_code();
    assert!(events.len() > 30 && events.iter().any(|(name, fields)| name == "agent-ended" && fields.len() == 11), "{events:?}");
    let page = events_page();
    let part = page.split(".SH EVENTS").nth(1).unwrap().split("\n.SH ").next().unwrap();
    let entries: Vec<&str> = part.split(".TP\n").skip(1).collect();
    let named: Vec<String> =
        entries.iter().map(|entry| entry.lines().next().unwrap().replace("\\fB", "").replace("\\fR", "").replace("\\-", "-")).collect();
    assert_eq!(named, events.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), "in the order of the code");
    for ((name, fields), entry) in events.iter().zip(entries) {
        for field in fields {
            assert!(entry.contains(&format!("\\fI{}\\fR", roff(field))), "{name}: {field}");
        }
    }
}

/// Collects the name of every field in a JSON document.
fn fields(json: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
    match json {
        serde_json::Value::Object(object) => object.iter().for_each(|(name, value)| {
            found.insert(name.clone());
            fields(value, found);
        }),
        serde_json::Value::Array(items) => items.iter().for_each(|item| fields(item, found)),
        _ => {}
    }
}

#[test]
fn every_field_of_every_json_document_is_on_its_page() {
    let world = World::new();
    world.stories(2, "max-retries = 0");
    world.agent(&format!("echo x >x; test $RALPH_STORY = 1 && {{ {COMPLETE}; exit; }}; echo '<promise>FAILED: no</promise>'"));
    world.start(&[]).code(1);
    world.ralph(&["finish", "--cleanup"]).code(0);
    world.start(&["--restart", "--limit", "1"]).code(0);
    for (page, args) in [
        ("status", &["status"][..]),
        ("log", &["log"]),
        ("log", &["log", "1", "--attempt", "1"]),
        ("list", &["list"]),
        ("doctor", &["doctor"]),
        ("config", &["config"]),
    ] {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let json: serde_json::Value = serde_json::from_str(&world.ralph(&args).stdout).unwrap();
        assert_eq!(json["schema"], 1, "{args:?}");
        assert_on_page(page, &json);
    }
}

/// Asserts that the manual page of a command documents every field of its JSON output.
#[track_caller]
pub fn assert_on_page(page: &str, json: &serde_json::Value) {
    let mut found = std::collections::BTreeSet::new();
    fields(json, &mut found);
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("man/git-ralph-{page}.1"))).unwrap();
    for field in found {
        assert!(text.contains(&format!("\\fB{}\\fR", field.replace('-', "\\-"))), "{page}: {field}");
    }
}
