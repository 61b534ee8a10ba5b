//! Typed questions to a repository and actions on it; every one is one git process, on explicit ids and names.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Git, Head, Oid, Place, RefList, RefUpdate};

/// Files and directories in the git directory that mean an operation is under way, with what to call it.
const UNDER_WAY: [(&str, &str); 8] = [
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("sequencer", "cherry-pick or revert"),
    ("BISECT_LOG", "bisect"),
    ("BISECT_START", "bisect"),
];

/// A repository with its work tree.
#[derive(Clone, Debug)]
pub struct Repo {
    /// The door.
    pub git: Git,
    /// Where it is.
    pub place: Place,
}

/// One path that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// The path from the top of the work tree.
    pub path: PathBuf,
    /// `A`, `M`, `D` or `T`.
    pub status: char,
    /// The mode in the first tree; 0 if it is not there.
    pub old_mode: u32,
    /// The mode in the second tree; 0 if it is not there.
    pub new_mode: u32,
    /// The object in the first tree; null if it is not there.
    pub old_oid: Oid,
    /// The object in the second tree; null if it is not there.
    pub new_oid: Oid,
}

impl PathChange {
    /// The same difference seen from the other side.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let status = match self.status {
            'A' => 'D',
            'D' => 'A',
            other => other,
        };
        PathChange {
            path: self.path.clone(),
            status,
            old_mode: self.new_mode,
            new_mode: self.old_mode,
            old_oid: self.new_oid.clone(),
            new_oid: self.old_oid.clone(),
        }
    }
}

/// One line of `git status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeEntry {
    /// A tracked path that differs from HEAD or the index.
    Changed(PathBuf),
    /// A path with a conflict.
    Unmerged(PathBuf),
    /// Neither tracked nor ignored; a directory if it is a repository of its own.
    Untracked(PathBuf),
    /// Ignored; a directory if all of it is.
    Ignored(PathBuf),
}

/// The result of merging two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The merged tree.
    Clean(Oid),
    /// The paths that conflict.
    Conflict(Vec<PathBuf>),
}

impl Repo {
    /// The same repository with an identity for commits where none is configured; says whether it had to.
    ///
    /// # Errors
    /// If git cannot be asked.
    pub async fn with_identity(mut self) -> Result<(Self, bool)> {
        let answer = self.git.call(["var", "GIT_COMMITTER_IDENT"]).answer().await?;
        let anonymous = answer.code != 0;
        if anonymous {
            self = self.under_stand_in();
        }
        Ok((self, anonymous))
    }

