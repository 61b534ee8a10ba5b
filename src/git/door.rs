//! Starts all git processes, with the same environment, configuration, time limits and error handling for every call.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::stale;
use crate::process::{Exit, Program, capture, on_path, stream};

/// Settings for every call, in case the user's configuration would make git miss changes, stop, or run other programs.
const OVERRIDES: [&str; 29] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "core.ignoreStat=false",
    "core.trustctime=true",
    "core.checkStat=default",
    "core.safecrlf=false",
    "core.logAllRefUpdates=true",
    "core.quotePath=false",
    "core.pager=cat",
    "core.editor=true",
    "core.fsync=committed,loose-object",
    "core.fsyncMethod=batch",
    "core.filesRefLockTimeout=5000",
    "core.packedRefsTimeout=5000",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "merge.verifySignatures=false",
    "merge.ff=true",
    "merge.directoryRenames=false",
    "submodule.recurse=false",
    "color.ui=false",
    "advice.addEmbeddedRepo=false",
    "status.showUntrackedFiles=all",
    "diff.ignoreSubmodules=none",
    "hook.reference-transaction.enabled=false",
    "hook.post-index-change.enabled=false",
    "i18n.commitEncoding=UTF-8",
];

/// How long to wait for a lock that a living process holds.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(200);

/// Time limits of a git call.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For queries.
    pub query: Option<Duration>,
    /// For commands that scan or write the work tree.
    pub work: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { query: Some(Duration::from_secs(30)), work: None }
    }
}

/// Calls git with a fixed directory, environment and configuration.
#[derive(Clone, Debug)]
pub struct Git {
    program: Program,
    limits: Limits,
    /// The directory to which stale locks of dead processes are moved.
    stale_dir: Option<PathBuf>,
}

/// The path of git, looked up once instead of by the system on every call.
fn git_on_path(env: &[(OsString, OsString)], cwd: &Path) -> OsString {
    let found = on_path("git".as_ref(), env, cwd).filter(|git| git.is_absolute());
    // If git is not found, the first call reports it.
    found.map_or_else(|| "git".into(), PathBuf::into_os_string)
}

impl Git {
    /// git as found on PATH, without our overrides. Used to find the repository.
    #[must_use]
    pub fn plain(cwd: PathBuf, env: Vec<(OsString, OsString)>) -> Self {
        Git {
            program: Program { program: git_on_path(&env, &cwd), args: Vec::new(), env, cwd },
            limits: Limits::default(),
            stale_dir: None,
        }
    }

    /// Whether the environment sets the author or committer of commits.
    #[must_use]
    pub fn sets_identity(&self) -> bool {
        let names = |name: &OsString| [&b"GIT_COMMITTER_"[..], b"GIT_AUTHOR_"].iter().any(|it| name.as_encoded_bytes().starts_with(it));
        self.program.env.iter().any(|(name, _)| names(name))
    }

    /// git for one repository, with explicit directories and our overrides.
    #[must_use]
    pub fn pinned(git_dir: &Path, work_tree: &Path, mut env: Vec<(OsString, OsString)>) -> Self {
        env.push(("GIT_DIR".into(), git_dir.into()));
        env.push(("GIT_WORK_TREE".into(), work_tree.into()));
        let mut args: Vec<OsString> = OVERRIDES.iter().flat_map(|setting| ["-c".into(), setting.into()]).collect();
        // Detected as `git init` does it. With a wrong value, `git add -A` would lose a file whose name changes its case.
        let ignores_case = git_dir.join("CoNfIg").exists() || git_dir.join("cOmMoNdIr").exists();
        args.extend(["-c".into(), format!("core.ignoreCase={ignores_case}").into()]);
        let program = Program { program: git_on_path(&env, work_tree), args, env, cwd: work_tree.to_owned() };
        Git { program, limits: Limits::default(), stale_dir: None }
    }

    /// The same for another work tree, and for its git directory if known.
    #[must_use]
    pub fn elsewhere(&self, top: &Path, git_dir: Option<&Path>) -> Self {
        let mut git = self.clone();
        git.program.env.retain(|(name, _)| name != "GIT_DIR" && name != "GIT_WORK_TREE" && name != "GIT_INDEX_FILE");
        if let Some(git_dir) = git_dir {
            git.program.env.push(("GIT_DIR".into(), git_dir.into()));
            git.program.env.push(("GIT_WORK_TREE".into(), top.into()));
        }
        top.clone_into(&mut git.program.cwd);
        git
    }

