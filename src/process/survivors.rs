//! Finds and ends processes that outlive the one that started them: by a mark in their environment, because they have
//! become children of git-ralph, by their session, or by a file that they hold open.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, test_kill_process_group, waitpid};
use tokio::time::{Instant, sleep};

use super::adoption;
use super::identity::Identity;
use super::platform::{LISTS_PROCESSES, Stat, cwd_of, has_entry, has_locked, has_open, is_in_namespace, name_of, processes, session_of};

/// SIGKILL takes effect only when the process gets to run.
const LAST_GASP: Duration = Duration::from_secs(2);
/// How often to look for new processes. After that many rounds they are being forked faster than they can be ended.
const ROUNDS: u32 = 20;
/// How long the kernel may take to end the remaining processes of a sandbox.
const NAMESPACE_END: Duration = Duration::from_secs(2);
/// The deepest nesting of processes that is followed.
const DEEPEST: usize = 1000;
const POLL: Duration = Duration::from_millis(20);

/// Whether this process is a descendant of `ancestor`. An orphan counts if `ancestor` adopts orphans.
#[must_use]
pub fn is_below(ancestor: u32) -> bool {
    let parent = |pid: &u32| Stat::of(*pid).map(|stat| stat.parent);
    std::iter::successors(Some(std::process::id()), parent).skip(1).take(DEEPEST).any(|pid| pid == ancestor)
}

/// Identifies the processes that a piece of work may leave running: those with its mark in the environment, and the
/// orphans that did not exist before.
#[derive(Debug)]
pub struct Trail {
    name: String,
    mark: String,
    before: Vec<Identity>,
}

impl Trail {
    /// Must be called before the work begins. Its processes must have a variable `name` whose value begins with `value`.
    #[must_use]
    pub fn begin(name: &str, value: &str) -> Self {
        Trail { name: format!("{name}="), mark: format!("{name}={value}"), before: adoption::adopted() }
    }

    /// Ends the remaining processes: SIGTERM, grace period, SIGKILL. Returns their names.
    pub async fn end(&self, grace: Duration) -> Vec<String> {
        let left = || self.orphans().into_iter().chain(marked(&self.mark)).chain(self.members_of_sessions()).collect();
        let names = self.end_those(grace, left).await;
        sessions().retain(|session| !session.is_of(&self.mark));
        names
    }

    /// Like [`Self::end`], after a child that has been waited for. If git-ralph adopts orphans, the remaining processes
    /// are its descendants by now, so no others have to be examined.
    pub async fn end_after_child(&self, grace: Duration) -> Vec<String> {
        if !adoption::adopts() {
            return self.end(grace).await;
        }
        self.end_those(grace, || self.orphans().into_iter().collect()).await
    }

    async fn end_those(&self, grace: Duration, left: impl Fn() -> BTreeSet<u32>) -> Vec<String> {
        let mut tried = Vec::new();
        let mut names = Vec::new();
        // The kernel ends the processes of a sandbox shortly after the sandbox's first process has ended.
        let deadline = Instant::now() + NAMESPACE_END;
        while left().into_iter().any(|pid| is_in_namespace(pid) && is_alive(pid)) && Instant::now() < deadline {
            sleep(POLL).await;
        }
        // Killing a process can orphan its children, and new ones may be forked meanwhile: repeat until none are left.
        for round in 0..ROUNDS {
            let found: Vec<u32> = left().into_iter().filter(|&pid| !tried.contains(&pid) && is_alive(pid)).collect();
            if found.is_empty() {
                break;
            }
            names.extend(found.iter().map(|&pid| describe(pid)));
            end(&found, if round == 0 { grace } else { Duration::ZERO }).await;
            tried.extend(found);
        }
        adoption::reap();
        // Even root cannot end a process that hangs in the kernel, and a user cannot end processes of other users.
        for (name, _) in names.iter_mut().zip(&tried).filter(|(_, pid)| is_alive(**pid)) {
            name.push_str(", which could not be ended");
        }
        names
    }

    /// The orphans that did not exist before, with all their descendants.
    fn orphans(&self) -> Vec<u32> {
        let orphans = adoption::adopted().into_iter().filter(|orphan| !self.before.contains(orphan)).map(|orphan| orphan.pid);
        let orphans: Vec<u32> = orphans.filter(|&pid| !self.is_of_others(pid)).collect();
        adoption::with_descendants(&orphans)
    }

    /// The processes that are still in a session of this work, on a system where orphans are not adopted.
    fn members_of_sessions(&self) -> Vec<u32> {
        let leaders: Vec<u32> = sessions().iter().filter(|session| session.is_of(&self.mark)).map(|session| session.leader).collect();
        if leaders.is_empty() {
            return Vec::new();
        }
        others().filter(|&pid| session_of(pid).is_some_and(|session| leaders.contains(&session))).collect()
    }

