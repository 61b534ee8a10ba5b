//! One installed file. Only files of git-ralph are ever replaced or removed.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::safe_read;

/// This text is in the shipped files of every version. A file without it does not belong to git-ralph.
const MARK: &str = "Part of git-ralph";

/// A file to install.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Its path.
    pub path: PathBuf,
    /// Its whole content.
    pub text: &'static str,
}

/// What exists at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Missing,
    /// The file of this version.
    Current,
    /// The file of another version.
    Other,
    /// Something that does not belong to git-ralph: other content, a symbolic link, a directory.
    Foreign,
}

impl Installed {
    /// Finds out what exists at the path.
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

    /// Writes the file atomically, so that there is always a complete file at the path.
    pub fn write(&self) -> io::Result<()> {
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(dir)?;
        let mut new = tempfile::Builder::new().prefix(".git-ralph-").tempfile_in(dir)?;
        new.write_all(self.text.as_bytes())?;
        new.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        new.persist(&self.path).map(drop).map_err(|error| error.error)
    }

    /// Removes the file.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}
