//! `git ralph prune`: lists what closed runs have kept, asks, and deletes it.

use anyhow::{Result, bail};

use super::context::Context;
use crate::cli::Prune;
use crate::config::{Advice, Environment};
use crate::error::{ExitStatus, Problem};
use crate::report::{Line, Tone, ask, output, prune_text, prune_words};
use crate::run::{Lock, Prunable, Scope};
use crate::shell_word::{git_ralph, quoted};
use crate::story::ChangeName;

/// Deletes what finished and aborted runs have kept.
pub async fn run(args: &Prune, environment: Environment) -> Result<ExitStatus> {
    let mut context = Context::open(environment).await?;
    context.store = context.store.for_decisions();
    let only = args.change.as_deref().map(Context::name).transpose()?;
    let scope = Scope { change: only.as_ref(), refs: &args.refs };
    let around = context.workspaces_around();
    let _lock = if args.dry_run { None } else { Some(lock(&context)?) };
    let found = Prunable::find(&context.repo, &context.store, around.as_deref(), scope).await?;
    check_named(&found, &args.refs)?;
    if !args.quiet {
        report_kept_branches(&found);
    }
    if found.is_empty() {
        check_known(&context, only.as_ref())?;
        say(args, "nothing to prune");
        return Ok(ExitStatus::Done);
    }
    // The list is shown before the question. Only with both `--quiet` and `--yes` is it left out.
    if !args.quiet || !args.yes {
        output::data(&prune_text(&found, |path| context.shown(path)));
    }
    if args.dry_run {
        return Ok(ExitStatus::Done);
    }
    if !args.yes {
        match consent(&context, &found, args).await? {
            ask::Answer::Chosen(()) => {}
            ask::Answer::Later => {
                say(args, "nothing was deleted");
                return Ok(ExitStatus::NotPossible);
            }
            ask::Answer::Interrupted => return Ok(ExitStatus::Interrupted),
        }
    }
    let found = Prunable::find(&context.repo, &context.store, around.as_deref(), scope).await?.still_of(&found);
    found.delete(&context.repo).await?;
    say(args, &format!("deleted: {}", prune_words(&found)));
    Ok(ExitStatus::Done)
}

fn say(args: &Prune, text: &str) {
    if !args.quiet {
        output::message(&Line::new(Tone::Plain, text));
    }
}

/// Refuses to delete a ref that does not belong to a closed run.
fn check_named(found: &Prunable, named: &[String]) -> Result<()> {
    let is_found = |name: &&String| found.refs.iter().any(|entry| entry.name == **name);
    match named.iter().find(|name| !is_found(name)) {
        Some(name) => bail!(
            Problem::fatal(format!("'{}' is not a ref of a finished or aborted run", name.escape_debug()))
                .hint("git ralph prune --dry-run")
        ),
        None => Ok(()),
    }
}

/// Lists branches that the user chose to keep, with the commands that delete them.
fn report_kept_branches(found: &Prunable) {
    for entry in &found.kept_branches {
        output::message(&Line::new(Tone::Plain, format!("{} is a branch that you kept; it is not deleted", entry.name)));
    }
    let commands: Vec<String> = found.kept_branches.iter().map(|entry| format!("git ralph prune {}", quoted(&entry.name))).collect();
    output::advise(Advice::NextStep, &commands);
}

async fn consent(context: &Context, found: &Prunable, args: &Prune) -> Result<ask::Answer<()>> {
    if !context.environment.interactive {
        let change = args.change.as_ref().map(|change| format!(" --change {change}")).unwrap_or_default();
        let limit = args.refs.iter().fold(change, |limit, name| format!("{limit} {}", quoted(name)));
        bail!(
            Problem::refused("nothing was deleted: --yes is not given, and there is no terminal to ask on")
                .hint(git_ralph(&format!("prune --yes{limit}"), &[]) + "   to delete the above for good")
        );
    }
    ask::sure(format!("Delete {} for good?", prune_words(found))).await
}

/// Takes the lock if it is free. `prune` does not end processes that a killed run left behind.
fn lock(context: &Context) -> Result<Lock> {
    let worktree = context.repo.place.worktree_id();
    match Lock::take(&context.store.lock_file(&worktree), context.store.owner_file(&worktree))? {
        Ok(lock) => Ok(lock),
        Err(_) => bail!(
            Problem::refused("git-ralph, or a process that it started, is working in this work tree")
                .hint("git ralph status")
                .hint("git ralph stop")
        ),
    }
}

fn check_known(context: &Context, only: Option<&ChangeName>) -> Result<()> {
    let Some(name) = only else { return Ok(()) };
    let known = context.changes.known()?;
    if known.contains(name) {
        return Ok(());
    }
    let near = crate::nearest::to(name.as_str(), known.iter().map(ChangeName::as_str));
    let problem = Problem::fatal(format!("there is no change '{name}'{}", crate::nearest::said(near)));
    bail!(problem.hint("git ralph list").mistyped(name.as_str(), near))
}
