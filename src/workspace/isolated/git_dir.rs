//! Creates the private git directory of a clone anew before every attempt, and extracts the agent's commits from it afterwards.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::carried::{OwnSettings, Setting, config_text};
use super::submodules::Submodule;
use crate::git::{
    Call, Git, GitError, Oid, REPLACED, RefList, RefUpdate, Repo, ShallowEntries, may_have_refs_below, operation_commits, stale,
};
use crate::names::Names;
use crate::{relocate, safe_read, safe_write};

/// Files that are copied from the user's git directory into the clone's, under the same name. Those of the second list come from
/// the git directory of the linked work tree.
const COMMON_FILES: [&str; 3] = ["info/exclude", "info/attributes", "shallow"];
const WORKTREE_FILES: [&str; 1] = ["info/sparse-checkout"];

/// The settings, formats and submodules that every clone of a run is made from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The user's repository, with the user's checkout as its work tree.
    pub repo: Repo,
    names: Names,
    settings: Vec<Setting>,
    object_format: Option<String>,
    ref_format: Option<String>,
    environment: Vec<(OsString, OsString)>,
    pub(super) submodules: Vec<Submodule>,
}

impl Origin {
    /// Reads everything that clones take over. `environment` is that of our own git calls.
    pub async fn read(repo: &Repo, names: &Names, environment: Vec<(OsString, OsString)>) -> Result<Self> {
        let settings = repo.local_settings().await?;
        let format = |key: &str, usual: &str| {
            let set = settings.iter().rev().find(|(known, _)| known == key);
            set.map(|(_, value)| value.to_string_lossy().to_lowercase()).filter(|value| value != usual)
        };
        let (object_format, ref_format) = (format("extensions.objectformat", "sha1"), format("extensions.refstorage", "files"));
        let submodules = Vec::new();
        let mut origin = Origin { repo: repo.clone(), names: names.clone(), settings, object_format, ref_format, environment, submodules };
        origin.submodules = Submodule::all_in(&origin).await?;
        Ok(origin)
    }

    /// The same for a submodule of the repository.
    pub(super) async fn of_submodule(&self, repo: &Repo) -> Result<Self> {
        Origin::read(repo, &self.names, self.environment.clone()).await
    }

    /// Git in the clone at `top`, with our overrides, so that it runs no command that an agent has configured.
    pub fn git_in(&self, top: &Path) -> Git {
        Git::pinned(&top.join(".git"), top, self.environment.clone())
    }

    fn objects(&self) -> PathBuf {
        self.repo.place.common_dir.join("objects")
    }

    /// Creates the git directory of the clone at `top`: HEAD on the run's branch at `commit`, the user's refs under the same
    /// names, objects borrowed through alternates, and a copy of `index`.
    pub async fn make_git_dir(&self, top: &Path, commit: &Oid, refs: &RefList, index: &Path, moved: &Path) -> Result<()> {
        let dir = top.join(".git");
        let cannot = || format!("cannot create {}", dir.display());
        relocate::discard(&dir, moved).with_context(cannot)?;
        if let Some(format) = &self.ref_format {
            self.init(top, format).await?;
        }
        self.write_files(&dir, index).with_context(cannot)?;
        fs::write(dir.join("config"), self.config(&dir)).with_context(cannot)?;
        let head = format!("ref: {}\n", self.names.branch());
        let carried = self.carried_refs(commit, refs);
        if self.ref_format.is_some() {
            let git = self.git_in(top);
            git.call(["symbolic-ref", "HEAD", &self.names.branch()]).output().await?;
            let updates: String = carried.iter().map(|(name, oid)| format!("create {name} {oid}\n")).collect();
            return git.call(["update-ref", "--stdin"]).input(updates).working().output().await.map(drop);
        }
        fs::write(dir.join("HEAD"), head).with_context(cannot)?;
        let mut packed = fs::File::create(dir.join("packed-refs")).with_context(cannot)?;
        let lines: String = carried.iter().map(|(name, oid)| format!("{oid} {name}\n")).collect();
        packed.write_all(format!("# pack-refs with: sorted \n{lines}").as_bytes()).with_context(cannot)
    }

