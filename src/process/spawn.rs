//! Starting a child: its own session and group, a clean environment, nothing inherited by accident.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::{Child, Command};

use super::kin;

/// A program with all that it is started with; the environment is complete, nothing is inherited.
#[derive(Clone, Debug)]
pub struct Program {
    /// Path or name of the executable.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub cwd: PathBuf,
}

impl Program {
    /// The command line as a person would read it.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = self.program.to_string_lossy().into_owned();
        for arg in &self.args {
            words.push(' ');
            words.push_str(&arg.to_string_lossy());
        }
        words
    }

    /// Starts it with both outputs piped and, if wanted, its input.
    ///
    /// # Errors
    /// If the system cannot start it.
    pub(super) fn spawn(&self, stdin: Stdio) -> std::io::Result<Child> {
        #[expect(clippy::disallowed_methods, reason = "the one door to commands")]
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .current_dir(&self.cwd)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        own_session(&mut command);
        let child = command.spawn()?;
        child.id().into_iter().for_each(kin::remember);
        Ok(child)
    }
}

/// A session of its own keeps Ctrl-C and `/dev/tty` away from the child and makes one group to signal.
#[expect(unsafe_code, reason = "`pre_exec` is unsafe; what runs in it only makes async-signal-safe calls")]
fn own_session(command: &mut Command) {
    // SAFETY: `setsid` and `signal` are async-signal-safe and touch no memory of the parent.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            // Under `nohup … &` these arrive ignored, and a child that ignores them cannot be ended politely.
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
}
