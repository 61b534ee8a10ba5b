//! Inspects the workspace right after an attempt: the refs, HEAD, and (if the agent left git alone) the work tree.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use super::{Notice, Workspace};
use crate::git::{Answer, Head, Oid, RefList};

/// The state of a workspace after an attempt.
pub(crate) struct Aftermath {
    /// The refs of the user's repository.
    pub refs: RefList,
    /// When the refs were listed.
    pub looked: Instant,
    /// Where HEAD points in the git directory that the agent used; none if HEAD is broken.
    pub head: Option<Head>,
    /// Where the run's branch points in the git directory that the agent used; none if the branch was deleted.
    pub tip: Option<Oid>,
    /// The output of `git add` on the private index, if the work tree has been scanned already.
    pub walked: Option<Answer>,
    /// Whether configuration and hooks are known to be unchanged.
    pub untouched: bool,
    /// Repairs that were necessary before git could be used.
    pub notices: Vec<Notice>,
}

impl Workspace {
    /// Lists the refs. If the loose files suggest that the agent left git alone, `git add` scans the work tree at the same time.
    /// The listed refs decide whether that scan can be used.
    pub(crate) async fn aftermath(&self, checkpoint: &Oid) -> Result<Aftermath> {
        let mut notices = self.restore_essentials()?;
        self.unseal()?;
        notices.extend(self.restore_unreadable_config().await?);
        self.recover_switch().await?;
        let looked = Instant::now();
        self.note_walk();
        let alone = self.stands_on(checkpoint) && self.private_index().exists() && self.settings_are_kept();
        let (refs, walked, untouched) = if alone {
            let index = self.private_index();
            let hooks = async { Ok(self.hooks_are_kept()) };
            let (refs, walked, untouched) = tokio::try_join!(self.refs_after_agent(&mut notices), self.add_patiently(&index), hooks)?;
            (refs, Some(walked), untouched)
        } else {
            (self.refs_after_agent(&mut notices).await?, None, false)
        };
        let head = self.head_after_agent(&refs).await?;
        let tip = refs.get(&self.names.branch()).cloned();
        Ok(Aftermath { refs, looked, head, tip, walked, untouched, notices })
    }

    /// The commit that HEAD points to, read from loose files; none for packed refs and for reftable.
    pub(crate) fn head_in_files(&self) -> Option<Oid> {
        let place = &self.repo.place;
        let head = fs::read_to_string(place.git_dir.join("HEAD")).ok()?;
        match head.trim_end().strip_prefix("ref: ") {
            Some(name) => fs::read_to_string(place.common_dir.join(name)).ok()?.trim_end().parse().ok(),
            None => head.trim_end().parse().ok(),
        }
    }

    /// Whether HEAD is on the run's branch and the branch is at the checkpoint, read from loose files. False for packed refs and
    /// for reftable.
    pub(crate) fn stands_on(&self, checkpoint: &Oid) -> bool {
        let place = &self.repo.place;
        let reads = |file: PathBuf, text: &str| fs::read_to_string(file).is_ok_and(|found| found.trim_end() == text);
        reads(place.git_dir.join("HEAD"), &format!("ref: {}", self.names.branch()))
            && reads(place.common_dir.join(self.names.branch()), checkpoint.as_str())
    }
}
