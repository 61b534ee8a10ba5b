//! Events: past facts, plain data. The journal stores them, the state is a fold of them, reporters render them.

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

/// What is written down before a run touches anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Opening {
    /// The number of the run among those of its change.
    pub run: u32,
    /// Unique among all runs: marks the processes that belong to it.
    pub id: String,
    /// The change.
    pub change: ChangeName,
    /// Where HEAD was.
    pub original: Head,
    /// Which work tree of the repository.
    pub worktree: String,
    /// The directory of the workspaces, if the run is isolated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<PathBuf>,
    /// The directory that requests of the user are left in, if the run is isolated: another terminal may have another state directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbox: Option<PathBuf>,
    /// What was asked for on the command line, so that `resume` goes on in the same way.
    pub flags: Flags,
    /// The version that wrote the journal.
    pub version: String,
}

impl Opening {
    /// The name of the lock that a process holds while it works on the run: that of the work tree, or of the change if the run is
    /// isolated, because then it leaves the work tree to the user.
    #[must_use]
    pub fn lock_name(&self) -> String {
        lock_name(&self.change, &self.worktree, self.workspaces.is_some())
    }
}

/// The name of the lock of a run of a change in a work tree.
#[must_use]
pub fn lock_name(change: &ChangeName, worktree: &str, is_isolated: bool) -> String {
    if is_isolated { format!("isolated-{change}") } else { worktree.to_owned() }
}

/// What a loop works with, written down so that the run can be looked back at when files and settings have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Conditions {
    /// The version of git-ralph.
    pub version: String,
    /// What git says of its version.
    pub git: String,
    /// What a person calls the agent.
    pub agent: String,
    /// The model that the agent is told to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How far the user's clock is ahead of UTC, in seconds.
    pub clock_offset: i32,
    /// What a person calls the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The stories, in their order.
    pub stories: Vec<Outline>,
    /// Every setting with a value.
    pub settings: Vec<SettingUsed>,
}

/// What the source of a story says of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Outline {
    /// The story.
    pub id: StoryId,
    /// One line for people.
    pub title: String,
    /// Its parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// What must hold when it is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance: Vec<String>,
    /// The stories that must be done before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<StoryId>,
}

impl Outline {
    /// What the journal keeps of a story.
    #[must_use]
    pub fn of(story: &Story) -> Self {
        let Story { id, title, tasks, acceptance, after, .. } = story.clone();
        Outline { id, title, tasks, acceptance, after }
    }
}

/// A setting as a loop used it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingUsed {
    /// Its key in git's configuration.
    pub key: String,
    /// Its value, or values where it may have several.
    pub values: Vec<String>,
    /// Where it was set; left out for a built-in default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// Edits of the user's in the checkout of an isolated run that are to be a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edits {
    /// The commit with them, on top of the last checkpoint.
    pub commit: Oid,
    /// A commit of all that the checkout held.
    pub checkout: Oid,
}

