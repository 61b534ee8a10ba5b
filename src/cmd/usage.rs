//! Reports errors in the command line in git's style.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error};

use crate::cli::Cli;
use crate::config::Environment;
use crate::error::ExitStatus;
use crate::nearest;
use crate::report::output;
use crate::shell_word::quoted;

/// Prints clap's result for the command line: help, the version, or an error.
pub fn usage_error(error: &Error, words: &[OsString]) -> ExitStatus {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        output::data(&error.render().to_string());
        return ExitStatus::Done;
    }
    output::set_usual_style(Environment::capture().ok().as_ref());
    let (text, hint) = match error.kind() {
        ErrorKind::InvalidSubcommand => unknown_command(error, words),
        _ => (what_is_wrong(error), format!("git ralph{} -h", command(words))),
    };
    output::failure("error", &text, &[hint]);
    ExitStatus::Usage
}

/// The subcommand in the words, with a space before it; empty if there is none.
fn command(words: &[OsString]) -> String {
    let cli = Cli::command();
    let named = words.iter().skip(1).find_map(|word| cli.find_subcommand(word));
    named.map(|command| format!(" {}", command.get_name())).unwrap_or_default()
}

/// The error for an unknown command. The hint repeats the whole command line with the command that may be meant.
fn unknown_command(error: &Error, words: &[OsString]) -> (String, String) {
    let typed = context(error, ContextKind::InvalidSubcommand);
    let commands = Cli::command();
    let known = commands.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    let near = nearest::to(&typed, known);
    let rest = words.iter().skip_while(|word| **word != *typed).skip(1).map(|word| format!(" {}", quoted(&word.to_string_lossy())));
    let hint = near.map_or_else(|| "git ralph -h".to_owned(), |near| format!("git ralph {near}{}", rest.collect::<String>()));
    (format!("'{}' is not a git ralph command{}", typed.escape_debug(), nearest::said(near)), hint)
}

fn what_is_wrong(error: &Error) -> String {
    let argument = context(error, ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let near = Some(context(error, ContextKind::SuggestedArg)).filter(|near| !near.is_empty());
            format!("unknown option '{}'{}", argument.escape_debug(), nearest::said(near.as_deref()))
        }
        ErrorKind::UnknownArgument => format!("unexpected argument '{}'", argument.escape_debug()),
        // The type of the setting says what a value must be.
        ErrorKind::ValueValidation => match error.source() {
            Some(why) => format!("bad value for '{argument}': {why}"),
            None => first_line(error),
        },
        ErrorKind::InvalidValue if context(error, ContextKind::InvalidValue).is_empty() => format!("'{argument}' needs a value"),
        ErrorKind::MissingRequiredArgument => format!("missing argument: {argument}"),
        ErrorKind::ArgumentConflict => match context(error, ContextKind::PriorArg) {
            other if other == argument => format!("'{argument}' can be given only once"),
            other => format!("'{argument}' cannot be used with '{other}'").replace("[CMD]...", "-- CMD"),
        },
        ErrorKind::TooManyValues => format!("'{argument}' takes no value"),
        _ => first_line(error),
    }
}

/// clap's message, without its label.
fn first_line(error: &Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// A detail that clap knows about the error, as text.
fn context(error: &Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(" "),
        _ => String::new(),
    }
}
