//! Submodules: their HEAD and dirty files are kept in a ref of the submodule itself, and put back with everything else.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Keeper, Notice, index};
use crate::git::{Git, Head, Oid, Place, Reach, RefUpdate, Repo, Tolerance};

/// A moment that submodules can be put back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before the run.
    Start,
    /// Before the attempt.
    Attempt,
}

impl Moment {
    fn name(self) -> &'static str {
        match self {
            Moment::Start => "start",
            Moment::Attempt => "attempt",
        }
    }
}

/// A submodule that has been checked out, with where its record of one moment is kept.
struct Submodule {
    path: PathBuf,
    top: PathBuf,
    dir: PathBuf,
}

/// What a submodule was like.
struct Record {
    head: Head,
    /// Everything in its work tree.
    state: Oid,
    /// The file that leads to its git directory.
    link: Option<Vec<u8>>,
}

impl Keeper {
    fn submodules(&self, moment: Moment) -> Vec<Submodule> {
        let Ok(modules) = fs::read_to_string(self.repo.place.top.join(".gitmodules")) else { return Vec::new() };
        let paths =
            modules.lines().filter_map(|line| line.split_once('=')).filter(|(key, _)| key.trim() == "path").map(|(_, path)| path.trim());
        let submodule = |(number, path): (usize, &str)| Submodule {
            path: PathBuf::from(path),
            top: self.repo.place.top.join(path),
            dir: self.dir.join("submodules").join(moment.name()).join(number.to_string()),
        };
        paths.enumerate().map(submodule).collect()
    }

    /// Keeps what every submodule is like now.
    pub(super) async fn keep_submodules(&self, moment: Moment) -> Result<()> {
        for submodule in self.submodules(moment) {
            if !submodule.top.join(".git").exists() {
                continue;
            }
            let inner = self.inside(&submodule.top).await?;
            fs::create_dir_all(&submodule.dir)?;
            let own = inner.place.git_dir.join("index");
            if own.exists() {
                index::copy(&own, &submodule.dir.join("index.orig"))?;
            }
            let state = self.state_of(&inner, &submodule.dir, &[]).await?;
            let name = format!("{}submodule/{}", self.names.prefix(), moment.name());
            inner.update_refs(&[RefUpdate::Set { name, to: state.clone() }], "git ralph").await?;
            fs::write(submodule.dir.join("head.json"), serde_json::to_vec(&inner.place.head)?)?;
            fs::write(submodule.dir.join("state"), state.as_str())?;
            if submodule.top.join(".git").is_file() {
                fs::copy(submodule.top.join(".git"), submodule.dir.join("link"))?;
            }
        }
        Ok(())
    }

    /// Puts every submodule back that is not what it was; what it had become is kept under `rescue` in the submodule.
    pub(super) async fn restore_submodules(&self, moment: Moment, rescue: &str) -> Result<Vec<Notice>> {
        let mut notices = Vec::new();
        for submodule in self.submodules(moment) {
            let Some(record) = submodule.record() else { continue };
            if self
                .restore_submodule(&submodule, &record, rescue)
                .await
                .with_context(|| format!("submodule {}", submodule.path.display()))?
            {
                notices.push(Notice::SubmoduleRestored { path: submodule.path.display().to_string(), kept: rescue.to_owned() });
            }
        }
        Ok(notices)
    }

    async fn restore_submodule(&self, submodule: &Submodule, record: &Record, rescue: &str) -> Result<bool> {
        if let (false, Some(link)) = (submodule.top.join(".git").exists(), &record.link) {
            fs::create_dir_all(&submodule.top)?;
            fs::write(submodule.top.join(".git"), link)?;
        }
        let inner = self.inside(&submodule.top).await?;
        let parents: Vec<&Oid> = record.head.oid().into_iter().collect();
        let now = self.state_of(&inner, &submodule.dir, &parents).await?;
        let same = inner.diff_trees(&record.state, &now).await?.is_empty();
        if same && inner.place.head == record.head {
            return Ok(false);
        }
        inner.update_refs(&[RefUpdate::Set { name: rescue.to_owned(), to: now.clone() }], "git ralph: rescue").await?;
        match &record.head {
            Head::Branch { name, oid } => {
                inner.update_refs(&[RefUpdate::Set { name: name.clone(), to: oid.clone() }], "git ralph: back").await?;
                inner.attach_head(name, "git ralph: back").await?;
            }
            Head::Detached { oid } => inner.detach_head(oid, "git ralph: back").await?,
            Head::Unborn { name } => inner.attach_head(name, "git ralph: back").await?,
        }
        inner.switch_tree(&submodule.dir.join("index"), &now, &record.state, Reach::AsConfigured).await?;
        let original = submodule.dir.join("index.orig");
        if original.exists() {
            index::copy(&original, &inner.place.git_dir.join("index"))?;
        }
        Ok(true)
    }

    /// A commit of everything in a submodule's work tree, above its HEAD and the given commits.
    async fn state_of(&self, inner: &Repo, dir: &Path, others: &[&Oid]) -> Result<Oid> {
        let index = dir.join("index");
        if !index.exists() {
            let own = inner.place.git_dir.join("index");
            if own.exists() {
                index::copy(&own, &index)?;
            }
        }
        let answer = inner.add_all(&index, &[], Tolerance::SkipUnaddable).await?;
        anyhow::ensure!(answer.code <= 1, answer.failure());
        let tree = inner.write_tree(&index).await?;
        let parents: Vec<&Oid> =
            inner.place.head.oid().into_iter().chain(others.iter().copied().filter(|oid| Some(*oid) != inner.place.head.oid())).collect();
        inner.commit(&tree, &parents, "state of a submodule\n").await
    }

    async fn inside(&self, top: &Path) -> Result<Repo> {
        let git_dir = PathBuf::from(self.repo.git.elsewhere(top, None).call(["rev-parse", "--absolute-git-dir"]).line().await?);
        let git: Git = self.repo.git.elsewhere(top, Some(&git_dir));
        let place = Place { common_dir: git_dir.clone(), git_dir, top: top.to_owned(), head: self.repo.place.head.clone() };
        // The submodule may have no identity of its own, and what is committed here is for nobody's history.
        let mut inner = Repo { git, place }.under_stand_in();
        let refs = inner.refs().await?;
        inner.place.head = inner.head(&refs).await?;
        Ok(inner)
    }
}

impl Submodule {
    fn record(&self) -> Option<Record> {
        Some(Record {
            head: serde_json::from_slice(&fs::read(self.dir.join("head.json")).ok()?).ok()?,
            state: fs::read_to_string(self.dir.join("state")).ok()?.parse().ok()?,
            link: fs::read(self.dir.join("link")).ok(),
        })
    }
}
