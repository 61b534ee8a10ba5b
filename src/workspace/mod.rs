//! A directory that an attempt works in: its snapshot and its restoring, and everything that no tree object holds.
//!
//! This is what is on the disk; what is true is in [`crate::branch`]. Three rules hold everywhere here. Safety never depends on
//! HEAD, the branch or the repository's index, for they belong to the agent while it works: ids are recorded, and our own work
//! happens on a private index. A snapshot is under a ref before anything is taken out of the directory. What git cannot keep is
//! renamed into the run's directory, never removed.

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
pub use isolated::{Leftover, WorkspaceOwner, check_outside, directory as workspace_directory, found_below as workspaces_below};
pub use moment::Moment;
pub use notice::{Doubt, Notice};
pub(crate) use snapshot::{GITLINK, Snapshot, has_looked};
pub(crate) use submodules::SubmoduleRecord;
pub(crate) use switch::Switch;

use crate::git::Repo;
use crate::names::Names;

/// Which kind of directory a workspace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkspaceKind {
    /// The user's own checkout. The agent shares its git directory, so refs, stash, configuration and hooks are guarded.
    InPlace,
    /// A private clone. The agent has a git directory of its own, and cannot reach the user's refs.
    Isolated,
}

/// A directory that an attempt works in, with the files that the run keeps about it.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The user's repository, with this directory as its work tree.
    pub repo: Repo,
    names: Names,
    /// Where the private index and everything else about the directory is kept.
    dir: PathBuf,
    kind: WorkspaceKind,
    /// The labels of the attempts that this process has seen begin.
    watched: Arc<Mutex<BTreeSet<String>>>,
    /// When this process has last listed what git does not track: between two processes the user may have made anything.
    listed: Arc<Mutex<snapshot::Listed>>,
    /// The git directory, wherever an agent moves it.
    anchor: in_place::Anchor,
    /// What we have recorded about an attempt, against those who write into it.
    sealed: in_place::Sealed,
    object_links: in_place::ObjectLinks,
    /// Whether a private clone is known to hold what we left in it.
    known: isolated::Known,
    /// Compares what is guarded with its copies.
    mirror: in_place::Mirror,
    walk_began: switch::WalkBegan,
}

impl Workspace {
    /// The user's checkout as the directory to work in; what is kept about it goes into `dir`.
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

    /// Where the run keeps its files about the directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The index on which all of our own work happens.
    #[must_use]
    pub fn private_index(&self) -> PathBuf {
        self.dir.join("index")
    }

    /// The user's index of before the run, byte for byte.
    #[must_use]
    pub fn original_index(&self) -> PathBuf {
        self.dir.join("index.orig")
    }

    /// Where something is moved to that is in the way and that git cannot keep.
    #[must_use]
    pub fn moved_dir(&self, label: &str) -> PathBuf {
        self.dir.join("moved").join(label)
    }
}
