//! Compares files and directories with their copies, and makes a copy equal to its original.
//!
//! Pairs of files that were found equal are remembered by their stamps, so that unchanged files are read only once.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::stamp::Stamp;

/// Compares and copies files and directories, and remembers which files are equal.
#[derive(Clone, Debug, Default)]
pub(in crate::workspace) struct Mirror(Arc<Mutex<HashSet<(Stamp, Stamp)>>>);

impl Mirror {
    /// Whether two files or directories are equal. A symbolic link at the top is followed; inside a directory, links are compared
    /// as links.
    pub fn same(&self, one: &Path, other: &Path) -> bool {
        match (fs::metadata(one), fs::metadata(other)) {
            (Ok(left), Ok(right)) if left.is_dir() && right.is_dir() => self.same_directories(one, other),
            (Ok(left), Ok(right)) if left.is_file() && right.is_file() => self.same_files((one, &left), (other, &right)),
            (Ok(_), Ok(_)) => false,
            (left, right) => left.is_err() && right.is_err(),
        }
    }

    fn same_directories(&self, one: &Path, other: &Path) -> bool {
        let (Ok(left), Ok(right)) = (entries(one), entries(other)) else { return false };
        left == right && left.iter().all(|(name, kind)| self.same_entries(&one.join(name), &other.join(name), *kind))
    }

    fn same_entries(&self, one: &Path, other: &Path, kind: Kind) -> bool {
        match kind {
            Kind::Link => fs::read_link(one).is_ok_and(|left| fs::read_link(other).is_ok_and(|right| left == right)),
            Kind::Directory => self.same_directories(one, other),
            Kind::Other => self.same(one, other),
        }
    }

    fn same_files(&self, (one, left): (&Path, &Metadata), (other, right): (&Path, &Metadata)) -> bool {
        if left.len() != right.len() || left.permissions() != right.permissions() {
            return false;
        }
        let stamps = (Stamp::from(left), Stamp::from(right));
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(&stamps) {
            return true;
        }
        let is_same = fs::read(one).ok() == fs::read(other).ok();
        if is_same && stamps.0.is_settled() && stamps.1.is_settled() {
            known().insert(stamps);
        }
        is_same
    }

    /// Makes `to` equal to `from`: a file, a directory of files, or absent. Symbolic links are treated as in [`Mirror::same`].
    /// Equal files are not rewritten.
    pub fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let is_directory = fs::metadata(from).is_ok_and(|meta| meta.is_dir());
        if is_directory && to.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            return self.copy_entries(from, to);
        }
        if self.same(from, to) {
            return Ok(());
        }
        remove(to)?;
        let Ok(meta) = fs::metadata(from) else { return Ok(()) };
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        if meta.is_dir() {
            fs::create_dir(to)?;
            return self.copy_entries(from, to);
        }
        if meta.is_file() { fs::copy(from, to).map(drop) } else { Ok(()) }
    }

    /// Replaces `to` by a copy of `from`. Both are directory entries, so a symbolic link is copied as a link.
    pub fn replace_entry(&self, from: &Path, to: &Path) -> io::Result<()> {
        remove(to)?;
        match fs::read_link(from) {
            Ok(target) => symlink(target, to),
            Err(_) => self.copy(from, to),
        }
    }

    fn copy_entries(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (wanted, found) = (entries(from)?, entries(to)?);
        for name in found.keys().filter(|name| !wanted.contains_key(*name)) {
            remove(&to.join(name))?;
        }
        for (name, kind) in &wanted {
            let (from, to, is_alike) = (from.join(name), to.join(name), found.get(name) == Some(kind));
            if is_alike && *kind == Kind::Directory {
                self.copy_entries(&from, &to)?;
            } else if !is_alike || !self.same_entries(&from, &to, *kind) {
                self.replace_entry(&from, &to)?;
            }
        }
        let permissions = fs::metadata(from)?.permissions();
        if fs::metadata(to)?.permissions() == permissions { Ok(()) } else { fs::set_permissions(to, permissions) }
    }
}

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Link,
    Directory,
    Other,
}

impl From<fs::FileType> for Kind {
    fn from(kind: fs::FileType) -> Self {
        match kind {
            kind if kind.is_symlink() => Kind::Link,
            kind if kind.is_dir() => Kind::Directory,
            _ => Kind::Other,
        }
    }
}

/// The names in a directory with their kinds.
fn entries(dir: &Path) -> io::Result<BTreeMap<OsString, Kind>> {
    fs::read_dir(dir)?.map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?.into())))).collect()
}

fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Removes a file and writes it again, so that a symbolic link that an agent put there is not followed.
pub(super) fn rewrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let _ = fs::remove_file(path);
    fs::write(path, bytes)
}

/// Writes only if the content differs: some file systems flush a file that is truncated and rewritten.
pub(super) fn write_if_changed(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|last| last == bytes) { Ok(()) } else { rewrite(path, bytes) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use super::*;

    #[test]
    fn a_copy_follows_its_directory_through_every_kind_of_change() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let (from, to) = (at("from"), at("to"));
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let changes: [&dyn Fn(); 9] = [
            &|| fs::create_dir_all(from.join("inner/deep")).unwrap(),
            &|| fs::write(from.join("file"), "one").unwrap(),
            &|| fs::write(from.join("inner/file"), "one").unwrap(),
            &|| symlink("file", from.join("link")).unwrap(),
            &|| fs::remove_file(from.join("link")).and_then(|()| symlink("elsewhere", from.join("link"))).unwrap(),
            &|| fs::remove_file(from.join("link")).and_then(|()| fs::write(from.join("link"), "one")).unwrap(),
            &|| fs::remove_file(from.join("file")).and_then(|()| symlink("link", from.join("file"))).unwrap(),
            &|| mode(&from.join("inner"), 0o750),
            &|| fs::remove_dir_all(from.join("inner")).and_then(|()| fs::write(from.join("inner"), "one")).unwrap(),
        ];
        let mirror = Mirror::default();
        for (number, change) in changes.iter().enumerate() {
            change();
            assert!(number == 7 || !mirror.same(&from, &to), "{number}");
            mirror.copy(&from, &to).unwrap();
            assert!(mirror.same(&from, &to) && Mirror::default().same(&from, &to), "{number}");
            let modes = |dir: &Path| fs::metadata(dir.join("inner")).unwrap().permissions();
            assert_eq!(modes(&from), modes(&to), "{number}");
        }
        fs::remove_dir_all(&from).unwrap();
        mirror.copy(&from, &to).unwrap();
        assert!(!to.exists());
    }

    #[test]
    fn remembered_stamps_do_not_hide_a_later_write_of_the_same_length() {
        let root = tempfile::tempdir().unwrap();
        let (one, other) = (root.path().join("one"), root.path().join("other"));
        let mirror = Mirror::default();
        fs::write(&one, "abc").unwrap();
        mirror.copy(&one, &other).unwrap();
        for (path, text) in [(&one, "xyz"), (&one, "abc"), (&other, "xyz")] {
            while [&one, &other].iter().any(|path| !Stamp::of(path).unwrap().is_settled()) {
                thread::yield_now();
            }
            let _ = mirror.same(&one, &other);
            fs::write(path, text).unwrap();
            assert_eq!(mirror.same(&one, &other), fs::read(&one).unwrap() == fs::read(&other).unwrap());
        }
    }
}
