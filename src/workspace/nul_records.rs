//! Reads and writes lists of paths and data about them; as in git's `-z` output, every field ends with a NUL byte.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Joins fields into the bytes of a file.
pub(super) fn joined<F: AsRef<[u8]>>(fields: impl IntoIterator<Item = F>) -> Vec<u8> {
    fields.into_iter().flat_map(|field| [field.as_ref(), b"\0"].concat()).collect()
}

/// The fields in the bytes of a file. A field that a crash cut short counts as complete.
pub(super) fn fields(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.strip_suffix(b"\0").unwrap_or(bytes).split(|byte| *byte == 0)
}

/// The fields in pairs.
pub(super) fn pairs(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut fields = fields(bytes);
    std::iter::from_fn(move || Some((fields.next()?, fields.next()?)))
}

/// Converts a path to a field.
pub(super) fn field(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Converts a field to a path.
pub(super) fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_fields_are_split_again() {
        for list in [vec!["a"], vec!["a", "b c"], vec!["644", "a", "755", "b"], vec!["", "", "x", ""]] {
            let bytes = joined(&list);
            let read: Vec<String> = fields(&bytes).map(|field| String::from_utf8_lossy(field).into_owned()).collect();
            assert_eq!(read, list);
        }
        assert_eq!(pairs(b"1\0a\x002\0b\0").count(), 2);
        assert_eq!(pairs(b"").count(), 0);
        assert_eq!(path(field(Path::new("a/b"))), Path::new("a/b"));
    }
}