    /// Creates the repository with `git init`, for ref formats that only git can write.
    async fn init(&self, top: &Path, format: &str) -> Result<()> {
        let mut args = vec!["init".to_owned(), "-q".to_owned(), "--template=".to_owned(), format!("--ref-format={format}")];
        args.extend(self.object_format.as_ref().map(|format| format!("--object-format={format}")));
        let git = Git::plain(top.to_owned(), self.environment.clone());
        git.call(args).output().await.map(drop)
    }

    fn write_files(&self, dir: &Path, index: &Path) -> std::io::Result<()> {
        let refs: &[&str] = if self.ref_format.is_none() { &["refs/heads", "refs/tags"] } else { &[] };
        for part in ["objects/info", "objects/pack", "info"].iter().chain(refs) {
            fs::create_dir_all(dir.join(part))?;
        }
        let mut alternates = self.objects().into_os_string();
        alternates.push("\n");
        fs::write(dir.join("objects/info/alternates"), alternates.as_encoded_bytes())?;
        let place = &self.repo.place;
        let common = COMMON_FILES.iter().map(|name| (place.common_dir.join(name), name));
        for (from, name) in common.chain(WORKTREE_FILES.iter().map(|name| (place.git_dir.join(name), name))) {
            if from.is_file() {
                fs::copy(from, dir.join(name))?;
            }
        }
        crate::workspace::index::copy(index, &dir.join("index"))
    }

    fn config(&self, dir: &Path) -> Vec<u8> {
        let (branch, top) = (self.names.short_branch(), self.repo.place.top.display());
        let no_push = format!("git-ralph does not let an agent push; the user pushes {branch} from {top}");
        let storage = self.repo.place.common_dir.join("lfs");
        let own = OwnSettings {
            object_format: self.object_format.as_deref(),
            ref_format: self.ref_format.as_deref(),
            ignores_case: ignores_case(dir),
            no_push: &no_push,
            lfs_storage: storage.as_os_str(),
        };
        config_text(&self.settings, &own)
    }

    /// The user's refs without the stash and git-ralph's own refs, except the work of earlier attempts, which prompts mention.
    fn carried_refs(&self, commit: &Oid, refs: &RefList) -> Vec<(String, Oid)> {
        let (branch, attempts) = (self.names.branch(), self.names.attempts());
        let is_carried =
            |name: &str| name != branch && name != "refs/stash" && (!name.starts_with("refs/ralph/") || name.starts_with(&attempts));
        let mut carried: Vec<(String, Oid)> =
            refs.iter().filter(|entry| is_carried(&entry.name)).map(|entry| (entry.name.clone(), entry.oid.clone())).collect();
        carried.push((branch, commit.clone()));
        carried.sort();
        carried
    }

    /// The commits and the staged tree of an agent in the clone at `top`, in an attempt that began at `commit`. Their objects are
    /// copied into the user's repository. Unreadable commits are left out; an unreadable index is moved to `aside`, a directory
    /// of ours.
    pub async fn agents_commits(&self, top: &Path, commit: &Oid, aside: &Path) -> Result<AgentsCommits> {
        let mut found = AgentsCommits::default();
        if !self.disarm(top)? {
            return Ok(found);
        }
        match self.show_real_history(top).await {
            // The agent has made its git directory unreadable, so gates cannot read it either.
            Err(error) if GitError::is_answer(&error) => {}
            other => other?,
        }
        let staged = self.staged(top, commit, aside).await?;
        if !self.is_untouched(top) {
            found = self.commits_in(top, commit).await?;
        }
        found.staged = staged;
        let wanted: Vec<&Oid> = found.all.iter().chain(&found.head).chain(&found.branch).chain(&found.staged).collect();
        if self.take_objects(top, &wanted, commit, aside).await? {
            return Ok(found);
        }
        // One object that is broken or missing must not keep the others from being taken.
        let mut all = Vec::new();
        for oid in found.all {
            if self.take_objects(top, &[&oid], commit, aside).await? {
                all.push(oid);
            }
        }
        let taken = async |oid: Option<Oid>| match oid {
            Some(oid) if self.take_objects(top, &[&oid], commit, aside).await? => anyhow::Ok(Some(oid)),
            _ => Ok(None),
        };
        let (staged, head, branch) = (taken(found.staged).await?, taken(found.head).await?, taken(found.branch).await?);
        Ok(AgentsCommits { head, branch, all, staged })
    }

