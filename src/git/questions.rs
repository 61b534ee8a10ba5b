//! Defines the queries of a repository: they run git with explicit ids and names, and change nothing.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::operations::{OPERATION_FILES, OperationFile};
use super::repo::{nul_joined, path_of};
use super::{Head, Oid, RefList, Repo};
use crate::safe_read;

/// The size of the difference between two trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiffStat {
    /// The number of files added, changed or removed.
    pub files: usize,
    /// The number of added lines.
    pub insertions: usize,
    /// The number of removed lines.
    pub deletions: usize,
}

/// One path that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// The path from the top of the work tree.
    pub path: PathBuf,
    /// `A`, `M`, `D` or `T`.
    pub status: char,
    /// The mode in the first tree; 0 if it is not there.
    pub old_mode: u32,
    /// The mode in the second tree; 0 if it is not there.
    pub new_mode: u32,
    /// The object in the first tree; null if it is not there.
    pub old_oid: Oid,
    /// The object in the second tree; null if it is not there.
    pub new_oid: Oid,
}

impl PathChange {
    /// The change that adds a path.
    #[must_use]
    pub fn added(path: PathBuf, mode: u32, oid: Oid) -> Self {
        let nothing = oid.nothing();
        PathChange { path, status: 'A', old_mode: 0, new_mode: mode, old_oid: nothing, new_oid: oid }
    }

    /// Whether the path is a regular file after the change.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.new_mode & 0o170_000 == 0o100_000
    }

    /// The reverse change.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let status = match self.status {
            'A' => 'D',
            'D' => 'A',
            other => other,
        };
        PathChange {
            path: self.path.clone(),
            status,
            old_mode: self.new_mode,
            new_mode: self.old_mode,
            old_oid: self.new_oid.clone(),
            new_oid: self.old_oid.clone(),
        }
    }
}

/// One line of `git status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeEntry {
    /// A tracked path that differs from HEAD or the index.
    Changed(PathBuf),
    /// A path with a conflict.
    Unmerged(PathBuf),
    /// Neither tracked nor ignored. A directory if it is a nested repository.
    Untracked(PathBuf),
    /// Ignored. A directory if all of it is ignored.
    Ignored(PathBuf),
}

/// The result of merging two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The merged tree.
    Clean(Oid),
    /// The conflicting paths.
    Conflict(Vec<PathBuf>),
}

/// Paths with a flag in the index that makes git ignore changes: assume-unchanged or skip-worktree.
#[derive(Debug, Default)]
pub struct Hidden {
    pub(super) assumed: Vec<PathBuf>,
    pub(super) skipped: Vec<PathBuf>,
}

/// The paths of an index.
#[derive(Debug, Default)]
pub struct Listing {
    /// The paths that are hidden from git.
    pub hidden: Hidden,
    /// The directories that contain files of the index, and their parents.
    pub directories: HashSet<PathBuf>,
    /// The gitlinks.
    pub gitlinks: Vec<PathBuf>,
}

impl Hidden {
    /// Whether nothing is hidden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.assumed.is_empty() && self.skipped.is_empty()
    }
}

/// The entries of a file `shallow`: commits at which git takes history to end.
#[derive(Debug)]
pub struct ShallowEntries {
    /// Those from before an attempt.
    pub before: BTreeSet<String>,
    /// Those that are there now.
    pub now: BTreeSet<String>,
    /// Those from before, and new ones for commits whose parents are not in the repository: a shallow fetch made them, and without them
    /// git could not read what was fetched.
    pub wanted: BTreeSet<String>,
}

impl Repo {
    /// The version of git as it prints it; empty if git fails.
    pub async fn git_version(&self) -> String {
        let said = self.git.call(["version"]).line().await.unwrap_or_default();
        said.strip_prefix("git version ").unwrap_or(&said).to_owned()
    }

