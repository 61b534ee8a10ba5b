//! How an agent is called: a command of the user's own, found before anything is touched.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Result, bail};

use crate::config::{AgentChoice, Environment, GitConfig};
use crate::error::Problem;
use crate::process::Program;

/// An agent that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// What a person calls it.
    pub name: String,
    words: Vec<String>,
}

impl Agent {
    /// The agent that was chosen.
    ///
    /// # Errors
    /// If no agent of that name is configured.
    pub fn resolve(choice: &AgentChoice, config: &GitConfig) -> Result<Self> {
        match choice {
            AgentChoice::Command(words) => {
                let name = words.first().map(|word| file_name(word)).unwrap_or_default();
                Ok(Agent { name, words: words.clone() })
            }
            AgentChoice::Named(name) => match config.last(&format!("ralph.{name}.cmd")) {
                Some(command) => Ok(Agent { name: name.clone(), words: vec!["sh".into(), "-c".into(), command.value] }),
                None => bail!(unknown(name, config)),
            },
        }
    }

    /// Finds the program, so that a missing one is noticed before the first write.
    ///
    /// # Errors
    /// If it is not there.
    pub fn find(&self, environment: &Environment, top: &Path) -> Result<()> {
        let Some(program) = self.first_program() else { return Ok(()) };
        match which::which_in(program, Some(environment.path()), top) {
            Ok(_) => Ok(()),
            Err(_) => bail!(
                Problem::fatal(format!("the agent '{program}' was not found"))
                    .hint("install it, or name another one: git ralph start <change> -- <command>")
            ),
        }
    }

    /// The command line as a person would read it.
    #[must_use]
    pub fn words(&self) -> String {
        match self.words.as_slice() {
            [sh, flag, command] if sh == "sh" && flag == "-c" => command.clone(),
            words => words.join(" "),
        }
    }

    /// The program with its arguments, in the work tree.
    #[must_use]
    pub fn program(&self, env: Vec<(OsString, OsString)>, top: &Path) -> Program {
        let mut words = self.words.iter().map(OsString::from);
        let mut program = words.next().unwrap_or_default();
        if program.to_string_lossy().contains('/') {
            // Relative to the work tree, whatever the kernel would make of it.
            program = top.join(program).into();
        }
        Program { program, args: words.collect(), env, cwd: top.to_owned() }
    }

    /// The program that must exist; none if a shell command starts with something other than a plain word.
    fn first_program(&self) -> Option<&str> {
        match self.words.as_slice() {
            [sh, flag, command] if sh == "sh" && flag == "-c" => {
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
    let near = crate::nearest::to(name, config.subsections_with("cmd"));
    let suggestion = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
    Problem::fatal(format!("there is no agent '{name}'{suggestion}"))
        .hint(format!("git config ralph.{name}.cmd '<command that reads the prompt on stdin>'"))
}

fn file_name(word: &str) -> String {
    Path::new(word).file_name().map_or_else(|| word.to_owned(), |name| name.to_string_lossy().into_owned())
}
