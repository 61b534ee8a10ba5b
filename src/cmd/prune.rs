//! `git ralph prune`: lists what closed runs keep, asks, deletes it.

use anyhow::{Result, bail};

use super::context::Context;
use crate::cli::Prune;
use crate::config::Environment;
use crate::error::{ExitStatus, Problem};
use crate::report::{Line, Tone, ask, output, prune_text, prune_words};
use crate::run::{Lock, Prunable};
use crate::story::ChangeName;

/// Deletes what finished and aborted runs keep.
pub async fn run(args: &Prune, environment: Environment) -> Result<ExitStatus> {
    let mut context = Context::open(environment).await?;
    context.store = context.store.for_decisions();
    let only = args.change.as_deref().map(Context::name).transpose()?;
    let around = context.workspaces_around();
    let _lock = if args.dry_run { None } else { Some(lock(&context)?) };
    let found = Prunable::find(&context.repo, &context.store, around.as_deref(), only.as_ref()).await?;
    if found.is_empty() {
        check_known(&context, only.as_ref())?;
        say(args, "nothing to prune");
        return Ok(ExitStatus::Done);
    }
    // What is deleted for good is shown before it is asked about; who says yes beforehand may not want to see it.
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
    let found = Prunable::find(&context.repo, &context.store, around.as_deref(), only.as_ref()).await?.still_of(&found);
    found.delete(&context.repo).await?;
    say(args, &format!("deleted: {}", prune_words(&found)));
    Ok(ExitStatus::Done)
}

fn say(args: &Prune, text: &str) {
    if !args.quiet {
        output::message(&Line::new(Tone::Plain, text));
    }
}

async fn consent(context: &Context, found: &Prunable, args: &Prune) -> Result<ask::Answer<()>> {
    if !context.environment.interactive {
        let limit = args.change.as_ref().map(|change| format!(" --change {change}")).unwrap_or_default();
        bail!(
            Problem::refused("nothing was deleted: --yes is not given, and there is no terminal to ask on")
                .hint(format!("git ralph prune --yes{limit}   to delete the above for good"))
        );
    }
    ask::sure(format!("Delete {} for good?", prune_words(found))).await
}

/// The lock, if nobody has it: what a killed run left at work is not ours to end here.
fn lock(context: &Context) -> Result<Lock> {
    let worktree = context.repo.place.worktree_id();
    match Lock::take(&context.store.lock_file(&worktree), context.store.owner_file(&worktree))? {
        Ok(lock) => Ok(lock),
        Err(_) => bail!(
            Problem::refused("a git ralph, or what it started, is at work in this work tree")
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
    let suggestion = crate::nearest::suggestion(name.as_str(), known.iter().map(ChangeName::as_str));
    bail!(Problem::fatal(format!("there is no change '{name}'{suggestion}")).hint("git ralph list"))
}
