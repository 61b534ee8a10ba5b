//! Reads a change: its change file, and the source of its stories if that is elsewhere. No other module does that.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::steering_files::replace;
use super::{OPENSPEC_CHANGES, RunDir, RunState, SourcePlace, Store, openspec_archived, openspec_changes};
use crate::config::{ChangeFile, Flags, GitConfig, Settings, parse_change_file};
use crate::error::Problem;
use crate::safe_read;
use crate::shell_word::git_ralph;
use crate::story::source::{Kind, Material};
use crate::story::{Change, ChangeName, Order, Story, StoryId};

/// Reads the changes of a repository.
#[derive(Clone, Debug)]
pub struct ChangeReader {
    store: Store,
    top: PathBuf,
    cwd: PathBuf,
}

/// A change that was read once, as a snapshot.
#[derive(Clone, Debug)]
pub struct LoadedChange {
    /// Its name.
    pub name: ChangeName,
    /// The parsed change file. For an OpenSpec change without a file, it has only the source.
    pub file: ChangeFile,
    /// The name of the file in errors and listings.
    pub shown: String,
    /// The source of the stories, if they are not in the file.
    pub source: Option<SourcePlace>,
    /// The text of the file. `None` for a change without a file.
    text: Option<String>,
}

impl ChangeReader {
    /// A reader for the store of a repository and one of its work trees. Paths that users see are relative to `cwd`.
    #[must_use]
    pub fn new(store: Store, top: PathBuf, cwd: PathBuf) -> Self {
        ChangeReader { store, top, cwd }
    }

    /// The reader for a run. The source of an isolated run is read from the run's branch.
    #[must_use]
    pub fn of_run(&self, run: &RunDir, state: &RunState) -> Self {
        let view = run.source_view();
        let top = if state.is_isolated() && view.is_dir() { view } else { self.top.clone() };
        ChangeReader { top, ..self.clone() }
    }

    /// A path as a user would type it.
    #[must_use]
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.cwd).unwrap_or(path).display().to_string()
    }

    /// Reads a change's file.
    ///
    /// # Errors
    /// A [`Problem`] if there is no such change, or its file cannot be parsed.
    pub fn load(&self, name: &ChangeName) -> Result<LoadedChange> {
        let shown = self.shown(&self.store.change_file(name));
        match self.text(name)? {
            Some(text) => self.parse(name, shown, text),
            None => {
                let Some(source) = self.openspec(name)? else { bail!(self.unknown(name, &shown)?) };
                let file = ChangeFile { source: Some(source.clone()), ..ChangeFile::default() };
                Ok(self.loaded(name, source, file, None))
            }
        }
    }

    /// Parses a text as the file of a change.
    ///
    /// # Errors
    /// A [`Problem`] if it cannot be parsed.
    pub fn understood(&self, name: &ChangeName, text: &str) -> Result<LoadedChange> {
        self.parse(name, self.shown(&self.store.change_file(name)), text.to_owned())
    }

    /// Replaces the file of a change atomically.
    pub fn save(&self, name: &ChangeName, text: &str) -> io::Result<()> {
        replace(&self.store.change_file(name), text.as_bytes())
    }

    /// Reads a change again, opening its file once. `None` if the stories are in the file and the file has not changed.
    ///
    /// # Errors
    /// As [`ChangeReader::load`].
    pub fn reload(&self, before: &LoadedChange) -> Result<Option<LoadedChange>> {
        if before.source.is_some() || before.text.is_none() {
            return self.load(&before.name).map(Some);
        }
        match self.text(&before.name)? {
            text if text == before.text => Ok(None),
            Some(text) => self.parse(&before.name, before.shown.clone(), text).map(Some),
            None => self.load(&before.name).map(Some),
        }
    }

    fn text(&self, name: &ChangeName) -> Result<Option<String>> {
        let path = self.store.change_file(name);
        match safe_read::text(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", self.shown(&path))),
        }
    }

    fn parse(&self, name: &ChangeName, shown: String, text: String) -> Result<LoadedChange> {
        let file = parse_change_file(&text, &shown).map_err(Problem::fatal)?;
        Ok(self.loaded(name, shown, file, Some(text)))
    }

    fn loaded(&self, name: &ChangeName, shown: String, file: ChangeFile, text: Option<String>) -> LoadedChange {
        let source = file.source.as_ref().map(|path| SourcePlace::new(&self.top, path));
        LoadedChange { name: name.clone(), file, shown, source, text }
    }

    /// The OpenSpec change with that name, which needs no change file.
    fn openspec(&self, name: &ChangeName) -> Result<Option<String>> {
        let path = format!("{OPENSPEC_CHANGES}/{name}");
        if name.as_str() != "archive" && self.top.join(&path).is_dir() {
            return Ok(Some(path));
        }
        match openspec_archived(&self.top, name.as_str()) {
            Some(archive) => {
                bail!(Problem::refused(format!("the OpenSpec change '{name}' is archived in {archive}")).hint("git ralph list"))
            }
            None => Ok(None),
        }
    }

    fn unknown(&self, name: &ChangeName, shown: &str) -> Result<Problem> {
        let known = self.known()?;
        let near = crate::nearest::to(name.as_str(), known.iter().map(ChangeName::as_str));
        let problem = Problem::fatal(format!("there is no change '{name}': {shown} does not exist{}", crate::nearest::said(near)));
        let hint = near.map_or_else(|| git_ralph("new", &[name.as_str()]), |_| "git ralph list".to_owned());
        Ok(problem.hint(hint).mistyped(name.as_str(), near))
    }

    /// Every change that has a change file, a run or an OpenSpec directory.
    pub fn known(&self) -> Result<BTreeSet<ChangeName>> {
        let openspec = openspec_changes(&self.top).into_iter().filter_map(|name| name.parse().ok());
        Ok(self.store.changes()?.into_iter().chain(self.store.changes_with_runs()?).chain(openspec).collect())
    }

    /// The stories of a run in the order of their source. Stories that only the journal mentions come last.
    #[must_use]
    pub fn stories(&self, run: &RunDir, state: &RunState) -> Vec<Story> {
        let change = self.of_run(run, state).load(&run.change).and_then(|loaded| loaded.change_of_run(run, state));
        let mut stories = change.map(|change| change.stories).unwrap_or_default();
        let known: BTreeSet<StoryId> = stories.iter().map(|story| story.id.clone()).collect();
        stories.extend(state.stories.keys().filter(|id| !known.contains(*id)).map(Story::stand_in));
        stories
    }
}

