//! Everything about coding agents as data: how to start one, the prompt that it gets, and how to read its output.

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
