//! Whether agents can be kept in a sandbox here.

use super::super::context::Context;
use super::super::fence::try_sandbox;
use crate::config::{Flags, SandboxMode, Settings};
use crate::report::{Check, Health};
use crate::runner::NoSandbox;

/// Starts a trivial command in the sandbox, by the command line of an attempt. It is a fault only if a sandbox is asked for.
pub async fn check(context: &Context) -> Option<Check> {
    let name = "sandbox";
    // Settings that cannot be read have a line of their own.
    let settings = Settings::resolve(&Flags::default(), None, &context.config).ok()?;
    let wanted = settings.sandbox.value;
    Some(match (try_sandbox(context, &settings, None).await, wanted) {
        (Ok(()), SandboxMode::Off) => Check::new(name, Health::Green, "bubblewrap works; git ralph start --sandbox uses it"),
        (Ok(()), _) => Check::new(name, Health::Green, "bubblewrap works"),
        (Err(NoSandbox { why, remedy }), SandboxMode::Bwrap) => Check::new(name, Health::Red, why).fixed_by(remedy),
        (Err(NoSandbox { why, remedy }), _) => Check::new(name, Health::Note, format!("none: {why}")).fixed_by(remedy),
    })
}
