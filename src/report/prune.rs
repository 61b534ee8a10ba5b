//! Describes what `git ralph prune` would delete or has deleted.

use std::fmt::Write as _;
use std::path::Path;

use super::clean;
use super::words::{bytes_words, count};
use crate::run::Prunable;

/// The list, one item per line with a description.
#[must_use]
pub fn prune_text(found: &Prunable, shown: impl Fn(&Path) -> String) -> String {
    let refs = found.refs.iter().map(|entry| (clean(&entry.name), clean(&entry.subject)));
    let runs = found.runs.iter().map(|old| {
        let moved = if old.moved { ", with files that were moved or copied there because git could not store them" } else { "" };
        let what = format!("journal, prompts and transcripts of run {} of {}{moved}", old.run.number, old.run.change);
        (shown(old.run.path()), what)
    });
    let locks = found.stale_locks.iter().map(|dir| (shown(dir), "locks left by dead processes".to_owned()));
    let workspaces = found.workspaces.iter().map(|left| {
        let what = format!("private clones of a run of {}, {}", clean(&left.owner.change), bytes_words(left.bytes()));
        (shown(&left.path), what)
    });
    let stashes = found.stashes.iter().map(|entry| (format!("stash@{{{}}}", entry.index), clean(entry.words())));
    let lines: Vec<(String, String)> = refs.chain(runs).chain(workspaces).chain(locks).chain(stashes).collect();
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, what) in lines {
        let _ = writeln!(text, "{name:<width$}  {what}");
    }
    text
}

/// How much it is, as part of a sentence.
#[must_use]
pub fn prune_words(found: &Prunable) -> String {
    let parts = [
        (found.refs.len(), count(found.refs.len(), "ref")),
        (found.runs.len(), count(found.runs.len(), "run")),
        (found.workspaces.len(), format!("{} of private clones", count(found.workspaces.len(), "directory"))),
        (found.stashes.len(), count(found.stashes.len(), "stash entry")),
        (found.stale_locks.iter().len(), "stale locks".to_owned()),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|(number, _)| *number > 0).map(|(_, words)| words).collect();
    parts.join(", ")
}
