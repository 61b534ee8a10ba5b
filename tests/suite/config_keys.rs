//! Tests that every entry in the table of settings reaches the command line, the change file, git's configuration and the manual.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use git_ralph::cli::Cli;
use git_ralph::config::{ChangeFile, Flags, GitConfig, KEYS, Key, Listed, Settings, change_file_template, parse_change_file};

use crate::support::World;

const STORY: &str = "[[story]]\nid = \"1\"\n";

fn text_of(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn with_option() -> impl Iterator<Item = (&'static Key, &'static str)> {
    KEYS.iter().filter_map(|key| Some((key, key.option?)))
}

fn in_change_file() -> impl Iterator<Item = (&'static Key, &'static str)> {
    KEYS.iter().filter_map(|key| Some((key, key.change_file?)))
}

/// One setting as `config` lists it, with one line in git's configuration; only for settings that have one value for all agents.
fn listed(key: &Key, config: &str) -> Result<Listed, String> {
    let git = GitConfig::parse(config.as_bytes()).unwrap();
    let settings = Settings::resolve(&Flags::default(), None, &git).map_err(|error| error.to_string())?;
    Ok(settings.listing(&git).into_iter().find(|listed| listed.key == key.name).unwrap())
}

fn is_per_agent(key: &Key) -> bool {
    key.name.contains("<name>")
}

/// `ralph.maxRetries` in the spelling of options and change files.
fn kebab(name: &str) -> String {
    let word = name.strip_prefix("ralph.").unwrap();
    word.chars().flat_map(|c| c.is_uppercase().then_some('-').into_iter().chain(c.to_lowercase())).collect()
}

#[test]
fn every_entry_is_whole_and_has_one_name() {
    for key in KEYS {
        assert!(key.meaning.ends_with('.') && key.meaning.starts_with(char::is_uppercase), "{}", key.name);
        assert!(!key.value.is_empty() && !key.default.is_empty(), "{}", key.name);
        assert_eq!(KEYS.iter().filter(|other| other.name == key.name || other.id == key.id).count(), 1, "{}", key.name);
    }
    for (key, option) in with_option() {
        assert_eq!(option, format!("--{}", kebab(key.name)));
        assert_eq!(key.id.replace('_', "-"), kebab(key.name));
    }
    for (key, name) in in_change_file() {
        assert_eq!(name, kebab(key.name));
    }
}

#[test]
fn every_option_is_known_to_start_and_resume_with_its_help() {
    let cli = Cli::command();
    for command in ["start", "resume"] {
        let command: &Command = cli.find_subcommand(command).unwrap();
        let places: Vec<usize> = command.get_opts().map(|arg| arg.get_display_order()).collect();
        assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), places.len(), "{places:?}");
        for (key, option) in with_option() {
            let arg = command.get_arguments().find(|arg| arg.get_long() == option.strip_prefix("--")).unwrap();
            let help = arg.get_help().unwrap().to_string();
            assert!(help.starts_with(char::is_uppercase) && !help.ends_with('.'), "{option}: {help}");
            assert_eq!(help, key.option_help());
            assert_eq!(arg.get_action().takes_values(), !key.is_switch, "{option}");
            assert!(key.is_switch || !key.option_value.is_empty(), "{option}");
        }
    }
}

#[test]
fn every_default_is_shown_and_is_read_back() {
    for key in KEYS.iter().filter(|key| !is_per_agent(key)) {
        let default = listed(key, "").unwrap();
        assert_eq!(default.origin.to_string(), "built-in default", "{}", key.name);
        match default.values.as_slice() {
            [] => assert_eq!(default.instead, Some(key.default), "{}", key.name),
            [shown] => {
                for text in [shown.as_str(), key.default] {
                    let set = listed(key, &format!("local\0file:x\0{}\n{text}\0", key.name.to_lowercase())).unwrap();
                    assert_eq!((set.values, set.origin.to_string()), (default.values.clone(), "local git config (file:x)".to_owned()));
                }
            }
            more => panic!("{}: {more:?}", key.name),
        }
    }
}

