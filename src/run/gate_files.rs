//! The files that gates use, as far as their commands name them: a checkpoint that changes one, or an ignored one that an attempt has
//! written, is no reason to reject it, but the user should hear of it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::Gates;
use super::step_runner::{Ground, StepRunner, Task};
use crate::git::{Git, Oid, PathChange};
use crate::shell_word::quoted;
use crate::story::{Story, StoryId};
use crate::workspace::Notice;

/// Programs that do what a file says, and the files.
const DRIVEN: &[(&[&str], &[&str])] = &[
    (&["make", "gmake"], &["Makefile", "makefile", "GNUmakefile"]),
    (&["npm", "npx", "yarn", "pnpm", "bun"], &["package.json"]),
    (&["cargo"], &["Cargo.toml", ".cargo/config.toml"]),
    (&["just"], &["justfile", "Justfile"]),
    (&["rake"], &["Rakefile"]),
    (&["tox"], &["tox.ini"]),
    (&["pre-commit"], &[".pre-commit-config.yaml"]),
];

/// The hooks that are gates.
const HOOKS: [&str; 2] = ["pre-commit", "commit-msg"];

/// The paths that a command may mean, from the top of the work tree. What a shell would make of its words is not known, so that some of
/// them mean nothing; that does no harm.
fn named(command: &str, top: &Path) -> BTreeSet<PathBuf> {
    let words: Vec<&str> =
        command.split(|c: char| c.is_whitespace() || ";&|()<>\"'`=,{}".contains(c)).filter(|word| !word.is_empty()).collect();
    let goes_to = |pair: &[&str]| if matches!(pair[0], "cd" | "-C" | "--prefix") { inside(pair[1], top) } else { None };
    let mut places = vec![PathBuf::new()];
    places.extend(words.windows(2).filter_map(goes_to));
    let mut paths = BTreeSet::new();
    for word in &words {
        let program = word.rsplit('/').next().unwrap_or_default();
        let driven =
            DRIVEN.iter().filter(|(programs, _)| programs.contains(&program)).flat_map(|(_, files)| files.iter().map(PathBuf::from));
        let meant: Vec<PathBuf> = driven.chain(inside(word, top)).collect();
        paths.extend(places.iter().flat_map(|place| meant.iter().map(move |path| place.join(path))));
    }
    paths
}

/// A word as a path from the top of the work tree; none if it is no path in it.
fn inside(word: &str, top: &Path) -> Option<PathBuf> {
    let path = Path::new(word);
    let path = if path.is_absolute() { path.strip_prefix(top).ok()? } else { path };
    let parts: Vec<Component<'_>> = path.components().filter(|part| *part != Component::CurDir).collect();
    let plain = !parts.is_empty() && parts.iter().all(|part| matches!(part, Component::Normal(_)));
    plain.then(|| parts.iter().collect())
}

