//! Moves lock files of dead processes aside, if no living process can own them. They are never deleted.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::geteuid;

use super::Spot;
use crate::free_name::free_name;
use crate::process::{directories_of, holders_of};

/// A lock this new may belong to a process that is about to open it.
const YOUNG: Duration = Duration::from_secs(2);

/// The lock file that a git command failed on, from git's error message.
#[must_use]
pub fn named_in(stderr: &str) -> Option<PathBuf> {
    let (_, rest) = stderr.split_once("Unable to create '")?;
    let (path, rest) = rest.split_once("'")?;
    rest.starts_with(": File exists").then(|| PathBuf::from(path)).filter(|path| path.extension().is_some_and(|kind| kind == "lock"))
}

/// Whether the owner of a lock is dead. If that cannot be determined, the answer is no: moving the lock of a living git process would lose
/// that process's work.
#[must_use]
pub fn is_stale(lock: &Path) -> bool {
    let Ok(meta) = fs::metadata(lock) else { return false };
    // Only root can see which files the processes of other users have open.
    let user = geteuid();
    let is_visible = user.is_root() || meta.uid() == user.as_raw();
    is_visible
        && is_old(&meta)
        && holders_of(lock).is_some_and(|holders| holders.is_empty())
        && !directories_of(is_git).any(|dir| leads_to(&dir, lock))
}

/// Whether a git process that has died left this lock in `own`, git-ralph's own directory, on a system that cannot list processes. Only git
/// processes of the git-ralph that holds the run's lock write there. They inherit the run's lock, so those of an earlier git-ralph have ended
/// before it can be taken, and the present one never starts two for the same file.
#[must_use]
pub fn is_left_in(own: &Path, lock: &Path) -> bool {
    lock.starts_with(own) && holders_of(lock).is_none() && fs::metadata(lock).is_ok_and(|meta| is_old(&meta))
}

/// Whether a living process has held a lock for longer than git needs to write a file, such as `git commit` while its editor is open.
#[must_use]
pub fn is_held(lock: &Path) -> bool {
    fs::metadata(lock).is_ok_and(|meta| is_old(&meta)) && !is_stale(lock)
}

fn is_old(lock: &Metadata) -> bool {
    lock.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok()).is_some_and(|age| age >= YOUNG)
}

/// Whether a program of that name may be the owner of a lock. git closes a lock file that it still owns, for example `index.lock` while
/// the editor of `git commit` is open.
fn is_git(name: &str) -> bool {
    name == "git" || name.starts_with("git-") && name != "git-ralph"
}

/// Whether a git process in this directory may own the lock. An `index.lock` belongs to one work tree, other locks to all of them.
fn leads_to(dir: &Path, lock: &Path) -> bool {
    let Some(home) = lock.parent().and_then(|parent| parent.canonicalize().ok()) else { return false };
    let is_owner = |spot: Spot| if lock.ends_with("index.lock") { home == spot.git_dir } else { home.starts_with(&spot.common_dir) };
    dir.starts_with(&home) || Spot::above(dir).is_some_and(is_owner)
}

/// Moves a lock into `dir`, under a name that is free there.
pub fn move_aside(lock: &Path, dir: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(dir)?;
    let name = lock.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let to = free_name(dir.join(&name), |number| dir.join(format!("{name}.{number}")), |to| to.symlink_metadata().is_ok());
    fs::rename(lock, &to)?;
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_found_in_gits_words() {
        let words = "fatal: Unable to create '/r/.git/index.lock': File exists.\n\nAnother git process seems to be running";
        assert_eq!(named_in(words), Some(PathBuf::from("/r/.git/index.lock")));
        let words = "fatal: prepare: cannot lock ref 'refs/heads/x': Unable to create '/r/.git/refs/heads/x.lock': File exists.";
        assert_eq!(named_in(words), Some(PathBuf::from("/r/.git/refs/heads/x.lock")));
        assert_eq!(named_in("fatal: Unable to create '/r/.git/index.lock': Permission denied"), None);
        assert_eq!(named_in("fatal: Unable to create '/etc/passwd': File exists"), None);
    }
}
