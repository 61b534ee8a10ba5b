//! Refs that were listed a moment ago: from the end of one attempt to the beginning of the next they are not listed twice.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::guard::Findings;
use super::{Footing, Keeper};
use crate::git::RefList;

/// Whoever changes a ref within this time has changed it while an agent was at work.
const MOMENT: Duration = Duration::from_secs(1);

/// The refs of others as they were last seen, and when that was.
#[derive(Clone, Debug, Default)]
pub(super) struct Lately(Arc<Mutex<Option<(RefList, Instant)>>>);

impl Lately {
    fn seen(&self) -> MutexGuard<'_, Option<(RefList, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper {
    /// Remembers what was listed `at` that time, after an attempt that has done nothing to the refs of others.
    pub(super) fn remember_refs(&self, refs: RefList, at: Instant) {
        *self.lately.seen() = Some((refs, at));
    }

    /// Somebody may be changing refs.
    pub fn forget_refs(&self) {
        *self.lately.seen() = None;
    }

    /// The refs of others, if they were listed a moment ago and the branch is where it belongs. They are given only once.
    pub(super) fn refs_of_lately(&self, footing: &Footing) -> Option<RefList> {
        let (refs, at) = self.lately.seen().take()?;
        (at.elapsed() < MOMENT && self.stands_on(footing)).then_some(refs)
    }

    /// Whether the branch is active and at the checkpoint, as far as files tell; where refs are no files, they tell nothing.
    pub(super) fn stands_on(&self, footing: &Footing) -> bool {
        let place = &self.repo.place;
        let reads = |file: PathBuf, text: &str| fs::read_to_string(file).is_ok_and(|found| found.trim_end() == text);
        reads(place.git_dir.join("HEAD"), &format!("ref: {}", self.names.branch()))
            && reads(place.common_dir.join(self.names.branch()), footing.checkpoint.as_str())
    }
}

impl Findings {
    /// Whether nothing was found that makes refs other than they were listed.
    pub(super) fn are_none(&self) -> bool {
        self.updates.is_empty() && self.notices.is_empty()
    }
}
