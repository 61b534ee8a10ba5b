//! Stores a set of paths on disk, such as the paths that were ignored at the start; a directory stands for everything in it.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::nul_records;
use crate::git::without_slash;
use crate::safe_write;

/// A set of paths; a directory stands for everything in it.
#[derive(Debug, Default)]
pub(super) struct PathSet(HashSet<PathBuf>);

impl PathSet {
    pub(super) fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut protected = PathSet::default();
        protected.extend(paths);
        protected
    }

    pub(super) fn extend(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        self.0.extend(paths.into_iter().map(|path| without_slash(&path).to_owned()));
    }

    pub(super) fn save(&self, file: &Path) -> io::Result<()> {
        safe_write::draft(file, &self.bytes())
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        nul_records::joined(self.0.iter().map(|path| nul_records::field(path)))
    }

    pub(super) fn load(file: &Path) -> io::Result<Self> {
        let bytes = fs::read(file)?;
        let paths = nul_records::fields(&bytes).filter(|path| !path.is_empty());
        Ok(PathSet(paths.map(nul_records::path).collect()))
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.iter()
    }

    pub(super) fn covers(&self, path: &Path) -> bool {
        !self.0.is_empty() && path.ancestors().any(|part| self.0.contains(part))
    }
}
