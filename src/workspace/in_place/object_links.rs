//! Second names of objects: an agent that deletes refs and runs `git gc --prune=now` takes no object from us. Hard links, so nothing
//! is copied; they go when the run is closed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Result;

use crate::git::Oid;
use crate::workspace::Workspace;

/// With more loose objects than git itself lets pile up, linking takes too long.
const MOST: usize = 10_000;
const PACKS: &str = "pack";
/// A directory that changed a moment ago may change again without a new time.
const SETTLED: Duration = Duration::from_secs(2);

/// The directories of objects that have been linked, with their times.
#[derive(Clone, Debug, Default)]
pub(in crate::workspace) struct ObjectLinks(Arc<Mutex<BTreeMap<OsString, SystemTime>>>);

impl Workspace {
    fn objects(&self) -> PathBuf {
        self.repo.place.common_dir.join("objects")
    }

    /// Beside the second names of the run's other files.
    fn object_links(&self) -> PathBuf {
        let run = self.dir.file_name().unwrap_or_default();
        self.repo.place.common_dir.join("ralph-spare").join(self.names.change().as_str()).join(run).join("objects")
    }

    /// Links every object that has no second name yet.
    pub(super) fn link_objects(&self) {
        let (objects, links) = (self.objects(), self.object_links());
        let mut linked = self.object_links.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !links.exists() {
            linked.clear();
            // A guess that git makes too: ids are spread evenly.
            let some = fs::read_dir(objects.join("17")).map_or(0, Iterator::count);
            if some * 256 > MOST {
                return;
            }
        }
        for (name, changed) in object_dirs(&objects) {
            if linked.get(&name) == Some(&changed) {
                continue;
            }
            // Some file systems have no hard links, and some users may not link what others own: see the limits.
            if link_all(&objects.join(&name), &links.join(&name)).is_err() {
                return;
            }
            if changed.elapsed().is_ok_and(|age| age > SETTLED) {
                linked.insert(name, changed);
            }
        }
    }

    /// Makes sure that an object is there, if it has a second name.
    pub(crate) async fn revive_object(&self, oid: &Oid) -> Result<()> {
        let wanted = BTreeSet::from([oid.clone()]);
        if !self.repo.missing(&wanted).await?.is_empty() {
            self.restore_loose_objects()?;
            self.restore_packs()?;
        }
        Ok(())
    }

    /// Gives loose objects that somebody has deleted their first name back.
    pub(super) fn restore_loose_objects(&self) -> io::Result<()> {
        let (objects, links) = (self.objects(), self.object_links());
        let linked = self.object_links.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now: BTreeMap<OsString, SystemTime> = object_dirs(&objects).into_iter().collect();
        let is_touched = |name: &OsString| linked.get(name).is_none_or(|known| now.get(name) != Some(known));
        for (name, _) in object_dirs(&links).into_iter().filter(|(name, _)| name != PACKS && is_touched(name)) {
            link_all(&links.join(&name), &objects.join(&name))?;
        }
        Ok(())
    }

    /// The same for packs. Whoever repacks deletes them for good reason, so this is for objects that are missing.
    pub(super) fn restore_packs(&self) -> io::Result<()> {
        link_all(&self.object_links().join(PACKS), &self.objects().join(PACKS))
    }
}

/// The directories that objects are in, with the times of their last change.
fn object_dirs(objects: &Path) -> Vec<(OsString, SystemTime)> {
    let entries = fs::read_dir(objects).into_iter().flatten().flatten();
    let is_ours = |name: &OsString| name == PACKS || name.len() == 2;
    let dirs = entries.filter_map(|entry| Some((entry.file_name(), entry.metadata().ok()?.modified().ok()?)));
    dirs.filter(|(name, _)| is_ours(name)).collect()
}

fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    let is_temporary = |name: &str| name.starts_with("tmp_") || name.starts_with('.') || name.ends_with(".lock") || name.ends_with(".keep");
    let names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
    // A pack is there for git as soon as it has its index.
    let (last, first): (Vec<OsString>, Vec<OsString>) = names.into_iter().partition(|name| name.to_string_lossy().ends_with(".idx"));
    fs::create_dir_all(to)?;
    for name in first.into_iter().chain(last).filter(|name| !is_temporary(&name.to_string_lossy())) {
        match fs::hard_link(from.join(&name), to.join(&name)) {
            // It is linked already, or was packed meanwhile.
            Err(error) if !matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
