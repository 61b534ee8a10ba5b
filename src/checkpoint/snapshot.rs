//! The work tree as a tree object, by one walk on the private index; the rare cases are found in what changed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use super::protected::Protected;
use super::{Keeper, special};
use crate::error::Problem;
use crate::git::{Answer, Oid, PathChange, Tolerance, TreeEntry, is_opaque_directory, without_slash};

/// The mode of a submodule in a tree.
pub(super) const GITLINK: u32 = 0o160_000;
/// Long enough for most trees; after that it is worth a look why.
const PATIENCE: Duration = Duration::from_secs(5);
/// How deep unreadable directories may be nested.
const ROUNDS: u32 = 20;

/// The work tree at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Everything that git can keep.
    pub tree: Oid,
    /// How it differs from the tree that it was compared with.
    pub changes: Vec<PathChange>,
    /// Repositories that somebody made inside the work tree since the start, which git would record without their files.
    pub nested: Vec<PathBuf>,
    /// What git said about paths that it could not keep.
    pub unkept: Option<String>,
}

impl Snapshot {
    /// Refuses to go on with files that no rollback could bring back.
    pub fn check_whole(&self) -> Result<()> {
        let Some(unkept) = &self.unkept else { return Ok(()) };
        bail!(
            Problem::fatal(format!("git cannot add every file of the work tree: {unkept}"))
                .hint("make the file readable, remove it, or add it to .git/info/exclude")
        )
    }
}

impl Keeper {
    fn protected_file(&self) -> PathBuf {
        self.dir.join("ignored")
    }

    pub(super) fn save_protected(&self, protected: &Protected) -> Result<()> {
        Ok(protected.save(&self.protected_file())?)
    }

    fn known_nested_file(&self) -> PathBuf {
        self.dir.join("nested")
    }

    /// Remembers the repositories that were in the work tree before the run: they are the user's.
    pub(super) fn save_nested(&self, nested: &[PathBuf]) -> Result<()> {
        Ok(Protected::new(nested.iter().cloned()).save(&self.known_nested_file())?)
    }

    /// What a landed attempt left beside its checkpoint is part of the work tree from now on, and no later rollback's business.
    pub(super) async fn take_note_of(&self, snapshot: &Snapshot) -> Result<()> {
        if !snapshot.nested.is_empty() {
            let mut known = self.known_nested();
            known.extend(snapshot.nested.iter().cloned());
            known.save(&self.known_nested_file())?;
        }
        let rules = |change: &PathChange| change.path.file_name().is_some_and(|name| name == ".gitignore");
        if snapshot.changes.iter().any(rules) {
            let mut protected = self.protected();
            let ignored = |entry| if let TreeEntry::Ignored(path) = entry { Some(path) } else { None };
            protected.extend(self.repo.status(&self.private_index()).await?.into_iter().filter_map(ignored));
            self.save_protected(&protected)?;
        }
        Ok(())
    }

    pub(super) fn known_nested(&self) -> Protected {
        Protected::load(&self.known_nested_file()).unwrap_or_default()
    }

    pub(super) fn protected(&self) -> Protected {
        Protected::load(&self.protected_file()).unwrap_or_default()
    }

    /// Takes a snapshot and compares it with `against`, which is also what a lost private index starts from.
    pub(super) async fn snapshot(&self, against: &Oid) -> Result<Snapshot> {
        self.snapshot_after(None, against).await
    }

    /// The same, if the walk may have been made already: this is what git answered.
    pub(super) async fn snapshot_after(&self, walked: Option<Answer>, against: &Oid) -> Result<Snapshot> {
        let index = self.private_index();
        if !index.exists() {
            self.repo.read_tree(&index, against).await?;
        }
        let (mut tree, unkept, mut nested) = self.record(walked, &index, against).await?;
        let mut changes = self.repo.diff_trees(against, &tree).await?;
        let protected = self.protected();
        let linked = self.unregistered_gitlinks(&changes);
        let mut out: Vec<PathBuf> =
            changes.iter().filter(|c| c.status == 'A' && protected.covers(&c.path)).map(|c| c.path.clone()).collect();
        out.extend(linked.iter().cloned());
        nested.extend(linked);
        if !out.is_empty() {
            self.repo.forget(&index, &out).await?;
            tree = self.repo.write_tree(&index).await?;
            changes.retain(|change| !out.contains(&change.path));
        }
        let known = self.known_nested();
        nested.retain(|path| !known.covers(path));
        Ok(Snapshot { tree, changes, nested, unkept })
    }

    /// The same of an index that stands for `against`, by what a `status` of it has found: that was the walk. None where
    /// only a second one would do.
    pub(super) async fn snapshot_of(&self, entries: &[TreeEntry], against: &Oid) -> Result<Option<Snapshot>> {
        let mut paths = Vec::new();
        for entry in entries {
            match entry {
                TreeEntry::Unmerged(_) => return Ok(None),
                TreeEntry::Changed(path) => paths.push(path.clone()),
                TreeEntry::Untracked(path) if !is_opaque_directory(path) => paths.push(path.clone()),
                TreeEntry::Untracked(_) | TreeEntry::Ignored(_) => {}
            }
        }
        let snapshot = |tree, changes| Some(Snapshot { tree, changes, nested: Vec::new(), unkept: None });
        if paths.is_empty() {
            return Ok(snapshot(against.clone(), Vec::new()));
        }
        let answer = self.repo.add_these(&self.private_index(), &paths).await?;
        if answer.code != 0 || !answer.stderr.is_empty() {
            return Ok(None);
        }
        let tree = self.repo.write_tree(&self.private_index()).await?;
        let changes = self.repo.diff_trees(against, &tree).await?;
        Ok(if self.unregistered_gitlinks(&changes).is_empty() { snapshot(tree, changes) } else { None })
    }

