//! Finds out whether an agent hid files of its clone with sparse checkout: they are gone from the disk, but the agent did not delete them.

use anyhow::{Context, Result};

use super::Workspace;
use crate::{safe_read, safe_write};

/// The patterns of a sparse checkout, in a git directory. `git sparse-checkout` always writes them.
const PATTERNS: &str = "info/sparse-checkout";

impl Workspace {
    /// Whether files are missing because the clone's index marks them skip-worktree, and the index that the agent was given does not.
    pub(in crate::workspace) async fn hides_files(&self) -> Result<bool> {
        let theirs = self.top().join(".git");
        let patterns = safe_read::bytes(&theirs.join(PATTERNS)).ok();
        if patterns.is_none() || patterns == safe_read::bytes(&self.repo.place.git_dir.join(PATTERNS)).ok() {
            return Ok(false);
        }
        let Ok(bytes) = safe_read::bytes(&theirs.join("index")) else { return Ok(false) };
        self.check_dir()?;
        // A copy, because the index of an agent may be a symbolic link, and git writes to it.
        let copy = self.dir.join("index.sparse");
        safe_write::write(&copy, &bytes).with_context(|| format!("cannot write {}", copy.display()))?;
        let hidden = self.repo.left_out(&copy).await;
        let _ = std::fs::remove_file(&copy);
        // git cannot read the index of an agent that has damaged it. Then the files on the disk count.
        let Ok(hidden) = hidden else { return Ok(false) };
        let given = if self.private_index().exists() { self.repo.left_out(&self.private_index()).await? } else { Default::default() };
        Ok(hidden.difference(&given).any(|path| self.top().join(path).symlink_metadata().is_err()))
    }
}
