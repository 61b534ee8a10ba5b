//! What `setup` of one user has put outside of that user's own directories: nothing else is removed from there.

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
    /// The user's own directories: what is ours in them was put there by this user.
    own: [PathBuf; 2],
    paths: BTreeSet<PathBuf>,
}

impl Record {
    /// What is recorded for this user.
    ///
    /// # Errors
    /// If there is no home.
    pub fn of_user(environment: &Environment) -> Result<Self, Problem> {
        let own = Places::own_directories(environment)?;
        let file = own[0].join("git-ralph/installed");
        let text = safe_read::text(&file).unwrap_or_default();
        Ok(Record { paths: text.lines().map(PathBuf::from).collect(), own, file })
    }

    /// Where it is kept.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether this user's `setup` has put a file there.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        self.is_own(path) || self.paths.contains(path)
    }

    fn is_own(&self, path: &Path) -> bool {
        self.own.iter().any(|dir| path.starts_with(dir))
    }

    /// Takes down what was written; says whether that has changed the record.
    ///
    /// # Errors
    /// If it cannot be saved.
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

    /// Forgets everything, now that it is removed.
    pub fn discard(&self) {
        let _ = fs::remove_file(&self.file);
        let _ = self.file.parent().map(fs::remove_dir);
    }
}
