//! Defines the notices about repaired, moved and omitted things; the reporter renders them as text.

use serde::{Deserialize, Serialize};

use crate::git::Oid;
use crate::story::StoryId;

/// What is wrong with a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// It was changed while git-ralph was writing it, and has been restored.
    Changed,
    /// It contained lines that git-ralph did not write.
    Forged,
    /// It ends earlier than git-ralph left it.
    Short,
    /// There is no key outside of the repository to verify it.
    NoKey,
}

/// A message for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Notice {
    /// A merge, rebase or other operation was left unfinished; its files were moved.
    OperationMoved { files: Vec<String>, to: String },
    /// HEAD was elsewhere and was put back on the run's branch.
    HeadReattached { from: String },
    /// Work on another line of history was transferred to the run's branch.
    BroughtOver { from: String },
    /// A workspace contained edits that did not come from its agent; they were saved under a ref.
    WorkspaceSaved { path: String, kept: String },
    /// A repository inside the work tree is not part of the checkpoint.
    NestedLeftOut { path: String },
    /// A repository inside the work tree was moved out of it.
    NestedMoved { path: String, to: String },
    /// A repository of the user's inside the work tree is too big to be copied.
    NestedUncopied { path: String },
    /// A repository of the user's inside the work tree was restored; its changed version was moved aside.
    NestedRestored { path: String, kept: Option<String> },
    /// A landed attempt changed a repository of the user's inside the work tree; there is an earlier copy.
    NestedEdited { path: String, copy: String },
    /// A repository of the user's inside the work tree was deleted, and there is no copy.
    NestedLost { path: String },
    /// A repository inside the work tree that did not exist before the run is still there after an abort.
    NestedStays { path: String },
    /// A file was edited while the work tree was being restored; the edit was moved aside.
    LateEdit { path: String, to: String },
    /// An obstacle in the work tree was moved.
    ObstacleMoved { path: String, to: String },
    /// A file that only the attempt's ignore rules had hidden was moved.
    HiddenMoved { path: String, to: String },
    /// git could not store some files; they were left in place.
    Unkept { error: String },
    /// git could not store a file of an attempt; it was moved.
    UnkeptMoved { path: String, to: String },
    /// Directories belong to another user, so that files in them could be neither removed (`remaining`) nor restored (`changed`)
    /// to their state in the tree `wanted`.
    OutOfReach { directories: Vec<String>, owner: u32, remaining: Vec<String>, changed: Vec<String>, wanted: Oid },
    /// A filter or an encoding failed, so files were stored byte for byte.
    Unconverted { error: String },
    /// A filter failed, so these files contain what git stores, not the output of the filter.
    Unfiltered { paths: Vec<String> },
    /// A branch, tag or note was deleted or rewound, and was restored.
    RefRestored { name: String, kept: Option<String> },
    /// A ref points to an object that does not exist; it was left alone.
    RefBroken { name: String },
    /// The git directory was moved, and was put back.
    GitDirRestored { from: String },
    /// The work tree was moved, and was put back.
    WorkTreeRestored { from: String },
    /// Directories had been made inaccessible, and were made accessible again.
    OpenedUp { paths: Vec<String> },
    /// A ref was deleted or moved, and its object is no longer in the repository.
    RefLost { name: String },
    /// A branch gained commits; it was left alone.
    RefMovedOn { name: String, to: String },
    /// A branch was changed in another work tree that has it checked out; it was left alone.
    RefOfOthers { name: String, kept: String },
    /// A branch whose name conflicts with the run's own branch was moved.
    RefInTheWay { name: String, kept: String },
    /// A ref below `refs/replace/` that was not there before an attempt was removed, and is saved.
    ReplacementRemoved { name: String, kept: String },
    /// Missing stash entries were restored; entries of a failed attempt were removed.
    StashRestored { gone: usize, taken: usize },
    /// A landed attempt changed configuration or hooks; the earlier version was saved.
    GitFileChanged {
        name: String,
        #[serde(default)]
        before: Option<String>,
    },
    /// An attempt changed a file of the git directory, and it was restored. `kept` is the path of the attempt's version; there is none if the
    /// attempt deleted the file.
    GitFileRestored {
        name: String,
        #[serde(default)]
        kept: Option<String>,
    },
    /// An attempt changed settings that name commands or steer a run; they were restored, and the changed file was saved.
    SettingsRestored { story: StoryId, name: String, keys: Vec<String>, kept: String },
    /// The change file or the prompt template was modified during an attempt, and was restored.
    EditSetAside { story: StoryId, file: String, kept: Option<String> },
    /// A checkpoint changes a file that one of its gates uses.
    GateFileChanged { story: StoryId, gate: String, path: String },
    /// An attempt wrote an ignored file that one of its gates uses.
    GateFileIgnored { story: StoryId, gate: String, path: String },
    /// A checkpoint changes a file in the work tree that git reads its configuration from.
    SettingsFileChanged { story: StoryId, path: String },
    /// A checkpoint changes nothing.
    EmptyCheckpoint { story: StoryId },
    /// The checkpoint of a story that the user marked as done changes nothing.
    EmptyByHand { story: StoryId },
    /// A runner was killed because it did not end on request; processes that it started may still be running elsewhere.
    MayStillRun { story: StoryId, runner: String },
    /// A worker on another machine could not transfer everything.
    FromWorker { story: StoryId, warning: String },
    /// A ref could not be deleted on a hub.
    LeftOnHub { hub: String, name: String, error: String },
    /// The user's original index could not be restored byte for byte; an index with the same content was created.
    IndexRebuilt {},
    /// The content staged before the run could not be staged again, because it was deleted.
    StagedLost {},
    /// The journal differed from what git-ralph had written.
    JournalDoubted { why: Doubt, kept: Option<String> },
    /// Deleted files of the run itself were restored.
    StateRestored {},
    /// A submodule was restored; its changed state was saved in the submodule.
    SubmoduleRestored { path: String, kept: String },
    /// The run changed the commit of a submodule; the submodule's files in the checkout were left alone.
    SubmoduleMoved { path: String, commit: String },
    /// A small ignored file was deleted, and was restored.
    IgnoredRestored { path: String },
    /// Small ignored files were changed, and were restored; the changed versions are in a directory.
    IgnoredPutBack { paths: Vec<String>, kept: String },
    /// A landed attempt changed small ignored files; earlier copies are in a directory.
    IgnoredEdited { paths: Vec<String>, copies: String },
    /// Ignored files or directories without a copy were changed or removed.
    IgnoredNotRestored { paths: Vec<String> },
    /// Commits of the agent that are not part of the checkpoint were saved.
    CommitsKept { kept: String },
    /// Content that was staged during a landed attempt and is not in its checkpoint was saved.
    StagedKept { kept: String },
    /// Stash entries that an interrupted attempt or the user made were left in the stash.
    StashLeft { entries: usize },
    /// The content staged at the start could not be staged again.
    NotStagedAgain { kept: String },
    /// A checkpoint that is about to be undone is also in other branches.
    AlsoIn { branches: Vec<String> },
    /// An undo, or a finish that was interrupted earlier, removed edits of the user's from the work tree.
    EditsTakenOut { files: usize, kept: String },
    /// An undo removed commits of the user's from the branch.
    CommitsTakenOut { last: Oid, kept: String },
}

impl Notice {
    /// Whether something could not be restored and still differs from its original state.
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
                | Notice::NestedStays { .. }
        )
    }

    /// The story whose checkpoint the user should review because of this notice.
    #[must_use]
    pub fn doubted(&self) -> Option<&StoryId> {
        match self {
            Notice::SettingsRestored { story, .. }
            | Notice::EditSetAside { story, .. }
            | Notice::GateFileChanged { story, .. }
            | Notice::GateFileIgnored { story, .. }
            | Notice::SettingsFileChanged { story, .. }
            | Notice::EmptyCheckpoint { story }
            | Notice::EmptyByHand { story } => Some(story),
            _ => None,
        }
    }
}