    /// The same repository, with commits made by nobody in particular.
    #[must_use]
    pub fn under_stand_in(mut self) -> Self {
        let names = ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|name| (name, OsString::from("git-ralph")));
        let mails = ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"].map(|name| (name, OsString::from("git-ralph@localhost")));
        self.git = self.git.with_env(names.into_iter().chain(mails));
        self
    }

    /// What is under way in the work tree: a merge, a rebase, …
    ///
    /// # Errors
    /// If git cannot be asked.
    pub async fn under_way(&self) -> Result<Option<&'static str>> {
        if let Some((_, name)) = UNDER_WAY.iter().find(|(file, _)| self.place.git_dir.join(file).symlink_metadata().is_ok()) {
            return Ok(Some(name));
        }
        // In a reftable repository these are not files.
        let names = "MERGE_HEAD\nCHERRY_PICK_HEAD\nREVERT_HEAD\n";
        let output = self.git.call(["cat-file", "--batch-check=%(objecttype)"]).input(names).output().await?;
        let found = String::from_utf8_lossy(&output).lines().position(|line| !line.ends_with("missing"));
        Ok(found.and_then(|at| UNDER_WAY.get(at)).map(|(_, name)| *name))
    }

    /// All refs.
    ///
    /// # Errors
    /// If git fails.
    pub async fn refs(&self) -> Result<RefList> {
        RefList::parse(&self.git.call(RefList::QUERY).output().await?)
    }

    /// Where HEAD is now; `refs` saves the question when HEAD is on a branch with commits.
    ///
    /// # Errors
    /// If HEAD is broken.
    pub async fn head(&self, refs: &RefList) -> Result<Head> {
        if let Some(entry) = refs.head() {
            return Ok(Head::Branch { name: entry.name.clone(), oid: entry.oid.clone() });
        }
        let symbolic = self.git.call(["symbolic-ref", "-q", "HEAD"]).answer().await?;
        if symbolic.code == 0 {
            let name = String::from_utf8_lossy(&symbolic.stdout).trim_end().to_owned();
            return Ok(Head::Unborn { name });
        }
        let oid = self.git.call(["rev-parse", "--verify", "-q", "HEAD^{commit}"]).line().await?;
        Ok(Head::Detached { oid: oid.parse()? })
    }

    /// The branches that are checked out in other work trees, with the path of each.
    ///
    /// # Errors
    /// If git fails.
    pub async fn checked_out_elsewhere(&self) -> Result<Vec<(String, String)>> {
        let output = self.git.call(["worktree", "list", "--porcelain", "-z"]).output().await?;
        let text = String::from_utf8_lossy(&output).into_owned();
        let mut found = Vec::new();
        let (mut path, mut number) = ("", 0);
        // The main work tree comes first; git may name it by its git directory.
        let main = self.place.git_dir == self.place.common_dir;
        for line in text.split('\0') {
            if let Some(worktree) = line.strip_prefix("worktree ") {
                path = worktree;
                number += 1;
            } else if let Some(branch) = line.strip_prefix("branch ") {
                let ours = if main { number == 1 } else { Path::new(path) == self.place.top };
                if !ours {
                    found.push((branch.to_owned(), path.to_owned()));
                }
            }
        }
        Ok(found)
    }

    /// Everything that `git status` lists, ignored paths included, as the given index sees it.
    ///
    /// # Errors
    /// If git fails.
    pub async fn status(&self, index: &Path) -> Result<Vec<TreeEntry>> {
        let args = ["--no-optional-locks", "status", "--porcelain=v2", "-z", "-uall", "--ignored=matching", "--no-renames"];
        let output = self.git.call(args).index(index).working().output().await?;
        let entries = output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).filter_map(|entry| {
            let fields = |count| entry.splitn(count, |byte| *byte == b' ').nth(count - 1).map(path_of);
            match entry.first()? {
                b'1' => fields(9).map(TreeEntry::Changed),
                b'u' => fields(11).map(TreeEntry::Unmerged),
                b'?' => entry.get(2..).map(path_of).map(TreeEntry::Untracked),
                b'!' => entry.get(2..).map(path_of).map(TreeEntry::Ignored),
                _ => None,
            }
        });
        Ok(entries.collect())
    }

    /// The paths of an index that git has been told not to look at, by the flag that hides them.
    ///
    /// # Errors
    /// If git fails.
    pub async fn hidden(&self, index: &Path) -> Result<Hidden> {
        let output = self.git.call(["ls-files", "-v", "-z"]).index(index).working().output().await?;
        let mut hidden = Hidden::default();
        for entry in output.split(|byte| *byte == 0) {
            let (Some(tag), Some(path)) = (entry.first(), entry.get(2..)) else { continue };
            let present = self.place.top.join(path_of(path)).symlink_metadata().is_ok();
            if tag.is_ascii_lowercase() {
                hidden.assumed.push(path_of(path));
            }
            if tag.eq_ignore_ascii_case(&b'S') && present {
                hidden.skipped.push(path_of(path));
            }
        }
        Ok(hidden)
    }

    /// Makes git look at these paths of an index again.
    ///
    /// # Errors
    /// If git fails.
    pub async fn unhide(&self, index: &Path, hidden: &Hidden) -> Result<()> {
        for (flag, paths) in [("--no-assume-unchanged", &hidden.assumed), ("--no-skip-worktree", &hidden.skipped)] {
            if !paths.is_empty() {
                let call = self.git.call(["update-index", flag, "-z", "--stdin"]);
                call.index(index).input(nul_joined(paths)).working().output().await?;
            }
        }
        Ok(())
    }

    /// Writes an index out as one file of its own, even if it was split.
    ///
    /// # Errors
    /// If git fails.
    pub async fn unsplit(&self, index: &Path) -> Result<()> {
        let args = ["update-index", "--no-split-index", "--force-write-index"];
        self.git.call(args).index(index).working().output().await.map(drop)
    }

    /// Records the whole work tree in an index, but for what is ignored or excluded.
    ///
    /// # Errors
    /// If git cannot be run; its own failure is in the answer.
    pub async fn add_all(&self, index: &Path, exclude: &[PathBuf], tolerance: Tolerance) -> Result<super::Answer> {
        let mut args = vec!["add", "-A"];
        if tolerance == Tolerance::SkipUnaddable {
            args.push("--ignore-errors");
        }
        let call = if exclude.is_empty() {
            args.extend(["--", ":/"]);
            self.git.call(args)
        } else {
            args.extend(["--pathspec-from-file=-", "--pathspec-file-nul"]);
            let mut specs = b":/".to_vec();
            for path in exclude {
                specs.extend(b"\0:(top,exclude,literal)");
                specs.extend(trim_slash(path));
            }
            self.git.call(args).input(specs)
        };
        call.index(index).working().answer().await
    }

    /// Removes paths from an index, not from the work tree.
    ///
    /// # Errors
    /// If git fails.
    pub async fn forget(&self, index: &Path, paths: &[PathBuf]) -> Result<()> {
        let call = self.git.call(["update-index", "--force-remove", "-z", "--stdin"]);
        call.index(index).input(nul_joined(paths)).working().output().await.map(drop)
    }

    /// Writes an index as a tree.
    ///
    /// # Errors
    /// If git fails, also if the index names objects that are gone.
    pub async fn write_tree(&self, index: &Path) -> Result<Oid> {
        self.git.call(["write-tree"]).index(index).working().line().await?.parse()
    }

    /// Fills an index from a tree, keeping what it knows about files that are the same.
    ///
    /// # Errors
    /// If git fails.
    pub async fn read_tree(&self, index: &Path, tree: &Oid) -> Result<()> {
        let args = if index.exists() { ["read-tree", "-m", tree.as_str()] } else { ["read-tree", "--reset", tree.as_str()] };
        self.git.call(args).index(index).working().output().await.map(drop)
    }

    /// Turns the work tree from one tree into another, touching only what differs.
    ///
    /// # Errors
    /// If git fails; it refuses to overwrite what is neither.
    pub async fn switch_tree(&self, index: &Path, from: &Oid, to: &Oid) -> Result<()> {
        let args = ["read-tree", "-m", "-u", from.as_str(), to.as_str()];
        self.git.call(args).index(index).working().output().await.map(drop)
    }

    /// Writes a commit that nobody signs.
    ///
    /// # Errors
    /// If git fails.
    pub async fn commit(&self, tree: &Oid, parents: &[&Oid], message: &str) -> Result<Oid> {
        self.commit_as(Signature::None, tree, parents, message).await
    }

    /// Writes a commit.
    ///
    /// # Errors
    /// If git fails, also if it cannot sign.
    pub async fn commit_as(&self, signature: Signature, tree: &Oid, parents: &[&Oid], message: &str) -> Result<Oid> {
        let mut args = vec!["commit-tree", tree.as_str()];
        if signature == Signature::Users {
            args.push("-S");
        }
        for parent in parents {
            args.extend(["-p", parent.as_str()]);
        }
        self.git.call(args).input(message).line().await?.parse()
    }

    /// Changes refs in one transaction.
    ///
    /// # Errors
    /// If any of them cannot be changed; then none is.
    pub async fn update_refs(&self, updates: &[RefUpdate], reason: &str) -> Result<()> {
        if updates.is_empty() {
            return Ok(());
        }
        let call = self.git.call(["update-ref", "-m", reason, "--no-deref", "--stdin"]);
        call.input(RefUpdate::transaction(updates)).output().await.map(drop)
    }

    /// Puts HEAD on a branch, touching neither index nor work tree.
    ///
    /// # Errors
    /// If git fails.
    pub async fn attach_head(&self, branch: &str, reason: &str) -> Result<()> {
        self.git.call(["symbolic-ref", "-m", reason, "HEAD", branch]).output().await.map(drop)
    }

    /// Puts HEAD on a commit, touching neither index nor work tree.
    ///
    /// # Errors
    /// If git fails.
    pub async fn detach_head(&self, oid: &Oid, reason: &str) -> Result<()> {
        self.git.call(["update-ref", "-m", reason, "--no-deref", "HEAD", oid.as_str()]).output().await.map(drop)
    }

    /// The tree of a commit.
    ///
    /// # Errors
    /// If there is no such commit.
    pub async fn tree_of(&self, commit: &Oid) -> Result<Oid> {
        self.git.call(["rev-parse", "--verify", "-q", &format!("{commit}^{{tree}}")]).line().await?.parse()
    }

    /// Whether one commit is contained in another.
    ///
    /// # Errors
    /// If git fails.
    pub async fn is_ancestor(&self, ancestor: &Oid, of: &Oid) -> Result<bool> {
        let answer = self.git.call(["merge-base", "--is-ancestor", ancestor.as_str(), of.as_str()]).answer().await?;
        match answer.code {
            0 => Ok(true),
            1 => Ok(false),
            _ => bail!(answer.failure()),
        }
    }

    /// The branches, here and of remotes, that contain a commit; full names, none that stands for another.
    ///
    /// # Errors
    /// If git fails.
    pub async fn branches_with(&self, commit: &Oid) -> Result<Vec<String>> {
        let args = ["for-each-ref", "--format=%(refname) %(symref)", "--contains", commit.as_str(), "refs/heads/", "refs/remotes/"];
        let output = self.git.call(args).working().output().await?;
        let text = String::from_utf8_lossy(&output).into_owned();
        let plain = |line: &str| line.split_once(' ').filter(|(_, symref)| symref.is_empty()).map(|(name, _)| name.to_owned());
        Ok(text.lines().filter_map(plain).collect())
    }

    /// What differs between two trees.
    ///
    /// # Errors
    /// If git fails.
    pub async fn diff_trees(&self, from: &Oid, to: &Oid) -> Result<Vec<PathChange>> {
        let args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", from.as_str(), to.as_str()];
        let output = self.git.call(args).working().output().await?;
        let mut fields = output.split(|byte| *byte == 0);
        let mut changes = Vec::new();
        while let (Some(meta), Some(path)) = (fields.next().filter(|meta| !meta.is_empty()), fields.next()) {
            let meta = String::from_utf8_lossy(meta);
            let words: Vec<&str> = meta.trim_start_matches(':').split(' ').collect();
            let [old, new, old_oid, new_oid, status] = words.as_slice() else { bail!("git diff-tree answered in an unknown form: {meta}") };
            let mode = |text: &str| u32::from_str_radix(text, 8).context("git diff-tree answered in an unknown form");
            let status = status.chars().next().unwrap_or('M');
            changes.push(PathChange {
                path: path_of(path),
                status,
                old_mode: mode(old)?,
                new_mode: mode(new)?,
                old_oid: old_oid.parse()?,
                new_oid: new_oid.parse()?,
            });
        }
        Ok(changes)
    }

    /// Merges two commits without touching anything.
    ///
    /// # Errors
    /// If git cannot merge at all.
    pub async fn merge(&self, ours: &Oid, theirs: &Oid) -> Result<Merge> {
        let args = [
            "merge-tree",
            "--write-tree",
            "-z",
            "--name-only",
            "--no-messages",
            "--allow-unrelated-histories",
            ours.as_str(),
            theirs.as_str(),
        ];
        let answer = self.git.call(args).working().answer().await?;
        let mut fields = answer.stdout.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        match answer.code {
            0 => Ok(Merge::Clean(String::from_utf8_lossy(fields.next().unwrap_or_default()).parse()?)),
            1 => Ok(Merge::Conflict(fields.skip(1).map(path_of).collect())),
            _ => bail!(answer.failure()),
        }
    }

    /// Whether the configuration makes git change line ends on the way in or out.
    ///
    /// # Errors
    /// If git cannot be run.
    pub async fn converts_line_ends(&self) -> Result<bool> {
        let answer = self.git.call(["config", "--get", "core.autocrlf"]).answer().await?;
        Ok(answer.code == 0 && !answer.stdout.starts_with(b"false") || self.place.common_dir.join("info/attributes").exists())
    }

    /// The value of a key in one configuration file.
    ///
    /// # Errors
    /// If git cannot be run.
    pub async fn setting_in(&self, file: &Path, key: &str) -> Result<Option<String>> {
        if !file.exists() {
            return Ok(None);
        }
        let answer =
            self.git.call([OsStr::new("config"), "--file".as_ref(), file.as_ref(), "--get".as_ref(), key.as_ref()]).answer().await?;
        Ok((answer.code == 0).then(|| String::from_utf8_lossy(&answer.stdout).trim_end().to_owned()))
    }

    /// Sets or removes a key in one configuration file.
    ///
    /// # Errors
    /// If git fails.
    pub async fn set_in(&self, file: &Path, key: &str, value: Option<&str>) -> Result<()> {
        let mut args = vec![OsStr::new("config"), "--file".as_ref(), file.as_ref()];
        match value {
            Some(value) => args.extend([OsStr::new("--replace-all"), key.as_ref(), value.as_ref()]),
            None => args.extend([OsStr::new("--unset-all"), key.as_ref()]),
        }
        self.git.call(args).output().await.map(drop)
    }

    /// The tag objects among the refs as `git cat-file --batch` prints them: no commit can have them as parents.
    ///
    /// # Errors
    /// If git fails.
    pub async fn raw_tags(&self, refs: &RefList) -> Result<Vec<u8>> {
        let names: String = refs.tags().map(|oid| format!("{oid}\n")).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        self.git.call(["cat-file", "--batch"]).input(names).output().await
    }

    /// Writes tag objects back that [`Repo::raw_tags`] has read.
    ///
    /// # Errors
    /// If git fails.
    pub async fn revive_tags(&self, raw: &[u8]) -> Result<()> {
        let mut rest = raw;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let head = String::from_utf8_lossy(&rest[..end]).into_owned();
            let Some((kind, size)) = head.split_once(' ').and_then(|(_, more)| more.split_once(' ')) else { break };
            let size: usize = size.parse().context("a damaged record of tags")?;
            let content = rest.get(end + 1..end + 1 + size).context("a damaged record of tags")?;
            self.git.call(["hash-object", "-t", kind, "-w", "--stdin"]).input(content).output().await?;
            rest = rest.get(end + 2 + size..).unwrap_or_default();
        }
        Ok(())
    }

    /// The tree without an entry.
    ///
    /// # Errors
    /// If git fails.
    pub async fn empty_tree(&self) -> Result<Oid> {
        self.git.call(["mktree"]).input("").line().await?.parse()
    }

    fn head_log(&self) -> PathBuf {
        self.place.git_dir.join("logs").join("HEAD")
    }

    /// How long the log of HEAD is, to be given to [`Repo::head_log_since`] later.
    #[must_use]
    pub fn head_log_length(&self) -> u64 {
        self.head_log().metadata().map_or(0, |meta| meta.len())
    }

    /// Every commit that HEAD has been on since its log had the given length.
    #[must_use]
    pub fn head_log_since(&self, length: u64) -> Vec<Oid> {
        let text = std::fs::read(self.head_log()).unwrap_or_default();
        let new = usize::try_from(length).ok().and_then(|length| text.get(length..)).unwrap_or(&text);
        let oids = String::from_utf8_lossy(new).lines().filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect::<BTreeSet<Oid>>();
        oids.into_iter().collect()
    }

    /// Those of the given commits that exist and that none of `kept` contains.
    ///
    /// # Errors
    /// If git fails.
    pub async fn loose_commits(&self, oids: Vec<Oid>, kept: &[&Oid]) -> Result<Vec<Oid>> {
        if oids.iter().all(|oid| kept.contains(&oid)) {
            return Ok(Vec::new());
        }
        let names: String = oids.iter().map(|oid| format!("{oid}^{{commit}}\n")).collect();
        let checked = self.git.call(["cat-file", "--batch-check=%(objectname)"]).input(names).output().await?;
        let exist: Vec<Oid> = String::from_utf8_lossy(&checked).lines().filter_map(|line| line.parse().ok()).collect();
        if exist.is_empty() {
            return Ok(exist);
        }
        let revs: String = exist.iter().map(|oid| format!("{oid}\n")).chain(kept.iter().map(|oid| format!("^{oid}\n"))).collect();
        let loose = self.git.call(["rev-list", "--stdin"]).input(revs).output().await?;
        let loose: BTreeSet<Oid> = String::from_utf8_lossy(&loose).lines().filter_map(|line| line.parse().ok()).collect();
        Ok(exist.into_iter().filter(|oid| loose.contains(oid)).collect())
    }

    /// The values of a trailer in a commit's message.
    ///
    /// # Errors
    /// If there is no such commit.
    pub async fn trailer(&self, commit: &Oid, key: &str) -> Result<String> {
        let format = format!("--format=%(trailers:key={key},valueonly,separator=%x0A)");
        self.git.call(["log", "-1", "--no-show-signature", &format, commit.as_str(), "--"]).line().await
    }
}

/// Paths that an index hides from git.
#[derive(Debug, Default)]
pub struct Hidden {
    assumed: Vec<PathBuf>,
    skipped: Vec<PathBuf>,
}

/// Whether a commit is signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signature {
    /// No.
    #[default]
    None,
    /// With the user's own key.
    Users,
}

/// What `add_all` does about a path that git cannot store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// Fails.
    Strict,
    /// Leaves it out and goes on.
    SkipUnaddable,
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

fn trim_slash(path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    bytes.strip_suffix(b"/").unwrap_or(bytes)
}

fn nul_joined(paths: &[PathBuf]) -> Vec<u8> {
    paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect()
}

/// A path with a trailing slash, as git writes a directory that it does not look into.
#[must_use]
pub fn is_opaque_directory(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

/// A path without the trailing slash.
#[must_use]
pub fn without_slash(path: &Path) -> &Path {
    Path::new(OsStr::from_bytes(trim_slash(path)))
}
