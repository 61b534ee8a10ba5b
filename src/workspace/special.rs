//! Finds FIFOs, sockets and devices in the work tree, which git cannot store and some of which block it forever.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// Whether a path is a FIFO, a socket or a device.
pub(super) fn is_special(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| {
        let kind = meta.file_type();
        kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device()
    })
}

/// Whether git would block on reading this path.
pub(super) fn is_blocking(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == ".gitignore" || name == ".gitattributes") && is_special(path)
}

/// All such paths below a directory, relative to it. The search runs off the async runtime.
pub(super) async fn find(top: &Path, which: fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let top = top.to_owned();
    let found = tokio::task::spawn_blocking(move || {
        let mut found = Vec::new();
        walk(&top, &top, which, &mut found);
        found
    });
    Ok(found.await?)
}

fn walk(dir: &Path, top: &Path, which: fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name() != ".git" {
                walk(&path, top, which, found);
            }
        } else if which(&path)
            && let Ok(inner) = path.strip_prefix(top)
        {
            found.push(inner.to_owned());
        }
    }
}