    /// The walk itself. A repository without commits makes git give up on everything, so those are found and left out.
    async fn record(&self, walked: Option<Answer>, index: &Path, seed: &Oid) -> Result<(Oid, Option<String>, Vec<PathBuf>)> {
        let mut unkept = None;
        let mut nested = Vec::new();
        let mut answer = match walked {
            Some(answer) => answer,
            None => self.add_patiently(index).await?,
        };
        for _ in 0..ROUNDS {
            // git only warns about a directory that it may not enter, and takes it for an empty one.
            if !self.open_up(&answer.errors()) && !self.clear_broken(&answer.errors())? {
                break;
            }
            answer = self.add_patiently(index).await?;
        }
        if answer.code != 0 {
            self.move_specials_aside(special::is_special).await?;
            nested = self.nested(index).await?;
            let again = self.repo.add_all(index, &nested, Tolerance::SkipUnaddable).await?;
            unkept = (again.code != 0).then(|| again.errors());
            if again.code > 1 {
                bail!(again.failure());
            }
        }
        match self.repo.write_tree(index).await {
            Ok(tree) => Ok((tree, unkept, nested)),
            Err(_) => {
                // A gc swept objects that only the private index named: build it anew.
                fs::remove_file(index)?;
                self.repo.read_tree(index, seed).await?;
                let again = self.repo.add_all(index, &nested, Tolerance::SkipUnaddable).await?;
                if again.code > 1 {
                    bail!(again.failure());
                }
                Ok((self.repo.write_tree(index).await?, unkept, nested))
            }
        }
    }

    /// A FIFO where git looks for rules blocks it for ever: when it takes long, they are looked for and moved.
    pub(super) async fn add_patiently(&self, index: &Path) -> Result<Answer> {
        loop {
            let mut call = Box::pin(self.repo.add_all(index, &[], Tolerance::Strict));
            if let Ok(answer) = tokio::time::timeout(PATIENCE, &mut call).await {
                return answer;
            }
            if special::find(&self.repo.place.top, special::is_blocking).await?.is_empty() {
                return call.await;
            }
            drop(call);
            self.move_specials_aside(special::is_blocking).await?;
        }
    }

    /// Gives us the permission to read what git could not; says whether there was anything.
    fn open_up(&self, errors: &str) -> bool {
        let denied = errors.lines().filter(|line| line.ends_with("Permission denied"));
        let quoted =
            denied.filter_map(|line| line.split_once(['\'', '"']).and_then(|(_, rest)| rest.split_once(['\'', '"'])).map(|(path, _)| path));
        let mut opened = false;
        for path in quoted.map(|path| self.repo.place.top.join(path)) {
            let Ok(meta) = path.symlink_metadata() else { continue };
            let wanted = if meta.is_dir() { 0o700 } else { 0o600 };
            let mode = meta.permissions().mode();
            opened |= mode & wanted != wanted && fs::set_permissions(&path, fs::Permissions::from_mode(mode | wanted)).is_ok();
        }
        opened
    }

    /// Moves a `.git` out of the way that is none, so that git gives up on everything; says whether there was one.
    fn clear_broken(&self, errors: &str) -> Result<bool> {
        let broken = errors.lines().filter_map(|line| line.strip_prefix("fatal: '")?.strip_suffix("' not recognized as a git repository"));
        let mut cleared = false;
        for path in broken.map(Path::new).filter(|path| path.ends_with(".git") && path.components().count() > 1) {
            self.move_aside(path, "broken")?;
            cleared = true;
        }
        Ok(cleared)
    }

    async fn move_specials_aside(&self, which: fn(&Path) -> bool) -> Result<()> {
        for path in special::find(&self.repo.place.top, which).await? {
            self.move_aside(&path, "special")?;
        }
        Ok(())
    }

    async fn nested(&self, index: &Path) -> Result<Vec<PathBuf>> {
        let entries = self.repo.status(index).await?;
        let opaque = |entry| match entry {
            TreeEntry::Untracked(path) if is_opaque_directory(&path) => Some(without_slash(&path).to_owned()),
            _ => None,
        };
        Ok(entries.into_iter().filter_map(opaque).collect())
    }

    /// New gitlinks that `.gitmodules` does not know are repositories that somebody made inside the work tree.
    fn unregistered_gitlinks(&self, changes: &[PathChange]) -> Vec<PathBuf> {
        let links: Vec<&PathChange> = changes.iter().filter(|c| c.new_mode == GITLINK && c.old_mode != GITLINK).collect();
        if links.is_empty() {
            return Vec::new();
        }
        let modules = fs::read_to_string(self.repo.place.top.join(".gitmodules")).unwrap_or_default();
        let registered = |path: &Path| {
            modules
                .lines()
                .filter_map(|line| line.split_once('='))
                .any(|(key, value)| key.trim() == "path" && Path::new(value.trim()) == path)
        };
        links.into_iter().filter(|link| !registered(&link.path)).map(|link| link.path.clone()).collect()
    }
}
