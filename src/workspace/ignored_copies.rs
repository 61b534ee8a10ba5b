//! Copies small ignored files such as `.env` before the run and before every attempt, and restores those that were changed.
//!
//! A copy is never overwritten. `ignored-files/<label>/` holds the files that had changed when that copy was made, and the files
//! that the attempt with that label went on to change. The lists record where the latest copy of every file is.
//!
//! An agent that replaces a secret in every file it finds also writes into these copies. So the vault holds a second set of
//! copies and lists, and git-ralph reads that one. The set in the run's directory is for the user to look at, and for a run whose
//! vault was deleted.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use super::raw_bytes::{SMALL, TOGETHER};
use super::{Moment, Notice, Workspace, index, nul_records};
use crate::free_name::free_name;
use crate::safe_write;
use crate::stamp::Stamp;
use crate::vault::private_dirs;

/// The limit for all copies of a run together. A file is copied only if it takes at most 1/`PART` of what is left, so that there
/// is always room for the smallest files.
const ALL: u64 = 4 * TOGETHER;
const PART: u64 = 32;
/// The directory of the copies, both in the run's directory and in the vault. The names of the lists begin with the same word.
const COPIES: &str = "ignored-files";
const VAULTED: &str = "ignored";
/// The name of a copy that is still being written.
const NEW: &str = ".git-ralph-new";
/// After this many entries, the search of an ignored directory for changes gives up.
const MANY: usize = 100_000;

/// How to treat changed files that are in no tree: ignored files and nested repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// Keep edits and restore deleted files, because the attempt has landed.
    KeepEdits,
    /// Restore all files to their state at that moment.
    BackTo(Moment),
}

/// The ignored files at one moment.
#[derive(Debug, Default)]
struct Copies {
    /// The name of the directory for copies that belong to this moment.
    label: String,
    files: BTreeMap<PathBuf, FileCopy>,
}

/// One ignored file.
#[derive(Clone, Debug)]
struct FileCopy {
    /// The stamp that identifies an unmodified file; empty if the file was too new for its stamp to be reliable.
    stamp: String,
    /// The label of the directory that holds the copy; none if the file is too big to be copied.
    home: Option<String>,
}

/// A list of files and their copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// The files that existed before the run.
    Start,
    /// The files that existed before the last attempt.
    Attempt,
    /// The files, among those before the last attempt, that earlier attempts created.
    Made,
}

/// How many bytes may still be copied: for one moment, and for the whole run.
struct Room {
    together: u64,
    all: u64,
}

/// How an ignored file differs from its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Same,
    Changed,
    Gone,
}

/// The files to report to the user, by what happened to them.
#[derive(Debug, Default)]
struct Restored {
    deleted: Vec<String>,
    put_back: Vec<String>,
    edited: Vec<String>,
    lost: Vec<String>,
}

impl Workspace {
    fn ignored_dir(&self) -> PathBuf {
        self.dir.join(COPIES)
    }

    fn ignored_list(&self, list: List) -> PathBuf {
        self.dir.join(list.file_name())
    }

    /// The path of a copy or a list in the vault, where an agent does not find it. Falls back to the run's directory if the vault
    /// does not have it.
    fn vouched(&self, name: &Path) -> PathBuf {
        let vaulted = self.vaulted(name).filter(|path| path.symlink_metadata().is_ok());
        vaulted.unwrap_or_else(|| self.dir.join(name))
    }

    fn vaulted(&self, name: &Path) -> Option<PathBuf> {
        Some(self.in_vault(VAULTED)?.join(name))
    }

    /// Copies this file from the run's directory into the vault.
    fn copy_to_vault(&self, name: &Path) -> io::Result<()> {
        let Some(to) = self.vaulted(name) else { return Ok(()) };
        private_dirs(to.parent().unwrap_or(&to))?;
        let new = to.with_file_name(NEW);
        let _ = fs::remove_file(&new);
        copy_entry(&self.dir.join(name), &new)?;
        fs::rename(new, to)
    }

    /// Copies small ignored files as they are before the run.
    pub(super) fn copy_ignored_at_start(&self) -> io::Result<()> {
        self.copy_ignored("start", Vec::new())?;
        let copies = self.load_copies(List::Attempt);
        self.save_copies(List::Start, &copies)
    }

