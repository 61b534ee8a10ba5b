//! What no tree object holds: modes and raw bytes of the user's uncommitted files, empty directories, small ignored files.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::protected::Protected;
use super::{Keeper, Notice};
use crate::git::PathChange;

/// A file this small is copied, as long as all copies together stay below the other limit.
const SMALL: u64 = 1024 * 1024;
const TOGETHER: u64 = 32 * 1024 * 1024;

/// One uncommitted file of the user's at the start.
struct Keepsake {
    oid: String,
    /// The mode that git knows; one that was landed since is not the user's of the start.
    known: u32,
    mode: u32,
    /// The number of the file with its bytes, if git would not give them back as they were.
    raw: Option<usize>,
    path: PathBuf,
}

impl Keepsake {
    /// Whether what has been restored is this file as it was at the start.
    fn is_of(&self, restored: &PathChange) -> bool {
        self.path == restored.path && self.oid == restored.new_oid.as_str() && self.known == restored.new_mode
    }
}

/// What a walk over the work tree has seen.
#[derive(Default)]
struct Sights {
    empty: Vec<PathBuf>,
    attributes: bool,
}

impl Keeper {
    fn keepsake_dir(&self) -> PathBuf {
        self.dir.join("keepsakes")
    }

    /// Keeps what the initial state cannot: `changes` are the user's uncommitted files.
    pub(super) async fn keep_keepsakes(&self, changes: &[PathChange]) -> Result<()> {
        let dir = self.keepsake_dir();
        fs::create_dir_all(&dir)?;
        let protected = self.protected();
        let mut sights = Sights::default();
        self.look_around(Path::new(""), &protected, &mut sights);
        fs::write(dir.join("empty"), nul_joined(sights.empty.iter().map(|path| path.as_os_str().as_bytes())))?;
        let converting = sights.attributes || self.repo.converts_line_ends().await?;
        let mut record = Vec::new();
        let mut room = TOGETHER;
        for (number, change) in changes.iter().filter(|change| change.new_mode & 0o170_000 == 0o100_000).enumerate() {
            let path = self.repo.place.top.join(&change.path);
            let Ok(meta) = path.symlink_metadata() else { continue };
            let raw = converting && meta.len() <= SMALL.min(room);
            if raw {
                fs::copy(&path, dir.join(number.to_string())).with_context(|| format!("cannot copy {}", path.display()))?;
                room -= meta.len();
            }
            let raw = if raw { number.to_string() } else { String::new() };
            let fields = [
                change.new_oid.as_str().as_bytes(),
                format!("{:o}", change.new_mode).as_bytes(),
                format!("{:o}", meta.permissions().mode() & 0o7777).as_bytes(),
                raw.as_bytes(),
                change.path.as_os_str().as_bytes(),
            ]
            .map(<[u8]>::to_vec);
            record.extend(nul_joined(fields.iter().map(Vec::as_slice)));
        }
        Ok(fs::write(dir.join("files"), record)?)
    }

    /// After files were restored from trees: those that are the user's own of the start get their bytes and modes back.
    pub(super) fn restore_keepsakes(&self, restored: &[PathChange]) -> Result<()> {
        let keepsakes = self.keepsakes();
        for change in restored.iter().filter(|change| change.new_mode != 0) {
            let Some(keepsake) = keepsakes.iter().find(|keepsake| keepsake.is_of(change)) else { continue };
            let path = self.repo.place.top.join(&keepsake.path);
            if let Some(raw) = keepsake.raw {
                fs::write(&path, fs::read(self.keepsake_dir().join(raw.to_string()))?)
                    .with_context(|| format!("cannot restore {}", path.display()))?;
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(keepsake.mode))?;
        }
        for path in fields(&fs::read(self.keepsake_dir().join("empty")).unwrap_or_default()) {
            // One that has become a file or a link since then is no business of ours.
            let _ = fs::create_dir_all(self.repo.place.top.join(OsStr::from_bytes(path)));
        }
        Ok(())
    }

    fn keepsakes(&self) -> Vec<Keepsake> {
        let record = fs::read(self.keepsake_dir().join("files")).unwrap_or_default();
        let fields: Vec<&[u8]> = record.split(|byte| *byte == 0).collect();
        let parse = |fields: &[&[u8]]| {
            let [oid, known, mode, raw, path] = fields else { return None };
            let octal = |field: &[u8]| u32::from_str_radix(std::str::from_utf8(field).ok()?, 8).ok();
            Some(Keepsake {
                oid: String::from_utf8_lossy(oid).into_owned(),
                known: octal(known)?,
                mode: octal(mode)?,
                raw: std::str::from_utf8(raw).ok()?.parse().ok(),
                path: PathBuf::from(OsStr::from_bytes(path)),
            })
        };
        fields.chunks_exact(5).filter_map(parse).collect()
    }

    fn look_around(&self, dir: &Path, protected: &Protected, sights: &mut Sights) {
        let Ok(entries) = fs::read_dir(self.repo.place.top.join(dir)) else { return };
        let mut empty = !dir.as_os_str().is_empty();
        for entry in entries.flatten() {
            empty = false;
            let path = dir.join(entry.file_name());
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            sights.attributes |= entry.file_name() == ".gitattributes";
            if is_dir && entry.file_name() != ".git" && !protected.covers(&path) {
                self.look_around(&path, protected, sights);
            }
        }
        if empty {
            sights.empty.push(dir.to_owned());
        }
    }

    fn ignored_copies(&self) -> PathBuf {
        self.dir.join("ignored-files")
    }

    /// Copies small ignored files, such as `.env`, as they are before an attempt.
    pub(super) fn copy_ignored(&self) -> io::Result<()> {
        let mut room = TOGETHER;
        for path in self.protected().paths() {
            let from = self.repo.place.top.join(path);
            let Ok(meta) = from.symlink_metadata() else { continue };
            if !meta.is_file() || meta.len() > SMALL.min(room) {
                continue;
            }
            room -= meta.len();
            let to = self.ignored_copies().join(path);
            let fresh = |copy: fs::Metadata| copy.len() == meta.len() && copy.modified().ok() >= meta.modified().ok();
            if to.metadata().is_ok_and(fresh) {
                continue;
            }
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(&from, &to)?;
        }
        Ok(())
    }

    /// Puts ignored files back that an attempt has deleted.
    pub(super) fn restore_ignored(&self) -> Result<Vec<Notice>> {
        let mut notices = Vec::new();
        for path in self.protected().paths() {
            let (to, from) = (self.repo.place.top.join(path), self.ignored_copies().join(path));
            let parent_stands = to.parent().is_some_and(|parent| parent.symlink_metadata().is_ok_and(|meta| meta.is_dir()));
            if to.symlink_metadata().is_err() && from.is_file() && parent_stands {
                fs::copy(&from, &to).with_context(|| format!("cannot restore {}", to.display()))?;
                notices.push(Notice::IgnoredRestored { path: path.display().to_string() });
            }
        }
        Ok(notices)
    }
}

fn nul_joined<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    fields.flat_map(|field| [field, b"\0"].concat()).collect()
}

fn fields(record: &[u8]) -> impl Iterator<Item = &[u8]> {
    record.split(|byte| *byte == 0).filter(|field| !field.is_empty())
}
