//! The process group of a child, which is ended when its handle is dropped.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tokio::time::{Instant, sleep};

use super::adoption::{reap, with_descendants};
use super::child::Child;
use super::platform;

const POLL: Duration = Duration::from_millis(20);

/// The group that a child leads. Every child leads one, because it has its own session.
pub(super) struct Group {
    leader: Pid,
    /// The signal for the group when the handle is dropped.
    last: Signal,
}

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        Group { leader: child.pid, last: Signal::KILL }
    }

    /// The group of a runner. It gets SIGTERM instead of SIGKILL when the handle is dropped, because a killed runner
    /// cannot end what it started elsewhere.
    pub(super) fn of_runner(child: &Child) -> Self {
        Group { leader: child.pid, last: Signal::TERM }
    }

    /// Asks the group to end. SIGTERM to bubblewrap would kill every process in its sandbox at once. So each of these
    /// gets SIGTERM itself, and bubblewrap ends after them.
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
            // The group exists until its ended members are reaped, and git-ralph has to reap those that it adopted.
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
