//! Copies index files with their times, and installs them through `index.lock` as git does.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::sleep;

use super::snapshot::GITLINK;
use super::{Notice, Workspace};
use crate::git::{Oid, PathChange, stale};

const LIVE_LOCK: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// Copies a file with its modification time, by which git decides which entries it must check again.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let modified = fs::metadata(from)?.modified()?;
    fs::copy(from, to)?;
    File::options().write(true).open(to)?.set_times(FileTimes::new().set_modified(modified))
}

impl Workspace {
    /// The repository's own index.
    pub(super) fn real_index(&self) -> PathBuf {
        self.repo.place.git_dir.join("index")
    }

    /// Saves a copy of the user's index, and a second copy to work on. The repository may have no index yet.
    pub(super) async fn keep_original_index(&self) -> Result<()> {
        let (real, original, private) = (self.real_index(), self.original_index(), self.private_index());
        let _ = fs::remove_file(&original);
        let _ = fs::remove_file(&private);
        if !real.exists() {
            return self.seal_original_index();
        }
        copy(&real, &original).with_context(|| format!("cannot copy {}", real.display()))?;
        if self.is_split()? {
            self.repo.unsplit(&original).await?;
        }
        self.seal_original_index()?;
        copy(&original, &private).with_context(|| format!("cannot copy {}", original.display()))
    }

    /// The tree of all files in the directory as they are now. It is made on a copy of the user's index, which becomes the
    /// private index.
    pub(crate) async fn current_tree(&self) -> Result<Oid> {
        let (real, private) = (self.real_index(), self.private_index());
        let _ = fs::remove_file(&private);
        if real.exists() {
            copy(&real, &private).with_context(|| format!("cannot copy {}", real.display()))?;
            if self.is_split()? {
                self.repo.unsplit(&private).await?;
            }
            let hidden = self.repo.listing(&private).await?.hidden;
            self.repo.unhide(&private, &hidden).await?;
        }
        let nothing = self.repo.empty_tree().await?;
        let snapshot = self.snapshot(&nothing).await?;
        snapshot.check_whole()?;
        Ok(snapshot.tree)
    }

    /// Stages the new commits of submodules where the index has the old ones. An isolated run leaves the checkout's
    /// submodules alone, so the index is the only place that records the new commits, and `git submodule update` reads them there.
    pub(crate) async fn stage_submodules(&self, changes: &[PathChange]) -> Result<Vec<Notice>> {
        let moved: Vec<&PathChange> = changes.iter().filter(|change| change.old_mode == GITLINK && change.new_mode == GITLINK).collect();
        let (real, draft) = (self.real_index(), self.dir.join("index.submodules"));
        if moved.is_empty() || !real.exists() {
            return Ok(Vec::new());
        }
        copy(&real, &draft)?;
        let index = self.repo.write_tree(&draft).await?;
        let mut due = Vec::new();
        for change in moved {
            if self.repo.gitlink_at(&index, &change.path).await?.as_ref() == Some(&change.old_oid) {
                due.push(change.clone());
            }
        }
        let moved = due;
        self.repo.set_entries(&draft, &moved).await?;
        self.install_index(&draft).await?;
        fs::remove_file(&draft)?;
        let notice = |change: &PathChange| Notice::SubmoduleMoved {
            path: change.path.display().to_string(),
            commit: change.new_oid.short().to_owned(),
        };
        Ok(moved.iter().map(notice).collect())
    }

    fn is_split(&self) -> io::Result<bool> {
        let shared =
            |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("sharedindex."));
        Ok(fs::read_dir(&self.repo.place.git_dir)?.any(shared))
    }

    /// Installs a copy of `index` as the repository's own index.
    pub(crate) async fn install_index(&self, index: &Path) -> Result<()> {
        let lock = self.lock_index().await?;
        copy(index, &lock).and_then(|()| fs::rename(&lock, self.real_index())).context("cannot install the index")
    }

    /// Installs `index` itself as the repository's own, by a hard link: the run is over, and git never writes into an index file.
    pub(crate) async fn hand_index_back(&self, index: &Path) -> Result<()> {
        let lock = self.lock_index().await?;
        let id = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
        if id(index) == id(&self.real_index()) {
            // It is installed already. Renaming one hard link to another of the same file would leave both names.
            return fs::remove_file(lock).context("cannot remove index.lock");
        }
        let link = self.dir.join("index.link");
        let _ = fs::remove_file(&link);
        let linked = fs::hard_link(index, &link).and_then(|()| fs::rename(&link, &lock));
        linked.or_else(|_| copy(index, &lock)).and_then(|()| fs::rename(&lock, self.real_index())).context("cannot install the index")
    }

    /// Leaves the repository without an index, as before its first `git add`.
    pub(crate) async fn remove_index(&self) -> Result<()> {
        let lock = self.lock_index().await?;
        let real = self.real_index();
        if real.exists() {
            fs::rename(&real, self.dir.join("index.removed"))?;
        }
        fs::remove_file(lock).context("cannot remove index.lock")
    }

    async fn lock_index(&self) -> Result<PathBuf> {
        let lock = self.repo.place.git_dir.join("index.lock");
        let mut waited = Duration::ZERO;
        loop {
            match OpenOptions::new().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(lock),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| format!("cannot create {}", lock.display())),
            }
            if stale::is_stale(&lock) {
                stale::move_aside(&lock, &self.dir.join("stale-locks")).with_context(|| format!("cannot move {} aside", lock.display()))?;
            } else if waited >= LIVE_LOCK {
                anyhow::bail!("{} is held by another git process", lock.display());
            } else {
                sleep(POLL).await;
                waited += POLL;
            }
        }
    }
}
