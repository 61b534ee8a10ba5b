//! What commits change, many of them by one git process, each up to a size that fits a page.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;

use super::{Oid, PathChange, Repo};

/// A longer line of a patch is cut.
const LONGEST_LINE: usize = 500;
/// More files than these are counted, not named.
const MOST_FILES: usize = 50;
/// More paths than these are not kept.
const MOST_PATHS: usize = 5000;
/// A bigger file is shown as one that differs.
const BIG_FILE: &str = "core.bigFileThreshold=512k";

/// A commit and the one that it is compared with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Comparison {
    /// The commit.
    pub commit: Oid,
    /// What was there before.
    pub before: Oid,
}

/// How much of a patch is kept.
#[derive(Clone, Copy, Debug)]
pub struct PatchLimit {
    /// Lines.
    pub lines: usize,
    /// Bytes.
    pub bytes: usize,
}

/// What a commit changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// The files, the first of them if they are many.
    pub files: Vec<FileChange>,
    /// How many files there are.
    pub file_count: usize,
    /// The paths with their modes, the first of them if they are very many.
    pub paths: Vec<PathChange>,
    /// Lines that were added, in all files.
    pub added: usize,
    /// Lines that were removed, in all files.
    pub removed: usize,
    /// The patch, as far as it is kept.
    pub lines: Vec<String>,
    /// How many lines of it are left out.
    pub omitted: usize,
    bytes: usize,
}

/// A file that a commit changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Its path, as git prints it.
    pub path: String,
    /// Lines that were added and removed; none for a binary file.
    pub lines: Option<(usize, usize)>,
}

impl Repo {
    /// What commits change, in the order of the question; none where a commit is no longer in the repository.
    ///
    /// # Errors
    /// If git fails.
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

/// Reads what `diff-tree --stdin` prints, in memory that is bounded by the limits.
struct PatchReader {
    /// The commits in their order, with what is kept of each.
    limits: Vec<(Oid, PatchLimit)>,
    patches: Vec<Patch>,
    /// The line so far, cut.
    line: Vec<u8>,
    /// How long it really is.
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

/// A line of `--raw`. A path that git had to quote is nothing that can be typed.
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
    fn patches_are_told_apart_and_cut() {
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
