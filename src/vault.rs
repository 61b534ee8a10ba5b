//! What an agent must not write about a run: kept outside of the repository, in the state directory of the user.
//!
//! The key that chains the journal, how far the journal goes, the lines of the start, and copies and digests of files that are given
//! back to the user. A run without a vault works too, see `docs/limits.md`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::safe_read;

const KEY: &str = "key";

/// A secret that lines of a journal are signed with.
pub type Key = [u8; 32];

/// The vault of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vault {
    dir: PathBuf,
}

/// Where the vaults of a repository are, by the place of its git directory.
#[must_use]
pub fn of_repository(state_home: &Path, common_dir: &Path) -> PathBuf {
    let place = fs::canonicalize(common_dir).unwrap_or_else(|_| common_dir.to_owned());
    let digest = blake3::hash(place.as_os_str().as_bytes()).to_hex();
    state_home.join("git-ralph").join(&digest[..16])
}

impl Vault {
    /// The vault of a run; it need not be there.
    #[must_use]
    pub fn new(of_repository: &Path, change: &str, run: u32) -> Self {
        Vault { dir: of_repository.join(change).join(run.to_string()) }
    }

    /// Makes the vault of a new run, with a new key.
    ///
    /// # Errors
    /// If it cannot be written.
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

    /// Where something of that name is.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// What is kept under a name.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        safe_read::bytes(&self.path(name)).ok()
    }

    /// Keeps something under a name. After a kill, all of it is there or all of what was there before.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (path, draft) = (self.path(name), self.path(&format!("{name}.new")));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        fs::rename(draft, path)
    }

    /// A file that is written in place.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.path(name))
    }

    /// Whether a run has a vault.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.path(KEY).exists()
    }

    /// The run is over.
    pub fn discard(&self) {
        let _ = fs::remove_dir_all(&self.dir);
        // Those above go with the last run in them.
        for dir in self.dir.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Makes directories that are nobody else's business.
pub(crate) fn private_dirs(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