    fn ignored_copy(&self, home: &str, path: &Path) -> PathBuf {
        self.vouched(&Path::new(COPIES).join(home).join(path))
    }

    /// Copies small ignored files before an attempt, except those that have not changed since their last copy. `made` are ignored
    /// files that earlier attempts may have created: they are copied last, and are never restored.
    pub(super) fn copy_ignored(&self, label: &str, made: Vec<PathBuf>) -> io::Result<()> {
        let dir = self.ignored_dir();
        let numbered = |number: u32| format!("{label}.{number}");
        let label = free_name(label.to_owned(), numbered, |label| dir.join(label).exists());
        let mut room = Room { together: TOGETHER, all: ALL.saturating_sub(size_of(&dir)) };
        let protected = self.protected();
        let copies = self.copy_these(&label, protected.paths(), List::Attempt, &mut room)?;
        self.save_copies(List::Attempt, &copies)?;
        let made: Vec<PathBuf> = made.into_iter().filter(|path| !protected.covers(path)).collect();
        if made.is_empty() {
            return Ok(());
        }
        let copies = self.copy_these(&label, made.iter(), List::Made, &mut room)?;
        self.save_copies(List::Made, &copies)
    }

    /// Copies these files, the smallest first, except those that match the list `last`.
    fn copy_these<'a>(&self, label: &str, paths: impl Iterator<Item = &'a PathBuf>, last: List, room: &mut Room) -> io::Result<Copies> {
        let (last, dir) = (self.load_copies(last), self.ignored_dir());
        let mut copies = Copies { label: label.to_owned(), files: BTreeMap::new() };
        for (length, path) in self.smallest_first(paths) {
            let Ok(meta) = self.repo.place.top.join(&path).symlink_metadata() else { continue };
            let known = last.files.get(&path).filter(|copy| self.fate(&path, copy) == Fate::Same);
            let home = match known.and_then(|copy| copy.home.clone()) {
                _ if length > SMALL.min(room.together) => None,
                Some(home) => Some(home),
                None if length > room.all / PART => None,
                None if duplicate(&self.repo.place.top.join(&path), &dir.join(label).join(&path), &dir.join("new"))? => {
                    self.copy_to_vault(&Path::new(COPIES).join(label).join(&path))?;
                    room.all = room.all.saturating_sub(length);
                    Some(label.to_owned())
                }
                None => None,
            };
            room.together -= if home.is_some() { length } else { 0 };
            let stamp = Stamp::from(&meta);
            let is_known = home.is_none() || stamp.is_settled();
            copies.files.insert(path, FileCopy { stamp: if is_known { stamp.to_string() } else { String::new() }, home });
        }
        Ok(copies)
    }

    /// The regular files and symbolic links among these paths, the smallest first.
    fn smallest_first<'a>(&self, paths: impl Iterator<Item = &'a PathBuf>) -> Vec<(u64, PathBuf)> {
        let file = |path: &PathBuf| {
            let meta = self.repo.place.top.join(path).symlink_metadata().ok()?;
            (meta.is_file() || meta.is_symlink()).then(|| (meta.len(), path.clone()))
        };
        let mut files: Vec<(u64, PathBuf)> = paths.filter_map(file).collect();
        files.sort();
        files
    }

    /// Restores ignored files after an attempt or at the end of the run. Changed versions are moved to the label's directory of
    /// moved files. Repeating it is harmless.
    pub(crate) fn restore_ignored(&self, wanted: Treatment, label: &str) -> Result<Vec<Notice>> {
        let is_at_start = wanted == Treatment::BackTo(Moment::Start);
        let copies = self.load_copies(if is_at_start { List::Start } else { List::Attempt });
        let mut found = Restored::default();
        for (path, copy) in &copies.files {
            let fate = self.fate(path, copy);
            let name = path.display().to_string();
            let from = copy.home.as_ref().map(|home| self.ignored_copy(home, path)).filter(|from| from.symlink_metadata().is_ok());
            match (fate, from, wanted) {
                (Fate::Same, ..) | (Fate::Changed, None, Treatment::KeepEdits) => {}
                (_, None, _) => found.lost.push(name),
                (Fate::Gone, Some(from), _) if self.has_place(path, wanted, label)? => {
                    self.put_back(path, &from)?;
                    found.deleted.push(name);
                }
                (_, Some(from), Treatment::KeepEdits) => {
                    self.show_copy(path, &from, &copies.label)?;
                    found.edited.push(name);
                }
                (_, Some(from), Treatment::BackTo(_)) => {
                    self.move_aside(path, label)?;
                    self.put_back(path, &from)?;
                    found.put_back.push(name);
                }
            }
        }
        let (copies, moved) = (self.ignored_dir().join(&copies.label), self.moved_dir(label));
        Ok(found.notices(&copies.display().to_string(), &moved.display().to_string()))
    }

    /// The ignored directories that have changed since the start, judged by times because there is no copy to compare with.
    pub(crate) fn changed_ignored_directories(&self) -> Option<Notice> {
        let started = fs::metadata(self.ignored_list(List::Start)).and_then(|meta| meta.modified()).ok()?;
        let started = started.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let known = self.load_copies(List::Start);
        let changed = |path: &&PathBuf| {
            let at = self.repo.place.top.join(path);
            match at.symlink_metadata() {
                Ok(meta) if meta.is_dir() => !self.is_copied_at_start(path) && is_newer(&at, started, &mut MANY.clone()),
                Ok(_) => false,
                Err(_) => !known.files.contains_key(*path),
            }
        };
        let mut paths: Vec<String> = self.protected().paths().filter(changed).map(|path| format!("{}/", path.display())).collect();
        paths.sort();
        (!paths.is_empty()).then_some(Notice::IgnoredNotRestored { paths })
    }

    fn fate(&self, path: &Path, copy: &FileCopy) -> Fate {
        let at = self.repo.place.top.join(path);
        let Ok(meta) = at.symlink_metadata() else { return Fate::Gone };
        let is_same = || copy.home.as_ref().is_some_and(|home| same(&at, &meta, &self.ignored_copy(home, path)));
        if Stamp::from(&meta).to_string() == copy.stamp || is_same() { Fate::Same } else { Fate::Changed }
    }

    /// Whether a file to be restored has a directory. After a landing, a missing directory counts as removed on purpose. Otherwise it
    /// is created again.
    pub(super) fn has_place(&self, path: &Path, wanted: Treatment, label: &str) -> Result<bool> {
        for dir in path.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev().filter(|dir| !dir.as_os_str().is_empty()) {
            let at = self.repo.place.top.join(dir);
            match at.symlink_metadata() {
                Ok(meta) if meta.is_dir() => continue,
                _ if wanted == Treatment::KeepEdits => return Ok(false),
                Ok(_) => drop(self.move_aside(dir, label)?),
                Err(_) => {}
            }
            fs::create_dir(&at).with_context(|| format!("cannot restore {}", at.display()))?;
        }
        Ok(true)
    }

    fn put_back(&self, path: &Path, from: &Path) -> Result<()> {
        let to = self.repo.place.top.join(path);
        copy_entry(from, &to).with_context(|| format!("cannot restore {}", to.display()))
    }

    /// Puts a copy into the directory of the attempt that changed the file, for the user to look at.
    fn show_copy(&self, path: &Path, from: &Path, label: &str) -> Result<()> {
        let to = self.ignored_dir().join(label).join(path);
        if to.symlink_metadata().is_err() {
            create_parent(&to)?;
            // No hard link from the repository into the vault: writing to the link would change the vault's copy.
            let is_ours = from.starts_with(&self.dir);
            let shown = if is_ours { fs::hard_link(from, &to) } else { copy_entry(from, &to) };
            shown.with_context(|| format!("cannot create {}", to.display()))?;
        }
        Ok(())
    }

    fn load_copies(&self, list: List) -> Copies {
        let bytes = fs::read(self.vouched(list.file_name().as_ref())).unwrap_or_default();
        let mut fields = nul_records::fields(&bytes);
        let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
        let mut copies = Copies { label: fields.next().map(text).unwrap_or_default(), files: BTreeMap::new() };
        while let (Some(home), Some(stamp), Some(path)) = (fields.next(), fields.next(), fields.next()) {
            let home = Some(text(home)).filter(|home| !home.is_empty());
            copies.files.insert(nul_records::path(path), FileCopy { stamp: text(stamp), home });
        }
        copies
    }

    fn save_copies(&self, list: List, copies: &Copies) -> io::Result<()> {
        // An empty list stores no label, so that it compares equal to an earlier empty list and need not be written.
        let mut bytes = if copies.files.is_empty() { Vec::new() } else { nul_records::joined([&copies.label]) };
        for (path, copy) in &copies.files {
            let home = copy.home.as_deref().unwrap_or_default();
            bytes.extend(nul_records::joined([home.as_bytes(), copy.stamp.as_bytes(), nul_records::field(path)]));
        }
        let (file, name) = (self.ignored_list(list), list.file_name());
        let holds = |file: &Path| fs::read(file).is_ok_and(|last| last == bytes);
        if !holds(&file) {
            let new = file.with_extension("new");
            safe_write::draft(&new, &bytes)?;
            fs::rename(new, &file)?;
        }
        if holds(&self.vouched(Path::new(&name))) && self.vaulted(Path::new(&name)).is_none_or(|vaulted| vaulted.exists()) {
            return Ok(());
        }
        self.copy_to_vault(Path::new(&name))
    }
}

