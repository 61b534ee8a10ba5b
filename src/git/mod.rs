//! The one door to git processes, and typed questions and actions on a repository. Knows nothing of stories.

mod actions;
mod conversion;
mod described;
mod door;
mod head;
mod objects;
mod oid;
mod place;
mod questions;
mod refs;
mod repo;
pub mod stale;
mod stash;
mod trees;

pub use actions::{Reach, Signature, Tolerance};
pub use conversion::{Conversion, LineEnds, Unlike, attributes_convert};
pub use described::DescribedRef;
pub use door::{Answer, Call, Git, GitError, Limits};
pub use head::Head;
pub use oid::Oid;
pub use place::{Place, discover, worktree_id};
pub use questions::{Hidden, Listing, Merge, PathChange, TreeEntry};
pub use refs::{RefEntry, RefList, RefUpdate};
pub use repo::{Repo, is_anonymous, is_opaque_directory, without_slash};
pub use stash::StashEntry;
