//! Agents as data: how one is called, what it is told, and what it is heard to say.

mod invocation;
mod prompt;
mod signal;
mod text;

pub use invocation::Agent;
pub use prompt::{Feedback, Prompt};
pub use signal::{Scanner, Signal, disarmed};
pub use text::TextReader;
