//! What `--dry-run` prints: the commands by which the documents define each effect.

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

/// What finishing a run on its own branch does.
#[must_use]
pub fn keep(names: &Names) -> Vec<String> {
    vec![format!("# stay on {}", names.short_branch())]
}
