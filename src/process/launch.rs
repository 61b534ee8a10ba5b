//! Pays for the row `story: 200 files` (1.8 with it, 2.03 with a `fork`, target 2): starts a process by `posix_spawn`.
//!
//! The cost of `posix_spawn` does not grow with the memory of this process, whereas `fork` copies its page tables. The
//! standard library uses `posix_spawn` too, but falls back to `fork` for a child in its own session: its
//! `CommandExt::setsid` is not stable yet.

use std::ffi::{CStr, CString, c_char, c_int, c_short};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::process::Pid;

use super::platform::SPAWN_SETSID;

/// Signals that are reset to their default in a child even if git-ralph ignores them, as it does under `nohup … &`. A
/// child that ignored the first four could not be asked to end.
const TAKEN_SERIOUSLY: [c_int; 5] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE];

/// The description of a process for `posix_spawn`. The process inherits nothing else.
pub(super) struct Launch<'a> {
    pub program: &'a CStr,
    /// Includes the name of the program.
    pub args: &'a [CString],
    pub env: &'a [CString],
    pub cwd: &'a CStr,
    /// `/dev/null` if `None`.
    pub stdin: Option<BorrowedFd<'a>>,
    pub stdout: BorrowedFd<'a>,
    pub stderr: BorrowedFd<'a>,
}

impl Launch<'_> {
    /// Starts the process in its own session. This keeps Ctrl-C and `/dev/tty` away from it, and makes one group to signal.
    #[expect(unsafe_code, reason = "the system's interface takes pointers")]
    pub fn start(&self) -> io::Result<Pid> {
        let (actions, attributes) = (self.actions()?, Attributes::new()?);
        let (args, env) = (pointers(self.args), pointers(self.env));
        let mut pid = 0;
        // SAFETY: all pointers are to values that outlive the call; the lists of pointers end with a null pointer.
        let error = unsafe {
            libc::posix_spawn(
                &raw mut pid,
                self.program.as_ptr(),
                &raw const *actions.0,
                &raw const *attributes.0,
                args.as_ptr(),
                env.as_ptr(),
            )
        };
        succeeded(error)?;
        Pid::from_raw(pid).ok_or_else(|| io::ErrorKind::Other.into())
    }

    fn actions(&self) -> io::Result<Actions> {
        let mut actions = Actions::new()?;
        match self.stdin {
            Some(pipe) => actions.connect(pipe, libc::STDIN_FILENO)?,
            None => actions.open_nothing(libc::STDIN_FILENO)?,
        }
        actions.connect(self.stdout, libc::STDOUT_FILENO)?;
        actions.connect(self.stderr, libc::STDERR_FILENO)?;
        actions.enter(self.cwd)?;
        Ok(actions)
    }
}

/// What the child does before it executes the program.
struct Actions(Box<libc::posix_spawn_file_actions_t>);

#[expect(unsafe_code, reason = "the system's interface takes pointers")]
impl Actions {
    fn new() -> io::Result<Self> {
        let mut actions = Box::new(MaybeUninit::uninit());
        // SAFETY: the call initializes what it is given, unless it fails.
        unsafe {
            succeeded(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            Ok(Actions(actions.assume_init()))
        }
    }

    fn connect(&mut self, from: BorrowedFd<'_>, to: c_int) -> io::Result<()> {
        // SAFETY: the actions are initialized.
        succeeded(unsafe { libc::posix_spawn_file_actions_adddup2(&raw mut *self.0, from.as_raw_fd(), to) })
    }

    fn open_nothing(&mut self, to: c_int) -> io::Result<()> {
        // SAFETY: the actions are initialized, and the path is copied.
        succeeded(unsafe { libc::posix_spawn_file_actions_addopen(&raw mut *self.0, to, c"/dev/null".as_ptr(), libc::O_RDONLY, 0) })
    }

    fn enter(&mut self, cwd: &CStr) -> io::Result<()> {
        // SAFETY: the actions are initialized, and the path is copied.
        succeeded(unsafe { libc::posix_spawn_file_actions_addchdir_np(&raw mut *self.0, cwd.as_ptr()) })
    }
}

#[expect(unsafe_code, reason = "the system's interface takes pointers")]
impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: the actions are initialized, and this is their last use.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut *self.0) };
    }
}

/// The session and the signal settings of a child.
struct Attributes(Box<libc::posix_spawnattr_t>);

#[expect(unsafe_code, reason = "the system's interface takes pointers")]
impl Attributes {
    fn new() -> io::Result<Self> {
        let mut attributes = Box::new(MaybeUninit::uninit());
        // SAFETY: the call initializes what it is given, unless it fails.
        let mut attributes = unsafe {
            succeeded(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
            Attributes(attributes.assume_init())
        };
        let flags = libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        let flags = c_short::try_from(flags).map_err(io::Error::other)? | SPAWN_SETSID;
        let (default, mask) = (signals(&TAKEN_SERIOUSLY), signals(&[]));
        let to = &raw mut *attributes.0;
        // SAFETY: the attributes are initialized, and the sets are copied.
        unsafe {
            succeeded(libc::posix_spawnattr_setsigdefault(to, &raw const default))?;
            succeeded(libc::posix_spawnattr_setsigmask(to, &raw const mask))?;
            succeeded(libc::posix_spawnattr_setflags(to, flags))?;
        }
        Ok(attributes)
    }
}

#[expect(unsafe_code, reason = "the system's interface takes pointers")]
impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the attributes are initialized, and this is their last use.
        unsafe { libc::posix_spawnattr_destroy(&raw mut *self.0) };
    }
}

/// Unblocks SIGCHLD: if the parent process had blocked it, git-ralph would wait for its children forever.
#[expect(unsafe_code, reason = "the system's interface takes pointers")]
pub(super) fn unblock_child_signal() {
    let set = signals(&[libc::SIGCHLD]);
    // SAFETY: the set is initialized; a null pointer for the previous mask is allowed.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut()) };
}

#[expect(unsafe_code, reason = "the system's interface takes pointers")]
fn signals(list: &[c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call initializes the set; neither can fail for signals that exist.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in list {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

fn pointers(texts: &[CString]) -> Vec<*mut c_char> {
    texts.iter().map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

/// Converts the return value of a call that returns an error number instead of setting `errno`.
fn succeeded(error: c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}
