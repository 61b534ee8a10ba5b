//! A child's process group, ended with whoever holds it.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::adoption::with_descendants;
use super::child::Child;
use super::platform;

/// The group that a child leads, as its session is its own.
pub(super) struct Group(Pid);

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        Group(child.pid)
    }

    /// Asks it to end. A bubblewrap that gets TERM dies, and all processes of its sandbox are killed with it: so they are asked, each by
    /// itself, and bubblewrap ends when they have ended.
    pub(super) fn ask_to_end(&self) {
        let leader = self.0.as_raw_nonzero().get().cast_unsigned();
        let inside: Vec<u32> = match platform::name_of(leader).as_str() {
            "bwrap" => with_descendants(&[leader]).into_iter().filter(|pid| *pid != leader).collect(),
            _ => Vec::new(),
        };
        if inside.is_empty() {
            self.signal(Signal::TERM);
        }
        for pid in inside.into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
            let _ = kill_process(pid, Signal::TERM);
        }
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
