//! Defines a repository with its work tree; queries are in `questions.rs`, modifications in `actions.rs`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Git, GitError, Place};

/// A repository with its work tree.
#[derive(Clone, Debug)]
pub struct Repo {
    /// Calls git.
    pub git: Git,
    /// The paths of the repository.
    pub place: Place,
}

impl Repo {
    /// The same repository without an index; `path` is one where no file ever exists. Even commands that need no index read the
    /// repository's index, and fail if an agent has damaged it.
    #[must_use]
    pub fn without_index(mut self, path: PathBuf) -> Self {
        self.git = self.git.with_index(path);
        self
    }

    /// Whether git can use the repository with its configuration, format and extensions.
    pub async fn is_readable(&self) -> Result<bool> {
        match self.git.call(["rev-parse", "--git-dir"]).answer().await {
            Ok(answer) => Ok(answer.code == 0),
            Err(error) if GitError::of_time_limit(&error).is_some() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The same repository, with git-ralph as the author and committer of commits.
    #[must_use]
    pub fn under_stand_in(mut self) -> Self {
        let names = ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|name| (name, OsString::from("git-ralph")));
        let mails = ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"].map(|name| (name, OsString::from("git-ralph@localhost")));
        self.git = self.git.with_env(names.into_iter().chain(mails));
        self
    }
}

/// Whether no identity is configured for commits.
pub async fn is_anonymous(git: &Git) -> Result<bool> {
    let lacks = async |who: &str| Ok::<_, anyhow::Error>(git.call(["var", who]).answer().await?.code != 0);
    Ok(lacks("GIT_COMMITTER_IDENT").await? || lacks("GIT_AUTHOR_IDENT").await?)
}

pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

pub(super) fn trim_slash(path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    bytes.strip_suffix(b"/").unwrap_or(bytes)
}

pub(super) fn nul_joined(paths: &[PathBuf]) -> Vec<u8> {
    paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect()
}

/// Whether a path ends in a slash, as git prints a directory that it does not look into.
#[must_use]
pub fn is_opaque_directory(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

/// A path without the trailing slash.
#[must_use]
pub fn without_slash(path: &Path) -> &Path {
    Path::new(OsStr::from_bytes(trim_slash(path)))
}
