//! Starting a child: its own session and group, a clean environment, nothing inherited by accident.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{env, io};

use super::child::{Child, PipeEnds};
use super::launch::Launch;
use super::platform::launch_path;

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
                    // A script that does not say what it is for is one for the shell, as everywhere.
                    Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
                        let words = [c"sh".to_owned(), program].into_iter().chain(args.iter().skip(1).cloned());
                        return launch(c"/bin/sh", &words.collect::<Vec<_>>());
                    }
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {}
                    // There may be a better one further on, but if not, this is what is wrong.
                    Err(error) if error.raw_os_error() == Some(libc::EACCES) => outcome = Err(error),
                    started => return started,
                }
            }
            outcome
        })
    }

    /// Where the program may be: a mere name is looked for on the path that the child gets to see.
    fn candidates(&self) -> Vec<OsString> {
        if self.program.as_bytes().contains(&b'/') {
            return vec![self.program.clone()];
        }
        let files = env::split_paths(search_path(&self.env)).map(|dir| Path::new(".").join(dir).join(&self.program));
        files.filter(|file| self.cwd.join(file).is_file()).map(PathBuf::into_os_string).collect()
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
    which::which_in(name, Some(search_path(env)), cwd).ok()
}

/// What an environment says about where programs are; what the system looks through if it says nothing.
fn search_path(env: &[(OsString, OsString)]) -> &OsStr {
    env.iter().rev().find(|(name, _)| name == "PATH").map_or(OsStr::new("/bin:/usr/bin"), |(_, path)| path)
}

fn c_string(text: &[u8]) -> io::Result<CString> {
    Ok(CString::new(text)?)
}
