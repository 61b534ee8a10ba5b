//! Reads the changes of many commits with one git process, each up to a given size.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;

use super::{Oid, PathChange, Repo};

/// The maximum length of a line; longer lines are cut.
const LONGEST_LINE: usize = 500;
/// The maximum number of files that are listed; further files are only counted.
const MOST_FILES: usize = 50;
/// The maximum number of paths that are kept.
const MOST_PATHS: usize = 5000;
/// For bigger files, git only reports that they differ.
const BIG_FILE: &str = "core.bigFileThreshold=512k";

/// A commit and the commit to compare it with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Comparison {
    /// The commit.
    pub commit: Oid,
    /// The earlier commit.
    pub before: Oid,
}

/// The size limits of a patch.
#[derive(Clone, Copy, Debug)]
pub struct PatchLimit {
    /// The maximum number of lines.
    pub lines: usize,
    /// The maximum number of bytes.
    pub bytes: usize,
}

/// The changes of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// The changed files, up to a limit.
    pub files: Vec<FileChange>,
    /// The total number of changed files.
    pub file_count: usize,
    /// The changed paths with their modes, up to a limit.
    pub paths: Vec<PathChange>,
    /// The number of added lines in all files.
    pub added: usize,
    /// The number of removed lines in all files.
    pub removed: usize,
    /// The lines of the patch, up to the limit.
    pub lines: Vec<String>,
    /// The number of omitted lines.
    pub omitted: usize,
    bytes: usize,
}

/// A file that a commit changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Its path, as git prints it.
    pub path: String,
    /// The numbers of added and removed lines; none for a binary file.
    pub lines: Option<(usize, usize)>,
}

impl Repo {
    /// The changes of commits, in the given order; none for a commit that is no longer in the repository.
    pub async fn patches(&self, wanted: &[(Comparison, PatchLimit)]) -> Result<Vec<Option<Patch>>> {
        let named: BTreeSet<Oid> = wanted.iter().flat_map(|(it, _)| [it.commit.clone(), it.before.clone()]).collect();
        let missing = if named.is_empty() { BTreeSet::new() } else { self.missing(&named).await? };
        let is_there = |it: &Comparison| !missing.contains(&it.commit) && !missing.contains(&it.before);
        let there: Vec<usize> = (0..wanted.len()).filter(|at| is_there(&wanted[*at].0)).collect();
        let mut found: Vec<Option<Patch>> = wanted.iter().map(|_| None).collect();
        if there.is_empty() {
            return Ok(found);
        }
        let input: String = there.iter().map(|at| format!("{} {}\n", wanted[*at].0.commit, wanted[*at].0.before)).collect();
        let args =
            ["diff-tree", "--stdin", "--always", "-r", "-M", "--raw", "--no-abbrev", "--numstat", "-p", "--no-ext-diff", "--no-textconv"];
        let git = self.git.clone().with_config([BIG_FILE.to_owned()]);
        let limits = there.iter().map(|at| (wanted[*at].0.commit.clone(), wanted[*at].1)).collect();
        let mut reader = PatchReader { limits, patches: Vec::new(), line: Vec::new(), length: 0 };
        git.call(args).working().input(input).stream(&mut |piece| reader.feed(piece)).await?;
        reader.end_line();
        for (at, patch) in there.into_iter().zip(reader.patches) {
            found[at] = Some(patch);
        }
        Ok(found)
    }
}

/// Parses the output of `diff-tree --stdin` in memory that is bounded by the limits.
struct PatchReader {
    /// The commits in order, with their limits.
    limits: Vec<(Oid, PatchLimit)>,
    patches: Vec<Patch>,
    /// The current line, cut to the maximum length.
    line: Vec<u8>,
    /// The full length of the current line.
    length: usize,
}

