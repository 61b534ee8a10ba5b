//! The one door to git processes, and typed questions and actions on a repository. Knows nothing of stories.

mod described;
mod door;
mod head;
mod oid;
mod place;
mod refs;
mod repo;
pub mod stale;
mod stash;

pub use described::DescribedRef;
pub use door::{Answer, Call, Git, GitError, Limits};
pub use head::Head;
pub use oid::Oid;
pub use place::{Place, discover};
pub use refs::{RefEntry, RefList, RefUpdate};
pub use repo::{Merge, PathChange, Repo, Signature, Tolerance, TreeEntry, is_opaque_directory, without_slash};
pub use stash::StashEntry;
