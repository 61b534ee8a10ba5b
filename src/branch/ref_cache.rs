//! Pays for the row `story: git processes` (7 without it, target 6): refs are listed once between two attempts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Base, Branch};
use crate::git::RefList;
use crate::workspace::Workspace;

/// How long a list of refs is reused. A change by the user within that time is taken for one by the agent.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The refs as last listed, and when.
#[derive(Clone, Debug, Default)]
pub(super) struct RefCache(Arc<Mutex<Option<(RefList, Instant)>>>);

impl RefCache {
    fn seen(&self) -> MutexGuard<'_, Option<(RefList, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Branch {
    /// Caches the refs listed at the time `at`, after an attempt that did not change the user's refs.
    pub(super) fn remember_refs(&self, refs: RefList, at: Instant) {
        *self.ref_cache.seen() = Some((refs, at));
    }

    /// Drops the cached refs, because a command of the user's may have changed some.
    pub fn forget_refs(&self) {
        *self.ref_cache.seen() = None;
    }

    /// The cached refs, if they were listed within the last second and the branch is at the checkpoint. They are returned only
    /// once.
    pub(super) fn cached_refs(&self, workspace: &Workspace, base: &Base) -> Option<RefList> {
        let (refs, at) = self.ref_cache.seen().take()?;
        (at.elapsed() < MAX_AGE && workspace.stands_on(&base.checkpoint)).then_some(refs)
    }
}
