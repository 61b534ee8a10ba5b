//! Where runs are kept: `<git common dir>/ralph/runs/<change>/<number>/`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::journal::{self, sync_dir};
use super::{Journal, RunState};
use crate::story::{ChangeName, StoryId};

/// Everything git-ralph keeps for a repository.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// The directory of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    /// The change.
    pub change: ChangeName,
    /// The number of the run.
    pub number: u32,
    path: PathBuf,
}

impl Store {
    /// The store in `<git common dir>/ralph`.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Store { root }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file that configures a change.
    #[must_use]
    pub fn change_file(&self, change: &ChangeName) -> PathBuf {
        self.root.join(format!("{change}.toml"))
    }

    /// A prompt template of the user's own.
    #[must_use]
    pub fn prompt_file(&self) -> PathBuf {
        self.root.join("prompt.md")
    }

    /// The file that locks a work tree.
    #[must_use]
    pub fn lock_file(&self, worktree: &str) -> PathBuf {
        self.root.join("locks").join(worktree)
    }

    /// The changes that have a file, in alphabetical order.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn changes(&self) -> Result<Vec<ChangeName>> {
        let mut names: Vec<ChangeName> =
            entries(&self.root)?.into_iter().filter_map(|name| name.strip_suffix(".toml")?.parse().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// The changes that have ever been run.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn changes_with_runs(&self) -> Result<Vec<ChangeName>> {
        let mut names: Vec<ChangeName> = entries(&self.root.join("runs"))?.into_iter().filter_map(|name| name.parse().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// The runs of a change, oldest first.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn runs(&self, change: &ChangeName) -> Result<Vec<RunDir>> {
        let dir = self.root.join("runs").join(change.as_str());
        let mut numbers: Vec<u32> = entries(&dir)?.into_iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        let run = |number: u32| RunDir { change: change.clone(), number, path: dir.join(number.to_string()) };
        Ok(numbers.into_iter().map(run).filter(|run| run.journal().exists()).collect())
    }

    /// The last run of a change, with its state.
    ///
    /// # Errors
    /// If its journal cannot be read.
    pub fn last(&self, change: &ChangeName) -> Result<Option<(RunDir, RunState)>> {
        let Some(run) = self.runs(change)?.pop() else { return Ok(None) };
        let state = run.state()?;
        Ok(Some((run, state)))
    }

    /// Every open run, with its state.
    ///
    /// # Errors
    /// If a journal cannot be read.
    pub fn open_runs(&self) -> Result<Vec<(RunDir, RunState)>> {
        let mut open = Vec::new();
        for change in self.changes_with_runs()? {
            open.extend(self.last(&change)?.filter(|(_, state)| !state.is_closed()));
        }
        Ok(open)
    }

    /// Makes the directory of the next run of a change.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(&self, change: &ChangeName) -> Result<RunDir> {
        let dir = self.root.join("runs").join(change.as_str());
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let last = entries(&dir)?.into_iter().filter_map(|name| name.parse::<u32>().ok()).max().unwrap_or(0);
        let run = RunDir { change: change.clone(), number: last + 1, path: dir.join((last + 1).to_string()) };
        fs::create_dir(&run.path).with_context(|| format!("cannot create {}", run.path.display()))?;
        sync_dir(&dir)?;
        Ok(run)
    }
}

impl RunDir {
    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that events are appended to.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// The file by which another process asks the loop to stop.
    #[must_use]
    pub fn stop_file(&self) -> PathBuf {
        self.path.join("stop")
    }

    /// What the source of the stories was before an attempt.
    #[must_use]
    pub fn source_copy(&self, story: &StoryId, attempt: u32) -> PathBuf {
        self.attempt(story, attempt).join("source")
    }

    /// What an attempt had made of the source.
    #[must_use]
    pub fn source_aside(&self, story: &StoryId, attempt: u32) -> PathBuf {
        self.attempt(story, attempt).join("source.agent")
    }

    /// What attempts and stories leave for those after them.
    #[must_use]
    pub fn learnings(&self) -> PathBuf {
        self.path.join("learnings.md")
    }

    /// Where prompt and transcript of an attempt are.
    #[must_use]
    pub fn attempt(&self, story: &StoryId, attempt: u32) -> PathBuf {
        self.path.join("attempts").join(story.as_component()).join(attempt.to_string())
    }

    /// The state that the journal adds up to.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn state(&self) -> Result<RunState> {
        let mut state = RunState::default();
        journal::replay(&self.journal(), |record| state.apply(&record.event))?;
        Ok(state)
    }

    /// The journal, to append to, and the state that it adds up to.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn open(&self) -> Result<(Journal, RunState)> {
        Journal::open(&self.journal())
    }
}

fn entries(dir: &Path) -> Result<Vec<String>> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", dir.display())),
    }
}
