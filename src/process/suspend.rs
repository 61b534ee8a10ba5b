//! Handles Ctrl-Z: stops all descendants before git-ralph itself, and continues them with it.
//!
//! Agents have their own sessions, which the terminal's SIGTSTP does not reach.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::signal::unix::SignalKind;

use super::adoption::{started, with_descendants};
use super::interrupt::{Listener, stop_as_usual};
use super::platform::LISTS_PROCESSES;

/// How often to look for processes that were forked meanwhile.
const ROUNDS: u32 = 5;

/// Milliseconds that this process has spent suspended by Ctrl-Z.
static SUSPENDED: AtomicU64 = AtomicU64::new(0);

/// How long this process has been suspended by Ctrl-Z so far.
pub(super) fn suspended() -> Duration {
    Duration::from_millis(SUSPENDED.load(Ordering::Relaxed))
}

/// Listens for Ctrl-Z.
pub struct Suspension(Listener);

impl Suspension {
    /// Starts listening. If Ctrl-Z is ignored, it stays ignored.
    pub fn listen() -> io::Result<Self> {
        Listener::new(SignalKind::from_raw(libc::SIGTSTP)).map(Suspension)
    }

    /// Waits for Ctrl-Z.
    pub async fn requested(&mut self) {
        self.0.recv().await;
    }

    /// Stops all descendants, then this process. Returns after the shell has continued this process and the descendants run again.
    pub fn suspend(&self) {
        let began = Instant::now();
        let mut stopped: Vec<u32> = Vec::new();
        for _ in 0..ROUNDS {
            let found: Vec<u32> = below().into_iter().filter(|pid| !stopped.contains(pid)).collect();
            if found.is_empty() {
                break;
            }
            signal(&found, Signal::STOP);
            stopped.extend(found);
        }
        stop_as_usual(SignalKind::from_raw(libc::SIGTSTP));
        SUSPENDED.fetch_add(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        signal(&stopped, Signal::CONT);
    }
}

/// All descendants; on systems that cannot list processes, the started children, as leaders of their groups.
fn below() -> Vec<u32> {
    let own = std::process::id();
    if LISTS_PROCESSES { with_descendants(&[own]).into_iter().filter(|pid| *pid != own).collect() } else { started() }
}

fn signal(pids: &[u32], signal: Signal) {
    for pid in pids.iter().filter_map(|&pid| Pid::from_raw(pid.cast_signed())) {
        let _ = if LISTS_PROCESSES { kill_process(pid, signal) } else { kill_process_group(pid, signal) };
    }
}
