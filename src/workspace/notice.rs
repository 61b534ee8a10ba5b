//! What was repaired, moved or left out; the reporter puts it into words.

use serde::{Deserialize, Serialize};

use crate::git::Oid;
use crate::story::StoryId;

/// What is wrong with a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// It was changed while we were writing it, and is as we wrote it again.
    Changed,
    /// It held lines that we have not written.
    Forged,
    /// It ends earlier than we left it.
    Short,
    /// Nothing outside of the repository can vouch for it.
    NoKey,
}

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
    /// A workspace held edits that no agent had made; they were saved under a ref.
    WorkspaceSaved { path: String, kept: String },
    /// A repository inside the work tree is not part of the checkpoint.
    NestedLeftOut { path: String },
    /// A repository inside the work tree was moved out of it.
    NestedMoved { path: String, to: String },
    /// A repository of the user's inside the work tree is too big to be copied.
    NestedUncopied { path: String },
    /// A repository of the user's inside the work tree is as it was; what it had become is aside.
    NestedRestored { path: String, kept: Option<String> },
    /// A landed attempt changed a repository of the user's inside the work tree; there is a copy from before.
    NestedEdited { path: String, copy: String },
    /// A repository of the user's inside the work tree is gone, and there is no copy.
    NestedLost { path: String },
    /// Somebody wrote a file while the work tree was being restored; the edit is aside.
    LateEdit { path: String, to: String },
    /// Something was in the way and was moved.
    ObstacleMoved { path: String, to: String },
    /// Something appeared when ignore rules of the attempt went, and was moved.
    HiddenMoved { path: String, to: String },
    /// git could not keep some files; they are where they were.
    Unkept { error: String },
    /// git could not keep a file of an attempt; it was moved.
    UnkeptMoved { path: String, to: String },
    /// Directories belong to another user, so files in them could be neither removed (`remaining`) nor restored (`changed`) to what they
    /// are in the tree `wanted`.
    OutOfReach { directories: Vec<String>, owner: u32, remaining: Vec<String>, changed: Vec<String>, wanted: Oid },
    /// A filter or an encoding failed, so files were kept byte for byte.
    Unconverted { error: String },
    /// A filter failed, so these files hold what git stores, not what the filter makes of it.
    Unfiltered { paths: Vec<String> },
    /// A branch, tag or note was deleted or rewound, and is where it was.
    RefRestored { name: String, kept: Option<String> },
    /// A ref names an object that does not exist; it is left alone.
    RefBroken { name: String },
    /// The git directory had been moved, and is back.
    GitDirRestored { from: String },
    /// The work tree was moved, and is back.
    WorkTreeRestored { from: String },
    /// Directories had been made unusable, and can be used again.
    OpenedUp { paths: Vec<String> },
    /// A ref was deleted or moved, and what it pointed at is not in the repository any more.
    RefLost { name: String },
    /// A branch has got new commits; it is left alone.
    RefMovedOn { name: String, to: String },
    /// A branch was changed in another work tree that has it checked out; it is left alone.
    RefOfOthers { name: String, kept: String },
    /// A branch made the run's own branch impossible, and was moved.
    RefInTheWay { name: String, kept: String },
    /// Stash entries were missing and are back; entries of a failed attempt went with it.
    StashRestored { gone: usize, taken: usize },
    /// Configuration or hooks were changed by an attempt that has landed; what they were before is kept.
    GitFileChanged {
        name: String,
        #[serde(default)]
        before: Option<String>,
    },
    /// Configuration or hooks were changed by an attempt that has failed, and are as before.
    GitFileRestored { name: String, kept: String },
    /// Settings that name commands or steer a run were changed by an attempt, and are as before; the whole file is kept.
    SettingsRestored { story: StoryId, name: String, keys: Vec<String>, kept: String },
    /// The change file or the prompt template was written to while an attempt was under way, and is as before.
    EditSetAside { story: StoryId, file: String, kept: Option<String> },
    /// A checkpoint changes a file that one of its gates names.
    GateFileChanged { story: StoryId, gate: String, path: String },
    /// An attempt has written an ignored file that one of its gates names.
    GateFileIgnored { story: StoryId, gate: String, path: String },
    /// A checkpoint changes nothing.
    EmptyCheckpoint { story: StoryId },
    /// The checkpoint of a story that the user marked as done changes nothing.
    EmptyByHand { story: StoryId },
    /// A runner was killed because it did not end when it was asked to: what it started may still be running elsewhere.
    MayStillRun { story: StoryId, runner: String },
    /// A worker on another machine could not bring everything along.
    FromWorker { story: StoryId, warning: String },
    /// A ref could not be deleted on a hub.
    LeftOnHub { hub: String, name: String, error: String },
    /// The user's index of before the run could not be given back as it was; one that holds the same was made.
    IndexRebuilt {},
    /// What was staged before the run could not be staged again, because somebody deleted it.
    StagedLost {},
    /// The journal was not what git-ralph had written.
    JournalDoubted { why: Doubt, kept: Option<String> },
    /// Files of the run itself were deleted and are back.
    StateRestored {},
    /// A submodule is what it was; what it had become is kept in it.
    SubmoduleRestored { path: String, kept: String },
    /// The run has moved a submodule on; its files in the checkout are as they were.
    SubmoduleMoved { path: String, commit: String },
    /// A small ignored file was deleted and is back.
    IgnoredRestored { path: String },
    /// Small ignored files were changed and are as before; what they had become is in a directory.
    IgnoredPutBack { paths: Vec<String>, kept: String },
    /// A landed attempt changed small ignored files; copies from before are in a directory.
    IgnoredEdited { paths: Vec<String>, copies: String },
    /// Ignored files or directories of which there is no copy were changed or removed.
    IgnoredNotRestored { paths: Vec<String> },
    /// The agent's commits that are not part of the checkpoint are kept.
    CommitsKept { kept: String },
    /// What was staged during a landed attempt, and is not in its checkpoint, is kept.
    StagedKept { kept: String },
    /// Stash entries that an interrupted attempt or the user has made were left in the stash.
    StashLeft { entries: usize },
    /// What was staged at the start could not be staged again.
    NotStagedAgain { kept: String },
    /// A checkpoint that is about to be undone is in other branches too.
    AlsoIn { branches: Vec<String> },
    /// An undo, or a finish that was cut short before, took edits of the user's out of the work tree.
    EditsTakenOut { files: usize, kept: String },
    /// An undo took commits of the user's off the branch.
    CommitsTakenOut { last: Oid, kept: String },
}

impl Notice {
    /// Whether something is not as it was, after everything that was possible has been done to restore it.
    #[must_use]
    pub fn is_a_difference(&self) -> bool {
        matches!(
            self,
            Notice::Unkept { .. }
                | Notice::OutOfReach { .. }
                | Notice::Unfiltered { .. }
                | Notice::NotStagedAgain { .. }
                | Notice::RefBroken { .. }
                | Notice::IgnoredNotRestored { .. }
                | Notice::NestedLost { .. }
        )
    }

    /// The story whose checkpoint the user should look at more closely because of this.
    #[must_use]
    pub fn doubted(&self) -> Option<&StoryId> {
        match self {
            Notice::SettingsRestored { story, .. }
            | Notice::EditSetAside { story, .. }
            | Notice::GateFileChanged { story, .. }
            | Notice::GateFileIgnored { story, .. }
            | Notice::EmptyCheckpoint { story }
            | Notice::EmptyByHand { story } => Some(story),
            _ => None,
        }
    }
}
