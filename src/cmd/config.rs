//! `git ralph config`: every setting as it holds here, and where it was set.

use anyhow::Result;

use super::context::Context;
use crate::cli::ConfigArgs;
use crate::config::{Environment, Flags, Settings, unknown_entries};
use crate::error::ExitStatus;
use crate::report::{Line, Tone, config_json, config_text, output};
use crate::story::ChangeName;

/// Lists the settings.
pub async fn run(args: &ConfigArgs, environment: Environment) -> Result<ExitStatus> {
    let context = Context::open(environment).await?;
    let (change, flags) = subject(&context, args)?;
    let settings = match &change {
        Some(name) => context.changes.load(name)?.settings(&flags, &context.config)?,
        None => Settings::resolve(&flags, None, &context.config)?,
    };
    let listed = settings.listing(&context.config);
    output::data(&if args.json {
        output::json(&config_json(change.as_ref().map(ChangeName::as_str), &listed))
    } else {
        config_text(&listed)
    });
    for (entry, near) in unknown_entries(&context.config) {
        let suggestion = crate::nearest::said(near);
        output::message(&Line::new(Tone::Warning, format!("'{}' in {} is not a setting{suggestion}", entry.key, entry.origin())));
    }
    Ok(ExitStatus::Done)
}

/// The named change, or that of the open run with what its `start` was told.
fn subject(context: &Context, args: &ConfigArgs) -> Result<(Option<ChangeName>, Flags)> {
    if let Some(name) = &args.change {
        return Ok((Some(Context::name(name)?), Flags::default()));
    }
    Ok(match context.open_run(None) {
        Ok((run, state)) => (Some(run.change), state.opening.map(|opening| opening.flags).unwrap_or_default()),
        Err(_) => (None, Flags::default()),
    })
}
