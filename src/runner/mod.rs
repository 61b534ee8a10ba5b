//! Where agents, gates and setup commands are started: the runner that goes before their command line.

mod prefix;

pub use prefix::{Placeholders, Runner};
