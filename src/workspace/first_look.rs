//! The first look at a directory, before a run touches it: everything in it becomes a tree, and what no tree holds is noted.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::path_set::PathSet;
use super::snapshot::{Listed, nested};
use super::tree_scan::TreeScan;
use super::{Moment, Notice, Workspace};
use crate::git::{Head, Hidden, Listing, Oid, TreeEntry};

/// The directory as it is before the run.
pub(crate) struct FirstLook {
    /// The tree of everything in it.
    pub tree: Oid,
    /// A commit of what is staged.
    pub staged: Oid,
    /// What the user should hear of.
    pub notices: Vec<Notice>,
}

/// What a run finds before it begins.
struct Scene {
    /// The tree that the user's index stands for.
    staged_tree: Oid,
    /// A commit of it.
    staged: Oid,
    /// What `git status` lists.
    entries: Vec<TreeEntry>,
    /// Warnings of `git status`.
    words: String,
    /// Entries that are marked skip-worktree or assume-unchanged.
    hidden: Hidden,
    /// Paths that the user's index has as repositories of their own.
    gitlinks: Vec<PathBuf>,
    /// Empty directories, modes and attributes, which git does not report.
    scan: TreeScan,
}

impl Workspace {
    /// Takes down everything that is there before the run. Nothing of the user's is touched.
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
        let told = if seen_all { self.snapshot_from_status(&scene.entries, &scene.staged_tree).await? } else { None };
        let snapshot = match told {
            Some(snapshot) => snapshot,
            None => self.snapshot(&scene.staged_tree).await?,
        };
        snapshot.check_whole()?;
        self.protect_unopened(&snapshot)?;
        let committed = match original.oid() {
            Some(oid) => oid.clone(),
            None => self.repo.empty_tree().await?,
        };
        self.keep_submodules_at_start().await?;
        self.copy_git_dirs("start")?;
        let scan = scene.scan.completed(&self.repo.place.top, &protected);
        self.keep_raw_bytes(&self.repo.diff_trees(&committed, &snapshot.tree).await?, &scan).await?;
        Ok(FirstLook { tree: snapshot.tree, staged: scene.staged, notices })
    }

    /// The tree of everything in the directory, and a commit of what is staged. Nothing is recorded for a return: nothing in the
    /// directory is going to be touched.
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

    /// Looks at everything at the same time: git's own walk, ours, and what is staged.
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

    /// Puts the directory on the run's branch: HEAD, and an index that is the initial state.
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
