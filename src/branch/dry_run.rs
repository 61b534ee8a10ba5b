//! Lists the commands that `--dry-run` prints, which are the documented equivalents of each step.

use std::path::Path;

use crate::git::Head;
use crate::names::Names;
use crate::shell_word::quoted;

/// The commands that begin a run.
#[must_use]
pub fn start(names: &Names) -> Vec<String> {
    vec![
        format!("git checkout -B {}", names.short_branch()),
        "git add -A".to_owned(),
        "git commit --allow-empty -m \"initial state\"".to_owned(),
    ]
}

/// The commands that begin an isolated run, without touching the checkout and its index.
#[must_use]
pub fn start_isolated(names: &Names, original: &Head, workspaces: &Path, setup: &[String]) -> Vec<String> {
    let branch = names.short_branch();
    let (read, parent) = match original {
        Head::Unborn { .. } => (None, ""),
        Head::Branch { .. } | Head::Detached { .. } => (Some("git read-tree HEAD".to_owned()), "-p HEAD "),
    };
    let workspace = quoted(&workspaces.join("1").display().to_string());
    let setup = setup.iter().map(|command| format!("cd {workspace} && sh -c {}", quoted(command)));
    [Some("export GIT_INDEX_FILE=$(mktemp -d)/index".to_owned()), read]
        .into_iter()
        .flatten()
        .chain([
            "git add -A".to_owned(),
            format!("git branch -f {branch} $(git commit-tree {parent}-m \"initial state\" $(git write-tree))"),
            "unset GIT_INDEX_FILE".to_owned(),
            format!("git clone --shared --branch {branch} . {workspace}"),
            "# the ignored files that .worktreeinclude lists are copied".to_owned(),
        ])
        .chain(setup)
        .collect()
}

/// The commands that land an accepted attempt of an isolated run, after the attempts before it have landed.
#[must_use]
pub fn land_isolated(names: &Names) -> Vec<String> {
    let branch = names.short_branch();
    vec![
        "# an accepted attempt lands in the order of acceptance; if the branch has moved since the attempt began:".to_owned(),
        format!("git merge-tree --write-tree {branch} <attempt>"),
        "# a conflict: the story is attempted again from the tip; otherwise the gates run again on the merged tree, and:".to_owned(),
        format!("git update-ref refs/heads/{branch} <checkpoint> <tip>"),
    ]
}

/// The commands that merge the result of an isolated run into the checkout as uncommitted changes.
#[must_use]
pub fn merge_into_checkout(names: &Names, initial: &str) -> Vec<String> {
    let branch = names.short_branch();
    vec![
        format!("git diff --binary {initial} {branch} | git apply"),
        format!("git branch -D {branch}"),
        "# the workspaces are removed".to_owned(),
    ]
}

/// The description of finishing an isolated run on its own branch.
#[must_use]
pub fn keep_isolated(names: &Names) -> Vec<String> {
    vec![format!("# {} stays; the workspaces are removed, and this checkout is not touched", names.short_branch())]
}

/// The commands that finish a run with everything uncommitted on the original branch.
#[must_use]
pub fn cleanup(names: &Names, original: &Head) -> Vec<String> {
    let branch = names.short_branch();
    let back = match original {
        Head::Branch { .. } => format!("git checkout {}", quoted(&original.words())),
        Head::Detached { .. } => format!("git checkout --detach {}", original.words()),
        Head::Unborn { .. } => format!("git checkout --orphan {}", quoted(&original.words())),
    };
    vec![back, format!("git merge --squash {branch}"), "git reset HEAD".to_owned(), format!("git branch -D {branch}")]
}

/// The description of finishing a run on its own branch.
#[must_use]
pub fn keep(names: &Names) -> Vec<String> {
    vec![format!("# stay on {}", names.short_branch())]
}
