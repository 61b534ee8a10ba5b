//! A repository that git itself refuses, because an agent broke it and was left to itself: put right from what its run recorded.

use anyhow::Result;

use crate::config::Environment;
use crate::git::{Git, Head, Place, Repo, Spot};
use crate::names::Names;
use crate::report::{event_lines, output};
use crate::run::{Event, RunState, Store};
use crate::workspace::{Notice, Workspace};

/// Puts a repository right as far as its run knows how, and says so; whether it is worth asking git again.
pub(super) fn revive(environment: &Environment) -> bool {
    // What is wrong otherwise, git has said already, and better.
    let Ok(Some(notices)) = put_right(environment) else { return false };
    for notice in &notices {
        for line in event_lines(&Event::Noticed { notice: notice.clone() }, &RunState::default()) {
            output::message(&line);
        }
    }
    true
}

/// What was put right; none if there is no run that could know.
fn put_right(environment: &Environment) -> Result<Option<Vec<Notice>>> {
    let spot = Spot::above(&environment.cwd).filter(|_| environment.get("GIT_DIR").is_none());
    let Some(Spot { git_dir, common_dir, top }) = spot else { return Ok(None) };
    let git = Git::pinned(&git_dir, &top, environment.for_git());
    // Where HEAD is, git cannot say, and nobody asks.
    let place = Place { git_dir, common_dir, top, head: Head::Unborn { name: "refs/heads/unknown".to_owned() } };
    let store = Store::new(place.ralph_dir()).with_state_home(environment.state_home().as_deref()).for_decisions();
    let worktree = place.worktree_id();
    let is_ours = |state: &RunState| state.opening.as_ref().is_some_and(|opening| opening.worktree == worktree);
    // While a git-ralph is at work, it will do so itself.
    let open = store.open_runs()?.into_iter().find(|(_, state)| is_ours(state) && store.owner(state).is_none());
    let Some((run, _)) = open else { return Ok(None) };
    let workspace =
        Workspace::in_place(Repo { git, place }, Names::new(&run.change), run.path().to_owned()).with_vault(run.vault().cloned());
    let mut notices = workspace.restore_footing()?;
    notices.extend(workspace.restore_config()?);
    Ok(Some(notices))
}