/// Something that has happened in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
#[expect(missing_docs, reason = "the fields say what they are")]
pub enum Event {
    /// A run is about to begin.
    RunStarting { opening: Opening },
    /// A branch of an earlier run was kept under a ref.
    LeftoverKept { rescue: String, commit: Oid },
    /// The initial state is committed and the branch is active.
    RunStarted { initial: Oid, branch: String },
    /// A process has taken the run up again.
    RunResumed {},
    /// Commits that the user made on the branch are part of the run now.
    CommitsAdopted { checkpoint: Oid },
    /// Edits that the user made are what the next attempt starts from.
    EditsAdopted { checkpoint: Oid, base: Oid, files: usize },
    /// No identity is configured, commits are made under a stand-in.
    IdentityMissing {},
    /// The source of the stories could not be read again, the last good one is used.
    SourceUnreadable { error: String },
    /// Where the stories come from, and which of them are done by the word of the user.
    SourceRead { kind: Kind, done: Vec<StoryId> },
    /// An agent had deleted the source or taken its story out of it; it is as it was before, the agent's is aside.
    SourcePutBack { story: StoryId, aside: String },
    /// The source has other stories than before, or tells other things about them.
    StoriesChanged {
        added: Vec<StoryId>,
        removed: Vec<StoryId>,
        /// What the source says of stories that are new or are told in other words than before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        stories: Vec<Outline>,
    },
    /// An agent has marked stories as done that were not its own; that was taken back.
    StrayMarks { story: StoryId, others: Vec<StoryId> },
    /// The marks of a story that lands could not be set in its source.
    MarksNotSet { story: StoryId, error: String },
    /// The private clone of a slot is there and set up; so many ignored files were copied into it.
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
    /// The agent's process has ended, with what it said and did.
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
        /// How long the agent waited for its runner to start it; not part of the milliseconds.
        #[serde(default, skip_serializing_if = "is_none")]
        waited_milliseconds: u64,
        survivors: Vec<String>,
        /// The last lines that it said, if none of them is a promise.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        words: String,
        /// How often it used each of its tools.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        tools: BTreeMap<String, u32>,
    },
    /// What an agent had used up before the process that watched it was killed.
    UsageFound { story: StoryId, attempt: u32, usage: Usage },
    /// A gate was run.
    GateEnded {
        story: StoryId,
        attempt: u32,
        command: String,
        exit: Exit,
        milliseconds: u64,
        /// The last lines that it printed.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        output: String,
    },
    /// The story is done: it is about to land.
    AttemptAccepted { story: StoryId, attempt: u32 },
    /// The work of an accepted attempt is saved and waits in the landing queue; its workspace is free.
    AttemptQueued { story: StoryId, attempt: u32, commit: Oid, files: usize },
    /// Queued attempts were merged and their gates failed on the merged tree; fewer of them are tried next.
    BatchFailed { stories: Vec<StoryId>, command: String },
    /// A queued attempt cannot land on the branch as it is now. The story is attempted again from there; its work is under a ref.
    AttemptBeaten { story: StoryId, attempt: u32, defeat: Defeat, kept: String },
    /// The attempt has failed: it is about to be rolled back.
    AttemptRejected { story: StoryId, attempt: u32, outcome: Outcome },
    /// The checkpoint is on the branch.
    CheckpointLanded { story: StoryId, attempt: u32, commit: Oid, files: usize },
    /// The work tree is back where the attempt found it; what it held is under a ref.
    AttemptRolledBack { story: StoryId, attempt: u32, rescue: String, files: usize },
    /// Checkpoints are about to be taken back.
    UndoStarted { to: Oid, stories: Vec<StoryId> },
    /// Branch and work tree are at an earlier checkpoint; what was taken back is under a ref.
    Undone { to: Oid, stories: Vec<StoryId>, kept: String },
    /// Something was put right, moved or left out on the way.
    Noticed { notice: Notice },
    /// No agent is started before that time.
    PauseStarted { story: StoryId, until: Timestamp, why: Why },
    /// The time has come.
    PauseEnded { story: StoryId },
    /// A story's retries are spent: an error.
    StoryFailed { story: StoryId, attempts: u32, outcome: Option<Outcome> },
    /// The user gave advice for the next attempts of a story, or of every story; `now` ends attempts that are under way.
    HintGiven {
        request: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        story: Option<StoryId>,
        text: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        now: bool,
    },
    /// The user left a story out; `also` are the stories that come after it and are left out with it.
    StorySkipped { request: String, story: StoryId, also: Vec<StoryId> },
    /// The user gave a story a fresh set of retries. It is no longer skipped or blocked.
    StoryRetried { request: String, story: StoryId },
    /// The user said that a story is done: its attempt lands without gates.
    DoneByHand {
        request: String,
        story: StoryId,
        attempt: u32,
        /// What the user says about it, for the commit message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The user's edits, which wait for the landing queue, in an isolated run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edits: Option<Edits>,
    },
    /// The user's edit of the change file is in place.
    ChangeEdited { request: String },
    /// What the user asked for was no longer possible when the loop came to it.
    RequestRefused { request: String, reason: String },
    /// Somebody asked the loop to stop.
    StopRequested { how: StopKind },
    /// A loop begins, under these conditions.
    LoopStarted { conditions: Conditions },
    /// The loop has ended; the run is still open.
    LoopEnded { end: End },
    /// The run is about to be finished.
    FinishStarted { mode: Finish },
    /// The run is finished.
    Finished { mode: Finish, kept: Option<String> },
    /// The run is about to be given up.
    AbortStarted {},
    /// The run is given up; what it held is under a ref.
    Aborted {
        kept: Option<String>,
        /// Where the original branch is, if it is not where it was at the start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        moved_to: Option<Oid>,
        /// Whether something could not be restored; notices say what.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        incomplete: bool,
        /// Where the branch of an earlier run is, if it was put back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        put_back: Option<Oid>,
    },
}

