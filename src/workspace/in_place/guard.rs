//! Records the user's refs, stash, configuration and hooks before an attempt, compares them after it, and repairs what the agent destroyed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::foreign_refs::Comparison;
use super::git_essentials::{ALTERNATES, ALTERNATES_COPY};
use super::mirror::{rewrite, write_if_changed};

use crate::git::{Oid, RefList, RefUpdate, StashEntry, operation_commits};
use crate::names::attempt_label;
use crate::story::StoryId;
use crate::workspace::{Notice, Workspace};

/// The configuration of the repository; that of a work tree has the same beginning.
pub(super) const CONFIG: &str = "config";
const WORKTREE_CONFIG: &str = "config.worktree";
pub(super) const HOOKS: &str = "hooks";
pub(super) const INFO: &str = "info";
/// The copy of the directory `info` of a linked work tree.
pub(super) const OWN_INFO: &str = "own-info";
pub(super) const SHALLOW: &str = "shallow";

/// The most commits that get a ref each. All refs are listed before and after every attempt, so their number must be limited.
const MOST_PINS: usize = 64;
/// The most parents of a commit that joins others.
const MOST_PARENTS: usize = 200;

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    /// It is about to land: refs and settings that the agent created stay, those that it destroyed are restored.
    Landing,
    /// It is about to be rolled back: everything is restored.
    RollingBack,
}

/// The result of the comparison.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Ref updates for the next transaction.
    pub updates: Vec<RefUpdate>,
    /// Symbolic refs to create again, with their targets.
    pub symbolic: Vec<(String, String)>,
    /// The new entries of the stash, if it must be rebuilt. Entries that it loses must be under a ref before that.
    pub stash: Option<Vec<StashEntry>>,
    /// Messages for the user.
    pub notices: Vec<Notice>,
    /// Commits that no ref keeps.
    pub pins: Vec<Oid>,
    /// Whether files were hidden from git, so that missing files cannot be distinguished from deleted ones.
    pub sparse: bool,
}

impl Findings {
    /// Whether the refs are still as they were listed: nothing was found that changes one.
    pub(crate) fn leave_refs_alone(&self) -> bool {
        self.updates.is_empty() && self.notices.is_empty()
    }
}

/// Whether a name from [`Workspace::git_files`] is that of a file of settings.
pub(super) fn is_config(name: &str) -> bool {
    name.starts_with(CONFIG) || name.ends_with(WORKTREE_CONFIG)
}

impl Workspace {
    pub(super) fn guard_dir(&self) -> PathBuf {
        self.dir.join("guard")
    }

    /// Records refs and stash, and pins the commits that they point to.
    pub(in crate::workspace) async fn guard_refs(&self, refs: &RefList) -> Result<()> {
        let dir = self.guard_dir();
        let stash = self.repo.stash(refs).await?;
        let foreign = refs.without(|name| self.names.owns(name));
        let record = format!("{}{}", foreign.lines(), stash.iter().map(StashEntry::line).collect::<String>());
        let mut pinned = Vec::new();
        let is_pinned = refs.below(&self.names.pins()).next().is_some();
        if !is_pinned || fs::read_to_string(dir.join("refs")).ok().as_deref() != Some(&record) {
            pinned = self.pin(&foreign, &stash, refs).await?;
            rewrite(&dir.join("tags"), &self.repo.raw_tags(&foreign).await?)?;
            rewrite(&dir.join("refs"), record.as_bytes())?;
        }
        self.record_own_refs(refs, &pinned)
    }

    /// Records configuration and hooks, and the length of the reflog of HEAD.
    pub(in crate::workspace) fn guard_git_files(&self) -> Result<()> {
        let dir = self.guard_dir();
        self.break_seal()?;
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        write_if_changed(&dir.join("head-log"), self.repo.head_log_length().to_string().as_bytes())?;
        write_if_changed(&dir.join("elsewhere"), self.repo.worked_on_elsewhere().join("\n").as_bytes())?;
        let commits = operation_commits(&self.repo.place.git_dir).iter().map(|oid| format!("{oid}\n")).collect::<String>();
        write_if_changed(&dir.join("operation-commits"), commits.as_bytes())?;
        write_if_changed(&dir.join("essentials"), &self.essentials_record())?;
        self.keep_git_files(&dir.join("git-dir"))
    }

