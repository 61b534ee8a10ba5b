//! Finds the repository, its work tree and HEAD with one git process, before anything else and without our overrides.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Git, Head};
use crate::error::Problem;

const QUESTION: [&str; 13] = [
    "rev-parse",
    "--path-format=absolute",
    "--is-bare-repository",
    "--is-inside-git-dir",
    "--is-inside-work-tree",
    "--git-dir",
    "--git-common-dir",
    "--show-prefix",
    "--show-toplevel",
    "--revs-only",
    "HEAD",
    "--symbolic-full-name",
    "HEAD",
];

/// A work tree and its repository, by absolute paths.
#[derive(Clone, Debug)]
pub struct Place {
    /// The git directory of this work tree.
    pub git_dir: PathBuf,
    /// The git directory that all work trees share.
    pub common_dir: PathBuf,
    /// The top of the work tree.
    pub top: PathBuf,
    /// HEAD at that time.
    pub head: Head,
}

impl Place {
    /// The directory of all files of git-ralph.
    #[must_use]
    pub fn ralph_dir(&self) -> PathBuf {
        self.common_dir.join("ralph")
    }

    /// A name for this work tree that is unique in its repository.
    #[must_use]
    pub fn worktree_id(&self) -> String {
        worktree_id(&self.git_dir, &self.common_dir)
    }
}

/// A name for the work tree of a git directory that is unique in its repository.
#[must_use]
pub fn worktree_id(git_dir: &Path, common_dir: &Path) -> String {
    if git_dir == common_dir {
        return "main".to_owned();
    }
    let name = git_dir.file_name().unwrap_or_default().to_string_lossy();
    format!("worktree-{name}")
}

/// Asks git for the current repository and work tree.
///
/// # Errors
/// If the current directory is not in a work tree, with git's own message if there is one.
pub async fn discover(git: &Git) -> Result<Place> {
    let answer = git.call(QUESTION).answer().await?;
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        // git may print warnings before the actual error.
        let errors = answer.errors();
        let words: Vec<&str> = errors.lines().skip_while(|line| line.starts_with("warning: ")).collect();
        let words = words.join("\n");
        let problem = Problem::fatal(words.strip_prefix("fatal: ").unwrap_or(&words));
        let is_nowhere = words.starts_with("fatal: not a git repository");
        bail!(if is_nowhere { problem.hint("git init   to make this directory a repository") } else { problem });
    }
    if lines.first() == Some(&"true") {
        bail!(Problem::refused("this is a bare repository: git-ralph needs a work tree").hint("git worktree add ../work-tree"));
    }
    if lines.get(1) == Some(&"true") || lines.get(2) == Some(&"false") {
        bail!(Problem::refused("this is inside a git directory: git-ralph needs a work tree"));
    }
    let [_, _, _, git_dir, common_dir, _, top, rest @ ..] = lines.as_slice() else {
        bail!("git rev-parse answered in an unknown form: {text:?}");
    };
    let head = match rest {
        [oid, "HEAD"] => Head::Detached { oid: oid.parse()? },
        [oid, name] => Head::Branch { name: (*name).to_owned(), oid: oid.parse()? },
        // If a ref named `HEAD` exists too, git omits the ambiguous symbolic name.
        [oid] => match git.call(["symbolic-ref", "-q", "HEAD"]).line().await {
            Ok(name) => Head::Branch { name, oid: oid.parse()? },
            Err(_) => Head::Detached { oid: oid.parse()? },
        },
        [] => Head::Unborn { name: git.call(["symbolic-ref", "-q", "HEAD"]).line().await.context("cannot read HEAD")? },
        _ => bail!("git rev-parse answered in an unknown form: {text:?}"),
    };
    Ok(Place { git_dir: git_dir.into(), common_dir: common_dir.into(), top: top.into(), head })
}
