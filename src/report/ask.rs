//! Asks the user questions; no other code does. Every question runs off the runtime, and always leaves the cursor visible.

use std::io;
use std::time::Duration;

use anyhow::Result;
use console::Term;
use dialoguer::Confirm;
use dialoguer::theme::ColorfulTheme;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::block::Size;
use super::cells::width;
use super::menu::Menu;
use super::{Line, Tone, output};
use crate::config::Finish;
use crate::process::Suspension;

/// How long to wait for Ctrl-C to arrive as an answer.
const ANSWER: Duration = Duration::from_millis(300);
/// The width that dialoguer adds to a question: its marks, `(y/n)` and the answer.
const CONFIRM_MARGIN: usize = 16;

/// The answer to a question that the user can leave open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// One of the choices.
    Chosen(T),
    /// Escape, or the choice to decide later.
    Later,
    /// Ctrl-C.
    Interrupted,
}

/// What to do with a run that is already open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenRun {
    /// Continue it.
    Resume,
    /// Keep its work under refs and start over.
    Restart,
}

/// What each way to finish a run does.
pub struct Choices {
    cleanup: String,
    keep: String,
}

impl Choices {
    /// For a run in the user's checkout.
    #[must_use]
    pub fn in_place(branch: &str, original: &str) -> Self {
        Choices {
            cleanup: format!("cleanup  back to {original}, all changes uncommitted; delete {branch}"),
            keep: format!("keep     stay on {branch} with its checkpoints; {original} is not changed"),
        }
    }

    /// For a run in private clones.
    #[must_use]
    pub fn isolated(branch: &str) -> Self {
        Choices {
            cleanup: format!("cleanup  merge the result into this checkout, uncommitted; delete {branch}"),
            keep: format!("keep     leave the result on {branch}; this checkout is not changed"),
        }
    }
}

/// The preselected answer to the question how to finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likely {
    /// Cleanup, because every story is done.
    Cleanup,
    /// Later, because there is more to do.
    Later,
}

/// Asks how to finish a run.
pub async fn completion(prompt: String, choices: Choices, likely: Likely) -> Result<Answer<Finish>> {
    let items = vec![choices.cleanup, choices.keep, "later    leave the run open; continue with git ralph resume".to_owned()];
    let first = match likely {
        Likely::Cleanup => 0,
        Likely::Later => 2,
    };
    let answer = select_from(first, prompt, items).await?;
    Ok(answer.map_to(&[Some(Finish::Cleanup), Some(Finish::Keep), None]))
}

/// Asks what to do with an open run.
pub async fn open_run(change: &str) -> Result<Answer<OpenRun>> {
    let items = vec![
        "resume      continue where it stopped".to_owned(),
        "start over  set the old run aside (under refs/ralph/) and begin again".to_owned(),
        "cancel".to_owned(),
    ];
    let answer = select(format!("A run of '{change}' is open. What now?"), items).await?;
    Ok(answer.map_to(&[Some(OpenRun::Resume), Some(OpenRun::Restart), None]))
}

/// Asks where the stories of a new change are. "None of these" means a template.
pub async fn which_source(mut sources: Vec<String>) -> Result<Answer<Option<String>>> {
    let names = sources.clone();
    sources.push("none of these: write a commented template".to_owned());
    Ok(match select("Where are the stories?".to_owned(), sources).await? {
        Answer::Chosen(at) => Answer::Chosen(names.into_iter().nth(at)),
        Answer::Later => Answer::Later,
        Answer::Interrupted => Answer::Interrupted,
    })
}

/// Asks for one of several changes.
pub async fn which_change(names: Vec<String>) -> Result<Answer<String>> {
    let answer = select("Which change?".to_owned(), names.clone()).await?;
    Ok(match answer {
        Answer::Chosen(at) => names.into_iter().nth(at).map_or(Answer::Later, Answer::Chosen),
        Answer::Later => Answer::Later,
        Answer::Interrupted => Answer::Interrupted,
    })
}

impl Answer<usize> {
    fn map_to<T: Clone>(self, choices: &[Option<T>]) -> Answer<T> {
        match self {
            Answer::Chosen(at) => choices.get(at).cloned().flatten().map_or(Answer::Later, Answer::Chosen),
            Answer::Later => Answer::Later,
            Answer::Interrupted => Answer::Interrupted,
        }
    }
}

/// Asks whether to really do something; the default is no.
pub async fn sure(prompt: String) -> Result<Answer<()>> {
    confirm(prompt, false).await
}

/// Asks whether to accept a proposal; the default is yes.
pub async fn agreed(prompt: String) -> Result<Answer<()>> {
    confirm(prompt, true).await
}

async fn confirm(prompt: String, default: bool) -> Result<Answer<()>> {
    // dialoguer redraws its line when it is answered, so a question that does not fit is printed above that line.
    let fits = width(&prompt) + CONFIRM_MARGIN <= Size::now().columns;
    let (above, prompt) = if fits { (None, prompt) } else { (Some(prompt), "Sure?".to_owned()) };
    if let Some(text) = above {
        output::message(&Line::new(Tone::Plain, text));
    }
    let question = move || {
        let _cursor = Cursor;
        Confirm::with_theme(&ColorfulTheme::default()).with_prompt(prompt).default(default).interact_opt()
    };
    // Ctrl-C at the question arrives as its answer. The signal that comes with it must not end the process.
    let mut interrupted = signal(SignalKind::interrupt())?;
    let before = tcgetattr(io::stdin()).ok();
    let mut asked = tokio::task::spawn_blocking(question);
    let answer = tokio::select! {
        answer = &mut asked => answer?,
        _ = interrupted.recv() => match timeout(ANSWER, &mut asked).await {
            Ok(answer) => answer?,
            // The signal came without the key, so dialoguer is still waiting. The terminal settings are restored here.
            Err(_) => {
                if let Some(settings) = before {
                    let _ = tcsetattr(io::stdin(), OptionalActions::Now, &settings);
                }
                return Ok(withdraw(Answer::Interrupted));
            }
        },
    };
    match answer {
        Ok(Some(true)) => Ok(Answer::Chosen(())),
        Ok(Some(false) | None) => Ok(Answer::Later),
        Err(dialoguer::Error::IO(error)) if error.kind() == io::ErrorKind::Interrupted => Ok(Answer::Interrupted),
        Err(error) => Err(error.into()),
    }
}

async fn select(prompt: String, items: Vec<String>) -> Result<Answer<usize>> {
    select_from(0, prompt, items).await
}

/// Like `select`, with another item than the first one preselected.
async fn select_from(selected: usize, prompt: String, items: Vec<String>) -> Result<Answer<usize>> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let suspension = Suspension::listen()?;
    Ok(tokio::select! {
        answer = Menu { prompt, items, selected }.choose(suspension) => answer.map_or(Answer::Later, Answer::Chosen),
        _ = interrupted.recv() => Answer::Interrupted,
    })
}

/// Removes a question from the screen, and returns the given answer for it.
pub fn withdraw<T>(answer: Answer<T>) -> Answer<T> {
    drop(Cursor);
    answer
}

/// Shows the cursor again, because dialoguer leaves it hidden when it is interrupted.
struct Cursor;

impl Drop for Cursor {
    fn drop(&mut self) {
        let _ = Term::stderr().show_cursor();
    }
}
