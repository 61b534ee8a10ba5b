//! Pays for the row `story: git processes` (7 without it, target 6): refs are listed once between two attempts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Base, Branch};
use crate::git::RefList;
use crate::workspace::Workspace;

/// A ref that changes within this time counts as changed by the agent.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The refs of others as they were last seen, and when that was.
#[derive(Clone, Debug, Default)]
pub(super) struct RefCache(Arc<Mutex<Option<(RefList, Instant)>>>);

impl RefCache {
    fn seen(&self) -> MutexGuard<'_, Option<(RefList, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Branch {
    /// Remembers what was listed `at` that time, after an attempt that has done nothing to the refs of others.
    pub(super) fn remember_refs(&self, refs: RefList, at: Instant) {
        *self.ref_cache.seen() = Some((refs, at));
    }

    /// Forgets the listed refs: the user's own command may have changed some.
    pub fn forget_refs(&self) {
        *self.ref_cache.seen() = None;
    }

    /// The refs of others, if they were listed a moment ago and the branch is where it belongs. They are given only once.
    pub(super) fn cached_refs(&self, workspace: &Workspace, base: &Base) -> Option<RefList> {
        let (refs, at) = self.ref_cache.seen().take()?;
        (at.elapsed() < MAX_AGE && workspace.stands_on(&base.checkpoint)).then_some(refs)
    }
}
