//! The way back to the original branch: cleanup brings the loop's work along uncommitted, abort leaves it in a ref.

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::snapshot::Snapshot;
use super::submodules::Moment;
use super::{Footing, Keeper, Notice};
use crate::error::Problem;
use crate::git::{Head, Merge, Oid, Reach, RefList, RefUpdate};

/// Tells our way home from a `git switch`: nobody else ends the words of a move of HEAD like this.
const BY_US: &str = " (git ralph)";

/// Which way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// With everything that the loop did, as uncommitted changes.
    Cleanup,
    /// With the work tree and the index as they were before the start.
    Abort,
}

/// Back on the original branch.
#[derive(Debug)]
pub struct Homecoming {
    /// The ref that keeps the run's last state.
    pub kept: String,
    /// What was moved on the way.
    pub notices: Vec<Notice>,
}

/// Everything that the way back depends on.
#[derive(Clone, Debug)]
pub struct Departure<'a> {
    /// Which way.
    pub route: Route,
    /// Where the run started.
    pub original: &'a Head,
    /// The commit "initial state".
    pub initial: &'a Oid,
    /// Where the run stands.
    pub footing: &'a Footing,
    /// Whether an earlier try was cut short, so that HEAD may be anywhere between.
    pub again: bool,
}

/// A way back that is known to be free: nothing has been touched yet.
#[derive(Debug)]
pub enum Itinerary {
    /// An earlier try got all the way.
    Arrived,
    /// Still to go.
    Journey {
        /// The work tree as it is.
        here: Oid,
        /// The work tree as it will be.
        target: Oid,
        /// The run's last state, to be kept.
        tip: Oid,
        /// Where HEAD is.
        head: Option<Head>,
        /// The original's commit, if it has moved since the start.
        moved_to: Option<Oid>,
        /// The refs as they are.
        refs: RefList,
    },
}

impl Keeper {
    /// Finds the way back, touching nothing.
    ///
    /// # Errors
    /// A [`Problem`] if the original branch is gone, in use, or conflicts.
    pub async fn survey(&self, departure: &Departure<'_>) -> Result<Itinerary> {
        let refs = self.repo.refs().await?;
        let kept = refs.get(&self.names.done());
        if departure.again && kept.is_some() && refs.get(&self.names.branch()).is_none() {
            return Ok(Itinerary::Arrived);
        }
        let head = self.head_after_agent(&refs).await?;
        self.check_departure(departure, &refs, head.as_ref()).await?;
        let current = self.destination(departure.original, &refs)?;
        let moved_to = current.filter(|current| Some(*current) != departure.original.oid());
        if let Some(way) = self.short_way(departure, &refs, head.as_ref(), moved_to).await? {
            return Ok(way);
        }
        // Before the walk: it writes times into our own index.
        let staged = !self.nothing_is_staged();
        let here = self.snapshot(&departure.footing.checkpoint).await?;
        let recorded = kept.filter(|_| departure.again);
        let tip = match recorded {
            Some(tip) => tip.clone(),
            None => self.last_state(&here, staged, &refs, head.as_ref(), departure.footing).await?,
        };
        let source = match departure.route {
            Route::Cleanup => &tip,
            Route::Abort => departure.initial,
        };
        let target = match moved_to {
            Some(current) => self.merged(current, source, departure.original).await?,
            None => source.clone(),
        };
        let (target, tip) = match recorded {
            Some(recorded) => {
                let (target, tip) = self.with_later_edits(&here.tree, recorded, &target, current, head.as_ref()).await?;
                (target, self.with_later_stage(&here.tree, tip, current, &refs, staged).await?)
            }
            None => (target, tip),
        };
        let moved_to = moved_to.cloned();
        Ok(Itinerary::Journey { here: here.tree, target, tip, head, moved_to, refs })
    }

    /// Goes back. Killed anywhere, surveying and going again ends in the same place.
    ///
    /// # Errors
    /// If git fails; the run's last state is under a ref by then.
    pub async fn go_home(&self, route: Route, itinerary: Itinerary, original: &Head) -> Result<Homecoming> {
        let kept = self.names.done();
        let mut notices = Vec::new();
        let Itinerary::Journey { here, target, tip, head, moved_to, refs } = itinerary else {
            return Ok(Homecoming { kept, notices });
        };
        self.repo.update_refs(&[RefUpdate::Set { name: kept.clone(), to: tip }], "git ralph finish").await?;
        let back = self.repo.diff_trees(&here, &target).await?;
        for path in self.make_room(&back, "finish")? {
            notices.push(Notice::ObstacleMoved { path: path.display().to_string(), to: self.moved_dir("finish").display().to_string() });
        }
        if !back.is_empty() {
            let reach = if route == Route::Abort { Reach::Everywhere } else { Reach::AsConfigured };
            self.repo.switch_tree(&self.private_index(), &here, &target, reach).await.context("cannot restore the work tree")?;
        }
        if route == Route::Cleanup {
            self.restore_keepsakes(&back).await?;
            // What was not written again has the permissions that somebody may have given it since.
            self.restore_modes_of(&back)?;
        } else {
            self.restore_beyond_trees(&back, Moment::Start, Moment::Start, "finish", &mut notices).await?;
            notices.extend(self.restore_submodules(Moment::Start, &kept).await?);
        }
        notices.extend(self.clear_operations("finish")?);
        self.head_home(original, head.as_ref()).await?;
        self.index_home(moved_to.as_ref(), &target, &refs, &mut notices).await?;
        self.drop_refs(&refs).await?;
        Ok(Homecoming { kept, notices })
    }