    /// Replaces the clone's configuration by ours and removes files that redirect git, so that git runs no command that an agent
    /// has configured. Returns whether there is a usable git directory.
    fn disarm(&self, top: &Path) -> Result<bool> {
        let dir = top.join(".git");
        let is_real = |name: &str| dir.join(name).symlink_metadata().is_ok_and(|meta| meta.is_dir());
        // A symbolic link may point into the user's own repository.
        if dir.canonicalize().ok().as_ref() != Some(&dir) || !is_real(".") || !is_real("objects") || !dir.join("HEAD").exists() {
            return Ok(false);
        }
        let cannot = || format!("cannot write to {}", dir.display());
        if !is_real("info") {
            // Nothing is removed through a link, which may lead to the user's own files.
            relocate::remove_anything(&dir.join("info")).and_then(|()| fs::create_dir(dir.join("info"))).with_context(cannot)?;
        }
        for name in ["config", "config.worktree", "commondir", "hooks", "info/grafts", "info/exclude", "info/attributes"] {
            relocate::remove_anything(&dir.join(name)).with_context(cannot)?;
        }
        for name in ["info/exclude", "info/attributes"] {
            let users = self.repo.place.common_dir.join(name);
            if users.is_file() {
                fs::copy(users, dir.join(name)).with_context(cannot)?;
            }
        }
        safe_write::write(&dir.join("config"), &self.config(&dir)).with_context(cannot)?;
        Ok(true)
    }

    /// Removes refs below `refs/replace/` and entries of `shallow` that an agent planted, so that gates see the history that lands. Entries
    /// for commits without their parents stay: a shallow fetch made them.
    async fn show_real_history(&self, top: &Path) -> Result<()> {
        let mut clone = self.repo.clone();
        clone.git = self.git_in(top);
        let dir = top.join(".git");
        if may_have_refs_below(&dir, REPLACED) {
            let (users, now) = (self.repo.refs().await?, clone.refs().await?);
            let planted = now.below(REPLACED).filter(|entry| users.get(&entry.name).is_none());
            let planted = planted.map(|entry| RefUpdate::Delete { name: entry.name.clone(), from: entry.oid.clone() });
            let changed = users.below(REPLACED).filter(|entry| now.get(&entry.name) != Some(&entry.oid));
            let changed = changed.map(|entry| RefUpdate::Set { name: entry.name.clone(), to: entry.oid.clone() });
            clone.update_refs(&planted.chain(changed).collect::<Vec<_>>(), "git ralph").await?;
        }
        let (shallow, users) = (dir.join("shallow"), self.repo.place.common_dir.join("shallow"));
        let ShallowEntries { now, wanted, .. } = clone.shallow_entries(&users, &shallow).await?;
        if wanted == now {
            return Ok(());
        }
        let cannot = || format!("cannot write {}", shallow.display());
        relocate::remove_anything(&shallow).with_context(cannot)?;
        let text: String = wanted.iter().map(|entry| format!("{entry}\n")).collect();
        if text.is_empty() { Ok(()) } else { safe_write::write(&shallow, text.as_bytes()).with_context(cannot) }
    }

