//! Turns the work tree into a tree object, with one `git add` on the private index, and handles the files that git cannot add.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::mem;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Result, bail};

use super::ignored_copies::Treatment;
use super::path_set::PathSet;
use super::untracked::beside_index;
use super::{Notice, Workspace, WorkspaceKind, special};
use crate::error::Problem;
use crate::git::{Answer, GitError, Head, Oid, PathChange, Repo, Tolerance, TreeEntry, is_opaque_directory, without_slash};

/// The file that lists the repositories inside the work tree from before the run.
const NESTED_AT_START: &str = "nested-at-start";
/// The mode of a submodule in a tree.
pub(crate) const GITLINK: u32 = 0o160_000;
/// The time after which a scan is checked for files that block git. Most scans finish earlier.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time after which a filter counts as hanging.
const FILTER_PATIENCE: Duration = Duration::from_mins(10);
/// The limit for how deep unreadable directories can be nested.
const ROUNDS: u32 = 20;

/// The file that lists the paths ignored at the start. The first look at a directory writes it before anything else.
pub(super) const IGNORED: &str = "ignored";

/// Whether the run with records in `dir` has already recorded its work tree.
pub(crate) fn has_looked(dir: &Path) -> bool {
    dir.join(IGNORED).exists()
}

/// When this process last listed ignored files.
#[derive(Debug, Default)]
pub(super) enum Listed {
    #[default]
    Never,
    /// Before the run; no attempt has begun since.
    AtStart,
    BeforeAnAttempt,
}

/// The work tree at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The tree of all files that git can store.
    pub tree: Oid,
    /// The changes from the tree that it was compared with.
    pub changes: Vec<PathChange>,
    /// Repositories created inside the work tree since the start, which git would record without their files.
    pub nested: Vec<PathBuf>,
    /// git's messages about paths that it could not store.
    pub unkept: Option<String>,
    /// git's messages about directories that it could not read but could read at the start.
    pub unopened: Option<String>,
    /// The error of a filter or an encoding, if files had to be stored byte for byte because of it.
    pub unconverted: Option<String>,
}

/// The result of adding all files to the index.
struct Walk {
    tree: Oid,
    nested: Vec<PathBuf>,
    unkept: Option<String>,
    unopened: Option<String>,
    unconverted: Option<String>,
}

impl Snapshot {
    /// Refuses to continue if there are files that no rollback could restore.
    pub fn check_whole(&self) -> Result<()> {
        let Some(unkept) = self.trouble() else { return Ok(()) };
        bail!(
            Problem::fatal(format!("git cannot add every file of the work tree: {unkept}"))
                .hint("git add -A --dry-run   to see it; make the file readable, or add it to .git/info/exclude")
        )
    }

    /// The reason why the tree differs from what `git add` should make of the work tree, if it does.
    pub fn trouble(&self) -> Option<&str> {
        self.unkept.as_deref().or(self.unconverted.as_deref())
    }
}

impl Workspace {
    fn protected_file(&self) -> PathBuf {
        self.record_file(IGNORED)
    }

    /// The path of a record about the workspace. For a private clone it is out of the agent's reach.
    fn record_file(&self, name: &str) -> PathBuf {
        match self.kind {
            WorkspaceKind::InPlace => self.dir.join(name),
            WorkspaceKind::Isolated => self.note_file(name),
        }
    }

    pub(super) fn save_protected(&self, protected: &PathSet) -> Result<()> {
        Ok(protected.save(&self.protected_file())?)
    }

    fn known_nested_file(&self) -> PathBuf {
        self.record_file("nested")
    }

    /// Records the repositories that were in the work tree before the run, and so belong to the user.
    pub(super) fn save_nested(&self, nested: &[PathBuf]) -> Result<()> {
        let nested = PathSet::new(nested.iter().cloned());
        nested.save(&self.record_file(NESTED_AT_START))?;
        Ok(nested.save(&self.known_nested_file())?)
    }

    /// Notices about the repositories in the work tree that did not exist before the run: landed attempts made them, or the user. `unknown`
    /// are those that a scan has just found.
    pub(crate) fn nested_since_start(&self, unknown: Vec<PathBuf>) -> Vec<Notice> {
        let Ok(before) = PathSet::load(&self.record_file(NESTED_AT_START)) else { return Vec::new() };
        let known = self.known_nested();
        let new: BTreeSet<PathBuf> = known.paths().cloned().chain(unknown).chain(self.planted_git_dirs()).collect();
        let is_there = |path: &PathBuf| self.repo.place.top.join(path).symlink_metadata().is_ok();
        let stays = |path: PathBuf| Notice::NestedStays { path: path.display().to_string() };
        new.into_iter().filter(|path| !before.covers(path) && is_there(path)).map(stays).collect()
    }

