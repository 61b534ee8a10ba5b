//! The source of an isolated run: read from the run's branch, and marked in the trees that land. The user's checkout is not touched.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::step_runner::{Ground, StepRunner};
use super::{RunDir, SourcePlace};
use crate::git::{Oid, Repo};
use crate::safe_read;
use crate::story::StoryId;

/// The files of a source as a commit of the run's branch has them.
#[derive(Clone, Debug)]
pub(super) struct BranchSource {
    dir: PathBuf,
    path: String,
}

impl BranchSource {
    /// The source at a path of the work tree; none if that is outside of it.
    pub fn new(run: &RunDir, path: &str) -> Option<Self> {
        let inside = Path::new(path).is_relative() && !path.split('/').any(|part| part == "..");
        inside.then(|| BranchSource { dir: run.source_view(), path: path.trim_end_matches('/').to_owned() })
    }

    /// Writes the files as a commit has them. Says whether it has any: a source that git does not track is read in the checkout.
    pub async fn refresh(&self, repo: &Repo, commit: &Oid) -> Result<bool> {
        let index = self.dir.with_extension("index");
        let _ = fs::remove_file(&index);
        let _ = fs::remove_dir_all(&self.dir);
        fs::create_dir_all(&self.dir).with_context(|| format!("cannot create {}", self.dir.display()))?;
        let listed = repo.git.call(["ls-tree", "-r", "-z", "--name-only", commit.as_str(), "--", &self.path]).output().await?;
        if listed.is_empty() {
            let _ = fs::remove_dir(&self.dir);
            return Ok(false);
        }
        repo.git.call(["read-tree", commit.as_str()]).index(&index).working().output().await?;
        let prefix = format!("--prefix={}/", self.dir.display());
        let call = repo.git.call(["checkout-index", "-f", "-z", "--stdin", &prefix]).index(&index);
        call.input(listed).working().output().await?;
        let _ = fs::remove_file(&index);
        Ok(true)
    }
}

impl StepRunner<'_> {
    fn source_on_branch(&self) -> Option<&SourcePlace> {
        self.source.filter(|source| self.pool.is_some() && source.is_below(&self.run.source_view()))
    }

    /// The source with the marks of a story set, in a tree that is about to land. `before` is what the tree goes on from.
    pub(super) async fn marked_tree(&self, story: &StoryId, before: &Oid, tree: &Oid) -> Result<Oid> {
        let Some(source) = self.source_on_branch() else { return Ok(tree.clone()) };
        let Some(path) = source.in_work_tree() else { return Ok(tree.clone()) };
        let repo = &self.branch.repo;
        let text = |bytes: Option<Vec<u8>>| bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let known = text(repo.blob_at(before, Path::new(&path)).await?).unwrap_or_default();
        let now = text(repo.blob_at(tree, Path::new(&path)).await?);
        let Some(marked) = source.marked_text(&known, now.as_deref(), story) else { return Ok(tree.clone()) };
        if now.as_ref() == Some(&marked) {
            return Ok(tree.clone());
        }
        let index = self.run.path().join("source.marks");
        repo.with_file(&index, tree, Path::new(&path), marked.as_bytes()).await
    }

    /// Before an attempt is saved: marks that the agent has set itself are taken back, because they are set when the story lands, and
    /// those of two stories would conflict. Gives the path of the source.
    pub(super) fn marks_in_clone(&self, ground: &Ground, story: &StoryId, attempt: u32) -> Result<Option<PathBuf>> {
        let Some(source) = self.source_on_branch() else { return Ok(None) };
        let Some(path) = source.in_work_tree().map(PathBuf::from) else { return Ok(None) };
        let Ok(before) = safe_read::text(&self.run.source_copy(story, attempt)) else { return Ok(Some(path)) };
        let file = ground.workspace.repo.place.top.join(&path);
        let Ok(now) = safe_read::text(&file) else { return Ok(Some(path)) };
        if now != before && source.differs_in_marks_only(&before, &now) {
            fs::write(&file, before).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(Some(path))
    }
}
