//! Attempts on another machine: pushes the base to the hub before the agent starts, and fetches the result from the hub afterwards.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::{Instant, sleep};

use super::Event;
use super::child_program::MARK;
use super::hub_refs::{HubRefs, for_hub, push_to};
use super::step_runner::{Ground, StepRunner};
use crate::agent::{Agent, Learnings};
use crate::git::Oid;
use crate::process::{Exit, Program};
use crate::remote::{Assignment, Hub, HubRef, RemoteResult, WorkerRunner};
use crate::runner::{Launch, Runner};
use crate::story::{Story, StoryId};
use crate::workspace::Notice;

/// How long to wait for a result if the worker has ended normally.
const DUE: Duration = Duration::from_secs(60);
/// How long to wait for the result after the connection to a worker broke, in addition to the grace period of its agent.
const LATE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(500);
/// The name of the learnings file in the prompt. Only the worker knows the path.
const LEARNINGS: &str = "$RALPH_LEARNINGS";

/// An attempt whose agent works on another machine.
pub(super) struct RemoteAttempt {
    hub: Hub,
    base: Oid,
    base_ref: HubRef,
    result: HubRef,
    /// The mark that the result must carry.
    token: String,
}

/// A result that was brought into the clone.
pub(super) struct Brought {
    /// The worker's report.
    pub result: RemoteResult,
    /// Files that had to be moved.
    notices: Vec<Notice>,
}

