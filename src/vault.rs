//! Files about a run that an agent must not write. They are outside of the repository, in the user's state directory.
//!
//! The vault holds the key that chains the journal, the journal's length, the lines that the start wrote, and copies and digests of files
//! that git-ralph restores for the user. A run without a vault works too, see `docs/limits.md`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::safe_read;

const KEY: &str = "key";

/// The secret key that signs the lines of a journal.
pub type Key = [u8; 32];

/// The vault of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vault {
    dir: PathBuf,
}

/// The directory for the vaults of a repository. It depends on the path of the git directory.
#[must_use]
pub fn of_repository(state_home: &Path, common_dir: &Path) -> PathBuf {
    let place = fs::canonicalize(common_dir).unwrap_or_else(|_| common_dir.to_owned());
    let digest = blake3::hash(place.as_os_str().as_bytes()).to_hex();
    state_home.join("git-ralph").join(&digest[..16])
}

impl Vault {
    /// The vault of a run. It need not exist.
    #[must_use]
    pub fn new(of_repository: &Path, change: &str, run: u32) -> Self {
        Vault { dir: of_repository.join(change).join(run.to_string()) }
    }

    /// Creates the vault of a new run, with a new key.
    pub fn create(&self) -> io::Result<Key> {
        let _ = fs::remove_dir_all(&self.dir);
        private_dirs(&self.dir)?;
        let mut key = Key::default();
        File::open("/dev/urandom")?.read_exact(&mut key)?;
        self.write(KEY, &key)?;
        Ok(key)
    }

    /// The key of the run, if there is one.
    #[must_use]
    pub fn key(&self) -> Option<Key> {
        self.read(KEY)?.try_into().ok()
    }

    /// The path of a file in the vault.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The content of a file in the vault. `None` if it cannot be read.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        safe_read::bytes(&self.path(name)).ok()
    }

    /// Replaces a file in the vault. After a kill, the file has either its old or its new content.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (path, draft) = (self.path(name), self.path(&format!("{name}.new")));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        fs::rename(draft, path)
    }

    /// Opens a file in the vault to write into it in place.
    pub fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.path(name))
    }

    /// Whether a run has a vault.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.path(KEY).exists()
    }

    /// Removes the vault, because the run is over.
    pub fn discard(&self) {
        let _ = fs::remove_dir_all(&self.dir);
        // The directories above are removed with the last run in them.
        for dir in self.dir.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Creates directories that only their owner can enter.
pub(crate) fn private_dirs(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
