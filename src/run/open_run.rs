//! A run that this process holds: it has the lock, the open journal and a reporter, and listens to signals and stop requests.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use tokio::task::JoinHandle;

use super::branch_source::{BranchSource, SourceWatch};
use super::orchestrator::Orchestrator;
use super::pool::Pool;
use super::site::read_config;
use super::steering_files::SteeringFiles;
use super::step_runner::{AgentSetup, InFlight, RunningAgents, StepRunner};
use super::story_list::StoryList;
use super::{
    Activity, End, Event, Inbox, Journal, LoadedChange, Lock, OpenedJournal, Opening, Outcome, PageMaker, Progress, Quit, Reporter, RunDir,
    RunState, Scribe, Site, SourcePlace, Stage, StateBackup, Transcript, Work, child_program, watch_stop_request,
};
use crate::agent::Agent;
use crate::branch::{Base, Beginning, Branch};
use crate::config::{Flags, GitConfig, Settings};
use crate::error::Problem;
use crate::git::Repo;
use crate::names::Names;
use crate::process::{Adoption, Stop, StopHandle, Trail, stop_channel, watch_signals};
use crate::story::{ChangeName, StoryId};
use crate::workspace::{Doubt, Notice, Workspace};

/// An open run with everything that is needed to work on it.
pub struct OpenRun {
    /// The directory of the run.
    pub dir: RunDir,
    /// The state of the run.
    pub state: RunState,
    /// The run's branch and refs.
    pub branch: Branch,
    /// The user's checkout.
    pub(super) workspace: Workspace,
    /// The private clones, if the run is isolated.
    pub(super) pool: Option<Pool>,
    pub(super) site: Site,
    journal: Journal,
    backup: StateBackup,
    steering: SteeringFiles,
    reporter: Box<dyn Reporter>,
    page: Option<PageMaker>,
    stop_handle: StopHandle,
    stop: Stop,
    lock: Lock,
}

/// The parameters of a new run.
pub struct NewRun {
    /// The flags of the command line.
    pub flags: Flags,
    /// Whether the user has no git identity.
    pub anonymous: bool,
    /// The directory of the private clones, if the run is isolated.
    pub workspaces: Option<PathBuf>,
}

impl OpenRun {
    /// Opens a run whose journal exists.
    ///
    /// # Errors
    /// A [`Problem`] if the run has ended, belongs to another work tree, or another process holds it.
    pub async fn take_up(site: Site, dir: RunDir, lock_name: &str, reporter: Box<dyn Reporter>) -> Result<Self> {
        let lock = site.lock(lock_name).await?;
        let OpenedJournal { journal, state, doubt } = dir.open()?;
        if state.is_closed() {
            bail!(Problem::refused(format!("the run of '{}' has ended in the meantime", dir.change)));
        }
        let mut open = OpenRun::assemble(site, dir, journal, state, lock_name, reporter, lock);
        open.check_worktree()?;
        open.open_pool().await?;
        open.doubt_verdicts(doubt).await?;
        Ok(open)
    }

