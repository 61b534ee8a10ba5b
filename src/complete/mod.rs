//! Shell completion: prints the possible values of a word on the command line. Must be fast and print nothing else.
//!
//! `GIT_RALPH_COMPLETE=<n> git-ralph -- <words>` prints one line per possible value of word `n`, where word 0 is the
//! program name. Each line has the value, a tab and its meaning. The scripts in `completions/` call this.

mod known;
mod repository;

use std::ffi::{OsStr, OsString};
use std::panic;
use std::sync::Arc;

use clap::{Arg, Command, CommandFactory};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate, complete};

use crate::cli::Cli;
use crate::config::{Environment, KEYS, completion_word};
use crate::report::clean;
use known::{Known, Which};

/// The completions, if a shell asked for them.
#[must_use]
pub fn answer() -> Option<String> {
    let at = completion_word()?;
    let mut words = std::env::args_os().skip(1);
    words.next().filter(|word| word == "--")?;
    // Errors are silent, because a message would appear in the middle of the user's command line.
    panic::set_hook(Box::new(|_| ()));
    let lines = panic::catch_unwind(|| lines(at, words.collect()));
    Some(lines.ok().flatten().unwrap_or_default())
}

fn lines(at: usize, mut words: Vec<OsString>) -> Option<String> {
    if at == words.len() {
        words.push(OsString::new());
    }
    let typed = words.get(at)?.clone();
    let environment = Environment::capture().ok()?;
    let cwd = environment.cwd.clone();
    let cli = Cli::command();
    let known = Arc::new(Known::new(environment, named_change(&cli, at, &words)));
    let mut found = complete(&mut with_candidates(cli, &known), words, at, Some(&cwd)).ok()?;
    // Like git, offers options only after a dash, or if there is nothing else.
    let is_option = |candidate: &CompletionCandidate| candidate.get_value().as_encoded_bytes().starts_with(b"-");
    if typed.is_empty() && !found.iter().all(is_option) {
        found.retain(|candidate| !is_option(candidate));
    }
    Some(found.iter().filter_map(line).collect())
}

/// The output line of a candidate. A value that is not UTF-8 or contains control characters cannot be printed.
fn line(candidate: &CompletionCandidate) -> Option<String> {
    let value = candidate.get_value().to_str().filter(|value| !value.contains(char::is_control))?;
    let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
    let help = clean(help.lines().next().unwrap_or_default()).replace('\t', " ");
    Some(if help.is_empty() { format!("{value}\n") } else { format!("{value}\t{help}\n") })
}

/// The change that is named elsewhere on the command line: by `--change`, or as the first argument that is neither an
/// option nor its value.
fn named_change(cli: &Command, at: usize, words: &[OsString]) -> Option<String> {
    let mut rest = words.iter().enumerate().skip(1);
    let command = rest.find_map(|(_, word)| cli.find_subcommand(word))?;
    if command.get_arguments().any(|arg| arg.get_long() == Some("change")) {
        return change_option(at, words);
    }
    let mut is_value = false;
    for (n, word) in rest {
        let word = word.to_str()?;
        match word {
            "--" => return None,
            _ if is_value => is_value = false,
            _ if word.len() > 1 && word.starts_with('-') => is_value = takes_next(command, word),
            _ if n == at => return None,
            _ => return Some(word.to_owned()),
        }
    }
    None
}

/// The value of `--change`, unless it is the word being completed.
fn change_option(at: usize, words: &[OsString]) -> Option<String> {
    let (mut is_value, mut found) = (false, None);
    for (n, word) in words.iter().enumerate() {
        let word = word.to_str()?;
        if n != at {
            found = if is_value { Some(word) } else { word.strip_prefix("--change=").or(found) };
        }
        is_value = word == "--change";
    }
    found.map(str::to_owned)
}

/// Whether the word after this option is its value.
fn takes_next(command: &Command, option: &str) -> bool {
    let of_option = |arg: &&Arg| match option.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => option.len() == 2 && arg.get_short() == option.chars().nth(1),
    };
    command.get_arguments().find(of_option).is_some_and(|arg| arg.get_action().takes_values())
}