    /// Brings the workspace in line with a landed checkpoint: no operation is under way, HEAD is on the branch, deleted ignored
    /// files are restored, and the index matches the checkpoint. Repeating it is harmless.
    pub(crate) async fn follow_landing(&self, snapshot: &Snapshot, head: Option<&Head>, label: &str) -> Result<Vec<Notice>> {
        let mut notices = self.clean_git_state(head, label).await?;
        notices.extend(self.restore_ignored(Treatment::KeepEdits, label)?);
        notices.extend(self.restore_nested(Treatment::KeepEdits, label)?);
        notices.extend(self.restore_removed_strays(label).await?);
        self.install_index(&self.private_index()).await?;
        self.take_note_of(snapshot).await?;
        Ok(notices)
    }

    /// The snapshot of a checkpoint that has already landed on `before`. Later edits are not part of it, and are removed from the
    /// private index.
    pub(crate) async fn snapshot_of_checkpoint(&self, commit: &Oid, before: &Oid) -> Result<Snapshot> {
        let nested = self.snapshot(commit).await?.nested;
        self.index_repo().read_tree(&self.private_index(), commit).await?;
        let changes = self.repo.diff_trees(before, commit).await?;
        Ok(Snapshot { tree: self.repo.tree_of(commit).await?, changes, nested, unkept: None, unopened: None, unconverted: None })
    }

    /// Records the nested repositories and ignored files that a landed attempt left, so that no later rollback touches them.
    async fn take_note_of(&self, snapshot: &Snapshot) -> Result<()> {
        self.know_nested(&snapshot.nested)?;
        let rules = |change: &PathChange| change.path.file_name().is_some_and(|name| name == ".gitignore");
        if snapshot.changes.iter().any(rules) {
            self.protect_ignored(&self.repo.status(&self.private_index()).await?)?;
        }
        Ok(())
    }

    /// Lists ignored files before an attempt. Returns those that an earlier attempt of this process may have created. Ignored
    /// files and nested repositories found before the first attempt of a process may be the user's, created since the last
    /// process ended, so they are protected.
    pub(super) async fn list_ignored(&self) -> Result<Vec<PathBuf>> {
        let listed = self.note_listing(Listed::BeforeAnAttempt);
        match (listed, self.kind) {
            (Listed::AtStart, _) | (Listed::BeforeAnAttempt, WorkspaceKind::Isolated) => Ok(Vec::new()),
            (Listed::BeforeAnAttempt, WorkspaceKind::InPlace) => {
                let (top, index) = (self.repo.place.top.clone(), self.private_index());
                match tokio::task::spawn_blocking(move || beside_index(&top, &index)).await? {
                    Some(files) => Ok(files),
                    None => self.repo.ignored_files(&self.private_index()).await,
                }
            }
            (Listed::Never, _) => {
                let entries = self.repo.status(&self.private_index()).await?;
                self.protect_ignored(&entries)?;
                self.know_nested(&entries.iter().filter_map(nested).collect::<Vec<_>>())?;
                Ok(Vec::new())
            }
        }
    }

    /// Notes when ignored files were listed. Returns what was noted before.
    pub(super) fn note_listing(&self, listed: Listed) -> Listed {
        mem::replace(&mut *self.listed.lock().unwrap_or_else(PoisonError::into_inner), listed)
    }

    fn protect_ignored(&self, entries: &[TreeEntry]) -> Result<()> {
        let mut protected = self.protected();
        protected.extend(entries.iter().filter_map(|entry| if let TreeEntry::Ignored(path) = entry { Some(path.clone()) } else { None }));
        self.save_protected(&protected)
    }

    /// Protects directories that belong to another user and that we cannot read: an attempt cannot read them either.
    pub(super) fn protect_unopened(&self, snapshot: &Snapshot) -> Result<()> {
        let Some(errors) = &snapshot.unopened else { return Ok(()) };
        let mut protected = self.protected();
        protected.extend(denied(errors).map(|path| without_slash(Path::new(path)).to_owned()));
        self.save_protected(&protected)
    }

