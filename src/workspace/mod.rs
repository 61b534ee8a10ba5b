//! Manages the directory that an attempt works in: takes snapshots, restores them, and records everything that a tree object
//! cannot hold.
//!
//! This module deals with files on disk; the run's refs are in [`crate::branch`]. Three rules hold everywhere here. First, safety
//! never depends on HEAD, the branch or the repository's index, because the agent can change them: git-ralph records object ids
//! and works on a private index. Second, a snapshot is under a ref before any file is removed from the directory. Third, files
//! that git cannot store are renamed into the run's directory and never deleted.

mod aftermath;
mod around_attempt;
mod baseline;
mod first_look;
mod ignored_copies;
mod in_place;
mod index;
mod isolated;
mod modes;
mod moment;
mod nested_copies;
mod notice;
mod nul_records;
mod obstacles;
mod out_of_reach;
mod path_set;
mod planted;
mod raw_bytes;
mod restore;
mod same_second;
mod snapshot;
mod special;
mod staged;
mod submodules;
mod switch;
mod tree_scan;
mod untracked;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub(crate) use aftermath::Aftermath;
pub(crate) use first_look::FirstLook;
pub(crate) use ignored_copies::Treatment;
pub(crate) use in_place::{AttemptEnd, Findings, OriginalIndex, under_way_problem};
pub(crate) use isolated::{AgentsCommits, BELOW as WORKSPACES_BELOW, Copied, Origin, WorkspaceRoot};
pub use isolated::{
    Leftover, WorkspaceOwner, check_case, check_outside, directory as workspace_directory, found_below as workspaces_below,
};
pub use moment::Moment;
pub use notice::{Doubt, Notice};
pub(crate) use snapshot::{GITLINK, Snapshot, has_looked};
pub(crate) use submodules::SubmoduleRecord;
pub(crate) use switch::Switch;

use crate::git::Repo;
use crate::names::Names;

/// The kind of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkspaceKind {
    /// The user's own checkout. The agent shares its git directory, so refs, stash, configuration and hooks are guarded.
    InPlace,
    /// A private clone. The agent has a git directory of its own, and cannot reach the user's refs.
    Isolated,
}

/// A directory that an attempt works in, with the run's records about it.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The user's repository, with this directory as its work tree.
    pub repo: Repo,
    names: Names,
    /// The directory of the private index and all other records about the workspace.
    dir: PathBuf,
    kind: WorkspaceKind,
    /// The labels of the attempts that this process recorded before they began.
    watched: Arc<Mutex<BTreeSet<String>>>,
    /// When this process last listed untracked files. Between two processes the user may have created any.
    listed: Arc<Mutex<snapshot::Listed>>,
    /// Open handles that find the work tree and the git directory even if an agent moves them.
    anchor: in_place::Anchor,
    /// Protects the records about an attempt against modification.
    sealed: in_place::Sealed,
    object_links: in_place::ObjectLinks,
    /// What is known about the content of a private clone.
    known: isolated::Known,
    /// Compares guarded files with their copies.
    mirror: in_place::Mirror,
    walk_began: switch::WalkBegan,
}

impl Workspace {
    /// The user's checkout as a workspace. The records about it go into `dir`.
    #[must_use]
    pub fn in_place(repo: Repo, names: Names, dir: PathBuf) -> Self {
        let anchor = in_place::Anchor::of(&repo.place.common_dir, &repo.place.top);
        let kind = WorkspaceKind::InPlace;
        let mut workspace = Workspace::of_kind(kind, repo, names, dir, anchor);
        workspace.pin_conversion();
        workspace
    }

    fn of_kind(kind: WorkspaceKind, repo: Repo, names: Names, dir: PathBuf, anchor: in_place::Anchor) -> Self {
        let (watched, listed, sealed, object_links, known, mirror, walk_began) = Default::default();
        Workspace { repo, names, dir, kind, watched, listed, anchor, sealed, object_links, known, mirror, walk_began }
    }

    /// The directory of the run's records about the workspace.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The index that git-ralph works on, separate from the repository's own.
    #[must_use]
    pub fn private_index(&self) -> PathBuf {
        self.dir.join("index")
    }

    /// A byte-for-byte copy of the user's index from before the run.
    #[must_use]
    pub fn original_index(&self) -> PathBuf {
        self.dir.join("index.orig")
    }

    /// The directory to which files are moved that are in the way and that git cannot store.
    #[must_use]
    pub fn moved_dir(&self, label: &str) -> PathBuf {
        self.dir.join("moved").join(label)
    }
}
