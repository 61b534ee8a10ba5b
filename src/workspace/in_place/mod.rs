//! Guards the user's own checkout: protects the user's part of the shared git directory against the agent.

mod command_settings;
mod foreign_refs;
mod git_essentials;
mod guard;
mod mirror;
mod object_links;
mod operations;
mod own_refs;
mod sealed;

pub(in crate::workspace) use git_essentials::Anchor;
pub(crate) use guard::{AttemptEnd, Findings};
pub(super) use mirror::Mirror;
pub(super) use object_links::ObjectLinks;
pub(crate) use operations::under_way_problem;
pub(crate) use sealed::OriginalIndex;
pub(super) use sealed::Sealed;
