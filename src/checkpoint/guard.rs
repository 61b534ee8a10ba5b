//! What is the user's in git's own directory: recorded before an attempt, compared after it, put right where destroyed.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};

use super::foreign_refs::Comparison;
use super::submodules::Moment;
use super::{Keeper, Notice};
use crate::git::{Oid, RefList, RefUpdate, StashEntry};
use crate::story::StoryId;

/// Settings under which git sees another work tree, or less of this one.
const BLINDING: [&str; 4] = ["core.worktree", "core.bare", "core.sparseCheckout", "core.ignoreStat"];

const HOOKS: &str = "hooks";

/// What the end of an attempt means for the things around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is about to land: what the agent set up stays, what it destroyed comes back.
    Landing,
    /// It is about to be rolled back: everything is as before.
    RollingBack,
}

/// What comparing has found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// To be part of the ref transaction.
    pub updates: Vec<RefUpdate>,
    /// Symbolic refs to be made again, with what they stand for.
    pub symbolic: Vec<(String, String)>,
    /// What the user should hear of.
    pub notices: Vec<Notice>,
    /// Commits that nothing else would keep.
    pub pins: Vec<Oid>,
    /// Files have been hidden from git, so that what is there cannot be told from what was deleted.
    pub sparse: bool,
}

impl Keeper {
    fn guard_dir(&self) -> PathBuf {
        self.dir.join("guard")
    }

    /// Records refs and stash, and pins what they point at.
    ///
    /// # Errors
    /// If something cannot be written.
    pub async fn guard_refs(&self, refs: &RefList) -> Result<()> {
        let dir = self.guard_dir();
        let stash = self.repo.stash(refs).await?;
        let foreign = refs.without(&self.names.branch(), &self.names.prefix());
        let record = format!("{}{}", foreign.lines(), stash.iter().map(StashEntry::line).collect::<String>());
        if fs::read_to_string(dir.join("refs")).ok().as_deref() != Some(&record) {
            self.pin(&foreign, &stash).await?;
            fs::write(dir.join("tags"), self.repo.raw_tags(&foreign).await?)?;
            fs::write(dir.join("refs"), record)?;
        }
        Ok(())
    }

    /// Records configuration, hooks, ignored files and submodules, and where the logs end.
    ///
    /// # Errors
    /// If something cannot be written.
    pub async fn guard_files(&self) -> Result<()> {
        let dir = self.guard_dir();
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        self.copy_ignored().context("cannot copy ignored files")?;
        self.keep_submodules(Moment::Attempt).await?;
        note(&dir.join("head-log"), &self.repo.head_log_length().to_string())?;
        note(&dir.join("elsewhere"), &self.repo.worked_on_elsewhere().join("\n"))?;
        note(&dir.join("operation-commits"), &self.operation_commits().iter().map(|oid| format!("{oid}\n")).collect::<String>())?;
        self.keep_git_files(&dir.join("git-dir"))
    }

