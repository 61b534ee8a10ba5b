//! A run that this process has: locked, its journal open, told to somebody, stopped by signals and requests.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::context::Context;
use crate::agent::{Agent, Learnings, Prompt, Template};
use crate::checkpoint::{Beginning, Departure, Footing, Keeper, Landed, Notice, Route, Settled, Style};
use crate::cli::RunOptions;
use crate::config::{Advice, Bell, Finish, Flags, Settings};
use crate::error::{Ending, Problem};
use crate::git::Head;
use crate::process::{Adoption, Stop, StopHandle, Trail, Urgency, stop_channel, watch_signals};
use crate::report::{Json, Line, Lines, Reporter, Screen, Tee, Terminal, Tone, Verbosity, ask, end_words, head_words, output, ring};
use crate::run::{
    End, Event, Journal, Lock, Opening, Orchestrator, Outcome, Phase, Policy, Progress, Quit, RunDir, RunState, Scribe, SourcePlace, Spare,
    Stage, StopKind, Transcript, Workshop, attempt, set_marks, take_marks_back, watch_stop_request,
};
use crate::story::{Change, ChangeName, Story, StoryId};

/// Everything that working on an open run takes.
pub struct Session {
    context: Context,
    pub(super) keeper: Keeper,
    spare: Spare,
    pub(super) run: RunDir,
    journal: Journal,
    pub(super) state: RunState,
    reporter: Box<dyn Reporter>,
    stop_handle: StopHandle,
    stop: Stop,
    _lock: Lock,
}

/// What is wanted of a loop.
pub struct Work {
    /// Limits, gates, the agent.
    pub settings: Settings,
    /// Who works.
    pub agent: Agent,
    /// The user's own prompt template.
    pub template: Option<Template>,
    /// The stories that it is about.
    pub only: Vec<StoryId>,
    /// How many stories to land.
    pub limit: Option<u32>,
}

impl Work {
    /// Works out what flags, change file and configuration say, and finds the agent.
    pub fn plan(context: &Context, change: &Change, flags: &Flags, limit: Option<u32>) -> Result<Self> {
        let name = &change.name;
        let settings = context.settings(name, flags)?;
        let Some(choice) = &settings.agent else {
            bail!(
                Problem::fatal("no agent is configured")
                    .hint(format!("git ralph start {name} -- <command that reads the prompt on stdin>"))
                    .hint("git config ralph.<name>.cmd <command>, and git config ralph.agent <name>")
            );
        };
        let model = settings.model.as_ref().map(|model| model.value.as_str());
        let agent = Agent::resolve(&choice.value, model, &context.config)?;
        agent.find(&context.environment, &context.repo.place.top)?;
        let known = |text: &String| {
            let found = change.stories.iter().find(|story| story.id.as_str() == text).map(|story| story.id.clone());
            found.ok_or_else(|| {
                let suggestion = crate::nearest::suggestion(text, change.stories.iter().map(|story| story.id.as_str()));
                Problem::fatal(format!("'{name}' has no story '{text}'{suggestion}"))
            })
        };
        let only = flags.only.iter().map(known).collect::<Result<_, _>>()?;
        let work = Work { settings, agent, only, limit, template: context.template()? };
        work.check_prompts(change)?;
        Ok(work)
    }

    /// A template that cannot be rendered is noticed before anything is touched.
    fn check_prompts(&self, change: &Change) -> Result<()> {
        let Some(template) = &self.template else { return Ok(()) };
        change.stories.iter().try_for_each(|story| self.prompt(change, story, Some(template)).map(drop))
    }

    /// The prompt of a story's first attempt, before anything has been learnt.
    pub fn prompt(&self, change: &Change, story: &Story, template: Option<&Template>) -> Result<String> {
        let gates: Vec<String> = self.settings.verify.value.iter().chain(&story.verify).cloned().collect();
        let learnings = Learnings { file: "<learnings>".to_owned(), text: String::new() };
        Prompt { change, story, attempt: 1, gates: &gates, feedback: None, learnings: Some(&learnings), template }.render()
    }
}

