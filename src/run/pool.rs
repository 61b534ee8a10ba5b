//! The private clones of an isolated run: one per slot, and one in which merges are tested.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use super::{Opening, RunDir, Site};
use crate::names::Names;
use crate::vault::Vault;
use crate::workspace::{Origin, WORKSPACES_BELOW, Workspace, WorkspaceOwner, WorkspaceRoot};

/// The private clones of a run.
pub(super) struct Pool {
    /// The repository that they are made from.
    pub origin: Origin,
    root: WorkspaceRoot,
    names: Names,
    /// The directory for the run's records about the clones.
    dir: PathBuf,
    vault: Option<Vault>,
    slots: Mutex<BTreeMap<String, Workspace>>,
    /// The slots whose clone this process made and in which no gate has passed yet.
    unproved: Mutex<BTreeSet<u32>>,
}

impl Pool {
    /// The pool of an isolated run. Its clones need not exist yet.
    pub async fn open(site: &Site, dir: &RunDir, opening: &Opening, root: PathBuf) -> Result<Self> {
        let names = Names::new(&dir.change);
        let repo = site.repo.clone().without_index(dir.path().join("no-index"));
        let origin = Origin::read(&repo, &names, site.environment.for_git()).await?;
        let owner = WorkspaceOwner {
            common_dir: site.repo.place.common_dir.clone(),
            top: site.repo.place.top.clone(),
            change: dir.change.to_string(),
            run: opening.id.clone(),
        };
        let root = WorkspaceRoot::new(root, owner, dir.vault().cloned());
        let (vault, dir) = (dir.vault().cloned(), dir.path().join(WORKSPACES_BELOW));
        Ok(Pool { origin, root, names, dir, vault, slots: Mutex::default(), unproved: Mutex::default() })
    }

    /// Creates the directory for the clones.
    pub fn claim(&self) -> Result<()> {
        self.root.claim()
    }

    /// The clone of a slot.
    pub fn workspace(&self, slot: u32) -> Workspace {
        self.at(self.root.slot(slot), &(slot + 1).to_string())
    }

    /// The slots whose clone exists on the disk.
    pub fn slots_there(&self) -> Vec<u32> {
        let names = std::fs::read_dir(self.root.path()).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let numbers = names.filter_map(|name| name.to_str()?.parse::<u32>().ok()?.checked_sub(1));
        numbers.filter(|slot| self.workspace(*slot).is_there()).collect()
    }

    /// Records that the clone of a slot was just made.
    pub fn note_made(&self, slot: u32) {
        self.unproved.lock().unwrap_or_else(PoisonError::into_inner).insert(slot);
    }

    /// Records that the gates have passed in the clone of a slot.
    pub fn note_proved(&self, slot: u32) {
        self.unproved.lock().unwrap_or_else(PoisonError::into_inner).remove(&slot);
    }

    /// Whether no gate has passed yet in the clone of a slot. After the first `true`, all present clones count as proved: they would fail
    /// for the same reason, and one report is enough.
    pub fn take_unproved(&self, slot: u32) -> bool {
        let mut unproved = self.unproved.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unproved = unproved.contains(&slot);
        if is_unproved {
            unproved.clear();
        }
        is_unproved
    }

    /// The clone in which merges are tested.
    pub fn landing(&self) -> Workspace {
        self.at(self.root.landing(), "landing")
    }

    fn at(&self, top: PathBuf, name: &str) -> Workspace {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Workspace::isolated(&self.origin.repo, self.names.clone(), self.dir.join(name), top, self.vault.as_ref());
        slots.entry(name.to_owned()).or_insert_with(make).clone()
    }

    /// Removes all clones. Their work is saved under refs.
    pub fn remove(&self) -> Result<()> {
        self.root.remove()?;
        // The records about the clones are of no use any more. Files that were moved aside from the clones stay.
        for name in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            for file in ["index", "tree", "turning", "ready", "included"] {
                let _ = std::fs::remove_file(name.path().join(file));
            }
        }
        Ok(())
    }
}
