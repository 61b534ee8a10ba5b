//! Parses the entries of an index file in version 2, 3 or 4. Pure.

use std::collections::HashSet;

/// The lengths of object ids in bytes: SHA-1, SHA-256.
const ID_LENGTHS: [usize; 2] = [20, 32];
/// The layout of an entry's cached file data: ctime and mtime, each in seconds and nanoseconds; then device, inode, mode, owner
/// and size.
#[cfg(test)]
const BEFORE_MODE: usize = 24;
#[cfg(test)]
const BEHIND_MODE: usize = 12;
const BETWEEN_TIMES_AND_MODE: usize = 8;
const OWNER: usize = 8;
/// The upper bits of the mode of a gitlink.
const GITLINK: u32 = 0o16;
/// Bits of an entry's flags.
const EXTENDED: u16 = 0x4000;
const NAME_LENGTH: u16 = 0x0fff;

/// The minimum length of an entry.
const SHORTEST: usize = 62;
/// The maximum length of a path. No file system has longer ones, and in version 4 a long path could be repeated in every entry.
const LONGEST: usize = 4096;

/// Whether two index files have the same entries. Files that cannot be parsed must be equal byte for byte.
pub fn stage_the_same(one: &[u8], other: &[u8]) -> bool {
    // The file does not name its hash algorithm, but parsing reaches the end of the file with only one id length.
    one == other || ID_LENGTHS.into_iter().any(|id_length| agree(one, other, id_length).unwrap_or(false))
}

/// The tracked paths of an index file; none if it cannot be parsed.
pub fn tracked_paths(index: &[u8]) -> Option<HashSet<Vec<u8>>> {
    ID_LENGTHS.into_iter().find_map(|id_length| {
        let mut entries = Entries::new(index, id_length)?;
        let mut paths = HashSet::with_capacity(usize::try_from(entries.count).ok()?.min(index.len() / SHORTEST));
        for _ in 0..entries.count {
            entries.advance()?;
            paths.insert(entries.path.clone());
        }
        entries.ends_here()?.then_some(paths)
    })
}

/// A tracked file that was changed around the time its index was written.
#[derive(Debug, PartialEq, Eq)]
pub struct RecentFile {
    /// The path.
    pub path: Vec<u8>,
    /// The data that git caches about the file.
    pub noted: Noted,
    /// The entry in the input format of `git update-index --index-info`, which has no cached data.
    pub entry: Vec<u8>,
}

/// The data that git caches about a file to detect changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// The ctime, in seconds and nanoseconds.
    pub changed: (u32, u32),
    /// The mtime, in seconds.
    pub modified: u32,
    /// The size, truncated to 32 bits.
    pub size: u32,
}

/// The regular entries of an index whose ctime is in this second or later. Empty if the index cannot be parsed.
pub fn changed_since(index: &[u8], second: u32) -> Vec<RecentFile> {
    let found = ID_LENGTHS.into_iter().find_map(|id_length| {
        let mut entries = Entries::new(index, id_length)?;
        let mut recent = Vec::new();
        for _ in 0..entries.count {
            let Staged { mode, oid, flags } = entries.advance()?;
            let is_ordinary = mode >> 12 != GITLINK && flags.0 & !NAME_LENGTH == 0 && flags.1 == 0;
            if is_ordinary && entries.noted.changed.0 >= second {
                let id: String = oid.iter().map(|byte| format!("{byte:02x}")).collect();
                let entry = [format!("{mode:o} {id} 0\t").as_bytes(), &entries.path, b"\0"].concat();
                recent.push(RecentFile { path: entries.path.clone(), noted: entries.noted, entry });
            }
        }
        entries.ends_here()?.then_some(recent)
    });
    found.unwrap_or_default()
}

/// Compares two files entry by entry; none if one of them cannot be parsed.
fn agree(one: &[u8], other: &[u8], id_length: usize) -> Option<bool> {
    let (mut one, mut other) = (Entries::new(one, id_length)?, Entries::new(other, id_length)?);
    if one.count != other.count {
        return Some(false);
    }
    for _ in 0..one.count {
        if one.advance()? != other.advance()? || one.path != other.path {
            return Some(false);
        }
    }
    Some(one.ends_here()? && other.ends_here()?)
}

