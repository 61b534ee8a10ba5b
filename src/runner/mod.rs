//! Where agents, gates and setup commands are started: the runner that goes before their command line, and the sandbox around it.

mod mounts;
mod prefix;
mod probe;
mod reports;
mod sandbox;
mod shim;
mod supervise;

pub use prefix::{Placeholders, Runner};
pub use probe::{NoSandbox, probe};
pub use reports::Heard;
pub use sandbox::{Additions, ClientNeeds, Sandbox, SandboxPlace};
pub use shim::Shim;
pub use supervise::{Launch, supervise};
