//! `git ralph edit`: opens the change file in the user's editor, and opens it again if the edit is invalid.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::context::Context;
use crate::cli::Edit;
use crate::config::{Advice, Environment, Flags};
use crate::error::{ExitStatus, Problem};
use crate::git::Git;
use crate::process::edit;
use crate::report::{Line, Tone, output};
use crate::run::{Inbox, Request, Wish};
use crate::safe_read;
use crate::shell_word::quoted;
use crate::story::ChangeName;

/// The prefix of the lines that explain what is wrong with an edit.
const REMARK: &str = "# git ralph: ";

/// Edits the file of a change.
pub async fn run(args: &Edit, environment: Environment) -> Result<ExitStatus> {
    let context = Context::open(environment).await?;
    let name = meant(&context, args.change.as_deref())?;
    open(&context, &name).await
}

/// The named change, that of the open run, or the only one there is.
fn meant(context: &Context, named: Option<&str>) -> Result<ChangeName> {
    if let Some(name) = named {
        return Context::name(name);
    }
    if let Ok((run, _)) = context.open_run(None) {
        return Ok(run.change);
    }
    let known = context.store.changes()?;
    match &known[..] {
        [only] => Ok(only.clone()),
        [] => bail!(Problem::refused("there is no change to edit").hint("git ralph new my-change")),
        several => {
            let hints = several.iter().map(|name| format!("git ralph edit {name}"));
            bail!(hints.fold(Problem::usage("which change? none is named"), Problem::hint))
        }
    }
}

/// Opens the change file in the editor until it is valid.
pub async fn open(context: &Context, name: &ChangeName) -> Result<ExitStatus> {
    let (file, draft) = (context.store.change_file(name), context.store.edit_file(name));
    let before = safe_read::text(&file).map_err(|_| {
        Problem::refused(format!("there is no change '{name}': {} does not exist", context.shown(&file)))
            .hint(format!("git ralph new {name}"))
    })?;
    let editor = editor(context).await?;
    let mut text = safe_read::text(&draft).unwrap_or_else(|_| before.clone());
    let mut rejected: Option<String> = None;
    loop {
        write(&draft, &text)?;
        let ended_well = edit(&editor, context.environment.as_typed(), &context.environment.cwd, &draft).await;
        if !ended_well.with_context(|| format!("cannot start the editor '{editor}'"))? {
            bail!(not_taken(context, name, &draft, &format!("the editor '{editor}' failed")));
        }
        let edited = without_remarks(&safe_read::text(&draft).with_context(|| format!("cannot read {}", draft.display()))?);
        if edited.trim().is_empty() || edited == before {
            let _ = fs::remove_file(&draft);
            output::message(&Line::new(Tone::Plain, format!("{} was not changed", context.shown(&file))));
            return Ok(ExitStatus::Done);
        }
        let Err(error) = check(context, name, &edited) else {
            save(context, name, &edited)?;
            let _ = fs::remove_file(&draft);
            return Ok(ExitStatus::Done);
        };
        let why = format!("{error:#}");
        if rejected.as_ref() == Some(&edited) {
            // The user has seen the error and left the text unchanged.
            bail!(not_taken(context, name, &draft, &why));
        }
        output::message(&Line::new(Tone::Error, why.clone()));
        text = with_remarks(&why, &edited);
        rejected = Some(edited);
    }
}

/// The editor that git would use here.
async fn editor(context: &Context) -> Result<String> {
    let environment = &context.environment;
    let asked = Git::plain(environment.cwd.clone(), environment.as_typed()).call(["var", "GIT_EDITOR"]).line().await;
    match asked.map(|line| line.trim().to_owned()) {
        Ok(editor) if !editor.is_empty() => Ok(editor),
        _ => bail!(Problem::refused("git has no editor configured").hint("git config core.editor vi")),
    }
}

fn check(context: &Context, name: &ChangeName, text: &str) -> Result<()> {
    let loaded = context.changes.understood(name, text)?;
    loaded.change(None)?;
    loaded.settings(&Flags::default(), &context.config).map(drop)
}

/// Saves the edit. During an attempt in the user's checkout the loop does that later, because changes to the file during an attempt
/// count as the agent's and are reverted.
fn save(context: &Context, name: &ChangeName, text: &str) -> Result<()> {
    let shown = context.shown(&context.store.change_file(name));
    let run = context.store.last(name)?.filter(|(_, state)| !state.is_closed() && !state.is_isolated());
    if let Some((run, state)) = run
        && (context.store.owner(&state).is_some() || state.is_busy())
        && let Some(inbox) = Inbox::of(&run, &state)
    {
        inbox.leave(&Request::new(Wish::Edit { text: text.to_owned() })).context("cannot leave the edit for the loop")?;
        let text = format!("the edit of {shown} takes effect when no attempt is under way");
        output::message(&Line::new(Tone::Plain, text));
        return Ok(());
    }
    context.changes.save(name, text).with_context(|| format!("cannot write {shown}"))?;
    output::message(&Line::new(Tone::Plain, format!("{shown} is saved")));
    if context.store.last(name)?.is_none_or(|(_, state)| state.is_closed()) {
        output::advise(Advice::NextStep, &[format!("git ralph start {name}")]);
    }
    Ok(())
}

fn write(draft: &Path, text: &str) -> Result<()> {
    let dir = draft.parent().unwrap_or(draft);
    fs::create_dir_all(dir).and_then(|()| fs::write(draft, text)).with_context(|| format!("cannot write {}", draft.display()))
}

fn not_taken(context: &Context, name: &ChangeName, draft: &Path, why: &str) -> Problem {
    Problem::fatal(format!("{why}; the change file was not changed"))
        .hint(format!("git ralph edit {name}   to continue your edit"))
        .hint(format!("rm {}   to drop it", quoted(&context.shown(draft))))
}

fn with_remarks(why: &str, text: &str) -> String {
    let remarks: String = why.lines().map(|line| format!("{REMARK}{line}\n")).collect();
    format!("{remarks}{REMARK}fix it and save; or empty the file to cancel the edit\n{text}")
}

fn without_remarks(text: &str) -> String {
    text.split_inclusive('\n').skip_while(|line| line.starts_with(REMARK)).collect()
}
