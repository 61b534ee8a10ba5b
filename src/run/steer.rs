//! Follows requests of the user: records the resulting event, then ends attempts that conflict with it. The loop and commands without a
//! loop share this code.

use anyhow::{Context, Error, Result, bail};

use super::inbox::Inbox;
use super::request::{Answer, Request, Wish};
use super::scribe::Scribe;
use super::step_runner::StepRunner;
use super::story_list::StoryList;
use super::{Closing, Edits, Event, HalfDone, OpenRun};
use crate::branch::{ByHand, SavedEdits};
use crate::error::{Problem, words};
use crate::git::Oid;
use crate::names::attempt_label;
use crate::shell_word::git_ralph;
use crate::story::{ChangeName, StoryId};
use crate::workspace::{Notice, under_way_problem};

/// The result of following a request.
#[derive(Debug)]
pub(super) enum Followed {
    /// The event of the request is in the journal.
    Taken,
    /// The request has to wait until an attempt is over.
    Waits,
    /// The request is not possible for this reason.
    Refused(Error),
}

impl StepRunner<'_> {
    /// Follows every request in the inbox that can be followed now. The stories are read again before, and after a request that edits them.
    pub(super) async fn take_requests(
        &self,
        inbox: Option<&mut Inbox>,
        scribe: &mut Scribe<'_>,
        stories: &mut StoryList<'_>,
    ) -> Result<()> {
        stories.reload(scribe).await?;
        let Some(inbox) = inbox else { return Ok(()) };
        for (file, request) in inbox.requests() {
            match self.follow(&request, scribe, stories).await? {
                Followed::Taken => {
                    inbox.remove(&file);
                    if matches!(request.wish, Wish::Edit { .. }) {
                        stories.reload(scribe).await?;
                    }
                }
                Followed::Refused(error) => {
                    scribe.record(Event::RequestRefused { request: request.id.clone(), reason: words(&error) }).await?;
                    inbox.remove(&file);
                }
                Followed::Waits => inbox.put_off(file),
            }
        }
        Ok(())
    }

    /// Follows one request.
    pub(super) async fn follow(&self, request: &Request, scribe: &mut Scribe<'_>, stories: &StoryList<'_>) -> Result<Followed> {
        let answer = scribe.state.answer(request, &stories.change().stories);
        if let Some(problem) = request_problem(&answer, &request.wish, &self.run.change) {
            return Ok(Followed::Refused(problem.into()));
        }
        let event = match answer {
            Answer::Known => return Ok(Followed::Taken),
            Answer::Wait | Answer::Occupied { .. } | Answer::Refused(_) => return Ok(Followed::Waits),
            Answer::Now(event) => *event,
            Answer::ByHand { story, attempt } => match self.gather_by_hand(&story, attempt, scribe).await {
                Ok(edits) => {
                    let text = if let Wish::Done { text, .. } = &request.wish { text.clone() } else { None };
                    Event::DoneByHand { request: request.id.clone(), story, attempt, text, edits }
                }
                Err(error) => return Ok(Followed::Refused(error)),
            },
        };
        if let Wish::Edit { text } = &request.wish {
            self.steering.write_change(text).context("cannot write the change file")?;
        }
        scribe.record(event).await?;
        if let Some(story) = request.ends() {
            self.agents.end(story);
        }
        Ok(Followed::Taken)
    }

    /// Prepares the user's edits for a checkpoint. In an isolated run this makes a commit of the user's checkout for the landing queue. It
    /// can be repeated.
    async fn gather_by_hand(&self, story: &StoryId, attempt: u32, scribe: &mut Scribe<'_>) -> Result<Option<Edits>> {
        let base = scribe.state.base.clone().context("the journal has no initial state")?;
        if self.pool.is_some() {
            return self.gather_from_checkout(story, attempt, &base.checkpoint, scribe).await.map(Some);
        }
        if let Some(operation) = self.workspace.repo.under_way().await? {
            bail!(under_way_problem(operation));
        }
        self.prepare_attempt_dir(story, attempt)?;
        self.branch.forget_refs();
        if let Some(checkpoint) = self.branch.ready_for_attempt(self.workspace, &base, &attempt_label(story, attempt)).await? {
            scribe.record(Event::CommitsAdopted { checkpoint }).await?;
        }
        Ok(None)
    }

    async fn gather_from_checkout(&self, story: &StoryId, attempt: u32, tip: &Oid, scribe: &mut Scribe<'_>) -> Result<Edits> {
        let since = scribe.state.last_checkout().context("the journal has no initial state")?;
        let opening = scribe.state.opening.as_ref().context("the journal does not begin with a start")?;
        let by_hand = ByHand { story, attempt, since, tip };
        let SavedEdits { commit, checkout, empty } = self.branch.queue_checkout(self.workspace, &opening.original, by_hand).await?;
        self.prepare_attempt_dir(story, attempt)?;
        if empty {
            scribe.record(Event::Noticed { notice: Notice::EmptyByHand { story: story.clone() } }).await?;
        }
        Ok(Edits { commit, checkout })
    }
}

/// The error for a request that cannot be followed, with hints. `None` if it can be followed.
#[must_use]
pub fn request_problem(answer: &Answer, wish: &Wish, change: &ChangeName) -> Option<Problem> {
    let (by, story) = match (answer, wish.story()) {
        (Answer::Refused(reason), _) => return Some(Problem::refused(reason).hint(git_ralph("status", &[change.as_str()]))),
        (Answer::Occupied { by }, Some(story)) => (by, story),
        (Answer::Now(_) | Answer::ByHand { .. } | Answer::Wait | Answer::Known | Answer::Occupied { .. }, _) => return None,
    };
    if by == story {
        return Some(
            Problem::refused(format!("the last attempt of '{story}' failed, and this checkout is being rolled back"))
                .hint(git_ralph("status", &[change.as_str()])),
        );
    }
    let done = git_ralph(&format!("done --change {change}"), &[story.as_str()]);
    Some(
        Problem::refused(format!("an attempt of '{by}' is under way in this checkout, and your edits would be part of it"))
            .hint(git_ralph("stop", &[change.as_str()]))
            .hint(format!("{done}   when the loop has stopped")),
    )
}

impl OpenRun {
    /// Follows requests while no loop is running: first those in the inbox, then these.
    ///
    /// # Errors
    /// A [`Problem`] if one of these is not possible, or something has to be completed first.
    pub async fn steer(&mut self, requests: &[Request]) -> Result<()> {
        let lands = requests.iter().any(|request| matches!(request.wish, Wish::Done { .. }));
        match self.state.half_done() {
            None => {}
            Some(HalfDone::Attempts) if !lands => {}
            Some(half) => {
                bail!(
                    Problem::refused(format!("{} of the run of '{}' was interrupted", half.words(), self.change()))
                        .hint(format!("git ralph resume {}   to complete it first", self.change()))
                )
            }
        }
        self.follow_requests(requests, Closing::Finish).await
    }
}
