//! Records the files that one user's `setup` has installed outside of the user's own directories. Only these are
//! removed from there.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Places;
use crate::config::Environment;
use crate::error::Problem;
use crate::safe_read;

/// The files that one user's `setup` may remove again.
#[derive(Debug)]
pub struct Record {
    file: PathBuf,
    /// The user's own directories. Files of git-ralph in them were installed by this user.
    own: [PathBuf; 2],
    paths: BTreeSet<PathBuf>,
}

impl Record {
    /// Reads this user's record.
    ///
    /// # Errors
    /// If HOME is not set.
    pub fn of_user(environment: &Environment) -> Result<Self, Problem> {
        let own = Places::own_directories(environment)?;
        let file = own[0].join("git-ralph/installed");
        let text = safe_read::text(&file).unwrap_or_default();
        Ok(Record { paths: text.lines().map(PathBuf::from).collect(), own, file })
    }

    /// The path of the record.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether this user's `setup` has installed the file at this path.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        self.is_own(path) || self.paths.contains(path)
    }

    fn is_own(&self, path: &Path) -> bool {
        self.own.iter().any(|dir| path.starts_with(dir))
    }

    /// Records files that were written. Returns whether the record has changed.
    pub fn add<'a>(&mut self, written: impl Iterator<Item = &'a Path>) -> io::Result<bool> {
        let foreign: Vec<PathBuf> = written.filter(|path| !self.is_own(path)).map(Path::to_owned).collect();
        if foreign.iter().all(|path| self.paths.contains(path)) {
            return Ok(false);
        }
        self.paths.extend(foreign);
        if let Some(dir) = self.file.parent() {
            fs::create_dir_all(dir)?;
        }
        let lines: String = self.paths.iter().map(|path| format!("{}\n", path.display())).collect();
        fs::write(&self.file, lines).map(|()| true)
    }

    /// Deletes the record, after its files have been removed.
    pub fn discard(&self) {
        let _ = fs::remove_file(&self.file);
        let _ = self.file.parent().map(fs::remove_dir);
    }
}
