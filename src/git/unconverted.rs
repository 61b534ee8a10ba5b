//! Provides the repository without any conversion: files are stored and written byte for byte, whatever filters and encodings are
//! set.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Repo;

/// Overrides all other attributes. `working-tree-encoding` can be unspecified, but not unset.
const ATTRIBUTES: &str = "* -text -crlf -ident -filter !eol !working-tree-encoding\n";

/// A configuration without the setting for the ref format, because this git directory has no refs.
fn without_ref_storage(text: &[u8]) -> Vec<u8> {
    let is_ref_storage = |line: &&[u8]| line.trim_ascii_start().to_ascii_lowercase().starts_with(b"refstorage");
    text.split_inclusive(|byte| *byte == b'\n').filter(|line| !is_ref_storage(line)).flatten().copied().collect()
}

impl Repo {
    /// Creates a git directory in `dir` for [`Repo::unconverted`].
    pub fn make_unconverted(&self, dir: &Path) -> Result<Repo> {
        self.make_git_dir(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(self.unconverted(dir))
    }

    /// The same repository and work tree with a git directory of its own in `dir`, whose attributes switch all conversion off. It
    /// uses the objects of the repository, but has no refs, so it is only good for operations on indexes and trees.
    #[must_use]
    pub fn unconverted(&self, dir: &Path) -> Repo {
        let objects = self.place.common_dir.join("objects");
        let off = ["core.autocrlf=false", "core.eol=lf"].map(str::to_owned);
        let git = self.git.through(dir, &objects).with_config(off);
        Repo { git, place: self.place.clone() }
    }

    fn make_git_dir(&self, dir: &Path) -> std::io::Result<()> {
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for part in ["info", "refs", "objects"] {
            fs::create_dir_all(dir.join(part))?;
        }
        // Keeps the rules for ignored files and sparse checkout.
        for (from, name) in [
            (self.place.common_dir.join("config"), "config"),
            (self.place.git_dir.join("config.worktree"), "config.worktree"),
            (self.place.common_dir.join("info/exclude"), "info/exclude"),
            (self.place.git_dir.join("info/sparse-checkout"), "info/sparse-checkout"),
        ] {
            if from.is_file() {
                // `fs::copy` keeps the permissions, because the configuration may contain passwords.
                fs::copy(from, dir.join(name))?;
            }
        }
        let config = dir.join("config");
        if let Ok(text) = fs::read(&config) {
            fs::write(config, without_ref_storage(&text))?;
        }
        // The branch has no commit, because only the work tree and an index are used.
        fs::write(dir.join("HEAD"), "ref: refs/heads/unconverted\n")?;
        fs::write(dir.join("info/attributes"), ATTRIBUTES)
    }
}
