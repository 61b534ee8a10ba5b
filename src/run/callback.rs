//! Runs the user's commands `ralph.onStory` and `ralph.onFinish` when a story or the loop ends. Their failure does not affect the run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;

use super::{Event, Record, abnormal};
use crate::process::{Exit, Program, Stop, Urgency, capture};

/// The environment variable with the path of the report page, for `ralph.onFinish`.
const PAGE: &str = "RALPH_REPORT";

/// The loop waits for the commands, but not longer than this.
const LIMIT: Duration = Duration::from_secs(60);

/// Writes the report page of a run whose loop has ended, before `ralph.onFinish` is called. Returns the path of the page.
pub type PageMaker = Rc<dyn Fn() -> LocalBoxFuture<'static, Option<PathBuf>>>;

/// The user's commands.
#[derive(Clone)]
pub struct Callbacks {
    /// `ralph.onStory`.
    pub on_story: Option<String>,
    /// `ralph.onFinish`.
    pub on_finish: Option<String>,
    /// Writes the report page, if the user wants one.
    pub page: Option<PageMaker>,
    /// The complete environment of the commands.
    pub env: Vec<(OsString, OsString)>,
    /// The top of the work tree.
    pub cwd: PathBuf,
    /// A request to stop, which also ends the wait for a command.
    pub stop: Stop,
}

/// A command that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The command.
    pub command: String,
    /// How it failed.
    pub why: String,
}

impl Callbacks {
    /// The command to call for an event.
    fn about(&self, event: &Event) -> Option<&String> {
        match event {
            Event::CheckpointLanded { .. } | Event::StoryFailed { .. } => self.on_story.as_ref(),
            Event::LoopEnded { .. } => self.on_finish.as_ref(),
            Event::RunStarting { .. }
            | Event::LeftoverKept { .. }
            | Event::RunStarted { .. }
            | Event::RunResumed {}
            | Event::CommitsAdopted { .. }
            | Event::EditsAdopted { .. }
            | Event::IdentityMissing {}
            | Event::SourceUnreadable { .. }
            | Event::SourceRead { .. }
            | Event::SourcePutBack { .. }
            | Event::StoriesChanged { .. }
            | Event::StrayMarks { .. }
            | Event::MarksNotSet { .. }
            | Event::AttemptStarted { .. }
            | Event::AgentEnded { .. }
            | Event::UsageFound { .. }
            | Event::GateEnded { .. }
            | Event::WorkspaceReady { .. }
            | Event::AttemptAccepted { .. }
            | Event::AttemptQueued { .. }
            | Event::BatchFailed { .. }
            | Event::AttemptBeaten { .. }
            | Event::AttemptRejected { .. }
            | Event::AttemptRolledBack { .. }
            | Event::UndoStarted { .. }
            | Event::Undone { .. }
            | Event::Noticed { .. }
            | Event::PauseStarted { .. }
            | Event::PauseEnded { .. }
            | Event::HintGiven { .. }
            | Event::StorySkipped { .. }
            | Event::StoryRetried { .. }
            | Event::DoneByHand { .. }
            | Event::ChangeEdited { .. }
            | Event::RequestRefused { .. }
            | Event::StopRequested { .. }
            | Event::LoopStarted { .. }
            | Event::FinishStarted { .. }
            | Event::Finished { .. }
            | Event::AbortStarted {}
            | Event::Aborted { .. } => None,
        }
    }

    /// Calls the command for an event, if there is one, with the event as JSON on its standard input.
    pub async fn tell(&self, record: &Record) -> Option<Failure> {
        let page = match &self.page {
            Some(make) if matches!(record.event, Event::LoopEnded { .. }) => make().await,
            _ => None,
        };
        let command = self.about(&record.event)?;
        let mut event = serde_json::to_value(record).ok()?;
        let mut env = self.env.clone();
        if let Some(page) = page {
            event["report"] = page.display().to_string().into();
            env.push((PAGE.into(), page.into()));
        }
        let json = format!("{event}\n");
        let program = Program { program: "sh".into(), args: vec!["-c".into(), command.into()], env, cwd: self.cwd.clone() };
        let mut stop = self.stop.clone();
        // A user who stops the loop does not want to wait for the command. But the command for the end of the loop is still awaited.
        let patience = if matches!(record.event, Event::LoopEnded { .. }) { Urgency::Quit } else { Urgency::Interrupt };
        let ran = tokio::select! {
            ran = capture(&program, Some(json.as_bytes()), Some(LIMIT)) => ran,
            _ = stop.reached(patience) => return None,
        };
        let why = match ran {
            Ok(ran) if ran.exit == Exit::Success => return None,
            Ok(ran) => {
                let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
                let ended = match ran.exit {
                    Exit::Code { code } => format!("ended with exit status {code}"),
                    Exit::TimedOut { seconds } => format!("did not end within {seconds} s"),
                    other => abnormal(&other),
                };
                if said.is_empty() { ended } else { format!("{ended}: {said}") }
            }
            Err(error) => format!("cannot be started: {error}"),
        };
        Some(Failure { command: command.clone(), why })
    }
}
