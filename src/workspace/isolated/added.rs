//! Handles submodules that an agent adds in its clone: the user has no repository that they could be cloned from, and their git
//! directories must outlive the clone's git directory, which is made anew before every attempt.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Origin;
use crate::git::Oid;
use crate::workspace::submodules::registered;
use crate::workspace::{Notice, Workspace};
use crate::{relocate, safe_read, safe_write};

/// The name of a git directory that is being moved into its submodule.
const ARRIVING: &str = ".git.ralph-new";

impl Workspace {
    /// The submodules in the clone that are not clones of the user's submodules.
    fn added_submodules(&self, origin: &Origin) -> Vec<PathBuf> {
        let is_users = |path: &PathBuf| origin.submodules.iter().any(|submodule| submodule.path() == path);
        let is_there = |path: &PathBuf| [".git", ARRIVING].iter().any(|name| self.top().join(path).join(name).symlink_metadata().is_ok());
        registered(self.top()).into_iter().filter(|path| !is_users(path) && is_there(path)).collect()
    }

    /// Saves the commits and the edits of submodules that the agent added in an attempt starting at `base`. Returns commits, whose
    /// objects are in the user's repository. Repeating it is harmless.
    pub(crate) async fn save_added_submodules(&self, origin: &Origin, base: &Oid) -> Result<Vec<Oid>> {
        let mut saved = Vec::new();
        for path in self.added_submodules(origin) {
            let top = self.top().join(&path);
            let taken = async {
                if !take_in_git_dir(self.top(), &top)? { Ok(Vec::new()) } else { self.commits_in_added(origin, &top, base).await }
            };
            saved.extend(taken.await.with_context(|| format!("submodule {}", path.display()))?);
        }
        Ok(saved)
    }

    async fn commits_in_added(&self, origin: &Origin, top: &Path, base: &Oid) -> Result<Vec<Oid>> {
        let found = origin.commits_in(top, base).await?;
        let mut saved = Vec::new();
        for oid in found.all {
            if origin.take_objects(top, &[&oid], base, self.dir()).await? {
                saved.push(oid);
            }
        }
        let Some((head, tree)) = edits_in(origin, top, &self.dir.join("index.added")).await? else { return Ok(saved) };
        if origin.take_objects(top, &[&head, &tree], base, self.dir()).await? {
            saved.push(self.repo.commit(&tree, &[&head], "state of a submodule\n").await?);
        }
        Ok(saved)
    }

    /// Moves submodules that a failed attempt starting at `base` added out of the clone.
    pub(crate) async fn move_added_aside(&self, origin: &Origin, base: &Oid, label: &str) -> Result<Vec<Notice>> {
        let mut notices = Vec::new();
        for path in self.added_submodules(origin) {
            if self.repo.gitlink_at(base, &path).await?.is_some() {
                continue;
            }
            let to = self.move_aside(&path, label)?;
            notices.push(Notice::NestedMoved { path: path.display().to_string(), to: to.display().to_string() });
        }
        Ok(notices)
    }

    /// Empties submodules that agents added, unless they are unchanged checkouts of the commits that `commit` records for them.
    pub(super) async fn leave_added_submodules(&self, origin: &Origin, commit: &Oid) -> Result<()> {
        for path in self.added_submodules(origin) {
            let top = self.top().join(&path);
            let wanted = self.repo.gitlink_at(commit, &path).await?;
            if wanted.is_some()
                && take_in_git_dir(self.top(), &top)?
                && head_of(origin, &top).await? == wanted
                && edits_in(origin, &top, &self.dir.join("index.added")).await?.is_none()
            {
                continue;
            }
            self.move_aside(&path, "submodule")?;
            if wanted.is_some() {
                // Without its directory, git would take the submodule for deleted.
                fs::create_dir_all(&top).with_context(|| format!("cannot create {}", top.display()))?;
            }
        }
        Ok(())
    }
}

async fn head_of(origin: &Origin, top: &Path) -> Result<Option<Oid>> {
    let answer = origin.git_in(top).call(["rev-parse", "--verify", "-q", "HEAD^{commit}"]).answer().await?;
    Ok(if answer.code == 0 { String::from_utf8_lossy(&answer.stdout).trim_end().parse().ok() } else { None })
}