#[test]
fn every_value_of_a_few_words_is_read_and_named() {
    for key in KEYS.iter().filter(|key| !key.words.is_empty()) {
        let words: Vec<&str> = key.words.iter().map(|(word, _)| *word).collect();
        assert_eq!(key.value, words.join("|"), "{}", key.name);
        for word in words {
            let set = listed(key, &format!("local\0file:x\0{}\n{word}\0", key.name.to_lowercase())).unwrap();
            assert_eq!(set.values, [word], "{}", key.name);
        }
        let error = listed(key, &format!("local\0file:x\0{}\nelephant\0", key.name.to_lowercase())).unwrap_err();
        let expected = format!("bad value for {} in local git config (file:x): 'elephant' is not one of ", key.name);
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn every_setting_of_the_change_file_is_read_there_and_nowhere_is_a_wrong_type() {
    for (key, name) in in_change_file() {
        let text = format!("{name} = {}\n{STORY}", key.toml_example());
        let file: ChangeFile = parse_change_file(&text, "x.toml").unwrap();
        let git = GitConfig::default();
        let settings = Settings::resolve(&Flags::default(), Some((&file, "x.toml")), &git).unwrap();
        let found = settings.listing(&git).into_iter().find(|listed| listed.key == key.name).unwrap();
        assert_eq!(found.origin.to_string(), "x.toml", "{name}");
        assert!(!found.values.is_empty(), "{name}");
        let error = parse_change_file(&format!("\n{name} = {{ a = 1 }}\n{STORY}"), "x.toml").unwrap_err();
        assert!(error.starts_with(&format!("x.toml:2: '{name}' must be ")) && error.ends_with(", not a table"), "{error}");
    }
    for key in KEYS.iter().filter(|key| key.change_file.is_none() && !is_per_agent(key)) {
        let name = kebab(key.name);
        let error = parse_change_file(&format!("{name} = 1\n{STORY}"), "x.toml").unwrap_err();
        assert!(error.starts_with(&format!("x.toml:1: unknown key '{name}'")), "{error}");
    }
}

#[test]
fn a_new_change_file_has_every_setting_as_a_comment() {
    let template = change_file_template("x");
    for (key, name) in in_change_file() {
        let line = format!("\n# {name} = {}\n", key.toml_example());
        assert_eq!(template.matches(&line).count(), 1, "{line}");
        assert!(key.comment.is_none_or(|comment| template.contains(&format!("\n\n# {comment}{line}"))), "{name}");
    }
}

#[test]
fn git_ralph_config_and_the_manual_have_every_setting() {
    let world = World::new();
    let text = world.ralph(&["config"]).code(0).stdout;
    let manual = text_of("man/git-ralph.1");
    let roff = |text: &str| text.replace('-', "\\-");
    for key in KEYS {
        assert!(is_per_agent(key) || text.lines().any(|line| line.split(' ').next() == Some(key.name)), "{}", key.name);
        let entry = manual.split(&format!(".TP\n\\fB{}\\fR", key.name)).nth(1).unwrap();
        let entry = entry.split("\n.").next().unwrap();
        for name in key.option.into_iter().chain(key.change_file) {
            assert!(entry.contains(&format!("\\fB{}\\fR", roff(name))), "{name}: {entry}");
        }
    }
}

/// Compares the keys in the text of the code with the table: a key in the table that no code reads would have no effect.
#[test]
fn every_key_in_the_code_is_in_the_table() {
    let mut found = BTreeSet::new();
    let mut dirs = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            if path.extension().is_none_or(|kind| kind != "rs") || path.ends_with("config/table.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            for rest in code.split("\"ralph.").skip(1) {
                let key = rest.split('"').next().unwrap();
                if !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '{' | '}')) {
                    found.insert(format!("ralph.{}", key.replace("{name}", "<name>")));
                }
            }
        }
    }
    assert!(found.len() > 3, "{found:?}");
    for key in &found {
        assert!(Key::of(key).is_some(), "{key}");
    }
    // These settings have no struct field, so the compiler cannot detect that one is unused.
    for key in KEYS.iter().filter(|key| is_per_agent(key)) {
        assert!(found.contains(key.name), "{}", key.name);
    }
}
