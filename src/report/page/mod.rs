//! The page of a run: everything that happened, as HTML, Markdown or JUnit XML.
//!
//! `history.rs` collects the journal's events, `model.rs` builds the page, and one file per format renders it. The same journal and
//! the same git objects give the same bytes, at any time and on any machine.

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

/// The text near the beginning of every written page, by which git-ralph recognises its own files and overwrites no others.
pub const MARK: &str = "git-ralph report";
