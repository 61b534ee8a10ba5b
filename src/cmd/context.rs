//! Provides the context that every command needs: the repository, its configuration and its runs.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::revive::revive;
use crate::agent::Template;
use crate::config::{Environment, GitConfig, OutputStyle, git_timeout};
use crate::error::Problem;
use crate::git::{Git, Limits, Place, Repo, discover, is_anonymous};
use crate::process::page;
use crate::report::{clean, output};
use crate::run::{ChangeReader, RunDir, RunState, Site, StateBackup, Store, read_config};
use crate::safe_read;
use crate::shell_word::quoted;
use crate::story::{ChangeName, Story, StoryId};
use crate::workspace::{WorkspaceOwner, workspace_directory};

/// The repository with its configuration and its runs.
#[derive(Clone)]
pub struct Context {
    /// The environment at the start of the command.
    pub environment: Environment,
    /// git's configuration, as far as git-ralph uses it.
    pub config: GitConfig,
    /// The repository.
    pub repo: Repo,
    /// Whether git has no identity to commit with.
    pub anonymous: bool,
    /// The runs of the repository.
    pub store: Store,
    /// The changes of the repository.
    pub changes: ChangeReader,
    /// The change in whose workspace the command was typed, if it was typed in a workspace.
    workspace_of: Option<String>,
}

/// What a context is needed for.
#[derive(Clone, Copy)]
enum Purpose {
    Look,
    Work,
    /// To list settings, even if some are invalid.
    List,
}

/// Finds the repository and reads git's configuration.
async fn look(git: &Git) -> Result<(Place, GitConfig)> {
    let (place, config) = tokio::join!(discover(git), read_config(git));
    Ok((place?, config?))
}

/// Checks that the run knows this workspace. The directory's own word is not enough, because an agent may have written it.
fn check_knows(store: &Store, place: &Place, owner: &WorkspaceOwner, workspace: &Path) -> Result<()> {
    let last = owner.change.parse().ok().and_then(|change| store.last(&change).ok().flatten());
    let opening = last.and_then(|(_, state)| state.opening);
    let is_known = opening.is_some_and(|opening| opening.id == owner.run && opening.workspaces.as_deref() == workspace.parent());
    if is_known && place.common_dir == owner.common_dir {
        return Ok(());
    }
    let top = owner.top.display();
    bail!(
        Problem::refused(format!("{} says that it is a workspace of {top}, which has no record of it", workspace.display()))
            .hint(format!("cd {}", quoted(&top.to_string())))
    )
}

/// At most this many stories are named in an error.
const MOST_NAMED: usize = 10;

/// The error about a story that the change does not have.
pub fn no_story(change: &ChangeName, typed: &str, stories: &[Story]) -> Problem {
    let near = crate::nearest::to(typed, stories.iter().map(|story| story.id.as_str()));
    let text = format!("'{change}' has no story '{}'", typed.escape_debug());
    let known: Vec<&str> = stories.iter().map(|story| story.id.as_str()).collect();
    let rest = match near {
        None if known.len() <= MOST_NAMED => format!(", only {}", clean(&known.join(", "))),
        near => crate::nearest::said(near),
    };
    Problem::fatal(text + &rest).mistyped(typed, near)
}

impl Context {
    /// Opens the context for a command that only reads.
    pub async fn open(environment: Environment) -> Result<Self> {
        Self::open_for(Purpose::Look, environment).await
    }

    /// Opens the context even if a setting is invalid.
    pub async fn open_leniently(environment: Environment) -> Result<Self> {
        Self::open_for(Purpose::List, environment).await
    }

    /// Opens the context for a command that commits.
    pub async fn open_to_work(environment: Environment) -> Result<Self> {
        Self::open_for(Purpose::Work, environment).await
    }

    async fn open_for(purpose: Purpose, mut environment: Environment) -> Result<Self> {
        let mut plain = Git::plain(environment.cwd.clone(), environment.for_discovery());
        let (mut place, mut config) = match look(&plain).await {
            Err(_) if revive(&environment) => look(&plain).await?,
            found => found?,
        };
        let (owner, workspace) = (WorkspaceOwner::of_workspace(&place.top), place.top.clone());
        if let Some(owner) = &owner {
            // In a workspace, the command is about the run of the checkout that the workspace belongs to.
            environment.cwd.clone_from(&owner.top);
            plain = plain.at(&owner.top);
            (place, config) = look(&plain).await.with_context(|| format!("this is a workspace of {}", owner.top.display()))?;
        }
        let anonymous = match purpose {
            Purpose::Look | Purpose::List => false,
            Purpose::Work if config.names_the_user() && !plain.sets_identity() => false,
            Purpose::Work => is_anonymous(&plain).await?,
        };
        let is_lenient = matches!(purpose, Purpose::List);
        output::set_style(match OutputStyle::resolve(&environment, &config) {
            Err(_) if is_lenient => OutputStyle::usual(&environment),
            style => style?,
        });
        let mut git = Git::pinned(&place.git_dir, &place.top, environment.for_git());
        match git_timeout(&config) {
            Err(_) if is_lenient => {}
            limit => {
                if let Some(limit) = limit? {
                    git = git.with_limits(Limits { query: limit.value, work: limit.value });
                }
            }
        }
        let store = Store::new(place.ralph_dir()).with_state_home(environment.state_home().as_deref());
        let store = match purpose {
            Purpose::Look | Purpose::List => store,
            Purpose::Work => store.for_decisions(),
        };
        if let Some(owner) = &owner {
            check_knows(&store, &place, owner, &workspace)?;
        }
        StateBackup::revive(&store).context("cannot restore a run whose files were deleted")?;
        git = git.with_stale_dir(place.ralph_dir().join("stale-locks"));
        let repo = Repo { git, place };
        let repo = if anonymous { repo.under_stand_in() } else { repo };
        let changes = ChangeReader::new(store.clone(), repo.place.top.clone(), environment.cwd.clone());
        let workspace_of = owner.map(|owner| owner.change);
        Ok(Context { environment, config, repo, anonymous, store, changes, workspace_of })
    }

