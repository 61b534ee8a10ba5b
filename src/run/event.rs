//! Events: past facts as plain data. The journal stores them, the state is a fold of them, and reporters render them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Gates, Outcome};
use crate::agent::{Signal, Trouble, Usage};
use crate::config::{Finish, Flags};
use crate::cost::Cost;
use crate::git::{Head, Oid};
use crate::process::Exit;
use crate::story::source::Kind;
use crate::story::{ChangeName, Story, StoryId};
use crate::workspace::Notice;

/// The facts about a run that are recorded before it touches anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Opening {
    /// The number of the run. Each change counts its own runs.
    pub run: u32,
    /// A unique id among all runs. It marks the processes that belong to the run.
    pub id: String,
    /// The name of the change.
    pub change: ChangeName,
    /// Where HEAD was at the start.
    pub original: Head,
    /// The id of the work tree.
    pub worktree: String,
    /// The directory of the private clones, if the run is isolated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<PathBuf>,
    /// The directory for the user's requests, if the run is isolated. It is recorded because a command in another terminal may use another
    /// state directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbox: Option<PathBuf>,
    /// The flags of the command line, so that `resume` goes on in the same way.
    pub flags: Flags,
    /// The version of git-ralph that wrote the journal.
    pub version: String,
}

impl Opening {
    /// The name of the lock that a process holds while it works on the run. It is the lock of the work tree. For an isolated run it is the
    /// lock of the change, because such a run leaves the work tree to the user.
    #[must_use]
    pub fn lock_name(&self) -> String {
        lock_name(&self.change, &self.worktree, self.workspaces.is_some())
    }
}

/// The name of the lock for a run of a change in a work tree.
#[must_use]
pub fn lock_name(change: &ChangeName, worktree: &str, is_isolated: bool) -> String {
    if is_isolated { format!("isolated-{change}") } else { worktree.to_owned() }
}

/// The conditions that a loop works under. They are recorded so that a report of the run does not depend on files and settings that have
/// changed since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Conditions {
    /// The version of git-ralph.
    pub version: String,
    /// The output of `git version`.
    pub git: String,
    /// The name of the agent for users.
    pub agent: String,
    /// The model that the agent is asked to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The user's offset from UTC in seconds.
    pub clock_offset: i32,
    /// The title of the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The stories, in their order.
    pub stories: Vec<Outline>,
    /// Every setting that has a value.
    pub settings: Vec<SettingUsed>,
}

/// The content of a story in its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Outline {
    /// The story.
    pub id: StoryId,
    /// The title, one line.
    pub title: String,
    /// The story's tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// The acceptance criteria.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance: Vec<String>,
    /// The stories that must be done before this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<StoryId>,
}

impl Outline {
    /// The parts of a story that the journal records.
    #[must_use]
    pub fn of(story: &Story) -> Self {
        let Story { id, title, tasks, acceptance, after, .. } = story.clone();
        Outline { id, title, tasks, acceptance, after }
    }
}

/// A setting with the value that a loop used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingUsed {
    /// Its key in git's configuration.
    pub key: String,
    /// Its value, or all values of a setting that can have several.
    pub values: Vec<String>,
    /// Where it was set. `None` for a built-in default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// Edits in the user's checkout that become a checkpoint of an isolated run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edits {
    /// The commit with the edits, on top of the last checkpoint.
    pub commit: Oid,
    /// A commit of the whole checkout.
    pub checkout: Oid,
}

