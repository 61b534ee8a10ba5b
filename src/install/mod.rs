//! The manual and shell completion as files: what is shipped, where it belongs, how it gets there and goes again.

mod directories;
mod file;
mod record;
mod shipped;

pub use directories::Places;
pub use file::{Installed, State};
pub use record::Record;
pub use shipped::{COMPLETIONS, PAGES, Shipped};
