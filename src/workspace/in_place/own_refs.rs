//! Records the refs below `refs/ralph/`, of this run and of all others, and restores those that an attempt deleted or moved.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Result;

use super::foreign_refs::Comparison;
use super::guard::Findings;
use super::mirror::write_if_changed;
use crate::git::{Oid, RefList, RefUpdate};
use crate::names::{Names, REFS};
use crate::workspace::{Notice, Workspace};

const OWN_REFS: &str = "own-refs";

impl Workspace {
    /// Records every ref below `refs/ralph/` except the checkpoint, which moves with the branch. `pinned` holds the updates to
    /// the pin refs since `refs` was listed.
    pub(super) fn record_own_refs(&self, refs: &RefList, pinned: &[RefUpdate]) -> Result<()> {
        let checkpoint = self.names.checkpoint();
        let own = refs.after(pinned).without(|name| !name.starts_with(REFS) || name == checkpoint).lines();
        Ok(write_if_changed(&self.guard_dir().join(OWN_REFS), own.as_bytes())?)
    }

    /// Finds refs below `refs/ralph/` that were deleted or moved. Skips refs of a run that is active elsewhere: it guards its
    /// own.
    pub(super) fn compare_own_refs(&self, refs: &Comparison<'_>, findings: &mut Findings) -> Result<()> {
        let Ok(record) = fs::read_to_string(self.guard_dir().join(OWN_REFS)) else { return Ok(()) };
        let before = RefList::from_lines(&record)?;
        for was in before.below(REFS) {
            if refs.now.get(&was.name) == Some(&was.oid) || self.is_at_work_elsewhere(&was.name, &before, refs) {
                continue;
            }
            self.keep_other(was, refs, findings);
            findings.updates.push(RefUpdate::Set { name: was.name.clone(), to: was.oid.clone() });
        }
        Ok(())
    }

    /// Whether a ref belongs to another change whose run has created or moved refs meanwhile.
    fn is_at_work_elsewhere(&self, name: &str, before: &RefList, refs: &Comparison<'_>) -> bool {
        if self.names.owns(name) {
            return false;
        }
        let Some(names) = Names::of_ref(name) else { return false };
        refs.elsewhere.contains(&names.branch()) || refs.now.below(&names.prefix()).any(|is| before.get(&is.name) != Some(&is.oid))
    }

    /// Makes sure that the objects which the restored refs will point at exist. Deleted objects are restored from their hard
    /// links. A ref whose object is lost all the same cannot be restored, and is reported.
    pub(super) async fn revive_objects(&self, findings: &mut Findings) -> Result<()> {
        let wanted = |update: &RefUpdate| match update {
            RefUpdate::Set { to, .. } | RefUpdate::Move { to, .. } | RefUpdate::Create { to, .. } => Some(to.clone()),
            RefUpdate::Delete { .. } => None,
        };
        let oids: BTreeSet<Oid> = findings.updates.iter().filter_map(wanted).collect();
        if oids.is_empty() || self.repo.missing(&oids).await?.is_empty() {
            return Ok(());
        }
        self.restore_packs()?;
        let missing = self.repo.missing(&oids).await?;
        let is_lost = |update: &RefUpdate| wanted(update).is_some_and(|oid| missing.contains(&oid));
        let (lost, updates) = std::mem::take(&mut findings.updates).into_iter().partition(is_lost);
        findings.updates = updates;
        for update in lost {
            let name = update.name().to_owned();
            findings.notices.retain(|notice| !matches!(notice, Notice::RefRestored { name: restored, .. } if *restored == name));
            findings.notices.push(Notice::RefLost { name });
        }
        Ok(())
    }
}
