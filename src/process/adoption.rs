//! Adoption of orphans: a process below us that loses its parent becomes our child, and who is whose child.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, waitpid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::identity::Identity;
use super::platform::{self, Stat, own_children, processes};

/// However many end at once, they are looked for no more often than this.
const PAUSE: Duration = Duration::from_millis(200);

/// The children that we started ourselves and whose end nobody has taken note of yet, so that their ids are theirs. The kernel
/// does not tell them from those that it gave us.
static STARTED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Those of them that nobody waits for any more.
static ABANDONED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Whether orphans below us become our children now.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// While this lives, a process below us that loses its parent becomes our child, even if it left its session, its
/// group and its environment behind. Only Linux can do that; elsewhere it does nothing.
#[must_use]
pub struct Adoption(JoinHandle<()>);

impl Adoption {
    /// Begins to adopt; must be called on a runtime.
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

/// An agent that works for hours may leave thousands that end by themselves, and each of them keeps its id until it is reaped.
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

/// Whether a process below us that loses its parent becomes our child.
pub(super) fn adopts() -> bool {
    ADOPTS.load(Ordering::Relaxed)
}

/// Remembers a child that we started.
pub(super) fn remember(child: Pid) {
    let reaped = |child: &Pid| !matches!(waitpid(Some(*child), WaitOptions::NOHANG), Ok(None));
    listed(&ABANDONED).extract_if(.., |child| reaped(child)).for_each(forget);
    listed(&STARTED).push(child);
}

/// Forgets a child whose end was taken note of.
pub(super) fn forget(child: Pid) {
    listed(&STARTED).retain(|started| *started != child);
}

/// Takes over a child that nobody will wait for.
pub(super) fn abandon(child: Pid) {
    listed(&ABANDONED).push(child);
}

fn listed(list: &'static Mutex<Vec<Pid>>) -> MutexGuard<'static, Vec<Pid>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The children that we started and have not reaped.
pub(super) fn started() -> Vec<u32> {
    listed(&STARTED).iter().map(|child| child.as_raw_nonzero().get().cast_unsigned()).collect()
}

/// The children of ours that we did not start: what was there before us, and whom we adopted.
pub(super) fn adopted() -> Vec<Identity> {
    let children = own_children().unwrap_or_else(|| children_of(std::process::id(), &parents()));
    let started = started();
    children.into_iter().filter(|child| !started.contains(child)).filter_map(Identity::of).collect()
}

/// These processes and everybody below them.
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

/// Takes note of the end of adopted children, which nobody else waits for.
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

/// Every process with its parent.
fn parents() -> Vec<(u32, u32)> {
    processes().filter_map(|pid| Some((pid, Stat::of(pid)?.parent))).collect()
}
