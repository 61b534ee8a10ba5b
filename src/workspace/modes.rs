//! Records and restores file permissions that git does not store, so that private files stay private whatever attempts do.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Moment;
use super::{Workspace, nul_records};
use crate::git::PathChange;
use crate::process::umask;
use crate::safe_write;

/// All permission bits of a file or a directory.
pub(super) const ALL: u32 = 0o7777;
const EXECUTABLE: u32 = 0o100;
const OWN: u32 = 0o700;

/// The permissions of those files and directories whose permissions differ from what a checkout would produce.
pub(super) type Modes = BTreeMap<PathBuf, u32>;

impl Workspace {
    fn modes_file(&self, moment: Moment) -> PathBuf {
        self.dir.join(match moment {
            Moment::Start => "modes.start",
            Moment::Attempt => "modes",
        })
    }

    /// Records the permissions at the start.
    pub(super) fn keep_modes(&self, modes: &Modes) -> Result<()> {
        self.save_modes(Moment::Start, modes)?;
        self.save_modes(Moment::Attempt, modes)
    }

    /// Updates the recorded permissions, because later attempts start from the current work tree.
    pub(super) fn keep_more_modes(&self, changes: &[PathChange]) -> Result<()> {
        let before = self.modes(Moment::Attempt);
        let usual = CheckoutModes::here();
        let paths = before.keys().chain(changes.iter().filter(|change| change.is_file()).map(|change| &change.path));
        let now: Modes =
            paths.filter_map(|path| Some((path.clone(), self.meta_of(path).filter(|meta| !usual.is(meta)).map(mode_in)?))).collect();
        if now == before { Ok(()) } else { self.save_modes(Moment::Attempt, &now) }
    }

    /// Restores the permissions of that moment, except where the executable bit changed, which git itself tracks.
    pub(super) fn restore_modes(&self, moment: Moment) -> Result<()> {
        self.modes(moment).into_iter().try_for_each(|(path, mode)| self.restore_mode(&path, mode))
    }

    /// Restores the permissions, from before the last attempt, of files that were rewritten.
    pub(crate) fn restore_modes_of(&self, written: &[PathChange]) -> Result<()> {
        let modes = self.modes(Moment::Attempt);
        let known = written.iter().filter_map(|change| Some((&change.path, *modes.get(&change.path)?)));
        known.into_iter().try_for_each(|(path, mode)| self.restore_mode(path, mode))
    }

    fn restore_mode(&self, path: &Path, mode: u32) -> Result<()> {
        let full = self.repo.place.top.join(path);
        let now = self.meta_of(path).map(mode_in).filter(|now| now & EXECUTABLE == mode & EXECUTABLE || now & 0o400 == 0);
        if now.is_some_and(|now| now != mode) {
            fs::set_permissions(&full, fs::Permissions::from_mode(mode))
                .with_context(|| format!("cannot restore the permissions of {}", full.display()))?;
        }
        Ok(())
    }

    fn meta_of(&self, path: &Path) -> Option<Metadata> {
        self.repo.place.top.join(path).symlink_metadata().ok().filter(|meta| meta.is_file() || meta.is_dir())
    }

    fn modes(&self, moment: Moment) -> Modes {
        let record = fs::read(self.modes_file(moment)).unwrap_or_default();
        let parse = |(mode, path): (&[u8], &[u8])| {
            let mode = u32::from_str_radix(std::str::from_utf8(mode).ok()?, 8).ok()?;
            Some((nul_records::path(path), mode))
        };
        nul_records::pairs(&record).filter_map(parse).collect()
    }

    fn save_modes(&self, moment: Moment, modes: &Modes) -> Result<()> {
        let fields = modes.iter().flat_map(|(path, mode)| [format!("{mode:o}").into_bytes(), nul_records::field(path).to_vec()]);
        let (file, new) = (self.modes_file(moment), self.dir.join("modes.new"));
        safe_write::draft(&new, &nul_records::joined(fields))?;
        fs::rename(&new, &file).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// The permissions that a checkout produces under the current umask.
pub(super) struct CheckoutModes {
    masked: u32,
}

impl CheckoutModes {
    pub fn here() -> Self {
        CheckoutModes { masked: umask().unwrap_or(0o022) }
    }

    /// Whether this is the mode that a plain checkout would produce, so it need not be recorded. A directory that its owner
    /// cannot use is not recorded either, because git-ralph has to make it usable anyway.
    pub fn is(&self, meta: &Metadata) -> bool {
        let (mode, open) = (meta.permissions().mode() & ALL, 0o777 & !self.masked);
        mode == open || if meta.is_dir() { mode & OWN != OWN } else { mode == 0o666 & !self.masked }
    }
}

fn mode_in(meta: Metadata) -> u32 {
    meta.permissions().mode() & ALL
}