    fn know_nested(&self, nested: &[PathBuf]) -> Result<()> {
        if nested.is_empty() {
            return Ok(());
        }
        let mut known = self.known_nested();
        known.extend(nested.iter().cloned());
        Ok(known.save(&self.known_nested_file())?)
    }

    pub(super) fn known_nested(&self) -> PathSet {
        PathSet::load(&self.known_nested_file()).unwrap_or_default()
    }

    pub(super) fn protected(&self) -> PathSet {
        PathSet::load(&self.protected_file()).unwrap_or_default()
    }

    /// Takes a snapshot and compares it with `against`. A missing private index is first created from `against`.
    pub(crate) async fn snapshot(&self, against: &Oid) -> Result<Snapshot> {
        self.snapshot_from_walk(None, against).await
    }

    /// The same, where the scan may have been done already; `walked` is its result.
    pub(crate) async fn snapshot_from_walk(&self, walked: Option<Answer>, against: &Oid) -> Result<Snapshot> {
        let index = self.private_index();
        if !index.exists() {
            self.repo.read_tree(&index, against).await?;
        }
        let Walk { mut tree, mut nested, unkept, unopened, unconverted } = self.add_everything(walked, &index, against).await?;
        let mut changes = self.repo.diff_trees(against, &tree).await?;
        let protected = self.protected();
        let linked = self.unregistered_gitlinks(&changes);
        let mut out: Vec<PathBuf> =
            changes.iter().filter(|c| c.status == 'A' && protected.covers(&c.path)).map(|c| c.path.clone()).collect();
        out.extend(linked.iter().cloned());
        nested.extend(linked);
        if !out.is_empty() {
            self.index_repo().forget(&index, &out).await?;
            tree = self.index_repo().write_tree(&index).await?;
            changes.retain(|change| !out.contains(&change.path));
        }
        let known = self.known_nested();
        nested.retain(|path| !known.covers(path));
        let unopened = unopened.filter(|errors| denied(errors).any(|path| !protected.covers(without_slash(Path::new(path)))));
        Ok(Snapshot { tree, changes, nested, unkept, unopened, unconverted })
    }

    /// The snapshot of a work tree that is about to be restored. Files that git cannot store are moved into the run's directory,
    /// so that no later attempt finds them.
    pub(crate) async fn snapshot_to_leave(
        &self,
        walked: Option<Answer>,
        against: &Oid,
        label: &str,
        notices: &mut Vec<Notice>,
    ) -> Result<Snapshot> {
        let mut snapshot = self.snapshot_from_walk(walked, against).await?;
        if let Some(unkept) = snapshot.unkept.take().or(snapshot.unopened.take()) {
            self.move_unkept_aside(&unkept, label, notices).await?;
            snapshot = self.snapshot(against).await?;
        }
        // Files that could not be moved either are reported already.
        let is_named = notices.iter().any(|notice| matches!(notice, Notice::Unkept { .. }));
        notices.extend(snapshot.unkept.clone().filter(|_| !is_named).map(|error| Notice::Unkept { error }));
        notices.extend(snapshot.unconverted.clone().map(|error| Notice::Unconverted { error }));
        Ok(snapshot)
    }

    /// Moves all files into the run's directory that git could not add; `errors` are git's messages about them.
    pub(crate) async fn move_unkept_aside(&self, errors: &str, label: &str, notices: &mut Vec<Notice>) -> Result<()> {
        let top = &self.repo.place.top;
        let (known, protected) = (self.known_nested(), self.protected());
        let left = self.repo.untracked(&self.private_index()).await?.into_iter().filter(|path| !is_opaque_directory(path));
        let left = left.filter(|path| !known.covers(path) && !protected.covers(path));
        let unreadable = denied(errors).filter(|path| File::open(top.join(path)).is_err()).map(PathBuf::from);
        let unreadable = unreadable.filter(|path| !protected.covers(without_slash(path))).map(|path| without_slash(&path).to_owned());
        for path in left.chain(unreadable).collect::<BTreeSet<_>>() {
            let shown = path.display().to_string();
            match self.move_aside(&path, label) {
                Ok(to) => notices.push(Notice::UnkeptMoved { path: shown, to: to.display().to_string() }),
                Err(error) => notices.push(Notice::Unkept { error: format!("{error:#}") }),
            }
            // Removes directories that have become empty, as git does when it removes a file.
            let _ =
                path.ancestors().skip(1).take_while(|dir| !dir.as_os_str().is_empty()).try_for_each(|dir| fs::remove_dir(top.join(dir)));
        }
        Ok(())
    }

