//! Cleans up git's own state after an agent: moves files of unfinished operations aside and puts HEAD back on the run's branch.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::error::Problem;
use crate::git::{GitError, Head, OPERATION_FILES, Oid, RefList, operation_commits};
use crate::relocate::relocate;
use crate::workspace::{Notice, Workspace};

impl Workspace {
    /// Moves the files of an unfinished operation into the run's directory, and reports them.
    pub(crate) fn clear_operations(&self, label: &str) -> Result<Option<Notice>> {
        let git_dir = &self.repo.place.git_dir;
        let left: Vec<&str> =
            OPERATION_FILES.iter().map(|file| file.name).filter(|name| git_dir.join(name).symlink_metadata().is_ok()).collect();
        if left.is_empty() {
            return Ok(None);
        }
        let dir = self.moved_dir(label).join("git-operation");
        fs::create_dir_all(&dir)?;
        for name in &left {
            relocate(&git_dir.join(name), &dir.join(name)).with_context(|| format!("cannot move {name} aside"))?;
        }
        let files = left.into_iter().map(str::to_owned).collect();
        Ok(Some(Notice::OperationMoved { files, to: dir.display().to_string() }))
    }

    /// Restores HEAD if it is unreadable, because git then does not recognise the repository at all.
    pub(crate) fn revive_head(&self) -> Result<()> {
        let path = self.repo.place.git_dir.join("HEAD");
        let readable = fs::read_to_string(&path).is_ok_and(|text| {
            let text = text.trim_end();
            text.starts_with("ref: refs/") || text.parse::<Oid>().is_ok()
        });
        if readable {
            return Ok(());
        }
        if let Ok(meta) = path.symlink_metadata() {
            let aside = self.moved_dir("HEAD");
            fs::create_dir_all(&aside)?;
            fs::rename(&path, aside.join(format!("HEAD.{}", meta.len())))?;
        }
        fs::write(&path, format!("ref: {}\n", self.names.branch())).with_context(|| format!("cannot restore {}", path.display()))
    }

    /// The commits of unfinished operations that were not there before the attempt.
    pub(crate) fn new_operation_commits(&self) -> Vec<Oid> {
        let before = self.known_operation_commits();
        operation_commits(&self.repo.place.git_dir).into_iter().filter(|oid| !before.contains(oid)).collect()
    }

    /// Where the agent left HEAD. None if git reports twice that HEAD is broken.
    pub(crate) async fn head_after_agent(&self, refs: &RefList) -> Result<Option<Head>> {
        for _ in 0..2 {
            match self.repo.head(refs).await {
                Ok(head) => return Ok(Some(head)),
                Err(error) if !GitError::is_answer(&error) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Puts HEAD back on the run's branch. Returns whether that was necessary.
    pub(crate) async fn reattach(&self, head: Option<&Head>) -> Result<bool> {
        let branch = self.names.branch();
        if head.and_then(Head::branch) == Some(branch.as_str()) {
            return Ok(false);
        }
        let from = head.map_or_else(|| "nowhere".to_owned(), Head::words);
        let reason = format!("checkout: moving from {from} to {}", self.names.short_branch());
        self.repo.attach_head(&branch, &reason).await?;
        Ok(true)
    }

    /// Clears unfinished operations and puts HEAD on the run's branch.
    pub(crate) async fn clean_git_state(&self, head: Option<&Head>, label: &str) -> Result<Vec<Notice>> {
        let mut notices: Vec<Notice> = self.clear_operations(label)?.into_iter().collect();
        if self.reattach(head).await? {
            notices.push(Notice::HeadReattached { from: head.map_or_else(|| "a broken HEAD".to_owned(), Head::words) });
        }
        Ok(notices)
    }

    /// Refuses while a merge, a rebase or another git operation is under way.
    pub(crate) async fn check_nothing_under_way(&self) -> Result<()> {
        if let Some(operation) = self.repo.under_way().await? {
            bail!(under_way_problem(operation));
        }
        Ok(())
    }
}

/// The error for a git operation under way, with a hint.
pub(crate) fn under_way_problem(operation: &str) -> Problem {
    Problem::refused(format!("a {operation} is under way in this work tree"))
        .hint(format!("git status   to see how to finish or abort the {operation}"))
}
