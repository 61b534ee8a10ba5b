//! Closes a run by a finish or an abort. One that was cut short is completed in the same way in which it was begun.

use anyhow::{Context, Result, bail};

use super::hub_refs::HubRefs;
use super::orchestrator::above;
use super::pool::Pool;
use super::{Closing, Event, HalfDone, OpenRun, Quit};
use crate::branch::{LeaveResult, Leaving, Route};
use crate::config::Finish;
use crate::error::Problem;
use crate::git::Oid;
use crate::process::Stop;
use crate::shell_word::git_ralph;
use crate::workspace::Notice;

impl OpenRun {
    /// Completes a finish or an abort that was cut short. Returns whether there was one.
    pub async fn complete_closing(&mut self) -> Result<bool> {
        match self.state.half_done() {
            Some(HalfDone::Finish(mode)) => self.finish(mode).await?,
            Some(HalfDone::Abort) => self.abort().await?,
            Some(HalfDone::Start | HalfDone::Undo | HalfDone::Attempts) | None => return Ok(false),
        }
        Ok(true)
    }

    /// Finishes the run.
    ///
    /// # Errors
    /// A [`Problem`] if the original branch is gone, in use, or conflicts. Then nothing was touched.
    pub async fn finish(&mut self, mode: Finish) -> Result<()> {
        let way = if mode == Finish::Cleanup { "--cleanup" } else { "--keep" };
        let again = git_ralph(&format!("finish {way}"), &[self.change().as_str()]);
        let (_listening, stop) = self.listen_for_new_requests()?;
        unless_stopped(stop, self.finish_in(mode), again).await
    }

    async fn finish_in(&mut self, mode: Finish) -> Result<()> {
        let again = self.state.half_done() == Some(HalfDone::Finish(Finish::Cleanup));
        self.check_same_way(again && mode == Finish::Cleanup)?;
        if self.close_untouched().await? {
            return Ok(());
        }
        if !again {
            self.settle(Closing::Finish).await?;
        }
        match mode {
            _ if self.state.is_isolated() => self.finish_isolated(mode, again).await,
            Finish::Keep | Finish::Ask => {
                self.record(Event::FinishStarted { mode: Finish::Keep }).await?;
                self.workspace.unpin().await?;
                self.close(Event::Finished { mode: Finish::Keep, kept: None }).await
            }
            Finish::Cleanup => {
                let left = self.leave(Route::Cleanup, Event::FinishStarted { mode }, again).await?;
                self.close(Event::Finished { mode, kept: Some(left.kept) }).await
            }
        }
    }

    /// Finishes an isolated run: the result stays on the branch, or is merged into the user's checkout. The clones are removed after
    /// everything is saved.
    async fn finish_isolated(&mut self, mode: Finish, again: bool) -> Result<()> {
        let result = self.base()?.checkpoint;
        if mode != Finish::Cleanup {
            self.record(Event::FinishStarted { mode: Finish::Keep }).await?;
            self.remove_workspaces(&result).await?;
            return self.close(Event::Finished { mode: Finish::Keep, kept: None }).await;
        }
        if !again {
            self.adopt_commits().await?;
        }
        let result = self.base()?.checkpoint;
        let original = self.opening()?.original.clone();
        let since = self.state.last_checkout().cloned().context("the journal has no initial state")?;
        let plan = self.branch.plan_checkout_merge(&self.workspace, &original, &since, &result).await?;
        if !again {
            self.record(Event::FinishStarted { mode }).await?;
        }
        let kept = self.branch.keep_result(&result).await?;
        let notices = self.branch.apply_checkout_merge(&self.workspace, &plan).await?;
        self.record_notices(notices).await?;
        self.keep_tip(&result).await?;
        self.branch.drop_run_refs().await?;
        self.remove_workspaces(&result).await?;
        self.close(Event::Finished { mode, kept: Some(kept) }).await
    }

    /// Aborts an isolated run. Its work is saved under a ref. The user's checkout was never touched.
    async fn abort_isolated(&mut self, again: bool) -> Result<()> {
        let result = self.base()?.checkpoint;
        if !again {
            self.record(Event::AbortStarted {}).await?;
        }
        let kept = self.branch.keep_result(&result).await?;
        self.keep_tip(&result).await?;
        let put_back = self.branch.drop_aborted_refs(self.dir.number).await?;
        self.remove_workspaces(&result).await?;
        self.close(Event::Aborted { kept: Some(kept), moved_to: None, incomplete: false, put_back }).await
    }

