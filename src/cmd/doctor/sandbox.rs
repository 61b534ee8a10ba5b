//! Checks whether the sandbox for agents works here.

use super::super::context::Context;
use super::super::sandbox_choice::{NOT_ON_WORKERS, has_worker, try_sandbox};
use crate::config::{Flags, SandboxMode, Settings};
use crate::report::{Check, Health};
use crate::runner::NoSandbox;
use crate::sandbox_program::SandboxProgram;

/// Runs a trivial command in the sandbox, with the command line of an attempt. A failure is an error only if the settings ask for a
/// sandbox.
pub async fn check(context: &Context) -> Option<Check> {
    let name = "sandbox";
    // Invalid settings are reported by their own check.
    let settings = Settings::resolve(&Flags::default(), None, &context.config).ok()?;
    let wanted = settings.sandbox.value;
    // A worker that is set up wrongly is refused by `start`.
    if has_worker(&settings).unwrap_or(false) && wanted != SandboxMode::Off {
        let health = if wanted.is_required() { Health::Red } else { Health::Note };
        return Some(Check::new(name, health, NOT_ON_WORKERS).fixed_by("git config ralph.sandbox off"));
    }
    let works = works(wanted.program());
    Some(match (try_sandbox(context, &settings, None).await, wanted) {
        (Ok(()), SandboxMode::Off) => Check::new(name, Health::Green, format!("{works}; git ralph start --sandbox uses it")),
        (Ok(()), _) => Check::new(name, Health::Green, works),
        (Err(NoSandbox { why, remedy }), SandboxMode::Bwrap | SandboxMode::SandboxExec) => {
            Check::new(name, Health::Red, why).fixed_by(remedy)
        }
        (Err(NoSandbox { why, remedy }), _) => Check::new(name, Health::Note, format!("none: {why}")).fixed_by(remedy),
    })
}

/// What we know about a sandbox that works here.
fn works(program: SandboxProgram) -> String {
    let untested = match program {
        SandboxProgram::Bubblewrap => "",
        SandboxProgram::SandboxExec => ", but git-ralph's profile for it has not been tested on macOS",
    };
    format!("{} works{untested}", program.title())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_of_macos_is_reported_as_untested() {
        assert_eq!(works(SandboxProgram::Bubblewrap), "bubblewrap works");
        assert_eq!(works(SandboxProgram::SandboxExec), "sandbox-exec works, but git-ralph's profile for it has not been tested on macOS");
    }
}