    /// The same, started in another directory.
    #[must_use]
    pub fn at(mut self, dir: &Path) -> Self {
        dir.clone_into(&mut self.program.cwd);
        self
    }

    /// The same, with this file as the repository's index.
    #[must_use]
    pub fn with_index(self, path: PathBuf) -> Self {
        self.with_env([("GIT_INDEX_FILE", path.into())])
    }

    /// The same with other time limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The same; stale locks that block it are moved into this directory.
    #[must_use]
    pub fn with_stale_dir(mut self, dir: PathBuf) -> Self {
        self.stale_dir = Some(dir);
        self
    }

    /// The same with more settings, each `key=value`.
    #[must_use]
    pub fn with_config(mut self, settings: impl IntoIterator<Item = String>) -> Self {
        self.program.args.extend(settings.into_iter().flat_map(|setting| ["-c".into(), setting.into()]));
        self
    }

    /// The same with more environment variables.
    #[must_use]
    pub fn with_env(mut self, env: impl IntoIterator<Item = (&'static str, OsString)>) -> Self {
        self.program.env.extend(env.into_iter().map(|(name, value)| (name.into(), value)));
        self
    }

    /// The same work tree with another git directory, which uses the objects of the first.
    #[must_use]
    pub fn through(&self, git_dir: &Path, objects: &Path) -> Self {
        let mut git = self.clone();
        git.program.env.retain(|(name, _)| name != "GIT_DIR" && name != "GIT_OBJECT_DIRECTORY");
        git.program.env.push(("GIT_DIR".into(), git_dir.into()));
        git.program.env.push(("GIT_OBJECT_DIRECTORY".into(), objects.into()));
        git
    }

    /// The value of an environment variable for git's calls.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.program.env.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    /// Prepares a call with these arguments.
    pub fn call<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Call {
        let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let mut program = self.program.clone();
        program.args.extend(args.iter().cloned());
        Call { program, words: args, input: None, limit: self.limits.query, work: self.limits.work, stale_dir: self.stale_dir.clone() }
    }
}

/// A prepared call.
#[derive(Debug)]
pub struct Call {
    program: Program,
    words: Vec<OsString>,
    input: Option<Vec<u8>>,
    limit: Option<Duration>,
    work: Option<Duration>,
    stale_dir: Option<PathBuf>,
}

impl Call {
    /// Passes these bytes on standard input.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// Leaves flushing to disk to the commit that follows. Until then, no ref refers to the written objects.
    #[must_use]
    pub fn flushed_by_commit(mut self) -> Self {
        let at = self.program.args.len() - self.words.len();
        self.program.args.splice(at..at, ["-c".into(), "core.fsyncMethod=writeout-only".into()]);
        self
    }

    /// Uses another index than the repository's.
    #[must_use]
    pub fn index(self, path: &Path) -> Self {
        self.env("GIT_INDEX_FILE", path)
    }

    /// Sets one more environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.program.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Applies the time limit for commands that scan or write the work tree.
    #[must_use]
    pub fn working(mut self) -> Self {
        self.limit = self.work;
        self
    }

    /// Runs the call. Any exit status is accepted.
    ///
    /// # Errors
    /// If git cannot be started, is killed, or exceeds its time limit.
    pub async fn answer(self) -> Result<Answer> {
        let mut patience = PATIENCE;
        loop {
            // `git_on_path` returns the bare name only if git is not on PATH.
            let is_missing = self.program.program == "git";
            let cannot = || if is_missing { "git was not found on PATH" } else { "cannot run git" };
            let captured = capture(&self.program, self.input.as_deref(), self.limit).await.with_context(cannot)?;
            let code = match captured.exit {
                Exit::Success => 0,
                Exit::Code { code } => code,
                exit => return Err(self.error(exit, &captured.stderr).into()),
            };
            let answer = Answer { code, stdout: captured.stdout, stderr: captured.stderr, words: self.words.clone() };
            let lock = if code == 0 { None } else { stale::named_in(&answer.errors()) };
            let (Some(lock), Some(dir)) = (lock, &self.stale_dir) else { return Ok(answer) };
            if stale::is_stale(&lock) || dir.parent().is_some_and(|own| stale::is_left_in(own, &lock)) {
                stale::move_aside(&lock, dir).with_context(|| format!("cannot move {} aside", lock.display()))?;
            } else if patience.is_zero() {
                return Ok(answer);
            } else {
                tokio::time::sleep(POLL).await;
                patience = patience.saturating_sub(POLL);
            }
        }
    }

