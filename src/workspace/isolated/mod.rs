//! A private clone as the directory that attempts work in. The agent has a git of its own there: whatever it does to it stays there.
//!
//! Our own work on the directory goes through the user's git directory and a private index, so nothing that the agent writes to its
//! git directory has any effect on what is saved and landed.

mod carried;
mod git_dir;
mod include;
mod place;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

pub(crate) use git_dir::{AgentsCommits, Origin};
pub(crate) use include::Copied;
pub(crate) use place::WorkspaceRoot;
pub use place::{WorkspaceOwner, check_outside, directory, found_below, remove};

use super::path_set::PathSet;
use super::{Notice, Snapshot, Workspace, WorkspaceKind, in_place};
use crate::git::{Oid, Reach, RefList, Repo, TreeEntry};
use crate::names::Names;

/// The tree that the directory is known to hold.
const TREE: &str = "tree";
/// The ignored files that were copied into it.
const INCLUDED: &str = "included";
/// Is there once the directory was set up: what it was set up by.
const READY: &str = "ready";

/// Whether the directory is known to hold the tree that is written down; only this process can know.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(Arc<AtomicBool>);

impl Workspace {
    /// A private clone at `top`; what is kept about it goes into `dir`.
    #[must_use]
    pub(crate) fn isolated(user: &Repo, names: Names, dir: PathBuf, top: PathBuf) -> Self {
        let mut repo = user.clone();
        repo.git = repo.git.elsewhere(&top, Some(&user.place.git_dir)).with_index(dir.join("no-index"));
        repo.place.top.clone_from(&top);
        let anchor = in_place::Anchor::of(&dir, &top);
        Workspace::of_kind(WorkspaceKind::Isolated, repo, names, dir, anchor)
    }

    fn top(&self) -> &Path {
        &self.repo.place.top
    }

    /// The tree that the directory held when we looked last.
    pub(crate) fn last_tree(&self) -> Option<Oid> {
        fs::read_to_string(self.dir.join(TREE)).ok()?.trim_end().parse().ok()
    }

