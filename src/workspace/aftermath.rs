//! What an attempt has left in its directory and in the git that it saw, at the first look.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use super::{Notice, Workspace};
use crate::git::{Answer, Head, Oid, RefList};

/// What an attempt has left.
pub(crate) struct Aftermath {
    /// The refs of the user's repository.
    pub refs: RefList,
    /// When they were listed.
    pub looked: Instant,
    /// Where HEAD is in the git that the agent saw; none if it is broken.
    pub head: Option<Head>,
    /// Where the run's branch is in the git that the agent saw; none if it is gone.
    pub tip: Option<Oid>,
    /// What git answered to the walk, if it has been made.
    pub walked: Option<Answer>,
    /// Whether configuration and hooks are known to be what they were.
    pub untouched: bool,
    /// What had to be put right before git could be asked.
    pub notices: Vec<Notice>,
}

impl Workspace {
    /// Looks at the refs; and walks at the same time, if the agent seems to have left git alone. What the refs say decides.
    pub(crate) async fn aftermath(&self, checkpoint: &Oid) -> Result<Aftermath> {
        let mut notices = self.restore_footing()?;
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

    /// Where HEAD is, as far as loose files tell; none for packed refs and for reftable.
    pub(crate) fn head_in_files(&self) -> Option<Oid> {
        let place = &self.repo.place;
        let head = fs::read_to_string(place.git_dir.join("HEAD")).ok()?;
        match head.trim_end().strip_prefix("ref: ") {
            Some(name) => fs::read_to_string(place.common_dir.join(name)).ok()?.trim_end().parse().ok(),
            None => head.trim_end().parse().ok(),
        }
    }

    /// Whether HEAD is on the branch and the branch at the checkpoint, read from loose files. False for packed refs and for
    /// reftable.
    pub(crate) fn stands_on(&self, checkpoint: &Oid) -> bool {
        let place = &self.repo.place;
        let reads = |file: PathBuf, text: &str| fs::read_to_string(file).is_ok_and(|found| found.trim_end() == text);
        reads(place.git_dir.join("HEAD"), &format!("ref: {}", self.names.branch()))
            && reads(place.common_dir.join(self.names.branch()), checkpoint.as_str())
    }
}
