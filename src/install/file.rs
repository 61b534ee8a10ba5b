//! One installed file: only what is ours is ever replaced or removed.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::safe_read;

/// In every shipped file, of every version: a file without it is somebody else's.
const MARK: &str = "Part of git-ralph";

/// A file, and what it is to hold.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Where it belongs.
    pub path: PathBuf,
    /// All of it.
    pub text: &'static str,
}

/// What is at its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Missing,
    /// The file as it should be.
    Current,
    /// The file of another version.
    Other,
    /// Something that is not ours: other content, a link, a directory.
    Foreign,
}

impl Installed {
    /// What is there now.
    ///
    /// # Errors
    /// If that cannot be told.
    pub fn state(&self) -> io::Result<State> {
        match self.path.symlink_metadata() {
            Ok(meta) if !meta.is_file() => return Ok(State::Foreign),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::Missing),
            Err(error) => return Err(error),
        }
        let bytes = safe_read::bytes(&self.path)?;
        Ok(if bytes == self.text.as_bytes() {
            State::Current
        } else if memchr::memmem::find(&bytes, MARK.as_bytes()).is_some() {
            State::Other
        } else {
            State::Foreign
        })
    }

    /// Puts it there; under its name there is always a whole file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self) -> io::Result<()> {
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(dir)?;
        let mut new = tempfile::Builder::new().prefix(".git-ralph-").tempfile_in(dir)?;
        new.write_all(self.text.as_bytes())?;
        new.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        new.persist(&self.path).map(drop).map_err(|error| error.error)
    }

    /// Takes it away.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}
