//! Records a directory before a run touches it: its files as a tree object, and everything else in the run's directory.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::path_set::PathSet;
use super::snapshot::{Listed, nested};
use super::tree_scan::TreeScan;
use super::{Moment, Notice, Workspace};
use crate::git::{Head, Hidden, Listing, Oid, TreeEntry};

/// The state of the directory before the run.
pub(crate) struct FirstLook {
    /// The tree of all files in the directory.
    pub tree: Oid,
    /// A commit of the index.
    pub staged: Oid,
    /// Messages for the user.
    pub notices: Vec<Notice>,
}

/// The raw observations that [`FirstLook`] is made from.
struct Scene {
    /// The tree of the user's index.
    staged_tree: Oid,
    /// A commit of that tree.
    staged: Oid,
    /// What `git status` lists.
    entries: Vec<TreeEntry>,
    /// The warnings that `git status` printed.
    words: String,
    /// Entries that are marked skip-worktree or assume-unchanged.
    hidden: Hidden,
    /// Paths of gitlinks (mode 160000) in the user's index.
    gitlinks: Vec<PathBuf>,
    /// Empty directories, modes and attributes, which git does not report.
    scan: TreeScan,
}

impl Workspace {
    /// Records the state before the run. Changes nothing in the work tree.
    pub(crate) async fn first_look(&self, original: &Head) -> Result<FirstLook> {
        self.keep_original_index().await?;
        let parents: Vec<&Oid> = original.oid().into_iter().collect();
        let scene = self.look_around(&parents).await?;
        let ignored = scene.entries.iter().filter_map(|entry| if let TreeEntry::Ignored(path) = entry { Some(path.clone()) } else { None });
        let protected = PathSet::new(ignored);
        self.save_protected(&protected)?;
        self.copy_ignored_at_start().context("cannot copy ignored files")?;
        self.save_nested(&scene.entries.iter().filter_map(nested).collect::<Vec<_>>())?;
        self.save_embedded(&scene.gitlinks)?;
        self.note_listing(Listed::AtStart);
        let notices = self.copy_nested_at_start()?;
        self.repo.unhide(&self.private_index(), &scene.hidden).await?;
        let seen_all = scene.hidden.is_empty() && scene.words.is_empty();
        let known = if seen_all { self.snapshot_from_status(&scene.entries, &scene.staged_tree).await? } else { None };
        let snapshot = match known {
            Some(snapshot) => snapshot,
            None => self.snapshot(&scene.staged_tree).await?,
        };
        snapshot.check_whole()?;
        self.protect_unopened(&snapshot)?;
        let committed = match original.oid() {
            Some(oid) => oid.clone(),
            None => self.repo.empty_tree().await?,
        };
        self.note_git_dirs()?;
        self.keep_submodules_at_start().await?;
        self.copy_git_dirs("start")?;
        let scan = scene.scan.completed(&self.repo.place.top, &protected);
        self.keep_raw_bytes(&self.repo.diff_trees(&committed, &snapshot.tree).await?, &scan).await?;
        Ok(FirstLook { tree: snapshot.tree, staged: scene.staged, notices })
    }

    /// The tree of all files in the directory, and a commit of the index. Records nothing to restore from, because the run will
    /// not touch the directory.
    pub(crate) async fn look_only(&self, parents: &[&Oid]) -> Result<(Oid, Oid)> {
        self.keep_original_index().await?;
        let index = self.private_index();
        let hidden = if index.exists() { self.repo.listing(&index).await?.hidden } else { Hidden::default() };
        let staged_tree = self.repo.write_tree(&index).await?;
        let staged = self.repo.commit(&staged_tree, parents, "index at the start\n").await?;
        self.repo.unhide(&index, &hidden).await?;
        let snapshot = self.snapshot(&staged_tree).await?;
        snapshot.check_whole()?;
        self.save_protected(&PathSet::default())?;
        Ok((snapshot.tree, staged))
    }

    /// Runs `git status`, our own scan and the commit of the index at the same time.
    async fn look_around(&self, parents: &[&Oid]) -> Result<Scene> {
        let index = self.private_index();
        let Listing { hidden, directories, gitlinks } = if index.exists() { self.repo.listing(&index).await? } else { Listing::default() };
        let top = self.repo.place.top.clone();
        let look = tokio::task::spawn_blocking(move || TreeScan::of(&top, &directories));
        let stage = async {
            let tree = self.repo.write_tree(&index).await?;
            let commit = self.repo.commit(&tree, parents, "index at the start\n").await?;
            Ok::<_, anyhow::Error>((tree, commit))
        };
        let (staged, status, scan) = tokio::join!(stage, self.repo.status_with_words(&index), look);
        let ((staged_tree, staged), (entries, words)) = (staged?, status?);
        Ok(Scene { staged_tree, staged, entries, words, hidden, gitlinks, scan: scan? })
    }

    /// Puts HEAD on the run's branch and installs an index of the initial state.
    pub(crate) async fn enter(&self, original: &Head, initial: &Oid) -> Result<()> {
        let reason = format!("checkout: moving from {} to {}", original.words(), self.names.short_branch());
        self.repo.attach_head(&self.names.branch(), &reason).await?;
        if !self.private_index().exists() {
            self.repo.read_tree(&self.private_index(), initial).await?;
        }
        self.install_index(&self.private_index()).await?;
        self.note_baseline(Moment::Start)
    }
}
