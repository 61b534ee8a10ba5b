//! Identifies the state of a file by its inode, length and ctime. This changes when a process writes to the file or replaces it. No process
//! can set the ctime back.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The kernel's clock for file times ticks at least this often, with a margin.
const TICK: Duration = Duration::from_millis(50);
/// The same for a file system that stores whole seconds.
const COARSE_TICK: Duration = Duration::from_secs(2);

/// The state of a file at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    /// The ctime in seconds and nanoseconds.
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of a file. A symbolic link is not followed. `None` if the file does not exist.
    pub fn of(path: &Path) -> Option<Self> {
        path.symlink_metadata().ok().as_ref().map(Stamp::from)
    }

    /// Whether any change from now on gives another stamp. Two changes within one tick of the clock would have the same ctime.
    pub fn is_settled(&self) -> bool {
        let (Ok(seconds), Ok(nanos)) = (u64::try_from(self.changed.0), u32::try_from(self.changed.1)) else { return false };
        let tick = if nanos == 0 { COARSE_TICK } else { TICK };
        let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        changed.elapsed().is_ok_and(|age| age > tick)
    }
}

impl From<&Metadata> for Stamp {
    fn from(meta: &Metadata) -> Self {
        Stamp { device: meta.dev(), inode: meta.ino(), length: meta.len(), changed: (meta.ctime(), meta.ctime_nsec()) }
    }
}

/// The stamp as text for files. The device is left out, because its number may change with a reboot.
impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = self.changed;
        write!(f, "{} {} {seconds}.{nanos}", self.inode, self.length)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;

    #[test]
    fn a_stamp_that_is_settled_changes_with_every_write_and_every_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert_eq!(Stamp::of(&path), None);
        let settled = || {
            let stamp = Stamp::of(&path).unwrap();
            while !stamp.is_settled() {
                thread::yield_now();
            }
            stamp
        };
        let changes: [&dyn Fn(); 3] =
            [&|| fs::write(&path, "two").unwrap(), &|| fs::remove_file(&path).and_then(|()| fs::write(&path, "two")).unwrap(), &|| {
                fs::write(dir.path().join("new"), "two").and_then(|()| fs::rename(dir.path().join("new"), &path)).unwrap()
            }];
        fs::write(&path, "one").unwrap();
        for change in changes {
            let before = settled();
            assert_eq!(Stamp::of(&path), Some(before));
            change();
            assert_ne!(Stamp::of(&path), Some(before));
        }
    }

    #[test]
    fn a_time_of_whole_seconds_settles_later() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let at = |ago: u64, nanos| Stamp { device: 1, inode: 2, length: 3, changed: (i64::try_from(now.as_secs() - ago).unwrap(), nanos) };
        assert!(at(2, 1).is_settled() && at(4, 0).is_settled());
        assert!(!at(1, 0).is_settled());
        let next = Stamp { changed: (at(0, 1).changed.0 + 60, 1), ..at(0, 1) };
        assert!(!next.is_settled());
    }
}
