//! Everything about processes and open files that differs between operating systems: one file per system, chosen here.
//!
//! `--cfg ralph_portable` chooses the code for any Unix, so that it can be tested on Linux.

#[cfg(all(target_os = "linux", not(ralph_portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(ralph_portable)))]
use linux as system;

#[cfg(all(target_os = "macos", not(ralph_portable)))]
mod macos;
#[cfg(all(target_os = "macos", not(ralph_portable)))]
use macos as system;

#[cfg(any(ralph_portable, not(any(target_os = "linux", target_os = "macos"))))]
mod portable;
#[cfg(any(ralph_portable, not(any(target_os = "linux", target_os = "macos"))))]
use portable as system;

#[cfg(any(test, all(target_os = "macos", not(ralph_portable))))]
mod process_arguments;
#[cfg(any(ralph_portable, not(target_os = "linux")))]
mod set_umask;

use std::ffi::c_short;

pub(super) use system::{
    LISTS_PROCESSES, cwd_of, executable_of, has_entry, has_locked, has_open, holds, is_in_namespace, launch_path, name_of, own_children,
    processes, session_of, set_adopter,
};
pub use system::{MISSING, path_of, umask};

/// The `posix_spawn` flag for a child in its own session. The libc crate lacks Apple's value.
#[cfg(target_os = "macos")]
pub(super) const SPAWN_SETSID: c_short = 0x0400;
/// The `posix_spawn` flag for a child in its own session.
#[cfg(target_os = "linux")]
pub(super) const SPAWN_SETSID: c_short = libc::POSIX_SPAWN_SETSID;
/// The `posix_spawn` flag for a child in its own process group, on systems that cannot start one in its own session.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(super) const SPAWN_SETSID: c_short = libc::POSIX_SPAWN_SETPGROUP as c_short;

/// The state of a process.
pub(super) struct Stat {
    /// The id of the parent; 0 if the system does not report it.
    pub parent: u32,
    /// The start time, in a unit that depends on the system; 0 if the system does not report it.
    pub born: u64,
    /// Whether it has ended and has not been reaped.
    pub has_ended: bool,
}

impl Stat {
    /// The process with this id, if it exists.
    pub fn of(pid: u32) -> Option<Self> {
        system::stat(pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_alive_and_the_child_of_our_parent() {
        let stat = Stat::of(std::process::id()).unwrap();
        assert!(!stat.has_ended);
        assert!(!LISTS_PROCESSES || stat.parent == std::os::unix::process::parent_id());
    }

    #[test]
    fn the_umask_is_read_and_not_changed() {
        let (first, second) = (umask().unwrap(), umask().unwrap());
        assert!(first == second && first <= 0o777, "{first:o} {second:o}");
    }
}
