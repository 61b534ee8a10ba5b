//! `git ralph setup`: installs or removes the manual pages and shell completion.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use anyhow::{Result, bail};

use crate::cli::Setup;
use crate::config::Environment;
use crate::error::{ExitStatus, Problem};
use crate::install::{Installed, Places, Record, State};
use crate::report::{Line, Tone, output};
use crate::safe_read;
use crate::shell_word::quoted;

/// Installs or removes the files.
pub fn run(args: &Setup, environment: &Environment) -> Result<ExitStatus> {
    if args.uninstall { uninstall(args, environment) } else { install(args, environment) }
}

fn install(args: &Setup, environment: &Environment) -> Result<ExitStatus> {
    let places = match &args.prefix {
        Some(prefix) => Places::below(&environment.cwd.join(prefix)),
        None => Places::of_user(environment)?,
    };
    let mut due = Vec::new();
    for file in places.files() {
        match file.state().map_err(|error| failed("cannot read", &file.path, &error))? {
            State::Current => {}
            State::Foreign if !args.force => bail!(not_ours(&file.path)),
            _ => due.push(file),
        }
    }
    let word = if args.dry_run { "would write" } else { "wrote" };
    for file in &due {
        if !args.dry_run {
            file.write().map_err(|error| failed("cannot write", &file.path, &error))?;
        }
        output::data(&format!("{word} {}\n", file.path.display()));
    }
    if args.prefix.is_none() && !args.dry_run {
        let mut record = Record::of_user(environment)?;
        let added = record.add(due.iter().map(|file| file.path.as_path()));
        if added.map_err(|error| failed("cannot write", record.file(), &error))? {
            output::data(&format!("wrote {}\n", record.file().display()));
        }
    }
    if due.is_empty() {
        output::data(&format!("nothing to do: all {} files are there already\n", places.files().len()));
    }
    if args.prefix.is_none() {
        output::data(&advice(&places, environment));
    }
    Ok(ExitStatus::Done)
}

fn uninstall(args: &Setup, environment: &Environment) -> Result<ExitStatus> {
    let places = match &args.prefix {
        Some(prefix) => vec![Places::below(&environment.cwd.join(prefix))],
        None => Places::all_of_user(environment)?,
    };
    let mut files: Vec<Installed> = places.iter().flat_map(Places::files).collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files.dedup_by(|one, other| one.path == other.path);
    let record = if args.prefix.is_none() { Some(Record::of_user(environment)?) } else { None };
    // The manual next to the program may belong to a package or another user.
    files.retain(|file| record.as_ref().is_none_or(|record| record.has(&file.path)));
    let word = if args.dry_run { "would remove" } else { "removed" };
    let mut removed = 0;
    for file in &files {
        match file.state().map_err(|error| failed("cannot read", &file.path, &error))? {
            State::Missing => {}
            State::Foreign => {
                output::message(&Line::new(
                    Tone::Warning,
                    format!("{} was not written by git-ralph and is left there", file.path.display()),
                ));
            }
            State::Current | State::Other => {
                if !args.dry_run {
                    file.remove().map_err(|error| failed("cannot remove", &file.path, &error))?;
                }
                removed += 1;
                output::data(&format!("{word} {}\n", file.path.display()));
            }
        }
    }
    if let Some(record) = record.filter(|_| !args.dry_run) {
        record.discard();
    }
    if removed == 0 {
        output::data("nothing to do: none of git-ralph's files is there\n");
    }
    Ok(ExitStatus::Done)
}

fn not_ours(path: &Path) -> Problem {
    Problem::refused(format!("{} exists and was not written by git-ralph: nothing was written", path.display()))
        .hint(format!("mv {0} {0}.orig   to move it away", quoted(&path.display().to_string())))
        .hint("git ralph setup --force   to overwrite it")
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Problem {
    let problem = Problem::fatal(format!("{what} {}: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::PermissionDenied => problem
            .hint("git ralph setup --prefix ~/.local   to install into a directory of your own")
            .hint("sudo git ralph setup --prefix /usr/local   to install for all users"),
        _ => problem,
    }
}

/// What the user has to add to which shell start file.
fn advice(places: &Places, environment: &Environment) -> String {
    let home = environment.get("HOME").map(Path::new);
    let short = |path: &Path| match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    };
    let mut text = String::new();
    let zshrc = environment.get("ZDOTDIR").or(environment.get("HOME")).map(|dir| Path::new(dir).join(".zshrc")).unwrap_or_default();
    let _ = writeln!(text, "\nbash: works as is if the bash-completion package is installed\nfish: works as is");
    let line = format!("fpath=({} $fpath)", short(&places.zsh));
    if safe_read::text(&zshrc).is_ok_and(|start| start.contains(&line)) {
        let _ = writeln!(text, "zsh: works as is");
    } else {
        let _ = writeln!(text, "zsh: add to {}, before any other line with compinit:", short(&zshrc));
        let _ = writeln!(text, "  {line}\n  autoload -Uz compinit && compinit");
    }
    if places.man_is_found(environment) {
        let _ = writeln!(text, "man: works as is, see git help ralph");
    } else {
        let _ = writeln!(text, "man: add to the start file of your shell:\n  export MANPATH=\"{}:$MANPATH\"", places.man.display());
    }
    text
}