    /// Begins a run of a change.
    ///
    /// # Errors
    /// If git or the disk fails. The journal then shows how far the start got.
    pub async fn begin(site: Site, loaded: &LoadedChange, new: NewRun, reporter: Box<dyn Reporter>, lock: Lock) -> Result<Self> {
        let dir = site.store.create(&loaded.name)?;
        let journal = Journal::create(&dir.journal(), dir.vault().cloned())?;
        let opening = Opening {
            run: dir.number,
            id: format!("{}-{}", jiff::Timestamp::now().as_nanosecond(), std::process::id()),
            change: loaded.name.clone(),
            original: site.repo.place.head.clone(),
            worktree: site.repo.place.worktree_id(),
            inbox: new.workspaces.as_ref().map(|_| Inbox::place(&dir)),
            workspaces: new.workspaces,
            flags: new.flags,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let mut open = OpenRun::assemble(site, dir, journal, RunState::default(), &opening.lock_name(), reporter, lock);
        open.record(Event::RunStarting { opening }).await?;
        open.open_pool().await?;
        if let Some(pool) = &open.pool {
            pool.claim()?;
        }
        if new.anonymous {
            open.record(Event::IdentityMissing {}).await?;
        }
        open.begin_on_branch(Beginning::Fresh).await?;
        open.record_source_marks(loaded.source.clone()).await?;
        Ok(open)
    }

    fn assemble(
        site: Site,
        dir: RunDir,
        journal: Journal,
        state: RunState,
        lock_name: &str,
        reporter: Box<dyn Reporter>,
        lock: Lock,
    ) -> Self {
        let names = Names::new(&dir.change);
        let repo = site.repo.clone().without_index(dir.path().join("no-index"));
        let branch = Branch::new(repo.clone(), names.clone());
        let workspace = Workspace::in_place(repo, names, dir.path().to_owned()).with_vault(dir.vault().cloned());
        let (stop_handle, stop) = stop_channel();
        let steering = SteeringFiles::new(&site.store, &dir);
        let backup = StateBackup::new(&site.store, &dir, lock_name);
        OpenRun {
            dir,
            state,
            branch,
            workspace,
            pool: None,
            site,
            journal,
            backup,
            steering,
            reporter,
            page: None,
            stop_handle,
            stop,
            lock,
        }
    }

    /// Opens the private clones of an isolated run.
    async fn open_pool(&mut self) -> Result<()> {
        let opening = self.opening()?.clone();
        if let Some(root) = &opening.workspaces {
            self.pool = Some(Pool::open(&self.site, &self.dir, &opening, root.clone()).await?);
        }
        Ok(())
    }

    /// Rejects attempts under way if the journal cannot be trusted. What it says about them is then not enough to land them. Such an
    /// attempt counts as interrupted: it is rolled back, and its work is saved.
    async fn doubt_verdicts(&mut self, doubt: Option<Doubt>) -> Result<()> {
        for notice in self.journal.take_notices() {
            self.record(Event::Noticed { notice }).await?;
        }
        let Some(why) = doubt else { return Ok(()) };
        let judged = |progress: &Progress| match progress.stage {
            Stage::Ended { .. } | Stage::Accepted => true,
            Stage::Working => progress.by_hand.is_some(),
            Stage::Idle | Stage::Queued(_) | Stage::Rejected | Stage::Landed(_) => false,
        };
        let rejection = |progress: &Progress| match progress.by_hand {
            Some(_) => Outcome::Unlandable { reason: "the request to mark the story as done cannot be verified".to_owned() },
            None => Outcome::Interrupted,
        };
        let judged: Vec<(StoryId, u32, Outcome)> = self
            .state
            .stories
            .iter()
            .filter(|(_, progress)| judged(progress))
            .map(|(story, progress)| (story.clone(), progress.attempts, rejection(progress)))
            .collect();
        if !judged.is_empty() || why == Doubt::Short {
            self.record(Event::Noticed { notice: Notice::JournalDoubted { why, kept: None } }).await?;
        }
        for (story, attempt, outcome) in judged {
            self.record(Event::AttemptRejected { story, attempt, outcome }).await?;
        }
        Ok(())
    }

    fn check_worktree(&self) -> Result<()> {
        let here = self.site.repo.place.worktree_id();
        match &self.state.opening {
            Some(opening) if opening.worktree != here => {
                bail!(
                    Problem::refused(format!("the run of '{}' belongs to another work tree ({})", self.dir.change, opening.worktree))
                        .hint("git worktree list")
                )
            }
            _ => Ok(()),
        }
    }

    /// The change of the run.
    #[must_use]
    pub fn change(&self) -> &ChangeName {
        &self.dir.change
    }

    /// The facts that were recorded when the run began.
    ///
    /// # Errors
    /// If the journal does not begin with them.
    pub fn opening(&self) -> Result<&Opening> {
        self.state.opening.as_ref().with_context(|| format!("{} does not begin with the start of a run", self.dir.journal().display()))
    }

    /// The reporter.
    #[must_use]
    pub fn reporter(&self) -> &dyn Reporter {
        &*self.reporter
    }

    /// Sets the function that writes the report page whenever the loop ends.
    pub fn make_page(&mut self, maker: PageMaker) {
        self.page = Some(maker);
    }

    /// Shows how urgently a stop was requested.
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Returns the lock when the run is over.
    #[must_use]
    pub fn into_lock(self) -> Lock {
        self.lock
    }

    /// Releases the lock and the journal for other commands. Returns the reporter, so that it can be used when the run is opened again.
    #[must_use]
    pub fn release(self) -> Box<dyn Reporter> {
        self.reporter
    }

    pub(super) fn base(&self) -> Result<Base> {
        self.state.base.clone().context("the journal has no initial state")
    }

    pub(super) async fn record(&mut self, event: Event) -> Result<()> {
        Scribe { journal: &mut self.journal, state: &mut self.state, reporter: &*self.reporter, callbacks: None }.record(event).await
    }

    /// Records an event that a power failure may lose until the next sync.
    async fn note(&mut self, event: Event) -> Result<()> {
        Scribe { journal: &mut self.journal, state: &mut self.state, reporter: &*self.reporter, callbacks: None }.note(event).await
    }

    pub(super) async fn record_notices(&mut self, notices: Vec<Notice>) -> Result<()> {
        for notice in notices {
            self.record(Event::Noticed { notice }).await?;
        }
        Ok(())
    }

    /// Records the last event of the run and removes its backup and its vault.
    pub(super) async fn close(&mut self, event: Event) -> Result<()> {
        self.record(event).await?;
        self.backup.discard();
        if let Some(vault) = self.dir.vault() {
            vault.discard();
        }
        Ok(())
    }

    pub(super) async fn begin_on_branch(&mut self, beginning: Beginning) -> Result<()> {
        let original = self.opening()?.original.clone();
        let begun = if self.state.is_isolated() {
            self.branch.begin_isolated(&self.workspace, &original, self.dir.number, beginning).await?
        } else {
            self.branch.begin(&self.workspace, &original, self.dir.number, beginning).await?
        };
        self.workspace.pin_conversion();
        if let Some((rescue, commit)) = begun.leftover {
            self.record(Event::LeftoverKept { rescue, commit }).await?;
        }
        self.record(Event::RunStarted { initial: begun.initial, branch: self.branch.names.short_branch() }).await?;
        self.record_notices(begun.notices).await
    }

    /// The handle that requests a stop of the loop.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop_handle.clone()
    }

