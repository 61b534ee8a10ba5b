//! Manages the directory of a run's workspaces, which lies beside the repository and is named after the change.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::error::Problem;
use crate::free_name::free_name;
use crate::git::Git;
use crate::vault::Vault;
use crate::{relocate, safe_read, safe_write};

/// The file in that directory that names its owner, one item per line: git directory, user's checkout, change, and the run's id.
const OWNER: &str = ".git-ralph";
/// The hint where workspaces cannot be in the default directory.
const ELSEWHERE: &str = "git config ralph.workspaceDir ~/ralph-workspaces";
/// The name of the workspace in which merges are tested.
const LANDING: &str = "landing";
/// The suffix of a directory that is being removed.
const REMOVING: &str = ".removing-";
/// The name of the file in the vault that holds the identity of the directory.
const IDENTITY: &str = "workspaces-identity";

/// The owner of a directory of workspaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceOwner {
    /// The git directory that all work trees of the repository share.
    pub common_dir: PathBuf,
    /// The user's checkout that the run was started from.
    pub top: PathBuf,
    /// The change.
    pub change: String,
    /// The run's unique id.
    pub run: String,
}

impl WorkspaceOwner {
    /// The owner of the workspace at `top`, if it is one.
    #[must_use]
    pub fn of_workspace(top: &Path) -> Option<Self> {
        Self::of_directory(top.parent()?)
    }

    /// The owner of a directory of workspaces, if it is one.
    #[must_use]
    pub fn of_directory(dir: &Path) -> Option<Self> {
        let text = safe_read::text(&dir.join(OWNER)).ok()?;
        let mut lines = text.lines();
        let (common_dir, top, change, run) = (lines.next()?, lines.next()?, lines.next()?, lines.next()?);
        Some(WorkspaceOwner { common_dir: common_dir.into(), top: top.into(), change: change.into(), run: run.into() })
    }

    fn text(&self) -> Result<String> {
        let (common_dir, top) = (self.common_dir.to_str(), self.top.to_str());
        let (Some(common_dir), Some(top)) = (common_dir, top) else {
            bail!(Problem::refused("the path of the repository is not UTF-8: an isolated run cannot be made for it"));
        };
        Ok(format!("{common_dir}\n{top}\n{}\n{}\n", self.change, self.run))
    }
}

/// The directory of a run's workspaces.
#[derive(Clone, Debug)]
pub(crate) struct WorkspaceRoot {
    path: PathBuf,
    owner: WorkspaceOwner,
    vault: Option<Vault>,
}

/// A directory of workspaces that was found, either complete or left over from an interrupted removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The directory.
    pub path: PathBuf,
    /// The owner that the directory itself names.
    pub owner: WorkspaceOwner,
}

/// The directory for the workspaces of a change: below `configured`, or else beside the checkout.
///
/// # Errors
/// A [`Problem`] if the checkout has no parent directory.
pub fn directory(top: &Path, change: &str, configured: Option<&Path>) -> Result<PathBuf> {
    let around = match configured {
        Some(dir) => top.join(dir),
        None => {
            let (Some(parent), Some(name)) = (top.parent(), top.file_name()) else {
                bail!(Problem::refused(format!("there is no directory beside {}", top.display())).hint(ELSEWHERE));
            };
            let mut name = name.to_owned();
            name.push(".ralph");
            parent.join(name)
        }
    };
    Ok(resolved(&around).join(change))
}

/// The path without symbolic links and `..`, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(path), ..) => path,
        (Err(_), Some(parent), Some(name)) => resolved(parent).join(name),
        _ => path.to_owned(),
    }
}

