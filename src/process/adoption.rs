//! Adopts orphans: a descendant of git-ralph that loses its parent becomes a child of git-ralph. Also finds the
//! children of processes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, waitpid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::identity::Identity;
use super::platform::{self, Stat, own_children, processes};

/// However many children end at once, git-ralph reaps at most once per this interval.
const PAUSE: Duration = Duration::from_millis(200);

/// The children that git-ralph started and has not reaped yet, so that their ids cannot be reused. The kernel does not
/// distinguish them from adopted ones.
static STARTED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// The started children that no future waits for any more.
static ABANDONED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Whether orphaned descendants become children of git-ralph at the moment.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// While this value lives, a descendant that loses its parent becomes a child of git-ralph, even if it has left its
/// session, its group and its environment. Only Linux supports this; elsewhere it has no effect.
#[must_use]
pub struct Adoption(JoinHandle<()>);

impl Adoption {
    /// Starts adopting; must be called on a runtime.
    pub fn begin() -> Self {
        set_adopter(Some(getpid()));
        Adoption(tokio::spawn(reap_as_they_end()))
    }
}

impl Drop for Adoption {
    fn drop(&mut self) {
        set_adopter(None);
        self.0.abort();
    }
}

/// An agent that works for hours may leave thousands of processes that end by themselves. Each keeps its id until it is reaped.
async fn reap_as_they_end() {
    let Ok(mut ended) = signal(SignalKind::child()) else { return };
    while ended.recv().await.is_some() {
        reap();
        sleep(PAUSE).await;
    }
}

fn set_adopter(adopter: Option<Pid>) {
    ADOPTS.store(platform::set_adopter(adopter), Ordering::Relaxed);
}

/// Whether orphaned descendants become children of git-ralph.
pub(super) fn adopts() -> bool {
    ADOPTS.load(Ordering::Relaxed)
}

/// Remembers a child that git-ralph started.
pub(super) fn remember(child: Pid) {
    let reaped = |child: &Pid| !matches!(waitpid(Some(*child), WaitOptions::NOHANG), Ok(None));
    listed(&ABANDONED).extract_if(.., |child| reaped(child)).for_each(forget);
    listed(&STARTED).push(child);
}

/// Forgets a child that has been reaped.
pub(super) fn forget(child: Pid) {
    listed(&STARTED).retain(|started| *started != child);
}

/// Takes over a child that no future waits for any more.
pub(super) fn abandon(child: Pid) {
    listed(&ABANDONED).push(child);
}

fn listed(list: &'static Mutex<Vec<Pid>>) -> MutexGuard<'static, Vec<Pid>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The children that git-ralph started and has not reaped.
pub(super) fn started() -> Vec<u32> {
    listed(&STARTED).iter().map(|child| child.as_raw_nonzero().get().cast_unsigned()).collect()
}

/// The children that git-ralph did not start: those from before its `exec`, and adopted ones.
pub(super) fn adopted() -> Vec<Identity> {
    let children = own_children().unwrap_or_else(|| children_of(std::process::id(), &parents()));
    let started = started();
    children.into_iter().filter(|child| !started.contains(child)).filter_map(Identity::of).collect()
}

/// These processes and all their descendants.
pub(super) fn with_descendants(roots: &[u32]) -> Vec<u32> {
    if roots.is_empty() {
        return Vec::new();
    }
    let parents = parents();
    let mut all = roots.to_vec();
    let mut next = 0;
    while next < all.len() {
        let children = children_of(all[next], &parents);
        let new: Vec<u32> = children.into_iter().filter(|child| !all.contains(child)).collect();
        all.extend(new);
        next += 1;
    }
    all
}

/// Reaps adopted children that have ended.
pub(super) fn reap() {
    for child in adopted() {
        if let Some(pid) = Pid::from_raw(child.pid.cast_signed()) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

fn children_of(parent: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid).collect()
}

/// All processes with their parents.
fn parents() -> Vec<(u32, u32)> {
    processes().filter_map(|pid| Some((pid, Stat::of(pid)?.parent))).collect()
}
