//! Starts child processes in their own sessions, streams their output, enforces time limits, and ends everything they
//! leave behind.
//!
//! This module knows nothing of git or stories. Only it and `git/` create commands.

mod adoption;
mod capture;
mod child;
mod editor;
mod end;
mod group;
mod identity;
mod interrupt;
mod launch;
mod missing;
mod pager;
mod platform;
mod spawn;
mod supervise;
mod survivors;
mod suspend;

pub use adoption::Adoption;
pub use capture::{Captured, capture, stream};
pub use editor::edit;
pub use end::Exit;
pub use identity::{Identity, is_same_program};
pub use interrupt::{Stop, StopHandle, Urgency, stop_channel, watch_signals};
pub use missing::cannot_start;
pub use pager::page;
pub use platform::{MISSING, path_of, umask};
pub use spawn::{Program, on_path};
pub use supervise::{Flow, Place, Stream, Supervised, Watch, supervise};
pub use survivors::{Trail, directories_of, end, holders_of, is_alive, is_below, lockers_of, record_groups_in, recorded_groups};
pub use suspend::Suspension;
