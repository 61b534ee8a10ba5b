//! The shim: a few words of shell between a runner and a program, which report that the program starts and how it ends.
//!
//! A runner's own exit status does not tell what became of the program: `srun` exits 143 after `scancel` and 0 after a node failure.

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;

use crate::process::Program;

/// Runs its arguments and reports on standard error; `$0` is the mark. It stays in the foreground, so that standard input, the process
/// group and signal dispositions are those that the program would have without it. A cancelled job ends by a signal to each of its
/// processes, one after the other: if the program ended by a signal, the script waits for its own before it reports an end.
const SCRIPT: &str = r#"printf '%s-start\n' "$0" >&2; "$@"; s=$?
[ "$s" -le 128 ] || sleep 1
printf '%s-end-%d\n' "$0" "$s" >&2; exit "$s""#;

/// What reports from the other side of one runner.
#[derive(Clone, Debug)]
pub struct Shim {
    mark: String,
    runner: String,
}

impl Shim {
    /// A shim with a mark of its own, behind a runner with this program.
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

    /// What begins every report. The reports follow it without a space, so a runner that prints its command line prints none.
    #[must_use]
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// What a person calls the runner.
    #[must_use]
    pub fn runner(&self) -> &str {
        &self.runner
    }
}