impl Work {
    fn policy(&self) -> Policy {
        let settings = &self.settings;
        Policy {
            max_retries: settings.max_retries.value,
            jobs: 1,
            limit: self.limit,
            only: self.only.clone(),
            agent: Some(self.agent.name.clone()),
            limit_wait: settings.limit_wait.value,
            limit_pause: settings.limit_pause.value,
            max_cost: settings.max_cost.as_ref().map(|cost| cost.value),
            max_tokens: settings.max_tokens.as_ref().map(|tokens| tokens.value),
        }
    }
}

/// What an agent does not tell cannot be held to a budget: that is said before the first one starts.
fn warn_of_budget(work: &Work) {
    let (settings, agent) = (&work.settings, &work.agent);
    let warn = |option: &str, what: &str, other: &str| {
        let text = format!("{} does not tell {what}, so {option} cannot be kept{other}", agent.name);
        output::message(&Line::new(Tone::Warning, text));
    };
    if settings.max_cost.is_some() && !agent.format.tells_cost() {
        let other = if agent.format.tells_tokens() { "; use --max-tokens" } else { "" };
        warn("--max-cost", "what its work costs", other);
    }
    if settings.max_tokens.is_some() && !agent.format.tells_tokens() {
        warn("--max-tokens", "how many tokens it uses", "");
    }
}

/// Who is told about a loop, by its options.
pub fn reporter(context: &Context, options: &RunOptions) -> Box<dyn Reporter> {
    let verbosity = match (options.quiet, options.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    };
    let human: Box<dyn Reporter> = if context.environment.screen && verbosity == Verbosity::Normal {
        Box::new(Terminal::default())
    } else {
        Box::new(Lines::new(verbosity))
    };
    if options.json { Box::new(Tee(vec![Box::new(Json), human])) } else { human }
}

/// Who is told about a command that is over quickly.
pub fn brief(quiet: bool) -> Box<dyn Reporter> {
    Box::new(Lines::new(if quiet { Verbosity::Quiet } else { Verbosity::Normal }))
}

impl Session {
    /// Takes up a run whose journal exists.
    pub async fn take_up(context: Context, run: RunDir, reporter: Box<dyn Reporter>) -> Result<Self> {
        let lock = context.lock().await?;
        let (journal, state) = run.open()?;
        if state.is_closed() {
            bail!(Problem::refused(format!("the run of '{}' has ended meanwhile", run.change)));
        }
        let anonymous = context.anonymous;
        let mut session = Session::assemble(context, run, journal, state, reporter, lock);
        session.check_worktree()?;
        if anonymous {
            session.reporter_line(Tone::Warning, "no identity is configured, commits are made as git-ralph <git-ralph@localhost>");
        }
        Ok(session)
    }

