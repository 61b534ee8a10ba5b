//! Defines the modifying operations on a repository: they run git with explicit ids and names.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::questions::Hidden;
use super::repo::{nul_joined, trim_slash};
use super::{Answer, Git, GitError, Oid, PathChange, RecentFile, RefUpdate, Repo};

/// Whether a commit is signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signature {
    /// Not signed.
    #[default]
    None,
    /// Signed with the user's own key.
    Users,
}

/// How `add_all` treats a path that git cannot store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// Fail.
    Strict,
    /// Leave the path out and continue.
    SkipUnaddable,
}

/// Which part of the work tree is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only the paths that sparse checkout includes.
    AsConfigured,
    /// Also files at paths that sparse checkout leaves out.
    Everywhere,
}

/// How files were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// As attributes and configuration specify.
    AsConfigured,
    /// As stored, without filters, because a filter failed.
    Unfiltered,
}

impl Repo {
    /// Whether any filter is configured.
    pub async fn has_filters(&self) -> Result<bool> {
        Ok(self.unfiltered().await?.is_some())
    }

    /// Clears the assume-unchanged and skip-worktree flags of these paths in an index.
    pub async fn unhide(&self, index: &Path, hidden: &Hidden) -> Result<()> {
        for (flag, paths) in [("--no-assume-unchanged", &hidden.assumed), ("--no-skip-worktree", &hidden.skipped)] {
            if !paths.is_empty() {
                let call = self.git.call(["update-index", flag, "-z", "--stdin"]);
                call.index(index).input(nul_joined(paths)).working().output().await?;
            }
        }
        Ok(())
    }

    /// Marks these paths of an index as skip-worktree.
    pub async fn leave_out(&self, index: &Path, paths: &[PathBuf]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let call = self.git.call(["update-index", "--skip-worktree", "-z", "--stdin"]);
        call.index(index).input(nul_joined(paths)).working().output().await.map(drop)
    }

    /// Rewrites an index as a single file, even if it was split.
    pub async fn unsplit(&self, index: &Path) -> Result<()> {
        let args = ["update-index", "--no-split-index", "--force-write-index"];
        self.git.call(args).index(index).working().output().await.map(drop)
    }

    /// Updates these paths of an index from the work tree: existing files are added, missing ones are removed.
    ///
    /// # Errors
    /// If git cannot be run. A failure that git itself reports is in the answer.
    pub async fn add_these(&self, index: &Path, paths: &[PathBuf]) -> Result<Answer> {
        let call = self.git.call(["update-index", "--add", "--remove", "--replace", "-z", "--stdin"]);
        call.index(index).input(nul_joined(paths)).working().flushed_by_commit().answer().await
    }

    /// Adds the whole work tree to an index, except ignored and excluded paths.
    ///
    /// # Errors
    /// If git cannot be run. A failure that git itself reports is in the answer.
    pub async fn add_all(&self, index: &Path, exclude: &[PathBuf], tolerance: Tolerance) -> Result<Answer> {
        let mut args = vec!["add", "-A", "--sparse"];
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
        call.index(index).working().flushed_by_commit().answer().await
    }

    /// Updates files that are already in an index from the work tree.
    pub async fn record(&self, index: &Path, paths: &[PathBuf]) -> Result<()> {
        let call = self.git.call(["update-index", "-z", "--stdin"]);
        call.index(index).input(nul_joined(paths)).working().output().await.map(drop)
    }

    /// Removes the cached times of files from an index, so that git reads the files again.
    pub async fn look_again(&self, index: &Path, files: &[RecentFile]) -> Result<()> {
        let entries: Vec<u8> = files.iter().flat_map(|file| file.entry.iter().copied()).collect();
        self.git.call(["update-index", "-z", "--index-info"]).index(index).input(entries).working().output().await.map(drop)
    }

    /// Removes paths from an index, but not from the work tree.
    pub async fn forget(&self, index: &Path, paths: &[PathBuf]) -> Result<()> {
        let call = self.git.call(["update-index", "--force-remove", "-z", "--stdin"]);
        call.index(index).input(nul_joined(paths)).working().output().await.map(drop)
    }

    /// Writes an index as a tree object.
    ///
    /// # Errors
    /// If git fails, for example because the index refers to missing objects.
    pub async fn write_tree(&self, index: &Path) -> Result<Oid> {
        self.git.call(["write-tree"]).index(index).working().flushed_by_commit().line().await?.parse()
    }

