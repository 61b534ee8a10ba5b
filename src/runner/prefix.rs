//! The runner: a command that starts another command, whose command line it gets as further arguments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::config::{Environment, RUNNER_PLACEHOLDERS, Settings, placeholders};
use crate::process::{Program, cannot_start, on_path};
use crate::remote::WorkerRunner;
use crate::shell_word::quoted_bytes;

/// A command that starts other commands. Without words, commands are started directly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runner {
    words: Vec<String>,
}

/// The values of the placeholders in a runner's words.
#[derive(Clone, Copy, Debug)]
pub struct Placeholders<'a> {
    /// `{workspace}`: the directory that the command works in.
    pub workspace: &'a Path,
    /// `{change}`: the name of the change.
    pub change: &'a str,
    /// `{story}`: the id of the story in the form that ref names use. It is also valid in file names, shell words and job names.
    pub story: &'a str,
    /// `{attempt}`: the number of the attempt.
    pub attempt: u32,
    /// `{slot}`: the number of the workspace.
    pub slot: u32,
}

impl Placeholders<'_> {
    /// The value of `{story}` for setup commands, which belong to no story.
    pub const SETUP: &'static str = "setup";

    fn value(&self, name: &str) -> OsString {
        match name {
            "workspace" => self.workspace.into(),
            "change" => self.change.into(),
            "story" => self.story.into(),
            "attempt" => self.attempt.to_string().into(),
            "slot" => self.slot.to_string().into(),
            // The settings reject any other name.
            other => format!("{{{other}}}").into(),
        }
    }
}

impl Runner {
    /// The runner for agents.
    #[must_use]
    pub fn of_agents(settings: &Settings) -> Self {
        Runner::new(settings.runner.as_ref().map(|runner| runner.value.clone()).unwrap_or_default())
    }

    /// The runner for gates.
    #[must_use]
    pub fn of_gates(settings: &Settings) -> Self {
        settings.gate_runner.as_ref().map_or_else(|| Runner::of_setup(settings), |runner| Runner::new(runner.value.clone()))
    }

    /// The runner for setup commands. A worker on another machine runs only agents, so a runner that starts a worker is not used here.
    #[must_use]
    pub fn of_setup(settings: &Settings) -> Self {
        let runner = Runner::of_agents(settings);
        if matches!(WorkerRunner::of(&runner.words), Ok(None)) { runner } else { Runner::default() }
    }

    /// A runner from its words in the settings or the journal.
    #[must_use]
    pub fn new(words: Vec<String>) -> Self {
        Runner { words }
    }

    /// Its words, for the journal.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Whether the runner joins its arguments into one line for another shell, as `ssh` does.
    fn joins_words(&self) -> bool {
        self.words.first().is_some_and(|program| Path::new(program).file_name() == Some("ssh".as_ref()))
    }

    /// Whether there is no runner, so that commands are started directly.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.words.is_empty()
    }

    /// Finds the runner's program, so that a missing one is noticed before the first write. A relative path is relative to `root`.
    ///
    /// # Errors
    /// If there is no such program.
    pub fn find(&self, environment: &Environment, root: &Path) -> Result<Option<PathBuf>> {
        let Some(program) = self.words.first() else { return Ok(None) };
        let path = environment.path();
        match on_path(program.as_ref(), &[("PATH".into(), path.clone())], root) {
            Some(found) => Ok(Some(found)),
            None => bail!(cannot_start("runner", program, &path, root, "git ralph config   to see where the runner is set")),
        }
    }

    /// The program, started by the runner with the same input, environment and directory. `root` is the user's checkout. A runner with a
    /// relative path is looked up there, and never in a workspace, which an agent can write to.
    #[must_use]
    pub fn wrap(&self, program: Program, at: &Placeholders<'_>, root: &Path) -> Program {
        let Some((first, rest)) = self.words.split_first() else { return program };
        let runner = if first.contains('/') { root.join(first).into() } else { first.into() };
        let own = rest.iter().map(|word| expanded(word, at));
        let command = [program.program].into_iter().chain(program.args);
        let args =
            if self.joins_words() { own.chain(command.map(|word| quoted_bytes(&word))).collect() } else { own.chain(command).collect() };
        Program { program: runner, args, ..program }
    }
}

/// Replaces the placeholders of a word. Placeholders inside a value are not replaced.
fn expanded(word: &str, at: &Placeholders<'_>) -> OsString {
    let mut text = OsString::new();
    let mut rest = word;
    while let Some((before, name, after)) = next_placeholder(rest) {
        text.push(before);
        text.push(at.value(name));
        rest = after;
    }
    text.push(rest);
    text
}

/// The first known placeholder in a text, with the text before and after it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let name = placeholders(text).find(|name| RUNNER_PLACEHOLDERS.contains(name))?;
    let (before, after) = text.split_once(&format!("{{{name}}}"))?;
    Some((before, name, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent() -> Program {
        Program { program: "agent".into(), args: vec!["-p".into()], env: vec![("A".into(), "1".into())], cwd: "/w".into() }
    }

    fn words(runner: &[&str]) -> Vec<OsString> {
        let runner = Runner::new(runner.iter().map(|word| (*word).to_owned()).collect());
        let workspace = Path::new("/w/{slot} 1");
        let at = Placeholders { workspace, change: "login", story: "a%20b", attempt: 2, slot: 7 };
        let wrapped = runner.wrap(agent(), &at, Path::new("/root"));
        assert_eq!((wrapped.env, wrapped.cwd), (agent().env, agent().cwd));
        [wrapped.program].into_iter().chain(wrapped.args).collect()
    }

    #[test]
    fn a_command_follows_the_words_of_its_runner() {
        assert_eq!(words(&[]), ["agent", "-p"]);
        assert_eq!(words(&["srun", "-n1"]), ["srun", "-n1", "agent", "-p"]);
    }

    #[test]
    fn placeholders_are_replaced_anywhere_in_a_word_and_once() {
        let runner = ["run", "{change}-{story}.{attempt}", "{workspace}:/x", "{slot}{slot}", "{}{a {\"slot\": 1} {{.ID}}"];
        assert_eq!(words(&runner)[1..5], ["login-a%20b.2", "/w/{slot} 1:/x", "77", "{}{a {\"slot\": 1} {{.ID}}"]);
    }

    #[test]
    fn a_shell_behind_ssh_reads_the_command_as_it_is_without_one() {
        let runner = Runner::new(["ssh", "host", "cd", "{workspace}", "&&"].map(str::to_owned).to_vec());
        let gate = Program { program: "sh".into(), args: vec!["-c".into(), "test -e 'a b' && echo \"$HOME\"".into()], ..agent() };
        let (root, workspace) = (Path::new("/root"), Path::new("/w/1"));
        let at = Placeholders { workspace, change: "login", story: "a", attempt: 1, slot: 0 };
        let args = runner.wrap(gate, &at, root).args;
        let expected = ["host", "cd", "/w/1", "&&", "sh", "-c", r#"'test -e '\''a b'\'' && echo "$HOME"'"#];
        assert_eq!(args, expected);
    }

    #[test]
    fn a_runner_that_is_a_relative_path_is_the_users_and_not_the_agents() {
        assert_eq!(words(&["./tools/run"])[0], "/root/./tools/run");
        assert_eq!(words(&["/opt/run"])[0], "/opt/run");
    }
}