/// Refuses a directory inside a work tree or a git directory, where test runners, linters and watchers would pick up the
/// workspaces.
///
/// # Errors
/// A [`Problem`] with a hint to configure another directory.
pub async fn check_outside(dir: &Path, git: &Git) -> Result<()> {
    let there = dir.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    let answer = git.clone().at(there).call(["rev-parse", "--absolute-git-dir"]).answer().await?;
    if answer.code != 0 {
        return Ok(());
    }
    let found = String::from_utf8_lossy(&answer.stdout).trim_end().to_owned();
    bail!(Problem::refused(format!("workspaces would be in {}, which is inside the repository {found}", dir.display())).hint(ELSEWHERE))
}

impl WorkspaceRoot {
    pub fn new(path: PathBuf, owner: WorkspaceOwner, vault: Option<Vault>) -> Self {
        WorkspaceRoot { path, owner, vault: vault.filter(Vault::exists) }
    }

    /// The directory of all workspaces of the run.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the clone for a slot.
    pub fn slot(&self, slot: u32) -> PathBuf {
        self.path.join((slot + 1).to_string())
    }

    /// The path of the workspace in which merges are tested.
    pub fn landing(&self) -> PathBuf {
        self.path.join(LANDING)
    }

    /// Creates the directory, or checks that it belongs to this run. Leftovers of an earlier run of the same change are replaced.
    pub fn claim(&self) -> Result<()> {
        let cannot = || format!("cannot create {}", self.path.display());
        self.clear_links().with_context(cannot)?;
        match WorkspaceOwner::of_directory(&self.path) {
            Some(owner) if owner == self.owner => return self.check_real(),
            _ if self.is_the_one_we_made() => {}
            // Our directory was replaced meanwhile. The new one is not ours and in the way.
            _ if self.has_claimed() && self.path.exists() => set_aside(&self.path).with_context(cannot)?,
            Some(owner) if owner.common_dir == self.owner.common_dir && owner.change == self.owner.change => self.remove_leftovers()?,
            Some(owner) => bail!(self.is_foreign(&format!("has the workspaces of {}", owner.top.display()))),
            None if fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_some()) => {
                bail!(self.is_foreign("exists already, and git-ralph did not make it"))
            }
            None => {}
        }
        fs::create_dir_all(&self.path).with_context(cannot)?;
        self.check_real()?;
        self.write_owner().with_context(cannot)?;
        if let (Some(vault), Some(identity)) = (&self.vault, identity(&self.path)) {
            vault.write(IDENTITY, identity.as_bytes()).with_context(cannot)?;
        }
        Ok(())
    }

    fn write_owner(&self) -> Result<()> {
        let file = self.path.join(OWNER);
        relocate::remove_anything(&file)?;
        Ok(safe_write::write(&file, self.owner.text()?.as_bytes())?)
    }

    /// Whether the directory is the one that this run created, whatever an agent has written into it.
    fn is_the_one_we_made(&self) -> bool {
        let noted = self.vault.as_ref().and_then(|vault| vault.read(IDENTITY));
        noted.is_some_and(|noted| identity(&self.path).is_some_and(|identity| identity.as_bytes() == noted))
    }

    fn has_claimed(&self) -> bool {
        self.vault.as_ref().is_some_and(|vault| vault.path(IDENTITY).exists())
    }

    /// Renames a symbolic link in the place of the directory or of its parent: it was put there after the run began.
    fn clear_links(&self) -> io::Result<()> {
        for dir in self.path.parent().into_iter().chain([self.path.as_path()]) {
            if dir.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
                set_aside(dir)?;
            }
        }
        Ok(())
    }

    /// Refuses a path that leads through a symbolic link, because writing there would overwrite other files.
    fn check_real(&self) -> Result<()> {
        let real = self.path.canonicalize().with_context(|| format!("cannot find {}", self.path.display()))?;
        if real == self.path { Ok(()) } else { bail!(self.is_foreign(&format!("leads to {}", real.display()))) }
    }

    fn is_foreign(&self, why: &str) -> Problem {
        Problem::refused(format!("{} {why}", self.path.display())).hint(ELSEWHERE)
    }

    /// Removes the directory of an earlier run, whose work is saved under refs.
    fn remove_leftovers(&self) -> Result<()> {
        remove(&self.path, |owner| owner.common_dir == self.owner.common_dir && owner.change == self.owner.change)
    }

    /// Removes the workspaces and their directory, if they belong to this run, and leftovers of an interrupted removal.
    pub fn remove(&self) -> Result<()> {
        let is_real = self.path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        if is_real && self.is_the_one_we_made() && WorkspaceOwner::of_directory(&self.path).as_ref() != Some(&self.owner) {
            self.write_owner()?;
        }
        remove(&self.path, |owner| *owner == self.owner)?;
        let around = self.path.parent().unwrap_or(&self.path);
        for left in found_below(around).unwrap_or_default() {
            if left.owner == self.owner && left.is_half_removed(&self.path) {
                left.remove()?;
            }
        }
        // Succeeds only if this was the last directory of workspaces in it.
        let _ = fs::remove_dir(around);
        Ok(())
    }
}

