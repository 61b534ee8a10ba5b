//! Compares the user's refs after an attempt with those before it: restores destroyed refs, and leaves refs alone that another
//! work tree or run is using.

use std::fs;

use anyhow::Result;

use super::guard::Findings;
use crate::git::{GitError, REPLACED, RefEntry, RefList, RefUpdate, may_have_refs_below};
use crate::names::{BRANCHES, Names};
use crate::story::StoryId;
use crate::workspace::{Notice, Workspace};

/// Namespaces of refs that are the user's own work. Remote-tracking refs are not guarded, because a fetch brings them back.
const OWNED: [&str; 3] = ["refs/heads/", "refs/tags/", "refs/notes/"];

/// The refs before and after one attempt.
pub(super) struct Comparison<'a> {
    pub before: &'a RefList,
    pub now: &'a RefList,
    pub story: &'a StoryId,
    pub attempt: u32,
    /// Branches that were checked out in another work tree both before the attempt and now.
    pub elsewhere: &'a [String],
}

impl Workspace {
    pub(super) async fn compare_refs(&self, refs: &Comparison<'_>, findings: &mut Findings) -> Result<()> {
        self.compare_owned(&OWNED, refs, findings).await?;
        self.compare_replacements(refs, findings).await?;
        let known = |name: &String| refs.before.broken().contains(name) || refs.before.entry(name).is_some() || self.names.owns(name);
        let broken = refs.now.broken().iter().filter(|name| !known(name));
        findings.notices.extend(broken.map(|name| Notice::RefBroken { name: name.clone() }));
        Ok(())
    }

    /// Removes refs below `refs/replace/` that an attempt planted, and restores those that it changed. This happens before the gates, so that
    /// they see the history that lands.
    pub(in crate::workspace) async fn put_back_replacements(&self, story: &StoryId, attempt: u32) -> Result<Vec<Notice>> {
        let mut findings = Findings::default();
        let Ok(record) = fs::read_to_string(self.guard_dir().join("refs")) else { return Ok(findings.notices) };
        let before = RefList::from_lines(&record)?;
        if before.below(REPLACED).next().is_none() && !may_have_refs_below(&self.repo.place.common_dir, REPLACED) {
            return Ok(findings.notices);
        }
        let now = self.refs_after_agent(&mut findings.notices).await?;
        let comparison = Comparison { before: &before, now: &now, story, attempt, elsewhere: &[] };
        self.compare_replacements(&comparison, &mut findings).await?;
        self.revive_objects(&mut findings).await?;
        self.restore_refs(&findings, "git ralph").await?;
        Ok(findings.notices)
    }

    async fn compare_replacements(&self, refs: &Comparison<'_>, findings: &mut Findings) -> Result<()> {
        self.compare_owned(&[REPLACED], refs, findings).await?;
        for planted in refs.now.below(REPLACED).filter(|entry| refs.before.entry(&entry.name).is_none()) {
            let (name, kept) = (planted.name.clone(), self.names.moved(refs.story, refs.attempt, &planted.name));
            findings.updates.push(RefUpdate::Set { name: kept.clone(), to: planted.oid.clone() });
            findings.updates.push(RefUpdate::Delete { name: name.clone(), from: planted.oid.clone() });
            findings.notices.push(Notice::ReplacementRemoved { name, kept });
        }
        Ok(())
    }

    async fn compare_owned(&self, namespaces: &[&str], refs: &Comparison<'_>, findings: &mut Findings) -> Result<()> {
        for was in refs.before.owned(namespaces) {
            match &was.symref {
                Some(target) => self.compare_symbolic(was, target, refs, findings).await?,
                None => self.compare_ref(was, refs, findings).await?,
            }
        }
        Ok(())
    }

    async fn compare_ref(&self, was: &RefEntry, refs: &Comparison<'_>, findings: &mut Findings) -> Result<()> {
        let name = &was.name;
        let now = refs.now.entry(name);
        match now.filter(|is| is.symref.is_none()) {
            Some(is) if is.oid == was.oid => return Ok(()),
            // Another run saves what it rolls back, and its checkpoints are no news for this run.
            _ if !refs.now.broken().contains(name) && refs.another_run_worked_on(name) => return Ok(()),
            Some(is) if name.starts_with("refs/heads/") && self.has_moved_on(was, is).await? => {
                findings.notices.push(Notice::RefMovedOn { name: name.clone(), to: is.oid.short().to_owned() });
                return Ok(());
            }
            _ => {}
        }
        if refs.now.broken().contains(name) && self.is_lost(was).await? {
            // The object is gone too, so the ref cannot be restored.
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

    /// Whether the object that a ref pointed to is missing from the repository and has no spare hard link either.
    async fn is_lost(&self, was: &RefEntry) -> Result<bool> {
        self.revive_object(&was.oid).await?;
        Ok(answered(self.repo.tree_of(&was.oid).await)?.is_none())
    }

    /// Whether a branch has only gained commits. If objects are missing, git answers with an error, and the branch counts as
    /// changed.
    async fn has_moved_on(&self, was: &RefEntry, is: &RefEntry) -> Result<bool> {
        Ok(answered(self.repo.is_ancestor(&was.oid, &is.oid).await)?.unwrap_or(false))
    }

    /// Compares a symbolic ref. Only the name it points to matters, because its value moves with the target.
    async fn compare_symbolic(&self, was: &RefEntry, target: &str, refs: &Comparison<'_>, findings: &mut Findings) -> Result<()> {
        let now = refs.now.entry(&was.name);
        let is_same = match now {
            Some(is) => is.symref.as_deref() == Some(target),
            // git does not list a symbolic ref whose target was deleted.
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

    /// Moves branches out of the way whose names make ours impossible (git cannot have both `a` and `a/b`). They are saved under
    /// another ref.
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

    /// Restores the refs that were found destroyed, and then the stash.
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

/// The answer of a git command; none if git reported an error. A git process that was killed has not answered, and must not count
/// as a "no": the user's branch would be reset.
fn answered<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if GitError::is_answer(&error) => Ok(None),
        other => other.map(Some),
    }
}

impl Comparison<'_> {
    /// Whether a branch belongs to another run whose own refs have moved since, as they do with every step of a run.
    fn another_run_worked_on(&self, branch: &str) -> bool {
        let Some(names) = Names::of_ref(branch) else { return false };
        let refs = |list: &RefList| list.below(&names.prefix()).map(|entry| (entry.name.clone(), entry.oid.clone())).collect::<Vec<_>>();
        refs(self.before) != refs(self.now)
    }
}
