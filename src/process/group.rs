//! A child's process group, ended with whoever holds it.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tokio::time::{Instant, sleep};

use super::adoption::{reap, with_descendants};
use super::child::Child;
use super::platform;

const POLL: Duration = Duration::from_millis(20);

/// The group that a child leads, as its session is its own.
pub(super) struct Group {
    leader: Pid,
    /// What it gets when the future that waits for the child is dropped.
    last: Signal,
}

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        Group { leader: child.pid, last: Signal::KILL }
    }

    /// The group of a runner. It is not killed when it is dropped: a runner that is killed cannot end what it started elsewhere.
    pub(super) fn of_runner(child: &Child) -> Self {
        Group { leader: child.pid, last: Signal::TERM }
    }

    /// Asks it to end. A bubblewrap that gets TERM dies, and all processes of its sandbox are killed with it: so they are asked, each by
    /// itself, and bubblewrap ends when they have ended.
    pub(super) fn ask_to_end(&self) {
        let leader = self.leader.as_raw_nonzero().get().cast_unsigned();
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

    /// Waits until every process of the group has ended, for at most `limit`.
    pub(super) async fn gone_within(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            // An orphan of the group that has ended is ours to reap, and the group exists until then.
            reap();
            if test_kill_process_group(self.leader).is_err() || Instant::now() >= deadline {
                return;
            }
            sleep(POLL).await;
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.leader, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(self.last);
    }
}
