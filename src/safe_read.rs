//! Reads files in directories where an agent may have put anything: regular files only, limited in length, without blocking.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The longest file that is read. Files that people write by hand are shorter.
pub const MOST: u64 = 16 * 1024 * 1024;

/// Opens a regular file without blocking.
///
/// # Errors
/// If the file cannot be opened, or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a FIFO would otherwise block until another process writes to it.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// Reads a whole file.
///
/// # Errors
/// If the file cannot be read, is not a regular file, or is longer than [`MOST`].
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    if length > MOST {
        return Err(io::Error::other(format!("longer than {} MiB", MOST / 1024 / 1024)));
    }
    // With one byte to spare, `read_to_end` detects the end without growing the buffer.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 1);
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole text file.
///
/// # Errors
/// As for [`bytes`], and if the file is not UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    String::from_utf8(bytes(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Reads the end of a regular file, at most `most` bytes.
pub fn tail(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let start = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Creates an empty file that only its owner can read, if nothing with that name exists.
pub fn touch(path: &Path) {
    // If something else has that name, the user or an agent put it there. The file is not essential, so errors are ignored.
    let _ = OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(libc::O_NONBLOCK).open(path);
}
