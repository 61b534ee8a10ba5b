//! A child of ours: its pipes, and how it ends.

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

/// Our ends of the pipes to a child that is about to start.
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
    /// Tells that some child has ended.
    ended: Signal,
}

impl Child {
    /// Starts one by calling `start`. From before that on it is listened for its end.
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

    /// How it has ended, if it has.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none()
            && let Some((_, status)) = waitpid(Some(self.pid), WaitOptions::NOHANG)?
        {
            self.status = Some(ExitStatus::from_raw(status.as_raw()));
            adoption::forget(self.pid);
        }
        Ok(self.status)
    }

    /// How it ends.
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