/// Why a queued attempt could not land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Defeat {
    /// The last checkpoint of the branch that it was merged with.
    pub tip: Oid,
    /// What went wrong with the merge.
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
    /// The merge is clean, but a gate fails on it that had passed before.
    Gate {
        /// The command.
        command: String,
        /// The end of its output.
        output: String,
    },
}

/// What a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// An allowance that comes back.
    Limit,
    /// A model that could not be reached.
    Unavailable,
    /// A runner that lost an agent, or could not start it.
    Runner,
}

/// What a run may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "budget", rename_all = "kebab-case")]
pub enum Budget {
    /// Dollars.
    Cost {
        /// How many were used.
        used: Cost,
        /// Of how many.
        most: Cost,
    },
    /// Tokens.
    Tokens {
        /// How many were used.
        used: u64,
        /// Of how many.
        most: u64,
    },
}

impl Budget {
    /// The budget that this usage has used up, if it has.
    pub(super) fn spent(usage: &Usage, max_cost: Option<Cost>, max_tokens: Option<u64>) -> Option<Budget> {
        let cost = max_cost.zip(usage.cost).filter(|(most, used)| used >= most).map(|(most, used)| Budget::Cost { used, most });
        let tokens = || max_tokens.filter(|most| usage.tokens() >= *most);
        cost.or_else(|| tokens().map(|most| Budget::Tokens { used: usage.tokens(), most }))
    }
}

/// Who asked for a stop.
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
    /// A story has failed for good.
    RetriesSpent {
        /// Which one.
        story: StoryId,
    },
    /// As much is used up as may be.
    BudgetSpent {
        /// Of what.
        spent: Budget,
    },
    /// The agent cannot work as it is set up.
    Misconfigured {
        /// In its words.
        message: String,
    },
    /// An allowance is used up, and the settings say not to wait for it.
    UsageLimit {
        /// When it comes back, if that is known.
        resets: Option<Timestamp>,
    },
    /// An allowance was still used up after every wait for it.
    StillLimited {
        /// How many there were in a row.
        waits: u32,
        /// When it comes back, if the last answer says so.
        resets: Option<Timestamp>,
    },
    /// The runner lost agents, or could not start them, again and again.
    RunnerFailed {
        /// How often in a row.
        times: u32,
        /// How the runner ended the last time, and what it printed.
        message: String,
    },
    /// Every story that could go on waits for the user: its agent said BLOCKED.
    NeedsUser {
        /// The first of them.
        story: StoryId,
        /// What it needs, in the agent's words.
        needs: String,
    },
    /// What is left waits for stories that are not selected.
    Blocked {
        /// The first of them.
        story: StoryId,
    },
    /// `git ralph stop`.
    Stopped,
    /// A signal.
    Interrupted {
        /// Which kind.
        how: StopKind,
    },
}

/// An event with its number and time, as it stands in the journal and on `--json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Counts from 1 in each journal.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_none(milliseconds: &u64) -> bool {
    *milliseconds == 0
}
