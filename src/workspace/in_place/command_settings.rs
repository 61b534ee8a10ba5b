//! Restores settings that name a command, steer a run or change how git reads and writes the work tree, after every attempt, and reports
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::guard::{CONFIG, HOOKS, INFO, OWN_INFO, SHALLOW, is_config};
use super::mirror::rewrite;
use crate::free_name::free_name;
use crate::git::ShallowEntries;
use crate::names::attempt_label;
use crate::story::StoryId;
use crate::workspace::{Notice, Workspace};

/// The settings to restore: section and variable in lower case. `*` means every variable of the section, whatever its subsection.
const STEERING: &[(&str, &[&str])] = &[
    ("ralph", &["*"]),
    ("alias", &["*"]),
    ("browser", &["cmd", "path"]),
    ("add", &["*"]),
    ("checkout", &["*"]),
    ("clean", &["*"]),
    ("core", &["*"]),
    ("credential", &["helper"]),
    ("diff", &["command", "external", "guitool", "ignoresubmodules", "textconv", "tool"]),
    ("difftool", &["cmd", "path"]),
    ("extensions", &["partialclone", "preciousobjects"]),
    ("feature", &["*"]),
    ("filter", &["*"]),
    ("gc", &["*"]),
    ("gpg", &["*"]),
    ("guitool", &["cmd"]),
    ("hook", &["*"]),
    ("imap", &["tunnel"]),
    ("include", &["path"]),
    ("includeif", &["path"]),
    ("index", &["*"]),
    ("init", &["templatedir"]),
    ("instaweb", &["browser", "httpd"]),
    ("interactive", &["difffilter"]),
    ("lfs", &["clean", "path", "smudge", "standalonetransferagent"]),
    ("maintenance", &["*"]),
    ("man", &["cmd", "path"]),
    ("merge", &["default", "driver", "guitool", "renormalize", "tool"]),
    ("mergetool", &["cmd", "path"]),
    ("pager", &["*"]),
    ("protocol", &["allow"]),
    ("remote", &["receivepack", "uploadpack", "vcs"]),
    ("sendemail", &["cccmd", "headercmd", "sendmailcmd", "smtpserver", "tocmd"]),
    ("sequence", &["editor"]),
    ("sparse", &["*"]),
    ("status", &["*"]),
    ("submodule", &["ignore", "recurse", "update"]),
    ("tar", &["command"]),
    ("trailer", &["cmd", "command"]),
    ("uploadpack", &["packobjectshook"]),
    ("url", &["insteadof", "pushinsteadof"]),
    ("user", &["signingkey"]),
    ("web", &["browser"]),
];

/// Settings that stay as the attempt left them. Sparse checkout adds and removes files: restoring its settings alone would make the
/// removed files look deleted, so the landing refuses such an attempt and the rollback restores settings and files together. The format
/// version belongs to the storage format, which no setting can convert back.
const LEFT: [&str; 3] = ["core.sparsecheckout", "core.sparsecheckoutcone", "core.repositoryformatversion"];

/// Endings of the names of variables that hold a command, in any section, including those of other programs.
const COMMANDS: &[&str] = &["cmd", "command", "editor", "helper", "hook", "pager", "prog", "program"];

/// The files in `info/` that change how git sees history and the work tree. `sparse-checkout` is left to the landing, see [`LEFT`].
const RULES: [&str; 3] = ["attributes", "exclude", "grafts"];
const SPARSE_PATTERNS: &str = "info/sparse-checkout";

/// If more keys than this have changed, the whole file is restored.
const FEW: usize = 50;

/// The values of each key, in the order of the file.
type Values = BTreeMap<String, Vec<OsString>>;

/// Whether a key, as git lists it, names a command, steers a run or changes how git reads and writes the work tree.
fn steers(key: &str) -> bool {
    if LEFT.contains(&key) {
        return false;
    }
    let (Some((section, _)), Some((_, variable))) = (key.split_once('.'), key.rsplit_once('.')) else { return false };
    let is_listed =
        |(known, variables): &(&str, &[&str])| *known == section && variables.iter().any(|name| *name == "*" || *name == variable);
    COMMANDS.iter().any(|end| variable.ends_with(end)) || STEERING.iter().any(is_listed)
}