    /// Starts to listen to signals and `git ralph stop`, until the return value is dropped.
    pub fn listen(&self) -> Result<Listening> {
        Ok(Listening(vec![
            tokio::spawn(watch_signals(self.stop_handle.clone())?),
            tokio::spawn(watch_stop_request(self.dir.stop_file(), self.stop_handle.clone())),
        ]))
    }

    /// The same, after dropping a stop request that was meant for an earlier process.
    pub(super) fn listen_for_new_requests(&self) -> Result<(Listening, Stop)> {
        self.drop_stop_request();
        Ok((self.listen()?, self.stop()))
    }

    /// Drops a stop request that was meant for an earlier process.
    pub(super) fn drop_stop_request(&self) {
        let _ = std::fs::remove_file(self.dir.stop_file());
    }

    /// Runs the loop until it ends.
    ///
    /// # Errors
    /// If git, the journal or a transcript fails. The run can then be resumed.
    pub async fn work(&mut self, work: &Work, loaded: LoadedChange) -> Result<End> {
        self.find_usage(&work.agent).await?;
        let id = self.opening()?.id.clone();
        let kind = self.state.source_kind;
        let view = self.source_view(&loaded).await?;
        let checkout = self.site.repo.clone();
        let watch = self.source_watch(&checkout, &loaded).filter(|_| view.is_some());
        let reader = self.site.changes.of_run(&self.dir, &self.state);
        let loaded = if view.is_some() { reader.load(&loaded.name)? } else { loaded };
        let (source, change) = (loaded.source_of(kind), loaded.change_of_run(&self.dir, &self.state)?);
        let conditions = work.conditions(self.site.repo.git_version().await, &self.site.config, &change);
        self.note(Event::LoopStarted { conditions }).await?;
        let stories = StoryList::new(change, &reader, loaded, kind).selecting(&work.only);
        let agent = AgentSetup { agent: &work.agent, template: work.template.as_ref() };
        self.reporter.activity(&Activity::Working {
            agent: &work.agent.name,
            model: work.settings.model.as_ref().map(|model| model.value.as_str()),
            idle: work.settings.idle_timeout.value,
        });
        let _adoption = Adoption::begin();
        let trail = Trail::begin(child_program::MARK, &format!("{id}/"));
        let policy = work.policy(self.state.is_isolated());
        let end = self.orchestrator(&id, Some(agent), &work.settings, source.as_ref(), stories).run(policy, view, watch).await;
        if end.as_ref().is_err_and(|error| error.downcast_ref::<Quit>().is_some()) {
            self.reporter.rest();
            trail.end(work.quit_grace()).await;
        }
        end
    }

