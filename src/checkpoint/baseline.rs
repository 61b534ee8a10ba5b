//! The work tree as an index remembers it, by sizes and times: what was written since, also where git sees no difference.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use super::submodules::Moment;
use super::{Keeper, Notice};
use crate::git::PathChange;

const LATER: Duration = Duration::from_secs(24 * 60 * 60);

impl Keeper {
    fn baseline(&self, moment: Moment) -> PathBuf {
        self.dir.join(match moment {
            Moment::Start => "index.start",
            Moment::Attempt => "index.before",
        })
    }

    /// Remembers the work tree as our index has it now. A second name is enough: git replaces an index, it never writes into one.
    /// Where git may change bytes it must be a file of its own, with a time at which nothing in it is recent: git would look
    /// into files of the same second, and find what it makes of their bytes unchanged.
    pub(super) fn note_baseline(&self, moment: Moment) -> Result<()> {
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

    /// After the work tree was switched by `restored`: files that were written since that moment, with other bytes for the same
    /// object, get the bytes back that they had. That takes attributes or a configuration that make git change bytes.
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
        // Our index may know them by their times already, as they are: git would not write them again.
        self.repo.set_entries(&self.private_index(), &again).await?;
        let paths: Vec<PathBuf> = again.iter().map(|entry| entry.path.clone()).collect();
        self.repo.rewrite(&self.private_index(), &paths).await.context("cannot restore the bytes of files")?;
        self.restore_keepsakes(&again).await
    }

    fn times(&self, moment: Moment) -> PathBuf {
        let mut name = self.baseline(moment).into_os_string();
        name.push(".times");
        name.into()
    }

    /// Remembers when files were written that a filter is for, as exactly as the system knows: git remembers whole seconds.
    fn note_times(&self, moment: Moment) -> Result<()> {
        let mut record = Vec::new();
        for path in self.filtered() {
            record.extend([self.time_of(&path).as_bytes(), b" ", path.as_os_str().as_bytes(), b"\0"].concat());
        }
        let file = self.times(moment);
        fs::write(&file, record).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Those of them that were written since.
    fn touched_within_a_second(&self, since: Moment) -> Vec<PathBuf> {
        let record = fs::read(self.times(since)).unwrap_or_default();
        let noted = record.split(|byte| *byte == 0).filter_map(|entry| {
            let blank = memchr::memchr(b' ', entry)?;
            Some((&entry[..blank], Path::new(OsStr::from_bytes(&entry[blank + 1..]))))
        });
        noted.filter(|(time, path)| self.time_of(path).as_bytes() != *time).map(|(_, path)| path.to_owned()).collect()
    }

    /// When a file was last written or changed in any other way, which nobody can set back.
    fn time_of(&self, path: &Path) -> String {
        let meta = self.repo.place.top.join(path).symlink_metadata();
        meta.map_or_else(|_| "-".to_owned(), |meta| format!("{}.{}", meta.ctime(), meta.ctime_nsec()))
    }

    /// What was put where sparse checkout left files out at that moment is moved aside, and left out again.
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
        self.repo.leave_out(&self.private_index(), &paths).await
    }
}

/// Whether a change is one of the rules by which git changes bytes.
pub(super) fn is_attributes(change: &PathChange) -> bool {
    change.path.file_name().is_some_and(|name| name == ".gitattributes")
}
