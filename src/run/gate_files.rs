//! Warns when an attempt changes files that a gate uses, as far as the gate's command names them, or files that git reads settings from.
//! Such a change does not reject the attempt, but the user should know of it.

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

/// Programs that are controlled by certain files, and those files.
const DRIVEN: &[(&[&str], &[&str])] = &[
    (&["make", "gmake"], &["Makefile", "makefile", "GNUmakefile"]),
    (&["npm", "npx", "yarn", "pnpm", "bun"], &["package.json"]),
    (&["cargo"], &["Cargo.toml", ".cargo/config.toml"]),
    (&["just"], &["justfile", "Justfile"]),
    (&["rake"], &["Rakefile"]),
    (&["tox"], &["tox.ini"]),
    (&["pre-commit"], &[".pre-commit-config.yaml"]),
];

/// The hooks that run as gates.
const HOOKS: [&str; 2] = ["pre-commit", "commit-msg"];

/// The paths in the work tree that a command may refer to. The command is not really parsed as a shell would do it, so some of the paths
/// may not exist. That is harmless.
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

/// A word as a path relative to the top of the work tree. `None` if it is not a path inside of it.
fn inside(word: &str, top: &Path) -> Option<PathBuf> {
    let path = Path::new(word);
    let path = if path.is_absolute() { path.strip_prefix(top).ok()? } else { path };
    let parts: Vec<Component<'_>> = path.components().filter(|part| *part != Component::CurDir).collect();
    let plain = !parts.is_empty() && parts.iter().all(|part| matches!(part, Component::Normal(_)));
    plain.then(|| parts.iter().collect())
}

impl StepRunner<'_> {
    /// Notices about the files that the gates or the settings use and a checkpoint changes.
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
        let settings = self.config.files_in(&self.workspace.repo.place.top);
        let changed = changes.iter().filter(|change| settings.contains(&change.path));
        let mut notices: Vec<Notice> =
            changed.map(|change| Notice::SettingsFileChanged { story: story.clone(), path: change.path.display().to_string() }).collect();
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

    /// The directory of the hooks that a gate runs. git-ralph's own git commands run no hooks.
    async fn hooks_dir(&self) -> Result<PathBuf> {
        let git = Git::plain(self.workspace.repo.place.top.clone(), self.environment.for_discovery());
        let dir = PathBuf::from(git.call(["rev-parse", "--path-format=absolute", "--git-path", "hooks"]).line().await?);
        Ok(dir.canonicalize().unwrap_or(dir))
    }

    /// The same directory, quoted for a command in a private clone. Hooks that are files in the work tree are taken from the clone.
    pub(super) async fn users_hooks(&self) -> Result<String> {
        let (dir, place) = (self.hooks_dir().await?, &self.workspace.repo.place);
        let tracked = dir.strip_prefix(&place.top).ok().filter(|_| !dir.starts_with(&place.common_dir));
        Ok(quoted(&tracked.unwrap_or(&dir).display().to_string()))
    }

    /// Notices about ignored files that gates use and that the attempt has written but not committed. This is checked before the gates run,
    /// because they may also write to these files.
    pub(super) async fn ignored_gate_files(&self, ground: &Ground, story: &Story, attempt: u32, task: &Task) -> Result<Vec<Notice>> {
        let workspace = &ground.workspace;
        let top = &workspace.repo.place.top;
        // The prompt was written right before the agent was started.
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

    /// Whether a file is part of the agent's commits that would land.
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