    /// Runs the call and requires exit status 0.
    ///
    /// # Errors
    /// As [`Call::answer`], or if the exit status is not 0.
    pub async fn output(self) -> Result<Vec<u8>> {
        self.answer().await?.success()
    }

    /// Runs the call, requires exit status 0, and passes the output on in pieces, so that it can have any size.
    ///
    /// # Errors
    /// As [`Call::output`].
    pub async fn stream(self, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        let ended = stream(&self.program, self.input.as_deref(), self.limit, sink).await.context("cannot run git")?;
        if ended.exit == Exit::Success { Ok(()) } else { Err(self.error(ended.exit, &ended.stderr).into()) }
    }

    /// Runs the call, requires exit status 0, and returns the output as text without its last newline.
    ///
    /// # Errors
    /// As [`Call::output`].
    pub async fn line(self) -> Result<String> {
        let output = self.output().await?;
        Ok(String::from_utf8_lossy(&output).trim_end_matches('\n').to_owned())
    }

    fn error(&self, exit: Exit, stderr: &[u8]) -> GitError {
        GitError { words: words(&self.words), exit, stderr: String::from_utf8_lossy(stderr).trim().to_owned() }
    }
}

/// An exit status that no process can have.
const TOO_LATE: i32 = -1;

/// The result of a git call.
#[derive(Debug)]
pub struct Answer {
    /// Its exit status.
    pub code: i32,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    words: Vec<OsString>,
}

impl Answer {
    /// Its standard output, if the exit status was 0.
    pub fn success(self) -> Result<Vec<u8>> {
        if self.code == 0 { Ok(self.stdout) } else { Err(self.failure().into()) }
    }

    /// The error for an unexpected exit status.
    #[must_use]
    pub fn failure(&self) -> GitError {
        let exit = Exit::Code { code: self.code };
        GitError { words: words(&self.words), exit, stderr: self.errors() }
    }

    /// Stands for the result of a git process that was killed because it did not end.
    #[must_use]
    pub fn too_late(why: &str) -> Self {
        Answer { code: TOO_LATE, stdout: Vec::new(), stderr: why.as_bytes().to_vec(), words: Vec::new() }
    }

    /// Whether git was killed before it answered.
    #[must_use]
    pub fn is_too_late(&self) -> bool {
        self.code == TOO_LATE
    }

    /// Its standard error as text.
    #[must_use]
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).trim().to_owned()
    }
}

/// A failed git call, with its command line and error output.
#[derive(Debug)]
pub struct GitError {
    words: String,
    /// How the process ended.
    pub exit: Exit,
    /// The error output.
    pub stderr: String,
}

impl GitError {
    /// The error, if it is that of a git process which exceeded its time limit.
    #[must_use]
    pub fn of_time_limit(error: &anyhow::Error) -> Option<&GitError> {
        error.downcast_ref::<GitError>().filter(|error| matches!(error.exit, Exit::TimedOut { .. }))
    }

    /// Whether git itself reported the failure, as opposed to a git process that died, hung or could not be started.
    #[must_use]
    pub fn is_answer(error: &anyhow::Error) -> bool {
        error.downcast_ref::<GitError>().is_some_and(|error| matches!(error.exit, Exit::Code { .. }))
    }
}

impl fmt::Display for GitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' ", self.words)?;
        match &self.exit {
            Exit::TimedOut { seconds } => {
                write!(f, "did not end within {seconds} s and was killed (ralph.gitTimeout sets the limit)")?;
            }
            Exit::Code { code } => write!(f, "failed with exit status {code}")?,
            Exit::Signal { signal } => write!(f, "was killed by signal {signal}")?,
            other => write!(f, "ended as {other:?}")?,
        }
        if self.stderr.is_empty() { Ok(()) } else { write!(f, ": {}", self.stderr) }
    }
}

impl std::error::Error for GitError {}

fn words(args: &[OsString]) -> String {
    let mut line = "git".to_owned();
    for arg in args {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}
