//! The connection that a worker works for: its standard input and output, which end when it breaks.

use std::io::{self, Read, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::time::sleep;

/// How often to look whether the other end is still there.
const POLL: Duration = Duration::from_millis(100);

/// Waits until the other end of standard output is gone.
pub async fn closed() {
    while !is_closed() {
        sleep(POLL).await;
    }
}

/// Whether nothing reads standard output any more. The end of standard input says nothing: it is the end of the prompt.
pub fn is_closed() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// What stands on standard input.
#[derive(Debug, Default)]
pub struct Input {
    /// What earlier attempts learned.
    pub learnings: Vec<u8>,
    /// The prompt.
    pub prompt: Vec<u8>,
}

/// Reads standard input: so many bytes of learnings, then so many of the prompt, or all that there is.
///
/// # Errors
/// If it ends before that.
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

/// Passes a piece of the agent's output on; says whether it arrived.
pub fn pass_on(mut to: impl Write, bytes: &[u8]) -> bool {
    to.write_all(bytes).and_then(|()| to.flush()).is_ok()
}
