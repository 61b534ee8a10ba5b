//! Installs and removes manual pages and completion scripts: which files, where, and how.

mod directories;
mod file;
mod record;
mod shipped;

pub use directories::Places;
pub use file::{Installed, State};
pub use record::Record;
pub use shipped::{COMPLETIONS, PAGES, Shipped};
