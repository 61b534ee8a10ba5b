//! Runs git processes, and defines typed queries and modifications of a repository. Knows nothing about stories.

mod actions;
mod conversion;
mod described;
mod door;
mod head;
mod index_entries;
mod oid;
mod operations;
mod patches;
mod place;
mod questions;
mod refs;
mod repo;
mod spot;
pub mod stale;
mod stash;
mod unconverted;

pub use actions::{Reach, Signature, Tolerance, Written};
pub use conversion::{Conversion, ConvertedFile, LineEnds, attributes_convert};
pub use described::DescribedRef;
pub use door::{Answer, Call, Git, GitError, Limits};
pub use head::Head;
pub use index_entries::{Noted, RecentFile, changed_since, stage_the_same, tracked_paths};
pub use oid::Oid;
pub use operations::{OPERATION_FILES, operation_commits};
pub use patches::{Comparison, FileChange, Patch, PatchLimit};
pub use place::{Place, discover, worktree_id};
pub use questions::{DiffStat, Hidden, Listing, Merge, PathChange, ShallowEntries, TreeEntry};
pub use refs::{REPLACED, RefEntry, RefList, RefUpdate, may_have_refs_below};
pub use repo::{Repo, is_anonymous, is_opaque_directory, without_slash};
pub use spot::Spot;
pub use stash::StashEntry;
