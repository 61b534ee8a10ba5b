//! The loop: events, the pure state machine, the journal, and the orchestrator that performs steps.
//!
//! Nothing in this module prints or asks questions.

mod attempt;
mod believe;
mod branch_source;
mod callback;
mod chain;
mod change_reader;
mod checkpoints;
pub(crate) mod child_program;
mod clone_steps;
mod close;
mod event;
mod gate;
mod gate_files;
mod gates;
mod hub_refs;
mod inbox;
mod journal;
mod judge;
mod lock;
mod machine;
mod marks;
mod open_run;
mod orchestrator;
mod pool;
mod prunable;
mod question;
mod queue;
mod remote;
mod reporter;
mod request;
mod scribe;
mod settle;
mod site;
mod source;
mod state_backup;
mod steer;
mod steering_files;
mod step_runner;
mod stop_request;
mod store;
mod story_list;
mod transcript;
mod undo;
mod work;

pub use crate::agent::Usage;
pub use branch_source::source_edits;
pub use callback::{Callbacks, Failure as CallbackFailure, PageMaker};
pub use chain::Chain;
pub use change_reader::{ChangeReader, LoadedChange};
pub use checkpoints::{Checkpoints, NoUndo, UndoPlan};
pub use child_program::{additions, needs_of};
pub use event::{
    Budget, Conditions, Defeat, DefeatCause, Edits, End, Event, Opening, Outline, Record, SettingUsed, StopKind, Why, lock_name,
};
pub use gate::GateRun;
pub use gates::Gates;
pub use inbox::Inbox;
pub use journal::{Follower, Journal, TakenUp, replay};
pub use judge::{Outcome, Verdict, abnormal, judge};
pub use lock::{Holder, Lock};
pub use machine::{
    Closing, HalfDone, LimitWaits, Next, Pause, Phase, Policy, Progress, RunState, RunnerFailures, Span, Stage, Step, Subject,
};
pub use open_run::{Listening, NewRun, OpenRun};
pub use orchestrator::Quit;
pub use prunable::{OldRun, Prunable, Scope, left_workspaces};
pub use question::{Question, Withdrawn};
pub use reporter::{Activity, Live, Reporter};
pub use request::{Answer, Request, Wish};
pub use scribe::Scribe;
pub use site::{Site, read_config};
pub use source::{OPENSPEC_CHANGES, SourcePlace, openspec_archived, openspec_changes, sources_in};
pub use state_backup::StateBackup;
pub use steer::request_problem;
pub use stop_request::{StopRequest, watch as watch_stop_request};
pub use store::{RunDir, Store};
pub use transcript::Transcript;
pub use work::Work;