/// The commit of HEAD and the tree of all files, if the files differ from that commit. `index` is a file for our own use.
async fn edits_in(origin: &Origin, top: &Path, index: &Path) -> Result<Option<(Oid, Oid)>> {
    let Some(head) = head_of(origin, top).await? else { return Ok(None) };
    relocate::remove_anything(index).with_context(|| format!("cannot remove {}", index.display()))?;
    let git = origin.git_in(top);
    let before = git.call(["rev-parse", &format!("{head}^{{tree}}")]).output().await?;
    git.call(["read-tree", head.as_str()]).index(index).working().output().await?;
    let added = git.call(["add", "-A", "--ignore-errors"]).index(index).working().answer().await?;
    let written = git.call(["write-tree"]).index(index).working().answer().await?;
    let _ = fs::remove_file(index);
    let tree: Option<Oid> = String::from_utf8_lossy(&written.stdout).trim_end().parse().ok();
    let is_same = written.stdout == before;
    Ok(tree.filter(|_| added.code <= 1 && written.code == 0 && !is_same).map(|tree| (head, tree)))
}

/// Moves the git directory of a submodule from the clone's git directory into the submodule, and makes it harmless: nothing that an
/// agent has configured in it is run. Returns whether the submodule has a git directory of its own now.
fn take_in_git_dir(clone: &Path, top: &Path) -> Result<bool> {
    let (own, arriving) = (top.join(".git"), top.join(ARRIVING));
    let cannot = || format!("cannot move the git directory of {}", top.display());
    let is_dir = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    if !is_dir(&own) && !is_dir(&arriving) {
        let Some(git_dir) = absorbed(clone, top) else { return Ok(false) };
        fs::rename(git_dir, &arriving).with_context(cannot)?;
    }
    if is_dir(&arriving) {
        relocate::remove_anything(&own).and_then(|()| fs::rename(&arriving, &own)).with_context(cannot)?;
    }
    let is_real = |name: &str| is_dir(&own.join(name)) || own.join(name).symlink_metadata().is_err();
    // Nothing is removed through a link, which may lead to the user's own files.
    if !is_real("objects") || !is_real("objects/info") {
        return Ok(false);
    }
    if !is_real("info") {
        relocate::remove_anything(&own.join("info")).with_context(cannot)?;
    }
    let config = safe_config(&own);
    for name in ["config", "config.worktree", "commondir", "hooks", "info/attributes", "info/grafts", "objects/info/alternates"] {
        relocate::remove_anything(&own.join(name)).with_context(cannot)?;
    }
    safe_write::write(&own.join("config"), config.as_bytes()).with_context(cannot)?;
    Ok(true)
}

/// The git directory that the file `.git` of a submodule names, if it is inside of the clone's git directory.
fn absorbed(clone: &Path, top: &Path) -> Option<PathBuf> {
    let text = safe_read::text(&top.join(".git")).ok()?;
    let named = top.join(text.trim_end_matches('\n').strip_prefix("gitdir: ")?).canonicalize().ok()?;
    let modules = clone.join(".git/modules");
    let is_real = modules.canonicalize().is_ok_and(|real| real == modules);
    (is_real && named != modules && named.starts_with(&modules) && named.join("HEAD").exists()).then_some(named)
}

/// A configuration with the formats of the one that is there, and nothing else of it.
fn safe_config(git_dir: &Path) -> String {
    let text = safe_read::text(&git_dir.join("config")).unwrap_or_default().to_lowercase();
    let value = |key: &str, known: &[&'static str]| {
        let set = text.lines().filter_map(|line| line.trim().split_once('=')).find(|(name, _)| name.trim() == key);
        set.and_then(|(_, value)| known.iter().copied().find(|known| *known == value.trim()))
    };
    let formats = [("objectformat", value("objectformat", &["sha256"])), ("refstorage", value("refstorage", &["reftable"]))];
    let extensions: String = formats.iter().filter_map(|(key, value)| value.map(|value| format!("\t{key} = {value}\n"))).collect();
    let version = u8::from(!extensions.is_empty());
    format!("[core]\n\trepositoryformatversion = {version}\n\tbare = false\n[extensions]\n{extensions}")
}
