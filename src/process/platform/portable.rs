//! Any other Unix: uses only process groups, sessions and locks. It cannot list processes, so their open files are
//! unknown, and orphans that have left their group are not found.

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
    "tell whether a lock file in your git directory was left by a git that died, so it stays until you remove it",
    "end processes that a killed git-ralph left running, except the process groups of its agents and gates",
];

/// Whether the system can list all processes and their open files.
pub const LISTS_PROCESSES: bool = false;

/// The process with this id, if it exists.
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

/// Whether this is a child of git-ralph that has ended; does not reap it.
fn is_ended_child(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_)))
}

/// The ids of all processes: unknown here.
pub fn processes() -> impl Iterator<Item = u32> {
    iter::empty()
}

/// Whether a process has a file open: unknown here.
pub fn has_open(_pid: u32, _wanted: &Metadata) -> bool {
    false
}

/// Whether a process holds a lock on a file: unknown here.
pub fn has_locked(_pid: u32, _wanted: &Metadata) -> bool {
    false
}

/// Whether the process that a lock file names holds it. The system can only tell that some process does.
pub fn holds(_pid: u32, path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    matches!(flock(&file, FlockOperation::NonBlockingLockShared), Err(Errno::WOULDBLOCK))
}

/// Whether the initial environment of a process has an entry that begins with `start`: unknown here.
pub fn has_entry(_pid: u32, _start: &str) -> bool {
    false
}

/// Whether a process is in a nested PID namespace: unknown here.
pub fn is_in_namespace(_pid: u32) -> bool {
    false
}

/// The name of the program that a process runs: unknown here.
pub fn name_of(_pid: u32) -> String {
    "process".to_owned()
}

/// The working directory of a process: not known.
pub fn cwd_of(_pid: u32) -> Option<PathBuf> {
    None
}

/// The executable that a process runs: unknown here.
pub fn executable_of(_pid: u32) -> Option<PathBuf> {
    None
}

/// The path to pass to the system for a child with another working directory. It is resolved relative to that directory.
pub fn launch_path(program: OsString, _cwd: &Path) -> OsString {
    program
}

/// Makes a process adopt its orphaned descendants: not possible here.
pub fn set_adopter(_adopter: Option<Pid>) -> bool {
    false
}

/// The children that git-ralph did not start: unknown here.
pub fn own_children() -> Option<Vec<u32>> {
    Some(Vec::new())
}

/// The current path of an open file or directory: unknown here.
pub fn path_of(_file: &File) -> Option<PathBuf> {
    None
}