impl StepRunner<'_> {
    /// What a checkpoint changes of the files that its gates use.
    pub(super) async fn changed_gate_files(
        &self,
        ground: &Ground,
        story: &StoryId,
        gates: &Gates,
        changes: &[PathChange],
    ) -> Result<Vec<Notice>> {
        let top = &ground.workspace.repo.place.top;
        let notice = |gate: &str, path: &Path| Notice::GateFileChanged {
            story: story.clone(),
            gate: gate.to_owned(),
            path: path.display().to_string(),
        };
        let mut notices = Vec::new();
        for gate in &gates.commands {
            let named = named(gate, top);
            notices.extend(changes.iter().filter(|change| named.contains(&change.path)).map(|change| notice(gate, &change.path)));
        }
        if gates.hooks && !changes.is_empty() {
            let (dir, checkout) = (self.hooks_dir().await?, &self.workspace.repo.place.top);
            for (gate, path) in HOOKS.iter().filter_map(|name| Some((*name, dir.join(name).strip_prefix(checkout).ok()?.to_owned()))) {
                notices.extend(changes.iter().filter(|change| change.path == path).map(|change| notice(gate, &change.path)));
            }
        }
        Ok(notices)
    }

    /// The directory that hooks are run from, as a gate sees it: our own git runs none.
    async fn hooks_dir(&self) -> Result<PathBuf> {
        let git = Git::plain(self.workspace.repo.place.top.clone(), self.environment.for_discovery());
        let dir = PathBuf::from(git.call(["rev-parse", "--path-format=absolute", "--git-path", "hooks"]).line().await?);
        Ok(dir.canonicalize().unwrap_or(dir))
    }

    /// The same for a command that runs hooks in a private clone: hooks that are files of the work tree are those of the clone.
    pub(super) async fn users_hooks(&self) -> Result<String> {
        let (dir, place) = (self.hooks_dir().await?, &self.workspace.repo.place);
        let tracked = dir.strip_prefix(&place.top).ok().filter(|_| !dir.starts_with(&place.common_dir));
        Ok(quoted(&tracked.unwrap_or(&dir).display().to_string()))
    }

    /// The ignored files that gates use and that the attempt has written, but not committed. Asked before the gates, which may write to
    /// them as well.
    pub(super) async fn ignored_gate_files(&self, ground: &Ground, story: &Story, attempt: u32, task: &Task) -> Result<Vec<Notice>> {
        let workspace = &ground.workspace;
        let top = &workspace.repo.place.top;
        // Written right before the agent was started.
        let prompt = fs::metadata(self.run.attempt(&story.id, attempt).join("prompt.md"));
        let started = prompt.map_or((0, 0), |meta| (meta.mtime(), meta.mtime_nsec()));
        let written = |path: &PathBuf| {
            let fresh = |meta: fs::Metadata| (meta.ctime(), meta.ctime_nsec()) >= started;
            let path = top.join(path);
            fs::metadata(&path).is_ok_and(|meta| meta.is_file() && (fresh(meta) || path.symlink_metadata().is_ok_and(fresh)))
        };
        let mut notices = Vec::new();
        for gate in &task.gates.commands {
            let paths: Vec<PathBuf> = named(gate, top).into_iter().filter(written).collect();
            for path in workspace.repo.ignored_among(&workspace.private_index(), &paths).await? {
                if self.is_committed(ground, &story.id, attempt, &task.base.checkpoint, &path).await? {
                    continue;
                }
                notices.push(Notice::GateFileIgnored { story: story.id.clone(), gate: gate.clone(), path: path.display().to_string() });
            }
        }
        Ok(notices)
    }

    /// Whether a file is in the agent's commit that the attempt would land on.
    async fn is_committed(&self, ground: &Ground, story: &StoryId, attempt: u32, base: &Oid, path: &Path) -> Result<bool> {
        let committed = if self.pool.is_some() {
            self.branch.committed_in_clone(self.clone_attempt(ground, story, attempt, base)?).await?
        } else {
            self.branch.committed(self.workspace, base).await?
        };
        match committed {
            Some(commit) => self.branch.repo.is_in(&commit, path).await,
            None => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_command_that_may_be_files_are_found_where_it_goes() {
        let table: [(&str, &[&str]); 9] = [
            ("./check.sh", &["check.sh"]),
            ("sh -e check.sh --fast", &["check.sh"]),
            ("python3 'tests/run.py'>out.log", &["tests/run.py", "out.log"]),
            ("/top/bin/verify && true", &["bin/verify"]),
            ("make test", &["Makefile", "GNUmakefile"]),
            ("cd web && npm test", &["package.json", "web/package.json"]),
            ("make -C sub check", &["sub/Makefile"]),
            ("cargo test --config=ci/cargo.toml", &["Cargo.toml", "ci/cargo.toml"]),
            ("(cd a/b; ./c)", &["a/b/c"]),
        ];
        for (command, expected) in table {
            let found = named(command, Path::new("/top"));
            assert!(expected.iter().all(|path| found.contains(Path::new(path))), "{command}: {found:?}");
        }
        for outside in ["/etc/passwd", "../x/y", ".", "./", "/"] {
            assert_eq!(inside(outside, Path::new("/top")), None, "{outside}");
        }
    }
}
