//! Finds and deletes what closed runs leave behind. An open run is never touched.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{RunDir, Store};
use crate::git::{DescribedRef, RefUpdate, Repo, StashEntry};
use crate::names::{Names, REFS, RefKind};
use crate::story::ChangeName;
use crate::workspace::{Leftover, workspaces_below};

/// The directory of a closed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldRun {
    /// The run.
    pub run: RunDir,
    /// Whether it holds files that git could not store.
    pub moved: bool,
}

/// The scope of a search.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope<'a> {
    /// Only refs and runs of this change.
    pub change: Option<&'a ChangeName>,
    /// Only these refs, unless empty.
    pub refs: &'a [String],
}

/// Everything that can be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prunable {
    /// Refs with work that runs saved.
    pub refs: Vec<DescribedRef>,
    /// Branches that the user kept and a later run moved aside. They are deleted only if the user names them.
    pub kept_branches: Vec<DescribedRef>,
    /// Directories of closed runs.
    pub runs: Vec<OldRun>,
    /// The directory with lock files that dead git processes left.
    pub stale_locks: Option<PathBuf>,
    /// Private clones that no open run needs.
    pub workspaces: Vec<Leftover>,
    /// Stash entries that older tools made.
    pub stashes: Vec<StashEntry>,
}

impl Prunable {
    /// Finds everything that can be deleted, without changing anything. `around` is the directory in which private clones are made.
    ///
    /// # Errors
    /// If git fails. Also if a journal cannot be read, because then it is not known which runs are open.
    pub async fn find(repo: &Repo, store: &Store, around: Option<&Path>, scope: Scope<'_>) -> Result<Self> {
        let Scope { change: only, refs: named } = scope;
        let mut census = Census { store, only, open: BTreeMap::new() };
        let mut found = Prunable::default();
        for entry in repo.described_refs(REFS).await? {
            let Some(names) = Names::of_ref(&entry.name) else { continue };
            if let Some(open) = census.ask(names.change())?
                && names.is_left(&entry.name, open)
            {
                let is_kept_branch = names.kind(&entry.name).is_some_and(|own| own.kind == RefKind::Leftover);
                match named {
                    [] if is_kept_branch => found.kept_branches.push(entry),
                    [] => found.refs.push(entry),
                    _ if named.contains(&entry.name) => found.refs.push(entry),
                    _ => {}
                }
            }
        }
        if !named.is_empty() {
            return Ok(found);
        }
        for change in store.changes_with_runs()? {
            let Some(open) = census.ask(&change)? else { continue };
            // When the directory of a run is gone, its number is used again. A ref that stays must not share it, so its directory stays
            // too.
            let needed = found.numbers_of_kept_branches(&change);
            let is_over = |run: &RunDir| open.is_none_or(|open| run.number < open) && !needed.contains(&run.number);
            let over = store.runs(&change)?.into_iter().filter(is_over);
            let holds = |run: &RunDir| ["moved", "ignored-files", "nested-copies"].iter().any(|name| run.path().join(name).exists());
            found.runs.extend(over.map(|run| OldRun { moved: holds(&run), run }));
        }
        for entry in repo.stashes().await? {
            let Some(change) = change_of_stash(entry.words()) else { continue };
            if census.ask(&change)? == Some(None) {
                found.stashes.push(entry);
            }
        }
        found.workspaces = left_workspaces(repo, store, around, only)?;
        let locks = store.root().join("stale-locks");
        found.stale_locks = Some(locks).filter(|dir| only.is_none() && dir.exists());
        Ok(found)
    }

