//! The shim: a short shell script between a runner and a program that reports when the program starts and how it ends.
//!
//! The exit status of the runner itself does not show this: `srun` exits with 143 after `scancel` and with 0 after a node failure.

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;

use crate::process::Program;

/// Runs its arguments and reports on standard error. `$0` is the mark. The program runs in the foreground, so its standard input, process
/// group and signal dispositions are the same as without the script. When a job is cancelled, its processes get the signal one after the
/// other. So if the program was killed by a signal, the script waits for its own signal before it would report an end.
const SCRIPT: &str = r#"printf '%s-start\n' "$0" >&2; "$@"; s=$?
[ "$s" -le 128 ] || sleep 1
printf '%s-end-%d\n' "$0" "$s" >&2; exit "$s""#;

/// The shim for one program behind a runner.
#[derive(Clone, Debug)]
pub struct Shim {
    mark: String,
    runner: String,
}

impl Shim {
    /// A shim with a random mark. `runner` is the program of the runner.
    #[must_use]
    pub fn new(runner: &str) -> Self {
        let random = RandomState::new().build_hasher().finish();
        let name = Path::new(runner).file_name().map_or(runner.into(), |name| name.to_string_lossy());
        Shim { mark: format!("ralph-{random:016x}"), runner: name.into_owned() }
    }

    /// The program, started by the shim.
    #[must_use]
    pub fn wrap(&self, program: Program) -> Program {
        let own: [OsString; 4] = ["-c".into(), SCRIPT.into(), OsString::from(&self.mark), program.program];
        Program { program: "sh".into(), args: own.into_iter().chain(program.args).collect(), ..program }
    }

    /// The text that begins every report. The rest of a report follows without a space. So a runner that prints its command line, where a
    /// space follows the mark, does not print a report.
    #[must_use]
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// The name of the runner for messages.
    #[must_use]
    pub fn runner(&self) -> &str {
        &self.runner
    }
}