    /// Builds the snapshot from a finished `git status`, without a second scan. Returns none if a scan is needed after all.
    pub(super) async fn snapshot_from_status(&self, entries: &[TreeEntry], against: &Oid) -> Result<Option<Snapshot>> {
        let mut paths = Vec::new();
        for entry in entries {
            match entry {
                TreeEntry::Unmerged(_) => return Ok(None),
                TreeEntry::Changed(path) => paths.push(path.clone()),
                TreeEntry::Untracked(path) if !is_opaque_directory(path) => paths.push(path.clone()),
                TreeEntry::Untracked(_) | TreeEntry::Ignored(_) => {}
            }
        }
        let snapshot =
            |tree, changes| Some(Snapshot { tree, changes, nested: Vec::new(), unkept: None, unopened: None, unconverted: None });
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

    /// Adds all files to the index. A nested repository without commits makes `git add` fail completely, so those are found and
    /// left out.
    async fn add_everything(&self, walked: Option<Answer>, index: &Path, seed: &Oid) -> Result<Walk> {
        let walked = if self.is_unconverted() {
            // The last scan stored files without their filters. git would trust those entries by their times, so this scan starts
            // from an index without them; the filters may work again.
            fs::remove_dir_all(self.unconverted_dir())?;
            fs::remove_file(index)?;
            self.repo.read_tree(index, seed).await?;
            None
        } else {
            walked
        };
        let mut answer = match walked {
            Some(answer) => answer,
            None => self.add_patiently(index).await?,
        };
        for _ in 0..ROUNDS {
            // git only warns about a directory that it may not enter, and treats it as empty.
            if !self.open_up(&answer.errors()) && !self.clear_broken(&answer.errors())? {
                break;
            }
            answer = self.add_patiently(index).await?;
        }
        let said = answer.errors();
        let unopened = denied(&said).next().is_some().then(|| said.clone());
        let (nested, unkept, unconverted) = if answer.code == 0 {
            (Vec::new(), None, None)
        } else {
            self.move_specials_aside(special::is_special).await?;
            self.add_what_can_be(answer, index).await?
        };
        let repo = self.index_repo();
        let tree = match repo.write_tree(index).await {
            Ok(tree) => tree,
            Err(_) => {
                // A gc removed objects that only the private index referred to, so the index is rebuilt.
                fs::remove_file(index)?;
                repo.read_tree(index, seed).await?;
                let again = repo.add_all(index, &nested, Tolerance::SkipUnaddable).await?;
                if again.code > 1 {
                    bail!(again.failure());
                }
                repo.write_tree(index).await?
            }
        };
        Ok(Walk { tree, nested, unkept, unopened, unconverted })
    }

    /// After a scan that failed: adds everything except nested repositories and single files that git cannot add. If a filter or
    /// an encoding keeps git from adding anything, files are added byte for byte. Returns the nested repositories, and git's
    /// messages.
    async fn add_what_can_be(&self, failed: Answer, index: &Path) -> Result<(Vec<PathBuf>, Option<String>, Option<String>)> {
        let unkept = |answer: &Answer| (answer.code != 0).then(|| answer.errors());
        let why = if failed.is_too_late() {
            failed.errors()
        } else {
            match self.add_but_nested(&self.repo, index).await {
                Ok((nested, answer)) if answer.code <= 1 => return Ok((nested, unkept(&answer), None)),
                Ok((_, answer)) => answer.errors(),
                Err(error) if GitError::is_answer(&error) || GitError::of_time_limit(&error).is_some() => format!("{error:#}"),
                Err(error) => return Err(error),
            }
        };
        let (nested, answer) = self.add_but_nested(&self.make_unconverted()?, index).await?;
        if answer.code > 1 {
            bail!(answer.failure());
        }
        Ok((nested, unkept(&answer), Some(why)))
    }

    async fn add_but_nested(&self, repo: &Repo, index: &Path) -> Result<(Vec<PathBuf>, Answer)> {
        let nested = nested_in(repo, index).await?;
        let answer = repo.add_all(index, &nested, Tolerance::SkipUnaddable).await?;
        Ok((nested, answer))
    }

    /// Switches filters, encodings and line-ending conversion off for index operations, until the next scan.
    fn make_unconverted(&self) -> Result<Repo> {
        self.repo.make_unconverted(&self.unconverted_dir())
    }

    /// The repository for index operations. Whenever git writes an index, it may read files again through filters and encodings.
    /// If those failed in the last scan, this is the repository without them.
    pub(crate) fn index_repo(&self) -> Repo {
        if self.is_unconverted() { self.repo.unconverted(&self.unconverted_dir()) } else { self.repo.clone() }
    }

    fn unconverted_dir(&self) -> PathBuf {
        self.dir.join("unconverted")
    }

    /// Whether the last scan had to do without filters and encodings.
    pub(super) fn is_unconverted(&self) -> bool {
        self.unconverted_dir().exists()
    }

    /// Adds all files to the index, and deals with whatever blocks git. A FIFO in place of a `.gitignore` blocks git forever: if
    /// the scan takes long, such files are found and moved. A filter that hangs is abandoned.
    pub(super) async fn add_patiently(&self, index: &Path) -> Result<Answer> {
        self.doubt_recent_files(index).await?;
        loop {
            let mut call = Box::pin(self.repo.add_all(index, &[], Tolerance::Strict));
            if let Ok(answer) = tokio::time::timeout(PATIENCE, &mut call).await {
                return late_or(answer);
            }
            if special::find(&self.repo.place.top, special::is_blocking).await?.is_empty() {
                if let Ok(answer) = tokio::time::timeout(FILTER_PATIENCE, &mut call).await {
                    return late_or(answer);
                }
                let hangs = self.repo.has_filters().await?;
                return if hangs { Ok(Answer::too_late("a filter did not end within ten minutes")) } else { late_or(call.await) };
            }
            drop(call);
            self.move_specials_aside(special::is_blocking).await?;
        }
    }

    /// Makes files and directories readable that git could not read. Returns whether there were any.
    fn open_up(&self, errors: &str) -> bool {
        let mut opened = false;
        for path in denied(errors).map(|path| self.repo.place.top.join(path)) {
            let Ok(meta) = path.symlink_metadata() else { continue };
            let wanted = if meta.is_dir() { 0o700 } else { 0o600 };
            let mode = meta.permissions().mode();
            opened |= mode & wanted != wanted && fs::set_permissions(&path, fs::Permissions::from_mode(mode | wanted)).is_ok();
        }
        opened
    }

    /// Moves an invalid `.git` aside, because git refuses to add anything while it exists. Returns whether it found one.
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

    /// New gitlinks that `.gitmodules` does not list: repositories that were created inside the work tree.
    fn unregistered_gitlinks(&self, changes: &[PathChange]) -> Vec<PathBuf> {
        let links: Vec<&PathChange> = changes.iter().filter(|c| c.new_mode == GITLINK && c.old_mode != GITLINK).collect();
        if links.is_empty() {
            return Vec::new();
        }
        let registered = self.registered_submodules();
        links.into_iter().filter(|link| !registered.contains(&link.path)).map(|link| link.path.clone()).collect()
    }

    /// Resets the private index to the user's new commit: files in it are tracked even if they are ignored, as in git's own
    /// index.
    pub(crate) async fn reset_private_index_to(&self, moved: Option<&Oid>) -> Result<()> {
        match moved {
            Some(tip) => self.index_repo().read_tree(&self.private_index(), tip).await,
            None => Ok(()),
        }
    }
}

/// The nested repositories that git finds and does not look into.
async fn nested_in(repo: &Repo, index: &Path) -> Result<Vec<PathBuf>> {
    Ok(repo.status(index).await?.iter().filter_map(nested).collect())
}

/// The path of a nested repository that git does not look into, if the entry is one.
pub(super) fn nested(entry: &TreeEntry) -> Option<PathBuf> {
    match entry {
        TreeEntry::Untracked(path) if is_opaque_directory(path) => Some(without_slash(path).to_owned()),
        _ => None,
    }
}

/// The paths in git's errors that it had no permission to read.
fn denied(errors: &str) -> impl Iterator<Item = &str> {
    let denied = errors.lines().filter(|line| line.ends_with("Permission denied"));
    denied.filter_map(|line| line.split_once(['\'', '"']).and_then(|(_, rest)| rest.split_once(['\'', '"'])).map(|(path, _)| path))
}

/// Treats a scan that exceeded its time limit as one that failed.
fn late_or(answer: Result<Answer>) -> Result<Answer> {
    answer.or_else(|error| match GitError::of_time_limit(&error) {
        Some(late) => Ok(Answer::too_late(&late.to_string())),
        None => Err(error),
    })
}