impl List {
    fn file_name(self) -> String {
        let of = match self {
            List::Start => Moment::Start.name(),
            List::Attempt => Moment::Attempt.name(),
            List::Made => "made",
        };
        format!("{COPIES}.{of}")
    }
}

impl Restored {
    fn notices(self, copies: &str, moved: &str) -> Vec<Notice> {
        let mut notices: Vec<Notice> = self.deleted.into_iter().map(|path| Notice::IgnoredRestored { path }).collect();
        if !self.put_back.is_empty() {
            notices.push(Notice::IgnoredPutBack { paths: self.put_back, kept: moved.to_owned() });
        }
        if !self.edited.is_empty() {
            notices.push(Notice::IgnoredEdited { paths: self.edited, copies: copies.to_owned() });
        }
        if !self.lost.is_empty() {
            notices.push(Notice::IgnoredNotRestored { paths: self.lost });
        }
        notices
    }
}

/// Whether a file equals its copy in kind, content and permissions.
pub(super) fn same(path: &Path, meta: &Metadata, copy: &Path) -> bool {
    let Ok(other) = copy.symlink_metadata() else { return false };
    if meta.is_symlink() || other.is_symlink() {
        return fs::read_link(path).is_ok_and(|target| fs::read_link(copy).is_ok_and(|known| known == target));
    }
    let alike = meta.is_file() && meta.len() == other.len() && meta.permissions().mode() == other.permissions().mode();
    alike && fs::read(path).is_ok_and(|bytes| fs::read(copy).is_ok_and(|known| known == bytes))
}

