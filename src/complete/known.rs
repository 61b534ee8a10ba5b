//! Finds the changes, stories and agents of a repository for completion. Unreadable files are left out.

use std::collections::BTreeSet;

use clap_complete::engine::CompletionCandidate;

use super::candidate;
use super::repository::find;
use crate::agent::PROFILES;
use crate::config::{Environment, GitConfig};
use crate::git::Spot;
use crate::git::{Git, worktree_id};
use crate::run::{ChangeReader, LoadedChange, RunDir, RunState, Store, openspec_changes, read_config};
use crate::story::{ChangeName, Story};

/// Which changes to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All changes.
    Any,
    /// Changes with an open run.
    Open,
    /// Changes that have ever been run.
    Run,
    /// Changes with a change file.
    WithFile,
    /// Changes that exist only in OpenSpec's folder.
    WithoutFile,
}

/// A repository, and the change that the command line names.
pub struct Known {
    environment: Environment,
    spot: Option<Spot>,
    named: Option<String>,
}

impl Known {
    /// Finds the repository; `named` is the change on the command line.
    pub fn new(environment: Environment, named: Option<String>) -> Self {
        Known { spot: find(&environment), environment, named }
    }

    fn store(&self) -> Option<Store> {
        Some(Store::new(self.spot.as_ref()?.common_dir.join("ralph")))
    }

    /// The changes, with their titles.
    pub fn changes(&self, which: Which) -> Vec<CompletionCandidate> {
        let names = self.names(which).unwrap_or_default();
        names.into_iter().map(|name| candidate(name.as_str(), self.load(&name).and_then(|loaded| loaded.file.title))).collect()
    }

    fn names(&self, which: Which) -> Option<BTreeSet<ChangeName>> {
        let (store, spot) = (self.store()?, self.spot.as_ref()?);
        let openspec = || openspec_changes(&spot.top).into_iter().filter_map(|name| name.parse().ok());
        Some(match which {
            Which::Any => openspec().chain(store.changes().ok()?).chain(store.changes_with_runs().ok()?).collect(),
            Which::WithFile => store.changes().ok()?.into_iter().collect(),
            Which::Run => store.changes_with_runs().ok()?.into_iter().collect(),
            Which::Open => self.open_runs()?.into_iter().map(|(run, _)| run.change).collect(),
            Which::WithoutFile => openspec().filter(|name| !store.change_file(name).exists()).collect(),
        })
    }

    /// Like [`Store::open_runs`], but an unreadable journal does not hide other runs.
    fn open_runs(&self) -> Option<Vec<(RunDir, RunState)>> {
        let store = self.store()?;
        let last = store.changes_with_runs().ok()?.into_iter().filter_map(|name| store.last(&name).ok()?);
        Some(last.filter(|(_, state)| !state.is_closed()).collect())
    }

    fn load(&self, name: &ChangeName) -> Option<LoadedChange> {
        let top = self.spot.as_ref()?.top.clone();
        ChangeReader::new(self.store()?, top, self.environment.cwd.clone()).load(name).ok()
    }

    /// The change that the command line names or implies: that of the open run in this work tree, or the only change there is.
    fn change(&self) -> Option<ChangeName> {
        if let Some(named) = &self.named {
            return named.parse().ok();
        }
        self.run_here().map(|(run, _)| run.change).or_else(|| {
            let mut all = self.names(Which::Any)?.into_iter();
            all.next().filter(|_| all.next().is_none())
        })
    }

    fn run_here(&self) -> Option<(RunDir, RunState)> {
        let spot = self.spot.as_ref()?;
        let here = worktree_id(&spot.git_dir, &spot.common_dir);
        self.open_runs()?.into_iter().find(|(_, state)| state.opening.as_ref().is_some_and(|opening| opening.worktree == here))
    }

    /// The stories of the change, as in its source. Stories that only the last run knows come last.
    pub fn stories(&self) -> Vec<CompletionCandidate> {
        let Some(name) = self.change() else { return Vec::new() };
        let mut stories = self.stories_of(&name).unwrap_or_default();
        let state = self.store().and_then(|store| store.last(&name).ok()?);
        for id in state.iter().flat_map(|(_, state)| state.stories.keys()) {
            if !stories.iter().any(|story| story.id == *id) {
                stories.push(Story::stand_in(id));
            }
        }
        candidates_of(&stories)
    }

    /// The stories of the open run that have a checkpoint.
    pub fn landed_stories(&self) -> Vec<CompletionCandidate> {
        let Some(name) = self.change() else { return Vec::new() };
        let Some((_, state)) = self.store().and_then(|store| store.last(&name).ok()?) else { return Vec::new() };
        let mut stories = self.stories_of(&name).unwrap_or_default();
        let gone = state.stories.keys().filter(|id| !stories.iter().any(|story| story.id == **id)).map(Story::stand_in);
        let gone: Vec<Story> = gone.collect();
        stories.extend(gone);
        stories.retain(|story| state.has_landed(&story.id));
        candidates_of(&stories)
    }

    fn stories_of(&self, name: &ChangeName) -> Option<Vec<Story>> {
        Some(self.load(name)?.change(None).ok()?.stories)
    }

    /// The known agents and the user's own. Only this completion needs a git call.
    pub fn agents(&self) -> Vec<CompletionCandidate> {
        let config = self.config().unwrap_or_default();
        let own: BTreeSet<&str> = config.subsections_with("cmd").collect();
        let clients = PROFILES.iter().map(|profile| profile.name).filter(|name| !own.contains(name));
        let own = own.iter().map(|name| candidate(name, config.last(&format!("ralph.{name}.cmd")).map(|setting| setting.value)));
        own.chain(clients.map(|name| candidate(name, None))).collect()
    }

    fn config(&self) -> Option<GitConfig> {
        let git = Git::plain(self.environment.cwd.clone(), self.environment.for_discovery());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime.block_on(read_config(&git)).ok()
    }
}

fn candidates_of(stories: &[Story]) -> Vec<CompletionCandidate> {
    let title = |story: &Story| (story.title != story.id.as_str()).then(|| story.title.clone());
    stories.iter().map(|story| candidate(story.id.as_str(), title(story))).collect()
}
