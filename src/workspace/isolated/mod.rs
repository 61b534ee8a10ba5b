//! Uses a private clone as the workspace of an attempt: the agent has a git directory of its own, and its changes to it stay
//! there.
//!
//! Our own work on the clone goes through the user's git directory and a private index. So nothing that the agent writes to its
//! git directory affects what is saved and landed.

mod added;
mod brought;
mod carried;
mod case;
mod git_dir;
mod hidden;
mod include;
mod place;
mod submodules;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};

pub use case::check_case;
pub(crate) use git_dir::{AgentsCommits, Origin};
pub(crate) use include::Copied;
pub(crate) use place::WorkspaceRoot;
pub use place::{Leftover, WorkspaceOwner, check_outside, directory, found_below};

use super::path_set::PathSet;
use super::snapshot::IGNORED;
use super::{Notice, Snapshot, Workspace, WorkspaceKind, in_place};
use crate::git::{Oid, PathChange, Reach, RefList, Repo, TreeEntry};
use crate::names::Names;
use crate::stamp::Stamp;
use crate::vault::Vault;
use crate::{relocate, safe_read, safe_write};

/// The file that records the last known tree of the workspace.
const TREE: &str = "tree";
/// The file that records the tree that the workspace is being switched to.
const TURNING: &str = "turning";
/// The file that lists the ignored files copied into the workspace.
const INCLUDED: &str = "included";
/// The file that exists once the workspace was set up; it holds the recipe used.
const READY: &str = "ready";
/// The subdirectory of the run's directory that holds the records about clones.
pub(crate) const BELOW: &str = "workspaces";

/// What this process knows about a private clone. An agent may have modified the files next to it. So the index is used only if
/// its stamp is the one we left, and notes are stored in the vault, if there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    vault: Option<Vault>,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug, Default)]
struct Memory {
    /// The last known tree of the workspace.
    tree: Option<Oid>,
    /// Whether no agent and no gate has worked in it since.
    quiet: bool,
    /// The stamp of the private index as we left it.
    index: Option<Stamp>,
    /// The clones of submodules in the workspace.
    submodules: BTreeMap<PathBuf, Workspace>,
}

impl Known {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workspace {
    /// A private clone at `top`. Records about it go into `dir`, and those that an agent must not write into `vault`.
    #[must_use]
    pub(crate) fn isolated(user: &Repo, names: Names, dir: PathBuf, top: PathBuf, vault: Option<&Vault>) -> Self {
        let mut repo = user.clone();
        repo.git = repo.git.elsewhere(&top, Some(&user.place.git_dir)).with_index(dir.join("no-index"));
        repo.place.top.clone_from(&top);
        let anchor = in_place::Anchor::of(&dir, &top);
        let mut workspace = Workspace::of_kind(WorkspaceKind::Isolated, repo, names, dir, anchor);
        workspace.known.vault = vault.filter(|vault| vault.exists()).cloned();
        workspace
    }

    fn top(&self) -> &Path {
        &self.repo.place.top
    }

    /// The path of a note about the workspace.
    pub(super) fn note_file(&self, name: &str) -> PathBuf {
        match &self.known.vault {
            Some(vault) => vault.path(&format!("workspace-{}-{name}", self.dir.file_name().unwrap_or_default().display())),
            None => self.dir.join(name),
        }
    }

