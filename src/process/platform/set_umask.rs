//! Reads the umask on systems that return it only when it is set.

use std::sync::OnceLock;

use rustix::fs::Mode;
use rustix::process;

/// The umask. Nothing in this program changes it, so it is read once.
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
