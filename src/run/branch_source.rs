//! The story source of an isolated run: read from the run's branch, and marked in the trees that land. The user's checkout is not touched.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

use super::step_runner::{Ground, StepRunner};
use super::{Activity, Reporter, RunDir, SourcePlace};
use crate::git::{Oid, Repo};
use crate::safe_read;
use crate::story::StoryId;

/// The source files as a commit on the run's branch has them.
#[derive(Clone, Debug)]
pub(super) struct BranchSource {
    dir: PathBuf,
    path: String,
}

impl BranchSource {
    /// The source at a path relative to the work tree. `None` if the path is outside of it.
    pub fn new(run: &RunDir, path: &str) -> Option<Self> {
        let inside = Path::new(path).is_relative() && !path.split('/').any(|part| part == "..");
        inside.then(|| BranchSource { dir: run.source_view(), path: path.trim_end_matches('/').to_owned() })
    }

    /// Writes the source files of a commit to the run's directory. Returns whether the commit has any. A source that git does not track is
    /// read from the checkout instead.
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

/// The source files that the user has edited in the checkout since the run began, if the edits are not on the run's branch.
pub async fn source_edits(checkout: &Repo, source: &SourcePlace, initial: &Oid, tip: &Oid) -> Result<Vec<String>> {
    let before = files_of(checkout, initial, source.path()).await?;
    let there: Vec<&String> = before.keys().filter(|path| checkout.place.top.join(path).is_file()).collect();
    let now = checkout.hashes_of(&there.iter().map(PathBuf::from).collect::<Vec<_>>()).await?;
    let now: BTreeMap<&String, Oid> = there.into_iter().zip(now).collect();
    let edited: Vec<&String> = before.iter().filter(|(path, oid)| now.get(path) != Some(oid)).map(|(path, _)| path).collect();
    if edited.is_empty() {
        return Ok(Vec::new());
    }
    let on_branch = files_of(checkout, tip, source.path()).await?;
    let main = source.in_work_tree();
    let mut missing = Vec::new();
    for path in edited {
        let is_on_branch =
            now.get(path) == on_branch.get(path) || (main.as_ref() == Some(path) && is_marked_further(checkout, source, path, tip).await?);
        if !is_on_branch {
            missing.push(path.clone());
        }
    }
    Ok(missing)
}

/// Whether the branch has the text of the checkout's file, apart from the marks of stories that have landed.
async fn is_marked_further(checkout: &Repo, source: &SourcePlace, path: &str, tip: &Oid) -> Result<bool> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
    let Some(on_branch) = checkout.blob_at(tip, Path::new(path)).await?.map(text) else { return Ok(false) };
    let Ok(here) = safe_read::bytes(&checkout.place.top.join(path)).map(text) else { return Ok(false) };
    Ok(source.is_marked_further(&here, &on_branch))
}

/// The files of a commit below a path, with their blob ids.
async fn files_of(repo: &Repo, commit: &Oid, path: &str) -> Result<BTreeMap<String, Oid>> {
    let listed = repo.git.call(["ls-tree", "-r", "-z", commit.as_str(), "--", path]).output().await?;
    let text = String::from_utf8_lossy(&listed).into_owned();
    let file = |entry: &str| {
        let (about, path) = entry.split_once('\t')?;
        Some((path.to_owned(), about.rsplit(' ').next()?.parse().ok()?))
    };
    Ok(text.split('\0').filter_map(file).collect())
}

/// Watches the user's copy of the source during an isolated run.
pub(super) struct SourceWatch<'a> {
    /// The user's checkout.
    pub checkout: &'a Repo,
    /// The source in the checkout.
    pub source: SourcePlace,
    /// The initial commit of the run.
    pub initial: Oid,
    /// The length and modification time of the file when it was last checked.
    pub seen: Option<(u64, SystemTime)>,
    /// Whether the user has been notified.
    pub reported: bool,
}

impl SourceWatch<'_> {
    /// Notifies the user, once, that the run does not see an edit in the checkout. Calls git only if the file has changed.
    pub async fn look(&mut self, tip: &Oid, branch: &str, reporter: &dyn Reporter) -> Result<()> {
        let now = self.source.stamp();
        if self.reported || now == self.seen {
            return Ok(());
        }
        self.seen = now;
        let paths = source_edits(self.checkout, &self.source, &self.initial, tip).await?;
        if !paths.is_empty() {
            self.reported = true;
            reporter.activity(&Activity::SourceEdited { paths: &paths, branch });
        }
        Ok(())
    }
}

impl StepRunner<'_> {
    fn source_on_branch(&self) -> Option<&SourcePlace> {
        self.source.filter(|source| self.pool.is_some() && source.is_below(&self.run.source_view()))
    }

    /// The tree of a landing checkpoint, with the marks of the story set in the source. `before` is the tip that the tree is based on.
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

    /// Removes marks that the agent has set in its clone, before its work is saved. git-ralph sets the marks when the story lands, and the
    /// agents' marks of two stories would conflict. Returns the path of the source.
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
