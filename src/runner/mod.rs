//! Where agents, gates and setup commands are started: the runner that goes before their command line, and the sandbox around it.

mod mounts;
mod prefix;
mod probe;
mod sandbox;

pub use prefix::{Placeholders, Runner};
pub use probe::{NoSandbox, probe};
pub use sandbox::{Additions, ClientNeeds, Sandbox, SandboxPlace};
