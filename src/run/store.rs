//! The files of git-ralph in a repository. Runs are in `<git common dir>/ralph/runs/<change>/<number>/`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::journal::{self, OpenedJournal, replay_start, sync_dir};
use super::{Journal, Lock, Record, RunState};
use crate::config::SCHEMA_FILE;
use crate::story::{ChangeName, StoryId};
use crate::vault::{self, Vault};

/// Longer journals are verified only for commands that decide something, because verifying takes longer than reading.
const LONG: u64 = 32 * 1024 * 1024;

/// All files that git-ralph keeps for a repository.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    /// The directory with the vaults of its runs.
    vaults: Option<PathBuf>,
    /// Whether a command decides something based on the journals. Then even the longest journal is verified.
    deciding: bool,
}

/// The directory of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    /// The name of the change.
    pub change: ChangeName,
    /// The number of the run.
    pub number: u32,
    path: PathBuf,
    vault: Option<Vault>,
    deciding: bool,
}

impl Store {
    /// The store in `<git common dir>/ralph`.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Store { root, vaults: None, deciding: false }
    }

    /// The same store, with the vaults below a state directory.
    #[must_use]
    pub fn with_state_home(mut self, state_home: Option<&Path>) -> Self {
        self.vaults = state_home.zip(self.root.parent()).map(|(home, common_dir)| vault::of_repository(home, common_dir));
        self
    }

    /// The same store, for a command that decides something based on the journals.
    #[must_use]
    pub fn for_decisions(self) -> Self {
        Store { deciding: true, ..self }
    }

    fn run_dir(&self, change: &ChangeName, number: u32) -> RunDir {
        let vault = self.vaults.as_ref().map(|vaults| Vault::new(vaults, change.as_str(), number));
        let path = self.root.join("runs").join(change.as_str()).join(number.to_string());
        RunDir { change: change.clone(), number, path, vault, deciding: self.deciding }
    }

    /// The file outside of the repository that names the process with the lock of a work tree.
    #[must_use]
    pub fn owner_file(&self, worktree: &str) -> Option<PathBuf> {
        Some(self.vaults.as_ref()?.join("owners").join(worktree))
    }

    /// The directory of the store.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The change file.
    #[must_use]
    pub fn change_file(&self, change: &ChangeName) -> PathBuf {
        self.root.join(format!("{change}.toml"))
    }

    /// The JSON schema of change files, for editors.
    #[must_use]
    pub fn schema_file(&self) -> PathBuf {
        self.root.join(SCHEMA_FILE)
    }

    /// The file with the user's edit of a change file until the edit can be parsed.
    #[must_use]
    pub fn edit_file(&self, change: &ChangeName) -> PathBuf {
        self.root.join("edit").join(format!("{change}.toml"))
    }

    /// The user's own prompt template.
    #[must_use]
    pub fn prompt_file(&self) -> PathBuf {
        self.root.join("prompt.md")
    }

    /// The lock file of a work tree.
    #[must_use]
    pub fn lock_file(&self, worktree: &str) -> PathBuf {
        self.root.join("locks").join(worktree)
    }

    /// The process that is working on a run, from whatever work tree this is asked.
    #[must_use]
    pub fn owner(&self, state: &RunState) -> Option<u32> {
        let opening = state.opening.as_ref().filter(|_| !state.is_closed())?;
        let name = opening.lock_name();
        let noted = || Lock::noted_owner(&self.owner_file(&name)?);
        Lock::owner(&self.lock_file(&name)).or_else(noted)
    }

    /// The changes that have a change file, in alphabetical order.
    pub fn changes(&self) -> Result<Vec<ChangeName>> {
        let mut names: Vec<ChangeName> =
            entries(&self.root)?.into_iter().filter_map(|name| name.strip_suffix(".toml")?.parse().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// The changes that have ever been run, in alphabetical order.
    pub fn changes_with_runs(&self) -> Result<Vec<ChangeName>> {
        let mut names: Vec<ChangeName> = entries(&self.root.join("runs"))?.into_iter().filter_map(|name| name.parse().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// The runs of a change, oldest first.
    pub fn runs(&self, change: &ChangeName) -> Result<Vec<RunDir>> {
        let dir = self.root.join("runs").join(change.as_str());
        let mut numbers: Vec<u32> = entries(&dir)?.into_iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        let runs = numbers.into_iter().map(|number| self.run_dir(change, number));
        Ok(runs.filter(|run| run.journal().symlink_metadata().is_ok()).collect())
    }

    /// The last run of a change, with its state.
    pub fn last(&self, change: &ChangeName) -> Result<Option<(RunDir, RunState)>> {
        let Some(run) = self.runs(change)?.pop() else { return Ok(None) };
        let state = run.state()?;
        Ok(Some((run, state)))
    }

    /// Every open run, with its state.
    pub fn open_runs(&self) -> Result<Vec<(RunDir, RunState)>> {
        let mut open = Vec::new();
        for change in self.changes_with_runs()? {
            open.extend(self.last(&change)?.filter(|(_, state)| !state.is_closed()));
        }
        Ok(open)
    }

    /// Creates the directory of the next run of a change.
    pub fn create(&self, change: &ChangeName) -> Result<RunDir> {
        let dir = self.root.join("runs").join(change.as_str());
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let last = entries(&dir)?.into_iter().filter_map(|name| name.parse::<u32>().ok()).max().unwrap_or(0);
        let run = self.run_dir(change, last + 1);
        fs::create_dir(&run.path).with_context(|| format!("cannot create {}", run.path.display()))?;
        sync_dir(&dir)?;
        Ok(run)
    }
}

impl RunDir {
    /// The directory of the run.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The journal file.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// The file with a request of another process to stop the loop.
    #[must_use]
    pub fn stop_file(&self) -> PathBuf {
        self.path.join("stop")
    }

    /// The copy of the source that was made before an attempt.
    #[must_use]
    pub fn source_copy(&self, story: &StoryId, attempt: u32) -> PathBuf {
        self.attempt(story, attempt).join("source")
    }

    /// The agent's version of the source, if the earlier version was restored.
    #[must_use]
    pub fn source_aside(&self, story: &StoryId, attempt: u32) -> PathBuf {
        self.attempt(story, attempt).join("source.agent")
    }

    /// The source files of an isolated run, from the run's branch.
    #[must_use]
    pub fn source_view(&self) -> PathBuf {
        self.path.join("source")
    }

    /// The learnings that agents write for later attempts and stories.
    #[must_use]
    pub fn learnings(&self) -> PathBuf {
        self.path.join("learnings.md")
    }

    /// The directory with the prompt and transcript of an attempt.
    #[must_use]
    pub fn attempt(&self, story: &StoryId, attempt: u32) -> PathBuf {
        self.path.join(RunDir::attempt_below(story, attempt))
    }

    /// The same directory, relative to the run's directory.
    pub(super) fn attempt_below(story: &StoryId, attempt: u32) -> PathBuf {
        Path::new("attempts").join(story.as_component()).join(attempt.to_string())
    }

    /// The fold of the events in the journal.
    pub fn state(&self) -> Result<RunState> {
        let mut state = RunState::default();
        let read = self.replay(|record| state.apply(&record.event));
        if state.initial.is_none() {
            let mut start = RunState::default();
            if self.vault.as_ref().is_some_and(|vault| replay_start(vault, |record| start.apply(&record.event))) {
                return Ok(start);
            }
        }
        read.map(|()| state)
    }

    /// Calls `each` with every event that can be trusted. A long journal is not verified if no command decides anything based on it.
    pub fn replay(&self, each: impl FnMut(&Record)) -> Result<()> {
        let long = || self.journal().symlink_metadata().is_ok_and(|meta| meta.len() > LONG);
        let vault = self.vault.as_ref().filter(|_| self.deciding || !long());
        journal::replay(&self.journal(), vault, each).map(drop)
    }

    /// The vault of the run.
    #[must_use]
    pub fn vault(&self) -> Option<&Vault> {
        self.vault.as_ref()
    }

    /// Opens the journal to append to it, and replays it.
    pub fn open(&self) -> Result<OpenedJournal> {
        Journal::open(&self.journal(), self.vault.clone())
    }
}

fn entries(dir: &Path) -> Result<Vec<String>> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", dir.display())),
    }
}
