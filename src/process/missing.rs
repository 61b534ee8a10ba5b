//! Explains why a program that was not found cannot be started.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::error::Problem;
use crate::shell_word::quoted;

/// The error for a program that was not found. `role` says what the program is for; `path` is the search path; `top` is
/// the base of relative paths; `look` is a hint that leads to a program that exists.
#[must_use]
pub fn cannot_start(role: &str, program: &str, path: &OsStr, top: &Path, look: &str) -> Problem {
    let wrong = |what: &str| Problem::fatal(format!("the {role} '{program}' {what}"));
    let is_file = |path: &PathBuf| path.is_file();
    let runnable = |path: &Path| format!("chmod u+x -- {}", quoted(&path.display().to_string()));
    let full = top.join(program);
    match program.contains('/') {
        _ if program.trim().is_empty() => Problem::fatal(format!("the command of the {role} is empty")).hint(look),
        true if full.is_dir() => wrong("is a directory, not a program"),
        true if full.is_file() => wrong("is not executable").hint(runnable(&full)),
        _ if program.contains(' ') => wrong("was not found; the program and its arguments are separate words").hint(look),
        true => wrong("does not exist"),
        false => match std::env::split_paths(path).map(|dir| dir.join(program)).find(is_file) {
            Some(found) => wrong(&format!("is not executable: {}", found.display())).hint(runnable(&found)),
            None if full.is_file() => wrong(&format!("was not found on PATH; did you mean './{program}'?")).hint(look),
            None => wrong("was not found on PATH").hint(look),
        },
    }
}
