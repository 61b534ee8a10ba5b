//! Finds the repository without git: for completions, which must be fast, and for a repository that git refuses.

use std::path::{Path, PathBuf};

use crate::safe_read;

/// A repository that was found on disk.
#[derive(Debug, PartialEq, Eq)]
pub struct Spot {
    /// The git directory of this work tree.
    pub git_dir: PathBuf,
    /// The git directory that all work trees share.
    pub common_dir: PathBuf,
    /// The top of the work tree.
    pub top: PathBuf,
}

impl Spot {
    /// The repository that a directory is in.
    #[must_use]
    pub fn above(dir: &Path) -> Option<Spot> {
        dir.ancestors().find_map(Spot::in_top)
    }

    /// The repository whose work tree has this top.
    #[must_use]
    pub fn in_top(top: &Path) -> Option<Spot> {
        Some(Spot::of(git_dir_in(top)?, top.to_owned()))
    }

    /// The repository with this git directory and work tree.
    #[must_use]
    pub fn of(git_dir: PathBuf, top: PathBuf) -> Spot {
        let git_dir = git_dir.canonicalize().unwrap_or(git_dir);
        let shared = safe_read::text(&git_dir.join("commondir")).ok().map(|path| git_dir.join(path.trim_end()));
        let common_dir = shared.and_then(|path| path.canonicalize().ok()).unwrap_or_else(|| git_dir.clone());
        Spot { git_dir, common_dir, top }
    }
}

/// The git directory of a work tree: `.git`, or the path in the file of that name. git does not accept a directory without HEAD,
/// but it is returned if it contains files of git-ralph.
fn git_dir_in(top: &Path) -> Option<PathBuf> {
    let path = top.join(".git");
    if path.is_dir() {
        let is_one = |name: &str| path.join(name).symlink_metadata().is_ok();
        return (is_one("HEAD") || is_one("ralph")).then_some(path);
    }
    let text = safe_read::text(&path).ok()?;
    Some(top.join(text.strip_prefix("gitdir:")?.trim()))
}
