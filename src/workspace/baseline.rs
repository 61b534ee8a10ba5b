//! Finds the files that were written since a given moment, by the sizes and times in a saved index, even where git sees no
//! difference.

use std::collections::HashSet;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use super::Moment;
use super::{Notice, Workspace, nul_records};
use crate::git::PathChange;
use crate::safe_write;

const LATER: Duration = Duration::from_secs(24 * 60 * 60);

impl Workspace {
    fn baseline(&self, moment: Moment) -> PathBuf {
        self.dir.join(match moment {
            Moment::Start => "index.start",
            Moment::Attempt => "index.before",
        })
    }

    /// Saves our private index as the record of the work tree at this moment. A hard link suffices, because git replaces an index
    /// file instead of writing into it. Where filters or line endings convert content, we need a copy that is dated in the
    /// future: otherwise git reads recently written files again, converts them, and reports them unchanged.
    pub(crate) fn note_baseline(&self, moment: Moment) -> Result<()> {
        let (index, baseline) = (self.private_index(), self.baseline(moment));
        if !index.exists() {
            return Ok(());
        }
        let _ = fs::remove_file(&baseline);
        let noted = if self.is_converting() {
            let later = FileTimes::new().set_modified(SystemTime::now() + LATER);
            self.note_times(moment)?;
            fs::copy(&index, &baseline).and_then(|_| File::options().write(true).open(&baseline)?.set_times(later))
        } else {
            fs::hard_link(&index, &baseline)
        };
        noted.with_context(|| format!("cannot create {}", baseline.display()))
    }

    /// After the work tree was switched by the changes `restored`: restores the original bytes of files that were rewritten since
    /// that moment although their object id is unchanged. Only needed where git converts content.
    pub(super) async fn restore_converted(&self, since: Moment, restored: &[PathChange]) -> Result<()> {
        let baseline = self.baseline(since);
        if !(self.is_converting() || restored.iter().any(is_attributes)) || !baseline.exists() {
            return Ok(());
        }
        let done: HashSet<&Path> = restored.iter().map(|change| change.path.as_path()).collect();
        let touched: HashSet<PathBuf> =
            self.repo.touched(&baseline).await?.into_iter().chain(self.touched_within_a_second(since)).collect();
        let mut again = self.repo.entries(&self.private_index()).await?;
        again.retain(|entry| entry.is_file() && touched.contains(&entry.path) && !done.contains(entry.path.as_path()));
        if again.is_empty() {
            return Ok(());
        }
        // Our index may already hold the current times of these files. Then git would consider them up to date and not write
        // them.
        self.index_repo().set_entries(&self.private_index(), &again).await?;
        let paths: Vec<PathBuf> = again.iter().map(|entry| entry.path.clone()).collect();
        self.index_repo().rewrite(&self.private_index(), &paths).await.context("cannot restore the bytes of files")?;
        self.restore_raw_bytes(&again).await
    }

    fn times(&self, moment: Moment) -> PathBuf {
        let mut name = self.baseline(moment).into_os_string();
        name.push(".times");
        name.into()
    }

    /// Records the exact ctime of each file that has a filter, because git's index records whole seconds.
    fn note_times(&self, moment: Moment) -> Result<()> {
        let fields = self.filtered().into_iter().flat_map(|path| [self.time_of(&path).into_bytes(), nul_records::field(&path).to_vec()]);
        let file = self.times(moment);
        safe_write::draft(&file, &nul_records::joined(fields)).with_context(|| format!("cannot write {}", file.display()))
    }

    /// The files with a filter whose ctime has changed since that moment.
    fn touched_within_a_second(&self, since: Moment) -> Vec<PathBuf> {
        let record = fs::read(self.times(since)).unwrap_or_default();
        let noted = nul_records::pairs(&record).map(|(time, path)| (time, nul_records::path(path)));
        noted.filter(|(time, path)| self.time_of(path).as_bytes() != *time).map(|(_, path)| path).collect()
    }

    /// The ctime of a file, which unlike the mtime cannot be set by a program.
    fn time_of(&self, path: &Path) -> String {
        let meta = self.repo.place.top.join(path).symlink_metadata();
        meta.map_or_else(|_| "-".to_owned(), |meta| format!("{}.{}", meta.ctime(), meta.ctime_nsec()))
    }

    /// Moves files aside that now exist at paths which sparse checkout had left out at that moment, and marks those paths
    /// skip-worktree again.
    pub(super) async fn move_left_out_aside(&self, since: Moment, label: &str, notices: &mut Vec<Notice>) -> Result<()> {
        let baseline = self.baseline(since);
        if !baseline.exists() {
            return Ok(());
        }
        let paths = self.repo.left_out_but_there(&baseline).await?;
        for path in &paths {
            let to = self.move_aside(path, label)?;
            notices.push(Notice::ObstacleMoved { path: path.display().to_string(), to: to.display().to_string() });
        }
        self.index_repo().leave_out(&self.private_index(), &paths).await
    }
}

/// Whether a change concerns a `.gitattributes` file, and so may change how git converts content.
pub(super) fn is_attributes(change: &PathChange) -> bool {
    change.path.file_name().is_some_and(|name| name == ".gitattributes")
}
