//! `git ralph log`: a run looked back at.

use anyhow::{Result, bail};

use super::context::Context;
use crate::cli::LogArgs;
use crate::config::Environment;
use crate::error::{Ending, Problem};
use crate::report::{Chronicle, Kept, LogView, Spot, log_text, output};
use crate::run::{RunDir, RunState, replay};
use crate::story::{ChangeName, StoryId};

/// What is looked at.
struct Subject {
    run: RunDir,
    state: RunState,
    story: Option<StoryId>,
}

/// Prints what has happened in a run.
pub async fn run(args: &LogArgs, environment: Environment) -> Result<Ending> {
    let context = Context::open(environment).await?;
    let Subject { run, state, story } = subject(&context, args)?;
    let mut chronicle = Chronicle::default();
    replay(&run.journal(), |record| chronicle.take(record))?;
    let kept = kept(&context, &run.change, &chronicle, story.as_ref()).await?;
    let owner = context.owner_of(&state);
    let view = LogView::new(&chronicle, &context.stories(&run, &state), story.as_ref(), owner, kept);
    output::data(&log_text(&view));
    Ok(Ending::Done)
}

/// What refs of the change keep, but for those that are about another story.
async fn kept(context: &Context, change: &ChangeName, chronicle: &Chronicle, story: Option<&StoryId>) -> Result<Vec<Kept>> {
    let refs = context.repo.refs().await?;
    let spot = Spot { change, refs: &refs, at_top: context.environment.cwd == context.repo.place.top };
    let prefix = format!("refs/ralph/{change}/");
    let mut kept = Vec::new();
    for entry in context.repo.described_refs(&prefix).await? {
        let rest = entry.name.strip_prefix(&prefix).unwrap_or_default();
        if story.is_some_and(|story| !chronicle.is_about(rest, story)) {
            continue;
        }
        let changes = match &entry.parent {
            Some(parent) => context.repo.diff_trees(parent, &entry.oid).await?,
            None => context.repo.files_of(&entry.oid).await?,
        };
        kept.extend(Kept::new(&entry, &changes, &spot));
    }
    Ok(kept)
}

fn subject(context: &Context, args: &LogArgs) -> Result<Subject> {
    let Some(first) = args.change.as_deref() else {
        let (run, state) = usual(context)?;
        return Ok(Subject { run, state, story: None });
    };
    let changes = context.known_changes()?;
    if let Some(name) = changes.iter().find(|name| name.as_str() == first) {
        let Some((run, state)) = context.store.last(name)? else {
            bail!(Problem::refused(format!("'{name}' has never been started")).hint(format!("git ralph start {name}")));
        };
        let story = args.story.as_deref().map(|text| context.story(&run, &state, text)).transpose()?;
        return Ok(Subject { run, state, story });
    }
    let here = if args.story.is_none() { usual(context).ok() } else { None };
    let mut candidates: Vec<String> = changes.iter().map(ToString::to_string).collect();
    if let Some((run, state)) = here {
        let stories = context.stories(&run, &state);
        if let Some(story) = stories.iter().find(|story| story.id.as_str() == first) {
            return Ok(Subject { run, state, story: Some(story.id.clone()) });
        }
        candidates.extend(stories.iter().map(|story| story.id.to_string()));
    }
    let near = crate::nearest::to(first, candidates.iter().map(String::as_str));
    let suggestion = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
    bail!(Problem::fatal(format!("there is no change and no story '{}'{suggestion}", first.escape_debug())).hint("git ralph list"))
}

/// The open run of this work tree; where none is, the last run of the only change that has any.
fn usual(context: &Context) -> Result<(RunDir, RunState)> {
    if let Ok(open) = context.open_run(None) {
        return Ok(open);
    }
    let mut last = Vec::new();
    for name in context.store.changes_with_runs()? {
        last.extend(context.store.last(&name)?);
    }
    match (last.pop(), last.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => bail!(Problem::refused("there is no run to look back at").hint("git ralph list")),
        (Some((run, _)), false) => {
            let names = last.iter().map(|(run, _)| &run.change).chain([&run.change]);
            let problem = Problem::refused("which change? no run is open in this work tree, and several changes have runs");
            bail!(names.fold(problem, |problem, name| problem.hint(format!("git ralph log {name}"))))
        }
    }
}