    /// The commits that files of unfinished operations, or `ORIG_HEAD`, named before the attempt: they are the user's.
    pub(super) fn known_operation_commits(&self) -> Vec<Oid> {
        let text = fs::read_to_string(self.guard_dir().join("operation-commits")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// One commit that has every ref and every stash entry as its parent: no gc can take what the agent deletes.
    async fn pin(&self, refs: &RefList, stash: &[StashEntry]) -> Result<()> {
        let tips: BTreeSet<Oid> = refs.commits().chain(stash.iter().map(|entry| &entry.oid)).cloned().collect();
        let tree = self.repo.empty_tree().await?;
        let mut pin: Option<Oid> = None;
        for tips in tips.iter().collect::<Vec<_>>().chunks(200) {
            let parents: Vec<&Oid> = pin.iter().chain(tips.iter().copied()).collect();
            pin = Some(self.repo.commit(&tree, &parents, "refs before an attempt\n").await?);
        }
        match pin {
            Some(to) => self.repo.update_refs(&[RefUpdate::Set { name: self.names.pin(), to }], "git ralph").await,
            None => Ok(()),
        }
    }

    /// Compares with what was recorded. Nothing is changed yet but for files of configuration and hooks, unless those are known
    /// to be untouched.
    pub(super) async fn inspect(
        &self,
        refs: &RefList,
        story: &StoryId,
        attempt: u32,
        verdict: Verdict,
        untouched: bool,
    ) -> Result<Findings> {
        let mut findings = Findings::default();
        let label = format!("{}-{attempt}", story.as_component());
        let Ok(record) = fs::read_to_string(self.guard_dir().join("refs")) else { return Ok(findings) };
        let before = RefList::from_lines(&record)?;
        let known = fs::read_to_string(self.guard_dir().join("elsewhere")).unwrap_or_default();
        let mut elsewhere = self.repo.worked_on_elsewhere();
        elsewhere.retain(|branch| known.lines().any(|line| line == branch));
        let comparison = Comparison { before: &before, now: refs, story, attempt, elsewhere: &elsewhere };
        self.compare_refs(&comparison, &mut findings).await?;
        if !findings.updates.is_empty() {
            self.repo.revive_tags(&fs::read(self.guard_dir().join("tags")).unwrap_or_default()).await?;
        }
        self.clear_the_way(&comparison, &mut findings);
        self.compare_stash(&StashEntry::from_lines(&record), refs, verdict, &mut findings).await?;
        let since = fs::read_to_string(self.guard_dir().join("head-log")).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        findings.pins.extend(self.repo.head_log_since(since));
        if untouched {
            return Ok(findings);
        }
        let kept = self.guard_dir().join("git-dir");
        if verdict == Verdict::Landing {
            findings.sparse = self.unblind(&kept).await?;
        }
        self.compare_git_files(&kept, &label, verdict, &mut findings)?;
        Ok(findings)
    }

    /// Puts the settings back that would make git blind; says whether files had been hidden from it.
    async fn unblind(&self, kept: &Path) -> Result<bool> {
        let mut sparse = false;
        for (path, name) in self.git_files().into_iter().filter(|(_, name)| name.starts_with("config")) {
            let copy = kept.join(name);
            if same(&path, &copy) {
                continue;
            }
            for key in BLINDING {
                let (was, is) = (self.repo.setting_in(&copy, key).await?, self.repo.setting_in(&path, key).await?);
                if was != is {
                    sparse |= key == "core.sparseCheckout";
                    self.repo.set_in(&path, key, was.as_deref()).await?;
                }
            }
        }
        Ok(sparse)
    }

    /// The user's entries come back in their order; those that the failed agent made go with it.
    async fn compare_stash(&self, before: &[StashEntry], refs: &RefList, verdict: Verdict, findings: &mut Findings) -> Result<()> {
        let now = self.repo.stash(refs).await?;
        let gone = before.iter().filter(|entry| !now.iter().any(|other| other.oid == entry.oid)).count();
        let ours = |entry: &&StashEntry| {
            let agents = !before.iter().any(|other| other.oid == entry.oid) && entry.is_from(&self.names.short_branch());
            agents && verdict == Verdict::RollingBack
        };
        let taken: Vec<&StashEntry> = now.iter().filter(ours).collect();
        findings.pins.extend(taken.iter().map(|entry| entry.oid.clone()));
        if gone == 0 && taken.is_empty() {
            return Ok(());
        }
        let added = now.iter().filter(|entry| !before.iter().any(|other| other.oid == entry.oid) && !taken.contains(entry));
        let wanted: Vec<&StashEntry> = added.chain(before).collect();
        self.repo.rebuild_stash(&wanted).await?;
        findings.notices.push(Notice::StashRestored { gone, taken: taken.len() });
        Ok(())
    }

    /// The files in git's directory that steer it, by their place in the common or the work tree's own directory.
    fn git_files(&self) -> Vec<(PathBuf, &'static str)> {
        let (common, own) = (&self.repo.place.common_dir, &self.repo.place.git_dir);
        let mut files = vec![(common.join("config"), "config"), (own.join("config.worktree"), "config.worktree")];
        for (dir, name) in [(common.join(HOOKS), HOOKS), (common.join("info"), "info"), (own.join("info"), "own-info")] {
            if name != "own-info" || own != common {
                files.push((dir, name));
            }
        }
        files
    }

    /// Whether git's configuration and what it ignores are what they were before the attempt.
    pub(super) fn settings_are_kept(&self) -> bool {
        self.are_kept(|name| name != HOOKS)
    }

    /// Whether the hooks are.
    pub(super) fn hooks_are_kept(&self) -> bool {
        self.are_kept(|name| name == HOOKS)
    }

    fn are_kept(&self, asked: impl Fn(&str) -> bool) -> bool {
        let kept = self.guard_dir().join("git-dir");
        self.git_files().into_iter().filter(|(_, name)| asked(name)).all(|(path, name)| same(&path, &kept.join(name)))
    }

    fn keep_git_files(&self, to: &Path) -> Result<()> {
        for (path, name) in self.git_files() {
            mirror(&path, &to.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
            if let Ok(target) = fs::read_link(&path) {
                fs::write(to.join(format!("{name}.link")), target.as_os_str().as_bytes())?;
            }
        }
        Ok(())
    }

    /// Whether a link of the user's leads into the work tree: what is there goes back with it, and the link shall stay one.
    fn is_in_work_tree(&self, path: &Path, kept: &Path, name: &str) -> bool {
        let Ok(target) = fs::read_link(path) else { return false };
        let place = &self.repo.place;
        fs::read(kept.join(format!("{name}.link"))).is_ok_and(|known| known == target.as_os_str().as_bytes())
            && fs::canonicalize(path).is_ok_and(|found| found.starts_with(&place.top) && !found.starts_with(&place.common_dir))
    }

    fn compare_git_files(&self, kept: &Path, label: &str, verdict: Verdict, findings: &mut Findings) -> Result<()> {
        for (path, name) in self.git_files() {
            let copy = kept.join(name);
            if same(&path, &copy) || self.is_in_work_tree(&path, kept, name) {
                continue;
            }
            if verdict == Verdict::Landing {
                findings.notices.push(Notice::GitFileChanged { name: name.to_owned() });
                continue;
            }
            let aside = self.moved_dir(label).join("git-dir").join(name);
            mirror(&path, &aside)?;
            mirror(&copy, &path).with_context(|| format!("cannot restore {}", path.display()))?;
            findings.notices.push(Notice::GitFileRestored { name: name.to_owned(), kept: aside.display().to_string() });
        }
        Ok(())
    }
}

/// Whether two files or directories hold the same. A link is what it points at; one in a directory is just a link.
fn same(one: &Path, other: &Path) -> bool {
    let names =
        |dir: &Path| fs::read_dir(dir).map(|entries| entries.flatten().map(|entry| entry.file_name()).collect::<BTreeSet<_>>()).ok();
    let same_entry = |one: &Path, other: &Path| match (fs::read_link(one), fs::read_link(other)) {
        (Ok(left), Ok(right)) => left == right,
        (Err(_), Err(_)) => same(one, other),
        _ => false,
    };
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(left), Ok(right)) if left.is_dir() && right.is_dir() => {
            let (left, right) = (names(one), names(other));
            left == right && left.is_some_and(|names| names.iter().all(|name| same_entry(&one.join(name), &other.join(name))))
        }
        (Ok(left), Ok(right)) if left.is_file() && right.is_file() => {
            left.len() == right.len() && left.permissions() == right.permissions() && fs::read(one).ok() == fs::read(other).ok()
        }
        (Ok(_), Ok(_)) => false,
        (left, right) => left.is_err() && right.is_err(),
    }
}

/// Makes `to` what `from` is: a file, a directory of files, or nothing. Links as in [`same`].
fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    if same(from, to) {
        return Ok(());
    }
    match to.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(to)?,
        Ok(_) => fs::remove_file(to)?,
        Err(_) => {}
    }
    let Ok(meta) = fs::metadata(from) else { return Ok(()) };
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if !meta.is_dir() {
        return if meta.is_file() { fs::copy(from, to).map(drop) } else { Ok(()) };
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match fs::read_link(entry.path()) {
            Ok(target) => symlink(target, to)?,
            Err(_) => mirror(&entry.path(), &to)?,
        }
    }
    Ok(())
}

/// Writes a note, if it says something else than the last one: a file that is cut short to be filled again is flushed by the system.
fn note(path: &Path, text: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|last| last == text.as_bytes()) { Ok(()) } else { fs::write(path, text) }
}
