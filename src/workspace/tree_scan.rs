//! Scans the work tree for what git does not report: empty directories, unusual permissions, attributes that convert content.

use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::modes::{ALL, CheckoutModes, Modes};
use super::path_set::PathSet;
use crate::git::attributes_convert;

/// The result of a scan.
#[derive(Debug, Default)]
pub(super) struct TreeScan {
    /// Empty directories.
    pub empty: Vec<PathBuf>,
    /// Whether an attribute file makes git convert content.
    pub converting: bool,
    /// Files and directories whose permissions differ from what a checkout would produce.
    pub modes: Modes,
    /// Directories that were not scanned yet.
    aside: Vec<PathBuf>,
}

/// A scan in progress.
struct Scanner<'a, F> {
    top: &'a Path,
    usual: CheckoutModes,
    /// Decides which directories to scan.
    enters: F,
    scan: TreeScan,
}

impl TreeScan {
    /// Scans the directories that contain tracked files. The others may be huge and ignored.
    pub fn of(top: &Path, tracked: &HashSet<PathBuf>) -> Self {
        let mut scanner = Scanner::new(top, |dir: &Path| tracked.contains(dir), TreeScan::default());
        scanner.look(Path::new(""));
        scanner.scan
    }

    /// Scans the remaining directories too, now that the ignored paths are known.
    pub fn completed(mut self, top: &Path, protected: &PathSet) -> Self {
        let aside = std::mem::take(&mut self.aside);
        let mut scanner = Scanner::new(top, |dir: &Path| !protected.covers(dir), self);
        aside.into_iter().for_each(|dir| scanner.see_directory(dir));
        scanner.scan
    }
}

impl<'a, F: Fn(&Path) -> bool> Scanner<'a, F> {
    fn new(top: &'a Path, enters: F, scan: TreeScan) -> Self {
        Scanner { top, usual: CheckoutModes::here(), enters, scan }
    }

    fn look(&mut self, dir: &Path) {
        let Ok(entries) = fs::read_dir(self.top.join(dir)) else {
            // git may have to make the directory readable first.
            return self.scan.aside.push(dir.to_owned());
        };
        let mut empty = !dir.as_os_str().is_empty();
        for entry in entries.flatten() {
            empty = false;
            match entry.file_type() {
                Ok(kind) if kind.is_file() => self.see_file(dir, &entry),
                Ok(kind) if kind.is_dir() && entry.file_name() != ".git" => {
                    self.note_mode(dir, &entry);
                    self.see_directory(dir.join(entry.file_name()));
                }
                _ => {}
            }
        }
        if empty {
            self.scan.empty.push(dir.to_owned());
        }
    }

    fn see_directory(&mut self, dir: PathBuf) {
        if (self.enters)(&dir) {
            self.look(&dir);
        } else {
            self.scan.aside.push(dir);
        }
    }

    fn see_file(&mut self, dir: &Path, entry: &DirEntry) {
        if entry.file_name() == ".gitattributes" {
            self.scan.converting |= fs::read(entry.path()).is_ok_and(|text| attributes_convert(&text));
        }
        self.note_mode(dir, entry);
    }

    fn note_mode(&mut self, dir: &Path, entry: &DirEntry) {
        if let Ok(meta) = entry.metadata()
            && !self.usual.is(&meta)
        {
            self.scan.modes.insert(dir.join(entry.file_name()), meta.permissions().mode() & ALL);
        }
    }
}