impl StepRunner<'_> {
    /// The attempt on another machine, if the runner starts a worker.
    pub(super) fn remote_attempt(&self, runner: &Runner, story: &Story, attempt: u32, base: &Oid) -> Result<Option<RemoteAttempt>> {
        let Some(worker) = WorkerRunner::of(runner.words())? else { return Ok(None) };
        self.attempt_on(worker.hub, &story.id, attempt, base).map(Some)
    }

    fn attempt_on(&self, hub: Hub, story: &StoryId, attempt: u32, base: &Oid) -> Result<RemoteAttempt> {
        let names = &self.branch.names;
        let (base_ref, result) = (names.remote_base(story, attempt).parse()?, names.remote_result(story, attempt).parse()?);
        let token = self.mark(story, attempt);
        Ok(RemoteAttempt { hub, base: base.clone(), base_ref, result, token })
    }

    /// The worker of an attempt behind its runner, and its standard input: the learnings, then the prompt.
    pub(super) async fn worker(
        &self,
        remote: &RemoteAttempt,
        ground: &Ground,
        task: (&Story, u32),
        (agent, runner): (&Agent, &Runner),
        (learnings, prompt): (&Learnings, &str),
    ) -> Result<(Launch, Vec<u8>)> {
        let (story, attempt) = task;
        let Program { program, args, env: own, .. } = agent.program(Vec::new(), Path::new(""));
        let words: Vec<OsString> = [program].into_iter().chain(args).collect();
        let given = [
            ("RALPH_CHANGE", self.run.change.as_str().into()),
            ("RALPH_STORY", story.id.as_str().into()),
            ("RALPH_ATTEMPT", attempt.to_string().into()),
            ("RALPH_SLOT", ground.slot.to_string().into()),
            (MARK, OsString::from(&remote.token)),
        ];
        let env: Vec<(OsString, OsString)> = given.into_iter().map(|(name, value)| (name.into(), value)).chain(own).collect();
        let author = self.branch.repo.git.call(["var", "GIT_AUTHOR_IDENT"]).line().await?;
        let identity = author.rsplit_once('>').map(|(name, _)| format!("{name}>")).unwrap_or_default();
        let launch = self.behind_worker(ground, story, attempt, runner, |report| {
            let assignment = Assignment {
                base: &remote.base,
                base_ref: &remote.base_ref,
                result: &remote.result,
                grace: self.settings.grace.value,
                env: &env,
                setup: &self.settings.setup.value,
                identity: &identity,
                learnings_bytes: learnings.text.len(),
                prompt_bytes: prompt.len(),
                report,
                agent: &words,
            };
            assignment.words()
        });
        Ok((launch, [learnings.text.as_bytes(), prompt.as_bytes()].concat()))
    }

    /// Pushes the base of an attempt on another machine to the hub. The refs are recorded first.
    pub(super) async fn send_ahead(&self, remote: Option<&RemoteAttempt>) -> Result<()> {
        let Some(remote) = remote else { return Ok(()) };
        HubRefs(self.run).note(&remote.hub, &[&remote.base_ref, &remote.result])?;
        let refspec = format!("+{}:{}", remote.base, remote.base_ref.name());
        let call = for_hub(&self.branch.repo).call(push_to(&remote.hub).into_iter().chain([refspec.into()]));
        call.working().output().await.map(drop).context("cannot push to the hub")
    }

    /// Brings the result of an attempt into its clone, and deletes the refs on the hub. Returns how the agent ended. `exit` is how the
    /// runner ended, and `heard` is how many bytes of the agent's output have arrived.
    pub(super) async fn collect(
        &self,
        remote: &RemoteAttempt,
        ground: &Ground,
        story: &StoryId,
        exit: Exit,
        heard: u64,
    ) -> Result<(Exit, Vec<Event>)> {
        let patience = match exit {
            Exit::NotStarted { .. } => Duration::ZERO,
            Exit::Success | Exit::Code { .. } | Exit::Lingered => DUE,
            _ => self.settings.grace.value + LATE,
        };
        let brought = self.bring_result(remote, ground, patience).await;
        HubRefs(self.run).note_done(&remote.result)?;
        let mut events = self.clear_hub(remote).await;
        let exit = match brought {
            Ok(Brought { result, notices }) => {
                self.add_learnings(&result.learnings)?;
                let warnings = result.warnings.iter().map(|warning| Notice::FromWorker { story: story.clone(), warning: warning.clone() });
                events.extend(notices.into_iter().chain(warnings).map(|notice| Event::Noticed { notice }));
                how_it_ended(exit, Ok(&result), heard)
            }
            Err(error) => how_it_ended(exit, Err(&format!("{error:#}")), heard),
        };
        Ok((exit, events))
    }

    /// Brings the result of an attempt that was cut short into its clone, so that it is saved with the clone.
    pub(super) async fn collect_cut_short(&self, ground: &Ground, story: &StoryId, attempt: u32, base: &Oid) -> Result<Vec<Event>> {
        let result: HubRef = self.branch.names.remote_result(story, attempt).parse()?;
        let Some(hub) = HubRefs(self.run).wanted_from(&result) else { return Ok(Vec::new()) };
        let remote = self.attempt_on(hub, story, attempt, base)?;
        let mut notices = self.ready_clone(ground, base).await?;
        // If the result does not arrive, nothing more can be done.
        if let Ok(brought) = self.bring_result(&remote, ground, self.settings.grace.value + LATE).await {
            notices.extend(brought.notices);
            self.add_learnings(&brought.result.learnings)?;
        }
        HubRefs(self.run).note_done(&remote.result)?;
        let cleared = self.clear_hub(&remote).await;
        Ok(notices.into_iter().map(|notice| Event::Noticed { notice }).chain(cleared).collect())
    }

    /// Waits for the result and updates the clone to it.
    async fn bring_result(&self, remote: &RemoteAttempt, ground: &Ground, patience: Duration) -> Result<Brought> {
        let deadline = Instant::now() + patience;
        let mut quit = self.stop.clone();
        let commit = loop {
            match self.fetch_result(remote).await {
                Ok(commit) => break commit,
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => {}
            }
            tokio::select! {
                () = sleep(POLL) => {}
                _ = quit.reached(crate::process::Urgency::Quit) => bail!("interrupted"),
            }
        };
        let repo = &self.branch.repo;
        let read = RemoteResult::read(&repo.message(&commit).await?).filter(|result| result.token == remote.token);
        let result = read.context("the ref on the hub is not a result of this attempt")?;
        let origin = &self.pool.context("the run is not isolated")?.origin;
        let notices = ground.workspace.bring(origin, &remote.base, &commit, &result).await?;
        Ok(Brought { result, notices })
    }

    /// Fetches the result. No ref in the user's repository keeps it, because the clone will.
    async fn fetch_result(&self, remote: &RemoteAttempt) -> Result<Oid> {
        let (repo, name) = (&self.branch.repo, remote.result.name());
        let words = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--recurse-submodules=no", "--"];
        let words = words.map(OsString::from).into_iter().chain([remote.hub.url().to_owned(), format!("+{name}:{name}").into()]);
        for_hub(repo).call(words).working().output().await.context("the result has not arrived")?;
        let commit = repo.refs().await?.get(name).cloned().context("the result has not arrived")?;
        repo.git.call(["update-ref", "-d", name, commit.as_str()]).output().await?;
        Ok(commit)
    }

    /// Deletes the attempt's refs on the hub. If the hub cannot be reached, this is tried again when the run is closed.
    async fn clear_hub(&self, remote: &RemoteAttempt) -> Vec<Event> {
        let deleted = HubRefs(self.run).delete(&self.branch.repo, &remote.hub, &[&remote.base_ref, &remote.result]).await;
        let left = deleted.err().map(|error| Notice::LeftOnHub {
            hub: remote.hub.url().to_string_lossy().into_owned(),
            name: remote.base_ref.name().to_owned(),
            error: format!("{error:#}"),
        });
        left.into_iter().map(|notice| Event::Noticed { notice }).collect()
    }

    /// Appends what an agent has learned on another machine to the learnings file.
    fn add_learnings(&self, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let path = self.run.learnings();
        let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The learnings as they are named in a prompt for another machine.
pub(super) fn elsewhere(learnings: Learnings) -> Learnings {
    Learnings { file: LEARNINGS.to_owned(), ..learnings }
}

/// How an agent on another machine ended, given how its runner ended, the pushed result, and how many bytes of its output have arrived. If
/// git-ralph ended the agent itself, the runner's end counts. Otherwise the result decides, because the connection may break after
/// everything is done.
fn how_it_ended(runner: Exit, result: Result<&RemoteResult, &str>, heard: u64) -> Exit {
    match (runner, result) {
        (exit @ (Exit::TimedOut { .. } | Exit::Stalled { .. } | Exit::Interrupted), _) | (exit @ Exit::Lingered, Ok(_)) => exit,
        (_, Ok(result)) if result.stdout == heard && result.exit != Exit::Interrupted => result.exit.clone(),
        (exit @ (Exit::Lost { .. } | Exit::NotStarted { .. } | Exit::CouldNotStart { .. }), _) => exit,
        (_, Ok(_)) => Exit::Lost { message: "the connection to the worker ended before all of the agent's output had arrived".to_owned() },
        (_, Err(why)) => Exit::Lost { message: why.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_whole_counts_however_the_connection_ended() {
        let pushed = |exit: Exit| RemoteResult {
            token: String::new(),
            exit,
            stdout: 5,
            head: None,
            others: Vec::new(),
            staged: None,
            learnings: String::new(),
            survivors: Vec::new(),
            warnings: Vec::new(),
        };
        let (done, failed, cut) = (pushed(Exit::Success), pushed(Exit::Code { code: 3 }), pushed(Exit::Interrupted));
        let lost = || Exit::Lost { message: "broken".into() };
        let is_lost = |exit: Exit| matches!(exit, Exit::Lost { .. });
        assert_eq!(how_it_ended(Exit::Success, Ok(&done), 5), Exit::Success);
        assert_eq!(how_it_ended(lost(), Ok(&done), 5), Exit::Success);
        assert_eq!(how_it_ended(Exit::Code { code: 255 }, Ok(&failed), 5), Exit::Code { code: 3 });
        assert_eq!(how_it_ended(lost(), Ok(&done), 4), lost());
        assert_eq!(how_it_ended(lost(), Ok(&cut), 5), lost());
        assert!(is_lost(how_it_ended(Exit::Success, Ok(&done), 4)));
        assert!(is_lost(how_it_ended(Exit::Success, Err("gone"), 5)));
        assert!(is_lost(how_it_ended(Exit::Lingered, Err("gone"), 5)));
        assert_eq!(how_it_ended(Exit::Lingered, Ok(&cut), 5), Exit::Lingered);
        for exit in [Exit::Interrupted, Exit::TimedOut { seconds: 1 }, Exit::Stalled { seconds: 1 }] {
            assert_eq!(how_it_ended(exit.clone(), Ok(&done), 5), exit);
        }
    }
}
