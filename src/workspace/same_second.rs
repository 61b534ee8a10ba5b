//! Finds edits that git does not see. git compares the times of a file in whole seconds. If a file is edited twice within a
//! second, keeps its length and has its mtime reset, git considers it unchanged.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;

use super::Workspace;
use crate::git::{Noted, RecentFile, changed_since};

impl Workspace {
    /// Called before a scan: makes git check files again that were edited in the second in which the index was written.
    pub(super) async fn doubt_recent_files(&self, index: &Path) -> Result<()> {
        let files = edited_unseen(&self.repo.place.top, index);
        if files.is_empty() { Ok(()) } else { self.index_repo().look_again(index, &files).await }
    }
}

/// The files that git would consider unchanged, although the nanoseconds of their ctime differ from those in the index.
fn edited_unseen(top: &Path, index: &Path) -> Vec<RecentFile> {
    // Later edits have a later second. The second before counts too, because git reads files before it writes the index.
    let written = fs::metadata(index).ok().and_then(|meta| u32::try_from(meta.mtime()).ok());
    let (Some(written), Ok(bytes)) = (written, fs::read(index)) else { return Vec::new() };
    let is_unseen = |file: &RecentFile| {
        let Noted { changed: (second, nanosecond), modified, size } = file.noted;
        let is_same =
            |meta: &Metadata| (meta.ctime(), meta.mtime(), meta.len()) == (i64::from(second), i64::from(modified), u64::from(size));
        let meta = top.join(OsStr::from_bytes(&file.path)).symlink_metadata().ok().filter(is_same);
        // git itself checks files that were modified when the index was written, or later.
        modified < written && meta.is_some_and(|meta| meta.ctime_nsec() != i64::from(nanosecond))
    };
    changed_since(&bytes, written.saturating_sub(1)).into_iter().filter(is_unseen).collect()
}
