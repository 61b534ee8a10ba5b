//! Resolves the configured agent, a known client or a command of the user's, into a command line. This happens before
//! git-ralph writes anything.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::{Format, PROFILES, Profile};
use crate::config::{AgentChoice, Environment, GitConfig};
use crate::error::Problem;
use crate::process::{Program, cannot_start};
use crate::shell_word::quoted;

/// An agent that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The name shown to the user.
    pub name: String,
    /// The format of its output.
    pub format: Format,
    words: Vec<String>,
    env: &'static [(&'static str, &'static str)],
}

/// The shell that runs `ralph.<name>.cmd`; the words after it are the command's arguments.
const SHELL: [&str; 2] = ["sh", "-c"];

impl Agent {
    /// Resolves the chosen agent, with the requested model.
    ///
    /// # Errors
    /// If the agent or its output format is unknown, or if a model was requested and the agent has no option for one.
    pub fn resolve(choice: &AgentChoice, model: Option<&str>, config: &GitConfig) -> Result<Self> {
        match choice {
            AgentChoice::Command(words) => {
                let name = words.first().map(|word| file_name(word)).unwrap_or_default();
                let format = Profile::of(&name).map_or(Format::Text, |profile| profile.format);
                let agent = Agent { name, format, words: words.clone(), env: &[] };
                if let Some(model) = model {
                    bail!(agent.takes_no_model(model));
                }
                Ok(agent)
            }
            AgentChoice::Named(name) => Self::named(name, model, config),
        }
    }

    fn named(name: &str, asked: Option<&str>, config: &GitConfig) -> Result<Self> {
        let profile = Profile::of(name);
        let args = config.all_layers(&format!("ralph.{name}.args"));
        let model: Vec<String> = match (profile, asked) {
            (Some(profile), Some(model)) => vec![profile.model.to_owned(), model.to_owned()],
            _ => Vec::new(),
        };
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let words = match (config.last(&format!("ralph.{name}.cmd")), profile) {
            (Some(command), _) => {
                let more = model.into_iter().chain(args).collect::<Vec<_>>();
                let command = if more.is_empty() { command.value } else { format!("{} \"$@\"", command.value) };
                let shell = owned(&SHELL).into_iter().chain([command]);
                if more.is_empty() { shell.collect() } else { shell.chain(["sh".to_owned()]).chain(more).collect() }
            }
            (None, Some(profile)) => {
                let mut words = vec![profile.name.to_owned()];
                words.extend(owned(profile.args));
                words.extend(model);
                words.extend(args);
                words.extend(owned(profile.last));
                words
            }
            (None, None) => bail!(unknown(name, config)),
        };
        let format = match config.read_last(&format!("ralph.{name}.format"), str::parse)? {
            Some(format) => format,
            None => profile.map_or(Format::Text, |profile| profile.format),
        };
        let agent = Agent { name: name.to_owned(), format, words, env: profile.map_or(&[], |profile| profile.env) };
        match (asked, profile) {
            (Some(model), None) => bail!(agent.takes_no_model(model)),
            _ => Ok(agent),
        }
    }

    /// The first known client that is installed.
    #[must_use]
    pub fn installed(environment: &Environment, top: &Path) -> Option<&'static str> {
        PROFILES.iter().map(|profile| profile.name).find(|name| which::which_in(name, Some(environment.path()), top).is_ok())
    }

    /// Finds the agent's program, so that a missing one is reported before anything is written.
    pub fn find(&self, environment: &Environment, top: &Path) -> Result<Option<PathBuf>> {
        let Some(program) = self.first_program() else { return Ok(None) };
        match which::which_in(program, Some(environment.path()), top) {
            Ok(path) => Ok(Some(path)),
            Err(_) => {
                bail!(cannot_start("agent", program, &environment.path(), top, "git ralph doctor   to see which agents are installed"))
            }
        }
    }

    /// The command line in readable form.
    #[must_use]
    pub fn words(&self) -> String {
        match self.words.as_slice() {
            [sh, flag, command, _name, args @ ..] if [sh, flag] == SHELL => command.replace("\"$@\"", &args.join(" ")),
            [sh, flag, command] if [sh, flag] == SHELL => command.clone(),
            words => words.join(" "),
        }
    }

    /// The profile of the known client with this agent's name, if there is one.
    #[must_use]
    pub fn profile(&self) -> Option<&'static Profile> {
        Profile::of(&self.name)
    }

    /// The program with its arguments, to be started in the work tree.
    #[must_use]
    pub fn program(&self, mut env: Vec<(OsString, OsString)>, top: &Path) -> Program {
        let mut words = self.words.iter().map(OsString::from);
        let mut program = words.next().unwrap_or_default();
        if program.to_string_lossy().contains('/') {
            // A relative path is resolved against the work tree here, because systems differ in how they would resolve it.
            program = top.join(program).into();
        }
        for (name, value) in self.env {
            if !env.iter().any(|(known, _)| known == name) {
                env.push((name.into(), value.into()));
            }
        }
        Program { program, args: words.collect(), env, cwd: top.to_owned() }
    }

    fn takes_no_model(&self, model: &str) -> Problem {
        Problem::fatal(format!(
            "cannot pass the model '{model}' to the agent '{}', which is a command of your own: put the model into the command",
            self.name
        ))
    }

    /// The program that must be installed, or `None` if a shell command does not start with a plain program name.
    #[must_use]
    pub fn first_program(&self) -> Option<&str> {
        match self.words.as_slice() {
            [sh, flag, command, ..] if [sh, flag] == SHELL => {
                let word = command.split_whitespace().next()?;
                let plain = word.chars().all(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+'));
                let builtin = matches!(
                    word,
                    "exec" | "cd" | "if" | "for" | "while" | "case" | "set" | "export" | "." | ":" | "eval" | "true" | "false"
                );
                (plain && !builtin).then_some(word)
            }
            words => words.first().map(String::as_str),
        }
    }
}

