//! A short-lived child whose output is wanted whole, with a time limit that really ends it.

use std::io;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::child::Child;
use super::group::Group;
use super::spawn::Input;
use super::{Exit, Program};

const PIECE: usize = 64 * 1024;

/// What a finished child left.
#[derive(Debug)]
pub struct Captured {
    /// How it ended.
    pub exit: Exit,
    /// Everything it wrote to standard output.
    pub stdout: Vec<u8>,
    /// Everything it wrote to standard error.
    pub stderr: Vec<u8>,
}

/// Runs a program with the given input to its end, or until the limit.
///
/// # Errors
/// If it cannot be started or its pipes break.
pub async fn capture(program: &Program, input: Option<&[u8]>, limit: Option<Duration>) -> io::Result<Captured> {
    let mut stdout = Vec::new();
    let captured = stream(program, input, limit, &mut |piece| stdout.extend_from_slice(piece)).await?;
    Ok(Captured { stdout, ..captured })
}

/// The same, with what it writes to standard output handed on piece by piece; what is given back holds none of it.
///
/// # Errors
/// If it cannot be started or its pipes break.
pub async fn stream(program: &Program, input: Option<&[u8]>, limit: Option<Duration>, sink: &mut dyn FnMut(&[u8])) -> io::Result<Captured> {
    let stdin = if input.is_some() { Input::Piped } else { Input::Nothing };
    let mut child = program.spawn(stdin)?;
    // If nobody waits any more, nothing of it goes on in the background.
    let group = Group::of(&child);
    let Some(limit) = limit else { return collect(&mut child, input, sink).await };
    match tokio::time::timeout(limit, collect(&mut child, input, sink)).await {
        Ok(captured) => captured,
        Err(_) => {
            // A helper of the child (a filter, a hook) may hold the pipes open, so the whole group goes.
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
            // A child that stops reading early says why by its exit status.
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
