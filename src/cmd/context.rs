//! What every command needs to know first: where we are, what is configured, which runs there are.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::agent::Template;
use crate::config::{ChangeFile, Environment, Flags, GitConfig, Manners, Settings, git_config, git_timeout, parse_change_file};
use crate::error::Problem;
use crate::git::{Git, Limits, Repo, discover, is_anonymous};
use crate::process::page;
use crate::regular;
use crate::report::output;
use crate::run::{Holder, Lock, OPENSPEC_CHANGES, RunDir, RunState, SourcePlace, Spare, Store, openspec_archived, openspec_changes};
use crate::story::source::{Kind, Material};
use crate::story::{Change, ChangeName, Story, StoryId};

/// The place, its configuration and its runs.
pub struct Context {
    /// As it was when the command was typed.
    pub environment: Environment,
    /// Everything under `ralph.`.
    pub config: GitConfig,
    /// The repository.
    pub repo: Repo,
    /// Whether nobody is configured to commit as.
    pub anonymous: bool,
    /// Its runs.
    pub store: Store,
}

/// What a context is opened for.
#[derive(Clone, Copy)]
enum Purpose {
    Look,
    Work,
}

impl Context {
    /// Finds out where we are.
    pub async fn open(environment: Environment) -> Result<Self> {
        Self::open_for(Purpose::Look, environment).await
    }

    /// The same, for somebody who is going to commit.
    pub async fn open_to_work(environment: Environment) -> Result<Self> {
        Self::open_for(Purpose::Work, environment).await
    }

    async fn open_for(purpose: Purpose, environment: Environment) -> Result<Self> {
        let plain = Git::plain(environment.cwd.clone(), environment.for_discovery());
        let ask_config = async {
            let answer = plain.call(git_config::QUERY).answer().await?;
            let errors = answer.errors();
            Ok((answer.code, answer.stdout, errors))
        };
        let (place, config) = tokio::join!(discover(&plain), ask_config);
        let place = place?;
        let config = git_config::read(config)?;
        let anonymous = match purpose {
            Purpose::Look => false,
            Purpose::Work if config.names_the_user() && !plain.names_somebody() => false,
            Purpose::Work => is_anonymous(&plain).await?,
        };
        output::behave(Manners::resolve(&environment, &config)?);
        let mut git = Git::pinned(&place.git_dir, &place.top, environment.for_git());
        if let Some(limit) = git_timeout(&config)? {
            git = git.with_limits(Limits { query: limit.value, work: limit.value });
        }
        let store = Store::new(place.ralph_dir());
        Spare::revive(&store).context("cannot bring a run back whose files were deleted")?;
        git = git.with_stale_dir(place.ralph_dir().join("stale-locks"));
        let repo = Repo { git, place };
        let repo = if anonymous { repo.under_stand_in() } else { repo };
        Ok(Context { environment, config, repo, anonymous, store })
    }

    /// Reads a change name from the command line.
    pub fn name(text: &str) -> Result<ChangeName> {
        text.parse().map_err(|why: String| Problem::fatal(why).into())
    }

