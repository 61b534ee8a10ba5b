//! Starts a child process in its own session and process group, with an explicit environment.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, io};

use super::child::{Child, PipeEnds};
use super::launch::Launch;
use super::platform::launch_path;

/// A program with its arguments, environment and working directory. The child inherits nothing else.
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
    /// The command line in readable form.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = self.program.to_string_lossy().into_owned();
        for arg in &self.args {
            words.push(' ');
            words.push_str(&arg.to_string_lossy());
        }
        words
    }

    /// Starts the program with standard output and standard error piped, and with standard input piped if requested.
    pub(super) fn spawn(&self, stdin: Input) -> io::Result<Child> {
        let (stdin, to_child) = match stdin {
            Input::Piped => Some(io::pipe()?).unzip(),
            Input::Nothing => (None, None),
        };
        let ((from_out, stdout), (from_err, stderr)) = (io::pipe()?, io::pipe()?);
        let ends = PipeEnds { stdin: to_child.map(Into::into), stdout: from_out.into(), stderr: from_err.into() };
        let (cwd, env) = (c_string(self.cwd.as_os_str().as_bytes())?, self.c_env()?);
        let words = [&self.program].into_iter().chain(&self.args);
        let args = words.map(|word| c_string(word.as_bytes())).collect::<io::Result<Vec<_>>>()?;
        let launch = |program: &CStr, args: &[CString]| {
            let (stdin, stdout, stderr) = (stdin.as_ref().map(AsFd::as_fd), stdout.as_fd(), stderr.as_fd());
            Launch { program, args, env: &env, cwd: &cwd, stdin, stdout, stderr }.start()
        };
        Child::start(ends, || {
            let mut outcome = Err(io::Error::from_raw_os_error(libc::ENOENT));
            for program in self.candidates() {
                let program = c_string(launch_path(program, &self.cwd).as_bytes())?;
                match launch(&program, &args) {
                    // A script without a `#!` line is run by the shell, as shells and `execvp` do it.
                    Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
                        let words = [c"sh".to_owned(), program].into_iter().chain(args.iter().skip(1).cloned());
                        return launch(c"/bin/sh", &words.collect::<Vec<_>>());
                    }
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {}
                    // A directory further on the path may have an executable file. If not, this is the error to report.
                    Err(error) if error.raw_os_error() == Some(libc::EACCES) => outcome = Err(error),
                    started => return started,
                }
            }
            outcome
        })
    }

    /// The paths where the program may be. A bare name is looked up on the child's own `PATH`.
    fn candidates(&self) -> Vec<OsString> {
        if self.program.as_bytes().contains(&b'/') {
            return vec![self.program.clone()];
        }
        let files = env::split_paths(search_path(&self.env)).map(|dir| Path::new(".").join(dir).join(&self.program));
        files.filter(|file| self.cwd.join(file).is_file()).map(PathBuf::into_os_string).collect()
    }

    fn c_env(&self) -> io::Result<Vec<CString>> {
        // Of several variables with one name the last counts. It must be the only one passed on, because programs use the first.
        let env: BTreeMap<&OsString, &OsString> = self.env.iter().map(|(name, value)| (name, value)).collect();
        env.into_iter().map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat())).collect()
    }
}

/// What a child reads from standard input.
pub(super) enum Input {
    /// A pipe that git-ralph writes to.
    Piped,
    /// Nothing.
    Nothing,
}

/// The path of the program with this name, by the `PATH` of an environment.
#[must_use]
pub fn on_path(name: &OsStr, env: &[(OsString, OsString)], cwd: &Path) -> Option<PathBuf> {
    which::which_in(name, Some(search_path(env)), cwd).ok()
}

/// The `PATH` of an environment, or the system's default search path.
fn search_path(env: &[(OsString, OsString)]) -> &OsStr {
    env.iter().rev().find(|(name, _)| name == "PATH").map_or(OsStr::new("/bin:/usr/bin"), |(_, path)| path)
}

fn c_string(text: &[u8]) -> io::Result<CString> {
    Ok(CString::new(text)?)
}
