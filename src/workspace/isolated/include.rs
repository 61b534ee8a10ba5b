//! Copies ignored files that the work needs from the user's checkout into a workspace, as `.worktreeinclude` lists them.

use std::ffi::OsString;
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use crate::git::{Repo, is_opaque_directory, without_slash};
use crate::{relocate, safe_read};

/// The file that lists the files to copy, in the syntax of `.gitignore`.
const FILE: &str = ".worktreeinclude";

/// The amount of data copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    /// The number of files.
    pub files: usize,
    /// The number of bytes.
    pub bytes: u64,
}

/// The content of `.worktreeinclude` in the user's checkout, if there is one.
pub(super) fn listed(repo: &Repo) -> Option<String> {
    safe_read::text(&repo.place.top.join(FILE)).ok()
}

/// The ignored files of the user's checkout that workspaces get: those that match `.worktreeinclude` or the patterns.
pub(super) async fn included(repo: &Repo, patterns: &[String]) -> Result<Vec<PathBuf>> {
    let (file, listed) = (repo.place.top.join(FILE), listed(repo));
    if listed.is_none() && patterns.is_empty() {
        return Ok(Vec::new());
    }
    let mut args: Vec<OsString> = ["ls-files", "-z", "-o", "-i"].map(OsString::from).to_vec();
    if listed.is_some() {
        args.push(joined("--exclude-from=", file.as_os_str().as_bytes()));
    }
    args.extend(patterns.iter().map(|pattern| joined("--exclude=", pattern.as_bytes())));
    let index = repo.place.git_dir.join("index");
    let candidates = paths(&repo.git.call(args).index(&index).working().output().await?);
    let candidates: Vec<PathBuf> = candidates.into_iter().filter(|path| !is_opaque_directory(path)).collect();
    if candidates.is_empty() {
        return Ok(candidates);
    }
    let candidates = repo.ignored_among(&index, &candidates).await?;
    let whole = ignored(repo).await?;
    // git also lists a directory as a whole if it merely contains nothing but ignored files.
    let dirs: Vec<PathBuf> = whole.into_iter().filter(|path| is_opaque_directory(path)).collect();
    let whole: Vec<PathBuf> = repo.ignored_among(&index, &dirs).await?.iter().map(|path| without_slash(path).to_owned()).collect();
    let lines = listed.unwrap_or_default();
    let named: Vec<&str> = lines.lines().chain(patterns.iter().map(String::as_str)).map(str::trim).collect();
    Ok(candidates.into_iter().filter(|path| is_meant(path, &whole, &named)).collect())
}

/// The ignored files of the user's checkout. A directory that contains nothing else is listed as a whole, with a slash at its
/// end.
pub(super) async fn ignored(repo: &Repo) -> Result<Vec<PathBuf>> {
    let args = ["ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory"];
    Ok(paths(&repo.git.call(args).index(&repo.place.git_dir.join("index")).working().output().await?))
}

/// Whether a matching file should be copied. A pattern such as `.env` also matches `node_modules/x/.env`, so a file below a
/// directory that is ignored as a whole is copied only if a pattern names that directory.
fn is_meant(path: &Path, whole: &[PathBuf], patterns: &[&str]) -> bool {
    let Some(dir) = whole.iter().find(|dir| path.starts_with(dir)) else { return true };
    patterns.iter().any(|pattern| Path::new(pattern.trim_matches('/').trim_end_matches("/**")).starts_with(dir))
}

/// Copies files from one directory to another, except those whose length and time are the same.
pub(super) fn copy_all(from: &Path, to: &Path, files: &[PathBuf]) -> Result<Copied> {
    let mut copied = Copied::default();
    for path in files {
        let bytes = copy(from, to, path).with_context(|| format!("cannot copy {} to {}", path.display(), to.display()))?;
        if let Some(bytes) = bytes {
            copied.files += 1;
            copied.bytes += bytes;
        }
    }
    Ok(copied)
}