/// The steering keys whose values differ.
fn changed(before: &Values, now: &Values) -> Vec<String> {
    let keys: BTreeSet<&String> = before.keys().chain(now.keys()).filter(|key| steers(key)).collect();
    keys.into_iter().filter(|key| before.get(*key) != now.get(*key)).cloned().collect()
}

/// The settings that an agent may change.
fn others(values: &Values) -> impl Iterator<Item = (&String, &Vec<OsString>)> {
    values.iter().filter(|(key, _)| !steers(key))
}

impl Workspace {
    /// Restores hooks, and the settings that [`steers`] selects, to their state before the attempt, and saves the attempt's version. Other
    /// settings are left alone. Repeating it is harmless.
    pub(in crate::workspace) async fn put_back_commands(&self, story: &StoryId, attempt: u32) -> Result<Vec<Notice>> {
        let kept = self.guard_dir().join("git-dir");
        let label = attempt_label(story, attempt);
        let mut notices = Vec::new();
        if !kept.exists() {
            return Ok(notices);
        }
        for (path, name) in self.git_files() {
            let copy = kept.join(&*name);
            if self.mirror.same(&path, &copy) {
                continue;
            }
            if is_config(&name) {
                notices.extend(self.put_back_settings(&path, &copy, &name, story, &label).await?);
            } else if name == SHALLOW {
                notices.extend(self.put_back_shallow(&path, &copy, &label).await?);
            } else if self.is_in_work_tree(&path, &kept, &name) {
                // The rollback of the work tree includes it.
            } else if name == HOOKS || name == INFO && path.exists() && !path.is_dir() {
                notices.push(self.put_back_whole(&path, &copy, &name, &label)?);
            } else if name == INFO {
                notices.extend(self.put_back_rules(&path, &copy, &label)?);
            }
        }
        Ok(notices)
    }

    /// Restores the files in `info/` that change how git sees history and the work tree.
    fn put_back_rules(&self, dir: &Path, copies: &Path, label: &str) -> Result<Vec<Notice>> {
        let changed = RULES.iter().filter(|name| !self.mirror.same(&dir.join(name), &copies.join(name)));
        changed.map(|name| self.put_back_whole(&dir.join(name), &copies.join(name), &format!("{INFO}/{name}"), label)).collect()
    }

    /// Restores the list of commits at which history ends. New entries for commits whose parents are not in the repository stay: a
    /// shallow fetch made them, and without them git could not read what was fetched.
    async fn put_back_shallow(&self, path: &Path, copy: &Path, label: &str) -> Result<Option<Notice>> {
        let ShallowEntries { before, now, wanted } = self.repo.shallow_entries(copy, path).await?;
        if wanted == now {
            return Ok(None);
        }
        let notice = self.put_back_whole(path, copy, SHALLOW, label)?;
        if wanted != before {
            let text: String = wanted.iter().map(|entry| format!("{entry}\n")).collect();
            rewrite(path, text.as_bytes())?;
        }
        Ok(Some(notice))
    }

