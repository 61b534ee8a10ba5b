//! macOS: lists processes with `libproc`. The kernel gives orphans to launchd, and hides the environment of system programs.

use std::ffi::{OsStr, OsString, c_int, c_void};
use std::fs::{File, Metadata};
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr;

use rustix::io::Errno;
use rustix::process::{Pid, getsid, test_kill_process};

use super::Stat;
use super::process_arguments::environment;
pub use super::set_umask::umask;

/// What this system cannot do for a run.
pub const MISSING: &[&str] = &[
    "find a process that has left the session of its agent or gate, unless it has kept its environment and is not a program of macOS itself",
];

/// Whether the system can list all processes and their open files.
pub const LISTS_PROCESSES: bool = true;

/// A request code of `proc_pidfdinfo` that the libc crate lacks: details of an open file.
const PIDFD_VNODE_INFO: c_int = 1;
/// The flag of a file that is open for writing.
const WRITABLE: u32 = 2;

/// The result of that request, as the system defines it.
#[repr(C)]
struct OpenFile {
    flags: u32,
    _status: u32,
    _offset: libc::off_t,
    _kind: i32,
    _guard_flags: u32,
    vnode: libc::vnode_info,
}

/// The session of a process.
pub fn session_of(pid: u32) -> Option<u32> {
    let session = getsid(Some(Pid::from_raw(pid.cast_signed())?)).ok()?;
    Some(session.as_raw_nonzero().get().cast_unsigned())
}

/// The process with this id, if it exists.
pub fn stat(pid: u32) -> Option<Stat> {
    // The argument 1 includes processes that have ended.
    let Some(info) = pid_info::<libc::proc_bsdinfo>(pid, libc::PROC_PIDTBSDINFO, 1) else {
        // Of another user's process the system reports only that it exists.
        let exists = matches!(test_kill_process(Pid::from_raw(pid.cast_signed())?), Ok(()) | Err(Errno::PERM));
        return exists.then_some(Stat { parent: 0, born: 0, has_ended: false });
    };
    let born = info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec;
    Some(Stat { parent: info.pbi_ppid, born, has_ended: info.pbi_status == libc::SZOMB })
}

/// The ids of all processes.
pub fn processes() -> impl Iterator<Item = u32> {
    #[expect(unsafe_code, reason = "libproc has no safe interface")]
    // SAFETY: the call writes no more bytes than the given size.
    let list = |buffer: *mut c_void, size: c_int| unsafe { libc::proc_listallpids(buffer, size) };
    pids(list).into_iter()
}

/// The children of this process by the kernel's own list.
pub fn own_children() -> Option<Vec<u32>> {
    let own = std::process::id().cast_signed();
    #[expect(unsafe_code, reason = "libproc has no safe interface")]
    // SAFETY: the call writes no more bytes than the given size.
    let list = |buffer: *mut c_void, size: c_int| unsafe { libc::proc_listchildpids(own, buffer, size) };
    Some(pids(list))
}

/// The ids that a call lists. It is called once for their number, and there may be more of them a moment later.
fn pids(list: impl Fn(*mut c_void, c_int) -> c_int) -> Vec<u32> {
    let expected = usize::try_from(list(ptr::null_mut(), 0)).unwrap_or(0);
    let mut pids = vec![0_u32; expected + 64];
    let size = c_int::try_from(size_of_val(pids.as_slice())).unwrap_or(c_int::MAX);
    let found = usize::try_from(list(pids.as_mut_ptr().cast(), size)).unwrap_or(0);
    pids.truncate(found);
    pids.retain(|pid| *pid != 0);
    pids
}

/// Whether a process has a file open.
pub fn has_open(pid: u32, wanted: &Metadata) -> bool {
    open_files(pid).iter().any(|file| is_same(file, wanted))
}

/// Whether a process may hold a lock on a file. The system does not report locks, but a process that only reads the
/// file has it open for reading only.
pub fn has_locked(pid: u32, wanted: &Metadata) -> bool {
    open_files(pid).iter().any(|file| is_same(file, wanted) && file.flags & WRITABLE != 0)
}

/// Whether a process has the file at this path open.
pub fn holds(pid: u32, path: &Path) -> bool {
    path.metadata().is_ok_and(|wanted| has_open(pid, &wanted))
}

/// Whether both are the same file. Device numbers have 32 bits here, and the standard library extends their sign.
fn is_same(file: &OpenFile, wanted: &Metadata) -> bool {
    let stat = &file.vnode.vi_stat;
    stat.vst_ino == wanted.ino() && u64::from(stat.vst_dev) == wanted.dev() & u64::from(u32::MAX)
}

/// The files that a process has open.
fn open_files(pid: u32) -> Vec<OpenFile> {
    let files = descriptors(pid).into_iter().filter(|file| file.proc_fdtype == libc::PROX_FDTYPE_VNODE.cast_unsigned());
    files.filter_map(|file| open_file(pid, file.proc_fd)).collect()
}

