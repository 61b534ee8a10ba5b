//! Restores what git needs in order to work at all, before the first git command after an attempt. That is: the git directory in
//! its place, usable directories, HEAD, alternates, and a readable configuration.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use super::guard::is_config;
use crate::error::Problem;
use crate::free_name::free_name;
use crate::git::{GitError, RefList};
use crate::process::path_of;
use crate::relocate::relocate;
use crate::safe_read;
use crate::workspace::{Notice, Workspace, WorkspaceKind, nul_records};

/// Directories of a git directory that git or git-ralph writes to; the first is the git directory itself.
const WRITTEN: [&str; 6] = ["", "objects", "refs", "refs/heads", "logs", "ralph"];
/// The permission bits that an owner needs to use a directory, and a file.
const USABLE: u32 = 0o700;
const WRITABLE: u32 = 0o600;
/// Parts of a git directory that must be directories if they exist, and parts that must be files.
const DIRECTORIES: [&str; 6] = ["objects", "refs", "refs/heads", "refs/tags", "logs", "logs/refs"];
const FILES: [&str; 2] = ["index", "packed-refs"];

/// Open handles of a work tree and its git directory, which identify them even after a move, and the content of the `.git` file.
#[derive(Clone, Debug)]
pub(in crate::workspace) struct Anchor {
    top: Option<Arc<File>>,
    dir: Option<Arc<File>>,
    /// The content of `.git`, where it is a file.
    link: Option<Vec<u8>>,
}

impl Anchor {
    pub fn of(git_dir: &Path, top: &Path) -> Self {
        let dot_git = top.join(".git");
        let is_file = dot_git.symlink_metadata().is_ok_and(|meta| meta.is_file());
        let link = if is_file { safe_read::bytes(&dot_git).ok() } else { None };
        let open = |dir: &Path| File::open(dir).ok().map(Arc::new);
        Anchor { top: open(top), dir: open(git_dir), link }
    }
}

/// Whether an open directory is at this path; true if it cannot be determined.
fn is_at(dir: Option<&Arc<File>>, path: &Path) -> bool {
    let Some(known) = dir.and_then(|file| file.metadata().ok()) else { return true };
    path.metadata().is_ok_and(|meta| id(&meta) == id(&known))
}

/// The current path of an open directory; none if it was deleted.
fn found(dir: Option<&Arc<File>>) -> Option<PathBuf> {
    let path = path_of(dir?)?;
    is_at(dir, &path).then_some(path)
}