    /// Writes a note atomically: after a kill, the file holds either the old or the new text.
    fn note(&self, name: &str, text: &[u8]) -> Result<()> {
        let path = self.note_file(name);
        let draft = path.with_added_extension("new");
        let written =
            relocate::remove_anything(&draft).and_then(|()| safe_write::write(&draft, text)).and_then(|()| fs::rename(&draft, &path));
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    fn noted_tree(&self, name: &str) -> Option<Oid> {
        safe_read::text(&self.note_file(name)).ok()?.trim_end().parse().ok()
    }

    /// The last known tree of the workspace, noted by this process or an earlier one.
    pub(crate) fn last_tree(&self) -> Option<Oid> {
        self.known.memory().tree.clone().or_else(|| self.noted_tree(TREE))
    }

    fn note_tree(&self, tree: &Oid) -> Result<()> {
        self.note(TREE, format!("{tree}\n").as_bytes())?;
        let mut memory = self.known.memory();
        memory.tree = Some(tree.clone());
        memory.quiet = true;
        memory.index = Stamp::of(&self.private_index());
        Ok(())
    }

    /// Makes sure that the directory of our records is a real directory and not a symbolic link.
    fn check_dir(&self) -> Result<()> {
        let cannot = || format!("cannot create {}", self.dir.display());
        let (Some(name), Some(run)) = (self.dir.file_name(), self.dir.parent().and_then(Path::parent)) else { bail!(cannot()) };
        safe_write::real_dirs(run, &Path::new(BELOW).join(name)).with_context(cannot).map(drop)
    }

    /// Discards the private index unless it is the one we left: an agent could hide its changes by writing into it.
    fn check_index(&self) -> Result<()> {
        self.check_dir()?;
        let index = self.private_index();
        if !self.is_index_ours() {
            relocate::discard(&index, &self.moved_dir("index")).with_context(|| format!("cannot remove {}", index.display()))?;
        }
        Ok(())
    }

    fn is_index_ours(&self) -> bool {
        let memory = self.known.memory();
        memory.index.is_some() && memory.index == Stamp::of(&self.private_index())
    }

    /// The recipe for setting a workspace up: the ignored files to copy, and the setup commands. When the user changes one of
    /// them, the workspace is set up again.
    pub(crate) fn recipe(origin: &Origin, patterns: &[String], commands: &[String]) -> String {
        [include::listed(&origin.repo).unwrap_or_default(), patterns.join("\n"), commands.join("\n")].join("\0")
    }

    /// Whether the workspace has been set up with this recipe.
    pub(crate) fn is_ready(&self, recipe: &str) -> bool {
        fs::read(self.note_file(READY)).is_ok_and(|by| by == recipe.as_bytes()) && self.top().join(".git").is_dir()
    }

    /// Notes that the workspace is set up. Files that are ignored now are never committed, even if an agent changes the ignore
    /// rules.
    pub(crate) async fn note_ready(&self, recipe: &str, has_ignored: bool) -> Result<()> {
        let ignored = |entry| if let TreeEntry::Ignored(path) = entry { Some(path) } else { None };
        let entries = if has_ignored { self.repo.status(&self.private_index()).await? } else { Vec::new() };
        self.note(IGNORED, &PathSet::new(entries.into_iter().filter_map(ignored)).bytes())?;
        // git has refreshed the times in the index.
        self.known.memory().index = Stamp::of(&self.private_index());
        self.note(READY, recipe.as_bytes())
    }

    /// Creates the workspace with the files of `commit` and the ignored files that the work needs. Repeating it is harmless.
    pub(crate) async fn make(&self, origin: &Origin, commit: &Oid, refs: &RefList, patterns: &[String]) -> Result<Copied> {
        self.check_dir()?;
        self.prepare(origin, commit, refs).await?;
        let included = include::included(&origin.repo, patterns).await?;
        self.note(INCLUDED, &PathSet::new(included.iter().cloned()).bytes())?;
        include::copy_all(&origin.repo.place.top, self.top(), &included)
    }

    /// The ignored files of the user's checkout that the workspace lacks. A directory that is ignored as a whole counts as one.
    pub(crate) async fn missing_ignored(&self, origin: &Origin) -> Result<Vec<String>> {
        let ignored = include::ignored(&origin.repo).await?;
        let missing = |path: &PathBuf| self.top().join(path).symlink_metadata().is_err();
        Ok(ignored.into_iter().filter(missing).map(|path| path.display().to_string()).collect())
    }

    /// Whether the workspace contains anything that this process does not know about, and that must be saved before it is
    /// prepared.
    pub(crate) fn is_strange(&self) -> bool {
        let is_not_ours = |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|entry| entry.file_name() != ".git");
        !self.is_known() && fs::read_dir(self.top()).is_ok_and(|mut entries| entries.any(is_not_ours))
    }

    /// Whether every file in the tree `found` stems from git-ralph itself, which was interrupted while switching from one tree to
    /// another. Missing files do not matter, because nothing of them can be lost.
    pub(crate) async fn is_explained(&self, found: &Oid, before: Option<&Oid>) -> Result<bool> {
        let nothing = self.repo.empty_tree().await?;
        let before = before.unwrap_or(&nothing);
        let mut new = self.repo.diff_trees(before, found).await?;
        new.retain(|change| change.new_mode != 0);
        if let Some(to) = self.noted_tree(TURNING).filter(|_| !new.is_empty()) {
            let turned = self.repo.diff_trees(before, &to).await.unwrap_or_default();
            let turned: HashMap<&Path, &PathChange> = turned.iter().map(|change| (change.path.as_path(), change)).collect();
            let same = |one: &PathChange, other: &PathChange| (one.new_mode, &one.new_oid) == (other.new_mode, &other.new_oid);
            new.retain(|change| !turned.get(change.path.as_path()).is_some_and(|other| same(change, other)));
        }
        Ok(new.is_empty())
    }

