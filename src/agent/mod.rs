//! Agents as data: how one is called, what it is told, and what it reports.

mod enclosure;
mod invocation;
mod profile;
mod prompt;
mod report;
mod reset;
mod sentences;
mod signal;
mod stream;
mod trouble;
mod verdict;
mod zones;

pub use invocation::Agent;
pub use profile::{PROFILES, Profile};
pub use prompt::{Feedback, Learnings, Prompt, Template};
pub use report::{AgentReport, Said, Trouble, Usage};
pub use sentences::{CLIENTS, Class, Client};
pub use signal::{Scanner, Signal, disarmed};
pub use stream::{Format, Reader, TextReader};
