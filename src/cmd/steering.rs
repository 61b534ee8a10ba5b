//! The code that `hint`, `skip`, `retry` and `done` share: they leave a request for the running loop, or follow it at once without a loop.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use super::context::Context;
use super::session::{brief, take_up};
use crate::config::{Advice, Environment};
use crate::error::{ExitStatus, Problem};
use crate::process::is_below;
use crate::report::{Line, Tone, output, wish_words};
use crate::run::{Answer, Inbox, Request, RunDir, RunState, Wish, request_problem};
use crate::story::{Story, StoryId};

/// A run and its context, for a request.
pub struct Steering {
    context: Context,
    run: RunDir,
    /// The state of the run.
    pub state: RunState,
    quiet: bool,
}

impl Steering {
    /// Finds the run.
    pub async fn open(environment: Environment, change: Option<&str>, quiet: bool) -> Result<Self> {
        let context = Context::open_to_work(environment).await?;
        let with_option = |error: anyhow::Error| match error.downcast::<Problem>() {
            Ok(problem) => problem.by_option("--change").into(),
            Err(error) => error,
        };
        let (run, state) = context.open_run(change).map_err(with_option)?;
        Ok(Steering { context, run, state, quiet })
    }

    /// Finds the story that the user named.
    pub fn story(&self, text: &str) -> Result<StoryId> {
        self.context.story(&self.run, &self.state, text)
    }

    /// The error if the user has to name a story.
    pub fn name_a_story(&self, why: &str, command: &str, stories: &[StoryId]) -> Problem {
        let hints = stories.iter().map(|story| self.command(command, story));
        hints.fold(Problem::usage(format!("which story? {why}")), Problem::hint).hint(self.status())
    }

    /// The command that shows the state of the run.
    pub fn status(&self) -> String {
        format!("git ralph status {}", self.run.change)
    }

    fn command(&self, command: &str, story: &StoryId) -> String {
        format!("git ralph {command} --change {} {}", self.run.change, crate::shell_word::quoted(story.as_str()))
    }

    /// Makes requests of the run.
    pub async fn ask(self, wishes: Vec<Wish>) -> Result<ExitStatus> {
        let Steering { context, run, state, quiet } = self;
        let requests: Vec<Request> = wishes.into_iter().map(Request::new).collect();
        let stories = context.changes.stories(&run, &state);
        let owner = context.store.owner(&state);
        if let Some(owner) = owner.filter(|owner| is_below(*owner)) {
            bail!(
                Problem::refused(format!(
                    "process {owner}, which works on the run of '{}', accepts no requests from processes that it has started",
                    run.change
                ))
                .hint(format!("git ralph status {}", run.change))
            );
        }
        for request in &requests {
            let answer = state.answer(request, &stories);
            // Without a loop, an attempt in progress was interrupted, which is handled when the run is taken up.
            let holds = owner.is_some() || !matches!(answer, Answer::Occupied { .. });
            if let Some(problem) = request_problem(&answer, &request.wish, &run.change).filter(|_| holds) {
                bail!(problem);
            }
        }
        if let Some(owner) = owner {
            let left = leave(&requests, &run, &state, owner)?;
            if context.store.owner(&state).is_some() || !left.iter().any(|file| file.exists()) {
                if !quiet {
                    requests.iter().for_each(|request| say_left(request, owner));
                }
                return Ok(ExitStatus::Done);
            }
            // The loop ended before it read the request, so it is carried out here.
        }
        let change = run.change.clone();
        let mut open = take_up(&context, run, &state, brief(quiet)).await?;
        open.steer(&requests).await?;
        if !quiet {
            let left_out = open.state.left_out(&stories);
            let is_open = |story: &Story| !open.state.is_done(story) && !left_out.contains(&story.id);
            let next = if stories.iter().any(is_open) { "resume" } else { "finish" };
            output::advise(Advice::NextStep, &[format!("git ralph {next} {change}")]);
        }
        Ok(ExitStatus::Done)
    }
}

fn leave(requests: &[Request], run: &RunDir, state: &RunState, owner: u32) -> Result<Vec<PathBuf>> {
    let Some(inbox) = Inbox::of(run, state) else {
        bail!(
            Problem::refused("the running loop cannot accept requests: it has no state directory (XDG_STATE_HOME or HOME)")
                .hint(format!("git ralph stop {}   and type the command again when it has stopped", run.change))
        );
    };
    if !inbox.is_attended_by(owner) {
        bail!(
            Problem::refused(format!("process {owner} works on the run of '{}', but it does not accept requests", run.change))
                .hint(format!("git ralph status {}   and type the command again when the process has ended", run.change))
        );
    }
    requests.iter().map(|request| inbox.leave(request).context("cannot leave the request for the loop")).collect()
}

fn say_left(request: &Request, owner: u32) {
    output::message(&Line::new(Tone::Plain, format!("asked process {owner} {}", wish_words(&request.wish))));
}
