//! The manual and shell completion as files: what is shipped, where it belongs, how it gets there and goes again.

mod file;
mod places;
mod shipped;

pub use file::{Installed, State};
pub use places::Places;
pub use shipped::{COMPLETIONS, PAGES, Shipped};
