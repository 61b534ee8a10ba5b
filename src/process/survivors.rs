//! Processes that outlive the one that started them: found by a mark in their environment or by a file they hold.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::time::{Instant, sleep};

/// Even KILL takes effect only when the process gets to run.
const LAST_GASP: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// Ends every process whose environment has `name=value…`: TERM, grace, KILL. Says which ones it found.
pub async fn end_marked(name: &str, value: &str, grace: Duration) -> Vec<String> {
    let mark = format!("{name}={value}");
    let found = marked(&mark);
    let names = found.iter().map(|&pid| describe(pid)).collect();
    end(&found, grace).await;
    // A process that was being born while the others were listed.
    let late = marked(&mark);
    end(&late, Duration::ZERO).await;
    names
}

/// The processes, but for this one, that have the file open.
#[must_use]
pub fn holders_of(path: &Path) -> Vec<u32> {
    let Ok(wanted) = fs::metadata(path) else { return Vec::new() };
    processes().filter(|pid| *pid != std::process::id()).filter(|pid| has_open(*pid, &wanted)).collect()
}

/// Whether a process has a file open.
pub(super) fn has_open(pid: u32, wanted: &fs::Metadata) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.filter_map(|entry| fs::metadata(entry.ok()?.path()).ok()).any(|file| file.ino() == wanted.ino() && file.dev() == wanted.dev())
}

/// Whether a process of that id exists and has not ended.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X'])),
        Err(_) => false,
    }
}

/// Ends these processes: TERM, grace, KILL.
pub async fn end(pids: &[u32], grace: Duration) {
    signal_all(pids, Signal::TERM);
    if !gone_within(pids, grace).await {
        signal_all(pids, Signal::KILL);
        gone_within(pids, LAST_GASP).await;
    }
    for pid in pids.iter().filter_map(|&pid| Pid::from_raw(pid.cast_signed())) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

async fn gone_within(pids: &[u32], limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while pids.iter().any(|&pid| is_alive(pid)) {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(POLL).await;
    }
    true
}

fn signal_all(pids: &[u32], signal: Signal) {
    for pid in pids.iter().filter_map(|&pid| Pid::from_raw(pid.cast_signed())) {
        let _ = kill_process(pid, signal);
    }
}

fn marked(mark: &str) -> Vec<u32> {
    let has_mark = |pid: &u32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes())))
    };
    processes().filter(|pid| *pid != std::process::id()).filter(has_mark).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn describe(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{} ({pid})", name.trim_end())
}
