//! Starts agents, gates and setup commands behind a runner, a command of the user's such as `srun`, and inside a sandbox.

mod mounts;
mod prefix;
mod probe;
mod reports;
mod sandbox;
mod seatbelt;
mod shim;
mod supervise;

pub use prefix::{Placeholders, Runner};
pub use probe::{NoSandbox, probe};
pub use reports::Heard;
pub use sandbox::{Additions, ClientNeeds, Sandbox, SandboxPlace};
pub use shim::Shim;
pub use supervise::{Launch, supervise};