impl LoadedChange {
    /// The settings for this change, given the flags of the command line.
    ///
    /// # Errors
    /// If a value in git's configuration cannot be read.
    pub fn settings(&self, flags: &Flags, config: &GitConfig) -> Result<Settings> {
        Settings::resolve(flags, Some((&self.file, &self.shown)), config)
    }

    /// The change with its stories. `kind` is the kind of its source, if it is already known.
    pub fn change(&self, kind: Option<Kind>) -> Result<Change> {
        match self.source_of(kind) {
            Some(source) => self.sourced(&source.material()?),
            None => Ok(self.own()),
        }
    }

    /// The change as this run sees it: with the kind of source that was detected at the start and, during an attempt, with the copy of the
    /// source that was made before the attempt.
    pub fn change_of_run(&self, run: &RunDir, state: &RunState) -> Result<Change> {
        let Some(source) = self.source_of(state.source_kind) else { return Ok(self.own()) };
        let busy = state.stories.iter().find(|(_, progress)| progress.is_busy());
        let copy = busy.and_then(|(story, progress)| safe_read::text(&run.source_copy(story, progress.attempts)).ok());
        let material = match copy.filter(|text| !text.is_empty()) {
            Some(text) => source.material_with(text)?,
            None => source.material()?,
        };
        self.sourced(&material)
    }

    /// The source of the stories, if they are not in the file, with its kind set.
    #[must_use]
    pub fn source_of(&self, kind: Option<Kind>) -> Option<SourcePlace> {
        self.source.clone().map(|source| source.with_kind(kind))
    }

    fn order(&self, stories: &[Story]) -> Order {
        self.file.order.unwrap_or_else(|| Order::of(stories))
    }

    fn own(&self) -> Change {
        let ChangeFile { title, context, stories, .. } = self.file.clone();
        let order = self.order(&stories);
        Change { name: self.name.clone(), title, context, stories, order }
    }

    /// A change whose stories are in a source. Gates come from the change file only, because a source arrives by clone and pull, and agents
    /// write to it.
    fn sourced(&self, material: &Material) -> Result<Change> {
        let sourced = material.read().map_err(Problem::fatal)?;
        let context: Vec<String> = self.file.context.clone().into_iter().chain(sourced.context).collect();
        Ok(Change {
            name: self.name.clone(),
            title: self.file.title.clone().or(sourced.title),
            context: (!context.is_empty()).then(|| context.join("\n\n")),
            order: self.order(&sourced.stories),
            stories: sourced.stories,
        })
    }
}
