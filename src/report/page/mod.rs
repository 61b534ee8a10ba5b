//! The picture of a run: one page of everything that happened, as HTML, Markdown or JUnit XML.
//!
//! `history.rs` folds the journal, `model.rs` puts the page together, the formats render it. The same journal and the same git
//! objects make the same bytes, on any day and any machine.

mod drawn;
mod foreign;
mod history;
mod html;
mod junit;
mod markdown;
mod model;
mod timeline;

pub use drawn::timeline_text;
pub use foreign::patch_limits;
pub use history::History;
pub use html::page_html;
pub use junit::page_junit;
pub use markdown::page_markdown;
pub use model::{Findings, Page, comparisons};
pub use timeline::Timeline;

/// What every file that is written here has near its beginning, so that nothing else is overwritten.
pub const MARK: &str = "git-ralph report";