#[expect(unsafe_code, reason = "libproc has no safe interface")]
fn descriptors(pid: u32) -> Vec<libc::proc_fdinfo> {
    let each = size_of::<libc::proc_fdinfo>();
    // SAFETY: the call writes no more bytes than the given size.
    let list = |buffer: *mut c_void, size| unsafe { libc::proc_pidinfo(pid.cast_signed(), libc::PROC_PIDLISTFDS, 0, buffer, size) };
    let expected = usize::try_from(list(ptr::null_mut(), 0)).unwrap_or(0) / each;
    let mut found: Vec<libc::proc_fdinfo> = Vec::with_capacity(expected + 64);
    let size = c_int::try_from(found.capacity() * each).unwrap_or(c_int::MAX);
    let written = usize::try_from(list(found.as_mut_ptr().cast(), size)).unwrap_or(0) / each;
    // SAFETY: the call has written this many elements, for all of which there was room.
    unsafe { found.set_len(written.min(found.capacity())) };
    found
}

#[expect(unsafe_code, reason = "libproc has no safe interface")]
fn open_file(pid: u32, descriptor: c_int) -> Option<OpenFile> {
    let mut answer = MaybeUninit::<OpenFile>::uninit();
    let size = c_int::try_from(size_of::<OpenFile>()).ok()?;
    // SAFETY: the call writes no more bytes than there are in the answer, which is used only if it was written as a whole.
    unsafe {
        let written = libc::proc_pidfdinfo(pid.cast_signed(), descriptor, PIDFD_VNODE_INFO, answer.as_mut_ptr().cast(), size);
        (written == size).then(|| answer.assume_init())
    }
}

#[expect(unsafe_code, reason = "libproc has no safe interface")]
fn pid_info<T>(pid: u32, question: c_int, detail: u64) -> Option<T> {
    let mut answer = MaybeUninit::<T>::uninit();
    let size = c_int::try_from(size_of::<T>()).ok()?;
    // SAFETY: the call writes no more bytes than there are in the answer, which is used only if it was written as a whole.
    unsafe {
        let written = libc::proc_pidinfo(pid.cast_signed(), question, detail, answer.as_mut_ptr().cast(), size);
        (written == size).then(|| answer.assume_init())
    }
}

/// Whether the initial environment of a process has an entry that begins with `start`. The environments of macOS's own
/// programs are hidden.
pub fn has_entry(pid: u32, start: &str) -> bool {
    arguments(pid).is_some_and(|answer| environment(&answer).any(|entry| entry.starts_with(start.as_bytes())))
}

#[expect(unsafe_code, reason = "sysctl has no safe interface")]
fn arguments(pid: u32) -> Option<Vec<u8>> {
    let mut limit: c_int = 0;
    let mut size = size_of::<c_int>();
    let mut name = [libc::CTL_KERN, libc::KERN_ARGMAX];
    // SAFETY: the call writes no more bytes than the given size.
    let asked = unsafe { libc::sysctl(name.as_mut_ptr(), 2, (&raw mut limit).cast(), &raw mut size, ptr::null_mut(), 0) };
    let mut answer = vec![0; usize::try_from(limit).ok().filter(|limit| asked == 0 && *limit > 0)?];
    let mut size = answer.len();
    let mut name = [libc::CTL_KERN, libc::KERN_PROCARGS2, pid.cast_signed()];
    // SAFETY: the call writes no more bytes than the given size.
    let asked = unsafe { libc::sysctl(name.as_mut_ptr(), 3, answer.as_mut_ptr().cast(), &raw mut size, ptr::null_mut(), 0) };
    answer.truncate(size);
    (asked == 0).then_some(answer)
}

/// Whether a process is in a nested PID namespace: macOS has none.
pub fn is_in_namespace(_pid: u32) -> bool {
    false
}

/// The name of the program that a process runs.
pub fn name_of(pid: u32) -> String {
    let path = executable_of(pid).unwrap_or_default();
    path.file_name().unwrap_or(OsStr::new("process")).to_string_lossy().into_owned()
}

/// The working directory of a process; none if we may not see it.
pub fn cwd_of(pid: u32) -> Option<PathBuf> {
    let paths: libc::proc_vnodepathinfo = pid_info(pid, libc::PROC_PIDVNODEPATHINFO, 0)?;
    let bytes = paths.pvi_cdir.vip_path.as_flattened().iter().map(|byte| byte.cast_unsigned());
    Some(PathBuf::from(OsString::from_vec(bytes.take_while(|byte| *byte != 0).collect())))
}

/// The executable that a process runs.
#[expect(unsafe_code, reason = "libproc has no safe interface")]
pub fn executable_of(pid: u32) -> Option<PathBuf> {
    let mut path = vec![0_u8; usize::try_from(libc::PROC_PIDPATHINFO_MAXSIZE).ok()?];
    let size = u32::try_from(path.len()).ok()?;
    // SAFETY: the call writes no more bytes than the given size.
    let length = unsafe { libc::proc_pidpath(pid.cast_signed(), path.as_mut_ptr().cast(), size) };
    path.truncate(usize::try_from(length).ok().filter(|length| *length > 0)?);
    Some(PathBuf::from(OsString::from_vec(path)))
}

/// The path to pass to the system for a child with another working directory. It is made absolute, because macOS may
/// resolve a relative path against the directory of this process.
pub fn launch_path(program: OsString, cwd: &Path) -> OsString {
    cwd.join(program).into_os_string()
}

/// Makes a process adopt its orphaned descendants: not possible on macOS.
pub fn set_adopter(_adopter: Option<Pid>) -> bool {
    false
}

/// The current path of an open file or directory, if the system reports it.
pub fn path_of(file: &File) -> Option<PathBuf> {
    let path = rustix::fs::getpath(file).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
}