/// A fact about a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Event {
    /// A run is about to begin.
    RunStarting { opening: Opening },
    /// The branch of an earlier run was moved to a ref.
    LeftoverKept { rescue: String, commit: Oid },
    /// The initial state is committed. In place, the branch is checked out.
    RunStarted { initial: Oid, branch: String },
    /// A process has resumed the run.
    RunResumed {},
    /// Commits that the user made on the branch are now part of the run.
    CommitsAdopted { checkpoint: Oid },
    /// The next attempt starts from edits that the user made.
    EditsAdopted { checkpoint: Oid, base: Oid, files: usize },
    /// The user has no git identity, so commits are made under a stand-in identity.
    IdentityMissing {},
    /// The source of the stories could not be read again. The last version that could be read is used.
    SourceUnreadable { error: String },
    /// The kind of the source, and the stories that the user has marked as done in it.
    SourceRead { kind: Kind, done: Vec<StoryId> },
    /// An agent had deleted the source, or its story in it. The earlier version was restored, and the agent's version was moved aside.
    SourcePutBack { story: StoryId, aside: String },
    /// The stories in the source have changed.
    StoriesChanged {
        added: Vec<StoryId>,
        removed: Vec<StoryId>,
        /// The stories that are new or have changed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        stories: Vec<Outline>,
    },
    /// An agent marked other stories than its own as done. The marks were removed.
    StrayMarks { story: StoryId, others: Vec<StoryId> },
    /// The story lands, but its marks could not be set in the source.
    MarksNotSet { story: StoryId, error: String },
    /// The private clone of a slot exists and is set up. `files` counts the ignored files that were copied into it.
    WorkspaceReady { slot: u32, path: String, files: usize, bytes: u64 },
    /// An agent is about to be started.
    AttemptStarted {
        story: StoryId,
        attempt: u32,
        title: String,
        agent: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gates: Option<Gates>,
        /// The commit that it starts from, in an isolated run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<Oid>,
        /// The number of the workspace that it works in.
        #[serde(default, skip_serializing_if = "is_zero")]
        slot: u32,
    },
    /// The agent's process has ended.
    AgentEnded {
        story: StoryId,
        attempt: u32,
        exit: Exit,
        signal: Signal,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trouble: Option<Trouble>,
        #[serde(default, skip_serializing_if = "Usage::is_empty")]
        usage: Usage,
        milliseconds: u64,
        /// How long the agent waited for its runner to start it. `milliseconds` does not include this.
        #[serde(default, skip_serializing_if = "is_none")]
        waited_milliseconds: u64,
        survivors: Vec<String>,
        /// The agent's last lines, if they contain no promise.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        words: String,
        /// How often the agent used each of its tools.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        tools: BTreeMap<String, u32>,
    },
    /// The usage of an agent, recovered after the process that supervised it was killed.
    UsageFound { story: StoryId, attempt: u32, usage: Usage },
    /// A gate was run.
    GateEnded {
        story: StoryId,
        attempt: u32,
        command: String,
        exit: Exit,
        milliseconds: u64,
        /// The last lines of its output.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        output: String,
    },
    /// The attempt has passed its gates and is about to land.
    AttemptAccepted { story: StoryId, attempt: u32 },
    /// The work of an accepted attempt is saved and waits in the landing queue. Its workspace is free.
    AttemptQueued { story: StoryId, attempt: u32, commit: Oid, files: usize },
    /// A gate failed on the merge of several queued attempts. The next batch is smaller.
    BatchFailed { stories: Vec<StoryId>, command: String },
    /// A queued attempt cannot land on the current branch. Its work is saved under a ref, and the story is attempted again from the tip.
    AttemptBeaten { story: StoryId, attempt: u32, defeat: Defeat, kept: String },
    /// The attempt has failed and is about to be rolled back.
    AttemptRejected { story: StoryId, attempt: u32, outcome: Outcome },
    /// The checkpoint is on the branch.
    CheckpointLanded { story: StoryId, attempt: u32, commit: Oid, files: usize },
    /// The work tree is as it was before the attempt. The attempt's work is saved under a ref.
    AttemptRolledBack { story: StoryId, attempt: u32, rescue: String, files: usize },
    /// An undo is about to remove checkpoints.
    UndoStarted { to: Oid, stories: Vec<StoryId> },
    /// Branch and work tree are back at an earlier checkpoint. The removed checkpoints are saved under a ref.
    Undone { to: Oid, stories: Vec<StoryId>, kept: String },
    /// Something was restored, moved or left out.
    Noticed { notice: Notice },
    /// No agent is started before this time.
    PauseStarted { story: StoryId, until: Timestamp, why: Why },
    /// The pause is over.
    PauseEnded { story: StoryId },
    /// A story has failed and has no retries left.
    StoryFailed { story: StoryId, attempts: u32, outcome: Option<Outcome> },
    /// The user gave a hint for the next attempts of one story or of all stories. `now` ends attempts that are under way.
    HintGiven {
        request: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        story: Option<StoryId>,
        text: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        now: bool,
    },
    /// The user skipped a story. `also` has the stories that depend on it and are skipped with it.
    StorySkipped { request: String, story: StoryId, also: Vec<StoryId> },
    /// The user gave a story all of its retries again. It is no longer skipped or blocked.
    StoryRetried { request: String, story: StoryId },
    /// The user declared a story as done. Its attempt lands without gates.
    DoneByHand {
        request: String,
        story: StoryId,
        attempt: u32,
        /// The user's text for the commit message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The user's edits, which wait in the landing queue, in an isolated run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edits: Option<Edits>,
    },
    /// The user's edit of the change file has been saved.
    ChangeEdited { request: String },
    /// The user's request was no longer possible when the loop handled it.
    RequestRefused { request: String, reason: String },
    /// The user, or a signal, asked the loop to stop.
    StopRequested { how: StopKind },
    /// A loop starts under these conditions.
    LoopStarted { conditions: Conditions },
    /// The loop has ended. The run is still open.
    LoopEnded { end: End },
    /// The run is about to be finished.
    FinishStarted { mode: Finish },
    /// The run is finished.
    Finished { mode: Finish, kept: Option<String> },
    /// The run is about to be aborted.
    AbortStarted {},
    /// The run is aborted. Its work is saved under a ref.
    Aborted {
        kept: Option<String>,
        /// The current commit of the original branch, if the branch has moved since the start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        moved_to: Option<Oid>,
        /// Whether some state could not be restored. Notices say which.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        incomplete: bool,
        /// The commit of an earlier run's branch, if that branch was restored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        put_back: Option<Oid>,
    },
}