    async fn check_departure(&self, departure: &Departure<'_>, refs: &RefList, head: Option<&Head>) -> Result<()> {
        let short = self.names.short_branch();
        let on_branch = head.and_then(Head::branch) == Some(self.names.branch().as_str());
        if !on_branch && !departure.again {
            let at = head.map_or_else(|| "nothing".to_owned(), Head::words);
            bail!(Problem::refused(format!("HEAD is on {at}, not on {short}")).hint(format!("git switch {short}")));
        }
        if let Some(tip) = refs.get(&self.names.branch())
            && *tip != departure.footing.checkpoint
            && !self.repo.is_ancestor(&departure.footing.checkpoint, tip).await?
        {
            bail!(
                Problem::refused(format!(
                    "{short} is at {}, which does not contain the last checkpoint {}",
                    tip.short(),
                    departure.footing.checkpoint.short()
                ))
                .hint(format!("git reset --keep {}   to go back to the checkpoint", departure.footing.checkpoint.short()))
            );
        }
        let Some(original) = departure.original.branch() else { return Ok(()) };
        if let Some((_, path)) = self.repo.checked_out_elsewhere().await?.into_iter().find(|(name, _)| name == original) {
            bail!(
                Problem::refused(format!("the original branch '{}' is checked out at {path}", departure.original.words()))
                    .hint(format!("git -C {path} switch <other branch>"))
                    .hint("git ralph finish --keep   to stay on the run's branch")
            );
        }
        Ok(())
    }

    /// The commit that the original is at now.
    fn destination<'a>(&self, original: &'a Head, refs: &'a RefList) -> Result<Option<&'a Oid>> {
        match original {
            Head::Detached { oid } => Ok(Some(oid)),
            Head::Branch { name, oid } => match refs.get(name) {
                Some(current) => Ok(Some(current)),
                None => bail!(
                    Problem::refused(format!("the original branch '{}' no longer exists", original.words()))
                        .hint(format!("git branch {} {}   to bring it back where it was", original.words(), oid.short()))
                        .hint("git ralph finish --keep   to stay on the run's branch")
                ),
            },
            Head::Unborn { name } => match refs.get(name) {
                None => Ok(None),
                Some(_) => bail!(
                    Problem::refused(format!("the original branch '{}' had no commit at the start and has one now", original.words()))
                        .hint("git ralph finish --keep   to stay on the run's branch")
                ),
            },
        }
    }

    /// A commit that holds everything there is: the branch's tip if nothing is left beside it.
    async fn last_state(&self, here: &Snapshot, staged: bool, refs: &RefList, head: Option<&Head>, footing: &Footing) -> Result<Oid> {
        let staged = if staged { self.staged(&here.tree, &footing.checkpoint).await? } else { None };
        let parents = self.everything(refs, head, staged.as_ref(), &footing.checkpoint);
        if here.changes.is_empty() && parents.len() == 1 {
            return Ok(footing.checkpoint.clone());
        }
        self.repo.commit(&here.tree, &parents, "last state of the run\n").await
    }