impl PatchReader {
    fn feed(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
            let room = LONGEST_LINE.saturating_sub(self.line.len()).min(text.len());
            self.line.extend_from_slice(&text[..room]);
            self.length += text.len();
            if ends {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let text = String::from_utf8_lossy(&self.line).into_owned();
        let cut = if self.length > self.line.len() { "…" } else { "" };
        self.line.clear();
        self.length = 0;
        let is_next = self.limits.get(self.patches.len()).is_some_and(|(commit, _)| commit.as_str() == text);
        if is_next {
            self.patches.push(Patch::default());
        } else if let Some((patch, (_, limit))) =
            self.patches.len().checked_sub(1).and_then(|at| self.patches.last_mut().zip(self.limits.get(at)))
        {
            patch.take(text + cut, *limit);
        }
    }
}

impl Patch {
    fn take(&mut self, line: String, limit: PatchLimit) {
        if self.lines.is_empty() && self.omitted == 0 && !line.starts_with("diff --git ") {
            return self.take_file(&line);
        }
        if line.starts_with("index ") {
            return;
        }
        if self.lines.len() < limit.lines && self.bytes + line.len() <= limit.bytes {
            self.bytes += line.len() + 1;
            self.lines.push(line);
        } else {
            self.omitted += 1;
        }
    }

    fn take_file(&mut self, line: &str) {
        if let Some(raw) = line.strip_prefix(':') {
            if self.paths.len() < MOST_PATHS {
                self.paths.extend(path_change(raw));
            }
            return;
        }
        let mut fields = line.splitn(3, '\t');
        let (Some(added), Some(removed), Some(path)) = (fields.next(), fields.next(), fields.next()) else { return };
        let lines = added.parse().ok().zip(removed.parse().ok());
        let (more_added, more_removed): (usize, usize) = lines.unwrap_or_default();
        self.file_count += 1;
        self.added += more_added;
        self.removed += more_removed;
        if self.files.len() < MOST_FILES {
            self.files.push(FileChange { path: path.to_owned(), lines });
        }
    }
}

/// Parses a line of `--raw`. Quoted paths are taken as git prints them.
fn path_change(raw: &str) -> Option<PathChange> {
    let mut fields = raw.split('\t');
    let meta: Vec<&str> = fields.next()?.split(' ').collect();
    let [old, new, old_oid, new_oid, status] = meta.as_slice() else { return None };
    let mode = |text: &str| u32::from_str_radix(text, 8).ok();
    Some(PathChange {
        path: PathBuf::from(fields.next_back()?),
        status: status.chars().next()?,
        old_mode: mode(old)?,
        new_mode: mode(new)?,
        old_oid: old_oid.parse().ok()?,
        new_oid: new_oid.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(commits: &[&str], text: &str, lines: usize) -> Vec<Patch> {
        let limits = commits.iter().map(|commit| (commit.repeat(40).parse().unwrap(), PatchLimit { lines, bytes: 10_000 })).collect();
        let mut reader = PatchReader { limits, patches: Vec::new(), line: Vec::new(), length: 0 };
        text.as_bytes().chunks(7).for_each(|piece| reader.feed(piece));
        reader.end_line();
        reader.patches
    }

    #[test]
    fn patches_are_separated_and_cut() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let text = format!("{a}\n1\t0\tf\n-\t-\tpicture\n\ndiff --git a/f b/f\n@@ -0,0 +1 @@\n+{b}\n{b}\n");
        let patches = read(&["a", "b"], &text, 2);
        assert_eq!((patches.len(), patches[0].file_count, patches[0].added, patches[1].file_count), (2, 2, 1, 0));
        assert_eq!((patches[0].lines.len(), patches[0].omitted), (2, 1), "{patches:?}");
        assert_eq!(patches[0].files[1].lines, None);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let patches = read(&["a"], &format!("{}\n\ndiff --git a/f b/f\n+{}\n", "a".repeat(40), "x".repeat(5000)), 9);
        assert!(patches[0].lines[1].len() < 600 && patches[0].lines[1].ends_with('…'), "{patches:?}");
    }
}
