//! Brings the work of an agent on another machine into the private clone of its attempt, as if the agent had worked there.

use anyhow::Result;

use super::git_dir::Origin;
use crate::git::Oid;
use crate::remote::RemoteResult;
use crate::workspace::{Notice, Workspace};

impl Workspace {
    /// Turns the clone, a checkout of `base`, into the state that the worker's `commit` describes: the agent's files, commits and
    /// index.
    pub(crate) async fn bring(&self, origin: &Origin, base: &Oid, commit: &Oid, result: &RemoteResult) -> Result<Vec<Notice>> {
        let (from, to) = (self.repo.tree_of(base).await?, self.repo.tree_of(commit).await?);
        let mut notices = Vec::new();
        self.turn_into(&from, &to, &mut notices).await?;
        let git = origin.git_in(&self.repo.place.top);
        let mut updates = String::new();
        // A worker can only name commits that it has pushed.
        let known = async |oid: &Oid| self.repo.is_ancestor(oid, commit).await;
        if let Some(head) = &result.head
            && known(head).await?
        {
            updates.push_str(&format!("update {} {head}\n", self.names.branch()));
        }
        for (number, oid) in result.others.iter().enumerate() {
            if known(oid).await? {
                updates.push_str(&format!("update refs/heads/from-worker/{} {oid}\n", number + 1));
            }
        }
        if !updates.is_empty() {
            git.call(["update-ref", "--stdin"]).input(updates).working().output().await?;
        }
        if let Some(staged) = &result.staged
            && known(staged).await?
        {
            git.call(["read-tree", staged.as_str()]).working().output().await?;
        }
        self.hand_over();
        Ok(notices)
    }
}
