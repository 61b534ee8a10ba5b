//! Finds the repository without calling git: accurate enough for completion, and ten times as fast.

use crate::config::Environment;
use crate::git::Spot;

/// The repository of the working directory, or the one that GIT_DIR names.
pub fn find(environment: &Environment) -> Option<Spot> {
    let cwd = &environment.cwd;
    let Some(git_dir) = environment.get("GIT_DIR") else { return Spot::above(cwd) };
    let top = environment.get("GIT_WORK_TREE").map_or_else(|| cwd.clone(), |top| cwd.join(top));
    Some(Spot::of(cwd.join(git_dir), top))
}
