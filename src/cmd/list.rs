//! `git ralph list`: lists the changes of this repository.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;

use super::context::Context;
use crate::cli::List;
use crate::config::{Advice, Environment};
use crate::error::{ExitStatus, words};
use crate::report::{Line, Summary, Tone, clean, output, run_word, state_styled};
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
    if rows.is_empty() {
        output::message(&Line::new(Tone::Plain, "there are no changes yet"));
        output::advise(Advice::NextStep, &["git ralph new my-change".to_owned()]);
    }
    Ok(ExitStatus::Done)
}

fn row(context: &Context, name: &ChangeName) -> Result<Row> {
    let last = context.store.last(name)?;
    let is_open = last.as_ref().is_some_and(|(_, state)| !state.is_closed());
    // A change without a file is known only by its runs.
    let change = match context.changes.load(name) {
        Err(_) if !context.store.change_file(name).exists() => None,
        loaded => Some(loaded.and_then(|loaded| loaded.change(None))),
    };
    let marked = |change: &Change| change.stories.iter().filter(|story| story.done).count();
    let before = change.as_ref().and_then(|change| change.as_ref().ok()).map_or(0, marked);
    let (title, total, error) = match change {
        Some(Ok(change)) => (change.title, Some(change.stories.len()), None),
        Some(Err(error)) => (None, None, words(&error).lines().next().map(str::to_owned)),
        None => (None, None, None),
    };
    let (state, done) = last.map_or(("not started", 0), |(run, state)| {
        let summary = Summary::new(name, &state, &context.changes.stories(&run, &state));
        (run_word(&state.phase, &summary), state.stories.keys().filter(|id| state.has_landed(id)).count())
    });
    let state = if error.is_some() && !is_open { "broken" } else { state };
    Ok(Row { change: name.to_string(), title, state: state.to_owned(), done: done.max(before), total, error })
}
