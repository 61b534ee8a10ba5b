//! Keeps hard links to git's objects, so that an agent that deletes refs and runs `git gc --prune=now` destroys no object.
//! Nothing is copied, and the links are removed when the run is closed.

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

/// With more loose objects than this, linking takes too long. `git gc --auto` packs objects before there are that many.
const MOST: usize = 10_000;
const PACKS: &str = "pack";
/// The number of characters of an object id that form the directory name.
const FAN_OUT: usize = 2;

/// Which objects have been linked.
#[derive(Clone, Debug, Default)]
pub(in crate::workspace) struct ObjectLinks(Arc<Mutex<Linked>>);

#[derive(Debug, Default)]
struct Linked {
    /// The stamps of the object directories whose objects are all linked.
    dirs: BTreeMap<OsString, Stamp>,
    /// The names of the loose objects that have a link, by directory.
    loose: BTreeMap<OsString, HashSet<OsString>>,
    /// The stamp of the directory of links after our last change to it.
    links: Option<Stamp>,
}

impl Linked {
    /// Reads which objects are linked, unless this process knows it and no other process has changed the directory since.
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

    /// The directory of links, next to the backup of the run's other files. Loose objects lie in it under their full ids without
    /// subdirectories, because creating a directory takes longer than creating all the links in it.
    fn object_links(&self) -> PathBuf {
        let run = self.dir.file_name().unwrap_or_default();
        self.repo.place.common_dir.join("ralph-spare").join(self.names.change().as_str()).join(run).join("objects")
    }

    /// Links every object that has no link yet.
    pub(super) fn link_objects(&self) {
        let (objects, links) = (self.objects(), self.object_links());
        let mut linked = self.object_links.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !links.exists() {
            // Estimates the number of loose objects from one directory, as git does: ids are evenly distributed.
            let some = fs::read_dir(objects.join("17")).map_or(0, Iterator::count);
            if some * 256 > MOST {
                return;
            }
        }
        linked.look(&links);
        // This fails on file systems without hard links, and where users may not link files of others. The documented limits say
        // so.
        let _ = fs::create_dir_all(&links).and_then(|()| link_changed(&objects, &links, &mut linked));
        linked.links = Stamp::of(&links);
    }

    /// Recreates the object directory with all linked objects if it was deleted: without it, git does not recognise the
    /// repository.
    pub(super) fn restore_object_directory(&self) -> io::Result<()> {
        if self.objects().is_dir() {
            return Ok(());
        }
        fs::create_dir_all(self.objects())?;
        self.restore_loose_objects()?;
        self.restore_packs()
    }

    /// Restores an object if it is missing and has a link.
    pub(crate) async fn revive_object(&self, oid: &Oid) -> Result<()> {
        let wanted = BTreeSet::from([oid.clone()]);
        if !self.repo.missing(&wanted).await?.is_empty() {
            self.restore_loose_objects()?;
            self.restore_packs()?;
        }
        Ok(())
    }

    /// Restores loose objects that were deleted.
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

    /// Restores packs that were deleted. Only called when objects are missing, because git itself deletes packs when it repacks.
    pub(super) fn restore_packs(&self) -> io::Result<()> {
        let (links, packs) = (self.object_links().join(PACKS), self.objects().join(PACKS));
        link_all(&links, &packs)?;
        names_in(&links).into_iter().flatten().try_for_each(|name| put_back(&links.join(&name), &packs.join(&name)))
    }
}

/// Links a file back to its original path. If another file is there, it is replaced: a program that replaces words in every file
/// it finds damages objects that way. If git itself wrote the same object again, replacing it loses nothing.
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

/// The object directories with their current stamps.
fn object_dirs(objects: &Path) -> impl Iterator<Item = (OsString, Stamp)> {
    let entries = fs::read_dir(objects).into_iter().flatten().flatten();
    let dirs = entries.map(|entry| (entry.file_name(), entry)).filter(|(name, _)| name == PACKS || name.len() == 2);
    dirs.filter_map(|(name, entry)| Some((name, Stamp::from(&entry.metadata().ok()?))))
}

fn names_in(dir: &Path) -> io::Result<Vec<OsString>> {
    Ok(fs::read_dir(dir)?.flatten().map(|entry| entry.file_name()).collect())
}

/// Links the objects of every directory that has changed since it was last read.
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

/// Whether this is a file that git is about to rename or remove.
fn is_temporary(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("tmp_") || name.starts_with('.') || name.ends_with(".lock") || name.ends_with(".keep")
}

/// Links every file that the other directory does not have yet.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(names) = names_in(from) else { return Ok(()) };
    fs::create_dir_all(to)?;
    // git uses a pack as soon as its `.idx` file exists, so those are linked last.
    let (last, first): (Vec<OsString>, Vec<OsString>) = names.into_iter().partition(|name| name.to_string_lossy().ends_with(".idx"));
    let names = first.into_iter().chain(last).filter(|name| !is_temporary(name));
    names.into_iter().try_for_each(|name| link(&from.join(&name), &to.join(&name)))
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        // The object is linked already, or git has packed it meanwhile.
        Err(error) if !matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => Err(error),
        _ => Ok(()),
    }
}