    /// The source of an isolated run, if it is on the run's branch. Its files are written to the run's directory.
    async fn source_view(&self, loaded: &LoadedChange) -> Result<Option<BranchSource>> {
        let path = loaded.file.source.as_deref().filter(|_| self.state.is_isolated());
        let Some(view) = path.and_then(|path| BranchSource::new(&self.dir, path)) else { return Ok(None) };
        let carried = view.refresh(&self.branch.repo, &self.base()?.checkpoint).await?;
        Ok(carried.then_some(view))
    }

    /// Watches the user's copy of the source, which an isolated run does not read.
    fn source_watch<'r>(&self, checkout: &'r Repo, loaded: &LoadedChange) -> Option<SourceWatch<'r>> {
        let path = loaded.file.source.as_deref()?;
        let source = SourcePlace::new(&checkout.place.top, path).with_kind(self.state.source_kind);
        Some(SourceWatch { checkout, source, initial: self.state.initial.clone()?, seen: None, reported: false })
    }

    /// The change as the run sees it. The source of an isolated run comes from the run's branch.
    pub async fn load_change(&self) -> Result<LoadedChange> {
        let loaded = self.site.changes.load(self.change())?;
        match self.source_view(&loaded).await? {
            Some(_) => self.site.changes.of_run(&self.dir, &self.state).load(self.change()),
            None => Ok(loaded),
        }
    }

    pub(super) fn orchestrator<'a>(
        &'a mut self,
        id: &'a str,
        agent: Option<AgentSetup<'a>>,
        settings: &'a Settings,
        source: Option<&'a SourcePlace>,
        stories: StoryList<'a>,
    ) -> Orchestrator<'a> {
        let step_runner = StepRunner {
            run: &self.dir,
            id,
            branch: &self.branch,
            workspace: &self.workspace,
            pool: self.pool.as_ref(),
            jobs: settings.jobs.value,
            backup: &self.backup,
            steering: &self.steering,
            agent,
            source,
            environment: &self.site.environment,
            settings,
            config: &self.site.config,
            page: self.page.as_ref(),
            reporter: &*self.reporter,
            stop: self.stop.clone(),
            judged: std::cell::RefCell::default(),
            in_flight: InFlight::new(
                settings.max_cost.as_ref().map(|cost| cost.value),
                settings.max_tokens.as_ref().map(|tokens| tokens.value),
            ),
            agents: RunningAgents::default(),
        };
        Orchestrator { step_runner, journal: &mut self.journal, state: &mut self.state, stories }
    }

    /// git's configuration of `ralph.*`.
    #[must_use]
    pub fn config(&self) -> &GitConfig {
        &self.site.config
    }

    /// Restores the settings, hooks and files that steer a run to their state before an attempt that is not judged yet. This must happen
    /// before any of them is read, because a killed process may have left them as the agent changed them.
    pub async fn put_steering_back(&mut self) -> Result<()> {
        if self.state.is_isolated() {
            return self.end_orphans().await;
        }
        let Some((story, attempt)) = self.state.unjudged() else { return Ok(()) };
        self.end_orphans().await?;
        self.workspace.restore_records()?;
        let mut notices = self.steering.put_back(&story, attempt)?;
        notices.extend(self.workspace.put_back_steering(&story, attempt).await?);
        self.record_notices(notices).await
    }

    /// Reads the configuration again, because settings may have been restored.
    pub async fn reread_config(&mut self) -> Result<()> {
        self.site.config = read_config(&self.site.plain_git()).await?;
        Ok(())
    }

    /// Recovers the usage of an agent from its transcript, if the git-ralph that supervised it was killed.
    async fn find_usage(&mut self, agent: &Agent) -> Result<()> {
        let cut_short = |progress: &Progress| progress.stage == Stage::Rejected && progress.outcome == Some(Outcome::Interrupted);
        let half: Vec<(StoryId, u32)> = self
            .state
            .stories
            .iter()
            .filter(|(_, progress)| cut_short(progress))
            .map(|(story, progress)| (story.clone(), progress.attempts))
            .filter(|(story, attempt)| !self.state.has_usage_of(story, *attempt))
            .collect();
        for (story, attempt) in half {
            let stdout = self.dir.attempt(&story, attempt).join("stdout");
            let usage = Transcript::open(&stdout, agent.format).and_then(Transcript::usage).unwrap_or_default();
            if !usage.is_empty() {
                self.record(Event::UsageFound { story, attempt, usage }).await?;
            }
        }
        Ok(())
    }
}

/// Tasks that turn signals and requests into a stop of the run. Dropping this ends them.
pub struct Listening(Vec<JoinHandle<()>>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
