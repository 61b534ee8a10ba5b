//! A child's process group, ended with whoever holds it.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// The group that a child leads, as its session is its own.
pub(super) struct Group(Option<Pid>);

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())))
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