    /// The operation under way in the work tree, such as a merge or a rebase.
    pub async fn under_way(&self) -> Result<Option<&'static str>> {
        let there = |file: &&OperationFile| file.operation.is_some() && self.place.git_dir.join(file.name).symlink_metadata().is_ok();
        if let Some(file) = OPERATION_FILES.iter().find(there) {
            return Ok(file.operation);
        }
        if !self.place.common_dir.join("reftable").exists() {
            return Ok(None);
        }
        // In a reftable repository these are refs, not files.
        let names: String = OPERATION_FILES.iter().take(3).map(|file| format!("{}\n", file.name)).collect();
        let output = self.git.call(["cat-file", "--batch-check=%(objecttype)"]).input(names).output().await?;
        let found = String::from_utf8_lossy(&output).lines().position(|line| !line.ends_with("missing"));
        Ok(found.and_then(|at| OPERATION_FILES.get(at)?.operation))
    }

    /// All refs.
    pub async fn refs(&self) -> Result<RefList> {
        let answer = self.git.call(RefList::QUERY).answer().await?;
        if answer.code == 0 {
            return RefList::parse(&answer.stdout);
        }
        // If a single ref points to a missing object, git lists none, so names and objects are queried separately.
        let failure = answer.failure();
        let names = self.git.call(RefList::NAMES).output().await.map_err(|_| failure)?;
        let check = self.git.call(["cat-file", "--batch-check=%(objectname) %(objecttype)"]);
        RefList::parse_both(&names, &check.input(RefList::objects(&names)).output().await?)
    }

    /// The current HEAD. If `refs` shows that HEAD is on a branch with commits, no git process is needed.
    ///
    /// # Errors
    /// If HEAD is broken.
    pub async fn head(&self, refs: &RefList) -> Result<Head> {
        if let Some(entry) = refs.head() {
            return Ok(Head::Branch { name: entry.name.clone(), oid: entry.oid.clone() });
        }
        if let Some(name) = self.target_of("HEAD").await? {
            return Ok(Head::Unborn { name });
        }
        let oid = self.git.call(["rev-parse", "--verify", "-q", "HEAD^{commit}"]).line().await?;
        Ok(Head::Detached { oid: oid.parse()? })
    }

    /// The target of a symbolic ref.
    pub async fn target_of(&self, name: &str) -> Result<Option<String>> {
        let answer = self.git.call(["symbolic-ref", "-q", name]).answer().await?;
        Ok((answer.code == 0).then(|| String::from_utf8_lossy(&answer.stdout).trim_end().to_owned()))
    }

    /// The branches that are checked out in other work trees, each with its path.
    pub async fn checked_out_elsewhere(&self) -> Result<Vec<(String, String)>> {
        if fs::read_dir(self.place.common_dir.join("worktrees")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            // There is only the main work tree: git records linked work trees in this directory, and removes it with the last of
            // them.
            return Ok(Vec::new());
        }
        let output = self.git.call(["worktree", "list", "--porcelain", "-z"]).output().await?;
        let text = String::from_utf8_lossy(&output).into_owned();
        let mut found = Vec::new();
        let (mut path, mut number) = ("", 0);
        // The main work tree comes first; git may name it by its git directory.
        let main = self.place.git_dir == self.place.common_dir;
        for line in text.split('\0') {
            if let Some(worktree) = line.strip_prefix("worktree ") {
                path = worktree;
                number += 1;
            } else if let Some(branch) = line.strip_prefix("branch ") {
                let ours = if main { number == 1 } else { Path::new(path) == self.place.top };
                if !ours {
                    found.push((branch.to_owned(), path.to_owned()));
                }
            }
        }
        Ok(found)
    }

    /// The branches that are checked out or being rebased in other work trees, read from files without a git process.
    #[must_use]
    pub fn worked_on_elsewhere(&self) -> Vec<String> {
        let common = &self.place.common_dir;
        let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_there = |dir: &PathBuf| fs::read_to_string(dir.join("gitdir")).is_ok_and(|file| dir.join(file.trim_end()).exists());
        let others = linked.filter(is_there).chain([common.clone()]).filter(|dir| *dir != self.place.git_dir);
        let files = others.flat_map(|dir| ["HEAD", "rebase-merge/head-name", "rebase-apply/head-name"].map(|file| dir.join(file)));
        let names = files.filter_map(|file| fs::read_to_string(file).ok());
        names.map(|text| text.trim_end().trim_start_matches("ref: ").to_owned()).filter(|name| name.starts_with("refs/heads/")).collect()
    }

    /// Everything that `git status` lists, including ignored paths, based on the given index.
    pub async fn status(&self, index: &Path) -> Result<Vec<TreeEntry>> {
        Ok(self.status_with_words(index).await?.0)
    }

    /// The same, with git's warnings about paths that it could not read.
    pub async fn status_with_words(&self, index: &Path) -> Result<(Vec<TreeEntry>, String)> {
        let args = ["--no-optional-locks", "status", "--porcelain=v2", "-z", "-uall", "--ignored=matching", "--no-renames"];
        let answer = self.git.call(args).index(index).working().answer().await?;
        let words = answer.errors();
        let output = answer.success()?;
        let entries = output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).filter_map(|entry| {
            let fields = |count| entry.splitn(count, |byte| *byte == b' ').nth(count - 1).map(path_of);
            match entry.first()? {
                b'1' => fields(9).map(TreeEntry::Changed),
                b'u' => fields(11).map(TreeEntry::Unmerged),
                b'?' => entry.get(2..).map(path_of).map(TreeEntry::Untracked),
                b'!' => entry.get(2..).map(path_of).map(TreeEntry::Ignored),
                _ => None,
            }
        });
        Ok((entries.collect(), words))
    }

    /// Files that are neither in an index nor ignored. A nested repository ends in a slash.
    pub async fn untracked(&self, index: &Path) -> Result<Vec<PathBuf>> {
        let call = self.git.call(["ls-files", "-z", "--others", "--exclude-standard"]);
        let output = call.index(index).working().output().await?;
        Ok(output.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of).collect())
    }

    /// Ignored files outside of ignored directories. Reads no tracked file, so it is faster than a full scan.
    pub async fn ignored_files(&self, index: &Path) -> Result<Vec<PathBuf>> {
        let call = self.git.call(["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"]);
        let output = call.index(index).working().output().await?;
        Ok(output.split(|byte| *byte == 0).filter(|path| !path.is_empty() && !path.ends_with(b"/")).map(path_of).collect())
    }

    /// The paths among these that differ, or may differ, from an index.
    pub async fn edited(&self, index: &Path, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let args = ["--literal-pathspecs", "diff-files", "--name-only", "-z", "--"].map(OsStr::new);
        let call = self.git.call(args.into_iter().chain(paths.iter().map(|path| path.as_os_str())));
        let output = call.index(index).working().output().await?;
        Ok(output.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of).collect())
    }

    /// The files in a directory that differ from an index, as if the directory were the work tree. Missing files do not count,
    /// and files may have been renamed into the directory.
    pub async fn edited_in(&self, dir: &Path, index: &Path) -> Result<HashSet<PathBuf>> {
        let git = self.git.elsewhere(dir, Some(&self.place.git_dir)).with_config(["core.trustctime=false".to_owned()]);
        let output = git.call(["diff-files", "--name-only", "--diff-filter=d", "-z"]).index(index).working().output().await?;
        Ok(output.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of).collect())
    }

    /// Files that exist although the index marks them skip-worktree.
    pub async fn left_out_but_there(&self, index: &Path) -> Result<Vec<PathBuf>> {
        if !self.place.git_dir.join("info/sparse-checkout").exists() {
            return Ok(Vec::new());
        }
        let left_out = self.left_out(index).await?;
        Ok(left_out.into_iter().filter(|path| self.place.top.join(path).symlink_metadata().is_ok()).collect())
    }

    /// The tracked files, and the untracked files that are not ignored.
    pub async fn files_of_checkout(&self) -> Result<Vec<PathBuf>> {
        let output = self.git.call(["ls-files", "-z", "-c", "-o", "--exclude-standard"]).working().output().await?;
        Ok(output.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of).collect())
    }

    /// The paths that the index marks skip-worktree.
    pub async fn left_out(&self, index: &Path) -> Result<BTreeSet<PathBuf>> {
        // Otherwise git clears the skip-worktree flag of files that exist.
        let git = self.git.clone().with_config(["sparse.expectFilesOutsideOfPatterns=true".to_owned()]);
        let output = git.call(["ls-files", "-t", "-z"]).index(index).working().output().await?;
        Ok(output.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(b"S ")).map(path_of).collect())
    }

    /// Compares a file `shallow` with the copy from before an attempt.
    pub async fn shallow_entries(&self, before: &Path, now: &Path) -> Result<ShallowEntries> {
        let entries = |file: &Path| -> BTreeSet<String> {
            let text = if file.is_file() { safe_read::text(file).unwrap_or_default() } else { String::new() };
            text.lines().map(str::to_owned).collect()
        };
        let (before, now) = (entries(before), entries(now));
        let mut wanted = before.clone();
        for entry in now.difference(&before) {
            if let Ok(commit) = entry.parse::<Oid>()
                && self.lacks_parents(&commit).await?
            {
                wanted.insert(entry.clone());
            }
        }
        Ok(ShallowEntries { before, now, wanted })
    }

    /// Whether a commit is in the repository and one of its parents is not.
    async fn lacks_parents(&self, commit: &Oid) -> Result<bool> {
        // The commit itself names its parents, whatever git takes for the end of history.
        let answer = self.git.call(["cat-file", "commit", commit.as_str()]).answer().await?;
        let header = String::from_utf8_lossy(&answer.stdout);
        let header = header.split("\n\n").next().unwrap_or_default().lines();
        let parents: BTreeSet<Oid> = header.filter_map(|line| line.strip_prefix("parent ")?.parse().ok()).collect();
        Ok(answer.code == 0 && !self.missing(&parents).await?.is_empty())
    }

    /// Whether sparse checkout is on in this work tree.
    pub async fn is_sparse(&self) -> Result<bool> {
        let answer = self.git.call(["config", "--type=bool", "core.sparseCheckout"]).answer().await?;
        Ok(answer.stdout.starts_with(b"true"))
    }

    /// The objects among these that are not in the repository.
    pub async fn missing(&self, oids: &BTreeSet<Oid>) -> Result<BTreeSet<Oid>> {
        let names: String = oids.iter().map(|oid| format!("{oid}\n")).collect();
        let found = self.git.call(["cat-file", "--batch-check"]).input(names).output().await?;
        let text = String::from_utf8_lossy(&found);
        Ok(text.lines().filter_map(|line| line.strip_suffix(" missing")?.parse().ok()).collect())
    }

    /// Whether an index can be read and every object that it refers to exists.
    pub async fn has_all_of(&self, index: &Path) -> Result<bool> {
        let listed = self.git.call(["ls-files", "-s", "-z"]).index(index).working().answer().await?;
        if listed.code != 0 {
            return Ok(false);
        }
        let mut names = Vec::new();
        for entry in listed.stdout.split(|byte| *byte == 0).filter(|entry| !entry.starts_with(b"160000 ")) {
            let Some(name) = entry.split(|byte| *byte == b' ').nth(1) else { continue };
            names.extend_from_slice(name);
            names.push(b'\n');
        }
        let found = self.git.call(["cat-file", "--batch-check"]).input(names).output().await?;
        Ok(!found.split(|byte| *byte == b'\n').any(|line| line.ends_with(b" missing")))
    }

    /// The directories, hidden paths and gitlinks of an index.
    pub async fn listing(&self, index: &Path) -> Result<Listing> {
        let output = self.git.call(["ls-files", "-v", "-s", "-z"]).index(index).working().output().await?;
        let mut listing = Listing::default();
        let mut last: Option<&[u8]> = None;
        for entry in output.split(|byte| *byte == 0) {
            let path = entry.iter().position(|byte| *byte == b'\t').and_then(|tab| entry.get(tab + 1..));
            let (Some(tag), Some(path)) = (entry.first(), path) else { continue };
            let present = || self.place.top.join(path_of(path)).symlink_metadata().is_ok();
            if tag.is_ascii_lowercase() {
                listing.hidden.assumed.push(path_of(path));
            }
            if tag.eq_ignore_ascii_case(&b'S') && present() {
                listing.hidden.skipped.push(path_of(path));
            }
            if entry.get(2..).is_some_and(|rest| rest.starts_with(b"160000 ")) {
                listing.gitlinks.push(path_of(path));
            }
            let dir = path.iter().rposition(|byte| *byte == b'/').map(|end| &path[..end]);
            // Files of one directory are adjacent.
            if let Some(dir) = dir.filter(|_| dir != last) {
                let around = Path::new(OsStr::from_bytes(dir)).ancestors();
                listing.directories.extend(around.take_while(|dir| !dir.as_os_str().is_empty()).map(Path::to_owned));
            }
            last = dir;
        }
        Ok(listing)
    }

    /// The tree of a commit.
    ///
    /// # Errors
    /// If there is no such commit.
    pub async fn tree_of(&self, commit: &Oid) -> Result<Oid> {
        self.git.call(["rev-parse", "--verify", "-q", &format!("{commit}^{{tree}}")]).line().await?.parse()
    }

    /// The parents of a commit.
    ///
    /// # Errors
    /// If there is no such commit.
    pub async fn parents(&self, commit: &Oid) -> Result<Vec<Oid>> {
        let line = self.git.call(["rev-list", "--parents", "-n1", commit.as_str()]).line().await?;
        line.split(' ').skip(1).map(str::parse).collect()
    }

    /// The content of a file in a commit; none if the file does not exist or is not UTF-8.
    pub async fn file_at(&self, commit: &Oid, path: &str) -> Result<Option<String>> {
        let answer = self.git.call(["cat-file", "--filters", &format!("{commit}:{path}")]).answer().await?;
        Ok(if answer.code == 0 { String::from_utf8(answer.stdout).ok() } else { None })
    }

    /// Whether git would store a path of the work tree, because it is not ignored. False for a path outside of the work tree.
    pub async fn carries(&self, path: Option<&str>) -> Result<bool> {
        let Some(path) = path else { return Ok(false) };
        let answer = self.git.call(["check-ignore", "-q", "--", path]).answer().await?;
        Ok(answer.code != 0)
    }

    /// Whether one commit is an ancestor of another.
    pub async fn is_ancestor(&self, ancestor: &Oid, of: &Oid) -> Result<bool> {
        let answer = self.git.call(["merge-base", "--is-ancestor", ancestor.as_str(), of.as_str()]).answer().await?;
        match answer.code {
            0 => Ok(true),
            1 => Ok(false),
            _ => bail!(answer.failure()),
        }
    }

    /// Whether HEAD contains a commit. False if HEAD is unborn or broken.
    pub async fn head_contains(&self, commit: &Oid) -> Result<bool> {
        Ok(self.git.call(["merge-base", "--is-ancestor", commit.as_str(), "HEAD"]).answer().await?.code == 0)
    }

    /// The paths among these that git ignores. Paths in the index are tracked, and so not ignored.
    pub async fn ignored_among(&self, index: &Path, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let answer = self.git.call(["check-ignore", "-z", "--stdin"]).index(index).input(nul_joined(paths)).answer().await?;
        Ok(answer.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of).collect())
    }

    /// The full names of the branches, local and remote-tracking, that contain a commit. Symbolic refs are left out.
    pub async fn branches_with(&self, commit: &Oid) -> Result<Vec<String>> {
        let args = ["for-each-ref", "--format=%(refname) %(symref)", "--contains", commit.as_str(), "refs/heads/", "refs/remotes/"];
        let output = self.git.call(args).working().output().await?;
        let text = String::from_utf8_lossy(&output).into_owned();
        let plain = |line: &str| line.split_once(' ').filter(|(_, symref)| symref.is_empty()).map(|(name, _)| name.to_owned());
        Ok(text.lines().filter_map(plain).collect())
    }

    /// The size of the difference between two trees or commits.
    pub async fn diff_stat(&self, from: &Oid, to: &Oid) -> Result<DiffStat> {
        let output = self.git.call(["diff-tree", "-r", "--no-renames", "--numstat", from.as_str(), to.as_str()]).working().output().await?;
        let text = String::from_utf8_lossy(&output);
        Ok(text.lines().fold(DiffStat::default(), |sum, line| {
            // git prints a dash instead of each number for a binary file.
            let mut numbers = line.split('\t').map(|field| field.parse().unwrap_or(0));
            let (insertions, deletions): (usize, usize) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
            DiffStat { files: sum.files + 1, insertions: sum.insertions + insertions, deletions: sum.deletions + deletions }
        }))
    }

    /// The differences between two trees or commits.
    pub async fn diff_trees(&self, from: &Oid, to: &Oid) -> Result<Vec<PathChange>> {
        if from == to {
            return Ok(Vec::new());
        }
        let args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", from.as_str(), to.as_str()];
        let output = self.git.call(args).working().output().await?;
        let mut fields = output.split(|byte| *byte == 0);
        let mut changes = Vec::new();
        while let (Some(meta), Some(path)) = (fields.next().filter(|meta| !meta.is_empty()), fields.next()) {
            let meta = String::from_utf8_lossy(meta);
            let words: Vec<&str> = meta.trim_start_matches(':').split(' ').collect();
            let [old, new, old_oid, new_oid, status] = words.as_slice() else { bail!("git diff-tree answered in an unknown form: {meta}") };
            let mode = |text: &str| u32::from_str_radix(text, 8).context("git diff-tree answered in an unknown form");
            let status = status.chars().next().unwrap_or('M');
            changes.push(PathChange {
                path: path_of(path),
                status,
                old_mode: mode(old)?,
                new_mode: mode(new)?,
                old_oid: old_oid.parse()?,
                new_oid: new_oid.parse()?,
            });
        }
        Ok(changes)
    }

    /// Merges two commits without changing any ref, index or file.
    ///
    /// # Errors
    /// If git cannot merge at all, as opposed to conflicts.
    pub async fn merge(&self, ours: &Oid, theirs: &Oid) -> Result<Merge> {
        let (tree, conflicts) = self.merge_with_markers(ours, theirs).await?;
        Ok(if conflicts.is_empty() { Merge::Clean(tree) } else { Merge::Conflict(conflicts) })
    }

    /// The same; conflicting paths are in the tree with conflict markers.
    ///
    /// # Errors
    /// As [`Repo::merge`].
    pub async fn merge_with_markers(&self, ours: &Oid, theirs: &Oid) -> Result<(Oid, Vec<PathBuf>)> {
        let args = [
            "merge-tree",
            "--write-tree",
            "-z",
            "--name-only",
            "--no-messages",
            "--allow-unrelated-histories",
            ours.as_str(),
            theirs.as_str(),
        ];
        let answer = self.git.call(args).working().answer().await?;
        let mut fields = answer.stdout.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        if answer.code > 1 {
            bail!(answer.failure());
        }
        let tree = String::from_utf8_lossy(fields.next().unwrap_or_default()).parse()?;
        let conflicts: Vec<PathBuf> = fields.map(path_of).collect();
        if (answer.code == 1) == conflicts.is_empty() {
            bail!("git merge-tree answered in an unknown form");
        }
        Ok((tree, conflicts))
    }

    /// The commits from one to another along first parents, oldest first, each with its message.
    pub async fn commits_since(&self, from: &Oid, to: &Oid) -> Result<Vec<(Oid, String)>> {
        let range = format!("{from}..{to}");
        let args = ["log", "--first-parent", "--reverse", "--no-show-signature", "-z", "--format=%H%n%B", &range, "--"];
        let output = self.git.call(args).output().await?;
        let text = String::from_utf8_lossy(&output).into_owned();
        let commits = text.split('\0').filter_map(|commit| commit.trim_start().split_once('\n'));
        commits.map(|(oid, message)| Ok((oid.parse()?, message.to_owned()))).collect()
    }

    /// The blob ids of files in the work tree, in the same order. No object is written.
    pub async fn hashes_of(&self, paths: &[PathBuf]) -> Result<Vec<Oid>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let mut input = Vec::new();
        for path in paths {
            input.extend(path.as_os_str().as_bytes());
            input.push(b'\n');
        }
        let output = self.git.call(["hash-object", "--stdin-paths"]).input(input).working().output().await?;
        String::from_utf8_lossy(&output).lines().map(str::parse).collect()
    }

    /// The commit that a tree or a commit records for a submodule; none if there is no gitlink at the path.
    pub async fn gitlink_at(&self, treeish: &Oid, path: &Path) -> Result<Option<Oid>> {
        let args = ["--literal-pathspecs", "ls-tree", "-z", treeish.as_str(), "--"].map(OsStr::new);
        let output = self.git.call(args.into_iter().chain([path.as_os_str()])).output().await?;
        let entry = String::from_utf8_lossy(&output).into_owned();
        Ok(entry.strip_prefix("160000 commit ").and_then(|rest| rest.split('\t').next()?.parse().ok()))
    }

    /// Whether a path exists in a tree or a commit.
    pub async fn is_in(&self, treeish: &Oid, path: &Path) -> Result<bool> {
        let args = ["--literal-pathspecs", "ls-tree", "-z", treeish.as_str(), "--"].map(OsStr::new);
        Ok(!self.git.call(args.into_iter().chain([path.as_os_str()])).output().await?.is_empty())
    }

    /// The content of a file in a tree or a commit; none if it does not exist.
    pub async fn blob_at(&self, treeish: &Oid, path: &Path) -> Result<Option<Vec<u8>>> {
        let mut name = OsString::from(format!("{treeish}:"));
        name.push(path);
        let answer = self.git.call([OsStr::new("cat-file"), "blob".as_ref(), &name]).answer().await?;
        Ok((answer.code == 0).then_some(answer.stdout))
    }

    /// The value of a key in one configuration file.
    pub async fn setting_in(&self, file: &Path, key: &str) -> Result<Option<String>> {
        if !file.exists() {
            return Ok(None);
        }
        let answer =
            self.git.call([OsStr::new("config"), "--file".as_ref(), file.as_ref(), "--get".as_ref(), key.as_ref()]).answer().await?;
        Ok((answer.code == 0).then(|| String::from_utf8_lossy(&answer.stdout).trim_end().to_owned()))
    }

    /// Every key of one configuration file with its value, in the order of the file, without includes. None if git cannot read
    /// the file.
    pub async fn settings_in(&self, file: &Path) -> Result<Option<Vec<(String, OsString)>>> {
        let args = [OsStr::new("config"), "--file".as_ref(), file.as_ref(), "--no-includes".as_ref(), "--list".as_ref(), "-z".as_ref()];
        let answer = self.git.call(args).answer().await?;
        Ok((answer.code == 0).then(|| config_entries(&answer.stdout)))
    }

    /// Every key that is set for the repository and its work tree, with its value. Includes are followed.
    pub async fn local_settings(&self) -> Result<Vec<(String, OsString)>> {
        let mut entries = Vec::new();
        for scope in ["--local", "--worktree"] {
            if scope == "--worktree" && !entries.iter().any(|(key, _)| key == "extensions.worktreeconfig") {
                // Without the extension, git treats both scopes as the same.
                continue;
            }
            let output = self.git.call(["config", "--includes", scope, "--list", "-z"]).output().await?;
            entries.extend(config_entries(&output));
        }
        Ok(entries)
    }

    /// The tag objects among the refs, as `git cat-file --batch` prints them. They are saved that way because a tag cannot be the
    /// parent of a commit.
    pub async fn raw_tags(&self, refs: &RefList) -> Result<Vec<u8>> {
        let names: String = refs.tags().map(|oid| format!("{oid}\n")).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        self.git.call(["cat-file", "--batch"]).input(names).output().await
    }

    fn head_log(&self) -> PathBuf {
        self.place.git_dir.join("logs").join("HEAD")
    }

    /// The length of HEAD's reflog, for a later call of [`Repo::head_log_since`].
    #[must_use]
    pub fn head_log_length(&self) -> u64 {
        self.head_log().metadata().map_or(0, |meta| meta.len())
    }

    /// The reflog message of the last change of HEAD; empty if there is none.
    pub async fn last_move_of_head(&self) -> Result<String> {
        let answer = self.git.call(["log", "-g", "-1", "--format=%gs", "HEAD", "--"]).answer().await?;
        Ok(String::from_utf8_lossy(&answer.stdout).trim_end().to_owned())
    }

    /// Every commit that HEAD has pointed to since its reflog had the given length.
    #[must_use]
    pub fn head_log_since(&self, length: u64) -> Vec<Oid> {
        let new = tail_of(&self.head_log(), length).unwrap_or_default();
        let oids = String::from_utf8_lossy(&new).lines().filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect::<BTreeSet<Oid>>();
        oids.into_iter().collect()
    }

    /// The tips of those commits, among the given ones and their ancestors, that exist and that none of `kept` contains.
    pub async fn loose_commits(&self, oids: Vec<Oid>, kept: &[&Oid]) -> Result<Vec<Oid>> {
        if oids.iter().all(|oid| kept.contains(&oid)) {
            return Ok(Vec::new());
        }
        let wanted = oids.iter().map(|oid| format!("{oid}^{{commit}}\n"));
        let revs: String = wanted.chain(kept.iter().map(|oid| format!("^{oid}\n"))).collect();
        let loose = self.git.call(["rev-list", "--ignore-missing", "--parents", "--stdin"]).input(revs).output().await?;
        let loose = String::from_utf8_lossy(&loose).into_owned();
        let below: BTreeSet<&str> = loose.lines().flat_map(|line| line.split(' ').skip(1)).collect();
        let tips = loose.lines().filter_map(|line| line.split(' ').next()).filter(|oid| !below.contains(oid));
        tips.map(str::parse).collect()
    }

    /// The message of a commit.
    ///
    /// # Errors
    /// If there is no such commit.
    pub async fn message(&self, commit: &Oid) -> Result<String> {
        let output = self.git.call(["log", "-1", "--no-show-signature", "--format=%B", commit.as_str(), "--"]).output().await?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }
}

/// Parses the output of `git config --list -z`.
fn config_entries(output: &[u8]) -> Vec<(String, OsString)> {
    let entry = |entry: &[u8]| {
        let end = entry.iter().position(|byte| *byte == b'\n').unwrap_or(entry.len());
        // A key without a value means true.
        let value = entry.get(end + 1..).unwrap_or(b"true");
        (String::from_utf8_lossy(&entry[..end]).into_owned(), OsStr::from_bytes(value).to_owned())
    };
    output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).map(entry).collect()
}

/// The content of a file after the given length, or all of it if the file is shorter now.
fn tail_of(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() >= length {
        file.seek(SeekFrom::Start(length))?;
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
