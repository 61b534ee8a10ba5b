//! The worker's connection to the machine of the run: its standard input and output, which close when the connection breaks.

use std::io::{self, Read, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::time::sleep;

/// How often the worker checks the connection.
const POLL: Duration = Duration::from_millis(100);

/// Waits until the other end of standard output is closed.
pub async fn closed() {
    while !is_closed() {
        sleep(POLL).await;
    }
}

/// Whether no process reads standard output any more. End of file on standard input means nothing, because it only ends the prompt.
pub fn is_closed() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// The content of standard input.
#[derive(Debug, Default)]
pub struct Input {
    /// The learnings of earlier attempts.
    pub learnings: Vec<u8>,
    /// The prompt.
    pub prompt: Vec<u8>,
}

/// Reads standard input: `learnings` bytes of learnings, then `prompt` bytes of the prompt, or everything up to the end.
///
/// # Errors
/// If standard input ends early.
pub async fn input(learnings: u64, prompt: Option<u64>) -> Result<Input> {
    let read = tokio::task::spawn_blocking(move || {
        let mut stdin = io::stdin().lock();
        let learnings = exactly(&mut stdin, learnings)?;
        let prompt = match prompt {
            Some(length) => exactly(&mut stdin, length)?,
            None => {
                let mut all = Vec::new();
                stdin.read_to_end(&mut all)?;
                all
            }
        };
        Ok::<_, io::Error>(Input { learnings, prompt })
    });
    read.await.context("cannot read standard input")?.context("the connection ended before the whole prompt had arrived")
}

fn exactly(from: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = from.take(length).read_to_end(&mut bytes)?;
    if u64::try_from(read).is_ok_and(|read| read == length) { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Writes a piece of the agent's output to `to`. Returns whether that succeeded.
pub fn pass_on(mut to: impl Write, bytes: &[u8]) -> bool {
    to.write_all(bytes).and_then(|()| to.flush()).is_ok()
}