    async fn keep_tip(&mut self, result: &Oid) -> Result<()> {
        let notice = self.branch.keep_tip(result).await?;
        self.record_notices(notice.into_iter().collect()).await
    }

    /// Removes the clones. Edits that the user made in them since the last attempt are saved first.
    async fn remove_workspaces(&mut self, base: &Oid) -> Result<()> {
        let Some(pool) = &self.pool else { return Ok(()) };
        let mut notices = Vec::new();
        for slot in pool.slots_there() {
            let workspace = pool.workspace(slot);
            // The user may have worked in the clone while a question waited for its answer, so this process must not rely on what it knows
            // of the clone.
            workspace.hand_over();
            let refs = self.branch.repo.refs().await?;
            notices.extend(self.branch.save_unknown(&workspace, &pool.origin, base, slot, &refs).await?);
        }
        pool.remove()?;
        for (hub, name, error) in HubRefs(&self.dir).delete_all(&self.branch.repo).await {
            let (hub, name) = (hub.url().to_string_lossy().into_owned(), name.name().to_owned());
            notices.push(Notice::LeftOnHub { hub, name, error });
        }
        self.record_notices(notices).await
    }

    /// Aborts the run.
    pub async fn abort(&mut self) -> Result<()> {
        let again = format!("git ralph abort {}", self.change());
        let (_listening, stop) = self.listen_for_new_requests()?;
        unless_stopped(stop, self.abort_all(), again).await
    }

    async fn abort_all(&mut self) -> Result<()> {
        let again = self.state.half_done() == Some(HalfDone::Abort);
        self.check_same_way(again)?;
        if self.close_untouched().await? {
            return Ok(());
        }
        if !again {
            self.settle(Closing::Abort).await?;
        }
        if self.state.is_isolated() {
            return self.abort_isolated(again).await;
        }
        let LeaveResult { kept, moved_to, put_back, notices } = self.leave(Route::Abort, Event::AbortStarted {}, again).await?;
        let incomplete = notices.iter().any(Notice::is_a_difference);
        self.close(Event::Aborted { kept: Some(kept), moved_to, incomplete, put_back }).await
    }

    /// Closes a run whose start was cut short before it touched anything. Returns whether it was such a run.
    async fn close_untouched(&mut self) -> Result<bool> {
        if self.state.half_done() != Some(HalfDone::Start) || self.has_begun().await? {
            return Ok(false);
        }
        self.pool.as_ref().map_or(Ok(()), Pool::remove)?;
        self.close(Event::Aborted { kept: None, moved_to: None, incomplete: false, put_back: None }).await?;
        Ok(true)
    }

    /// Refuses to close a run in another way than the one that was already begun.
    fn check_same_way(&self, same: bool) -> Result<()> {
        let way = match self.state.half_done() {
            Some(HalfDone::Finish(Finish::Cleanup)) if !same => "finish --cleanup",
            Some(HalfDone::Abort) if !same => "abort",
            _ => return Ok(()),
        };
        let change = self.change();
        bail!(
            Problem::refused(format!("a 'git ralph {way}' of this run was interrupted"))
                .hint(format!("git ralph resume {change}   to complete it"))
        )
    }

    async fn leave(&mut self, route: Route, intent: Event, again: bool) -> Result<LeaveResult> {
        let original = self.opening()?.original.clone();
        let initial = self.state.initial.clone().context("the journal has no initial state")?;
        let base = self.base()?;
        let leaving = Leaving { route, original: &original, initial: &initial, base: &base, again, run: self.dir.number };
        let plan = self.branch.plan_leaving(&self.workspace, &leaving).await?;
        if !again {
            self.record(intent).await?;
        }
        let left = self.branch.leave(&self.workspace, &leaving, plan).await?;
        self.record_notices(left.notices.clone()).await?;
        Ok(left)
    }
}

/// Does the work until a more urgent stop is requested than before. The command `again` then completes what is half done, as after a kill.
async fn unless_stopped(mut stop: Stop, work: impl Future<Output = Result<()>>, again: String) -> Result<()> {
    let heard = stop.urgency();
    tokio::select! {
        done = work => done,
        _ = stop.reached(above(heard)) => bail!(Quit { again }),
    }
}
