//! Completes operations that an earlier process left half done. Attempts are completed by the same steps that the loop uses.

use std::time::Duration;

use anyhow::{Result, bail};

use super::story_list::StoryList;
use super::{Closing, Event, HalfDone, Inbox, LoadedChange, OpenRun, Opening, Progress, Request, SourcePlace, Stage, child_program};
use crate::branch::{Adopted, Beginning, has_begun};
use crate::config::{Flags, GitConfig, Settings};
use crate::error::Problem;
use crate::process::Trail;
use crate::story::{Change, Order, Story};

/// Grace period for processes left by a killed run.
const GRACE: Duration = Duration::from_secs(2);

/// The values for performing steps without an agent.
struct Parts {
    id: String,
    settings: Settings,
    source: Option<SourcePlace>,
    change: Change,
}

impl OpenRun {
    /// Brings a run into a state in which work can continue. The loop completes half-done attempts.
    ///
    /// # Errors
    /// If git fails, or the branch is not at its checkpoint.
    pub async fn reopen(&mut self) -> Result<()> {
        self.settle_run().await?;
        self.drop_stop_request();
        self.end_orphans().await?;
        self.follow_inbox(Closing::Finish).await?;
        self.record(Event::RunResumed {}).await?;
        if self.state.is_busy() {
            return Ok(());
        }
        if self.state.is_isolated() {
            return self.adopt_commits().await;
        }
        self.record_new_marks().await?;
        match self.branch.adopt(&self.workspace, &self.base()?).await? {
            Adopted::Same => Ok(()),
            Adopted::Commits { checkpoint } => self.record(Event::CommitsAdopted { checkpoint }).await,
            Adopted::Edits { checkpoint, base, files } => self.record(Event::EditsAdopted { checkpoint, base, files }).await,
        }
    }

    /// Adopts commits that the user has made on the branch of an isolated run.
    pub(super) async fn adopt_commits(&mut self) -> Result<()> {
        match self.branch.adopt_commits(&self.base()?.checkpoint).await? {
            Some(checkpoint) => self.record(Event::CommitsAdopted { checkpoint }).await,
            None => Ok(()),
        }
    }

    /// Completes everything that is half done, including attempts, before the run is closed.
    pub(super) async fn settle(&mut self, closing: Closing) -> Result<()> {
        self.settle_run().await?;
        self.follow_inbox(closing).await?;
        if self.state.half_done() == Some(HalfDone::Attempts) {
            self.settle_attempts(closing).await?;
            self.follow_inbox(closing).await?;
        }
        Ok(())
    }

    /// Completes a start or an undo that is half done.
    pub async fn settle_run(&mut self) -> Result<()> {
        loop {
            match self.state.half_done() {
                Some(HalfDone::Start) => self.begin_again().await?,
                Some(HalfDone::Undo) => self.complete_undo().await.map(drop)?,
                Some(HalfDone::Attempts | HalfDone::Finish(_) | HalfDone::Abort) | None => return Ok(()),
            }
        }
    }

    /// Completes a start that was cut short. If it had not touched anything yet, the run starts from the current HEAD.
    async fn begin_again(&mut self) -> Result<()> {
        if !self.has_begun().await? {
            let original = self.site.repo.place.head.clone();
            let opening = Opening { original, ..self.opening()?.clone() };
            self.record(Event::RunStarting { opening }).await?;
        }
        self.begin_on_branch(Beginning::Again).await
    }

    /// Whether a start that was cut short had touched anything.
    pub(super) async fn has_begun(&self) -> Result<bool> {
        Ok(has_begun(&self.branch.repo.refs().await?, &self.branch.names, self.dir.path()))
    }

    /// Ends the processes of agents whose git-ralph was killed.
    pub(super) async fn end_orphans(&self) -> Result<()> {
        Trail::begin(child_program::MARK, &format!("{}/", self.opening()?.id)).end(GRACE).await;
        Ok(())
    }

