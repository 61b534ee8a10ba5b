//! Errors that decide the exit status or carry hints. Every other error is plain `anyhow` and fatal.

use std::fmt;

use crate::shell_word::quoted;

/// How a command ended. Each variant is one exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// The command did what the user asked for.
    Done,
    /// The run stopped short: no retries left, stopped, or a gate failed.
    StoppedShort,
    /// There is nothing to do, or the command is not possible in this state.
    NotPossible,
    /// The command failed with an error that it could not recover from.
    Fatal,
    /// The command line was wrong.
    Usage,
    /// The user ended the command with a signal.
    Interrupted,
    /// The exit status of the agent that a worker ran.
    OfAgent(u8),
}

impl ExitStatus {
    /// The exit status as a number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            ExitStatus::Done => 0,
            ExitStatus::StoppedShort => 1,
            ExitStatus::NotPossible => 2,
            ExitStatus::Fatal => 128,
            ExitStatus::Usage => 129,
            ExitStatus::Interrupted => 130,
            ExitStatus::OfAgent(code) => code,
        }
    }
}

/// An error with an exit status of its own and, if possible, hints that name the next command to type.
#[derive(Debug)]
pub struct Problem {
    /// The exit status for this error.
    pub ending: ExitStatus,
    message: String,
    hints: Vec<String>,
    meant: Option<(String, String)>,
    lacks: Box<Lacks>,
}

/// An argument that is missing from the command line.
#[derive(Debug, Default)]
struct Lacks {
    /// The names that the user can choose from.
    names: Vec<String>,
    /// The option that takes the name.
    option: Option<&'static str>,
}

impl Problem {
    /// Something that is not possible in this state: exit status 2.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::with(ExitStatus::NotPossible, message)
    }

    /// A fatal error that the command cannot recover from: exit status 128.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self::with(ExitStatus::Fatal, message)
    }

    /// A usage error: exit status 129.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::with(ExitStatus::Usage, message)
    }

    fn with(ending: ExitStatus, message: impl Into<String>) -> Self {
        Problem { ending, message: message.into(), hints: Vec::new(), meant: None, lacks: Box::default() }
    }

    /// Adds a hint: a line that names the next command to type.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Records that a word was mistyped, and the known word nearest to it. The hint is then the whole command line with that word
    /// corrected.
    #[must_use]
    pub fn mistyped(mut self, word: &str, near: Option<&str>) -> Self {
        self.meant = near.map(|near| (word.to_owned(), near.to_owned()));
        self
    }

    /// Records that the command line must name one of these.
    #[must_use]
    pub fn one_of(mut self, names: Vec<String>) -> Self {
        self.lacks.names = names;
        self
    }

    /// Records the option that takes such a name. The hints are then the command line with that option added.
    #[must_use]
    pub fn by_option(mut self, option: &'static str) -> Self {
        self.lacks.option = Some(option);
        self
    }

    /// The command line with the missing option added, once per possible name.
    fn completed(&self, words: &[String]) -> Option<Vec<String>> {
        let (option, (command, rest)) = (self.lacks.option.filter(|_| !self.lacks.names.is_empty())?, words.split_first()?);
        let rest: Vec<String> = rest.iter().map(|word| format!(" {}", quoted(word))).collect();
        let line = |name: &String| format!("git ralph {} {option} {}{}", quoted(command), quoted(name), rest.concat());
        Some(self.lacks.names.iter().map(line).collect())
    }

    /// The hints for the next command to type. `words` is the command line without the name of the program.
    #[must_use]
    pub fn hints(&self, words: &[String]) -> Vec<String> {
        self.corrected(words).map(|line| vec![line]).or_else(|| self.completed(words)).unwrap_or_else(|| self.hints.clone())
    }

    /// The command line with the mistyped word corrected, if the command line contains that word.
    fn corrected(&self, words: &[String]) -> Option<String> {
        let (typed, near) = self.meant.as_ref()?;
        let right = |word: &String| match word.strip_suffix(typed.as_str()) {
            Some("") => Some(near.clone()),
            Some(option) if option.starts_with("--") && option.ends_with('=') => Some(format!("{option}{near}")),
            _ => None,
        };
        let at = words.iter().position(|word| right(word).is_some())?;
        let words = words.iter().enumerate().map(|(n, word)| if n == at { right(word).unwrap_or_default() } else { word.clone() });
        Some(words.fold("git ralph".to_owned(), |line, word| line + " " + &quoted(&word)))
    }
}

/// An error and its causes as text for users, without the `(os error N)` that Rust adds to messages of the operating system.
#[must_use]
pub fn words(error: &anyhow::Error) -> String {
    without_numbers(&format!("{error:#}"))
}

fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(')'))
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_is_corrected_in_the_line_that_was_typed() {
        let problem = Problem::fatal("there is no change 'wrok'").hint("git ralph list").mistyped("wrok", Some("work"));
        let hints = |line: &str| problem.hints(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(hints("start wrok --only a;b -- ./agent wrok"), ["git ralph start work --only 'a;b' -- ./agent wrok"]);
        assert_eq!(hints("prune --change=wrok"), ["git ralph prune --change=work"]);
        assert_eq!(hints("status xwrok"), ["git ralph list"], "it was not typed");
    }

    #[test]
    fn numbers_of_system_errors_are_left_out() {
        assert_eq!(without_numbers("cannot read a: Permission denied (os error 13)"), "cannot read a: Permission denied");
        assert_eq!(without_numbers("a (os error 2): b (os error 13), c"), "a: b, c");
        assert_eq!(without_numbers("no number"), "no number");
    }
}
