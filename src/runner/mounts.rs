//! The file system that a sandbox shows: which paths are hidden, read-only or writable. Also prints them as arguments of bubblewrap.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The access that a sandboxed process has to a path and everything below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// A directory for temporary files. In bubblewrap it is empty, writable, and disappears with the process. `sandbox-exec` cannot make
    /// such a directory: there it is the real one, without the sockets in it.
    Private,
    /// No access. In bubblewrap a directory appears empty and a file is `/dev/null`; with `sandbox-exec` the system refuses access.
    Hidden,
    /// Read.
    ReadOnly,
    /// Read and write.
    Writable,
}

/// Paths with their access. The rest of the file system is read-only.
#[derive(Debug, Default)]
pub(super) struct Mounts(BTreeMap<PathBuf, Access>);

impl Mounts {
    /// Sets the access to a path, if the path exists. A later call for the same path wins. The access to a path also wins over that of a
    /// directory above it, in whatever order they are set.
    pub fn set(&mut self, path: &Path, access: Access) {
        // Bubblewrap does not follow symbolic links in its mount points.
        if let Ok(real) = path.canonicalize() {
            self.0.insert(real, access);
        }
    }

    /// Makes a path readable if it is hidden. Otherwise its access does not change.
    pub fn show(&mut self, path: &Path) {
        let is_unseen = |real: &PathBuf| matches!(self.of(real), Access::Private | Access::Hidden);
        if let Some(real) = path.canonicalize().ok().filter(is_unseen) {
            self.0.insert(real, Access::ReadOnly);
        }
    }

    /// The access to a path.
    pub fn of(&self, path: &Path) -> Access {
        path.ancestors().find_map(|above| self.0.get(above)).copied().unwrap_or(Access::ReadOnly)
    }

    /// Whether a sandboxed process can write to the path.
    pub fn is_writable(&self, path: &Path) -> bool {
        matches!(self.of(path), Access::Writable | Access::Private)
    }

    /// Every path with its access and the access to the directory that it is in. A directory precedes the paths in it.
    pub fn entries(&self) -> impl Iterator<Item = (&Path, Access, Access)> {
        let above = |path: &Path| path.parent().map_or(Access::ReadOnly, |parent| self.of(parent));
        self.0.iter().map(move |(path, access)| (path.as_path(), *access, above(path)))
    }

    /// The arguments of bubblewrap.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        for (path, access, above) in self.entries() {
            let words: &[&str] = match (access, above) {
                // The directory above hides this path already. Another mount would only show that the path exists.
                (Access::Hidden, Access::Private | Access::Hidden) => continue,
                (access, above) if access == above => continue,
                (Access::Private, _) => &["--tmpfs"],
                (Access::Hidden, _) if path.is_dir() => &["--tmpfs"],
                (Access::Hidden, _) => &["--dev-bind", "/dev/null"],
                (Access::ReadOnly, _) => &["--ro-bind"],
                (Access::Writable, _) => &["--bind"],
            };
            arguments.extend(words.iter().map(OsString::from));
            if matches!(access, Access::ReadOnly | Access::Writable) {
                arguments.push(path.into());
            }
            arguments.push(path.into());
        }
        arguments
    }
}

#[cfg(test)]
impl Mounts {
    /// Paths with their access, whether they exist or not.
    pub fn of_entries(entries: &[(&str, Access)]) -> Self {
        Mounts(entries.iter().map(|(path, access)| (PathBuf::from(path), *access)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(entries: &[(&str, Access)]) -> String {
        let mounts = Mounts::of_entries(entries);
        mounts.arguments().iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_deeper_path_is_mounted_after_the_one_that_it_is_in() {
        let in_place = [("/r/.git", Access::ReadOnly), ("/r", Access::Writable), ("/r/.git/ralph/notes", Access::Writable)];
        assert_eq!(arguments(&in_place), "--bind /r /r --ro-bind /r/.git /r/.git --bind /r/.git/ralph/notes /r/.git/ralph/notes");
        let hidden = [("/h/.aws/infra", Access::ReadOnly), ("/h/.aws/infra.ralph/1", Access::Writable), ("/nowhere/.ssh", Access::Hidden)];
        assert_eq!(
            arguments(&hidden),
            "--bind /h/.aws/infra.ralph/1 /h/.aws/infra.ralph/1 --dev-bind /dev/null /nowhere/.ssh",
            "what is read-only anyway needs no mount"
        );
    }

    #[test]
    fn what_lies_in_a_hidden_or_private_directory_is_brought_back_if_it_is_needed() {
        let temporary = [("/tmp", Access::Private), ("/tmp/x/repo", Access::ReadOnly), ("/tmp/x/repo.ralph/1", Access::Writable)];
        assert_eq!(arguments(&temporary), "--tmpfs /tmp --ro-bind /tmp/x/repo /tmp/x/repo --bind /tmp/x/repo.ralph/1 /tmp/x/repo.ralph/1");
        let credentials =
            [("/tmp", Access::Private), ("/tmp/.ssh", Access::Hidden), ("/tmp/w", Access::Writable), ("/tmp/w/sub", Access::Writable)];
        assert_eq!(arguments(&credentials), "--tmpfs /tmp --bind /tmp/w /tmp/w");
    }
}
