//! Runs a short-lived child and collects its whole output, with an enforced time limit.

use std::io;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::child::Child;
use super::group::Group;
use super::spawn::Input;
use super::{Exit, Program};

const PIECE: usize = 64 * 1024;

/// The result of a finished child.
#[derive(Debug)]
pub struct Captured {
    /// How it ended.
    pub exit: Exit,
    /// Everything it wrote to standard output.
    pub stdout: Vec<u8>,
    /// Everything it wrote to standard error.
    pub stderr: Vec<u8>,
}

/// Runs a program with the given input until it ends or the time limit is reached.
///
/// # Errors
/// If the program cannot be started or its pipes break.
pub async fn capture(program: &Program, input: Option<&[u8]>, limit: Option<Duration>) -> io::Result<Captured> {
    let mut stdout = Vec::new();
    let captured = stream(program, input, limit, &mut |piece| stdout.extend_from_slice(piece)).await?;
    Ok(Captured { stdout, ..captured })
}

/// Like [`capture`], but passes standard output to `sink` in pieces. The returned value contains no standard output.
///
/// # Errors
/// If the program cannot be started or its pipes break.
pub async fn stream(program: &Program, input: Option<&[u8]>, limit: Option<Duration>, sink: &mut dyn FnMut(&[u8])) -> io::Result<Captured> {
    let stdin = if input.is_some() { Input::Piped } else { Input::Nothing };
    let mut child = program.spawn(stdin)?;
    // If this future is dropped, the group ends, so that nothing keeps running in the background.
    let group = Group::of(&child);
    let Some(limit) = limit else { return collect(&mut child, input, sink).await };
    match tokio::time::timeout(limit, collect(&mut child, input, sink)).await {
        Ok(captured) => captured,
        Err(_) => {
            // A process that the child started (a filter, a hook) may hold the pipes open, so the whole group is killed.
            group.signal(Signal::KILL);
            child.wait().await?;
            Ok(Captured { exit: Exit::timed_out(limit), stdout: Vec::new(), stderr: Vec::new() })
        }
    }
}

async fn collect(child: &mut Child, input: Option<&[u8]>, sink: &mut dyn FnMut(&[u8])) -> io::Result<Captured> {
    let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut stderr = Vec::new();
    let write = async {
        if let (Some(mut pipe), Some(bytes)) = (stdin, input) {
            // If the child stops reading early, its exit status says why.
            let _ = pipe.write_all(bytes).await;
            let _ = pipe.shutdown().await;
        }
    };
    let read_out = async {
        let Some(mut pipe) = out else { return Ok(()) };
        let mut piece = vec![0; PIECE];
        loop {
            match pipe.read(&mut piece).await? {
                0 => return Ok::<(), io::Error>(()),
                count => sink(&piece[..count]),
            }
        }
    };
    let read_err = async {
        match err {
            Some(mut pipe) => pipe.read_to_end(&mut stderr).await.map(drop),
            None => Ok(()),
        }
    };
    let ((), out, err) = tokio::join!(write, read_out, read_err);
    out.and(err)?;
    let exit = Exit::of(child.wait().await?);
    Ok(Captured { exit, stdout: Vec::new(), stderr })
}
