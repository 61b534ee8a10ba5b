//! Starting a child: its own session and group, a clean environment, nothing inherited by accident.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::child::{Child, Ends};
use super::launch::Launch;

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
    pub(super) fn spawn(&self, stdin: Input) -> io::Result<Child> {
        let (stdin, to_child) = match stdin {
            Input::Piped => Some(io::pipe()?).unzip(),
            Input::Nothing => (None, None),
        };
        let ((from_out, stdout), (from_err, stderr)) = (io::pipe()?, io::pipe()?);
        let ends = Ends { stdin: to_child.map(Into::into), stdout: from_out.into(), stderr: from_err.into() };
        let (program, cwd, env) = (c_string(self.found()?.as_bytes())?, c_string(self.cwd.as_os_str().as_bytes())?, self.c_env()?);
        let words = [&self.program].into_iter().chain(&self.args);
        let args = words.map(|word| c_string(word.as_bytes())).collect::<io::Result<Vec<_>>>()?;
        let launch = |program: &CStr, args: &[CString]| {
            let (stdin, stdout, stderr) = (stdin.as_ref().map(AsFd::as_fd), stdout.as_fd(), stderr.as_fd());
            Launch { program, args, env: &env, cwd: &cwd, stdin, stdout, stderr }.start()
        };
        Child::start(ends, || match launch(&program, &args) {
            // A script that does not say what it is for is one for the shell, as everywhere.
            Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
                let args: Vec<CString> = [c"sh".to_owned(), program.clone()].into_iter().chain(args.iter().skip(1).cloned()).collect();
                launch(c"/bin/sh", &args)
            }
            started => started,
        })
    }

    /// Where the program is: a mere name is looked for on the path that the child gets to see.
    fn found(&self) -> io::Result<OsString> {
        if self.program.as_bytes().contains(&b'/') {
            return Ok(self.program.clone());
        }
        let found = on_path(&self.program, &self.env, &self.cwd);
        found.map(PathBuf::into_os_string).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }

    fn c_env(&self) -> io::Result<Vec<CString>> {
        // The last one of a name counts, and it must be the only one: programs take the first.
        let env: BTreeMap<&OsString, &OsString> = self.env.iter().map(|(name, value)| (name, value)).collect();
        env.into_iter().map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat())).collect()
    }
}

/// What a child reads.
pub(super) enum Input {
    /// What we write.
    Piped,
    /// Nothing.
    Nothing,
}

/// Where a program of that name is, by the `PATH` of an environment.
#[must_use]
pub fn on_path(name: &OsStr, env: &[(OsString, OsString)], cwd: &Path) -> Option<PathBuf> {
    let path = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, path)| path);
    which::which_in(name, path, cwd).ok()
}

fn c_string(text: &[u8]) -> io::Result<CString> {
    Ok(CString::new(text)?)
}