    fn note_tree(&self, tree: &Oid) -> Result<()> {
        fs::write(self.dir.join(TREE), format!("{tree}\n")).with_context(|| format!("cannot write to {}", self.dir.display()))?;
        self.known.0.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// What a directory is set up by: the ignored files that are listed to be copied, and the commands. When the user changes one of
    /// them, the directory is set up again.
    pub(crate) fn recipe(origin: &Origin, patterns: &[String], commands: &[String]) -> String {
        [include::listed(&origin.repo).unwrap_or_default(), patterns.join("\n"), commands.join("\n")].join("\0")
    }

    /// Whether the directory has been set up by this recipe.
    pub(crate) fn is_ready(&self, recipe: &str) -> bool {
        fs::read_to_string(self.dir.join(READY)).is_ok_and(|by| by == recipe) && self.top().join(".git").is_dir()
    }

    /// Notes that the directory is set up: what is ignored in it now is not to be committed, whatever an agent does to ignore rules.
    pub(crate) async fn note_ready(&self, recipe: &str, has_ignored: bool) -> Result<()> {
        let ignored = |entry| if let TreeEntry::Ignored(path) = entry { Some(path) } else { None };
        let entries = if has_ignored { self.repo.status(&self.private_index()).await? } else { Vec::new() };
        self.save_protected(&PathSet::new(entries.into_iter().filter_map(ignored)))?;
        fs::write(self.dir.join(READY), recipe).with_context(|| format!("cannot write to {}", self.dir.display()))
    }

    /// Makes the directory with the files of `commit` and the ignored files that the work needs. Doing it twice is harmless.
    pub(crate) async fn make(&self, origin: &Origin, commit: &Oid, refs: &RefList, patterns: &[String]) -> Result<Copied> {
        fs::create_dir_all(&self.dir).with_context(|| format!("cannot create {}", self.dir.display()))?;
        if self.top().symlink_metadata().is_ok() && self.last_tree().is_none() {
            bail!("{} exists already, and git-ralph did not make it", self.top().display());
        }
        self.prepare(origin, commit, refs).await?;
        let included = include::included(&origin.repo, patterns).await?;
        PathSet::new(included.iter().cloned()).save(&self.dir.join(INCLUDED))?;
        include::copy_all(&origin.repo.place.top, self.top(), &included)
    }

    /// The ignored files of the user's checkout that are not in the directory; those that are ignored as a whole by their directory.
    pub(crate) async fn missing_ignored(&self, origin: &Origin) -> Result<Vec<String>> {
        let ignored = include::ignored(&origin.repo).await?;
        let missing = |path: &PathBuf| self.top().join(path).symlink_metadata().is_err();
        Ok(ignored.into_iter().filter(missing).map(|path| path.display().to_string()).collect())
    }

    /// Makes the directory a checkout of `commit`, with a git directory that is made anew. Ignored files stay. Work that was left in
    /// it since we looked last is given back as a snapshot, to be saved by the caller before this is called again.
    pub(crate) async fn prepare(&self, origin: &Origin, commit: &Oid, refs: &RefList) -> Result<Vec<Notice>> {
        self.check_place()?;
        let (index, mut notices) = (self.private_index(), Vec::new());
        let tree = self.repo.tree_of(commit).await?;
        match self.last_tree().filter(|_| index.exists()) {
            None => {
                let _ = fs::remove_file(&index);
                self.repo.write_checkout(&index, &tree).await?;
            }
            Some(last) if last == tree => {}
            Some(last) => self.turn_into(&last, &tree, &mut notices).await?,
        }
        self.note_tree(&tree)?;
        origin.make_git_dir(self.top(), commit, refs, &index, &self.moved_dir("git")).await?;
        let included = PathSet::load(&self.dir.join(INCLUDED)).unwrap_or_default();
        let included: Vec<PathBuf> = included.paths().cloned().collect();
        include::copy_all(&origin.repo.place.top, self.top(), &included)?;
        Ok(notices)
    }

    /// Turns the files of one tree into those of another. What is in the way and in no tree is moved into the run's directory.
    pub(crate) async fn turn_into(&self, from: &Oid, to: &Oid, notices: &mut Vec<Notice>) -> Result<()> {
        let changes = self.repo.diff_trees(from, to).await?;
        let label = "in-the-way";
        for path in self.make_room(&changes, label)? {
            let moved = self.moved_dir(label).display().to_string();
            notices.push(Notice::ObstacleMoved { path: path.display().to_string(), to: moved });
        }
        self.index_repo().switch_tree(&self.private_index(), from, to, Reach::AsConfigured).await?;
        self.note_tree(&self.repo.tree_of(to).await?)
    }

    /// Whether this process knows that the directory holds what it should: it looked, and no agent has been at work since.
    pub(crate) fn is_known(&self) -> bool {
        self.known.0.load(Ordering::Relaxed)
    }

    /// An agent is about to work in the directory.
    pub(crate) fn hand_over(&self) {
        self.known.0.store(false, Ordering::Relaxed);
    }

    /// Everything in the directory as a tree, compared with `base`.
    pub(crate) async fn snapshot_of_work(&self, base: &Oid, label: &str, notices: &mut Vec<Notice>) -> Result<Snapshot> {
        self.check_place()?;
        let snapshot = self.snapshot_to_leave(None, base, label, notices).await?;
        self.note_tree(&snapshot.tree)?;
        Ok(snapshot)
    }

    /// The directory is there, and it is a directory: an agent may have deleted it, or put a link in its place.
    fn check_place(&self) -> Result<()> {
        let top = self.top();
        match top.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => {
                let aside = self.moved_dir("workspace");
                crate::relocate::discard(top, &aside).with_context(|| format!("{} is not a directory", top.display()))?;
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
