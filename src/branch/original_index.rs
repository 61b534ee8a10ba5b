//! Restores the user's index from before the start after a cleanup or an abort, and makes sure that git can use it.

use anyhow::Result;

use super::Branch;
use crate::git::{Oid, RefList};
use crate::workspace::{Notice, OriginalIndex, Workspace};

impl Branch {
    /// Restores the index from before the start. If our copy is damaged, the index is rebuilt from the commit of what was staged.
    /// If that is lost too, it is rebuilt from the tree `here` of the work tree, so that nothing is staged.
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
            // The ref protects the objects of the index. Without it, objects may have been deleted, so the next case checks them.
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
