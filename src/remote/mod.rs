//! Attempts on machines without a shared file system: what both ends of the connection agree on.
//!
//! The end where the run is pushes an attempt's base to a hub and starts `git ralph worker` by a runner such as `ssh`. The worker, at
//! the other end, fetches the base, runs the agent and pushes one commit with everything that the agent left.

mod assignment;
mod hub;
pub mod preconditions;
mod result;

pub use assignment::{Assignment, WorkerRunner};
pub use hub::{Hub, HubRef};
pub use result::RemoteResult;
