//! A child that stays to be asked again and again; it ends with whoever holds it.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::Program;
use super::child::Child;
use super::group::Group;
use super::spawn::Input;

/// An answer of one line is no longer than this.
const LONGEST_LINE: u64 = 4096;

/// A child with a pipe in both directions.
pub struct Dialogue {
    _group: Group,
    _child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// Nobody reads it, but without a reader a mere warning would end the child.
    _stderr: Option<ChildStderr>,
}

impl Dialogue {
    /// Starts the child.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn begin(program: &Program) -> io::Result<Self> {
        let mut child = program.spawn(Input::Piped)?;
        let group = Group::of(&child);
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let stderr = child.stderr.take();
        Ok(Dialogue { _group: group, _child: child, stdin, stdout: BufReader::new(stdout), _stderr: stderr })
    }

    /// Says something. More than a pipe holds must not be said before the answers are read.
    ///
    /// # Errors
    /// If the child does not listen any more.
    pub async fn say(&mut self, words: &[u8]) -> io::Result<()> {
        self.stdin.write_all(words).await
    }

    /// The next line of what it answers, without its end.
    ///
    /// # Errors
    /// If the child is gone.
    pub async fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.stdout).take(LONGEST_LINE).read_until(b'\n', &mut line).await?;
        match line.pop() {
            Some(b'\n') => Ok(line),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// The next bytes of what it answers.
    ///
    /// # Errors
    /// If the child is gone.
    pub async fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&mut self.stdout).take(count as u64).read_to_end(&mut bytes).await?;
        if bytes.len() == count { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl std::fmt::Debug for Dialogue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dialogue")
    }
}
