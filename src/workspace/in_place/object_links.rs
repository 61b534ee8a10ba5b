//! Second names of objects: an agent that deletes refs and runs `git gc --prune=now` takes no object from us. Hard links, so nothing
//! is copied; they go when the run is closed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
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
/// How much of an object's id is the name of its directory.
const FAN_OUT: usize = 2;

/// What has been linked.
#[derive(Clone, Debug, Default)]
pub(in crate::workspace) struct ObjectLinks(Arc<Mutex<Linked>>);

#[derive(Debug, Default)]
struct Linked {
    /// The directories of objects, as they were when everything in them was linked.
    dirs: BTreeMap<OsString, Stamp>,
    /// The loose objects that have a second name: by directory, what they are called there.
    loose: BTreeMap<OsString, HashSet<OsString>>,
    /// The directory of second names, as we left it.
    links: Option<Stamp>,
}

impl Linked {
    /// What is linked already, where this process does not know or another one has been there.
    fn look(&mut self, links: &Path) {
        if self.links.is_some() && self.links == Stamp::of(links) {
            return;
        }
        *self = Linked::default();
        for name in names_in(links).into_iter().flatten().filter(|name| name != PACKS && name.len() > FAN_OUT) {
            let (dir, object) = name.as_bytes().split_at(FAN_OUT);
            let (dir, object) = (OsStr::from_bytes(dir), OsStr::from_bytes(object));
            self.loose.entry(dir.to_owned()).or_default().insert(object.to_owned());
        }
    }
}

impl Workspace {
    fn objects(&self) -> PathBuf {
        self.repo.place.common_dir.join("objects")
    }

    /// Beside the second names of the run's other files. Loose objects are in it under their whole ids: a directory takes longer to
    /// make than all the links in it.
    fn object_links(&self) -> PathBuf {
        let run = self.dir.file_name().unwrap_or_default();
        self.repo.place.common_dir.join("ralph-spare").join(self.names.change().as_str()).join(run).join("objects")
    }

    /// Links every object that has no second name yet.
    pub(super) fn link_objects(&self) {
        let (objects, links) = (self.objects(), self.object_links());
        let mut linked = self.object_links.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !links.exists() {
            // A guess that git makes too: ids are spread evenly.
            let some = fs::read_dir(objects.join("17")).map_or(0, Iterator::count);
            if some * 256 > MOST {
                return;
            }
        }
        linked.look(&links);
        // Some file systems have no hard links, and some users may not link what others own: see the limits.
        let _ = fs::create_dir_all(&links).and_then(|()| link_changed(&objects, &links, &mut linked));
        linked.links = Stamp::of(&links);
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

    /// Gives loose objects that were deleted their first name back.
    pub(super) fn restore_loose_objects(&self) -> io::Result<()> {
        let (objects, links) = (self.objects(), self.object_links());
        let mut linked = self.object_links.0.lock().unwrap_or_else(PoisonError::into_inner);
        linked.look(&links);
        let now: BTreeMap<OsString, Stamp> = object_dirs(&objects).collect();
        let is_touched = |dir: &OsString| linked.dirs.get(dir).is_none_or(|known| now.get(dir) != Some(known));
        for (dir, names) in linked.loose.iter().filter(|(dir, _)| is_touched(dir)) {
            fs::create_dir_all(objects.join(dir))?;
            names.iter().try_for_each(|name| put_back(&links.join(whole_id(dir, name)), &objects.join(dir).join(name)))?;
        }
        Ok(())
    }

    /// The same for packs. Git deletes packs for good reason when it repacks, so this is for objects that are missing.
    pub(super) fn restore_packs(&self) -> io::Result<()> {
        let (links, packs) = (self.object_links().join(PACKS), self.objects().join(PACKS));
        link_all(&links, &packs)?;
        names_in(&links).into_iter().flatten().try_for_each(|name| put_back(&links.join(&name), &packs.join(&name)))
    }
}

/// Gives a file its first name back. A file of another content under that name is no object: a program that replaces words in every
/// file that it finds leaves such files. Where git has written the same object again, nothing is lost.
fn put_back(second: &Path, first: &Path) -> io::Result<()> {
    let id = |path: &Path| path.symlink_metadata().map(|meta| (meta.dev(), meta.ino())).ok();
    match (id(second), id(first)) {
        (None, _) => Ok(()),
        (Some(_), None) => link(second, first),
        (Some(kept), Some(there)) if kept == there => Ok(()),
        (Some(_), Some(_)) => {
            let new = first.with_file_name("tmp_git-ralph");
            let _ = fs::remove_file(&new);
            fs::hard_link(second, &new)?;
            fs::rename(&new, first)
        }
    }
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

/// Links the objects of every directory that is not as it was when it was last looked at.
fn link_changed(objects: &Path, links: &Path, linked: &mut Linked) -> io::Result<()> {
    for (dir, stamp) in object_dirs(objects) {
        if linked.dirs.get(&dir) == Some(&stamp) {
            continue;
        }
        if dir == PACKS {
            link_all(&objects.join(PACKS), &links.join(PACKS))?;
        } else {
            let known = linked.loose.entry(dir.clone()).or_default();
            for name in names_in(&objects.join(&dir)).into_iter().flatten().filter(|name| !is_temporary(name)) {
                if !known.contains(&name) {
                    link(&objects.join(&dir).join(&name), &links.join(whole_id(&dir, &name)))?;
                    known.insert(name);
                }
            }
        }
        if stamp.is_settled() {
            linked.dirs.insert(dir, stamp);
        }
    }
    Ok(())
}

fn whole_id(dir: &OsStr, name: &OsStr) -> OsString {
    [dir, name].into_iter().collect()
}

/// What git renames or removes in a moment.
fn is_temporary(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("tmp_") || name.starts_with('.') || name.ends_with(".lock") || name.ends_with(".keep")
}

/// Links what has no name in the other directory yet.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(names) = names_in(from) else { return Ok(()) };
    fs::create_dir_all(to)?;
    // A pack is there for git as soon as it has its index.
    let (last, first): (Vec<OsString>, Vec<OsString>) = names.into_iter().partition(|name| name.to_string_lossy().ends_with(".idx"));
    let names = first.into_iter().chain(last).filter(|name| !is_temporary(name));
    names.into_iter().try_for_each(|name| link(&from.join(&name), &to.join(&name)))
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        // It is linked already, or was packed meanwhile.
        Err(error) if !matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => Err(error),
        _ => Ok(()),
    }
}