fn unknown(name: &str, config: &GitConfig) -> Problem {
    let known = config.subsections_with("cmd").chain(PROFILES.iter().map(|profile| profile.name));
    let near = crate::nearest::to(name, known);
    let problem = Problem::fatal(format!("there is no agent '{}'{}", name.escape_debug(), crate::nearest::said(near)));
    let own = format!("git config {} '<command that reads the prompt on stdin>'", quoted(&format!("ralph.{name}.cmd")));
    problem.hint(near.map_or(own, |near| format!("git config ralph.agent {}", quoted(near)))).mistyped(name, near)
}

fn file_name(word: &str) -> String {
    Path::new(word).file_name().map_or_else(|| word.to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(entries: &[(&str, &str)]) -> GitConfig {
        let bytes: Vec<u8> = entries.iter().flat_map(|(key, value)| format!("local\0file:x\0{key}\n{value}\0").into_bytes()).collect();
        GitConfig::parse(&bytes).unwrap()
    }

    fn words(name: &str, model: Option<&str>, entries: &[(&str, &str)]) -> Vec<String> {
        Agent::resolve(&AgentChoice::Named(name.to_owned()), model, &config(entries)).unwrap().words
    }

    #[test]
    fn model_and_own_arguments_come_before_arguments_that_must_be_last() {
        let args = [("ralph.codex.args", "-c"), ("ralph.codex.args", "x=1")];
        let words = words("codex", Some("gpt-5"), &args);
        assert_eq!(words[words.len() - 5..], ["--model", "gpt-5", "-c", "x=1", "-"]);
    }

    #[test]
    fn a_command_of_the_users_own_replaces_the_program_and_keeps_the_format() {
        let own = [("ralph.claude.cmd", "my-claude --fast"), ("ralph.claude.args", "--x y")];
        let agent = Agent::resolve(&AgentChoice::Named("claude".into()), Some("opus"), &config(&own)).unwrap();
        assert_eq!(agent.words, ["sh", "-c", "my-claude --fast \"$@\"", "sh", "--model", "opus", "--x y"]);
        assert_eq!((agent.format, agent.words()), (Format::Claude, "my-claude --fast --model opus --x y".to_owned()));
        let text = [("ralph.claude.cmd", "my-claude"), ("ralph.claude.format", "text")];
        assert_eq!(Agent::resolve(&AgentChoice::Named("claude".into()), None, &config(&text)).unwrap().format, Format::Text);
    }

    #[test]
    fn a_command_by_the_name_of_a_client_is_read_like_it() {
        let command = AgentChoice::Command(vec!["/opt/bin/codex".into(), "exec".into()]);
        assert_eq!(Agent::resolve(&command, None, &config(&[])).unwrap().format, Format::Codex);
        assert!(Agent::resolve(&command, Some("m"), &config(&[])).is_err());
    }

    #[test]
    fn errors_name_the_nearest_agent_and_the_formats() {
        let error = |name: &str, entries: &[(&str, &str)]| {
            format!("{:#}", Agent::resolve(&AgentChoice::Named(name.into()), None, &config(entries)).unwrap_err())
        };
        assert!(error("claud", &[]).contains("did you mean 'claude'?"));
        let wrong = error("x", &[("ralph.x.cmd", "y"), ("ralph.x.format", "jsn")]);
        assert!(wrong.contains("ralph.x.format") && wrong.contains("'jsn' is not one of text, aider, claude"), "{wrong}");
    }
}
