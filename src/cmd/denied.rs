//! Suggests a command when the system has denied access to the path that an error names.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::config::Environment;
use crate::shell_word::quoted;

/// The command that grants access, if an error is about denied access and the permissions on the disk explain it.
pub fn remedy(error: &anyhow::Error, environment: Option<&Environment>) -> Option<String> {
    let is_denied = |cause: &io::Error| cause.kind() == io::ErrorKind::PermissionDenied;
    if !error.chain().any(|cause| cause.downcast_ref().is_some_and(is_denied)) {
        return None;
    }
    let path = error.chain().find_map(|cause| named_path(&cause.to_string()))?;
    // Errors contain paths relative to the working directory.
    let path = environment.map(|environment| environment.cwd.join(&path)).unwrap_or(path);
    let (place, metadata) =
        path.ancestors().filter_map(|place| Some((place, fs::symlink_metadata(place).ok()?))).take(2).find(is_closed)?;
    let user = rustix::process::geteuid().as_raw();
    let word = quoted(&place.display().to_string());
    Some(match metadata.is_dir() {
        _ if metadata.uid() != user => format!("sudo chown -R {user} -- {word}"),
        true => format!("chmod u+rwx -- {word}"),
        false => format!("chmod u+rw -- {word}"),
    })
}

/// The path in a message such as `cannot read <path>` or `cannot write to <path>`.
fn named_path(message: &str) -> Option<PathBuf> {
    let (_verb, path) = message.strip_prefix("cannot ")?.split_once(' ')?;
    Some(path.strip_prefix("to ").unwrap_or(path)).filter(|path| path.contains('/')).map(PathBuf::from)
}

/// Whether this user lacks an access right that a run needs.
fn is_closed((place, metadata): &(&Path, fs::Metadata)) -> bool {
    let wanted = Access::READ_OK | Access::WRITE_OK;
    access(*place, if metadata.is_dir() { wanted | Access::EXEC_OK } else { wanted }).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_read_from_the_message() {
        assert_eq!(named_path("cannot read .git/ralph/work.toml"), Some(".git/ralph/work.toml".into()));
        assert_eq!(named_path("cannot write to /a b/c"), Some("/a b/c".into()));
        assert_eq!(named_path("cannot read the prompt"), None);
        assert_eq!(named_path("Permission denied"), None);
    }
}
