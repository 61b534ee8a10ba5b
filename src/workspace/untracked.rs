//! Finds the untracked files of an index without a git process. Pays for the rows `story: git processes` and `story: 200 files`.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::git::tracked_paths;

/// The untracked files in directories that contain tracked files. After `git add -A` these are the ignored ones. Directories
/// without a tracked file are left out, as in `git ls-files --directory`, because they may be huge. None if the index cannot be
/// read.
pub(super) fn beside_index(top: &Path, index: &Path) -> Option<Vec<PathBuf>> {
    let tracked = tracked_paths(&fs::read(index).ok()?)?;
    let mut dirs: HashSet<&[u8]> = HashSet::from([&b""[..]]);
    for path in &tracked {
        let mut path = &path[..];
        while let Some(end) = memchr::memrchr(b'/', path)
            && dirs.insert(&path[..end])
        {
            path = &path[..end];
        }
    }
    let mut files = Vec::new();
    for dir in dirs {
        // A directory that is gone, or is a symbolic link now, has no untracked files.
        let at = top.join(OsStr::from_bytes(dir));
        let entries = fs::read_dir(&at).ok().filter(|_| !at.is_symlink());
        for entry in entries.into_iter().flatten().flatten() {
            let path = if dir.is_empty() { Vec::new() } else { [dir, b"/"].concat() };
            let path = [&path, entry.file_name().as_bytes()].concat();
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file() || kind.is_symlink());
            if is_file && path != b".git" && !tracked.contains(&path) {
                files.push(PathBuf::from(OsStr::from_bytes(&path)));
            }
        }
    }
    Some(files)
}
