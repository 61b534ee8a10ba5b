//! The user's files that steer a run: the change file and the prompt template. Changes that are made to them during an attempt are set
//! aside after it, because the agent may have made them.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{RunDir, Store};
use crate::free_name::free_name;
use crate::names::attempt_label;
use crate::safe_read;
use crate::story::StoryId;
use crate::workspace::Notice;

/// The files, and their content before the attempt.
#[derive(Debug)]
pub(super) struct SteeringFiles {
    files: Vec<PathBuf>,
    run: RunDir,
    /// The content as this process recorded it. A later process has only the copies on the disk.
    seen: RefCell<Option<Vec<Kept>>>,
}

/// The state of a file at some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    /// The target, if the file is a symbolic link.
    link: Option<PathBuf>,
    /// The content. `None` if the file does not exist or cannot be read.
    bytes: Option<Vec<u8>>,
}

impl Kept {
    fn of(path: &Path) -> Self {
        Kept { link: fs::read_link(path).ok(), bytes: safe_read::bytes(path).ok() }
    }
}

impl SteeringFiles {
    pub fn new(store: &Store, run: &RunDir) -> Self {
        SteeringFiles { files: vec![store.change_file(&run.change), store.prompt_file()], run: run.clone(), seen: RefCell::default() }
    }

    fn copies(&self) -> PathBuf {
        self.run.path().join("guard").join("steering")
    }

    fn copy_of(&self, file: &Path) -> PathBuf {
        self.copies().join(file.file_name().unwrap_or_default())
    }

    /// Records the files before an attempt, in memory and on the disk.
    pub fn keep(&self) -> Result<()> {
        let now: Vec<Kept> = self.files.iter().map(|file| Kept::of(file)).collect();
        if self.seen.borrow().as_ref() != Some(&now) || !self.copies().exists() {
            fs::create_dir_all(self.copies()).with_context(|| format!("cannot create {}", self.copies().display()))?;
            for (file, kept) in self.files.iter().zip(&now) {
                let copy = self.copy_of(file);
                write_or_remove(&copy, kept.bytes.as_deref())?;
                write_or_remove(&link_note(&copy), kept.link.as_ref().map(|link| link.as_os_str().as_bytes()))?;
            }
        }
        *self.seen.borrow_mut() = Some(now);
        Ok(())
    }

    /// The files before the attempt that is under way. `None` if they were not recorded.
    fn kept(&self) -> Option<Vec<Kept>> {
        if let Some(seen) = &*self.seen.borrow() {
            return Some(seen.clone());
        }
        let from_copy = |file: &PathBuf| {
            let copy = self.copy_of(file);
            let link = safe_read::bytes(&link_note(&copy)).ok().map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes)));
            Kept { link, bytes: safe_read::bytes(&copy).ok() }
        };
        self.copies().exists().then(|| self.files.iter().map(from_copy).collect())
    }

    /// Writes the user's edit of the change file. No attempt may be under way.
    pub fn write_change(&self, text: &str) -> io::Result<()> {
        self.files.first().map_or(Ok(()), |file| replace(file, text.as_bytes()))
    }

    /// Restores the files to their content before the attempt. Other versions are moved to the run's directory. This can be repeated.
    pub fn put_back(&self, story: &StoryId, attempt: u32) -> Result<Vec<Notice>> {
        let Some(kept) = self.kept() else { return Ok(Vec::new()) };
        let dir = self.run.path().join("moved").join(attempt_label(story, attempt));
        let mut notices = Vec::new();
        for (file, kept) in self.files.iter().zip(kept) {
            if Kept::of(file) == kept && kept.bytes.is_some() == file.symlink_metadata().is_ok() {
                continue;
            }
            let aside = set_aside(file, &kept, &dir).with_context(|| format!("cannot move {} aside", file.display()))?;
            give_back(file, &kept).with_context(|| format!("cannot restore {}", file.display()))?;
            let kept = aside.map(|path| path.display().to_string());
            notices.push(Notice::EditSetAside { story: story.clone(), file: file.display().to_string(), kept });
        }
        Ok(notices)
    }
}

fn link_note(copy: &Path) -> PathBuf {
    copy.with_extension("link")
}

fn write_or_remove(path: &Path, bytes: Option<&[u8]>) -> Result<()> {
    let done = match bytes {
        Some(bytes) => fs::write(path, bytes),
        None => fs::remove_file(path).or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }),
    };
    done.with_context(|| format!("cannot write {}", path.display()))
}

