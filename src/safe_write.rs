//! Writes files in directories where an agent may have put anything: never through a symbolic link, never over an existing file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::free_name::free_name;

/// Creates a file that only its owner can read. Anything that already has the name is moved aside.
pub fn new_file(path: &Path) -> io::Result<File> {
    make_room(path)?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Creates such a file with the given content.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    new_file(path)?.write_all(bytes)
}

/// Like [`write()`], but for names that only git-ralph uses, such as a draft that is about to be renamed. An existing file or symbolic link
/// with that name is removed.
pub fn draft(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let made = create().or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists if fs::remove_file(path).is_ok() => create(),
        io::ErrorKind::AlreadyExists => new_file(path),
        _ => Err(error),
    });
    made?.write_all(bytes)
}

/// Creates an empty directory that only its owner can read. Anything that already has the name is moved aside.
pub fn new_dir(path: &Path) -> io::Result<()> {
    make_room(path)?;
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes sure that every component of `below` is a real directory below `root`, and not a symbolic link to one.
pub fn real_dirs(root: &Path, below: &Path) -> io::Result<PathBuf> {
    let mut dir = root.to_owned();
    for part in below {
        dir.push(part);
        if !dir.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            new_dir(&dir)?;
        }
    }
    Ok(dir)
}

fn make_room(path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let wanted = path.with_file_name(format!("{name}.before"));
    let numbered = |number| path.with_file_name(format!("{name}.before.{number}"));
    fs::rename(path, free_name(wanted, numbered, |path| path.symlink_metadata().is_ok()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_moved_aside_and_never_followed() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("victim"), "precious").unwrap();
        fs::create_dir(at("elsewhere")).unwrap();
        symlink(at("victim"), at("file")).unwrap();
        symlink(at("elsewhere"), at("dir")).unwrap();
        write(&at("file"), b"ours").unwrap();
        let dir = real_dirs(root.path(), Path::new("dir/below")).unwrap();
        write(&dir.join("file"), b"ours").unwrap();
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "precious");
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "ours");
        assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 0);
        assert!(at("file.before").is_symlink() && at("dir.before").is_symlink());
        assert_eq!(fs::read_to_string(at("dir/below/file")).unwrap(), "ours");
    }
}
