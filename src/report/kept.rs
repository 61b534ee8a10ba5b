//! What is kept under a ref, with the commands to look at it and to bring it back, as they can be typed.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use super::clean;
use super::words::count;
use crate::git::{DescribedRef, PathChange, RefList};
use crate::story::ChangeName;

const GITLINK: u32 = 0o160_000;
/// More paths than these are counted, not named.
const PATHS_NAMED: usize = 4;

/// Where commands will be typed.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'a> {
    /// The change that the refs belong to.
    pub change: &'a ChangeName,
    /// All refs: a branch that is proposed must not be there yet.
    pub refs: &'a RefList,
    /// Whether paths are typed from the top of the work tree.
    pub at_top: bool,
}

/// A ref, what it keeps, and what to type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Kept {
    #[serde(rename = "ref")]
    name: String,
    what: String,
    look: String,
    back: Option<String>,
    #[serde(skip)]
    unnamed: usize,
}

impl Kept {
    /// Looks at a ref and at what differs between the commit and its parent; nothing, if it keeps nothing.
    #[must_use]
    pub fn new(entry: &DescribedRef, changes: &[PathChange], spot: &Spot<'_>) -> Option<Self> {
        let rest = entry.name.strip_prefix(&format!("refs/ralph/{}/", spot.change))?;
        let own = without_run(rest);
        let files = own.starts_with("attempts/") || own.starts_with("adopted/") || own == "index";
        if matches!(rest, "base" | "initial" | "checkpoint" | "pin") || (own == "index" && changes.is_empty()) {
            return None;
        }
        let name = quoted(&entry.name);
        let held = if files { format!("{} ({})", what(own, entry), count(changes.len(), "file")) } else { what(own, entry) };
        let look = match &entry.parent {
            Some(parent) if files => format!("git diff {} {name}", parent.short()),
            _ => format!("git show --stat {name}"),
        };
        let (back, unnamed) = match files {
            true => restore(&name, changes, spot),
            false => (Some(format!("git branch {} {name}", branch(rest, spot))), 0),
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

/// A ref of an earlier run as it was called then.
pub(super) fn without_run(rest: &str) -> &str {
    rest.strip_prefix("runs/").and_then(|rest| rest.split_once('/')).map_or(rest, |(_, own)| own)
}

fn what(own: &str, entry: &DescribedRef) -> String {
    let kind = own.split('/').next().unwrap_or(own);
    match kind {
        "adopted" => "edits of yours that an attempt started from".to_owned(),
        "index" => "what was staged at the start".to_owned(),
        "moved" => "what an agent made of a ref that was put back".to_owned(),
        "abandoned" => "commits that an agent made and left behind".to_owned(),
        "leftover" => format!("a branch that an earlier run left: {}", clean(&entry.subject)),
        "done" => format!("what the run ended with: {}", clean(&entry.subject)),
        "undone" => format!("what an undo took back: {}", clean(&entry.subject)),
        _ => clean(&entry.subject),
    }
}

/// The command that brings files back; a path that cannot be typed is not named.
fn restore(name: &str, changes: &[PathChange], spot: &Spot<'_>) -> (Option<String>, usize) {
    let there: Vec<&PathChange> = changes.iter().filter(|change| change.new_mode != 0 && change.new_mode != GITLINK).collect();
    let paths: Vec<String> = there.iter().filter_map(|change| pathspec(&change.path, spot.at_top)).take(PATHS_NAMED).collect();
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
fn branch(rest: &str, spot: &Spot<'_>) -> String {
    let own = format!("ralph/{}", spot.change);
    let plain = format!("{}-{}", spot.change, rest.replace('/', "-"));
    let first = if rest == "done" { own } else { plain.clone() };
    let numbered = (2..).map(|number| format!("{plain}-{number}"));
    let mut names = [first, plain.clone()].into_iter().chain(numbered);
    quoted(&names.find(|name| is_free(name, spot.refs)).unwrap_or(plain))
}

fn is_free(name: &str, refs: &RefList) -> bool {
    let full = format!("refs/heads/{name}");
    let below = format!("{full}/");
    refs.get(&full).is_none()
        && refs.below(&below).next().is_none()
        && full.rsplit_once('/').is_none_or(|(above, _)| refs.get(above).is_none())
}

/// A word as a shell reads it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_shell_as_they_are() {
        assert_eq!(quoted("refs/ralph/work/attempts/a%20b/1"), "refs/ralph/work/attempts/a%20b/1");
        assert_eq!(quoted("$(reboot)"), "'$(reboot)'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(pathspec(Path::new("a b"), true).as_deref(), Some("'a b'"));
        assert_eq!(pathspec(Path::new("a"), false).as_deref(), Some(":/a"));
        assert_eq!(pathspec(Path::new("*"), true).as_deref(), Some("':(top,literal)*'"));
        assert_eq!(pathspec(Path::new("a\u{1b}[2J"), true), None);
    }
}