    /// Reads a change's file.
    pub fn change_file(&self, name: &ChangeName) -> Result<(ChangeFile, String)> {
        let path = self.store.change_file(name);
        let shown = self.shown(&path);
        let text = match regular::text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let Some(source) = self.openspec(name)? else { bail!(self.unknown_change(name, &shown)?) };
                return Ok((ChangeFile { source: Some(source.clone()), ..ChangeFile::default() }, source));
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
        };
        let file = parse_change_file(&text, &shown).map_err(Problem::fatal)?;
        Ok((file, shown))
    }

    /// The OpenSpec change of that name, which needs no change file.
    fn openspec(&self, name: &ChangeName) -> Result<Option<String>> {
        let top = &self.repo.place.top;
        let path = format!("{OPENSPEC_CHANGES}/{name}");
        if name.as_str() != "archive" && top.join(&path).is_dir() {
            return Ok(Some(path));
        }
        match openspec_archived(top, name.as_str()) {
            Some(archive) => {
                bail!(Problem::refused(format!("the OpenSpec change '{name}' is archived in {archive}")).hint("git ralph list"))
            }
            None => Ok(None),
        }
    }

    /// Reads a change.
    pub fn change(&self, name: &ChangeName) -> Result<Change> {
        self.change_of_kind(name, None)
    }

    /// The change of a run: its source is what it was when the run began, and while an attempt is under way as it was before it.
    pub fn change_of_run(&self, run: &RunDir, state: &RunState) -> Result<Change> {
        let (file, _) = self.change_file(&run.change)?;
        let Some(place) = self.place_of(&file).map(|place| place.with_kind(state.source_kind)) else {
            return Ok(change_of(&run.change, file));
        };
        let busy = state.stories.iter().find(|(_, progress)| progress.is_busy());
        let copy = busy.and_then(|(story, progress)| regular::text(&run.source_copy(story, progress.attempts)).ok());
        let material = match copy.filter(|text| !text.is_empty()) {
            Some(text) => place.material_with(text)?,
            None => place.material()?,
        };
        sourced_change(&run.change, file, &material)
    }

    /// The same, of a source whose kind is known already.
    pub fn change_of_kind(&self, name: &ChangeName, kind: Option<Kind>) -> Result<Change> {
        let (file, _) = self.change_file(name)?;
        match self.place_of(&file) {
            Some(place) => sourced_change(name, file, &place.with_kind(kind).material()?),
            None => Ok(change_of(name, file)),
        }
    }

    /// Where the stories of a change are kept, if not in its file.
    pub fn source(&self, name: &ChangeName) -> Result<Option<SourcePlace>> {
        Ok(self.place_of(&self.change_file(name)?.0))
    }

    fn place_of(&self, file: &ChangeFile) -> Option<SourcePlace> {
        file.source.as_ref().map(|path| SourcePlace::new(&self.repo.place.top, path))
    }

    /// Reads the user's own prompt template, if there is one.
    pub fn template(&self) -> Result<Option<Template>> {
        let path = self.store.prompt_file();
        let name = self.shown(&path);
        match regular::text(&path) {
            Ok(text) => Ok(Some(Template { name, text })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {name}")),
        }
    }

    /// Reads a change's settings, under the given flags.
    pub fn settings(&self, name: &ChangeName, flags: &Flags) -> Result<Settings> {
        let (file, shown) = self.change_file(name)?;
        Settings::resolve(flags, Some((&file, &shown)), &self.config)
    }

    fn unknown_change(&self, name: &ChangeName, shown: &str) -> Result<Problem> {
        let known = self.known_changes()?;
        let suggestion = crate::nearest::suggestion(name.as_str(), known.iter().map(ChangeName::as_str));
        Ok(Problem::fatal(format!("there is no change '{name}': {shown} does not exist{suggestion}")).hint(format!("git ralph new {name}")))
    }

    /// The stories of a run as their source has them; those that only the journal knows come last.
    pub fn stories(&self, run: &RunDir, state: &RunState) -> Vec<Story> {
        let mut stories = self.change_of_run(run, state).map(|change| change.stories).unwrap_or_default();
        let known: BTreeSet<StoryId> = stories.iter().map(|story| story.id.clone()).collect();
        stories.extend(state.stories.keys().filter(|id| !known.contains(*id)).map(Story::stand_in));
        stories
    }

    /// Finds a story of a run by what was typed.
    pub fn story(&self, run: &RunDir, state: &RunState, text: &str) -> Result<StoryId> {
        let stories = self.stories(run, state);
        if let Some(story) = stories.iter().find(|story| story.id.as_str() == text) {
            return Ok(story.id.clone());
        }
        let suggestion = crate::nearest::suggestion(text, stories.iter().map(|story| story.id.as_str()));
        let text = text.escape_debug();
        bail!(
            Problem::fatal(format!("'{0}' has no story '{text}'{suggestion}", run.change)).hint(format!("git ralph status {}", run.change))
        )
    }

    /// git as the user would call it here, with none of our overrides.
    pub fn as_user(&self) -> Git {
        Git::plain(self.environment.cwd.clone(), self.environment.for_discovery())
    }

    /// Shows a long text: through the user's pager on a terminal, else as it is.
    pub async fn page(&self, text: &str) {
        let environment = &self.environment;
        if environment.display && environment.get("GIT_PAGER_IN_USE").is_none() {
            let asked = Git::plain(environment.cwd.clone(), environment.as_typed()).call(["var", "GIT_PAGER"]).line().await;
            let pager = asked.unwrap_or_default();
            if !matches!(pager.trim(), "" | "cat") && page(&pager, environment.for_pager(), &environment.cwd, text).await {
                return;
            }
        }
        output::data(text);
    }

    /// A path as a person would type it here.
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.environment.cwd).unwrap_or(path).display().to_string()
    }

    /// The run that a command is about: of the named change, or the one open run of this work tree.
    pub fn open_run(&self, name: Option<&str>) -> Result<(RunDir, RunState)> {
        if let Some(name) = name {
            let name = Self::name(name)?;
            return match self.store.last(&name)? {
                Some((run, state)) if !state.is_closed() => Ok((run, state)),
                _ => bail!(self.no_open_run(&name)?),
            };
        }
        let worktree = self.repo.place.worktree_id();
        let mut runs = self.store.open_runs()?;
        runs.retain(|(_, state)| state.opening.as_ref().is_some_and(|opening| opening.worktree == worktree));
        match runs.pop() {
            Some(run) => Ok(run),
            None => bail!(Problem::refused("there is no open run in this work tree").hint("git ralph list")),
        }
    }

    fn no_open_run(&self, name: &ChangeName) -> Result<Problem> {
        let known = self.known_changes()?;
        if known.contains(name) {
            return Ok(Problem::refused(format!("there is no open run of '{name}'")).hint(format!("git ralph start {name}")));
        }
        let suggestion = crate::nearest::suggestion(name.as_str(), known.iter().map(ChangeName::as_str));
        Ok(Problem::refused(format!("there is no open run of '{name}'{suggestion}")).hint("git ralph list"))
    }

    /// Takes the lock on this work tree; orphans of a killed run are ended.
    pub async fn lock(&self) -> Result<Lock> {
        let path = self.store.lock_file(&self.repo.place.worktree_id());
        match Lock::take_over(&path).await? {
            Ok(lock) => Ok(lock),
            Err(Holder::Owner(pid)) => {
                bail!(Problem::refused(format!("another git ralph (process {pid}) is at work in this work tree")).hint("git ralph stop"))
            }
            Err(Holder::Orphans(pids)) => {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                bail!(Problem::refused(format!("processes of a killed run are still there and cannot be ended: {}", pids.join(" "))))
            }
        }
    }

    /// The process that is at work on an open run; a run of another work tree is asked about there.
    pub fn owner_of(&self, state: &RunState) -> Option<u32> {
        let opening = state.opening.as_ref().filter(|_| !state.is_closed())?;
        Lock::owner(&self.store.lock_file(&opening.worktree))
    }

    /// Every change that has a file or has ever been run.
    pub fn known_changes(&self) -> Result<BTreeSet<ChangeName>> {
        let openspec = openspec_changes(&self.repo.place.top).into_iter().filter_map(|name| name.parse().ok());
        Ok(self.store.changes()?.into_iter().chain(self.store.changes_with_runs()?).chain(openspec).collect())
    }

    /// The process that is at work in this work tree.
    pub fn owner(&self) -> Option<u32> {
        Lock::owner(&self.store.lock_file(&self.repo.place.worktree_id()))
    }
}

/// A change whose stories are kept elsewhere. Gates come from the change file alone: a source arrives by clone and pull, and
/// agents write to it.
fn sourced_change(name: &ChangeName, file: ChangeFile, material: &Material) -> Result<Change> {
    let sourced = material.read().map_err(Problem::fatal)?;
    let context: Vec<String> = file.context.into_iter().chain(sourced.context).collect();
    Ok(Change {
        name: name.clone(),
        title: file.title.or(sourced.title),
        context: (!context.is_empty()).then(|| context.join("\n\n")),
        stories: sourced.stories,
    })
}

fn change_of(name: &ChangeName, file: ChangeFile) -> Change {
    Change { name: name.clone(), title: file.title, context: file.context, stories: file.stories }
}
