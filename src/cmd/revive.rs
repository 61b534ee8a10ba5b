//! Repairs a repository that git refuses to read because an agent damaged it and no git-ralph was running, using the records of its
//! run.

use anyhow::Result;

use crate::config::Environment;
use crate::git::{Git, Head, Place, Repo, Spot};
use crate::names::Names;
use crate::report::{event_lines, output};
use crate::run::{Event, RunState, Store};
use crate::workspace::{Notice, Workspace};

/// Repairs the repository as far as the run's records allow, and reports each repair. Returns whether git is worth another try.
pub(super) fn revive(environment: &Environment) -> bool {
    // If the repair fails, git's own error message is better than ours.
    let Ok(Some(notices)) = repair(environment) else { return false };
    for notice in &notices {
        for line in event_lines(&Event::Noticed { notice: notice.clone() }, &RunState::default()) {
            output::message(&line);
        }
    }
    true
}

/// What was repaired, or `None` if there is no run with records.
fn repair(environment: &Environment) -> Result<Option<Vec<Notice>>> {
    let spot = Spot::above(&environment.cwd).filter(|_| environment.get("GIT_DIR").is_none());
    let Some(Spot { git_dir, common_dir, top }) = spot else { return Ok(None) };
    let git = Git::pinned(&git_dir, &top, environment.for_git());
    // git cannot tell where HEAD is, and nothing below needs it.
    let place = Place { git_dir, common_dir, top, head: Head::Unborn { name: "refs/heads/unknown".to_owned() } };
    let store = Store::new(place.ralph_dir()).with_state_home(environment.state_home().as_deref()).for_decisions();
    let worktree = place.worktree_id();
    let is_ours = |state: &RunState| state.opening.as_ref().is_some_and(|opening| opening.worktree == worktree);
    // A running git-ralph repairs the repository itself.
    let open = store.open_runs()?.into_iter().find(|(_, state)| is_ours(state) && store.owner(state).is_none());
    let Some((run, _)) = open else { return Ok(None) };
    let workspace =
        Workspace::in_place(Repo { git, place }, Names::new(&run.change), run.path().to_owned()).with_vault(run.vault().cloned());
    let mut notices = workspace.restore_essentials()?;
    notices.extend(workspace.restore_config()?);
    Ok(Some(notices))
}
