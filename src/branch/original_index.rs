//! The user's index of before the start, given back by an abort or a cleanup: never one that git could not use.

use anyhow::Result;

use super::Branch;
use crate::git::{Oid, RefList};
use crate::workspace::{Notice, OriginalIndex, Workspace};

impl Branch {
    /// Gives the index of before the start back. One that somebody has spoilt is made anew from what was staged then; if that is
    /// lost too, from what is in the work tree `here`, so that nothing is staged.
    pub(super) async fn original_index_back(
        &self,
        workspace: &Workspace,
        here: &Oid,
        refs: &RefList,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        let staged = refs.get(&self.names.index());
        let original = workspace.original_index();
        match workspace.original_index_now() {
            OriginalIndex::None => return workspace.remove_index().await,
            // What is under a ref is complete; without one, somebody may have deleted objects.
            OriginalIndex::Whole if staged.is_some() => return workspace.hand_index_back(&original).await,
            OriginalIndex::Whole | OriginalIndex::Unverified if self.repo.has_all_of(&original).await? => {
                return workspace.hand_index_back(&original).await;
            }
            OriginalIndex::Whole | OriginalIndex::Unverified | OriginalIndex::Spoilt => {}
        }
        let private = workspace.private_index();
        self.repo.read_tree(&private, staged.unwrap_or(here)).await?;
        notices.push(match staged {
            Some(_) => Notice::IndexRebuilt {},
            None => Notice::StagedLost {},
        });
        workspace.install_index(&private).await
    }
}
