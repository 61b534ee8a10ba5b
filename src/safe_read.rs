//! Reading files in places where an agent may have put anything: only regular ones, only so much, never waiting.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// No file that somebody writes by hand is longer.
pub const MOST: u64 = 16 * 1024 * 1024;

/// Opens a file without waiting.
///
/// # Errors
/// If it cannot be opened or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // A FIFO would keep us waiting for somebody to write to it.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// All of a file.
///
/// # Errors
/// If it cannot be read, is not a regular file, or is longer than [`MOST`].
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    if length > MOST {
        return Err(io::Error::other(format!("longer than {} MiB", MOST / 1024 / 1024)));
    }
    // With room for one more, the end is seen at once.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 1);
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All of a text file.
///
/// # Errors
/// As for [`bytes`], or if it is not UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    String::from_utf8(bytes(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// The end of a file, at most so many bytes.
///
/// # Errors
/// If it cannot be read or is not a regular file.
pub fn tail(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let start = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes an empty file that only its owner may read, if nothing is there.
pub fn touch(path: &Path) {
    // What is there instead of it is somebody's doing, and nothing that we need.
    let _ = OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(libc::O_NONBLOCK).open(path);
}