    pub(super) async fn commits_in(&self, top: &Path, commit: &Oid) -> Result<AgentsCommits> {
        let git = self.git_in(top);
        let head = git.call(["rev-parse", "--verify", "-q", "HEAD^{commit}"]).answer().await?;
        let head: Option<Oid> = if head.code == 0 { String::from_utf8_lossy(&head.stdout).trim_end().parse().ok() } else { None };
        let listed = git.call(RefList::QUERY).answer().await?;
        let refs = RefList::parse(&listed.stdout).unwrap_or_default();
        // Commits that the agent abandoned are only in the reflogs.
        let logged = git.call(["rev-list", "--walk-reflogs", "--all"]).answer().await?;
        let logged = String::from_utf8_lossy(&logged.stdout).into_owned();
        let (fetched, own): (Vec<_>, Vec<_>) = refs.iter().partition(|entry| entry.name.starts_with("refs/remotes/"));
        let own = own.into_iter().filter_map(|entry| entry.commit.clone());
        let logged = logged.lines().filter_map(|line| line.parse().ok()).chain(operation_commits(&top.join(".git")));
        let wanted: BTreeSet<Oid> = head.iter().cloned().chain(own).chain(logged).collect();
        let fetched = fetched.into_iter().filter_map(|entry| entry.commit.clone());
        let all = self.unknown_tips(top, &wanted, fetched.chain([commit.clone()])).await?;
        let branch = refs.get(&self.names.branch()).cloned();
        let new = |oid: &Oid| oid != commit;
        Ok(AgentsCommits { head: head.filter(new), branch: branch.filter(new), all, staged: None })
    }

