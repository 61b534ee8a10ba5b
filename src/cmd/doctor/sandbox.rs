//! Checks whether the sandbox for agents works here.

use super::super::context::Context;
use super::super::fence::try_sandbox;
use crate::config::{Flags, SandboxMode, Settings};
use crate::report::{Check, Health};
use crate::runner::NoSandbox;

/// Runs a trivial command in the sandbox, with the command line of an attempt. A failure is an error only if the settings ask for a
/// sandbox.
pub async fn check(context: &Context) -> Option<Check> {
    let name = "sandbox";
    // Invalid settings are reported by their own check.
    let settings = Settings::resolve(&Flags::default(), None, &context.config).ok()?;
    let wanted = settings.sandbox.value;
    Some(match (try_sandbox(context, &settings, None).await, wanted) {
        (Ok(()), SandboxMode::Off) => Check::new(name, Health::Green, "bubblewrap works; git ralph start --sandbox uses it"),
        (Ok(()), _) => Check::new(name, Health::Green, "bubblewrap works"),
        (Err(NoSandbox { why, remedy }), SandboxMode::Bwrap) => Check::new(name, Health::Red, why).fixed_by(remedy),
        (Err(NoSandbox { why, remedy }), _) => Check::new(name, Health::Note, format!("none: {why}")).fixed_by(remedy),
    })
}
