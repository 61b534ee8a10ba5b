//! The refs of others after an attempt: what it destroyed comes back, what somebody else works on is left alone.

use anyhow::Result;

use super::guard::Findings;
use crate::git::{GitError, RefEntry, RefList, RefUpdate};
use crate::names::{BRANCHES, Names};
use crate::story::StoryId;
use crate::workspace::{Notice, Workspace};

/// Namespaces in which a ref is the user's own work; what follows a remote may go as it came.
const OWNED: [&str; 3] = ["refs/heads/", "refs/tags/", "refs/notes/"];

/// The refs around one attempt.
pub(super) struct Comparison<'a> {
    pub before: &'a RefList,
    pub now: &'a RefList,
    pub story: &'a StoryId,
    pub attempt: u32,
    /// The branches that somebody worked on in other work trees, before the attempt as well as now.
    pub elsewhere: &'a [String],
}

impl Workspace {
    pub(super) async fn compare_refs(&self, refs: &Comparison<'_>, findings: &mut Findings) -> Result<()> {
        for was in refs.before.owned(&OWNED) {
            match &was.symref {
                Some(target) => self.compare_symbolic(was, target, refs, findings).await?,
                None => self.compare_ref(was, refs, findings).await?,
            }
        }
        let known = |name: &String| refs.before.broken().contains(name) || refs.before.entry(name).is_some() || self.names.owns(name);
        let broken = refs.now.broken().iter().filter(|name| !known(name));
        findings.notices.extend(broken.map(|name| Notice::RefBroken { name: name.clone() }));
        Ok(())
    }

    async fn compare_ref(&self, was: &RefEntry, refs: &Comparison<'_>, findings: &mut Findings) -> Result<()> {
        let name = &was.name;
        let now = refs.now.entry(name);
        match now.filter(|is| is.symref.is_none()) {
            Some(is) if is.oid == was.oid => return Ok(()),
            // A run in another work tree keeps what it takes away, and its checkpoints are no news here.
            _ if !refs.now.broken().contains(name) && refs.another_run_worked_on(name) => return Ok(()),
            Some(is) if name.starts_with("refs/heads/") && self.has_moved_on(was, is).await? => {
                findings.notices.push(Notice::RefMovedOn { name: name.clone(), to: is.oid.short().to_owned() });
                return Ok(());
            }
            _ => {}
        }
        if refs.now.broken().contains(name) && self.is_lost(was).await? {
            // Its object is gone too: there is nothing that it could be put back to.
            findings.notices.push(Notice::RefBroken { name: name.clone() });
            return Ok(());
        }
        if now.is_some() && refs.elsewhere.contains(name) {
            let kept = self.names.moved(refs.story, refs.attempt, name);
            findings.updates.push(RefUpdate::Set { name: kept.clone(), to: was.oid.clone() });
            findings.notices.push(Notice::RefOfOthers { name: name.clone(), kept });
        } else {
            self.keep_other(was, refs, findings);
            findings.updates.push(RefUpdate::Set { name: name.clone(), to: was.oid.clone() });
        }
        Ok(())
    }

    /// Whether what a ref led to is not in the repository any more, and has no second name either.
    async fn is_lost(&self, was: &RefEntry) -> Result<bool> {
        self.revive_object(&was.oid).await?;
        Ok(answered(self.repo.tree_of(&was.oid).await)?.is_none())
    }

    /// Whether a branch has only got new commits. Where objects are missing, git answers with an error, and the branch is no longer what
    /// it was.
    async fn has_moved_on(&self, was: &RefEntry, is: &RefEntry) -> Result<bool> {
        Ok(answered(self.repo.is_ancestor(&was.oid, &is.oid).await)?.unwrap_or(false))
    }

    /// A ref that stands for another one moves with it; only where it leads to counts.
    async fn compare_symbolic(&self, was: &RefEntry, target: &str, refs: &Comparison<'_>, findings: &mut Findings) -> Result<()> {
        let now = refs.now.entry(&was.name);
        let is_same = match now {
            Some(is) => is.symref.as_deref() == Some(target),
            // One whose target was deleted is not listed.
            None => self.repo.target_of(&was.name).await?.as_deref() == Some(target),
        };
        if !is_same {
            self.keep_other(was, refs, findings);
            findings.symbolic.push((was.name.clone(), target.to_owned()));
        }
        Ok(())
    }

    /// Saves the ref's new value, if it still exists, before the old value is restored.
    pub(super) fn keep_other(&self, was: &RefEntry, refs: &Comparison<'_>, findings: &mut Findings) {
        let kept = refs.now.entry(&was.name).map(|is| (self.names.moved(refs.story, refs.attempt, &was.name), is.oid.clone()));
        findings.updates.extend(kept.iter().map(|(name, oid)| RefUpdate::Set { name: name.clone(), to: oid.clone() }));
        findings.notices.push(Notice::RefRestored { name: was.name.clone(), kept: kept.map(|(name, _)| name) });
    }

    /// A branch named above or below ours makes ours impossible: it is kept under another name.
    pub(super) fn clear_the_way(&self, refs: &Comparison<'_>, findings: &mut Findings) {
        let below = format!("{}/", self.names.branch());
        let above = BRANCHES.trim_end_matches('/');
        let above = refs.now.get(above).map(|oid| (above.to_owned(), oid));
        for (name, oid) in refs.now.below(&below).map(|entry| (entry.name.clone(), &entry.oid)).chain(above) {
            let kept = self.names.moved(refs.story, refs.attempt, &name);
            findings.updates.push(RefUpdate::Set { name: kept.clone(), to: oid.clone() });
            findings.updates.push(RefUpdate::Delete { name: name.clone(), from: oid.clone() });
            findings.notices.push(Notice::RefInTheWay { name, kept });
        }
    }

    /// Puts the refs right that were found destroyed, and then the stash.
    pub(crate) async fn restore_refs(&self, findings: &Findings, reason: &str) -> Result<()> {
        self.repo.update_refs(&findings.updates, reason).await?;
        for (name, target) in &findings.symbolic {
            self.repo.point(name, target, reason).await?;
        }
        match &findings.stash {
            Some(entries) => self.rebuild_stash(entries).await,
            None => Ok(()),
        }
    }
}

/// What git has answered; none if that was an error. A git that was killed has answered nothing, and must not be taken for a no: the
/// user's branch would be set back.
fn answered<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if GitError::is_answer(&error) => Ok(None),
        other => other.map(Some),
    }
}

impl Comparison<'_> {
    /// Whether a branch is that of another run, and that run has moved refs of its own meanwhile, as it does with every step.
    fn another_run_worked_on(&self, branch: &str) -> bool {
        let Some(names) = Names::of_ref(branch) else { return false };
        let refs = |list: &RefList| list.below(&names.prefix()).map(|entry| (entry.name.clone(), entry.oid.clone())).collect::<Vec<_>>();
        refs(self.before) != refs(self.now)
    }
}