    /// Whether the attempt changed the settings or the patterns of sparse checkout, which decide which files git ignores as absent.
    pub(in crate::workspace) async fn sparse_differs(&self) -> Result<bool> {
        let kept = self.guard_dir().join("git-dir");
        let patterns = self.repo.place.git_dir.join(SPARSE_PATTERNS);
        let is_linked = self.repo.place.git_dir != self.repo.place.common_dir;
        let copy = kept.join(if is_linked { OWN_INFO } else { INFO }).join("sparse-checkout");
        if kept.exists() && !self.mirror.same(&patterns, &copy) && self.repo.is_sparse().await? {
            return Ok(true);
        }
        for (path, name) in self.git_files().into_iter().filter(|(_, name)| name.starts_with(CONFIG)) {
            let copy = kept.join(&*name);
            if self.mirror.same(&path, &copy) {
                continue;
            }
            for key in ["core.sparseCheckout", "core.sparseCheckoutCone"] {
                if self.repo.setting_in(&copy, key).await? != self.repo.setting_in(&path, key).await? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    async fn put_back_settings(&self, path: &Path, copy: &Path, name: &str, story: &StoryId, label: &str) -> Result<Option<Notice>> {
        let (Some(before), Some(now)) = (self.values(copy).await?, self.values(path).await?) else {
            // git cannot read the file, so single settings cannot be compared.
            return self.put_back_whole(path, copy, name, label).map(Some);
        };
        let keys = changed(&before, &now);
        let restored = |aside: PathBuf, keys| {
            let kept = aside.display().to_string();
            Notice::SettingsRestored { story: story.clone(), name: name.to_owned(), keys, kept }
        };
        if keys.is_empty() {
            return Ok(None);
        }
        if keys.len() > FEW {
            return self.put_back_whole(path, copy, name, label).map(Some);
        }
        let aside = self.aside(name, label);
        self.mirror.copy(path, &aside)?;
        if others(&before).eq(others(&now)) {
            // Nothing else differs, so the file can be restored byte for byte.
            self.mirror.copy(copy, path).with_context(|| format!("cannot restore {}", path.display()))?;
            return Ok(Some(restored(aside, keys)));
        }
        for key in &keys {
            let values = before.get(key).map_or(&[][..], Vec::as_slice);
            self.repo.replace_in(path, key, values, now.contains_key(key)).await?;
        }
        Ok(Some(restored(aside, keys)))
    }

    /// The settings in a file: empty if there is no file, `None` if git cannot read it.
    async fn values(&self, file: &Path) -> Result<Option<Values>> {
        if file.symlink_metadata().is_err() && file.file_name().is_some_and(|name| name != "config") {
            return Ok(Some(Values::new()));
        }
        let Some(entries) = self.repo.settings_in(file).await? else { return Ok(None) };
        let mut values = Values::new();
        for (key, value) in entries {
            values.entry(key).or_default().push(value);
        }
        Ok(Some(values))
    }

    fn put_back_whole(&self, path: &Path, copy: &Path, name: &str, label: &str) -> Result<Notice> {
        self.exchange(path, copy, name, &self.aside(name, label))
    }

    /// An unused name for the attempt's version of a file of the git directory.
    pub(super) fn aside(&self, name: &str, label: &str) -> PathBuf {
        let dir = self.moved_dir(label).join("git-dir");
        free_name(dir.join(name), |number| dir.join(format!("{name}.{number}")), |path| path.symlink_metadata().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_name_commands_steer_a_run_or_change_the_view_of_the_tree_are_known_and_others_are_not() {
        let steering = [
            "ralph.verify",
            "ralph.My.Agent.cmd",
            "alias.st",
            "filter.lfs.process",
            "core.fsmonitor",
            "core.hookspath",
            "core.editor",
            "sequence.editor",
            "credential.https://example.com.helper",
            "diff.external",
            "diff.word.textconv",
            "merge.ours.driver",
            "gpg.program",
            "gpg.ssh.program",
            "core.sshcommand",
            "include.path",
            "includeif.gitdir:/x.y/.path",
            "url.https://evil.example/.insteadof",
            "hook.pre-commit.command",
            "submodule.lib.update",
            "core.symlinks",
            "core.filemode",
            "core.autocrlf",
            "core.checkstat",
            "index.skiphash",
            "status.showuntrackedfiles",
            "gc.pruneexpire",
            "merge.default",
            "clean.requireforce",
        ];
        let others = [
            "user.name",
            "user.email",
            "remote.origin.url",
            "branch.main.merge",
            "core.sparsecheckout",
            "core.sparsecheckoutcone",
            "core.repositoryformatversion",
            "merge.conflictstyle",
            "submodule.lib.url",
            "section",
        ];
        assert_eq!(steering.iter().filter(|key| !steers(key)).collect::<Vec<_>>(), [&""; 0]);
        assert_eq!(others.iter().filter(|key| steers(key)).collect::<Vec<_>>(), [&""; 0]);
    }

    #[test]
    fn a_key_that_was_added_removed_or_changed_is_named_once() {
        let values = |entries: &[(&str, &str)]| {
            let mut values = Values::new();
            for (key, value) in entries {
                values.entry((*key).to_owned()).or_default().push(value.into());
            }
            values
        };
        let before = values(&[("ralph.verify", "a"), ("ralph.verify", "b"), ("alias.x", "x"), ("user.name", "Me")]);
        let now = values(&[("ralph.verify", "a"), ("core.editor", "vi"), ("user.name", "Agent")]);
        assert_eq!(changed(&before, &now), ["alias.x", "core.editor", "ralph.verify"]);
        assert_eq!(changed(&before, &before), [""; 0]);
    }
}