/// Copies one file. Returns none if it exists already, is gone, or is no file. The copy appears under its name only when it is
/// complete. Nothing outside of the two directories is read or written: a path that leads through a symbolic link is not copied.
fn copy(from_dir: &Path, to_dir: &Path, path: &Path) -> io::Result<Option<u64>> {
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(name) if name != ".git"));
    if !is_plain || barrier(from_dir, path).is_some() || barrier(to_dir, path).is_some() {
        return Ok(None);
    }
    let (from, to) = (&from_dir.join(path), &to_dir.join(path));
    let Ok(meta) = from.symlink_metadata() else { return Ok(None) };
    let is_same = |known: fs::Metadata| {
        known.len() == meta.len() && known.modified().ok() == meta.modified().ok() && known.file_type() == meta.file_type()
    };
    if to.symlink_metadata().is_ok_and(is_same) || !(meta.is_file() || meta.is_symlink()) {
        return Ok(None);
    }
    let Some(dir) = to.parent() else { return Ok(None) };
    for part in dir.ancestors().take_while(|part| *part != to_dir) {
        if let Ok(meta) = part.symlink_metadata() {
            relocate::open(part, &meta);
        }
    }
    fs::create_dir_all(dir)?;
    let mut temporary = to.as_os_str().to_owned();
    temporary.push(".git-ralph");
    let temporary = PathBuf::from(temporary);
    relocate::remove_anything(&temporary)?;
    if meta.is_symlink() {
        symlink(fs::read_link(from)?, &temporary)?;
    } else {
        match fs::copy(from, &temporary) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            copied => copied?,
        };
        File::options()
            .write(true)
            .open(&temporary)
            .or_else(|_| File::open(&temporary))?
            .set_times(FileTimes::new().set_modified(meta.modified()?))?;
    }
    if to.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        relocate::remove_opened(to)?;
    }
    fs::rename(&temporary, to)?;
    Ok(Some(meta.len()))
}

/// The first ancestor of a path, inside of a directory, that is not a directory itself (for example a symbolic link).
pub(super) fn barrier(dir: &Path, path: &Path) -> Option<PathBuf> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty()).collect();
    above.reverse();
    above.into_iter().find(|part| dir.join(part).symlink_metadata().is_ok_and(|meta| !meta.is_dir())).map(Path::to_owned)
}

fn joined(option: &str, value: &[u8]) -> OsString {
    use std::os::unix::ffi::OsStringExt as _;
    OsString::from_vec([option.as_bytes(), value].concat())
}

fn paths(output: &[u8]) -> Vec<PathBuf> {
    let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    output.split(|byte| *byte == 0).filter(|bytes| !bytes.is_empty()).map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_below_a_directory_that_is_ignored_as_a_whole_must_be_named_with_it() {
        let whole = [PathBuf::from("node_modules"), PathBuf::from("web/dist")];
        for (path, patterns, expected) in [
            (".env", &[".env"][..], true),
            ("app/.env", &[".env"], true),
            ("node_modules/x/.env", &[".env"], false),
            ("node_modules/x/.env", &[".env", "/node_modules/"], true),
            ("node_modules/x/.env", &["node_modules/x/**"], true),
            ("web/dist/a", &["web"], false),
            ("web/dist/a", &["web/dist"], true),
        ] {
            assert_eq!(is_meant(Path::new(path), &whole, patterns), expected, "{path} {patterns:?}");
        }
    }

    #[test]
    fn a_copy_keeps_time_mode_and_links_and_is_not_made_twice() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(from.path().join("env"), "SECRET").unwrap();
        symlink("nowhere", from.path().join("link")).unwrap();
        let files = [PathBuf::from("env"), PathBuf::from("link"), PathBuf::from("gone")];
        let copied = copy_all(from.path(), to.path(), &files).unwrap();
        assert_eq!((copied.files, fs::read_to_string(to.path().join("env")).unwrap().as_str()), (2, "SECRET"));
        assert_eq!(fs::read_link(to.path().join("link")).unwrap(), Path::new("nowhere"));
        let times = |dir: &Path| dir.join("env").metadata().unwrap().modified().unwrap();
        assert_eq!(times(from.path()), times(to.path()));
        assert_eq!(copy_all(from.path(), to.path(), &files[..1]).unwrap().files, 0);
        fs::write(to.path().join("env"), "AGENT").unwrap();
        assert_eq!(copy_all(from.path(), to.path(), &files[..1]).unwrap().files, 1);
    }

    #[test]
    fn nothing_is_copied_through_a_link_or_out_of_the_directory() {
        let (from, to, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(from.path().join("app")).unwrap();
        fs::write(from.path().join("app/env"), "SECRET").unwrap();
        fs::write(victim.path().join("env"), "precious").unwrap();
        symlink(victim.path(), to.path().join("app")).unwrap();
        let out = Path::new("..").join(victim.path().file_name().unwrap()).join("env");
        fs::write(from.path().join("env"), "SECRET").unwrap();
        assert_eq!(copy_all(from.path(), to.path(), &[PathBuf::from("app/env"), out, PathBuf::from("/env")]).unwrap().files, 0);
        assert_eq!(fs::read_to_string(victim.path().join("env")).unwrap(), "precious");
        fs::remove_file(to.path().join("app")).unwrap();
        symlink(from.path().join("app"), from.path().join("link")).unwrap();
        let copied = copy_all(from.path(), to.path(), &[PathBuf::from("app/env"), PathBuf::from("link/env")]).unwrap();
        assert_eq!((copied.files, to.path().join("link").exists()), (1, false));
    }
}