    /// Whether there is nothing to delete.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        Prunable { kept_branches: Vec::new(), ..self.clone() } == Prunable::default()
    }

    fn numbers_of_kept_branches(&self, change: &ChangeName) -> Vec<u32> {
        let names = Names::new(change);
        self.kept_branches.iter().filter_map(|entry| names.kind(&entry.name)?.number()).collect()
    }

    /// Keeps only what was already in `before`. Other processes may have gone on between a question and its answer.
    #[must_use]
    pub fn still_of(mut self, before: &Prunable) -> Self {
        self.refs.retain(|entry| before.refs.contains(entry));
        self.runs.retain(|run| before.runs.contains(run));
        self.stashes.retain(|entry| before.stashes.contains(entry));
        self.workspaces.retain(|left| before.workspaces.contains(left));
        self.stale_locks = self.stale_locks.filter(|_| before.stale_locks.is_some());
        self
    }

    /// Deletes everything. All refs are deleted first, in one transaction, because the number of a run must not be used again while a ref
    /// has it.
    ///
    /// # Errors
    /// If git or the disk fails. The rest can be pruned again.
    pub async fn delete(&self, repo: &Repo) -> Result<()> {
        let delete = |entry: &DescribedRef| RefUpdate::Delete { name: entry.name.clone(), from: entry.oid.clone() };
        let updates: Vec<RefUpdate> = self.refs.iter().map(delete).collect();
        repo.update_refs(&updates, "git ralph prune").await?;
        for old in &self.runs {
            remove(old.run.path())?;
            if let Some(vault) = old.run.vault() {
                vault.discard();
            }
            if let Some(parent) = old.run.path().parent() {
                // The directory stays while it has other runs.
                let _ = fs::remove_dir(parent);
            }
        }
        for left in &self.workspaces {
            left.remove()?;
        }
        self.stale_locks.as_deref().map_or(Ok(()), remove)?;
        repo.drop_stashes(&self.stashes).await
    }
}

/// The private clones of this repository that no open run needs, below `around` and where the last runs had theirs.
pub fn left_workspaces(repo: &Repo, store: &Store, around: Option<&Path>, only: Option<&ChangeName>) -> Result<Vec<Leftover>> {
    let mut places: BTreeSet<PathBuf> = around.map(Path::to_owned).into_iter().collect();
    let (mut needed, mut open) = (BTreeSet::new(), BTreeSet::new());
    for change in store.changes_with_runs()? {
        let Some((_, state)) = store.last(&change)? else { continue };
        let Some(opening) = &state.opening else { continue };
        let Some(dir) = &opening.workspaces else { continue };
        places.extend(dir.parent().map(Path::to_owned));
        if !state.is_closed() {
            needed.insert(dir.clone());
            open.insert(opening.id.clone());
        }
    }
    let mut left = Vec::new();
    for place in places {
        let found = workspaces_below(&place).with_context(|| format!("cannot read {}", place.display()))?;
        left.extend(found.into_iter().filter(|left| {
            let is_asked = only.is_none_or(|only| left.owner.change == only.as_str());
            let is_ours = left.owner.common_dir == repo.place.common_dir;
            is_asked && is_ours && !needed.contains(&left.path) && !open.contains(&left.owner.run)
        }));
    }
    Ok(left)
}

/// Finds out which changes have an open run.
struct Census<'a> {
    store: &'a Store,
    only: Option<&'a ChangeName>,
    open: BTreeMap<ChangeName, Option<u32>>,
}

impl Census<'_> {
    /// `None` if the change is not in scope. Otherwise the number of its open run, if it has one.
    fn ask(&mut self, change: &ChangeName) -> Result<Option<Option<u32>>> {
        if self.only.is_some_and(|only| only != change) {
            return Ok(None);
        }
        if let Some(known) = self.open.get(change) {
            return Ok(Some(*known));
        }
        let last = self.store.last(change)?;
        let open = last.filter(|(_, state)| !state.is_closed()).map(|(run, _)| run.number);
        self.open.insert(change.clone(), open);
        Ok(Some(open))
    }
}

/// The change in a stash message. Older tools wrote `ralph:<change>:<what>`.
fn change_of_stash(message: &str) -> Option<ChangeName> {
    message.strip_prefix("ralph:")?.split_once(':')?.0.parse().ok()
}

fn remove(dir: &Path) -> Result<()> {
    let removed = match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // Files that were moved here may include directories without write permission.
            open_up(dir);
            fs::remove_dir_all(dir)
        }
        other => other,
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.with_context(|| format!("cannot delete {}", dir.display())),
    }
}

fn open_up(dir: &Path) {
    let Ok(meta) = dir.symlink_metadata() else { return };
    if !meta.is_dir() {
        return;
    }
    let _ = fs::set_permissions(dir, fs::Permissions::from_mode(meta.permissions().mode() | 0o700));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        open_up(&entry.path());
    }
}