    /// The commits that files of unfinished operations, or `ORIG_HEAD`, named before the attempt: they are the user's.
    pub(in crate::workspace) fn known_operation_commits(&self) -> Vec<Oid> {
        let text = fs::read_to_string(self.guard_dir().join("operation-commits")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Gives every commit that a ref or a stash entry points to a second ref. If the agent deletes the first, `git gc` cannot delete the
    /// commit, and `git log --all` shows only commits of the user's. If that needs too many refs, one commit gets them all as parents.
    async fn pin(&self, foreign: &RefList, stash: &[StashEntry], refs: &RefList) -> Result<Vec<RefUpdate>> {
        let tips: BTreeSet<Oid> = foreign.commits().chain(stash.iter().map(|entry| &entry.oid)).cloned().collect();
        let mut pins: Vec<Oid> = tips.into_iter().collect();
        if pins.len() > MOST_PINS {
            pins = self.joined(&pins).await?.into_iter().collect();
        }
        let mut updates = self.unpin_from(refs, pins.len());
        updates.extend(pins.into_iter().enumerate().map(|(number, to)| RefUpdate::Set { name: self.names.pin(number), to }));
        self.repo.update_refs(&updates, "git ralph").await?;
        Ok(updates)
    }

    /// One commit from which all of these can be reached.
    async fn joined(&self, tips: &[Oid]) -> Result<Option<Oid>> {
        let tree = self.repo.empty_tree().await?;
        let mut joined: Option<Oid> = None;
        for tips in tips.chunks(MOST_PARENTS) {
            let parents: Vec<&Oid> = joined.iter().chain(tips).collect();
            joined = Some(self.repo.commit(&tree, &parents, "refs before an attempt\n").await?);
        }
        Ok(joined)
    }

    /// The ref updates that delete the pins with this number and higher ones.
    fn unpin_from(&self, refs: &RefList, first: usize) -> Vec<RefUpdate> {
        let prefix = self.names.pins();
        let number = |name: &str| name.strip_prefix(&prefix).and_then(|rest| rest.parse::<usize>().ok());
        let old = refs.below(&prefix).filter(|entry| number(&entry.name).is_none_or(|number| number >= first));
        old.map(|entry| RefUpdate::Delete { name: entry.name.clone(), from: entry.oid.clone() }).collect()
    }

    /// Deletes the pins when no attempt is running. The next attempt creates them again.
    pub async fn unpin(&self) -> Result<()> {
        let updates = self.unpin_from(&self.repo.refs().await?, 0);
        self.repo.update_refs(&updates, "git ralph").await
    }

    /// Compares the git directory with the record. Repairs tag objects, configuration and hooks. The caller must repair refs and stash by
    /// the findings.
    pub(in crate::workspace) async fn compare_git(
        &self,
        refs: &RefList,
        story: &StoryId,
        attempt: u32,
        end: AttemptEnd,
        untouched: bool,
    ) -> Result<Findings> {
        let mut findings = Findings::default();
        findings.notices.extend(self.take_restored().then_some(Notice::StateRestored {}));
        let label = attempt_label(story, attempt);
        let Ok(record) = fs::read_to_string(self.guard_dir().join("refs")) else { return Ok(findings) };
        let before = RefList::from_lines(&record)?;
        let known = fs::read_to_string(self.guard_dir().join("elsewhere")).unwrap_or_default();
        let mut elsewhere = self.repo.worked_on_elsewhere();
        elsewhere.retain(|branch| known.lines().any(|line| line == branch));
        let comparison = Comparison { before: &before, now: refs, story, attempt, elsewhere: &elsewhere };
        self.compare_refs(&comparison, &mut findings).await?;
        self.compare_own_refs(&comparison, &mut findings)?;
        if !findings.updates.is_empty() {
            self.repo.revive_tags(&fs::read(self.guard_dir().join("tags")).unwrap_or_default()).await?;
        }
        self.clear_the_way(&comparison, &mut findings);
        self.revive_objects(&mut findings).await?;
        self.compare_stash(&StashEntry::from_lines(&record), refs, end, &label, &mut findings).await?;
        let since = fs::read_to_string(self.guard_dir().join("head-log")).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        findings.pins.extend(self.repo.head_log_since(since));
        if untouched {
            return Ok(findings);
        }
        let kept = self.guard_dir().join("git-dir");
        if end == AttemptEnd::Landing {
            findings.sparse = self.sparse_differs().await?;
        }
        self.compare_git_files(&kept, &label, end, &mut findings)?;
        Ok(findings)
    }

    /// Determines the entries that the stash should have: the user's in their order, without those of the failed agent. An entry stays if
    /// it may be the user's, because this process was not running when it was made.
    async fn compare_stash(
        &self,
        before: &[StashEntry],
        refs: &RefList,
        end: AttemptEnd,
        label: &str,
        findings: &mut Findings,
    ) -> Result<()> {
        let now = self.repo.stash(refs).await?;
        let cut_short = fs::read_to_string(self.stash_record()).ok().map(|record| StashEntry::from_lines(&record));
        let known = cut_short.as_deref().unwrap_or(before);
        let holds = |entries: &[StashEntry], entry: &StashEntry| entries.iter().any(|other| other.oid == entry.oid);
        let gone = known.iter().filter(|entry| !holds(&now, entry)).count();
        let added: Vec<&StashEntry> = now.iter().filter(|entry| !holds(known, entry) && !holds(before, entry)).collect();
        let is_agents = |entry: &&StashEntry| end == AttemptEnd::RollingBack && entry.is_from(&self.names.short_branch());
        let agents = added.iter().filter(|entry| is_agents(entry)).count();
        let taken = if self.has_watched(label) { agents } else { 0 };
        if agents > taken {
            findings.notices.push(Notice::StashLeft { entries: agents });
        }
        if gone == 0 && taken == 0 {
            let _ = fs::remove_file(self.stash_record());
            findings.pins.extend(added.iter().filter(|entry| is_agents(entry)).map(|entry| entry.oid.clone()));
            return Ok(());
        }
        // While the stash is rebuilt, no other ref keeps them.
        findings.pins.extend(added.iter().map(|entry| entry.oid.clone()));
        let stay = added.into_iter().filter(|entry| taken == 0 || !is_agents(entry));
        findings.stash = Some(stay.chain(known).cloned().collect());
        findings.notices.push(Notice::StashRestored { gone, taken });
        Ok(())
    }

    /// The file that lists the new entries of the stash while it is rebuilt.
    fn stash_record(&self) -> PathBuf {
        self.guard_dir().join("stash")
    }

    /// Rebuilds the stash. If that is interrupted, the next inspection completes it from the list of its new entries. All its current
    /// entries must be under a ref.
    pub(super) async fn rebuild_stash(&self, entries: &[StashEntry]) -> Result<()> {
        let (record, new) = (self.stash_record(), self.guard_dir().join("stash.new"));
        fs::write(&new, entries.iter().map(StashEntry::line).collect::<String>())?;
        fs::rename(&new, &record).with_context(|| format!("cannot write {}", record.display()))?;
        self.repo.rebuild_stash(entries).await?;
        fs::remove_file(&record).with_context(|| format!("cannot remove {}", record.display()))
    }

    /// The files in the git directory that configure git, with their paths in the common directory or in that of the work tree.
    pub(super) fn git_files(&self) -> Vec<(PathBuf, Cow<'static, str>)> {
        let (common, own) = (&self.repo.place.common_dir, &self.repo.place.git_dir);
        let mut files = vec![
            (common.join(CONFIG), CONFIG.into()),
            (own.join(WORKTREE_CONFIG), WORKTREE_CONFIG.into()),
            (common.join(ALTERNATES), ALTERNATES_COPY.into()),
            (common.join(SHALLOW), SHALLOW.into()),
        ];
        for (dir, name) in [(common.join(HOOKS), HOOKS), (common.join(INFO), INFO), (own.join(INFO), OWN_INFO)] {
            if name != OWN_INFO || own != common {
                files.push((dir, name.into()));
            }
        }
        files.extend(self.other_worktrees().map(|(dir, name)| (dir.join(WORKTREE_CONFIG), format!("{name}/{WORKTREE_CONFIG}").into())));
        files
    }

    /// The git directories of the other work trees of the repository, with names for them.
    fn other_worktrees(&self) -> impl Iterator<Item = (PathBuf, String)> {
        let (common, own) = (self.repo.place.common_dir.clone(), self.repo.place.git_dir.clone());
        let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
        let linked = linked.map(|entry| (entry.path(), format!("worktrees/{}", entry.file_name().display())));
        linked.chain([(common, "main-worktree".to_owned())]).filter(move |(dir, _)| *dir != own)
    }

    /// Whether git's configuration and its ignore rules are the same as before the attempt.
    pub(in crate::workspace) fn settings_are_kept(&self) -> bool {
        self.are_kept(|name| name != HOOKS)
    }

    /// Whether the hooks are the same as before the attempt.
    pub(in crate::workspace) fn hooks_are_kept(&self) -> bool {
        self.are_kept(|name| name == HOOKS)
    }

    fn are_kept(&self, asked: impl Fn(&str) -> bool) -> bool {
        let kept = self.guard_dir().join("git-dir");
        self.git_files().into_iter().filter(|(_, name)| asked(name)).all(|(path, name)| self.mirror.same(&path, &kept.join(&*name)))
    }

    fn keep_git_files(&self, to: &Path) -> Result<()> {
        for (path, name) in self.git_files() {
            self.mirror.copy(&path, &to.join(&*name)).with_context(|| format!("cannot copy {}", path.display()))?;
            if let Ok(target) = fs::read_link(&path) {
                write_if_changed(&to.join(format!("{name}.link")), target.as_os_str().as_bytes())?;
            }
        }
        Ok(())
    }

    /// Whether this is the user's unchanged symbolic link into the work tree. Its target is rolled back with the tree, so the
    /// link is left alone.
    pub(super) fn is_in_work_tree(&self, path: &Path, kept: &Path, name: &str) -> bool {
        let Ok(target) = fs::read_link(path) else { return false };
        let place = &self.repo.place;
        fs::read(kept.join(format!("{name}.link"))).is_ok_and(|known| known == target.as_os_str().as_bytes())
            && fs::canonicalize(path).is_ok_and(|found| found.starts_with(&place.top) && !found.starts_with(&place.common_dir))
    }

    fn compare_git_files(&self, kept: &Path, label: &str, end: AttemptEnd, findings: &mut Findings) -> Result<()> {
        // `shallow` has been restored already, but for the entries that a shallow fetch needs.
        for (path, name) in self.git_files().into_iter().filter(|(_, name)| name != SHALLOW) {
            let copy = kept.join(&*name);
            if self.mirror.same(&path, &copy) || self.is_in_work_tree(&path, kept, &name) {
                continue;
            }
            let aside = self.aside(&name, label);
            if end == AttemptEnd::Landing {
                // The agent's file stays, but it may have replaced one of the user's.
                self.mirror.copy(&copy, &aside)?;
                let before = aside.exists().then(|| aside.display().to_string());
                findings.notices.push(Notice::GitFileChanged { name: name.into_owned(), before });
                continue;
            }
            findings.notices.push(self.exchange(&path, &copy, &name, &aside)?);
        }
        Ok(())
    }

    /// Restores a file or directory of the git directory from its copy. What the attempt left in its place, if anything, is saved as
    /// `aside`.
    pub(super) fn exchange(&self, path: &Path, copy: &Path, name: &str, aside: &Path) -> Result<Notice> {
        self.mirror.copy(path, aside)?;
        self.mirror.copy(copy, path).with_context(|| format!("cannot restore {}", path.display()))?;
        let kept = aside.symlink_metadata().is_ok().then(|| aside.display().to_string());
        Ok(Notice::GitFileRestored { name: name.to_owned(), kept })
    }
}
