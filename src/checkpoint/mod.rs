//! The protocol on the repository: begin, land, roll back, rescue, undo, finish, abort. An attempt is a transaction.
//!
//! Three rules hold everywhere here. The safety of a run never depends on HEAD, the branch or the repository's
//! index, for they belong to the agent while it works: ids are recorded, and our own work happens on a private
//! index. A snapshot is kept under a ref before anything is taken out of the work tree. What git cannot keep is
//! renamed into the run's directory, never removed.

mod baseline;
mod begin;
mod foreign_refs;
mod guard;
mod home;
mod ignored_copies;
mod index;
mod keepsakes;
mod land;
mod lately;
mod modes;
mod names;
mod notice;
mod obstacles;
mod plan;
mod protected;
mod repair;
mod rollback;
mod settle;
mod shortcut;
mod sights;
mod snapshot;
mod special;
mod submodules;
mod undo;

use std::path::PathBuf;

pub use begin::{Beginning, Begun, preflight};
pub use home::{Departure, Homecoming, Itinerary, Route};
pub use land::{Landed, Style};
pub use names::Names;
pub use notice::Notice;
pub use plan::{cleanup as plan_cleanup, keep as plan_keep, start as plan_start};
pub use rollback::RolledBack;
pub use settle::Settled;
pub use undo::TakenBack;

pub use crate::git::Signature;
use crate::git::{Oid, Repo};
use crate::story::ChangeName;

/// The commits that a run stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footing {
    /// The last checkpoint, or the initial state: where the branch is between attempts.
    pub checkpoint: Oid,
    /// What the work tree holds between attempts: the checkpoint, or a snapshot with the user's edits on it.
    pub base: Oid,
}

/// One run's hold on a repository.
#[derive(Clone, Debug)]
pub struct Keeper {
    /// The repository.
    pub repo: Repo,
    /// The names of the run's refs.
    pub names: Names,
    /// The run's directory.
    pub dir: PathBuf,
    lately: lately::Lately,
}

impl Keeper {
    /// A hold on `repo` for a run of `change` that keeps its files in `dir`.
    #[must_use]
    pub fn new(mut repo: Repo, change: &ChangeName, dir: PathBuf) -> Self {
        // Even commands that need no index read the repository's own one, and fail if the agent has damaged it.
        repo.git = repo.git.with_env([("GIT_INDEX_FILE", dir.join("no-index").into())]);
        let mut keeper = Keeper { repo, names: Names::new(change), dir, lately: lately::Lately::default() };
        keeper.pin_conversion();
        keeper
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
