//! Manages the submodules of a private clone: each is a private clone of the user's submodule and borrows its objects. An agent's
//! commits and edits in a submodule are saved in the user's submodule, so that landed gitlinks name commits that exist there.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Origin;
use crate::free_name::free_name;
use crate::git::{Oid, Place, RefList, RefUpdate, Repo};
use crate::relocate;
use crate::workspace::Workspace;
use crate::workspace::submodules::{file_name, registered};

/// A submodule that is checked out in the user's checkout.
#[derive(Clone, Debug)]
pub(super) struct Submodule {
    /// The path from the top of the work tree.
    path: PathBuf,
    /// The user's submodule, from which clones are made.
    origin: Origin,
}

impl Submodule {
    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The submodules of a repository that are checked out.
    pub(super) async fn all_in(origin: &Origin) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        for path in registered(&origin.repo.place.top) {
            let top = origin.repo.place.top.join(&path);
            if !top.join(".git").exists() {
                continue;
            }
            let asked = origin.repo.git.elsewhere(&top, None).call(["rev-parse", "--absolute-git-dir"]).answer().await?;
            if asked.code != 0 {
                continue;
            }
            let git_dir = PathBuf::from(String::from_utf8_lossy(&asked.stdout).trim_end_matches('\n'));
            let git = origin.repo.git.elsewhere(&top, Some(&git_dir));
            let no_index = git_dir.join("no-index");
            let place = Place { common_dir: git_dir.clone(), git_dir, top, head: origin.repo.place.head.clone() };
            // The submodule may have no user identity configured, and these commits are not part of any real history.
            let repo = Repo { git, place }.under_stand_in().without_index(no_index);
            let origin = Box::pin(origin.of_submodule(&repo)).await.with_context(|| format!("submodule {}", path.display()))?;
            found.push(Submodule { path, origin });
        }
        Ok(found)
    }
}

impl Workspace {
    /// The clone of a submodule in this clone.
    fn submodule(&self, submodule: &Submodule) -> Workspace {
        let make = || {
            let name = format!("{}.{}", self.dir.file_name().unwrap_or_default().display(), file_name(&submodule.path));
            let top = self.repo.place.top.join(&submodule.path);
            Workspace::isolated(&submodule.origin.repo, self.names.clone(), self.dir.with_file_name(name), top, self.known.vault.as_ref())
        };
        self.known.memory().submodules.entry(submodule.path.clone()).or_insert_with(make).clone()
    }

    /// Saves the work that an attempt starting at `base` did in submodules, in the user's submodules. Repeating it is harmless.
    pub(crate) async fn save_submodules(&self, origin: &Origin, base: &Oid, label: &str) -> Result<()> {
        for submodule in &origin.submodules {
            let Some(at) = self.repo.gitlink_at(base, &submodule.path).await? else { continue };
            let saved = Box::pin(self.submodule(submodule).save_as_submodule(&submodule.origin, &at, label)).await;
            saved.with_context(|| format!("submodule {}", submodule.path.display()))?;
        }
        Ok(())
    }

    /// Saves the work in this clone of a submodule.
    async fn save_as_submodule(&self, origin: &Origin, at: &Oid, label: &str) -> Result<()> {
        if !self.is_there() || !self.top().join(".git").is_dir() {
            return Ok(());
        }
        self.save_submodules(origin, at, label).await?;
        let commits = origin.agents_commits(self.top(), at, self.dir()).await?;
        let head = commits.head.as_ref().unwrap_or(at);
        let tree = self.snapshot_of_work(head, label, &mut Vec::new()).await?.tree;
        let staged = match commits.staged.filter(|staged| *staged != tree) {
            Some(staged) => Some(self.repo.commit(&staged, &[head], "what was staged\n").await?),
            None => None,
        };
        let is_edited = tree != self.repo.tree_of(head).await?;
        let others: Vec<&Oid> = commits.all.iter().filter(|oid| *oid != head).chain(&staged).collect();
        if head == at && !is_edited && others.is_empty() {
            return Ok(());
        }
        let refs = origin.repo.refs().await?;
        let wanted = format!("{}submodule/{label}", self.names.prefix());
        if others.is_empty() && self.is_kept(&refs, &wanted, head, &tree).await? {
            return Ok(());
        }
        let parents: Vec<&Oid> = [head].into_iter().chain(others).collect();
        let kept = if parents.len() == 1 && !is_edited {
            head.clone()
        } else {
            self.repo.commit(&tree, &parents, "state of a submodule\n").await?
        };
        let name = free_name(wanted.clone(), |number| format!("{wanted}.{number}"), |name| refs.get(name).is_some());
        origin.repo.update_refs(&[RefUpdate::Create { name, to: kept }], "git ralph").await
    }

    /// Whether a ref below `wanted` already holds this tree on top of this commit.
    async fn is_kept(&self, refs: &RefList, wanted: &str, head: &Oid, tree: &Oid) -> Result<bool> {
        for entry in refs.below(wanted) {
            if self.repo.tree_of(&entry.oid).await? == *tree && self.repo.is_ancestor(head, &entry.oid).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Empties submodules that `commit` does not have, before the clone is switched to it.
    pub(super) async fn leave_submodules(&self, origin: &Origin, commit: &Oid) -> Result<()> {
        for submodule in &origin.submodules {
            let inner = self.submodule(submodule);
            let is_left = inner.is_there() && inner.top().join(".git").is_dir();
            if !is_left || self.repo.gitlink_at(commit, &submodule.path).await?.is_some() {
                continue;
            }
            let nothing = inner.repo.empty_tree().await?;
            let tree = inner.snapshot_of_work(&nothing, "left", &mut Vec::new()).await?.tree;
            inner.turn_into(&tree, &nothing, &mut Vec::new()).await?;
            relocate::discard(&inner.top().join(".git"), &inner.moved_dir("git"))?;
            // Fails if ignored files remain, which stay where they are.
            let _ = std::fs::remove_dir(inner.top());
        }
        Ok(())
    }

    /// Makes every submodule a checkout of the commit that `commit` records for it. If the user lacks that commit, it stays
    /// empty.
    pub(super) async fn prepare_submodules(&self, origin: &Origin, commit: &Oid) -> Result<()> {
        for submodule in &origin.submodules {
            let Some(at) = self.repo.gitlink_at(commit, &submodule.path).await? else { continue };
            let prepared = Box::pin(self.submodule(submodule).prepare_as_submodule(&submodule.origin, &at)).await;
            prepared.with_context(|| format!("submodule {}", submodule.path.display()))?;
        }
        Ok(())
    }

    async fn prepare_as_submodule(&self, origin: &Origin, at: &Oid) -> Result<()> {
        let exists = origin.repo.git.call(["cat-file", "-e", &format!("{at}^{{commit}}")]).answer().await?.code == 0;
        if !exists || is_behind_link(self.top()) {
            return Ok(());
        }
        if self.is_strange() {
            let left = self.last_tree();
            let found = self.snapshot_of_work(at, "unknown", &mut Vec::new()).await?.tree;
            if !self.is_explained(&found, left.as_ref()).await? {
                self.save_as_submodule(origin, at, "workspace").await?;
            }
        }
        let refs = origin.repo.refs().await?;
        self.prepare(origin, at, &refs).await.map(drop)
    }
}

/// Whether a directory, which may not exist yet, lies behind a symbolic link.
fn is_behind_link(top: &Path) -> bool {
    let there = top.ancestors().skip(1).find(|dir| dir.symlink_metadata().is_ok());
    there.is_none_or(|dir| dir.canonicalize().ok().as_deref() != Some(dir))
}
