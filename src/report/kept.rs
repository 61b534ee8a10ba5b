//! Describes saved work under a ref, with commands to inspect and to restore it that the user can paste.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use super::clean;
use super::words::count;
use crate::free_name::free_name;
use crate::git::{DescribedRef, PathChange, RefList};
use crate::names::{Names, RefKind};
use crate::shell_word::quoted;
use crate::story::ChangeName;

const GITLINK: u32 = 0o160_000;
/// At most this many paths are named; the others are counted.
const PATHS_NAMED: usize = 4;

/// Where the commands will be typed.
#[derive(Clone, Copy, Debug)]
pub struct CommandPlace<'a> {
    /// The change that the refs belong to.
    pub change: &'a ChangeName,
    /// All refs, because a proposed branch name must not exist yet.
    pub refs: &'a RefList,
    /// Whether the commands are typed at the top of the work tree, which paths are relative to.
    pub at_top: bool,
}

/// A ref, what it keeps, and the commands for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Kept {
    #[serde(rename = "ref")]
    pub(super) name: String,
    pub(super) what: String,
    pub(super) look: String,
    pub(super) back: Option<String>,
    #[serde(skip)]
    pub(super) unnamed: usize,
}

impl Kept {
    /// Describes a ref, given the changes between its commit and the parent. `None` if it keeps no work.
    #[must_use]
    pub fn new(entry: &DescribedRef, changes: &[PathChange], place: &CommandPlace<'_>) -> Option<Self> {
        let names = Names::new(place.change);
        let rest = entry.name.strip_prefix(&names.prefix())?;
        let own = names.kind(&entry.name);
        // A ref of an unknown kind is described by its name.
        let kind = own.map(|own| own.kind);
        let files = kind.is_some_and(RefKind::holds_files);
        let nothing = own.is_some_and(|own| own.kind.is_internal() && own.run.is_none());
        if nothing || (kind == Some(RefKind::Index) && changes.is_empty()) {
            return None;
        }
        let name = quoted(&entry.name);
        let held = if files { format!("{} ({})", what(kind, entry), count(changes.len(), "file")) } else { what(kind, entry) };
        let look = match &entry.parent {
            Some(parent) if files => format!("git diff {} {name}", parent.short()),
            _ => format!("git show --stat {name}"),
        };
        let (back, unnamed) = match files {
            true => restore(&name, changes, place),
            false => (Some(format!("git branch {} {name}", branch(rest, &names, place))), 0),
        };
        Some(Kept { name: clean(&entry.name), what: held, look, back, unnamed })
    }

    pub(super) fn write(&self, text: &mut String) {
        let _ = writeln!(text, "  {}  {}", self.name, self.what);
        let _ = writeln!(text, "    look: {}", self.look);
        if let Some(back) = &self.back {
            let _ = writeln!(text, "    back: {back}");
        }
        if self.unnamed > 0 {
            let _ = writeln!(text, "          (and {} more)", count(self.unnamed, "path"));
        }
    }
}

fn what(kind: Option<RefKind>, entry: &DescribedRef) -> String {
    match kind {
        Some(RefKind::Adopted) => "your edits that an attempt started from".to_owned(),
        Some(RefKind::Index) => "your staged changes at the start".to_owned(),
        Some(RefKind::Queued) => format!("work that waits in the landing queue: {}", clean(&entry.subject)),
        Some(RefKind::Moved) => "the agent's version of a ref that was restored".to_owned(),
        Some(RefKind::Abandoned) => "commits of an agent that are not in the checkpoint".to_owned(),
        Some(RefKind::Leftover) => format!("the branch of an earlier run: {}", clean(&entry.subject)),
        Some(RefKind::Done) => format!("the result of the run: {}", clean(&entry.subject)),
        Some(RefKind::Undone) => format!("checkpoints removed by undo: {}", clean(&entry.subject)),
        Some(RefKind::Remote) => "an attempt on another machine, on its way through this repository".to_owned(),
        Some(RefKind::Attempt | RefKind::Base | RefKind::Initial | RefKind::ByHand | RefKind::Checkpoint | RefKind::Pin) | None => {
            clean(&entry.subject)
        }
    }
}

/// The command that restores files. A path that cannot be typed is left out.
fn restore(name: &str, changes: &[PathChange], place: &CommandPlace<'_>) -> (Option<String>, usize) {
    let there: Vec<&PathChange> = changes.iter().filter(|change| change.new_mode != 0 && change.new_mode != GITLINK).collect();
    let paths: Vec<String> = there.iter().filter_map(|change| pathspec(&change.path, place.at_top)).take(PATHS_NAMED).collect();
    if paths.is_empty() {
        return (None, there.len());
    }
    (Some(format!("git restore --source={name} -- {}", paths.join(" "))), there.len() - paths.len())
}

fn pathspec(path: &Path, at_top: bool) -> Option<String> {
    let path = path.to_str().filter(|path| clean(path) == **path)?;
    let special = path.starts_with(':') || path.contains(['*', '?', '[', '\\']);
    Some(quoted(&match (special, at_top) {
        (true, _) => format!(":(top,literal){path}"),
        (false, true) => path.to_owned(),
        (false, false) => format!(":/{path}"),
    }))
}

/// A name for a branch that does not exist yet.
fn branch(rest: &str, names: &Names, place: &CommandPlace<'_>) -> String {
    let own = names.short_branch();
    let plain = format!("{}-{}", place.change, rest.replace('/', "-"));
    let first = if rest == "done" { own } else { plain.clone() };
    let wanted = if is_free(&first, place.refs) { first } else { plain.clone() };
    quoted(&free_name(wanted, |number| format!("{plain}-{number}"), |name| !is_free(name, place.refs)))
}

fn is_free(name: &str, refs: &RefList) -> bool {
    let full = format!("refs/heads/{name}");
    let below = format!("{full}/");
    refs.get(&full).is_none()
        && refs.below(&below).next().is_none()
        && full.rsplit_once('/').is_none_or(|(above, _)| refs.get(above).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_reach_git_as_they_are() {
        assert_eq!(pathspec(Path::new("a b"), true).as_deref(), Some("'a b'"));
        assert_eq!(pathspec(Path::new("a"), false).as_deref(), Some(":/a"));
        assert_eq!(pathspec(Path::new("*"), true).as_deref(), Some("':(top,literal)*'"));
        assert_eq!(pathspec(Path::new("a\u{1b}[2J"), true), None);
    }
}
