//! Ctrl-Z: everything below us is stopped before we are, and goes on when we do.
//!
//! Agents are in sessions of their own, where the terminal's signal does not reach them.

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
    /// Begins to listen; where Ctrl-Z is ignored, it stays ignored.
    ///
    /// # Errors
    /// If the handler cannot be installed.
    pub fn listen() -> io::Result<Self> {
        Listener::new(SignalKind::from_raw(libc::SIGTSTP)).map(Suspension)
    }

    /// Waits for Ctrl-Z.
    pub async fn requested(&mut self) {
        self.0.recv().await;
    }

    /// Stops everything below us, then us; comes back when the shell continues us, with everything going again.
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

/// Everything below us; where processes cannot be listed, the children that we started, for their groups.
fn below() -> Vec<u32> {
    let own = std::process::id();
    if LISTS_PROCESSES { with_descendants(&[own]).into_iter().filter(|pid| *pid != own).collect() } else { started() }
}

fn signal(pids: &[u32], signal: Signal) {
    for pid in pids.iter().filter_map(|&pid| Pid::from_raw(pid.cast_signed())) {
        let _ = if LISTS_PROCESSES { kill_process(pid, signal) } else { kill_process_group(pid, signal) };
    }
}
