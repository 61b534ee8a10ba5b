//! Second names of objects: an agent that deletes refs and runs `git gc --prune=now` takes no object from us. Hard links, so nothing
//! is copied; they go when the run is closed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;

use crate::git::Oid;
use crate::stamp::Stamp;
use crate::workspace::Workspace;

/// With more loose objects than git itself lets pile up, linking takes too long.
const MOST: usize = 10_000;
const PACKS: &str = "pack";

/// The directories of objects that have been linked, as they were then.
#[derive(Clone, Debug, Default)]
pub(in crate::workspace) struct ObjectLinks(Arc<Mutex<BTreeMap<OsString, Stamp>>>);

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
        for (name, stamp) in object_dirs(&objects) {
            if linked.get(&name) == Some(&stamp) {
                continue;
            }
            // Some file systems have no hard links, and some users may not link what others own: see the limits.
            if link_all(&objects.join(&name), &links.join(&name)).is_err() {
                return;
            }
            if stamp.is_settled() {
                linked.insert(name, stamp);
            }
        }
    }

    /// Without the directory of objects git finds no repository: it is made again, with every object that has a second name.
    pub(super) fn restore_object_directory(&self) -> io::Result<()> {
        if self.objects().is_dir() {
            return Ok(());
        }
        fs::create_dir_all(self.objects())?;
        self.restore_loose_objects()?;
        self.restore_packs()
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
        let now: BTreeMap<OsString, Stamp> = object_dirs(&objects).collect();
        let is_touched = |name: &OsString| linked.get(name).is_none_or(|known| now.get(name) != Some(known));
        for name in names_in(&links).into_iter().flatten().filter(|name| name != PACKS && is_touched(name)) {
            put_back(&links.join(&name), &objects.join(&name))?;
        }
        Ok(())
    }

    /// The same for packs. Whoever repacks deletes them for good reason, so this is for objects that are missing.
    pub(super) fn restore_packs(&self) -> io::Result<()> {
        put_back(&self.object_links().join(PACKS), &self.objects().join(PACKS))
    }
}

/// Gives every file its first name back. A file of another content under that name is no object: one that replaces words in every file
/// that it finds leaves such files. Where git has written the same object again, nothing is lost.
fn put_back(links: &Path, objects: &Path) -> io::Result<()> {
    link_all(links, objects)?;
    let id = |path: &Path| path.symlink_metadata().map(|meta| (meta.dev(), meta.ino())).ok();
    let new = objects.join("tmp_git-ralph");
    for name in fs::read_dir(links).into_iter().flatten().flatten().map(|entry| entry.file_name()) {
        let (link, object) = (links.join(&name), objects.join(&name));
        if object.symlink_metadata().is_ok() && id(&object) != id(&link) {
            let _ = fs::remove_file(&new);
            fs::hard_link(&link, &new)?;
            fs::rename(&new, &object)?;
        }
    }
    Ok(())
}

/// The directories that objects are in, as they are now.
fn object_dirs(objects: &Path) -> impl Iterator<Item = (OsString, Stamp)> {
    let entries = fs::read_dir(objects).into_iter().flatten().flatten();
    let dirs = entries.map(|entry| (entry.file_name(), entry)).filter(|(name, _)| name == PACKS || name.len() == 2);
    dirs.filter_map(|(name, entry)| Some((name, Stamp::from(&entry.metadata().ok()?))))
}

fn names_in(dir: &Path) -> io::Result<Vec<OsString>> {
    Ok(fs::read_dir(dir)?.flatten().map(|entry| entry.file_name()).collect())
}

/// Links what has no name in the other directory yet. Reading that one costs less than a link for every object that has.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(names) = names_in(from) else { return Ok(()) };
    let linked: HashSet<OsString> = match names_in(to) {
        Ok(names) => names.into_iter().collect(),
        Err(_) => fs::create_dir_all(to).map(|()| HashSet::new())?,
    };
    let is_temporary = |name: &str| name.starts_with("tmp_") || name.starts_with('.') || name.ends_with(".lock") || name.ends_with(".keep");
    let is_missing = |name: &OsString| !linked.contains(name) && !is_temporary(&name.to_string_lossy());
    // A pack is there for git as soon as it has its index.
    let (last, first): (Vec<OsString>, Vec<OsString>) =
        names.into_iter().filter(is_missing).partition(|name| name.to_string_lossy().ends_with(".idx"));
    for name in first.into_iter().chain(last) {
        match fs::hard_link(from.join(&name), to.join(&name)) {
            // It was linked or packed meanwhile.
            Err(error) if !matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
