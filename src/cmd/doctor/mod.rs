//! `git ralph doctor`: checks everything that a run needs, without changing anything.

mod agents;
mod installed;
mod repository;
mod sandbox;
mod work;

use anyhow::Result;

use super::context::Context;
use crate::cli::Doctor;
use crate::config::Environment;
use crate::error::ExitStatus;
use crate::report::{Check, Health, doctor_json, doctor_text, output};

/// Runs all checks. Outside of a repository, those that are possible there.
pub async fn run(args: &Doctor, environment: Environment) -> Result<ExitStatus> {
    let mut checks = vec![installed::git(&environment).await];
    checks.extend(installed::system());
    match Context::open(environment.clone()).await {
        Ok(context) => {
            checks.extend(repository::checks(&context).await);
            checks.extend(work::checks(&context, args.change.as_deref()).await?);
            checks.extend(agents::checks(&context).await);
            checks.extend(sandbox::check(&context).await);
        }
        Err(error) => checks.push(repository::nowhere(&error)),
    }
    checks.push(installed::manual(&environment).await);
    checks.push(installed::completion(&environment));
    output::data(&if args.json { doctor_json(&checks) } else { doctor_text(&checks) });
    let sick = checks.iter().any(|check| check.health == Health::Red);
    Ok(if sick { ExitStatus::StoppedShort } else { ExitStatus::Done })
}

/// The check, or a failed check with the error.
fn check(name: &str, found: Result<Check>) -> Check {
    found.unwrap_or_else(|error| Check::new(name, Health::Red, crate::error::words(&error)))
}
