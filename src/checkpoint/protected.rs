//! What was ignored when the run started: it stays out of every commit, even when the ignore rules vanish.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::git::without_slash;

/// The ignored paths of the start; a directory stands for everything in it.
#[derive(Debug, Default)]
pub(super) struct Protected(HashSet<PathBuf>);

impl Protected {
    pub(super) fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut protected = Protected::default();
        protected.extend(paths);
        protected
    }

    pub(super) fn extend(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        self.0.extend(paths.into_iter().map(|path| without_slash(&path).to_owned()));
    }

    pub(super) fn save(&self, file: &Path) -> io::Result<()> {
        let bytes: Vec<u8> = self.0.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
        fs::write(file, bytes)
    }

    pub(super) fn load(file: &Path) -> io::Result<Self> {
        let bytes = fs::read(file)?;
        let paths = bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(Protected(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()))
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.iter()
    }

    pub(super) fn covers(&self, path: &Path) -> bool {
        !self.0.is_empty() && path.ancestors().any(|part| self.0.contains(part))
    }
}
