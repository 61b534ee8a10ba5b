//! A child process that git-ralph started: its pipes and its exit status.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Once;

use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::adoption;
use super::launch::unblock_child_signal;

static HEARING: Once = Once::new();

/// git-ralph's ends of the pipes to a child.
pub(super) struct PipeEnds {
    pub stdin: Option<OwnedFd>,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// A child that was started.
pub(super) struct Child {
    pub pid: Pid,
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
    status: Option<ExitStatus>,
    /// Receives SIGCHLD, which means that some child has ended.
    ended: Signal,
}

impl Child {
    /// Starts a child by calling `start`. SIGCHLD is handled before that, so that the end of the child cannot be missed.
    pub fn start(ends: PipeEnds, start: impl FnOnce() -> io::Result<Pid>) -> io::Result<Self> {
        HEARING.call_once(unblock_child_signal);
        let ended = signal(SignalKind::child())?;
        let stdin = ends.stdin.map(|pipe| ChildStdin::from_std(pipe.into())).transpose()?;
        let stdout = Some(ChildStdout::from_std(ends.stdout.into())?);
        let stderr = Some(ChildStderr::from_std(ends.stderr.into())?);
        let pid = start()?;
        adoption::remember(pid);
        Ok(Child { pid, stdin, stdout, stderr, status: None, ended })
    }

    /// The exit status, if the child has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none()
            && let Some((_, status)) = waitpid(Some(self.pid), WaitOptions::NOHANG)?
        {
            self.status = Some(ExitStatus::from_raw(status.as_raw()));
            adoption::forget(self.pid);
        }
        Ok(self.status)
    }

    /// Waits for the exit status.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            match self.try_wait()? {
                Some(status) => return Ok(status),
                None => self.ended.recv().await,
            };
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Ok(None) = self.try_wait() {
            adoption::abandon(self.pid);
        }
    }
}
