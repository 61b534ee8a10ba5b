//! Agents as data: how one is called, what it is told, and what it is heard to say.

mod heard;
mod invocation;
mod profile;
mod prompt;
mod reset;
mod signal;
mod stream;
mod trouble;

pub use heard::{Heard, Said, Trouble, Usage};
pub use invocation::Agent;
pub use profile::{PROFILES, Profile};
pub use prompt::{Feedback, Learnings, Prompt, Template};
pub use signal::{Scanner, Signal, disarmed};
pub use stream::{Format, Reader, TextReader};