    /// Parses a change name from the command line.
    pub fn name(text: &str) -> Result<ChangeName> {
        text.parse().map_err(|why: String| Problem::fatal(why).into())
    }

    /// Reads the user's prompt template, if there is one.
    pub fn template(&self) -> Result<Option<Template>> {
        let path = self.store.prompt_file();
        let name = self.shown(&path);
        match safe_read::text(&path) {
            Ok(text) => Ok(Some(Template { name, text })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {name}")),
        }
    }

    /// Finds the story of a run that the user named.
    pub fn story(&self, run: &RunDir, state: &RunState, text: &str) -> Result<StoryId> {
        let stories = self.changes.stories(run, state);
        if let Some(story) = stories.iter().find(|story| story.id.as_str() == text) {
            return Ok(story.id.clone());
        }
        bail!(no_story(&run.change, text, &stories).hint(format!("git ralph status {}", run.change)))
    }

    /// git with the user's environment, without git-ralph's overrides.
    pub fn as_user(&self) -> Git {
        Git::plain(self.environment.cwd.clone(), self.environment.for_discovery())
    }

    /// Shows a long text, in the user's pager if standard output is a terminal.
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

    /// The directory in which runs of this checkout create their private clones.
    pub fn workspaces_around(&self) -> Option<PathBuf> {
        let configured = self.config.last("ralph.workspaceDir").map(|setting| self.environment.expanded(&setting.value));
        let dir = workspace_directory(&self.repo.place.top, "any", configured.as_deref()).ok()?;
        dir.parent().map(Path::to_owned)
    }

    /// A path in the form that the user would type here.
    pub fn shown(&self, path: &Path) -> String {
        self.changes.shown(path)
    }

    /// The run that a command is about: that of the named change, or the open run of this work tree.
    pub fn open_run(&self, name: Option<&str>) -> Result<(RunDir, RunState)> {
        if let Some(name) = name.or(self.workspace_of.as_deref()) {
            let name = Self::name(name)?;
            return match self.store.last(&name)? {
                Some((run, state)) if !state.is_closed() => Ok((run, state)),
                _ => bail!(self.no_open_run(&name)?),
            };
        }
        match self.open_run_if_any()? {
            Some(run) => Ok(run),
            None => bail!(Problem::refused("there is no open run in this work tree").hint("git ralph list")),
        }
    }

    /// The open run of this work tree, if there is one. In a workspace, the run that it belongs to.
    pub fn open_run_if_any(&self) -> Result<Option<(RunDir, RunState)>> {
        if let Some(name) = &self.workspace_of {
            return Ok(self.store.last(&Self::name(name)?)?.filter(|(_, state)| !state.is_closed()));
        }
        let worktree = self.repo.place.worktree_id();
        let mut runs = self.store.open_runs()?;
        runs.retain(|(_, state)| state.opening.as_ref().is_some_and(|opening| opening.worktree == worktree));
        if runs.len() > 1 {
            let hints = runs.iter().map(|(run, _)| format!("git ralph status {}", run.change));
            let problem = Problem::refused("more than one run is open in this work tree: name one of them");
            let names = runs.iter().map(|(run, _)| run.change.to_string()).collect();
            bail!(hints.fold(problem, Problem::hint).one_of(names));
        }
        Ok(runs.pop())
    }

    fn no_open_run(&self, name: &ChangeName) -> Result<Problem> {
        let known = self.changes.known()?;
        if known.contains(name) {
            return Ok(Problem::refused(format!("there is no open run of '{name}'")).hint(format!("git ralph start {name}")));
        }
        let near = crate::nearest::to(name.as_str(), known.iter().map(ChangeName::as_str));
        let problem = Problem::refused(format!("there is no open run of '{name}'{}", crate::nearest::said(near)));
        Ok(problem.hint("git ralph list").mistyped(name.as_str(), near))
    }

    /// The parts that a run needs.
    pub fn site(&self) -> Site {
        let Context { environment, config, repo, store, changes, .. } = self;
        Site {
            environment: environment.clone(),
            config: config.clone(),
            repo: repo.clone(),
            store: store.clone(),
            changes: changes.clone(),
        }
    }
}