/// A parser for the entries of an index file.
struct Entries<'a> {
    rest: &'a [u8],
    version: u32,
    id_length: usize,
    count: u32,
    /// The path of the last entry.
    path: Vec<u8>,
    /// The cached data about its file.
    noted: Noted,
}

/// One entry without its path and the cached file data.
#[derive(PartialEq, Eq)]
struct Staged<'a> {
    mode: u32,
    oid: &'a [u8],
    /// The stage, and flags such as assume-unchanged, skip-worktree and intent-to-add.
    flags: (u16, u16),
}

impl<'a> Entries<'a> {
    fn new(bytes: &'a [u8], id_length: usize) -> Option<Self> {
        let mut rest = bytes;
        let signature = take(&mut rest, 4)?;
        let (version, count) = (long(&mut rest)?, long(&mut rest)?);
        let is_known = signature == b"DIRC" && (2..=4).contains(&version);
        is_known.then_some(Entries { rest, version, id_length, count, path: Vec::new(), noted: Noted::default() })
    }

    fn advance(&mut self) -> Option<Staged<'a>> {
        let (whole, rest) = (self.rest.len(), &mut self.rest);
        let changed = (long(rest)?, long(rest)?);
        let (modified, _) = (long(rest)?, long(rest)?);
        take(rest, BETWEEN_TIMES_AND_MODE)?;
        let mode = long(rest)?;
        take(rest, OWNER)?;
        self.noted = Noted { changed, modified, size: long(rest)? };
        let oid = take(rest, self.id_length)?;
        let flags = short(rest)?;
        let more = if flags & EXTENDED == 0 { 0 } else { short(rest)? };
        // In version 4, a path is given as the number of bytes to drop from the end of the previous path, and a suffix to append.
        let kept = if self.version == 4 { self.path.len().checked_sub(offset(rest)?)? } else { 0 };
        self.path.truncate(kept);
        self.path.extend(take(rest, memchr::memchr(0, rest)?)?);
        let padding = if self.version == 4 { 1 } else { 8 - (whole - rest.len()) % 8 };
        take(rest, padding)?;
        let (length, noted) = (self.path.len(), usize::from(flags & NAME_LENGTH));
        let is_path = (1..=LONGEST).contains(&length) && noted == length.min(usize::from(NAME_LENGTH));
        is_path.then_some(Staged { mode, oid, flags: (flags & !EXTENDED, more) })
    }

    /// Whether only extensions that can be ignored, and the checksum, follow the entries.
    fn ends_here(mut self) -> Option<bool> {
        while self.rest.len() > self.id_length {
            let (name, length) = (take(&mut self.rest, 4)?, long(&mut self.rest)?);
            // A lower-case extension changes the meaning of the entries. For example, a split index has entries in another file.
            if name[0].is_ascii_lowercase() {
                return None;
            }
            take(&mut self.rest, usize::try_from(length).ok()?)?;
        }
        Some(self.rest.len() == self.id_length)
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn long(rest: &mut &[u8]) -> Option<u32> {
    take(rest, 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn short(rest: &mut &[u8]) -> Option<u16> {
    take(rest, 2)?.try_into().ok().map(u16::from_be_bytes)
}

/// A variable-length number, in the encoding that git also uses for offsets in packs.
fn offset(rest: &mut &[u8]) -> Option<usize> {
    let mut byte = take(rest, 1)?[0];
    let mut value = usize::from(byte & 127);
    while byte & 128 != 0 {
        byte = take(rest, 1)?[0];
        value = value.checked_add(1)?.checked_mul(128)? + usize::from(byte & 127);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index with these paths and modes; `time` fills every byte of the cached file data.
    fn index(version: u8, id_length: usize, time: u8, files: &[(&str, u8)], extension: &[u8]) -> Vec<u8> {
        let mut bytes = [&b"DIRC\0\0\0"[..], &[version, 0, 0, 0, u8::try_from(files.len()).unwrap()]].concat();
        let mut last = 0;
        for (path, mode) in files {
            let start = bytes.len();
            bytes.extend([time; BEFORE_MODE]);
            bytes.extend([0, 0, 0x81, *mode]);
            bytes.extend([time; BEHIND_MODE]);
            bytes.extend(vec![7; id_length]);
            bytes.extend(u16::try_from(path.len().min(0xfff)).unwrap().to_be_bytes());
            if version == 4 {
                // Drops the whole previous path.
                bytes.extend(if last < 128 { vec![u8::try_from(last).unwrap()] } else { long_offset(last) });
                last = path.len();
            }
            bytes.extend(path.as_bytes());
            bytes.push(0);
            while version != 4 && (bytes.len() - start) % 8 != 0 {
                bytes.push(0);
            }
        }
        bytes.extend(extension);
        bytes.extend(vec![time; id_length]);
        bytes
    }

    fn long_offset(value: usize) -> Vec<u8> {
        [0x80 | u8::try_from((value >> 7) - 1).unwrap(), u8::try_from(value & 127).unwrap()].to_vec()
    }

    #[test]
    fn file_times_in_an_index_are_no_difference_and_staged_content_is_one() {
        let deep = "d".repeat(LONGEST);
        for id_length in ID_LENGTHS {
            for version in 2..=4 {
                let files = [("a", 1), (deep.as_str(), 1), ("eight/by", 1), ("z", 1)];
                let made = |time, files: &[(&str, u8)]| index(version, id_length, time, files, b"TREE\0\0\0\x02xy");
                let one = made(1, &files);
                assert!(stage_the_same(&one, &made(2, &files)), "version {version}");
                assert!(stage_the_same(&one, &index(2, id_length, 3, &files, b"")), "version {version}");
                assert!(!stage_the_same(&one, &made(1, &files[..3])), "version {version}");
                assert!(!stage_the_same(&one, &made(1, &[files[0], files[1], files[2], ("z", 2)])), "version {version}");
            }
        }
    }

    #[test]
    fn files_that_were_changed_since_a_second_are_found_with_their_entries() {
        let at = u32::from_be_bytes([9; 4]);
        for id_length in ID_LENGTHS {
            for version in 2..=4 {
                let made = index(version, id_length, 9, &[("a", 0xa4), ("b/c", 0xed)], b"");
                let entry = |mode: &str, path: &str| format!("{mode} {} 0\t{path}\0", "07".repeat(id_length)).into_bytes();
                let found: Vec<Vec<u8>> = changed_since(&made, at).into_iter().map(|file| file.entry).collect();
                assert_eq!(found, [entry("100644", "a"), entry("100755", "b/c")], "version {version}");
                assert_eq!(changed_since(&made, at)[1].noted, Noted { changed: (at, at), modified: at, size: at });
                assert_eq!(changed_since(&made, at + 1), []);
                assert_eq!(changed_since(b"garbage", 0), []);
            }
        }
    }

    #[test]
    fn the_paths_of_an_index_are_known_unless_some_are_elsewhere() {
        for id_length in ID_LENGTHS {
            for version in 2..=4 {
                let files = [("a", 1), ("a/b", 1), ("eight/by", 1)];
                let made = |extension: &[u8]| index(version, id_length, 1, &files, extension);
                let expected = files.map(|(path, _)| path.as_bytes().to_vec()).into();
                assert_eq!(tracked_paths(&made(b"TREE\0\0\0\x02xy")), Some(expected), "version {version}");
                assert_eq!(tracked_paths(&made(b"link\0\0\0\x00")), None, "version {version}");
                assert_eq!(tracked_paths(&made(b"")[..made(b"").len() - 1]), None, "version {version}");
            }
        }
    }

    #[test]
    fn unreadable_indexes_are_equal_only_byte_for_byte() {
        let split = |time| index(2, 20, time, &[("a", 1)], b"link\0\0\0\x00");
        assert!(stage_the_same(&split(1), &split(1)));
        assert!(!stage_the_same(&split(1), &split(2)));
        for version in 2..=4 {
            let made = |time| index(version, 20, time, &[("a", 1), ("ab", 1)], b"");
            let (one, other) = (made(1), made(2));
            for length in 1..one.len() {
                let (one, other) = (&one[..length], &other[..length]);
                assert_eq!(stage_the_same(one, other), one == other, "the first {length} bytes in version {version}");
            }
        }
    }
}
