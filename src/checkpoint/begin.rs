//! Beginning a run: checks that touch nothing, then the initial state on a branch of its own.

use anyhow::{Result, bail};

use super::protected::Protected;
use super::sights::Sights;
use super::submodules::Moment;
use super::{Keeper, Names};
use crate::error::Problem;
use crate::git::{Head, Hidden, Listing, Oid, RefList, RefUpdate, Repo, TreeEntry, is_opaque_directory, without_slash};

/// Whether a run begins now or went down while it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// For the first time.
    Fresh,
    /// It was under way when the process died.
    Again,
}

/// A run that has begun.
#[derive(Debug)]
pub struct Begun {
    /// The commit "initial state".
    pub initial: Oid,
    /// Where a branch of an earlier run was kept, with its tip.
    pub leftover: Option<(String, Oid)>,
}

/// What a run finds before it begins.
struct Scene {
    /// The tree that the user's index stands for.
    staged_tree: Oid,
    /// A commit of it.
    staged: Oid,
    /// What `git status` lists.
    entries: Vec<TreeEntry>,
    /// What it had to say about what it could not look at.
    words: String,
    /// What it was told not to look at.
    hidden: Hidden,
    /// What it does not tell.
    sights: Sights,
}

/// Refuses, having touched nothing, if a run of this change cannot begin here.
///
/// # Errors
/// A [`Problem`] that says why and what to do.
pub async fn preflight(repo: &Repo, names: &Names) -> Result<()> {
    let unmerged = repo.git.call(["ls-files", "-u", "-z"]).working();
    let (under_way, unmerged, refs, elsewhere) =
        tokio::join!(repo.under_way(), unmerged.output(), repo.refs(), repo.checked_out_elsewhere());
    if let Some(operation) = under_way? {
        bail!(
            Problem::refused(format!("a {operation} is under way in this work tree"))
                .hint(format!("finish or abort the {operation} first; 'git status' says how"))
        );
    }
    if !unmerged?.is_empty() {
        bail!(Problem::refused("the index has conflicts that are not resolved").hint("git status"));
    }
    let refs = refs?;
    if refs.get("refs/heads/ralph").is_some() {
        bail!(Problem::refused("a branch named 'ralph' is in the way of branches named 'ralph/…'").hint("git branch -m ralph <new name>"));
    }
    let kept = names.prefix();
    for name in ["refs/ralph", kept.trim_end_matches('/')] {
        if let Some(oid) = refs.get(name) {
            let problem = Problem::refused(format!("the ref '{name}' is in the way of refs below it, under which work is kept"));
            bail!(problem.hint(format!("git branch <name> {}, and git update-ref -d {name}", oid.short())));
        }
    }
    let branch = names.branch();
    let below = format!("{branch}/");
    if let Some(entry) = refs.below(&below).next() {
        let short = entry.name.strip_prefix("refs/heads/").unwrap_or(&entry.name);
        bail!(
            Problem::refused(format!("the branch '{short}' is in the way of '{}'", names.short_branch()))
                .hint(format!("git branch -m {short} <new name>"))
        );
    }
    if let Some((_, path)) = elsewhere?.into_iter().find(|(name, _)| *name == branch) {
        bail!(
            Problem::refused(format!("'{}' is checked out at {path}", names.short_branch()))
                .hint(format!("git -C {path} switch <other branch>"))
        );
    }
    if repo.place.head.branch() == Some(branch.as_str()) {
        bail!(
            Problem::refused(format!("'{}' is checked out here, but no run of it is open", names.short_branch()))
                .hint("git switch <the branch to start from>")
        );
    }
    Ok(())
}

impl Keeper {
    /// Begins the run number `run` from `original`. Until the ref transaction, nothing of the user's is touched.
    ///
    /// # Errors
    /// If git fails.
    pub async fn begin(&self, original: &Head, run: u32, beginning: Beginning) -> Result<Begun> {
        let mut refs = self.repo.refs().await?;
        let recorded = refs.get(&self.names.initial()).filter(|_| beginning == Beginning::Again).cloned();
        let begun = match recorded {
            Some(initial) => Begun { initial, leftover: None },
            None => {
                if self.archive(&refs, run).await? {
                    refs = self.repo.refs().await?;
                }
                self.record_initial_state(original, run, &refs).await?
            }
        };
        let reason = format!("checkout: moving from {} to {}", original.words(), self.names.short_branch());
        self.repo.attach_head(&self.names.branch(), &reason).await?;
        if !self.private_index().exists() {
            self.repo.read_tree(&self.private_index(), &begun.initial).await?;
        }
        self.install_index(&self.private_index()).await?;
        self.note_baseline(Moment::Start)?;
        Ok(begun)
    }

