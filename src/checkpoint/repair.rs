//! Putting git's own state right after an agent: operations left under way are moved aside, HEAD goes back on the branch.

use std::fs;

use anyhow::{Context, Result};

use super::{Keeper, Notice};
use crate::git::{GitError, Head, Oid, RefList, RefUpdate};
use crate::process::Exit;

/// What an unfinished merge, rebase, cherry-pick, revert or bisect keeps in the git directory.
const OPERATION_FILES: [&str; 19] = [
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "MERGE_AUTOSTASH",
    "MERGE_RR",
    "AUTO_MERGE",
    "SQUASH_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "BISECT_LOG",
    "BISECT_NAMES",
    "BISECT_START",
    "BISECT_TERMS",
    "BISECT_EXPECTED_REV",
    "BISECT_ANCESTORS_OK",
];

impl Keeper {
    /// Moves what an unfinished operation left into the run's directory; says what there was.
    pub(super) fn clear_operations(&self, label: &str) -> Result<Option<Notice>> {
        let git_dir = &self.repo.place.git_dir;
        let left: Vec<&str> = OPERATION_FILES.into_iter().filter(|name| git_dir.join(name).symlink_metadata().is_ok()).collect();
        if left.is_empty() {
            return Ok(None);
        }
        let dir = self.moved_dir(label).join("git-operation");
        fs::create_dir_all(&dir)?;
        for name in &left {
            fs::rename(git_dir.join(name), dir.join(name)).with_context(|| format!("cannot move {name} aside"))?;
        }
        let files = left.into_iter().map(str::to_owned).collect();
        Ok(Some(Notice::OperationMoved { files, to: dir.display().to_string() }))
    }

    /// Without a HEAD that can be read git sees no repository at all.
    pub(super) fn revive_head(&self) -> Result<()> {
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

    /// The commits that an unfinished operation has in its files and nowhere else: an autostash, what was to be rebased.
    pub(super) fn operation_commits(&self) -> Vec<Oid> {
        let git_dir = &self.repo.place.git_dir;
        let names = ["MERGE_HEAD", "MERGE_AUTOSTASH", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "ORIG_HEAD"];
        let inner = ["rebase-merge", "rebase-apply"]
            .into_iter()
            .flat_map(|dir| ["autostash", "orig-head", "stopped-sha"].map(|file| format!("{dir}/{file}")));
        let files = names.into_iter().map(str::to_owned).chain(inner);
        files
            .filter_map(|name| fs::read_to_string(git_dir.join(name)).ok())
            .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>())
            .collect()
    }

    /// Those of them that were not there before the attempt.
    pub(super) fn new_operation_commits(&self) -> Vec<Oid> {
        let before = self.known_operation_commits();
        self.operation_commits().into_iter().filter(|oid| !before.contains(oid)).collect()
    }

    /// Where the agent left HEAD; a broken HEAD is as good as none, but only if git says so twice.
    pub(super) async fn head_after_agent(&self, refs: &RefList) -> Result<Option<Head>> {
        for _ in 0..2 {
            match self.repo.head(refs).await {
                Ok(head) => return Ok(Some(head)),
                Err(error) if !is_verdict(&error) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// The branch at a commit, whatever it is now.
    pub(super) fn branch_to(&self, refs: &RefList, to: &Oid) -> Vec<RefUpdate> {
        let mut updates = Vec::new();
        for name in [self.names.branch(), self.names.checkpoint()] {
            if refs.get(&name) != Some(to) {
                updates.push(RefUpdate::Set { name, to: to.clone() });
            }
        }
        updates
    }

    /// HEAD back on the branch, if it is elsewhere.
    pub(super) async fn reattach(&self, head: Option<&Head>) -> Result<bool> {
        let branch = self.names.branch();
        if head.and_then(Head::branch) == Some(branch.as_str()) {
            return Ok(false);
        }
        let from = head.map_or_else(|| "nowhere".to_owned(), Head::words);
        let reason = format!("checkout: moving from {from} to {}", self.names.short_branch());
        self.repo.attach_head(&branch, &reason).await?;
        Ok(true)
    }
}

/// Whether git has answered, and the answer was no: as opposed to a git that died, hung or could not be started.
pub(super) fn is_verdict(error: &anyhow::Error) -> bool {
    error.downcast_ref::<GitError>().is_some_and(|error| matches!(error.exit, Exit::Code { .. }))
}
