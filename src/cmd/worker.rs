//! `git ralph worker`: checks its arguments, and runs the agent of one attempt on this machine.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::cli::WorkerArgs;
use crate::config::Environment;
use crate::error::{ExitStatus, Problem};
use crate::portable_word;
use crate::process::Exit;
use crate::remote::{Hub, HubRef};
use crate::report::{Line, Tone, output};
use crate::worker::{Order, status, work};

/// Runs one attempt's agent on this machine. The exit status is that of the agent.
pub async fn run(args: WorkerArgs, environment: &Environment) -> Result<ExitStatus> {
    let order = order(args, environment)?;
    let exit = work(&order, environment).await?;
    if let Exit::CouldNotStart { error } = &exit {
        output::message(&Line::new(Tone::Error, format!("cannot start the agent on the worker: {error}")));
    }
    Ok(ExitStatus::OfAgent(status(&exit)))
}

fn order(args: WorkerArgs, environment: &Environment) -> Result<Order> {
    let is_encoded = args.encoded;
    let word =
        |word: OsString| -> Result<OsString> { Ok(if is_encoded { portable_word::decoded(&word).map_err(Problem::fatal)? } else { word }) };
    let words = |list: Vec<OsString>| list.into_iter().map(word).collect::<Result<Vec<_>>>();
    let temporary = environment.get("TMPDIR").filter(|dir| !dir.is_empty()).unwrap_or(OsStr::new("/tmp"));
    let identity = args.identity.map(word).transpose()?;
    Ok(Order {
        hub: Hub::new(args.hub)?,
        base: args.base.parse().map_err(|_| Problem::fatal(format!("'{}' is not the full id of a commit", args.base.escape_debug())))?,
        base_ref: args.base_ref.as_deref().map(str::parse::<HubRef>).transpose()?,
        result: args.result.parse()?,
        depth: args.depth,
        dir: args.dir.unwrap_or_else(|| PathBuf::from(temporary)),
        grace: Duration::from_secs(args.grace),
        env: words(args.env)?.iter().map(|entry| variable(entry)).collect::<Result<_>>()?,
        setup: words(args.setup)?,
        identity: identity.as_deref().map(name_and_address).transpose()?,
        learnings_bytes: args.learnings_bytes,
        prompt_bytes: args.prompt_bytes,
        report: args.report,
        agent: words(args.agent)?,
    })
}

/// Parses `NAME=VALUE`.
fn variable(entry: &OsStr) -> Result<(String, OsString)> {
    let text = entry.to_str().and_then(|text| text.split_once('='));
    match text.filter(|(name, _)| !name.is_empty()) {
        Some((name, value)) => Ok((name.to_owned(), value.into())),
        None => bail!(Problem::fatal(format!("'{}' is not a variable: it must be NAME=VALUE", entry.display()))),
    }
}

/// Parses `Name <address>`.
fn name_and_address(text: &OsStr) -> Result<(String, String)> {
    let parts = text.to_str().and_then(|text| text.strip_suffix('>')?.split_once('<'));
    match parts {
        Some((name, address)) => Ok((name.trim().to_owned(), address.trim().to_owned())),
        None => bail!(Problem::fatal(format!("'{}' is not a name with an address: it must be NAME <ADDRESS>", text.display()))),
    }
}
