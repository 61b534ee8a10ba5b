//! Plans a cleanup without a scan of the work tree, if no edited file has to change. Pays for the rows `ends: cleanup`.

use anyhow::Result;

use super::leave::{LeavePlan, Leaving, Route};
use super::{Base, Branch};
use crate::git::{Head, Oid, RefList};
use crate::workspace::Workspace;

impl Branch {
    /// Plans a cleanup that writes only files that have changed on the original branch. Edits since the last checkpoint stay in
    /// the work tree. Staged content would be lost with the index, so then there is no fast plan.
    ///
    /// # Errors
    /// As [`Branch::plan_leaving`].
    pub(super) async fn fast_plan(
        &self,
        workspace: &Workspace,
        leaving: &Leaving<'_>,
        refs: &RefList,
        head: Option<&Head>,
        moved_to: Option<&Oid>,
    ) -> Result<Option<LeavePlan>> {
        let Base { checkpoint, snapshot } = leaving.base;
        let whole = refs.get(&self.names.branch()) == Some(checkpoint) && snapshot == checkpoint;
        if leaving.route != Route::Cleanup || leaving.again || !whole || !workspace.index_is_at(checkpoint).await? {
            return Ok(None);
        }
        let way = |target: Oid| LeavePlan::Go {
            here: checkpoint.clone(),
            target,
            tip: checkpoint.clone(),
            head: head.cloned(),
            moved_to: moved_to.cloned(),
            refs: refs.clone(),
            trouble: Box::default(),
        };
        let Some(current) = moved_to else { return Ok(Some(way(checkpoint.clone()))) };
        if !workspace.stands_for(&workspace.private_index(), checkpoint).await? {
            // A scan that was not completed has left edits in the index.
            return Ok(None);
        }
        let target = self.merged(current, checkpoint, leaving.original).await?;
        let changes = self.repo.diff_trees(checkpoint, &target).await?;
        Ok(if workspace.is_free(&changes).await? { Some(way(target)) } else { None })
    }
}
