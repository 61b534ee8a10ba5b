//! A child's process group, ended with whoever holds it.

use rustix::process::{Pid, Signal, kill_process_group};

use super::child::Child;

/// The group that a child leads, as its session is its own.
pub(super) struct Group(Pid);

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        Group(child.pid)
    }

    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.0, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