/// The clap command with candidates from this repository.
fn with_candidates(cli: Command, known: &Arc<Known>) -> Command {
    let commands: Vec<String> = cli.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    commands
        .into_iter()
        .fold(cli, |cli, name| cli.mut_subcommand(&name, |command| command.mut_args(|arg| with_candidates_for(&name, arg, known))))
}

fn with_candidates_for(command: &str, arg: Arg, known: &Arc<Known>) -> Arg {
    let known = Arc::clone(known);
    match (command, arg.get_id().as_str()) {
        ("new", "change") => arg.add(ArgValueCandidates::new(move || known.changes(Which::WithoutFile))),
        ("resume" | "finish" | "abort" | "undo" | "stop" | "hint" | "skip" | "retry" | "done", "change") => {
            arg.add(ArgValueCandidates::new(move || known.changes(Which::Open)))
        }
        // `log` also takes a story alone.
        ("log", "change") => {
            arg.add(ArgValueCandidates::new(move || known.changes(Which::Run).into_iter().chain(known.stories()).collect()))
        }
        ("edit", "change") => arg.add(ArgValueCandidates::new(move || known.changes(Which::WithFile))),
        ("status" | "prune" | "report", "change") => arg.add(ArgValueCandidates::new(move || known.changes(Which::Run))),
        (_, "change") => arg.add(ArgValueCandidates::new(move || known.changes(Which::Any))),
        ("undo", "to") => arg.add(ArgValueCandidates::new(move || known.landed_stories())),
        (_, "only" | "story") => arg.add(ArgValueCandidates::new(move || known.stories())),
        (_, "agent") => arg.add(ArgValueCandidates::new(move || known.agents())),
        ("start" | "resume", _) => with_words(arg),
        _ => arg,
    }
}

/// Adds candidates to the option of a setting whose value is one of a few words.
fn with_words(arg: Arg) -> Arg {
    let words = KEYS.iter().find(|key| key.option.is_some() && arg.get_id() == key.id).map_or(&[][..], |key| key.words);
    if words.is_empty() {
        return arg;
    }
    let described = || words.iter().map(|(word, meaning)| candidate(word, Some((*meaning).to_owned()))).collect();
    arg.add(ArgValueCandidates::new(described))
}

/// A candidate with its description.
fn candidate(value: impl AsRef<OsStr>, help: Option<String>) -> CompletionCandidate {
    CompletionCandidate::new(value.as_ref()).help(help.map(Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change_in(line: &[&str]) -> Option<String> {
        let at = line.iter().position(|word| word.contains('|')).unwrap();
        let words: Vec<OsString> = line.iter().map(|word| word.replace('|', "").into()).collect();
        named_change(&Cli::command(), at, &words)
    }

    #[test]
    fn the_change_is_the_first_word_that_is_neither_an_option_nor_its_value() {
        let table: &[(&[&str], Option<&str>)] = &[
            (&["git-ralph", "start", "work", "--only", "|"], Some("work")),
            (&["git-ralph", "start", "--agent", "claude", "-q", "work", "--only", "|"], Some("work")),
            (&["git-ralph", "start", "--agent=claude", "work", "--only", "|"], Some("work")),
            (&["git-ralph", "start", "--only", "|", "work"], Some("work")),
            (&["git-ralph", "log", "work", "|"], Some("work")),
            (&["git-ralph", "skip", "--change", "work", "|"], Some("work")),
            (&["git-ralph", "hint", "|", "--change=work", "-m", "x"], Some("work")),
            (&["git-ralph", "hint", "story", "--change", "|"], None),
            (&["git-ralph", "done", "|"], None),
            (&["git-ralph", "start", "--only", "|"], None),
            (&["git-ralph", "start", "wo|"], None),
            (&["git-ralph", "start", "--", "cmd", "|"], None),
            (&["git-ralph", "sta|"], None),
            (&["|"], None),
        ];
        for (line, expected) in table {
            assert_eq!(change_in(line).as_deref(), *expected, "{line:?}");
        }
    }
}
