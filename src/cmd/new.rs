//! `git ralph new`: writes a change file, either for a source of stories or as a commented template.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::context::Context;
use super::edit;
use crate::cli::New;
use crate::config::{Advice, Environment, change_file_schema, change_file_template, sourced_change_file};
use crate::error::{ExitStatus, Problem};
use crate::report::{Line, Tone, ask, clean, count, output};
use crate::run::{SourcePlace, sources_in};
use crate::safe_read;
use crate::story::ChangeName;
use crate::story::source::{Kind, Material, Sourced, count_boxes};

/// Writes the change file of a new change.
pub async fn run(args: &New, environment: Environment) -> Result<ExitStatus> {
    let name = Context::name(&args.change)?;
    let context = Context::open(environment).await?;
    let path = context.store.change_file(&name);
    if path.exists() {
        bail!(exists_already(&path, &name));
    }
    let source = match &args.from {
        Some(from) => Some(from_top(&context, from)),
        None if context.environment.interactive => match offered(&context).await? {
            ask::Answer::Chosen(source) => source,
            ask::Answer::Later | ask::Answer::Interrupted => return Ok(ExitStatus::NotPossible),
        },
        None => None,
    };
    match source {
        Some(source) => write_sourced(&context, &name, &source, &path),
        None => {
            create(&context, &name, &path, &change_file_template(name.as_str()))?;
            output::data(&format!("{}\n", path.display()));
            if context.environment.interactive && ask::agreed("Open it in your editor now?".to_owned()).await? == ask::Answer::Chosen(()) {
                return edit::open(&context, &name).await;
            }
            output::advise(
                Advice::NextStep,
                &[format!("git ralph edit {name}   to fill in its stories"), format!("git ralph start {name}   to run it")],
            );
            Ok(ExitStatus::Done)
        }
    }
}

fn exists_already(path: &Path, name: &ChangeName) -> Problem {
    Problem::refused(format!("{} exists already", path.display())).hint(format!("git ralph start {name}"))
}

/// A path that the user typed, relative to the top of the work tree. A link inside the work tree is not resolved: a cloned repository may
/// contain any link, and [`SourcePlace`] refuses one that leads out of it.
fn from_top(context: &Context, typed: &str) -> String {
    let (top, cwd) = (&context.repo.place.top, &context.environment.cwd);
    let full = without_dots(&cwd.canonicalize().unwrap_or_else(|_| cwd.clone()).join(typed));
    let full = if full.starts_with(top) { full } else { full.canonicalize().unwrap_or(full) };
    full.strip_prefix(top).unwrap_or(&full).display().to_string()
}

/// An absolute path without `.` and `..`, by its words alone.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

async fn offered(context: &Context) -> Result<ask::Answer<Option<String>>> {
    let sources = sources_in(&context.repo.place.top);
    if sources.is_empty() { Ok(ask::Answer::Chosen(None)) } else { ask::which_source(sources).await }
}

fn create(context: &Context, name: &ChangeName, path: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(context.store.root()).with_context(|| format!("cannot create {}", context.store.root().display()))?;
    let schema = context.store.schema_file();
    write_schema(&schema).with_context(|| format!("cannot write {}", schema.display()))?;
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(exists_already(path, name)),
        Err(error) => return Err(error).with_context(|| format!("cannot create {}", path.display())),
    };
    Ok(file.write_all(text.as_bytes())?)
}

/// Writes the schema that the first line of a change file refers to. A symbolic link in its place is replaced, not followed.
fn write_schema(path: &Path) -> io::Result<()> {
    let text = output::json(&change_file_schema());
    if safe_read::text(path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    // Errors of the temporary file would name its path, which means nothing to the user.
    let plain = |error: &io::Error| io::Error::from(error.kind());
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(path)).map_err(|error| plain(&error))?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map(drop).map_err(|error| plain(&error.error))
}

fn write_sourced(context: &Context, name: &ChangeName, source: &str, path: &Path) -> Result<ExitStatus> {
    let material = SourcePlace::new(&context.repo.place.top, source).material()?;
    let sourced = material.read().map_err(Problem::fatal)?;
    create(context, name, path, &sourced_change_file(name.as_str(), source, &sourced.verify))?;
    output::data(&format!("{}\n{}", path.display(), found(&material, &sourced)));
    for note in &sourced.notes {
        output::message(&Line::new(Tone::Warning, clean(note)));
    }
    output::advise(Advice::NextStep, &[format!("git ralph start {name}")]);
    Ok(ExitStatus::Done)
}

/// A description of what was found in a source.
fn found(material: &Material, sourced: &Sourced) -> String {
    let done = sourced.stories.iter().filter(|story| story.done).count();
    let stories = count(sourced.stories.len(), "story");
    let mut text = format!("{} {}: {stories}, {done} done", material.kind, clean(&material.main.name));
    if material.kind != Kind::Prd {
        let (ticked, all) = count_boxes(&material.main.text);
        let _ = write!(text, ", {ticked} of {all} boxes ticked");
    }
    text.push('\n');
    for story in &sourced.stories {
        let mark = if story.done { "x" } else { " " };
        let title = if story.title == story.id.as_str() { String::new() } else { format!("  {}", clean(&story.title)) };
        let _ = writeln!(text, "  [{mark}] {}{title}", clean(story.id.as_str()));
    }
    for gate in &sourced.verify {
        let _ = writeln!(text, "  gate: {}", clean(gate));
    }
    text
}