/// Moves the file to a free name in `dir`. If it is the symbolic link from before, the link stays, and its target's content is copied.
fn set_aside(file: &Path, kept: &Kept, dir: &Path) -> io::Result<Option<PathBuf>> {
    let Ok(meta) = file.symlink_metadata() else { return Ok(None) };
    fs::create_dir_all(dir)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let aside = free_name(dir.join(&name), |number| dir.join(format!("{name}.{number}")), |path| path.symlink_metadata().is_ok());
    if !(meta.is_symlink() && fs::read_link(file).ok() == kept.link) {
        fs::rename(file, &aside)?;
    } else if let Ok(bytes) = safe_read::bytes(file) {
        fs::write(&aside, bytes)?;
    } else {
        return Ok(None);
    }
    Ok(Some(aside))
}

fn give_back(file: &Path, kept: &Kept) -> io::Result<()> {
    let Some(bytes) = &kept.bytes else { return Ok(()) };
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    if let Some(link) = kept.link.as_ref().filter(|_| file.symlink_metadata().is_err()) {
        symlink(link, file)?;
    }
    if safe_read::bytes(file).is_ok_and(|found| found == *bytes) {
        return Ok(());
    }
    replace(file, bytes)
}

/// Replaces a file atomically. If it is a symbolic link, the link stays and its target is replaced.
pub(super) fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let place = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut new = tempfile::Builder::new().prefix(".ralph-").tempfile_in(place.parent().unwrap_or(Path::new("/")))?;
    new.write_all(bytes)?;
    let mode = fs::metadata(&place).map_or_else(|_| fs::Permissions::from_mode(0o644), |meta| meta.permissions());
    new.as_file().set_permissions(mode)?;
    new.as_file().sync_all()?;
    new.persist(&place).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> (tempfile::TempDir, SteeringFiles, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path().join("ralph"));
        let run = store.create(&"work".parse().unwrap()).unwrap();
        let file = store.change_file(&run.change);
        fs::write(&file, "before").unwrap();
        let files = SteeringFiles::new(&store, &run);
        files.keep().unwrap();
        (dir, files, file)
    }

    fn put_back(files: &SteeringFiles) -> Vec<Option<String>> {
        let notices = files.put_back(&"1".parse().unwrap(), 1).unwrap();
        let kept = |notice| if let Notice::EditSetAside { kept, .. } = notice { kept } else { panic!("{notice:?}") };
        notices.into_iter().map(kept).collect()
    }

    #[test]
    fn whatever_takes_the_place_of_a_file_is_set_aside_under_a_name_of_its_own() {
        let (dir, files, file) = world();
        assert_eq!(put_back(&files), []);
        let spoil: [&dyn Fn(); 5] = [
            &|| fs::write(&file, "after").unwrap(),
            &|| fs::remove_file(&file).unwrap(),
            &|| fs::remove_file(&file).and_then(|()| fs::create_dir(&file)).unwrap(),
            &|| fs::remove_file(&file).and_then(|()| symlink("elsewhere", &file)).unwrap(),
            &|| fs::write(file.with_file_name("prompt.md"), "new").unwrap(),
        ];
        let mut kept = Vec::new();
        for spoil in spoil {
            spoil();
            // A later process has only the copies on the disk.
            files.seen.replace(None);
            kept.extend(put_back(&files));
            assert_eq!(fs::read_to_string(&file).unwrap(), "before");
            assert_eq!(put_back(&files), []);
        }
        let moved = dir.path().join("ralph/runs/work/1/moved/1-1");
        let name = |name: &str| Some(moved.join(name).display().to_string());
        assert_eq!(kept, [name("work.toml"), None, name("work.toml.2"), name("work.toml.3"), name("prompt.md")]);
        assert_eq!(fs::read_to_string(moved.join("work.toml")).unwrap(), "after");
        assert!(!file.with_file_name("prompt.md").exists());
    }

    #[test]
    fn a_link_of_the_users_stays_one() {
        let (dir, files, file) = world();
        let target = dir.path().join("mine.toml");
        fs::rename(&file, &target).unwrap();
        symlink(&target, &file).unwrap();
        files.keep().unwrap();
        fs::write(&file, "after").unwrap();
        assert_eq!(put_back(&files).len(), 1);
        assert_eq!((fs::read_link(&file).unwrap(), fs::read_to_string(&target).unwrap()), (target, "before".to_owned()));
    }
}
