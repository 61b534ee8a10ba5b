//! Finds content that was staged in the repository's own index by the user or the agent.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result};

use super::{Workspace, index};
use crate::git::{GitError, Oid, stale};

/// The signature of the index extension in which git caches tree ids.
const TREE: &[u8] = b"TREE";
/// A bigger index is not searched for cached trees.
const SMALL_INDEX: u64 = 64 * 1024 * 1024;

impl Workspace {
    /// A commit of what is staged in the repository's own index, if that differs both from the work tree and from `base`.
    pub(crate) async fn staged(&self, work: &Oid, base: &Oid) -> Result<Option<Oid>> {
        let (index, copy) = (self.real_index(), self.dir.join("index.agent"));
        if !index.exists() || caches(&index, work) {
            return Ok(None);
        }
        fs::copy(&index, &copy).with_context(|| format!("cannot copy {}", index.display()))?;
        let tree = match self.tree_of_index(&copy).await? {
            Some(tree) => {
                fs::remove_file(&copy)?;
                tree
            }
            None => {
                let tree = self.tree_of_conflicts(&copy).await?;
                // The index is damaged or has conflicts. The user can look at what the tree does not contain.
                stale::move_aside(&copy, &self.moved_dir("index"))?;
                let Some(tree) = tree else { return Ok(None) };
                tree
            }
        };
        if tree == *work || self.repo.diff_trees(base, &tree).await?.is_empty() {
            return Ok(None);
        }
        self.repo.commit(&tree, &[base], "what was staged\n").await.map(Some)
    }

    /// The tree of an index; none if git reports twice that it has none.
    async fn tree_of_index(&self, index: &Path) -> Result<Option<Oid>> {
        for _ in 0..2 {
            match self.index_repo().write_tree(index).await {
                Ok(tree) => return Ok(Some(tree)),
                Err(error) if !GitError::is_answer(&error) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// A tree of an index with conflicts: its regular entries, and every version of a conflicting file under a name of its own.
    /// Without it, `git gc` would delete content that is staged nowhere else.
    async fn tree_of_conflicts(&self, index: &Path) -> Result<Option<Oid>> {
        let flat = self.dir.join("index.flat");
        let _ = fs::remove_file(&flat);
        let tree = match self.index_repo().flatten(index, &flat).await {
            Ok(()) => self.tree_of_index(&flat).await?,
            Err(error) if !GitError::is_answer(&error) => return Err(error),
            Err(_) => None,
        };
        let _ = fs::remove_file(&flat);
        Ok(tree)
    }

    /// Whether the repository's index matches this commit. `git status` may have rewritten it with other times.
    pub(crate) async fn index_is_at(&self, commit: &Oid) -> Result<bool> {
        if self.index_is_ours() {
            return Ok(true);
        }
        let copy = self.dir.join("index.now");
        if index::copy(&self.real_index(), &copy).is_err() {
            return Ok(false);
        }
        let stands = self.stands_for(&copy, commit).await?;
        fs::remove_file(&copy)?;
        Ok(stands)
    }

    /// Whether an index matches a commit exactly. False for a damaged index or one with conflicts, which the caller handles
    /// separately.
    pub(crate) async fn stands_for(&self, index: &Path, commit: &Oid) -> Result<bool> {
        let tree = if index.exists() { self.repo.write_tree(index).await.ok() } else { None };
        Ok(tree.is_some() && tree == Some(self.repo.tree_of(commit).await?))
    }

    /// Whether the repository's index is byte for byte the one that git-ralph installed.
    pub(crate) fn index_is_ours(&self) -> bool {
        same_bytes(&self.real_index(), &self.private_index()).unwrap_or(false)
    }
}

/// Whether the index caches this tree as its root, as git does on every commit. Saves a process; "no" is always a safe answer.
fn caches(index: &Path, tree: &Oid) -> bool {
    let hex = tree.as_str();
    let oid: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()).collect();
    let is_small = fs::metadata(index).is_ok_and(|meta| meta.len() <= SMALL_INDEX);
    let (Some(oid), true) = (oid, is_small) else { return false };
    fs::read(index).is_ok_and(|bytes| cached_root(&bytes).is_some_and(|rest| rest.starts_with(&oid)))
}

/// The bytes after the counts of the root in the `TREE` extension, which begin with its object id if the root is valid.
fn cached_root(index: &[u8]) -> Option<&[u8]> {
    let start = index.windows(TREE.len()).rposition(|window| window == TREE)?;
    let root = index.get(start + TREE.len() + 4..)?.strip_prefix(b"\0")?;
    let end = root.iter().take(32).position(|byte| *byte == b'\n')?;
    let (counts, rest) = root.split_at(end);
    let is_valid = counts.iter().all(|byte| byte.is_ascii_digit() || *byte == b' ');
    if is_valid { rest.get(1..) } else { None }
}

fn same_bytes(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 256 * 1024], vec![0; 256 * 1024]);
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(true);
        }
        other.read_exact(&mut right[..count])?;
        if left[..count] != right[..count] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::cached_root;

    #[test]
    fn the_tree_of_an_index_is_read_only_where_it_is_valid() {
        let index = |counts: &str| [b"DIRC and entries, TREE in a name TREE\0\0\0\x20\0", counts.as_bytes(), b"\noid and more"].concat();
        assert_eq!(cached_root(&index("3 1")), Some(&b"oid and more"[..]));
        assert_eq!(cached_root(&index("-1 1")), None);
        assert_eq!(cached_root(b"DIRC and no extension"), None);
        assert_eq!(cached_root(b"cut off TREE"), None);
    }
}
