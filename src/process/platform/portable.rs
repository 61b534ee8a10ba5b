//! What every Unix has: process groups, sessions and locks. Other processes cannot be listed, so nothing is known of what they have
//! open, and orphans that left their group are not found.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::iter;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, getsid, test_kill_process, waitid};

use super::Stat;
pub use super::set_umask::umask;

/// What this system cannot do for a run.
pub const MISSING: &[&str] = &[
    "find a process that has left the process group of its agent or gate",
    "tell whether a git lock file was left by a process that died, so it stays until you remove it",
    "end what a git-ralph that was killed left running, but for the process groups of its agents and gates",
];

/// Whether the processes of the machine can be listed, with what they have open.
pub const LISTS_PROCESSES: bool = false;

/// The process that has this id now; none if there is no such process.
pub fn stat(pid: u32) -> Option<Stat> {
    let pid = Pid::from_raw(pid.cast_signed())?;
    match test_kill_process(pid) {
        Ok(()) | Err(Errno::PERM) => Some(Stat { parent: 0, born: 0, has_ended: is_ended_child(pid) }),
        Err(_) => None,
    }
}

/// The session of a process.
pub fn session_of(pid: u32) -> Option<u32> {
    let session = getsid(Some(Pid::from_raw(pid.cast_signed())?)).ok()?;
    Some(session.as_raw_nonzero().get().cast_unsigned())
}

/// Whether it is a child of ours that has ended; does not reap it.
fn is_ended_child(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_)))
}

/// The ids of all processes: none is known.
pub fn processes() -> impl Iterator<Item = u32> {
    iter::empty()
}

/// Whether a process has a file open: not known.
pub fn has_open(_pid: u32, _wanted: &Metadata) -> bool {
    false
}

/// Whether a process holds a lock on a file: not known.
pub fn has_locked(_pid: u32, _wanted: &Metadata) -> bool {
    false
}

/// Whether a process that is alive and named in a lock file holds it: some process does.
pub fn holds(_pid: u32, path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    matches!(flock(&file, FlockOperation::NonBlockingLockShared), Err(Errno::WOULDBLOCK))
}

/// Whether the environment that a process was started with has an entry that begins like this: not known.
pub fn has_entry(_pid: u32, _start: &str) -> bool {
    false
}

/// Whether a process is in a PID namespace below ours: not known.
pub fn is_in_namespace(_pid: u32) -> bool {
    false
}

/// The name of the program that a process runs: not known.
pub fn name_of(_pid: u32) -> String {
    "process".to_owned()
}

/// The executable that a process runs: not known.
pub fn executable_of(_pid: u32) -> Option<PathBuf> {
    None
}

/// What to start as a child whose working directory is another: its path is looked up there.
pub fn launch_path(program: OsString, _cwd: &Path) -> OsString {
    program
}

/// Lets a process adopt orphans below it: not possible.
pub fn set_adopter(_adopter: Option<Pid>) -> bool {
    false
}

/// Our children that we did not start: none is known.
pub fn own_children() -> Option<Vec<u32>> {
    Some(Vec::new())
}

/// Where an open file or directory is now: not known.
pub fn path_of(_file: &File) -> Option<PathBuf> {
    None
}