    /// Makes the workspace a checkout of `commit` with a new git directory. Ignored files stay. The caller has saved unknown
    /// content.
    pub(crate) async fn prepare(&self, origin: &Origin, commit: &Oid, refs: &RefList) -> Result<Vec<Notice>> {
        self.check_place()?;
        self.check_index()?;
        let (index, mut notices) = (self.private_index(), Vec::new());
        let tree = self.repo.tree_of(commit).await?;
        self.leave_submodules(origin, commit).await?;
        self.leave_added_submodules(origin, commit).await?;
        let held = self.known.memory().tree.clone().filter(|_| index.exists());
        match held {
            Some(last) if last == tree => {}
            Some(last) => self.turn_over(&last, &tree, &mut notices).await?,
            None => {
                self.note(TURNING, format!("{tree}\n").as_bytes())?;
                self.repo.write_checkout(&index, &tree).await?;
            }
        }
        self.note_tree(&tree)?;
        origin.make_git_dir(self.top(), commit, refs, &index, &self.moved_dir("git")).await?;
        self.prepare_submodules(origin, commit).await?;
        let included = PathSet::load(&self.note_file(INCLUDED)).unwrap_or_default();
        let included: Vec<PathBuf> = included.paths().cloned().collect();
        for path in &included {
            // An agent may have replaced an ignored directory by a file or a symbolic link, which must not outlive its attempt.
            if let Some(barrier) = include::barrier(self.top(), path).filter(|barrier| !barrier.starts_with("..") && barrier.is_relative())
                && !self.repo.is_in(&tree, &barrier).await?
            {
                self.move_aside(&barrier, "in-the-way")?;
            }
        }
        include::copy_all(&origin.repo.place.top, self.top(), &included)?;
        Ok(notices)
    }

    /// Switches the files from the work of one attempt to the base of the next one.
    async fn turn_over(&self, from: &Oid, to: &Oid, notices: &mut Vec<Notice>) -> Result<()> {
        let changes = self.turn_into(from, to, notices).await?;
        self.move_unhidden_aside(&changes, "hidden", notices).await
    }

    /// Switches the files from one tree to another. Files in the way that are in no tree are moved into the run's directory.
    /// Returns the changes.
    pub(crate) async fn turn_into(&self, from: &Oid, to: &Oid, notices: &mut Vec<Notice>) -> Result<Vec<PathChange>> {
        let changes = self.repo.diff_trees(from, to).await?;
        let label = "in-the-way";
        self.note(TURNING, format!("{to}\n").as_bytes())?;
        for path in self.make_room(&changes, label)? {
            let moved = self.moved_dir(label).display().to_string();
            notices.push(Notice::ObstacleMoved { path: path.display().to_string(), to: moved });
        }
        self.index_repo().switch_tree(&self.private_index(), from, to, Reach::AsConfigured).await?;
        self.note_tree(&self.repo.tree_of(to).await?)?;
        Ok(changes)
    }

    /// Whether this process knows the content of the workspace: it has taken a snapshot, and no agent has worked there since.
    pub(crate) fn is_known(&self) -> bool {
        let quiet = self.known.memory().quiet;
        quiet && self.is_index_ours()
    }

    /// Notes that an agent or a gate is about to work in the workspace.
    pub(crate) fn hand_over(&self) {
        let mut memory = self.known.memory();
        memory.quiet = false;
        memory.submodules.values().for_each(Workspace::hand_over);
    }

    /// A snapshot of all files in the workspace, compared with `base`.
    pub(crate) async fn snapshot_of_work(&self, base: &Oid, label: &str, notices: &mut Vec<Notice>) -> Result<Snapshot> {
        self.snapshot_above(None, base, label, notices).await
    }

    /// The same, including ignored files that the agent tracks in its commit `committed`.
    pub(crate) async fn snapshot_above(
        &self,
        committed: Option<&Oid>,
        base: &Oid,
        label: &str,
        notices: &mut Vec<Notice>,
    ) -> Result<Snapshot> {
        self.check_place()?;
        self.check_index()?;
        if let Some(oid) = committed {
            self.index_repo().read_tree(&self.private_index(), oid).await?;
        }
        let snapshot = self.snapshot_to_leave(None, base, label, notices).await?;
        self.note_tree(&snapshot.tree)?;
        Ok(snapshot)
    }

    /// Whether the workspace exists in its place and is no symbolic link.
    pub(crate) fn is_there(&self) -> bool {
        self.top().symlink_metadata().is_ok_and(|meta| meta.is_dir()) && self.top().canonicalize().is_ok_and(|real| real == self.top())
    }

    /// Makes sure that the workspace is a writable directory in its place: an agent may have deleted it, replaced it by a
    /// symbolic link, or made it read-only.
    fn check_place(&self) -> Result<()> {
        let top = self.top();
        match top.symlink_metadata() {
            Ok(meta) if meta.is_dir() => relocate::open(top, &meta),
            Ok(_) => {
                let aside = self.moved_dir("workspace");
                relocate::discard(top, &aside).with_context(|| format!("{} is not a directory", top.display()))?;
                fs::create_dir(top).with_context(|| format!("cannot create {}", top.display()))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(top).with_context(|| format!("cannot create {}", top.display()))?;
            }
            Err(error) => return Err(error).with_context(|| format!("cannot use {}", top.display())),
        }
        let real = top.canonicalize().with_context(|| format!("cannot use {}", top.display()))?;
        if real == top { Ok(()) } else { bail!("{} leads to {}: an agent may have put a link there", top.display(), real.display()) }
    }
}
