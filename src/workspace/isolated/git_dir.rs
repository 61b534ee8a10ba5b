//! The private git directory of a workspace: made anew before every attempt, so that nothing an agent did to it matters.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::carried::{OwnSettings, Setting, config_text};
use crate::git::{Git, Oid, RefList, Repo};
use crate::names::Names;
use crate::relocate;

/// Files of the user's git directory that a clone has too, with the name there and here. Those of a linked work tree come from its own
/// git directory.
const COMMON_FILES: [&str; 3] = ["info/exclude", "info/attributes", "shallow"];
const WORKTREE_FILES: [&str; 1] = ["info/sparse-checkout"];

/// What every clone of a run is made from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The user's repository, with the user's checkout as its work tree.
    pub repo: Repo,
    names: Names,
    settings: Vec<Setting>,
    object_format: Option<String>,
    ref_format: Option<String>,
    environment: Vec<(OsString, OsString)>,
}

impl Origin {
    /// Reads what clones take over; `environment` is that of our own git calls.
    ///
    /// # Errors
    /// If git cannot read the user's configuration.
    pub async fn read(repo: &Repo, names: &Names, environment: Vec<(OsString, OsString)>) -> Result<Self> {
        let settings = repo.local_settings().await?;
        let format = |key: &str, usual: &str| {
            let set = settings.iter().rev().find(|(known, _)| known == key);
            set.map(|(_, value)| value.to_string_lossy().to_lowercase()).filter(|value| value != usual)
        };
        let (object_format, ref_format) = (format("extensions.objectformat", "sha1"), format("extensions.refstorage", "files"));
        Ok(Origin { repo: repo.clone(), names: names.clone(), settings, object_format, ref_format, environment })
    }

    /// git in the clone at `top`, with our overrides: it runs nothing that an agent has configured.
    pub fn git_in(&self, top: &Path) -> Git {
        Git::pinned(&top.join(".git"), top, self.environment.clone())
    }

    fn objects(&self) -> PathBuf {
        self.repo.place.common_dir.join("objects")
    }

    /// Makes the git directory of the clone at `top`: HEAD on the run's branch at `commit`, the refs of the user under the same
    /// names, the objects borrowed, `index` for its index.
    ///
    /// # Errors
    /// If the disk fails, or git where refs are not files.
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

    /// Where refs are not files, only git can make them.
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

    /// The user's refs, but for the stash and what git-ralph keeps: of that only the work of earlier attempts, which prompts name.
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

    /// The commits that the clone at `top` has and that an agent may have made: HEAD first, if it has one. None if its git directory
    /// cannot be read any more.
    pub async fn agents_commits(&self, top: &Path, commit: &Oid) -> Result<AgentsCommits> {
        if self.is_untouched(top) || !top.join(".git/HEAD").exists() {
            return Ok(AgentsCommits::default());
        }
        let git = self.git_in(top);
        let head = git.call(["rev-parse", "--verify", "-q", "HEAD^{commit}"]).answer().await?;
        let head: Option<Oid> = if head.code == 0 { String::from_utf8_lossy(&head.stdout).trim_end().parse().ok() } else { None };
        let listed = git.call(["for-each-ref", "--format=%(objectname)"]).answer().await?;
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        let others = text.lines().filter_map(|line| line.parse().ok());
        let mut all: Vec<Oid> = head.iter().cloned().chain(others).filter(|oid| oid != commit).collect();
        all.sort();
        all.dedup();
        if !self.take_objects(top, &all, commit).await? {
            return Ok(AgentsCommits::default());
        }
        Ok(AgentsCommits { head: head.filter(|oid| oid != commit), all })
    }

    /// Whether no ref has been written since the git directory was made; refs are files.
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
    }

    /// Copies the objects of these commits into the user's repository, without running anything that the clone configures. Says
    /// whether they were all there.
    async fn take_objects(&self, top: &Path, commits: &[Oid], base: &Oid) -> Result<bool> {
        if commits.is_empty() {
            return Ok(true);
        }
        let revs: String = commits.iter().map(|oid| format!("{oid}\n")).chain([format!("^{base}\n")]).collect();
        let pack = self.objects().join("pack").join("pack");
        let args = ["pack-objects", "-q", "--revs", "--non-empty", "--delta-base-offset"].map(OsString::from);
        let call = self.repo.git.call(args.into_iter().chain([pack.into_os_string()]));
        let answer = call.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", top.join(".git/objects")).input(revs).working().answer().await?;
        Ok(answer.code == 0)
    }
}

/// What an agent has committed in its clone; the objects are in the user's repository.
#[derive(Debug, Default)]
pub(crate) struct AgentsCommits {
    /// Where HEAD is, if not where the attempt began.
    pub head: Option<Oid>,
    /// HEAD and every ref that is not where the attempt began.
    pub all: Vec<Oid>,
}

/// Whether the file system of a git directory takes `CONFIG` for `config`.
fn ignores_case(dir: &Path) -> bool {
    dir.join("InFo").exists()
}
