//! Small ignored files, such as `.env`: copied before an attempt, put back if it has deleted them.

use std::fs;
use std::io;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::keepsakes::{SMALL, TOGETHER};
use super::{Keeper, Notice};

impl Keeper {
    fn ignored_copies(&self) -> PathBuf {
        self.dir.join("ignored-files")
    }

    /// Copies small ignored files, such as `.env`, as they are before an attempt.
    pub(super) fn copy_ignored(&self) -> io::Result<()> {
        let mut room = TOGETHER;
        for path in self.protected().paths() {
            let from = self.repo.place.top.join(path);
            let Ok(meta) = from.symlink_metadata() else { continue };
            if !meta.is_file() || meta.len() > SMALL.min(room) {
                continue;
            }
            room -= meta.len();
            let to = self.ignored_copies().join(path);
            let fresh = |copy: fs::Metadata| copy.len() == meta.len() && copy.modified().ok() >= meta.modified().ok();
            if to.metadata().is_ok_and(fresh) {
                continue;
            }
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(&from, &to)?;
        }
        Ok(())
    }

    /// Puts ignored files back that an attempt has deleted.
    pub(super) fn restore_ignored(&self) -> Result<Vec<Notice>> {
        let mut notices = Vec::new();
        for path in self.protected().paths() {
            let (to, from) = (self.repo.place.top.join(path), self.ignored_copies().join(path));
            let parent_stands = to.parent().is_some_and(|parent| parent.symlink_metadata().is_ok_and(|meta| meta.is_dir()));
            if to.symlink_metadata().is_err() && from.is_file() && parent_stands {
                fs::copy(&from, &to).with_context(|| format!("cannot restore {}", to.display()))?;
                notices.push(Notice::IgnoredRestored { path: path.display().to_string() });
            }
        }
        Ok(notices)
    }
}