/// Copies a file or a symbolic link by way of `new`, so that an interrupted copy is never taken for a complete one. Returns false
/// if the file is gone or we may not read it.
fn duplicate(from: &Path, to: &Path, new: &Path) -> io::Result<bool> {
    create_parent(to)?;
    let _ = fs::remove_file(new);
    match copy_entry(from, new) {
        Ok(()) => fs::rename(new, to).map(|()| true),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn copy_entry(from: &Path, to: &Path) -> io::Result<()> {
    match fs::read_link(from) {
        Ok(target) => symlink(target, to),
        Err(_) => index::copy(from, to),
    }
}

fn create_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// The total size of all files below a directory; a file with several hard links counts once.
fn size_of(dir: &Path) -> u64 {
    let mut known = std::collections::HashSet::new();
    let mut dirs = vec![dir.to_owned()];
    let mut size = 0;
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => dirs.push(entry.path()),
                Ok(meta) if known.insert(meta.ino()) => size += meta.len(),
                _ => {}
            }
        }
    }
    size
}

/// Whether anything in a directory was changed after `time`; true if the directory has too many entries to check.
fn is_newer(dir: &Path, time: Duration, left: &mut usize) -> bool {
    let newer = |meta: &Metadata| {
        let changed = u64::try_from(meta.ctime()).ok().zip(u32::try_from(meta.ctime_nsec()).ok());
        changed.is_none_or(|(seconds, nanos)| Duration::new(seconds, nanos) > time)
    };
    if dir.symlink_metadata().as_ref().is_ok_and(newer) {
        return true;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if *left == 0 {
            return true;
        }
        *left -= 1;
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if if is_dir { is_newer(&entry.path(), time, left) } else { entry.metadata().is_ok_and(|meta| newer(&meta)) } {
            return true;
        }
    }
    false
}
