//! `git ralph list`: the changes that this repository knows.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;

use super::context::Context;
use crate::cli::List;
use crate::config::Environment;
use crate::error::ExitStatus;
use crate::report::{clean, output, state_styled};
use crate::run::Phase;
use crate::story::{Change, ChangeName};

#[derive(Serialize)]
struct Row {
    change: String,
    title: Option<String>,
    state: String,
    done: usize,
    total: Option<usize>,
    error: Option<String>,
}

/// Lists the changes.
pub async fn run(args: &List, environment: Environment) -> Result<ExitStatus> {
    let context = Context::open(environment).await?;
    let names = context.changes.known()?;
    let rows: Vec<Row> = names.iter().map(|name| row(&context, name)).collect::<Result<_>>()?;
    if args.json {
        output::data(&output::json(&serde_json::json!({ "schema": 1, "changes": rows })));
        return Ok(ExitStatus::Done);
    }
    let width = rows.iter().map(|row| row.change.len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in &rows {
        let total = row.total.map_or_else(|| "?".to_owned(), |total| total.to_string());
        let note = row.error.as_ref().or(row.title.as_ref()).map(|note| clean(note)).unwrap_or_default();
        let _ = writeln!(text, "{:<width$}  {:<11}  {:>3}/{total:<3}  {note}", row.change, state_styled(&row.state), row.done);
    }
    output::data(&text);
    Ok(ExitStatus::Done)
}

fn row(context: &Context, name: &ChangeName) -> Result<Row> {
    let last = context.store.last(name)?;
    let state = match last.as_ref().map(|(_, state)| &state.phase) {
        None => "not started",
        Some(Phase::Finished(_)) => "finished",
        Some(Phase::Aborted) => "aborted",
        Some(_) => "open",
    };
    // Of a change whose file is gone only its runs are known.
    let change = match context.changes.load(name) {
        Err(_) if !context.store.change_file(name).exists() => None,
        loaded => Some(loaded.and_then(|loaded| loaded.change(None))),
    };
    let marked = |change: &Change| change.stories.iter().filter(|story| story.done).count();
    let before = change.as_ref().and_then(|change| change.as_ref().ok()).map_or(0, marked);
    let (title, total, error) = match change {
        Some(Ok(change)) => (change.title, Some(change.stories.len()), None),
        Some(Err(error)) => (None, None, Some(format!("{error:#}"))),
        None => (None, None, None),
    };
    let done = last.map_or(0, |(_, state)| state.stories.keys().filter(|id| state.has_landed(id)).count()).max(before);
    Ok(Row { change: name.to_string(), title, state: state.to_owned(), done, total, error })
}
