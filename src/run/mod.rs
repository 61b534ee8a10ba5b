//! The loop: events, the pure machine that decides, the journal that remembers, the orchestrator that acts.
//!
//! Nothing here prints or asks.

pub(crate) mod attempt;
mod callback;
mod event;
mod gate;
mod journal;
mod judge;
mod leavings;
mod library;
mod line;
mod lock;
mod machine;
mod orchestrator;
mod source;
mod spare;
mod stop_request;
mod store;
mod transcript;

pub use crate::agent::Usage;
pub use callback::{Callbacks, Failure as CallbackFailure};
pub use event::{Budget, End, Event, Opening, Record, StopKind, Why};
pub use gate::GateRun;
pub use journal::{Follower, Journal, replay};
pub use judge::{Outcome, Verdict, abnormal, judge};
pub use leavings::{Leavings, OldRun};
pub use line::{Line, NoUndo, UndoPlan};
pub use lock::{Holder, Lock};
pub use machine::{Next, Pause, Phase, Policy, Progress, RunState, Span, Stage, Step};
pub use orchestrator::{Orchestrator, Quit, Scribe, Workshop, set_marks, take_marks_back};
pub use source::{OPENSPEC_CHANGES, SourcePlace, openspec_archived, openspec_changes, sources_in};
pub use spare::Spare;
pub use stop_request::{StopRequest, watch as watch_stop_request};
pub use store::{RunDir, Store};
pub use transcript::Transcript;