fn id(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

impl Workspace {
    fn essentials_file(&self) -> PathBuf {
        self.guard_dir().join("essentials")
    }

    /// The permissions of the directories that must be usable, as a record.
    pub(super) fn essentials_record(&self) -> Vec<u8> {
        let mode = |dir: &PathBuf| Some(format!("{:o}", dir.metadata().ok()?.mode() & 0o7777).into_bytes());
        let fields = self.essential_dirs().into_iter().filter_map(|dir| Some([mode(&dir)?, nul_records::field(&dir).to_vec()]));
        nul_records::joined(fields.flatten())
    }

    fn essential_dirs(&self) -> Vec<PathBuf> {
        let place = &self.repo.place;
        let written = WRITTEN.iter().map(|name| place.common_dir.join(name));
        [place.top.clone(), place.git_dir.clone()].into_iter().chain(written).collect()
    }

    /// Repairs, without calling git, everything that would keep git from working. Runs once after each agent or gate.
    pub(crate) fn restore_essentials(&self) -> Result<Vec<Notice>> {
        if self.is_repaired() {
            return Ok(Vec::new());
        }
        let mut notices: Vec<Notice> = self.put_top_back()?.into_iter().collect();
        let mut opened = self.open_up_directories();
        notices.extend(self.put_git_dir_back()?);
        opened.extend(self.open_up_directories());
        // The repairs below rely on these records.
        self.restore_records()?;
        self.give_modes_back(&opened);
        if !opened.is_empty() {
            notices.push(Notice::OpenedUp { paths: opened.iter().map(|path| path.display().to_string()).collect() });
        }
        self.put_git_link_back()?;
        notices.extend(self.restore_shape()?);
        self.revive_head()?;
        notices.extend(self.restore_alternates()?);
        notices.extend(self.restore_git_dirs()?);
        self.note_repaired();
        Ok(notices)
    }

    /// Restores the owner's access to directories that an agent closed. Returns their paths.
    fn open_up_directories(&self) -> BTreeSet<PathBuf> {
        let opened: BTreeSet<PathBuf> = self.essential_dirs().into_iter().filter(|dir| open_up(dir)).collect();
        if opened.iter().any(|dir| *dir != self.repo.place.top) {
            open_up_below(&self.repo.place.common_dir);
        }
        opened
    }

    /// Gives the opened directories the permissions that they had before the attempt.
    fn give_modes_back(&self, opened: &BTreeSet<PathBuf>) {
        let record = fs::read(self.essentials_file()).unwrap_or_default();
        for (mode, dir) in nul_records::pairs(&record).map(|(mode, dir)| (String::from_utf8_lossy(mode), nul_records::path(dir))) {
            if let Ok(mode) = u32::from_str_radix(&mode, 8)
                && mode & USABLE == USABLE
                && opened.contains(&dir)
            {
                // A failure is harmless: the directory is usable already.
                let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(mode));
            }
        }
    }

    /// Moves a work tree that was moved away back, so that no other directory is taken for it. Renames anything in its place.
    fn put_top_back(&self) -> Result<Option<Notice>> {
        let (top, known) = (&self.repo.place.top, self.anchor.top.as_ref());
        let is_moved = self.kind == WorkspaceKind::InPlace && (top.is_symlink() || !is_at(known, top));
        let Some(from) = found(known).filter(|_| is_moved) else { return Ok(None) };
        if top.symlink_metadata().is_ok() {
            let named = |number: u32| top.with_extension(format!("in-its-place.{number}"));
            let aside = free_name(named(1), named, |path| path.symlink_metadata().is_ok());
            fs::rename(top, &aside).with_context(|| format!("cannot move {} aside", top.display()))?;
        }
        fs::rename(&from, top).with_context(|| format!("cannot move {} back to {}", from.display(), top.display()))?;
        Ok(Some(Notice::WorkTreeRestored { from: from.display().to_string() }))
    }

    /// Moves a git directory that was moved away back. Moves anything in its place into the run's directory.
    fn put_git_dir_back(&self) -> Result<Option<Notice>> {
        let dir = &self.repo.place.common_dir;
        let known = self.anchor.dir.as_ref();
        if is_at(known, dir) {
            return Ok(None);
        }
        let Some(from) = found(known) else {
            bail!(Problem::fatal(format!(
                "the agent deleted the git directory {} and the run with it: restore it from a backup; the work tree is as the agent left it",
                dir.display()
            )))
        };
        let in_its_place = dir.symlink_metadata().is_ok().then(|| self.repo.place.top.join(".git.in-place-of-ours"));
        if let Some(aside) = &in_its_place {
            fs::rename(dir, aside).with_context(|| format!("cannot move {} aside", dir.display()))?;
        }
        fs::rename(&from, dir).with_context(|| format!("cannot move {} back to {}", from.display(), dir.display()))?;
        if let Some(aside) = &in_its_place {
            relocate(aside, &self.free_place_for("git"))?;
        }
        Ok(Some(Notice::GitDirRestored { from: from.display().to_string() }))
    }

    /// Moves files aside that should be directories (and the reverse), and creates the directories that every repository has.
    fn restore_shape(&self) -> Result<Option<Notice>> {
        let (own, common) = (&self.repo.place.git_dir, &self.repo.place.common_dir);
        // With reftable, refs are not files, and `refs/heads` is a placeholder file.
        let has_files = !common.join("reftable").exists();
        let stands = |path: &PathBuf| path.symlink_metadata().is_ok();
        let directories = DIRECTORIES.iter().filter(|name| has_files || !name.starts_with("refs"));
        let directories = directories.map(|name| common.join(name)).filter(|path| stands(path) && !path.is_dir());
        let files = FILES.iter().map(|name| own.join(name)).filter(|path| path.is_dir());
        // In a main git directory, a `commondir` file would redirect git to another repository.
        let elsewhere = Some(own.join("commondir")).filter(|path| own == common && stands(path));
        let wrong: Vec<PathBuf> = directories.chain(files).chain(elsewhere).collect();
        for path in &wrong {
            self.move_git_file_aside(path)?;
        }
        self.restore_object_directory().with_context(|| format!("cannot restore {}/objects", common.display()))?;
        if has_files {
            fs::create_dir_all(common.join("refs/heads")).with_context(|| format!("cannot restore {}/refs", common.display()))?;
        }
        Ok((!wrong.is_empty()).then(|| self.moved_notice(&wrong)))
    }

    fn move_git_file_aside(&self, path: &Path) -> Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        relocate(path, &self.free_place_for(&name)).with_context(|| format!("cannot move {} aside", path.display()))
    }

    fn moved_notice(&self, paths: &[PathBuf]) -> Notice {
        let files = paths.iter().map(|path| path.display().to_string()).collect();
        Notice::OperationMoved { files, to: self.moved_dir("git-dir").display().to_string() }
    }

    /// Lists all refs, even if an agent damaged `packed-refs`. In that case the file is moved aside; the refs that were recorded
    /// before the attempt are then missing, and are restored like deleted refs.
    pub(in crate::workspace) async fn refs_after_agent(&self, notices: &mut Vec<Notice>) -> Result<RefList> {
        let packed = self.repo.place.common_dir.join("packed-refs");
        match self.repo.refs().await {
            Err(error) if GitError::is_answer(&error) && format!("{error:#}").contains("packed-refs") && packed.exists() => {
                self.move_git_file_aside(&packed)?;
                notices.push(self.moved_notice(&[packed]));
                self.repo.refs().await
            }
            other => other,
        }
    }

    /// Restores the `.git` file that points from the work tree to its git directory.
    fn put_git_link_back(&self) -> Result<()> {
        let Some(link) = &self.anchor.link else { return Ok(()) };
        let dot_git = self.repo.place.top.join(".git");
        if safe_read::bytes(&dot_git).is_ok_and(|now| now == *link) {
            return Ok(());
        }
        if dot_git.symlink_metadata().is_ok() {
            relocate(&dot_git, &self.free_place_for("git"))?;
        }
        fs::write(&dot_git, link).with_context(|| format!("cannot restore {}", dot_git.display()))
    }

    /// Restores `objects/info/alternates` if the agent removed lines from it: without the object stores it names, the repository
    /// lacks most of its objects.
    fn restore_alternates(&self) -> Result<Option<Notice>> {
        let (path, copy) = (self.repo.place.common_dir.join(ALTERNATES), self.guard_dir().join("git-dir").join(ALTERNATES_COPY));
        let Ok(known) = safe_read::bytes(&copy) else { return Ok(None) };
        let now = safe_read::bytes(&path).unwrap_or_default();
        let has = |line: &[u8]| now.split(|byte| *byte == b'\n').any(|other| other == line);
        if known.split(|byte| *byte == b'\n').all(has) {
            return Ok(None);
        }
        self.replace_git_file(&path, &copy, ALTERNATES_COPY).map(Some)
    }

    /// Restores the configuration from before the attempt if git can no longer read the current one.
    pub(crate) async fn restore_unreadable_config(&self) -> Result<Vec<Notice>> {
        let changed = self.changed_configuration();
        let is_odd = |(path, _): &(PathBuf, PathBuf)| !path.metadata().is_ok_and(|meta| meta.is_file());
        // If the configuration is not a regular file, git is not asked: git would hang on a FIFO, for example.
        if changed.is_empty() || !changed.iter().any(is_odd) && self.repo.is_readable().await? {
            return Ok(Vec::new());
        }
        self.put_configuration_back(&changed)
    }

    /// Restores the configuration from before the attempt if it has changed.
    pub(crate) fn restore_config(&self) -> Result<Vec<Notice>> {
        self.put_configuration_back(&self.changed_configuration())
    }

    /// The configuration files that have changed, each with its copy.
    fn changed_configuration(&self) -> Vec<(PathBuf, PathBuf)> {
        let kept = self.guard_dir().join("git-dir");
        if !kept.join("config").is_file() {
            return Vec::new();
        }
        let files = self.git_files().into_iter().filter(|(_, name)| is_config(name));
        files.map(|(path, name)| (path, kept.join(&*name))).filter(|(path, copy)| !self.mirror.same(path, copy)).collect()
    }

    fn put_configuration_back(&self, changed: &[(PathBuf, PathBuf)]) -> Result<Vec<Notice>> {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        changed.iter().map(|(path, copy)| self.replace_git_file(path, copy, &name(path))).collect()
    }

    /// Replaces a file of the git directory by its copy. The replaced version is saved in the run's directory.
    fn replace_git_file(&self, path: &Path, copy: &Path, name: &str) -> Result<Notice> {
        self.exchange(path, copy, name, &self.free_place_for(name))
    }

    /// An unused path in the run's directory for moved git files. The directory is created.
    fn free_place_for(&self, name: &str) -> PathBuf {
        let dir = self.moved_dir("git-dir");
        // If this fails, the move that follows reports the error.
        let _ = fs::create_dir_all(&dir);
        free_name(dir.join(name), |number| dir.join(format!("{name}.{number}")), |to| to.symlink_metadata().is_ok())
    }
}

/// The file that lists the object stores a repository borrows from, and the name of its copy.
pub(super) const ALTERNATES: &str = "objects/info/alternates";
pub(super) const ALTERNATES_COPY: &str = "alternates";

/// Gives the owner access to a directory. Returns whether that was both necessary and successful.
fn open_up(dir: &Path) -> bool {
    let Ok(meta) = dir.symlink_metadata() else { return false };
    let mode = meta.mode() & 0o7777;
    meta.is_dir() && mode & USABLE != USABLE && fs::set_permissions(dir, fs::Permissions::from_mode(mode | USABLE)).is_ok()
}

/// Gives the owner access to everything below a git directory that was closed. Object files are skipped, because git keeps them
/// read-only.
fn open_up_below(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        let mode = meta.mode() & 0o7777;
        if meta.is_dir() {
            open_up(&entry.path());
            open_up_below(&entry.path());
        } else if meta.is_file() && mode & WRITABLE != WRITABLE && !entry.path().components().any(|part| part.as_os_str() == "objects") {
            // If the file stays closed, the operation that needs it reports the error.
            let _ = fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode | WRITABLE));
        }
    }
}