    /// What the user has edited since an earlier try was cut short comes along; and it is kept with the run's last state.
    async fn with_later_edits(
        &self,
        here: &Oid,
        recorded: &Oid,
        target: &Oid,
        current: Option<&Oid>,
        head: Option<&Head>,
    ) -> Result<(Oid, Oid)> {
        let from_run: HashSet<PathBuf> = self.repo.diff_trees(recorded, here).await?.into_iter().map(|change| change.path).collect();
        let from_target = self.repo.diff_trees(target, here).await?;
        if !from_target.iter().any(|change| from_run.contains(&change.path)) {
            // Every file is as the run left it or already as it shall be.
            return Ok((target.clone(), recorded.clone()));
        }
        let from_original = match current {
            Some(current) => self.repo.diff_trees(current, here).await?.len(),
            None => usize::MAX,
        };
        // The work tree is on its way from the run's last state, unless the user has switched to the original himself.
        let left =
            head.and_then(Head::branch) != Some(self.names.branch().as_str()) && !self.repo.last_move_of_head().await?.ends_with(BY_US);
        let base = current.filter(|_| left && from_original < from_run.len()).unwrap_or(recorded);
        let tip = self.repo.commit(&self.tree(here).await?, &[recorded], "edits since the finish was cut short\n").await?;
        let common = self.repo.commit(&self.tree(base).await?, &[], "common\n").await?;
        let ours = self.repo.commit(&self.tree(target).await?, &[&common], "target\n").await?;
        let theirs = self.repo.commit(&self.tree(here).await?, &[&common], "here\n").await?;
        match self.repo.merge(&ours, &theirs).await? {
            Merge::Clean(tree) => Ok((tree, tip)),
            Merge::Conflict(paths) => {
                let list: Vec<String> = paths.iter().map(|path| format!("\n\t{}", path.display())).collect();
                bail!(
                    Problem::refused(format!("files were edited after the finish was cut short, and conflict with it:{}", list.concat()))
                        .hint("commit them on a branch of their own, then finish again")
                )
            }
        }
    }

    /// What the user has only staged since an earlier try was cut short is kept with the run's last state.
    async fn with_later_stage(&self, here: &Oid, tip: Oid, current: Option<&Oid>, refs: &RefList, staged: bool) -> Result<Oid> {
        let Some(staged) = (if staged { self.staged(here, &tip).await? } else { None }) else { return Ok(tip) };
        // The earlier try may have put the index of the start back, or what was staged then on top of what has moved.
        for known in [refs.get(&self.names.index()), current].into_iter().flatten() {
            if self.repo.diff_trees(known, &staged).await?.is_empty() {
                return Ok(tip);
            }
        }
        self.repo.commit(&self.tree(&tip).await?, &[&tip, &staged], "last state of the run\n").await
    }

    async fn tree(&self, treeish: &Oid) -> Result<Oid> {
        self.repo.tree_of(treeish).await
    }

    pub(super) async fn merged(&self, current: &Oid, source: &Oid, original: &Head) -> Result<Oid> {
        match self.repo.merge(current, source).await? {
            Merge::Clean(tree) => Ok(tree),
            Merge::Conflict(paths) => {
                let list: Vec<String> = paths.iter().map(|path| format!("\n\t{}", path.display())).collect();
                let short = self.names.short_branch();
                bail!(
                    Problem::refused(format!("'{}' has moved on and conflicts with the run in:{}", original.words(), list.concat()))
                        .hint(format!("git merge {}   on {short} to resolve it there, then finish again", original.words()))
                        .hint("git ralph finish --keep   to stay on the run's branch")
                )
            }
        }
    }

    async fn head_home(&self, original: &Head, head: Option<&Head>) -> Result<()> {
        if head.and_then(Head::branch) != Some(self.names.branch().as_str()) && head.map(Head::words) == Some(original.words()) {
            return Ok(());
        }
        let reason = format!("checkout: moving from {} to {}{BY_US}", self.names.short_branch(), original.words());
        match original {
            Head::Branch { name, .. } | Head::Unborn { name } => self.repo.attach_head(name, &reason).await,
            Head::Detached { oid } => self.repo.detach_head(oid, &reason).await,
        }
    }

    /// The user's index of before the start; on a branch that has moved, what was staged then on top of what is there now.
    async fn index_home(&self, moved_to: Option<&Oid>, here: &Oid, refs: &RefList, notices: &mut Vec<Notice>) -> Result<()> {
        let Some(current) = moved_to else {
            let original = self.original_index();
            return if original.exists() { self.hand_index_back(&original).await } else { self.remove_index().await };
        };
        let tree = match refs.get(&self.names.index()) {
            Some(staged) => match self.repo.merge(current, staged).await? {
                Merge::Clean(tree) => tree,
                Merge::Conflict(_) => {
                    notices.push(Notice::NotStagedAgain { kept: self.names.index() });
                    current.clone()
                }
            },
            None => current.clone(),
        };
        // Reading all of a tree into an index takes longer than everything else; mostly a few entries differ.
        let changes = self.repo.diff_trees(here, &tree).await?;
        self.repo.set_entries(&self.private_index(), &changes).await?;
        self.install_index(&self.private_index()).await
    }

    /// The branch and the refs that only an open run needs, in one transaction; what keeps work stays.
    async fn drop_refs(&self, refs: &RefList) -> Result<()> {
        let names = &self.names;
        let own = [names.branch(), names.base(), names.initial(), names.checkpoint(), names.pin()];
        let delete = |name: String| {
            let from = refs.get(&name)?.clone();
            Some(RefUpdate::Delete { name, from })
        };
        let updates: Vec<RefUpdate> = own.into_iter().filter_map(delete).collect();
        self.repo.update_refs(&updates, "git ralph finish").await
    }
}
