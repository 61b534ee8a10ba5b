//! The umask on systems that tell it only to a process that sets it.

use std::sync::OnceLock;

use rustix::fs::Mode;
use rustix::process;

/// The permissions that new files do not get. Nothing in this program changes them, so asking once is enough.
#[allow(clippy::useless_conversion, reason = "the width of a mode differs between systems")]
pub fn umask() -> Option<u32> {
    static UMASK: OnceLock<u32> = OnceLock::new();
    Some(*UMASK.get_or_init(|| {
        // A file that another thread creates between the two calls is private.
        let mask = process::umask(Mode::from_raw_mode(0o077));
        process::umask(mask);
        u32::from(mask.as_raw_mode())
    }))
}
