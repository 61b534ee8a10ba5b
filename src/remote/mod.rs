//! Attempts on machines without a shared file system: the protocol between the machine of the run and the worker.
//!
//! The machine of the run pushes an attempt's base commit to a hub and starts `git ralph worker` with a runner such as `ssh`. The worker
//! fetches the base, runs the agent and pushes one commit with all of the agent's work.

mod assignment;
mod hub;
pub mod preconditions;
mod result;

pub use assignment::{Assignment, WorkerRunner};
pub use hub::{Hub, HubRef};
pub use result::RemoteResult;
