//! What was put right, moved or left out while the protocol did its work; said in words by the reporter.

use serde::{Deserialize, Serialize};

use crate::git::Oid;

/// Something that the user should hear of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Notice {
    /// A merge, rebase or the like was left under way; its files were moved.
    OperationMoved { files: Vec<String>, to: String },
    /// HEAD was elsewhere and is on the branch again.
    HeadReattached { from: String },
    /// Work was done on another line of history and was brought over.
    BroughtOver { from: String },
    /// A repository inside the work tree is not part of the checkpoint.
    NestedLeftOut { path: String },
    /// A repository inside the work tree was moved out of it.
    NestedMoved { path: String, to: String },
    /// Something was in the way and was moved.
    ObstacleMoved { path: String, to: String },
    /// Something appeared when ignore rules of the attempt went, and was moved.
    HiddenMoved { path: String, to: String },
    /// git could not keep some files; they are where they were.
    Unkept { error: String },
    /// A branch, tag or note was deleted or rewound, and is where it was.
    RefRestored { name: String, kept: Option<String> },
    /// A branch has got new commits; it is left alone.
    RefMovedOn { name: String, to: String },
    /// A branch was changed where somebody else works on it; it is left alone.
    RefOfOthers { name: String, kept: Option<String> },
    /// A branch made the run's own branch impossible, and was moved.
    RefInTheWay { name: String, kept: String },
    /// Stash entries were missing and are back; entries of a failed attempt went with it.
    StashRestored { gone: usize, taken: usize },
    /// Configuration or hooks were changed by an attempt that has landed.
    GitFileChanged { name: String },
    /// Configuration or hooks were changed by an attempt that has failed, and are as before.
    GitFileRestored { name: String, kept: String },
    /// Files of the run itself were deleted and are back.
    StateRestored {},
    /// A submodule is what it was; what it had become is kept in it.
    SubmoduleRestored { path: String, kept: String },
    /// A small ignored file was deleted and is back.
    IgnoredRestored { path: String },
    /// The agent's commits that are not part of the checkpoint are kept.
    CommitsKept { kept: String },
    /// What was staged at the start could not be staged again.
    NotStagedAgain { kept: String },
    /// A checkpoint that is about to be undone is in other branches too.
    AlsoIn { branches: Vec<String> },
    /// An undo took edits of the user's out of the work tree.
    EditsTakenOut { files: usize, kept: String },
    /// An undo took commits of the user's off the branch.
    CommitsTakenOut { last: Oid, kept: String },
}
