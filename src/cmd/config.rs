//! `git ralph config`: lists the effective settings and where each was set.

use anyhow::{Error, Result};

use super::context::Context;
use crate::cli::ConfigArgs;
use crate::config::{
    BadValue, Environment, Flags, OutputStyle, Scope, Settings, change_file_schema, list_bad, resolve_without_bad, unknown_entries,
};
use crate::error::{ExitStatus, words};
use crate::report::{Line, Tone, config_json, config_text, output};
use crate::run::LoadedChange;
use crate::shell_word::quoted;
use crate::story::ChangeName;

/// Lists the settings. Invalid values are reported and do not keep the others from being listed.
pub async fn run(args: &ConfigArgs, environment: Environment) -> Result<ExitStatus> {
    if args.schema {
        output::data(&output::json(&change_file_schema()));
        return Ok(ExitStatus::Done);
    }
    let context = Context::open_leniently(environment).await?;
    let (change, flags) = subject(&context, args)?;
    let (loaded, broken) = loaded(&context, change.as_ref())?;
    let (settings, mut bad) = resolve_without_bad(&context.config, |config| match &loaded {
        Some(loaded) => loaded.settings(&flags, config),
        None => Settings::resolve(&flags, None, config),
    })?;
    let mut listed = settings.listing(&context.config);
    list_bad(&mut listed, &bad);
    output::data(&if args.json {
        output::json(&config_json(change.as_ref().map(ChangeName::as_str), &listed))
    } else {
        config_text(&listed)
    });
    for (entry, near) in unknown_entries(&context.config) {
        let suggestion = crate::nearest::said(near);
        output::message(&Line::new(Tone::Warning, format!("'{}' in {} is not a setting{suggestion}", entry.key, entry.origin())));
    }
    bad.extend(resolve_without_bad(&context.config, |config| OutputStyle::resolve(&context.environment, config))?.1);
    for bad in &bad {
        output::failure("error", &bad.to_string(), &unset(bad));
    }
    if let Some(broken) = &broken {
        output::failure("error", &words(broken), &[]);
    }
    Ok(if bad.is_empty() && broken.is_none() { ExitStatus::Done } else { ExitStatus::Fatal })
}

/// The change, or the error if it has a file that cannot be read.
fn loaded(context: &Context, change: Option<&ChangeName>) -> Result<(Option<LoadedChange>, Option<Error>)> {
    let Some(name) = change else { return Ok((None, None)) };
    match context.changes.load(name) {
        Ok(loaded) => Ok((Some(loaded), None)),
        Err(error) if context.store.change_file(name).exists() => Ok((None, Some(error))),
        Err(error) => Err(error),
    }
}

/// The command that removes a bad value.
fn unset(bad: &BadValue) -> Vec<String> {
    match bad.entry.scope {
        Scope::Command => Vec::new(),
        scope => vec![format!("git config --{scope} --unset-all {}", quoted(&bad.key))],
    }
}

/// The named change, or that of the open run with the options of its `start`.
fn subject(context: &Context, args: &ConfigArgs) -> Result<(Option<ChangeName>, Flags)> {
    if let Some(name) = &args.change {
        return Ok((Some(Context::name(name)?), Flags::default()));
    }
    Ok(match context.open_run(None) {
        Ok((run, state)) => (Some(run.change), state.opening.map(|opening| opening.flags).unwrap_or_default()),
        Err(_) => (None, Flags::default()),
    })
}
