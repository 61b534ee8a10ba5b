//! The short way back: where no file is touched that anybody may have edited, nobody needs to look for edits.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::home::{Departure, Itinerary, Route};
use super::snapshot::GITLINK;
use super::{Footing, Keeper};
use crate::git::{Head, Oid, PathChange, RefList};

/// With more files to be touched, a walk costs little beside.
const FEW: usize = 500;

impl Keeper {
    /// The way back of a cleanup that leaves every file alone but for what others have changed in the original. What was edited
    /// since the last checkpoint is in the work tree before and after; only what is staged would go with the index.
    ///
    /// # Errors
    /// As for the long way.
    pub(super) async fn short_way(
        &self,
        departure: &Departure<'_>,
        refs: &RefList,
        head: Option<&Head>,
        moved_to: Option<&Oid>,
    ) -> Result<Option<Itinerary>> {
        let Footing { checkpoint, base } = departure.footing;
        let whole = refs.get(&self.names.branch()) == Some(checkpoint) && base == checkpoint;
        if departure.route != Route::Cleanup || departure.again || !whole || !self.index_is_at(checkpoint).await? {
            return Ok(None);
        }
        let way = |target: Oid| Itinerary::Journey {
            here: checkpoint.clone(),
            target,
            tip: checkpoint.clone(),
            head: head.cloned(),
            moved_to: moved_to.cloned(),
            refs: refs.clone(),
        };
        let Some(current) = moved_to else { return Ok(Some(way(checkpoint.clone()))) };
        if !self.stands_for(&self.private_index(), checkpoint).await? {
            // A walk that came to nothing has left edits in it.
            return Ok(None);
        }
        let target = self.merged(current, checkpoint, departure.original).await?;
        let changes = self.repo.diff_trees(checkpoint, &target).await?;
        Ok(if self.is_free(&changes).await? { Some(way(target)) } else { None })
    }

    /// Whether the repository's index stands for this commit. `git status` may have written it again, with other times.
    async fn index_is_at(&self, commit: &Oid) -> Result<bool> {
        if self.nothing_is_staged() {
            return Ok(true);
        }
        let copy = self.dir.join("index.now");
        if super::index::copy(&self.repo.place.git_dir.join("index"), &copy).is_err() {
            return Ok(false);
        }
        let stands = self.stands_for(&copy, commit).await?;
        fs::remove_file(&copy)?;
        Ok(stands)
    }

    /// Whether an index holds just what a commit does. One that is none, or full of conflicts, is for the long way to look into.
    async fn stands_for(&self, index: &Path, commit: &Oid) -> Result<bool> {
        let tree = if index.exists() { self.repo.write_tree(index).await.ok() } else { None };
        Ok(tree.is_some() && tree == Some(self.repo.tree_of(commit).await?))
    }

    /// Whether the repository's index is the one that we have put there, to the byte.
    pub(super) fn nothing_is_staged(&self) -> bool {
        same_bytes(&self.repo.place.git_dir.join("index"), &self.private_index()).unwrap_or(false)
    }

    /// Whether every file that is to be changed is as the run left it, and nothing is where new ones will be.
    async fn is_free(&self, changes: &[PathChange]) -> Result<bool> {
        let link = |change: &PathChange| change.old_mode == GITLINK || change.new_mode == GITLINK;
        if changes.len() > FEW || changes.iter().any(link) {
            return Ok(false);
        }
        let (new, known): (Vec<&PathChange>, Vec<&PathChange>) = changes.iter().partition(|change| change.old_mode == 0);
        if new.iter().any(|change| self.is_taken(&change.path)) {
            return Ok(false);
        }
        let known: Vec<PathBuf> = known.into_iter().map(|change| change.path.clone()).collect();
        Ok(known.is_empty() || self.repo.edited(&self.private_index(), &known).await?.is_empty())
    }

    fn is_taken(&self, path: &Path) -> bool {
        let top = &self.repo.place.top;
        let free = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let blocked = |dir: &Path| match top.join(dir).symlink_metadata() {
            Ok(meta) => !meta.is_dir(),
            Err(error) => !free(&error),
        };
        let dirs = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
        dirs.into_iter().any(blocked) || top.join(path).symlink_metadata().as_ref().err().is_none_or(|error| !free(error))
    }
}

fn same_bytes(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 256 * 1024], vec![0; 256 * 1024]);
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(true);
        }
        other.read_exact(&mut right[..count])?;
        if left[..count] != right[..count] {
            return Ok(false);
        }
    }
}
