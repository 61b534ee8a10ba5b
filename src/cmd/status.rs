//! `git ralph status`, and `git ralph` without a command: shows the state of a run.

use anyhow::Result;

use super::context::Context;
use super::log::chronicle;
use crate::cli::Status;
use crate::config::Environment;
use crate::error::{ExitStatus, Problem};
use crate::git::Head;
use crate::names::Names;
use crate::report::{StatusView, Summary, output, status_json, status_text};
use crate::run::{self, Phase, RunDir, RunState};

/// Prints the state of the run.
pub async fn run(args: &Status, environment: Environment) -> Result<ExitStatus> {
    let context = Context::open(environment).await?;
    let Some((run, state)) = subject(&context, args.change.as_deref())? else {
        let known = context.store.changes()?;
        let hint = known.first().map_or_else(|| "git ralph new my-change".to_owned(), |name| format!("git ralph start {name}"));
        let text = if args.json {
            "{\n  \"schema\": 1,\n  \"state\": \"none\"\n}\n".to_owned()
        } else {
            format!("no run is open\nnext: {hint}\n")
        };
        output::data(&text);
        return Ok(ExitStatus::Done);
    };
    let stories = context.changes.stories(&run, &state);
    let owner = context.store.owner(&state);
    let mut view = StatusView::new(&state, &stories, owner).asked_by(run.asker().map(|asker| asker.pid));
    if let Some(head) = moved_head(&context, &run, &state) {
        view = view.with_head(head);
    }
    if !state.stories.is_empty() {
        view = view.with_summary(Summary::new(&run.change, &state, &stories).within(chronicle(&run)?.milliseconds()));
    }
    if state.is_isolated() && !state.is_closed() {
        view = view.since(&chronicle(&run)?).with_source_edits(source_edits(&context, &run, &state).await);
    }
    output::data(&if args.json { status_json(&view) } else { status_text(&view) });
    Ok(ExitStatus::Done)
}

/// HEAD, if the user has moved it off the branch of an open run that works in this checkout.
fn moved_head<'a>(context: &'a Context, run: &RunDir, state: &RunState) -> Option<&'a Head> {
    let place = &context.repo.place;
    let here = state.opening.as_ref().is_some_and(|opening| opening.worktree == place.worktree_id());
    let on_branch = place.head.branch() == Some(Names::new(&run.change).branch().as_str());
    (here && state.phase == Phase::Open && !state.is_isolated() && !on_branch).then_some(&place.head)
}

/// The source files that the user has edited in the checkout, which an isolated run does not see. Empty if the source cannot be read.
async fn source_edits(context: &Context, run: &RunDir, state: &RunState) -> Vec<String> {
    let (Some(initial), Some(base), Ok(loaded)) = (&state.initial, &state.base, context.changes.load(&run.change)) else {
        return Vec::new();
    };
    let Some(source) = loaded.source_of(state.source_kind).filter(|_| run.source_view().is_dir()) else { return Vec::new() };
    run::source_edits(&context.repo, &source, initial, &base.checkpoint).await.unwrap_or_default()
}

/// The last run of the named change, or the open run of this work tree.
fn subject(context: &Context, name: Option<&str>) -> Result<Option<(RunDir, RunState)>> {
    let Some(name) = name else { return context.open_run_if_any() };
    let name = Context::name(name)?;
    let last = context.store.last(&name)?;
    if last.is_none() {
        context.changes.load(&name)?;
        return Err(Problem::refused(format!("'{name}' has never been started")).hint(format!("git ralph start {name}")).into());
    }
    Ok(last)
}