    /// Begins a run.
    pub async fn begin(context: Context, name: &ChangeName, flags: Flags, reporter: Box<dyn Reporter>, lock: Lock) -> Result<Self> {
        let anonymous = context.anonymous;
        let run = context.store.create(name)?;
        let journal = Journal::create(&run.journal())?;
        let opening = Opening {
            run: run.number,
            id: format!("{}-{}", jiff::Timestamp::now().as_nanosecond(), std::process::id()),
            change: name.clone(),
            original: context.repo.place.head.clone(),
            worktree: context.repo.place.worktree_id(),
            flags,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let mut session = Session::assemble(context, run, journal, RunState::default(), reporter, lock);
        session.record(Event::RunStarting { opening }).await?;
        if anonymous {
            session.record(Event::IdentityMissing {}).await?;
        }
        session.begin_on_branch(Beginning::Fresh).await?;
        session.believe_source().await?;
        Ok(session)
    }

    fn assemble(context: Context, run: RunDir, journal: Journal, state: RunState, reporter: Box<dyn Reporter>, lock: Lock) -> Self {
        let keeper = Keeper::new(context.repo.clone(), &run.change, run.path().to_owned());
        let (stop_handle, stop) = stop_channel();
        let spare = Spare::new(&context.store, &run, &context.repo.place.worktree_id());
        Session { context, keeper, spare, run, journal, state, reporter, stop_handle, stop, _lock: lock }
    }

    fn check_worktree(&self) -> Result<()> {
        let here = self.context.repo.place.worktree_id();
        match &self.state.opening {
            Some(opening) if opening.worktree != here => {
                bail!(
                    Problem::refused(format!("the run of '{}' belongs to another work tree ({})", self.run.change, opening.worktree))
                        .hint("git worktree list")
                )
            }
            _ => Ok(()),
        }
    }

    /// Where the run stands.
    pub fn phase(&self) -> &Phase {
        &self.state.phase
    }

    /// What was written down when the run began.
    pub fn opening(&self) -> Result<&Opening> {
        self.state.opening.as_ref().with_context(|| format!("{} does not begin with the start of a run", self.run.journal().display()))
    }

    /// The context that the session was made from.
    pub fn context(&self) -> &Context {
        &self.context
    }

    pub(super) async fn record(&mut self, event: Event) -> Result<()> {
        Scribe { journal: &mut self.journal, state: &mut self.state, reporter: &*self.reporter, callbacks: None }.record(event).await
    }

    /// Records the last event of a run.
    async fn close(&mut self, event: Event) -> Result<()> {
        self.record(event).await?;
        self.spare.discard();
        Ok(())
    }

    pub(super) async fn record_notices(&mut self, notices: Vec<Notice>) -> Result<()> {
        for notice in notices {
            self.record(Event::Noticed { notice }).await?;
        }
        Ok(())
    }

    fn reporter_line(&mut self, tone: Tone, text: &str) {
        output::message(&Line::new(tone, text));
    }

    async fn begin_on_branch(&mut self, beginning: Beginning) -> Result<()> {
        let original = self.opening()?.original.clone();
        let begun = self.keeper.begin(&original, self.run.number, beginning).await?;
        self.keeper.pin_conversion();
        if let Some((rescue, commit)) = begun.leftover {
            self.record(Event::LeftoverKept { rescue, commit }).await?;
        }
        self.record(Event::RunStarted { initial: begun.initial, branch: self.keeper.names.short_branch() }).await
    }

    /// Gets a run that was left in whatever state ready for more work.
    pub async fn reopen(&mut self) -> Result<()> {
        if self.state.phase == Phase::Starting {
            if !self.has_begun().await? {
                // It died before it touched anything: it starts from where the user is now.
                let original = self.context.repo.place.head.clone();
                let opening = Opening { original, ..self.opening()?.clone() };
                self.record(Event::RunStarting { opening }).await?;
            }
            self.begin_on_branch(Beginning::Again).await?;
        }
        self.complete_undo().await?;
        let _ = std::fs::remove_file(self.run.stop_file());
        // Whoever killed the process before left its agent to itself.
        Trail::begin(attempt::MARK, &format!("{}/", self.opening()?.id)).end(Duration::from_secs(2)).await;
        self.record(Event::RunResumed {}).await?;
        if self.state.is_busy() {
            return Ok(());
        }
        self.believe_edits().await?;
        match self.keeper.settle(&self.footing()?).await? {
            Settled::Same => Ok(()),
            Settled::Commits { checkpoint } => self.record(Event::CommitsAdopted { checkpoint }).await,
            Settled::Edits { checkpoint, base, files } => self.record(Event::EditsAdopted { checkpoint, base, files }).await,
        }
    }

    pub(super) fn footing(&self) -> Result<Footing> {
        self.state.footing.clone().context("the journal has no initial state")
    }

    /// Works until the loop is over, then completes the run as the settings or the user say.
    pub async fn work(&mut self, work: Work) -> Result<Ending> {
        self.find_usage(&work.agent).await?;
        let _watchers = Watchers(vec![
            tokio::spawn(watch_signals(self.stop_handle.clone())?),
            tokio::spawn(watch_stop_request(self.run.stop_file(), self.stop_handle.clone())),
        ]);
        warn_of_budget(&work);
        let end = self.run_loop(&work).await?;
        self.reporter.rest();
        self.call_the_user(&end, work.settings.bell.value).await;
        let asked = self.complete(&end, work.settings.finish.value).await?;
        Ok(match (&end, asked) {
            (End::Interrupted { .. }, _) | (_, Completion::Interrupted) => Ending::Interrupted,
            (End::AllDone | End::SelectionDone | End::LimitReached, _) => Ending::Done,
            (
                End::RetriesSpent { .. }
                | End::BudgetSpent { .. }
                | End::Misconfigured { .. }
                | End::UsageLimit { .. }
                | End::Blocked { .. }
                | End::Stopped,
                _,
            ) => Ending::StoppedShort,
        })
    }

    /// The terminal's bell, for a user who is looking elsewhere; who stops the loop is there.
    async fn call_the_user(&self, end: &End, bell: Bell) {
        let environment = &self.context.environment;
        if !environment.screen || matches!(end, End::Stopped | End::Interrupted { .. }) {
            return;
        }
        let screen = Screen::named(environment.get("TERM").and_then(|term| term.to_str()).unwrap_or_default());
        // Nobody can answer who has no keyboard here.
        let bell = if bell == Bell::Auto && !environment.interactive { Bell::Ring } else { bell };
        let text = end_words(end, &self.state);
        let _ = tokio::task::spawn_blocking(move || ring(bell, screen, &text)).await;
    }

    /// What an agent used up whose watcher was killed counts too; it printed it.
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
            let stdout = self.run.attempt(&story, attempt).join("stdout");
            let usage = Transcript::open(&stdout, agent.format).and_then(Transcript::usage).unwrap_or_default();
            if !usage.is_empty() {
                self.record(Event::UsageFound { story, attempt, usage }).await?;
            }
        }
        Ok(())
    }

    /// Where the stories of the run are kept, if not in the change file.
    fn source(&self) -> Option<SourcePlace> {
        self.context.source(&self.run.change).ok().flatten().map(|place| place.with_kind(self.state.source_kind))
    }

    /// Writes down what the source says at the beginning of the run: that is believed, and nothing that it says later.
    async fn believe_source(&mut self) -> Result<()> {
        let Some(source) = self.context.source(&self.run.change)? else { return Ok(()) };
        let material = source.material()?;
        let (kind, done) = (material.kind, material.done().map_err(Problem::fatal)?);
        if self.keeper.repo.carries(source.in_work_tree().as_deref()).await.is_ok_and(|carried| !carried) {
            let text = format!("git does not keep {}: abort and undo leave its marks as they are", source.path());
            self.reporter_line(Tone::Warning, &text);
        }
        self.record(Event::SourceRead { kind, done }).await
    }

    /// What the user has marked since the last checkpoint is believed too; what an agent has marked is in the checkpoint.
    async fn believe_edits(&mut self) -> Result<()> {
        if self.state.source_kind.is_none() {
            return self.believe_source().await;
        }
        let (Some(source), Some(kind)) = (self.source(), self.state.source_kind) else { return Ok(()) };
        let Some(path) = source.in_work_tree() else { return Ok(()) };
        let Some(now) = source.material().ok().and_then(|material| material.done().ok()) else { return Ok(()) };
        let Some(text) = self.keeper.repo.file_at(&self.footing()?.checkpoint, &path).await? else { return Ok(()) };
        let before = source.material_with(text)?.done().unwrap_or_default();
        let done: Vec<StoryId> = now.into_iter().filter(|story| !before.contains(story)).collect();
        if done.is_empty() { Ok(()) } else { self.record(Event::SourceRead { kind, done }).await }
    }

    async fn run_loop(&mut self, work: &Work) -> Result<End> {
        let opening = self.opening()?.clone();
        let (context, change) = (&self.context, self.run.change.clone());
        let place = self.source();
        let kind = self.state.source_kind;
        let source = || context.change_of_kind(&change, kind);
        let first = context.change_of_run(&self.run, &self.state)?;
        let file = context.store.change_file(&change);
        let bytes = || if place.is_none() { crate::regular::bytes(&file).ok() } else { None };
        let workshop = Workshop {
            run: &self.run,
            id: &opening.id,
            keeper: &self.keeper,
            spare: &self.spare,
            agent: &work.agent,
            source: place.as_ref(),
            template: work.template.as_ref(),
            environment: &self.context.environment,
            settings: &work.settings,
            reporter: &*self.reporter,
            stop: self.stop.clone(),
        };
        let policy = work.policy();
        let orchestrator = Orchestrator {
            workshop,
            journal: &mut self.journal,
            state: &mut self.state,
            policy,
            change: first,
            source: &source,
            bytes: &bytes,
        };
        let _adoption = Adoption::begin();
        let trail = Trail::begin(attempt::MARK, &format!("{}/", opening.id));
        let end = orchestrator.run().await;
        if end.as_ref().is_err_and(|error| error.downcast_ref::<Quit>().is_some()) {
            self.reporter.rest();
            trail.end(Duration::ZERO).await;
        }
        end
    }

    async fn complete(&mut self, end: &End, finish: Finish) -> Result<Completion> {
        let terminated = matches!(end, End::Interrupted { how: StopKind::Terminate });
        let mode = match finish {
            Finish::Cleanup | Finish::Keep => Some(finish),
            Finish::Ask if self.context.environment.interactive && !terminated => {
                let mut stop = self.stop.clone();
                let answer = tokio::select! {
                    answer = self.ask_completion() => answer?,
                    _ = stop.reached(Urgency::Terminate) => ask::withdraw(),
                };
                match answer {
                    ask::Answer::Chosen(mode) => Some(mode),
                    ask::Answer::Later => None,
                    ask::Answer::Interrupted => {
                        self.say_what_to_type();
                        return Ok(Completion::Interrupted);
                    }
                }
            }
            Finish::Ask => None,
        };
        match mode {
            Some(mode) => self.finish(mode).await.map(|()| Completion::Finished),
            None => {
                self.say_what_to_type();
                Ok(Completion::Open)
            }
        }
    }

    /// Asks for the completion choice.
    pub async fn ask_completion(&self) -> Result<ask::Answer<Finish>> {
        let original = head_words(&self.opening()?.original);
        ask::completion(&self.keeper.names.short_branch(), &original).await
    }

    fn say_what_to_type(&mut self) {
        let change = self.run.change.clone();
        let unfinished = self.state.end != Some(End::AllDone);
        let more = unfinished.then(|| format!("git ralph resume {change}             to go on"));
        let lines = [
            format!("git ralph finish --cleanup {change}   to have everything uncommitted on the original branch"),
            format!("git ralph finish --keep {change}      to stay on {}", self.keeper.names.short_branch()),
            format!("git ralph abort {change}              to have everything as it was before"),
        ];
        self.reporter_line(Tone::Plain, "the run is open");
        output::advise(Advice::NextStep, &more.into_iter().chain(lines).collect::<Vec<_>>());
    }

    /// Ends the run in the given way.
    pub async fn finish(&mut self, mode: Finish) -> Result<()> {
        let again = self.state.phase == Phase::Finishing(Finish::Cleanup);
        self.check_same_way(again && mode == Finish::Cleanup)?;
        if !again {
            self.settle_what_is_half_done().await?;
        }
        match mode {
            Finish::Keep | Finish::Ask => {
                self.record(Event::FinishStarted { mode: Finish::Keep }).await?;
                self.close(Event::Finished { mode: Finish::Keep, kept: None }).await
            }
            Finish::Cleanup => {
                let kept = self.go_home(Route::Cleanup, Event::FinishStarted { mode }, again).await?;
                self.close(Event::Finished { mode, kept: Some(kept) }).await
            }
        }
    }

    /// Gives the run up.
    pub async fn abort(&mut self) -> Result<()> {
        if self.state.phase == Phase::Starting {
            if !self.has_begun().await? {
                return self.close(Event::Aborted { kept: None }).await;
            }
            // What of the beginning has happened is made whole, so that there is one way back.
            self.begin_on_branch(Beginning::Again).await?;
        }
        let again = self.state.phase == Phase::Aborting;
        self.check_same_way(again)?;
        if !again {
            self.settle_what_is_half_done().await?;
        }
        let kept = self.go_home(Route::Abort, Event::AbortStarted {}, again).await?;
        self.close(Event::Aborted { kept: Some(kept) }).await
    }

    /// A run that is on its way back one way cannot turn to another.
    fn check_same_way(&self, same: bool) -> Result<()> {
        let way = match self.state.phase {
            Phase::Finishing(Finish::Cleanup) if !same => "finish --cleanup",
            Phase::Aborting if !same => "abort",
            _ => return Ok(()),
        };
        let change = &self.run.change;
        bail!(
            Problem::refused(format!("a 'git ralph {way}' of this run was cut short"))
                .hint(format!("git ralph resume {change}   to complete it"))
        )
    }

    /// Whether a beginning that was cut short had touched anything.
    async fn has_begun(&self) -> Result<bool> {
        Ok(self.keeper.repo.refs().await?.get(&self.keeper.names.initial()).is_some())
    }

    async fn go_home(&mut self, route: Route, intent: Event, again: bool) -> Result<String> {
        let original: Head = self.opening()?.original.clone();
        let initial = self.state.initial.clone().context("the journal has no initial state")?;
        let footing = self.footing()?;
        let departure = Departure { route, original: &original, initial: &initial, footing: &footing, again };
        let itinerary = self.keeper.survey(&departure).await?;
        if !again {
            self.record(intent).await?;
        }
        let home = self.keeper.go_home(route, itinerary, &original).await?;
        self.record_notices(home.notices).await?;
        Ok(home.kept)
    }

    /// An undo that was cut short is completed; an attempt is landed if it was on its way there, else rolled back.
    async fn settle_what_is_half_done(&mut self) -> Result<()> {
        self.complete_undo().await?;
        let half: Vec<(StoryId, u32, Stage)> = self
            .state
            .stories
            .iter()
            .filter(|(_, progress)| progress.is_busy())
            .map(|(story, progress)| (story.clone(), progress.attempts, progress.stage.clone()))
            .collect();
        for (story, attempt, stage) in half {
            let footing = self.footing()?;
            if stage == Stage::Accepted {
                let text = self.story_or_stand_in(&story);
                for event in self.source().map(|source| set_marks(&source, &self.run, &story, attempt)).unwrap_or_default() {
                    self.record(event).await?;
                }
                if let Landed::Checkpoint { commit, files, notices } = self.keeper.land(&text, attempt, &footing, &Style::default()).await?
                {
                    self.record_notices(notices).await?;
                    self.record(Event::CheckpointLanded { story, attempt, commit, files }).await?;
                    continue;
                }
            }
            if stage != Stage::Rejected {
                self.record(Event::AttemptRejected { story: story.clone(), attempt, outcome: Outcome::Interrupted }).await?;
            }
            let rolled = self.keeper.roll_back(&story, attempt, &footing).await?;
            self.record_notices(rolled.notices).await?;
            if let Some(source) = self.source() {
                take_marks_back(&source, &self.run, &story, attempt);
            }
            self.record(Event::AttemptRolledBack { story, attempt, rescue: rolled.rescue, files: rolled.files }).await?;
        }
        Ok(())
    }

    fn story_or_stand_in(&self, id: &StoryId) -> Story {
        let known = self.context.change_of_run(&self.run, &self.state).ok().and_then(|change| change.story(id).cloned());
        known.unwrap_or_else(|| Story::stand_in(id))
    }

    /// Gives lock and context back when the run is over.
    pub fn into_parts(self) -> (Context, Lock) {
        (self.context, self._lock)
    }
}

/// Tasks that turn signals and requests into the session's stop; they end with it.
struct Watchers(Vec<tokio::task::JoinHandle<()>>);

impl Drop for Watchers {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

enum Completion {
    Finished,
    Open,
    Interrupted,
}
