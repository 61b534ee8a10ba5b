//! Linux: reads `/proc`, and adopts orphans.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::Stat;

/// How often the kernel's list of children is read until it is the same twice in a row.
const READINGS: u32 = 8;

/// What this system cannot do for a run: nothing.
pub const MISSING: &[&str] = &[];

/// Whether the system can list all processes and their open files.
pub const LISTS_PROCESSES: bool = true;

/// The process with this id, if it exists.
pub fn stat(pid: u32) -> Option<Stat> {
    // The name of the program may not be valid UTF-8.
    parse(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

/// The session of a process. Kernel threads have none, and neither has a process whose session began outside of our
/// namespace. `getsid` returns 0 for these, which rustix assumes to be impossible.
pub fn session_of(pid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let session = String::from_utf8_lossy(&stat).rsplit_once(") ")?.1.split(' ').nth(3)?.parse().ok();
    session.filter(|session| *session != 0)
}

fn parse(text: &str) -> Option<Stat> {
    // The name in parentheses may contain anything, so fields are counted from the last parenthesis: state, parent, …, start time.
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let (state, parent) = (fields.next()?.chars().next()?, fields.next()?.parse().ok()?);
    Some(Stat { parent, born: fields.nth(17)?.parse().ok()?, has_ended: matches!(state, 'Z' | 'X') })
}

/// The ids of all processes.
pub fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Whether a process has a file open.
pub fn has_open(pid: u32, wanted: &Metadata) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.filter_map(|entry| fs::metadata(entry.ok()?.path()).ok()).any(|file| is_same(&file, wanted))
}

/// Whether a process holds a lock on a file. A process that only reads it does not.
pub fn has_locked(pid: u32, wanted: &Metadata) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.flatten().any(|entry| {
        let same = fs::metadata(entry.path()).is_ok_and(|file| is_same(&file, wanted));
        let info = format!("/proc/{pid}/fdinfo/{}", entry.file_name().to_string_lossy());
        same && fs::read_to_string(info).is_ok_and(|info| info.contains("FLOCK"))
    })
}

/// Whether a process has the file at this path open.
pub fn holds(pid: u32, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|wanted| has_open(pid, &wanted))
}

fn is_same(file: &Metadata, wanted: &Metadata) -> bool {
    file.ino() == wanted.ino() && file.dev() == wanted.dev()
}

/// Whether the initial environment of a process has an entry that begins with `start`.
pub fn has_entry(pid: u32, start: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry.starts_with(start.as_bytes())))
}

/// Whether a process is in a nested PID namespace, as processes in a sandbox are.
pub fn is_in_namespace(pid: u32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    status.lines().find_map(|line| line.strip_prefix("NSpid:")).is_some_and(|ids| ids.split_whitespace().count() > 1)
}

/// The name of the program that a process runs.
pub fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// The working directory of a process; none if we may not see it.
pub fn cwd_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// The executable that a process runs.
pub fn executable_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The path to pass to the system for a child with another working directory. Linux resolves it relative to that directory.
pub fn launch_path(program: OsString, _cwd: &Path) -> OsString {
    program
}

/// Makes a process adopt its orphaned descendants, or stops that. Returns whether they are adopted now.
pub fn set_adopter(adopter: Option<Pid>) -> bool {
    // If the kernel refuses, orphans are found only by their mark.
    rustix::process::set_child_subreaper(adopter).is_ok() && adopter.is_some()
}

/// The children of this process by the kernel's own list, if there is one. Examining every process of the machine takes
/// longer than a git call.
///
/// The list may be incomplete while a child ends, so it counts only when it is the same twice in a row.
pub fn own_children() -> Option<Vec<u32>> {
    let mut before = listed_children()?;
    for _ in 0..READINGS {
        let now = listed_children()?;
        if now == before {
            return Some(now);
        }
        before = now;
    }
    None
}

fn listed_children() -> Option<Vec<u32>> {
    let own = std::process::id();
    let mut children = Vec::new();
    for task in fs::read_dir("/proc/self/task").ok()? {
        let task = task.ok()?;
        match fs::read_to_string(task.path().join("children")) {
            Ok(list) => children.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok())),
            // Another thread may have ended, which leaves its children to the remaining threads. The main thread cannot.
            Err(_) if task.file_name() != own.to_string().as_str() => {}
            Err(_) => return None,
        }
    }
    children.sort_unstable();
    Some(children)
}

/// The umask, if the system reports it.
pub fn umask() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok())
}

/// The current path of an open file or directory, if the system reports it.
pub fn path_of(file: &File) -> Option<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_of_the_machine_can_be_asked_for_its_session() {
        assert!(processes().count() > 0);
        assert!(processes().filter_map(session_of).all(|session| session != 0));
    }

    #[test]
    fn the_name_of_a_program_confuses_nobody() {
        for name in ["sh", "a b", "(x) S 1 2", ")", "x) Z 7"] {
            let line = format!("12 ({name}) S 34 12 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 5678 9 10 11\n");
            let stat = parse(&line).unwrap();
            assert_eq!((stat.parent, stat.born, stat.has_ended), (34, 5678, false), "{name}");
        }
        assert!(parse("12 (sh) Z 34 12 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 5678 9").unwrap().has_ended);
        assert!(parse("").is_none() && parse("12 (sh) S").is_none());
    }
}