    /// Fills an index from a tree, and keeps the cached times of files that are the same.
    pub async fn read_tree(&self, index: &Path, tree: &Oid) -> Result<()> {
        // Without `-i`, git refuses if a file in the work tree differs from the index, as one does that was just committed.
        let args: &[&str] =
            if index.exists() { &["read-tree", "-m", "-i", tree.as_str()] } else { &["read-tree", "--reset", tree.as_str()] };
        self.git.call(args).index(index).working().output().await.map(drop)
    }

    /// Applies the differences between two trees to the entries of an index.
    pub async fn set_entries(&self, index: &Path, changes: &[PathChange]) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        // Removals come first, because a file may become a directory.
        let (gone, new): (Vec<&PathChange>, Vec<&PathChange>) = changes.iter().partition(|change| change.new_mode == 0);
        let line = |change: &&PathChange| {
            [format!("{:o} {}\t", change.new_mode, change.new_oid).as_bytes(), change.path.as_os_str().as_bytes(), b"\0"].concat()
        };
        let lines: Vec<u8> = gone.iter().chain(&new).flat_map(line).collect();
        let call = self.git.call(["update-index", "-z", "--index-info"]);
        call.index(index).input(lines).working().output().await.map(drop)
    }

    /// A tree with new content for one of its files. `index` is a scratch file that is overwritten.
    ///
    /// # Errors
    /// If git fails, or if the file is not in the tree.
    pub async fn with_file(&self, index: &Path, tree: &Oid, path: &Path, bytes: &[u8]) -> Result<Oid> {
        let _ = std::fs::remove_file(index);
        self.git.call(["read-tree", tree.as_str()]).index(index).working().output().await?;
        let entry = self.entries(index).await?.into_iter().find(|entry| entry.path == path);
        let entry = entry.with_context(|| format!("{} is not in {tree}", path.display()))?;
        let oid: Oid = self.git.call(["hash-object", "-w", "--stdin"]).input(bytes).line().await?.parse()?;
        self.set_entries(index, &[PathChange { new_oid: oid, ..entry }]).await?;
        let tree = self.write_tree(index).await;
        let _ = std::fs::remove_file(index);
        tree
    }

    /// Copies the entries of an index to a new one, where the versions of a conflicting file get names of their own:
    /// `<path>~base`, `<path>~ours` and `<path>~theirs`.
    pub async fn flatten(&self, index: &Path, to: &Path) -> Result<()> {
        let listed = self.git.call(["ls-files", "-s", "-z"]).index(index).working().output().await?;
        let mut lines = Vec::new();
        for record in listed.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
            // Each record is `<mode> <object> <stage>`, a tab, and the path.
            let Some(tab) = record.iter().position(|byte| *byte == b'\t') else { continue };
            let (entry, path) = (&record[..tab], &record[tab + 1..]);
            let (Some(entry), Some(stage)) = (entry.get(..tab - 2), entry.last()) else { continue };
            let suffix: &[u8] = match stage {
                b'1' => b"~base",
                b'2' => b"~ours",
                b'3' => b"~theirs",
                _ => b"",
            };
            lines.extend([entry, b"\t", path, suffix, b"\0"].concat());
        }
        self.git.call(["update-index", "-z", "--index-info"]).index(to).input(lines).working().output().await.map(drop)
    }

    /// Switches the work tree from one tree to another, and writes only files that differ. Returns how the files were written.
    ///
    /// # Errors
    /// If git fails. It refuses to overwrite files that match neither tree.
    pub async fn switch_tree(&self, index: &Path, from: &Oid, to: &Oid, reach: Reach) -> Result<Written> {
        let args = ["read-tree", "-m", "-u", from.as_str(), to.as_str()];
        let git = match reach {
            Reach::AsConfigured => self.git.clone(),
            Reach::Everywhere => self.git.clone().with_config(["core.sparseCheckout=false".to_owned()]),
        };
        let Err(error) = git.call(args).index(index).working().output().await else { return Ok(Written::AsConfigured) };
        // git also fails if files were just edited, and those must not be overwritten.
        if !is_about_a_filter(&error) {
            return Err(error);
        }
        let Some(unfiltered) = self.unfiltered().await? else { return Err(error) };
        // The failed filter has left the work tree between the two trees. All files are saved at this point, so a reset loses
        // nothing.
        let args = ["read-tree", "--reset", "-u", to.as_str()];
        unfiltered.call(args).index(index).working().output().await.map(|_| Written::Unfiltered).map_err(|_| error)
    }

    /// Writes every file of a tree into a work tree that has none of them yet, using all processors.
    pub async fn write_checkout(&self, index: &Path, tree: &Oid) -> Result<()> {
        let git = self.git.clone().with_config(["checkout.workers=0".to_owned()]);
        git.call(["read-tree", "--reset", "-u", tree.as_str()]).index(index).working().output().await.map(drop)
    }

    /// Writes files of an index again, and overwrites what is there.
    pub async fn rewrite(&self, index: &Path, paths: &[PathBuf]) -> Result<()> {
        let args = ["checkout-index", "-f", "-u", "-z", "--stdin"];
        let call = |git: &Git| git.call(args).index(index).input(nul_joined(paths)).working();
        let Err(error) = call(&self.git).output().await else { return Ok(()) };
        let Some(unfiltered) = self.unfiltered().await? else { return Err(error) };
        call(&unfiltered).output().await.map(drop).map_err(|_| error)
    }

    /// The same git without the configured filters; none if no filter is configured.
    async fn unfiltered(&self) -> Result<Option<Git>> {
        let answer = self.git.call(["config", "-z", "--name-only", "--get-regexp", r"^filter\."]).answer().await?;
        let names = String::from_utf8_lossy(&answer.stdout).into_owned();
        let drivers: BTreeSet<&str> =
            names.split('\0').filter_map(|name| Some(name.rsplit_once('.')?.0)).filter(|name| !name.is_empty()).collect();
        if drivers.is_empty() {
            return Ok(None);
        }
        let off = |driver: &&str| ["clean=", "smudge=", "process=", "required=false"].map(|end| format!("{driver}.{end}"));
        Ok(Some(self.git.clone().with_config(drivers.iter().flat_map(off))))
    }

    /// Creates an unsigned commit.
    pub async fn commit(&self, tree: &Oid, parents: &[&Oid], message: &str) -> Result<Oid> {
        self.commit_as(Signature::None, tree, parents, message).await
    }

    /// Creates a commit.
    ///
    /// # Errors
    /// If git fails, for example because it cannot sign.
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

    /// Updates refs in one transaction.
    ///
    /// # Errors
    /// If any ref cannot be updated. Then none is.
    pub async fn update_refs(&self, updates: &[RefUpdate], reason: &str) -> Result<()> {
        if updates.is_empty() {
            return Ok(());
        }
        let call = self.git.call(["update-ref", "-m", reason, "--no-deref", "--stdin"]);
        // The longer time limit, because thousands of refs take a while.
        call.input(RefUpdate::transaction(updates)).working().output().await.map(drop)
    }

    /// Points HEAD to a branch, without changing the index or the work tree.
    pub async fn attach_head(&self, branch: &str, reason: &str) -> Result<()> {
        self.point("HEAD", branch, reason).await
    }

    /// Makes a ref a symbolic ref to another one.
    pub async fn point(&self, name: &str, target: &str, reason: &str) -> Result<()> {
        self.git.call(["symbolic-ref", "-m", reason, name, target]).output().await.map(drop)
    }

    /// Detaches HEAD at a commit, without changing the index or the work tree.
    pub async fn detach_head(&self, oid: &Oid, reason: &str) -> Result<()> {
        self.git.call(["update-ref", "-m", reason, "--no-deref", "HEAD", oid.as_str()]).output().await.map(drop)
    }

    /// Replaces the values of a key in one configuration file. `there` says whether the key has values now.
    pub async fn replace_in(&self, file: &Path, key: &str, values: &[OsString], there: bool) -> Result<()> {
        if there {
            let args = [OsStr::new("config"), "--file".as_ref(), file.as_ref(), "--unset-all".as_ref(), key.as_ref()];
            self.git.call(args).output().await?;
        }
        for value in values {
            let args = [OsStr::new("config"), "--file".as_ref(), file.as_ref(), "--add".as_ref(), key.as_ref(), value];
            self.git.call(args).output().await?;
        }
        Ok(())
    }

    /// Writes the tag objects that [`Repo::raw_tags`] has read.
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

    /// The empty tree.
    pub async fn empty_tree(&self) -> Result<Oid> {
        self.git.call(["mktree"]).input("").line().await?.parse()
    }
}

/// Whether git failed because of a filter: its error message says so, or it exceeded its time limit, as with a filter that hangs.
fn is_about_a_filter(error: &anyhow::Error) -> bool {
    let says_so = error.downcast_ref::<GitError>().is_some_and(|error| error.stderr.contains("filter"));
    says_so || GitError::of_time_limit(error).is_some()
}
