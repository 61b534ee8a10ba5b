//! Commands of the user's that are told of the end of a story or of the loop; what becomes of them changes nothing about the run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;

use super::{Event, Record, abnormal};
use crate::process::{Exit, Program, Stop, Urgency, capture};

/// Where the command of `ralph.onFinish` finds the path of the page.
const PAGE: &str = "RALPH_REPORT";

/// The loop waits for them, but not for long.
const LIMIT: Duration = Duration::from_secs(60);

/// Makes the page of a run whose loop has ended, before the user's command is told of the end; gives the path of the page.
pub type PageMaker = Rc<dyn Fn() -> LocalBoxFuture<'static, Option<PathBuf>>>;

/// What the user wants to be called with an event.
#[derive(Clone)]
pub struct Callbacks {
    /// `ralph.onStory`.
    pub on_story: Option<String>,
    /// `ralph.onFinish`.
    pub on_finish: Option<String>,
    /// What makes the page of the run, if the user wants one.
    pub page: Option<PageMaker>,
    /// Their whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The top of the work tree.
    pub cwd: PathBuf,
    /// Who may ask not to wait for them.
    pub stop: Stop,
}

/// A command that was called and did not do well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The command.
    pub command: String,
    /// What became of it.
    pub why: String,
}

impl Callbacks {
    /// The command that wants to know of an event.
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

    /// Tells whoever wants to know of an event, as JSON on standard input.
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
        // A user who stops the loop does not want to wait for it; the end of the loop is reported all the same.
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