    /// The tips of the commits that neither the user's refs nor any of `known` contain.
    async fn unknown_tips(&self, top: &Path, wanted: &BTreeSet<Oid>, known: impl Iterator<Item = Oid>) -> Result<Vec<Oid>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let revs: String = wanted.iter().map(|oid| format!("{oid}\n")).chain(known.map(|oid| format!("^{oid}\n"))).collect();
        let args = ["rev-list", "--ignore-missing", "--parents", "--stdin", "--not", "--all"];
        let answer = self.borrowing(self.repo.git.call(args), top).input(revs).working().answer().await?;
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        let below: BTreeSet<&str> = text.lines().flat_map(|line| line.split(' ').skip(1)).collect();
        let tips = text.lines().filter_map(|line| line.split(' ').next()).filter(|oid| !below.contains(oid));
        tips.map(str::parse).collect()
    }

    fn is_partial(&self) -> bool {
        self.settings.iter().any(|(key, _)| key == "extensions.partialclone" || (key.starts_with("remote.") && key.ends_with(".promisor")))
    }

    /// The same call, with the clone's objects visible in addition to the user's.
    fn borrowing(&self, call: Call, top: &Path) -> Call {
        call.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", top.join(".git/objects"))
    }

    /// The tree of the clone's index, if it differs from that of `commit`. It is read from a copy, because git would write to the
    /// index file, which may be a symbolic link.
    async fn staged(&self, top: &Path, commit: &Oid, aside: &Path) -> Result<Option<Oid>> {
        let Ok(bytes) = safe_read::bytes(&top.join(".git/index")) else { return Ok(None) };
        if fs::read(aside.join("index")).is_ok_and(|ours| ours == bytes) {
            return Ok(None);
        }
        fs::create_dir_all(aside).with_context(|| format!("cannot create {}", aside.display()))?;
        let copy = aside.join("index.agent");
        safe_write::write(&copy, &bytes).with_context(|| format!("cannot write {}", copy.display()))?;
        let answer = self.borrowing(self.repo.git.call(["write-tree"]), top).index(&copy).working().answer().await?;
        if answer.code == 0 {
            let _ = fs::remove_file(&copy);
            let tree: Option<Oid> = String::from_utf8_lossy(&answer.stdout).trim_end().parse().ok();
            let before = self.repo.tree_of(commit).await?;
            return Ok(tree.filter(|tree| *tree != before));
        }
        // The index is damaged or has conflicts. There is no tree, but the user can look at the file.
        stale::move_aside(&copy, &aside.join("moved/index"))?;
        Ok(None)
    }

    /// Whether no ref was written since the git directory was made. Only answers yes where refs are files.
    fn is_untouched(&self, top: &Path) -> bool {
        let dir = top.join(".git");
        let head = fs::read_to_string(dir.join("HEAD")).is_ok_and(|text| text.trim_end() == format!("ref: {}", self.names.branch()));
        let is_empty = |name: &str| fs::read_dir(dir.join(name)).is_ok_and(|mut entries| entries.next().is_none());
        self.ref_format.is_none()
            && head
            && is_empty("refs/heads")
            && is_empty("refs/tags")
            && !dir.join("logs").exists()
            && !dir.join("refs/stash").exists()
            && operation_commits(&dir).is_empty()
    }

    /// Copies the objects of these commits and trees into the user's repository. Returns whether all of them were there and
    /// intact: git checks each object and those it refers to, so that no object is taken whose content does not match its id.
    pub(super) async fn take_objects(&self, top: &Path, wanted: &[&Oid], base: &Oid, aside: &Path) -> Result<bool> {
        if wanted.is_empty() {
            return Ok(true);
        }
        let incoming = aside.join("incoming");
        relocate::remove_anything(&incoming)
            .and_then(|()| fs::create_dir_all(&incoming))
            .with_context(|| format!("cannot use {}", incoming.display()))?;
        let revs: String = wanted.iter().map(|oid| format!("{oid}\n")).chain([format!("^{base}\n")]).collect();
        let args = ["pack-objects", "-q", "--revs", "--non-empty", "--delta-base-offset"].map(OsString::from);
        let call = self.repo.git.call(args.into_iter().chain([incoming.join("pack").into_os_string()]));
        let packed = self.borrowing(call, top).input(revs).working().answer().await?;
        if packed.code != 0 {
            return Ok(false);
        }
        let name = String::from_utf8_lossy(&packed.stdout).trim_end().to_owned();
        if name.is_empty() {
            // The user's repository has all objects already.
            return Ok(true);
        }
        let pack = incoming.join(format!("pack-{name}.pack"));
        let index = incoming.join(format!("pack-{name}.idx"));
        let _ = fs::remove_file(&index);
        // In a partial clone, `--strict` would fail on objects that were never fetched.
        let check = if self.is_partial() { "--fsck-objects" } else { "--strict" };
        let args = [OsString::from("index-pack"), check.into(), "-o".into(), index.clone().into(), pack.clone().into()];
        if self.repo.git.call(args).working().answer().await?.code != 0 {
            relocate::remove_anything(&incoming)?;
            return Ok(false);
        }
        let store = self.objects().join("pack");
        fs::create_dir_all(&store).with_context(|| format!("cannot create {}", store.display()))?;
        for file in [pack, index] {
            let to = store.join(file.file_name().unwrap_or_default());
            if !to.exists() {
                relocate::relocate(&file, &to).with_context(|| format!("cannot write {}", to.display()))?;
            }
        }
        relocate::remove_anything(&incoming)?;
        Ok(true)
    }
}

/// The commits and the staged tree of an agent; their objects are in the user's repository.
#[derive(Debug, Default)]
pub(crate) struct AgentsCommits {
    /// The commit of HEAD, if it is not the one the attempt began at.
    pub head: Option<Oid>,
    /// The tip of the run's branch in the clone, if it is not the commit that the attempt began at.
    pub branch: Option<Oid>,
    /// The tips of all commits that none of the user's refs contain, including abandoned ones.
    pub all: Vec<Oid>,
    /// The tree of the clone's index.
    pub staged: Option<Oid>,
}

/// Whether the file system of a git directory ignores case: `InFo` then finds `info`.
pub(super) fn ignores_case(dir: &Path) -> bool {
    dir.join("InFo").exists()
}