impl Leftover {
    /// The number of bytes in the directory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        size(&self.path)
    }

    /// Whether this is a leftover of an interrupted removal of `path`.
    #[must_use]
    pub fn is_half_removed(&self, path: &Path) -> bool {
        let (name, whole) = (self.path.to_string_lossy(), path.to_string_lossy());
        name.strip_prefix(&*whole).is_some_and(|rest| rest.starts_with(REMOVING))
    }

    /// Removes the directory, if it still has the same owner.
    pub fn remove(&self) -> Result<()> {
        remove(&self.path, |owner| *owner == self.owner)?;
        let _ = self.path.parent().map(fs::remove_dir);
        Ok(())
    }
}

/// Removes a directory of workspaces if its owner is the expected one. It is renamed first, so that a partly removed directory is
/// never taken for a complete one.
fn remove(path: &Path, expected: impl Fn(&WorkspaceOwner) -> bool) -> Result<()> {
    let Some(owner) = WorkspaceOwner::of_directory(path) else { return Ok(()) };
    let cannot = || format!("cannot remove {}", path.display());
    if !expected(&owner) || path.symlink_metadata().with_context(cannot)?.is_symlink() {
        return Ok(());
    }
    let mut going = path.to_owned();
    if !path.to_string_lossy().contains(REMOVING) {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("{REMOVING}{}", std::process::id()));
        going = free_name(
            name.clone().into(),
            |number| PathBuf::from(format!("{}.{number}", name.display())),
            |path| path.symlink_metadata().is_ok(),
        );
        fs::rename(path, &going).with_context(cannot)?;
    }
    // The file that names the owner is removed last, so that an interrupted removal can be completed.
    for entry in fs::read_dir(&going).with_context(cannot)?.flatten().filter(|entry| entry.file_name() != OWNER) {
        relocate::remove_opened(&entry.path()).with_context(cannot)?;
    }
    relocate::remove_opened(&going).with_context(cannot)
}

/// Renames an obstacle.
fn set_aside(path: &Path) -> io::Result<()> {
    let numbered = |number: u32| path.with_added_extension(format!("aside.{number}"));
    fs::rename(path, free_name(path.with_added_extension("aside"), numbered, |path| path.symlink_metadata().is_ok()))
}

/// Identifies a directory even against one that was created later at the same path.
fn identity(dir: &Path) -> Option<String> {
    let meta = dir.symlink_metadata().ok()?;
    let born = meta.created().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    Some(format!("{} {} {born:?}", meta.dev(), meta.ino()))
}

/// The directories of workspaces below a directory.
pub fn found_below(around: &Path) -> io::Result<Vec<Leftover>> {
    let entries = match fs::read_dir(around) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
    let mut found: Vec<Leftover> =
        dirs.filter_map(|path| WorkspaceOwner::of_directory(&path).map(|owner| Leftover { path, owner })).collect();
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// The total size of all files in a directory.
fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => size(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}