    async fn record_initial_state(&self, original: &Head, run: u32, refs: &RefList) -> Result<Begun> {
        self.keep_original_index().await?;
        let index = self.private_index();
        let parents: Vec<&Oid> = original.oid().into_iter().collect();
        let scene = self.look_around(&parents).await?;
        let ignored = scene.entries.iter().filter_map(|entry| if let TreeEntry::Ignored(path) = entry { Some(path.clone()) } else { None });
        let protected = Protected::new(ignored);
        self.save_protected(&protected)?;
        let nested = |entry: &TreeEntry| match entry {
            TreeEntry::Untracked(path) if is_opaque_directory(path) => Some(without_slash(path).to_owned()),
            _ => None,
        };
        self.save_nested(&scene.entries.iter().filter_map(nested).collect::<Vec<_>>())?;
        self.repo.unhide(&index, &scene.hidden).await?;
        let seen_all = scene.hidden.is_empty() && scene.words.is_empty();
        let told = if seen_all { self.snapshot_of(&scene.entries, &scene.staged_tree).await? } else { None };
        let snapshot = match told {
            Some(snapshot) => snapshot,
            None => self.snapshot(&scene.staged_tree).await?,
        };
        snapshot.check_whole()?;
        let committed = match original.oid() {
            Some(oid) => oid.clone(),
            None => self.repo.empty_tree().await?,
        };
        self.keep_submodules(Moment::Start).await?;
        let sights = scene.sights.completed(&self.repo.place.top, &protected);
        self.keep_keepsakes(&self.repo.diff_trees(&committed, &snapshot.tree).await?, &sights).await?;
        let initial = self.repo.commit(&snapshot.tree, &parents, "initial state\n").await?;
        let leftover = self.create_refs(original.oid(), &scene.staged, &initial, run, refs).await?;
        Ok(Begun { initial, leftover })
    }

    /// Looks at everything at the same time: git's own walk, ours, and what is staged.
    async fn look_around(&self, parents: &[&Oid]) -> Result<Scene> {
        let index = self.private_index();
        let Listing { hidden, directories } = if index.exists() { self.repo.listing(&index).await? } else { Listing::default() };
        let top = self.repo.place.top.clone();
        let look = tokio::task::spawn_blocking(move || Sights::of(&top, &directories));
        let stage = async {
            let tree = self.repo.write_tree(&index).await?;
            let commit = self.repo.commit(&tree, parents, "index at the start\n").await?;
            Ok::<_, anyhow::Error>((tree, commit))
        };
        let (staged, status, sights) = tokio::join!(stage, self.repo.status_with_words(&index), look);
        let ((staged_tree, staged), (entries, words)) = (staged?, status?);
        Ok(Scene { staged_tree, staged, entries, words, hidden, sights: sights? })
    }

    async fn create_refs(
        &self,
        base: Option<&Oid>,
        staged: &Oid,
        initial: &Oid,
        run: u32,
        refs: &RefList,
    ) -> Result<Option<(String, Oid)>> {
        let (branch, names) = (self.names.branch(), &self.names);
        let create = |name: String, to: &Oid| RefUpdate::Create { name, to: to.clone() };
        let mut updates = vec![create(names.index(), staged), create(names.initial(), initial), create(names.checkpoint(), initial)];
        updates.extend(base.map(|base| create(names.base(), base)));
        let leftover = refs.get(&branch).map(|tip| (names.leftover(run), tip.clone()));
        match &leftover {
            Some((name, tip)) => {
                updates.push(create(name.clone(), tip));
                updates.push(RefUpdate::Move { name: branch, to: initial.clone(), from: tip.clone() });
            }
            None => updates.push(create(branch, initial)),
        }
        self.repo.update_refs(&updates, &format!("git ralph start {}", names.short_branch())).await?;
        Ok(leftover)
    }

    /// What earlier runs of the change kept moves out of the way of this one's names, and stays reachable. Says whether there was any.
    async fn archive(&self, refs: &RefList, run: u32) -> Result<bool> {
        let prefix = self.names.prefix();
        let mut updates = Vec::new();
        for entry in refs.below(&prefix) {
            if let Some(name) = self.names.archived(&entry.name, run - 1) {
                updates.push(RefUpdate::Set { name, to: entry.oid.clone() });
                updates.push(RefUpdate::Delete { name: entry.name.clone(), from: entry.oid.clone() });
            }
        }
        self.repo.update_refs(&updates, "git ralph start: earlier run").await?;
        Ok(!updates.is_empty())
    }
}
