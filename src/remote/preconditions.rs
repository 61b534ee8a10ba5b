//! Refuses repositories that a worker on another machine cannot handle, before the run changes anything.

use std::ffi::OsString;

use anyhow::{Result, bail};

use super::hub::Hub;
use crate::error::Problem;
use crate::git::Repo;

/// Checks the repository, and that the hub can be reached.
///
/// # Errors
/// A [`Problem`] about the first precondition that does not hold.
pub async fn check(repo: &Repo, hub: &Hub) -> Result<()> {
    let cannot = |what: &str| Problem::refused(format!("{what}, and a worker on another machine does not support that"));
    if repo.place.top.join(".gitmodules").exists() {
        bail!(cannot("the repository has submodules"));
    }
    if repo.place.common_dir.join("shallow").exists() {
        bail!(cannot("the repository is shallow").hint("git fetch --unshallow"));
    }
    let settings = ["config", "--get-regexp", r"^(extensions\.partialclone|remote\..*\.promisor)$"];
    if repo.git.call(settings).answer().await?.code == 0 {
        bail!(cannot("the repository is a partial clone"));
    }
    let filters = ["grep", "-q", "--untracked", "-e", "filter=", "--", ":(glob)**/.gitattributes"];
    if repo.git.call(filters).working().answer().await?.code == 0 {
        bail!(cannot("files of the repository go through a filter, such as that of Git LFS"));
    }
    let listed = ["ls-remote", "--"].map(OsString::from).into_iter().chain([hub.url().to_owned(), "refs/ralph/none".into()]);
    let answer = repo.git.call(listed).answer().await?;
    if answer.code == 0 {
        return Ok(());
    }
    let url = hub.url().display();
    bail!(Problem::fatal(format!("cannot reach the hub {url}: {}", answer.errors())).hint(format!("git ls-remote {url}")))
}