/// Why a queued attempt could not land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Defeat {
    /// The tip of the branch that it was merged with.
    pub tip: Oid,
    /// The reason.
    #[serde(flatten)]
    pub cause: DefeatCause,
}

/// What can go wrong when a queued attempt is merged with the branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "kebab-case")]
pub enum DefeatCause {
    /// The merge has conflicts.
    Conflict {
        /// The paths that conflict.
        paths: Vec<String>,
        /// The conflicting hunks, cut to a length that fits a prompt.
        hunks: String,
    },
    /// The merge is clean, but a gate that had passed before fails on it.
    Gate {
        /// The command.
        command: String,
        /// The end of its output.
        output: String,
    },
}

/// What a pause waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// A usage limit of the agent, which resets at some time.
    Limit,
    /// A model that could not be reached.
    Unavailable,
    /// A runner that lost an agent or could not start it.
    Runner,
}

/// The budget of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "budget", rename_all = "kebab-case")]
pub enum Budget {
    /// Money.
    Cost {
        /// The amount used.
        used: Cost,
        /// The budget.
        most: Cost,
    },
    /// Tokens.
    Tokens {
        /// The number used.
        used: u64,
        /// The budget.
        most: u64,
    },
}

impl Budget {
    /// The budget that this usage exceeds, if any.
    pub(super) fn spent(usage: &Usage, max_cost: Option<Cost>, max_tokens: Option<u64>) -> Option<Budget> {
        let cost = max_cost.zip(usage.cost).filter(|(most, used)| used >= most).map(|(most, used)| Budget::Cost { used, most });
        let tokens = || max_tokens.filter(|most| usage.tokens() >= *most);
        cost.or_else(|| tokens().map(|most| Budget::Tokens { used: usage.tokens(), most }))
    }
}

/// How a stop was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopKind {
    /// `git ralph stop`.
    AfterAttempt,
    /// `git ralph stop --now`.
    Now,
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM or SIGHUP.
    Terminate,
}

/// Why the loop ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum End {
    /// Every story is done.
    AllDone,
    /// Every story that `--only` names is done.
    SelectionDone,
    /// As many stories as `--limit` says are done.
    LimitReached,
    /// A story has failed and has no retries left.
    RetriesSpent {
        /// The story.
        story: StoryId,
    },
    /// The budget is used up.
    BudgetSpent {
        /// The budget and the usage.
        spent: Budget,
    },
    /// The agent is not set up correctly.
    Misconfigured {
        /// The agent's error message.
        message: String,
    },
    /// A usage limit was reached, and the settings say not to wait.
    UsageLimit {
        /// When the limit resets, if known.
        resets: Option<Timestamp>,
    },
    /// A usage limit was still in effect after every wait for it.
    StillLimited {
        /// The number of waits in a row.
        waits: u32,
        /// When the limit resets, if the last error message says so.
        resets: Option<Timestamp>,
    },
    /// The runner failed to start agents, or lost them, too often.
    RunnerFailed {
        /// How often in a row.
        times: u32,
        /// How the runner ended the last time, and its output.
        message: String,
    },
    /// Every remaining story waits for the user, because its agent said BLOCKED.
    NeedsUser {
        /// The first of these stories.
        story: StoryId,
        /// What it needs, in the agent's words.
        needs: String,
    },
    /// The remaining stories depend on stories that are not selected.
    Blocked {
        /// The first of these stories.
        story: StoryId,
    },
    /// The user ran `git ralph stop`.
    Stopped,
    /// A signal ended the loop.
    Interrupted {
        /// Which signal.
        how: StopKind,
    },
}

/// An event with its number and time, as in the journal and in the output of `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The number of the event in its journal, counted from 1.
    pub seq: u64,
    /// The time of the event.
    pub at: Timestamp,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_none(milliseconds: &u64) -> bool {
    *milliseconds == 0
}