    /// Judges, lands or rolls back unfinished attempts, with their own gates and the options that the run was started with.
    async fn settle_attempts(&mut self, closing: Closing) -> Result<()> {
        self.end_orphans().await?;
        self.put_steering_back().await?;
        if closing == Closing::Finish {
            self.reread_config().await?;
        }
        let Parts { id, settings, source, change } = self.parts(closing)?;
        if closing == Closing::Finish && !self.state.is_isolated() {
            self.check_place_to_judge().await?;
        }
        self.orchestrator(&id, None, &settings, source.as_ref(), StoryList::fixed(change)).complete_attempts(closing).await
    }

    /// Follows the requests that were left for an earlier process.
    pub(super) async fn follow_inbox(&mut self, closing: Closing) -> Result<()> {
        let is_possible = matches!(self.state.half_done(), None | Some(HalfDone::Attempts));
        if !is_possible || Inbox::of(&self.dir, &self.state).is_none_or(|inbox| inbox.is_empty()) {
            return Ok(());
        }
        self.end_orphans().await?;
        self.put_steering_back().await?;
        self.follow_requests(&[], closing).await
    }

    /// Follows requests of the user without a loop. A story that is done by hand lands.
    pub(super) async fn follow_requests(&mut self, requests: &[Request], closing: Closing) -> Result<()> {
        let inbox = Inbox::of(&self.dir, &self.state);
        let Parts { id, settings, source, change } = self.parts(closing)?;
        let orchestrator = self.orchestrator(&id, None, &settings, source.as_ref(), StoryList::fixed(change));
        orchestrator.follow_requests(inbox, requests).await
    }

    /// The values for performing steps without an agent, with the options that the run was started with.
    fn parts(&self, closing: Closing) -> Result<Parts> {
        let opening = self.opening()?;
        // A change that can no longer be read must not prevent the user from closing the run.
        let loaded = self.site.changes.load(self.change()).ok();
        let settings = self.settings_to_close(&opening.flags, loaded.as_ref(), closing)?;
        let source = loaded.as_ref().and_then(|loaded| loaded.source_of(self.state.source_kind));
        let change = loaded.and_then(|loaded| loaded.change_of_run(&self.dir, &self.state).ok());
        let change = change.unwrap_or_else(|| self.change_of_journal());
        Ok(Parts { id: opening.id.clone(), settings, source, change })
    }

    /// The settings for closing a run. An abort must not fail because of a setting that cannot be read, a signature that cannot be made, or
    /// the user's `ralph.onStory` command.
    fn settings_to_close(&self, flags: &Flags, loaded: Option<&LoadedChange>, closing: Closing) -> Result<Settings> {
        let config = &self.site.config;
        let settings = match loaded {
            Some(loaded) => loaded.settings(flags, config),
            None => Settings::resolve(flags, None, config),
        };
        match closing {
            Closing::Finish => settings,
            Closing::Abort => {
                let mut settings = settings.or_else(|_| Settings::resolve(flags, None, &GitConfig::default()))?;
                settings.sign.value = false;
                settings.on_story = None;
                Ok(settings)
            }
        }
    }

    /// The stories with unfinished attempts, as far as the journal knows them.
    fn change_of_journal(&self) -> Change {
        let busy = self.state.stories.iter().filter(|(_, progress)| progress.is_busy());
        let stories = busy.map(|(story, _)| Story::stand_in(story)).collect();
        Change { name: self.change().clone(), title: None, context: None, stories, order: Order::Graph }
    }

    /// Refuses to judge an attempt if HEAD is not on the run's branch. The agent's work may then no longer be in the work tree, and
    /// `finish` could land something else.
    async fn check_place_to_judge(&self) -> Result<()> {
        let ended = |progress: &Progress| matches!(progress.stage, Stage::Ended { .. });
        if !self.state.stories.values().any(ended) {
            return Ok(());
        }
        let refs = self.branch.repo.refs().await?;
        let (head, short, change) = (self.workspace.repo.head(&refs).await?, self.branch.names.short_branch(), self.change());
        if head.branch() == Some(self.branch.names.branch().as_str()) {
            return Ok(());
        }
        bail!(
            Problem::refused(format!("HEAD is on {}, not on {short}, and an attempt is still to be judged", head.words()))
                .hint(format!("git switch {short}              if you have switched branches"))
                .hint(format!("git ralph resume {change}   if the agent switched branches"))
        )
    }
}
