//! The steps of an isolated run: make a private clone, prepare it for an attempt, save the attempt's work, and land it from the queue.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::event::{Defeat, DefeatCause};
use super::gates::Gates;
use super::pool::Pool;
use super::step_runner::{Ground, StepRunner, Task, empty_notice};
use super::{Activity, Event, Outcome, gate};
use crate::branch::{CloneAttempt, Conflict, Gathered, LandedBefore, Saved, Signature, Stack, Stacked, Style, Waiting};
use crate::config::MergeGates;
use crate::error::Problem;
use crate::git::{GitError, Oid};
use crate::process::Exit;
use crate::safe_write;
use crate::shell_word::quoted;
use crate::story::StoryId;
use crate::workspace::{Copied, Notice, Workspace};

/// The name of the additional clone in which merges are tested.
const LANDING: &str = "landing";

impl StepRunner<'_> {
    fn pool(&self) -> Result<&Pool> {
        self.pool.context("the run is not isolated")
    }

    pub(super) fn clone_attempt<'t>(
        &'t self,
        ground: &'t Ground,
        story: &'t StoryId,
        attempt: u32,
        base: &'t Oid,
    ) -> Result<CloneAttempt<'t>> {
        Ok(CloneAttempt { workspace: &ground.workspace, origin: &self.pool()?.origin, story, attempt, base })
    }

    /// Makes the clone of a slot and sets it up. A failure ends the loop before an agent is started.
    pub(super) async fn make_workspace(&self, slot: u32, commit: &Oid) -> Result<Vec<Event>> {
        let workspace = self.pool()?.workspace(slot);
        let ground = Ground { workspace, slot };
        let (Copied { files, bytes }, saved) = self.make_clone(&ground, commit, &(slot + 1).to_string()).await?;
        let path = ground.workspace.repo.place.top.display().to_string();
        let saved = saved.map(|notice| Event::Noticed { notice });
        Ok(saved.into_iter().chain([Event::WorkspaceReady { slot, path, files, bytes }]).collect())
    }

    /// Makes a clone, unless it exists and was set up with the current settings. Returns the number of ignored files that were copied.
    /// Unknown work that was in its place is saved.
    async fn make_clone(&self, ground: &Ground, commit: &Oid, name: &str) -> Result<(Copied, Option<Notice>)> {
        let (pool, workspace) = (self.pool()?, &ground.workspace);
        pool.claim()?;
        let patterns = &self.settings.workspace_include.value;
        let recipe = Workspace::recipe(&pool.origin, patterns, &self.settings.setup.value);
        if workspace.is_ready(&recipe) {
            return Ok((Copied::default(), None));
        }
        let refs = self.branch.repo.refs().await?;
        let saved = self.branch.save_unknown(workspace, &pool.origin, commit, ground.slot, &refs).await?;
        let is_new = workspace.last_tree().is_none() && !workspace.is_strange();
        let copied = workspace.make(&pool.origin, commit, &refs, patterns).await?;
        pool.note_made(ground.slot);
        for (number, command) in self.settings.setup.value.iter().enumerate() {
            self.set_up(ground, name, number, command).await?;
        }
        // A new checkout has no ignored files except those that were just put into it.
        let has_ignored = !is_new || copied.files > 0 || !self.settings.setup.value.is_empty();
        workspace.note_ready(&recipe, has_ignored).await?;
        Ok((copied, saved))
    }

    async fn set_up(&self, ground: &Ground, name: &str, number: usize, command: &str) -> Result<()> {
        let below = Path::new("workspaces").join(name);
        let dir = safe_write::real_dirs(self.run.path(), &below).with_context(|| format!("cannot create {}", below.display()))?;
        let log = dir.join(format!("setup-{}", number + 1));
        let top = &ground.workspace.repo.place.top;
        let launch = self.setup_program(ground, command);
        self.reporter.activity(&Activity::SettingUp { workspace: name, command });
        let mut stop = self.stop.clone();
        let ran = gate::run(&launch, self.settings.verify_timeout.value, self.settings.grace.value, &mut stop, &log).await?;
        if ran.passed() {
            return Ok(());
        }
        let resume = format!("git ralph resume {}   when it is fixed; no retry was used", self.run.change);
        match &ran.ran.exit {
            Exit::Interrupted => bail!(super::Quit::of_loop()),
            Exit::Lost { message } | Exit::NotStarted { message } => {
                bail!(Problem::fatal(format!("the runner did not run the setup command '{command}' to its end: {message}")).hint(resume))
            }
            _ => {}
        }
        let last: Vec<&str> = ran.output.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect();
        bail!(
            Problem::fatal(format!("the setup command '{command}' failed in {}:\n{}", top.display(), last.join("\n")))
                .hint(format!("cat {}   for all of its output", quoted(&log.display().to_string())))
                .hint(resume)
        )
    }

    /// Checks out the base of an attempt in the clone. Files that were changed there since the last attempt are saved.
    pub(super) async fn ready_clone(&self, ground: &Ground, base: &Oid) -> Result<Vec<Notice>> {
        let (pool, workspace) = (self.pool()?, &ground.workspace);
        pool.claim()?;
        let refs = self.branch.repo.refs().await?;
        let mut notices = Vec::new();
        notices.extend(self.branch.save_unknown(workspace, &pool.origin, base, ground.slot, &refs).await?);
        match workspace.prepare(&pool.origin, base, &refs).await {
            Ok(more) => notices.extend(more),
            // A process has changed the files since the check above. Check and save them again.
            Err(error) if GitError::is_answer(&error) => {
                workspace.hand_over();
                notices.extend(self.branch.save_unknown(workspace, &pool.origin, base, ground.slot, &refs).await?);
                notices.extend(workspace.prepare(&pool.origin, base, &refs).await?);
            }
            Err(error) => return Err(error),
        }
        workspace.hand_over();
        Ok(notices)
    }

    /// Prepares what the gates see of an attempt that promised: its work on top of its base.
    pub(super) async fn gather_in_clone(&self, ground: &Ground, story: &StoryId, attempt: u32, base: &Oid) -> Result<Gathered> {
        self.branch.gather_in_clone(self.clone_attempt(ground, story, attempt, base)?).await
    }

    /// Saves the work of an accepted attempt. Its clone is then free for another attempt.
    pub(super) async fn queue(&self, task: &Task, story: &StoryId, attempt: u32, ground: &Ground) -> Result<Vec<Event>> {
        let style = Style {
            // The commit of the checkpoint gets the real message.
            message: String::new(),
            signature: Signature::None,
            on_empty: self.on_empty(&task.progress),
            marked: self.marks_in_clone(ground, story, attempt)?,
        };
        let base = &task.base.checkpoint;
        Ok(match self.branch.queue(self.clone_attempt(ground, story, attempt, base)?, &style).await? {
            Saved::Queued { commit, changes, empty, mut notices } => {
                self.pool()?.note_proved(ground.slot);
                notices.extend(empty.then(|| empty_notice(story, &task.progress)));
                notices.extend(self.changed_gate_files(ground, story, &task.gates, &changes).await?);
                let mut events: Vec<Event> = notices.into_iter().map(|notice| Event::Noticed { notice }).collect();
                events.push(Event::AttemptQueued { story: story.clone(), attempt, commit, files: changes.len() });
                events
            }
            Saved::Impossible(reason) => {
                vec![Event::AttemptRejected { story: story.clone(), attempt, outcome: Outcome::Unlandable { reason } }]
            }
        })
    }

    /// Saves the work of a failed attempt, or takes a queued attempt out of the queue.
    pub(super) async fn roll_back_clone(&self, task: &Task, story: &StoryId, attempt: u32, ground: &Ground) -> Result<Vec<Event>> {
        if let Some(commit) = task.progress.queued() {
            let (rescue, files) = self.branch.take_out_of_queue(story, attempt, commit).await?;
            return Ok(vec![Event::AttemptRolledBack { story: story.clone(), attempt, rescue, files }]);
        }
        self.pool()?.claim()?;
        let brought = self.collect_cut_short(ground, story, attempt, &task.base.checkpoint).await?;
        let saved = self.branch.save_failed(self.clone_attempt(ground, story, attempt, &task.base.checkpoint)?).await?;
        if matches!(task.progress.outcome, Some(Outcome::GateFailed { .. })) {
            self.report_not_copied(ground).await?;
        }
        let notices = saved.notices.into_iter().map(|notice| Event::Noticed { notice });
        let mut events: Vec<Event> = brought.into_iter().chain(notices).collect();
        events.push(Event::AttemptRolledBack { story: story.clone(), attempt, rescue: saved.rescue, files: saved.files });
        Ok(events)
    }

    /// Reports the ignored files that were not copied into a new clone. A gate that fails there may need one of them, such as an installed
    /// dependency.
    async fn report_not_copied(&self, ground: &Ground) -> Result<()> {
        let pool = self.pool()?;
        if !pool.take_unproved(ground.slot) {
            return Ok(());
        }
        let paths = ground.workspace.missing_ignored(&pool.origin).await?;
        if !paths.is_empty() {
            self.reporter.activity(&Activity::NotCopied { paths: &paths });
        }
        Ok(())
    }

    /// Lands queued attempts on top of the branch. If that needs a merge, the gates run on the merged tree first, unless the settings allow
    /// to skip them.
    pub(super) async fn land_queued(&self, task: &Task) -> Result<Vec<Event>> {
        let tip = &task.base.checkpoint;
        let signature = if self.settings.sign.value { Signature::Users } else { Signature::None };
        let mark = async |story: &StoryId, before: &Oid, tree: &Oid| self.marked_tree(story, before, tree).await;
        let waiting: Vec<Waiting> = task.waiting.iter().map(|(waiting, _)| waiting.clone()).collect();
        match self.branch.stack(waiting, tip, signature, mark).await? {
            Stack::Landed(landed) => Ok(landed.into_iter().map(landed_event).collect()),
            Stack::Adopted(checkpoint) => Ok(vec![Event::CommitsAdopted { checkpoint }]),
            Stack::Conflict(conflict) => {
                let Conflict { paths, hunks } = *conflict;
                self.beaten(task, tip, DefeatCause::Conflict { paths, hunks }).await
            }
            Stack::Ready(stacked) => self.land_stack(task, stacked, tip).await,
        }
    }

    async fn land_stack(&self, task: &Task, stacked: Vec<Stacked>, tip: &Oid) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        if self.must_be_gated(&stacked, tip).await?
            && let Some(last) = stacked.last()
        {
            let gates = task.gates_of(&stacked);
            let (gated, failed) = self.gate_merge(&last.commit, &stacked, &gates).await?;
            events.extend(gated);
            match failed {
                None => {}
                Some(Outcome::Interrupted) => return Ok(events),
                // The attempts stay queued, because the failure says nothing about their changes.
                Some(Outcome::Lost { message } | Outcome::NotStarted { message }) => {
                    bail!(
                        Problem::fatal(format!("the runner did not run a gate of the landing queue to its end: {message}"))
                            .hint(format!("git ralph resume {}   when the runner works again; no retry was used", self.run.change))
                    )
                }
                Some(outcome) => {
                    let (command, output) = match outcome {
                        Outcome::GateFailed { command, output, .. } => (command, output),
                        other => (format!("{other:?}"), String::new()),
                    };
                    if stacked.len() > 1 {
                        let stories = stacked.iter().map(|it| it.waiting.story.id.clone()).collect();
                        events.push(Event::BatchFailed { stories, command });
                    } else {
                        events.extend(self.beaten(task, tip, DefeatCause::Gate { command, output }).await?);
                    }
                    return Ok(events);
                }
            }
        }
        if !self.branch.land_stack(&stacked, tip).await? {
            // The branch has moved. The next landing handles that.
            return Ok(events);
        }
        events.extend(stacked.into_iter().map(|it| Event::CheckpointLanded {
            story: it.waiting.story.id,
            attempt: it.waiting.attempt,
            commit: it.commit,
            files: it.files,
        }));
        Ok(events)
    }

    async fn must_be_gated(&self, stacked: &[Stacked], tip: &Oid) -> Result<bool> {
        if !stacked.iter().any(|it| it.merged) {
            return Ok(false);
        }
        if self.settings.merge_gates.value == MergeGates::Always {
            return Ok(true);
        }
        for it in stacked.iter().filter(|it| it.merged) {
            if self.branch.overlaps(&it.waiting, tip).await? {
                return Ok(true);
            }
        }
        // Attempts that land together may overlap with each other.
        Ok(stacked.len() > 1)
    }

    /// Runs gates on a commit, in the clone for landings.
    async fn gate_merge(&self, commit: &Oid, stacked: &[Stacked], gates: &Gates) -> Result<(Vec<Event>, Option<Outcome>)> {
        let Some(Stacked { waiting: first, .. }) = stacked.first().filter(|_| !gates.is_empty()) else {
            return Ok((Vec::new(), None));
        };
        let ground = Ground { workspace: self.pool()?.landing(), slot: self.jobs };
        let (_, saved) = self.make_clone(&ground, commit, LANDING).await?;
        // Agents are running in other clones and may have written to this one. The gates must see exactly the files that land.
        ground.workspace.hand_over();
        let mut notices = self.ready_clone(&ground, commit).await?;
        notices.extend(saved);
        let stories: Vec<StoryId> = stacked.iter().map(|it| it.waiting.story.id.clone()).collect();
        self.reporter.activity(&Activity::Landing { stories: &stories });
        let ran = self.run_gates(&ground, &first.story, first.attempt, gates, "merge-").await;
        // Files that gates wrote do not land, and the next merge must not see them.
        ground.workspace.snapshot_of_work(commit, LANDING, &mut Vec::new()).await?;
        let (gated, outcome) = ran?;
        let notices = notices.into_iter().map(|notice| Event::Noticed { notice });
        Ok((notices.chain(gated).collect(), outcome))
    }

    /// Records that the first attempt of a batch cannot land. Its story is attempted again from the current tip.
    async fn beaten(&self, task: &Task, tip: &Oid, cause: DefeatCause) -> Result<Vec<Event>> {
        let Some((first, _)) = task.waiting.first() else { return Ok(Vec::new()) };
        let (story, attempt) = (first.story.id.clone(), first.attempt);
        let (kept, _) = self.branch.take_out_of_queue(&story, attempt, &first.commit).await?;
        Ok(vec![Event::AttemptBeaten { story, attempt, defeat: Defeat { tip: tip.clone(), cause }, kept }])
    }
}

fn landed_event(landed: LandedBefore) -> Event {
    let LandedBefore { story, attempt, commit, files } = landed;
    Event::CheckpointLanded { story, attempt, commit, files }
}