    /// Whether a process has the mark of other work that is still running.
    fn is_of_others(&self, pid: u32) -> bool {
        has_entry(pid, &self.name) && !has_entry(pid, &self.mark)
    }
}

/// A session that git-ralph started for a piece of work.
struct Session {
    leader: u32,
    env: Vec<(OsString, OsString)>,
}

impl Session {
    fn is_of(&self, mark: &str) -> bool {
        let entry = |(name, value): &(OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
        self.env.iter().any(|variable| entry(variable).starts_with(mark.as_bytes()))
    }
}

/// The sessions of work that is still running, on a system where orphans are not adopted.
static SESSIONS: Mutex<Vec<Session>> = Mutex::new(Vec::new());

fn sessions() -> MutexGuard<'static, Vec<Session>> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers the session of a child until the work that its environment names has ended.
pub(super) fn remember_session(leader: Pid, env: &[(OsString, OsString)]) {
    let leader = leader.as_raw_nonzero().get().cast_unsigned();
    if !LISTS_PROCESSES {
        record_group(leader);
    } else if !adoption::adopts() {
        sessions().push(Session { leader, env: env.to_vec() });
    }
}

/// The file that lists the process groups that git-ralph starts, for the next process if this one is killed.
static GROUPS: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Records all process groups that are started from now on in this file, one per line. Does so only on systems that
/// cannot list processes.
pub fn record_groups_in(file: Option<PathBuf>) {
    *GROUPS.lock().unwrap_or_else(PoisonError::into_inner) = file.filter(|_| !LISTS_PROCESSES);
}

fn record_group(leader: u32) {
    if let Some(file) = &*GROUPS.lock().unwrap_or_else(PoisonError::into_inner) {
        // Without the record the user has to end processes of a killed run by hand, but the run itself is unaffected.
        let _ = OpenOptions::new().append(true).open(file).and_then(|mut file| writeln!(file, "{leader}"));
    }
}

/// The process groups in such a file that still exist. The system does not reuse the id of a group that has members.
#[must_use]
pub fn recorded_groups(text: &str) -> Vec<u32> {
    if LISTS_PROCESSES {
        return Vec::new();
    }
    text.lines().filter_map(|line| line.parse().ok()).filter(|&group| is_there(group)).collect()
}

/// The processes other than this one that have the file open, or `None` if the system cannot list them.
#[must_use]
pub fn holders_of(path: &Path) -> Option<Vec<u32>> {
    let Ok(wanted) = fs::metadata(path) else { return Some(Vec::new()) };
    LISTS_PROCESSES.then(|| others().filter(|pid| has_open(*pid, &wanted)).collect())
}

/// The working directories of the living processes with a program name that `is_wanted` accepts, but for this process and its own
/// children.
pub fn directories_of(is_wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = PathBuf> {
    let is_foreign = |pid: &u32| Stat::of(*pid).is_some_and(|stat| !stat.has_ended && stat.parent != std::process::id());
    others().filter(move |pid| is_wanted(&name_of(*pid)) && is_foreign(pid)).filter_map(cwd_of)
}

/// The processes other than this one that hold a lock on the file, as far as the system tells. A process that only
/// reads it does not.
#[must_use]
pub fn lockers_of(path: &Path) -> Vec<u32> {
    let Ok(wanted) = fs::metadata(path) else { return Vec::new() };
    others().filter(|pid| has_locked(*pid, &wanted)).collect()
}

/// Whether the process with this id exists and has not ended.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    Stat::of(pid).is_some_and(|stat| !stat.has_ended)
}

/// Ends these processes, or the groups that they lead on systems that cannot list processes: SIGTERM, grace period, SIGKILL.
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
    while pids.iter().any(|&pid| is_there(pid)) {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(POLL).await;
    }
    true
}

/// Whether a process that is to be ended still exists, or its group on systems that cannot list processes.
fn is_there(pid: u32) -> bool {
    if LISTS_PROCESSES { is_alive(pid) } else { Pid::from_raw(pid.cast_signed()).is_some_and(|pid| test_kill_process_group(pid).is_ok()) }
}

fn signal_all(pids: &[u32], signal: Signal) {
    for pid in pids.iter().filter_map(|&pid| Pid::from_raw(pid.cast_signed())) {
        let _ = if LISTS_PROCESSES { kill_process(pid, signal) } else { kill_process_group(pid, signal) };
    }
}

fn marked(mark: &str) -> Vec<u32> {
    others().filter(|pid| has_entry(*pid, mark)).collect()
}

/// The ids of all processes other than this one.
fn others() -> impl Iterator<Item = u32> {
    processes().filter(|pid| *pid != std::process::id())
}

fn describe(pid: u32) -> String {
    format!("{} ({pid})", name_of(pid))
}
