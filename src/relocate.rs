//! Moves, copies and removes files and directories, also across file systems, where renaming is not possible.

use std::ffi::CString;
use std::fs::{self, File, FileTimes, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::free_name::free_name;

/// Moves `from`, of whatever type, to `to`, which must not exist. The original is removed only after everything is copied.
///
/// # Errors
/// If it cannot be moved. The original is then still complete.
pub fn relocate(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => carry(from, to),
        other => other,
    }
}

fn carry(from: &Path, to: &Path) -> io::Result<()> {
    if let Err(error) = copy(from, to) {
        // Half a copy is of no use, and the original is untouched.
        let _ = remove(to);
        return Err(error);
    }
    remove(from)
}

/// Copies a file or directory of any type, with permissions and modification times. Symbolic links are copied as links.
///
/// # Errors
/// If a part cannot be read or written. The parts that were already copied stay.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let meta = from.symlink_metadata()?;
    if meta.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if meta.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return fs::set_permissions(to, meta.permissions());
    }
    if !meta.is_file() {
        return make_special(to, meta.mode(), meta.rdev());
    }
    fs::copy(from, to)?;
    keep_time(to, &meta)
}

/// Creates a FIFO, a socket or a device.
#[expect(unsafe_code, reason = "macOS has no other interface")]
fn make_special(path: &Path, mode: u32, device: u64) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path outlives the call. Modes and devices have the width that the system itself gave us.
    let made = unsafe { libc::mknod(path.as_ptr(), mode as libc::mode_t, device as libc::dev_t) };
    if made == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives a copy the modification time of its original and syncs it to disk.
fn keep_time(copy: &Path, original: &Metadata) -> io::Result<()> {
    let file = File::open(copy)?;
    file.set_times(FileTimes::new().set_modified(original.modified()?))?;
    file.sync_all()
}

/// Removes `path`. If permissions prevent that, the owner's permissions are added first. If that fails too, `path` is moved into the
/// directory `aside`.
///
/// # Errors
/// If it can be neither removed nor moved.
pub fn discard(path: &Path, aside: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) || remove(path).is_ok() {
        return Ok(());
    }
    open_up(path);
    if remove(path).is_ok() {
        return Ok(());
    }
    fs::create_dir_all(aside)?;
    let name = path.file_name().unwrap_or_default();
    let free = free_name(aside.join(name), |number| aside.join(format!("{}.{number}", name.display())), |to| to.symlink_metadata().is_ok());
    relocate(path, &free)
}

/// Removes a file or directory. If that fails, the owner gets all permissions on the directories in it, and it is tried again.
pub fn remove_opened(path: &Path) -> io::Result<()> {
    remove(path).or_else(|_| {
        open_up(path);
        remove(path)
    })
}

/// Like [`remove_opened`], but a path that does not exist is no error.
pub fn remove_anything(path: &Path) -> io::Result<()> {
    match remove_opened(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Gives the owner all permissions on a directory, if that is possible.
pub fn open(dir: &Path, meta: &Metadata) {
    if meta.mode() & 0o700 != 0o700 {
        let _ = fs::set_permissions(dir, fs::Permissions::from_mode(meta.mode() | 0o700));
    }
}

/// Gives the owner all permissions on a directory and all directories in it.
fn open_up(dir: &Path) {
    let Ok(meta) = dir.symlink_metadata() else { return };
    if !meta.is_dir() {
        return;
    }
    let _ = fs::set_permissions(dir, fs::Permissions::from_mode(meta.mode() | 0o700));
    fs::read_dir(dir).into_iter().flatten().flatten().for_each(|entry| open_up(&entry.path()));
}

fn remove(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileTypeExt;

    #[test]
    fn files_that_cannot_be_renamed_are_copied_with_modes_links_and_times() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::write(from.join("sub/secret"), "s").unwrap();
        fs::set_permissions(from.join("sub/secret"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(from.join("sub"), fs::Permissions::from_mode(0o700)).unwrap();
        symlink("../nowhere", from.join("link")).unwrap();
        make_special(&from.join("fifo"), 0o010_600, 0).unwrap();
        let before = from.join("sub/secret").metadata().unwrap().modified().unwrap();
        carry(&from, &to).unwrap();
        assert!(from.symlink_metadata().is_err());
        let secret = to.join("sub/secret").metadata().unwrap();
        assert_eq!((secret.mode() & 0o7777, secret.modified().unwrap()), (0o600, before));
        assert_eq!(to.join("sub").metadata().unwrap().mode() & 0o7777, 0o700);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("../nowhere"));
        assert!(to.join("fifo").metadata().unwrap().file_type().is_fifo());
    }

    #[test]
    fn a_copy_that_fails_leaves_the_original_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("from"), "all").unwrap();
        assert!(carry(&dir.path().join("from"), &dir.path().join("no/such/place")).is_err());
        assert_eq!(fs::read_to_string(dir.path().join("from")).unwrap(), "all");
    }
}
