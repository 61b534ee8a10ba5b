//! Composes the configuration of a private clone: the settings it takes over from the user's repository, and its own. Pure.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Sections that the clone takes over completely.
const SECTIONS: [&str; 10] = ["author", "branch", "committer", "diff", "filter", "i18n", "lfs", "merge", "submodule", "user"];
/// Keys of `core` that affect the content of files.
const CORE: [&str; 16] = [
    "abbrev",
    "attributesfile",
    "autocrlf",
    "bigfilethreshold",
    "eol",
    "excludesfile",
    "filemode",
    "ignorecase",
    "precomposeunicode",
    "protecthfs",
    "protectntfs",
    "safecrlf",
    "sparsecheckout",
    "sparsecheckoutcone",
    "symlinks",
    "whitespace",
];
/// Keys of a remote that `git fetch` needs.
const REMOTE: [&str; 6] = ["fetch", "partialclonefilter", "prune", "promisor", "tagopt", "url"];

/// A setting: its key as git lists it, and its value.
pub(super) type Setting = (String, OsString);

/// Section, subsection and name of a key.
fn parts(key: &str) -> Option<(&str, Option<&str>, &str)> {
    let (section, rest) = key.split_once('.')?;
    Some(match rest.rsplit_once('.') {
        Some((subsection, name)) => (section, Some(subsection), name),
        None => (section, None, rest),
    })
}

/// Whether the clone takes over a setting. Hooks, aliases, credentials and `ralph.*` are not taken over.
fn is_carried(key: &str) -> bool {
    match parts(key) {
        Some(("core", None, name)) => CORE.contains(&name),
        Some(("remote", Some(_), name)) => REMOTE.contains(&name),
        Some(("url", Some(_), name)) => name == "insteadof",
        Some(("extensions", None, name)) => name == "partialclone",
        // The clone gets its own `lfs.storage` setting, which points to the user's store.
        Some(("lfs", None, "storage")) => false,
        Some((section, ..)) => SECTIONS.contains(&section),
        None => false,
    }
}

/// Settings that the clone has in addition to those it takes over.
#[derive(Debug)]
pub(super) struct OwnSettings<'a> {
    /// The object format, if it is not sha1.
    pub object_format: Option<&'a str>,
    /// The ref format, if it is not `files`.
    pub ref_format: Option<&'a str>,
    /// Whether the file system of the clone ignores case.
    pub ignores_case: bool,
    /// The text that takes the place of every push URL, so that a failing `git push` shows it.
    pub no_push: &'a str,
    /// The directory of the user's LFS objects.
    pub lfs_storage: &'a OsStr,
}

/// The content of the clone's configuration file.
pub(super) fn config_text(settings: &[Setting], own: &OwnSettings<'_>) -> Vec<u8> {
    let mut text = Text::default();
    let extended = own.object_format.is_some()
        || own.ref_format.is_some()
        || settings.iter().any(|(key, _)| key.starts_with("extensions.") && is_carried(key));
    text.set("core.repositoryformatversion", if extended { "1" } else { "0" });
    for (name, value) in [("objectformat", own.object_format), ("refstorage", own.ref_format)] {
        if let Some(value) = value {
            text.set(&format!("extensions.{name}"), value);
        }
    }
    for (key, value) in settings.iter().filter(|(key, _)| is_carried(key) && key != "core.ignorecase") {
        text.add(key, value);
    }
    if settings.iter().any(|(key, _)| key.starts_with("lfs.") || key.starts_with("filter.lfs.")) {
        text.add("lfs.storage", own.lfs_storage);
    }
    text.set("core.bare", "false");
    text.set("core.logallrefupdates", "true");
    text.set("core.ignorecase", if own.ignores_case { "true" } else { "false" });
    text.set("core.hookspath", "/dev/null");
    text.set("commit.gpgsign", "false");
    text.set("tag.gpgsign", "false");
    text.set("gc.auto", "0");
    text.set("maintenance.auto", "false");
    let mut remotes: Vec<&str> = settings
        .iter()
        .filter_map(|(key, _)| match parts(key) {
            Some(("remote", Some(remote), "url" | "fetch")) => Some(remote),
            _ => None,
        })
        .collect();
    remotes.dedup();
    for remote in remotes {
        text.set(&format!("remote.{remote}.pushurl"), own.no_push);
    }
    // Redirects any other push URL to one that does not exist and has the same text in its name.
    text.set(&format!("url.{} .pushinsteadof", own.no_push), "");
    text.0
}

/// A configuration file being written.
#[derive(Default)]
struct Text(Vec<u8>);

impl Text {
    fn set(&mut self, key: &str, value: &str) {
        self.add(key, OsStr::new(value));
    }

    fn add(&mut self, key: &str, value: &OsStr) {
        let Some((section, subsection, name)) = parts(key) else { return };
        match subsection {
            Some(subsection) => {
                let subsection = subsection.replace('\\', "\\\\").replace('"', "\\\"");
                self.0.extend(format!("[{section} \"{subsection}\"]\n").as_bytes());
            }
            None => self.0.extend(format!("[{section}]\n").as_bytes()),
        }
        self.0.extend(format!("\t{name} = \"").as_bytes());
        for byte in value.as_bytes() {
            match byte {
                b'"' | b'\\' => self.0.extend([b'\\', *byte]),
                b'\n' => self.0.extend(b"\\n"),
                b'\t' => self.0.extend(b"\\t"),
                other => self.0.push(*other),
            }
        }
        self.0.extend(b"\"\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(settings: &[(&str, &str)]) -> String {
        let settings: Vec<Setting> = settings.iter().map(|(key, value)| ((*key).to_owned(), OsString::from(value))).collect();
        let own = OwnSettings {
            object_format: None,
            ref_format: None,
            ignores_case: false,
            no_push: "push is off",
            lfs_storage: OsStr::new("/r/.git/lfs"),
        };
        String::from_utf8(config_text(&settings, &own)).unwrap()
    }

    #[test]
    fn settings_for_content_and_fetching_are_taken_over_and_no_others() {
        let text = text(&[
            ("core.autocrlf", "input"),
            ("core.fsmonitor", "/evil"),
            ("core.worktree", "/elsewhere"),
            ("core.hookspath", "/hooks"),
            ("user.name", "A \"B\" \\ C"),
            ("remote.origin.url", "https://host/x"),
            ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
            ("remote.origin.pushurl", "https://host/push"),
            ("filter.lfs.clean", "git-lfs clean -- %f"),
            ("alias.st", "status"),
            ("credential.helper", "store"),
            ("ralph.verify", "make"),
        ]);
        for part in ["autocrlf = \"input\"", "name = \"A \\\"B\\\" \\\\ C\"", "url = \"https://host/x\"", "clean = \"git-lfs clean -- %f\""]
        {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        for part in ["/evil", "/elsewhere", "/hooks", "https://host/push", "[alias]", "credential", "ralph"] {
            assert!(!text.contains(part), "{part} is in:\n{text}");
        }
        assert!(text.contains("[remote \"origin\"]\n\tpushurl = \"push is off\"\n"), "{text}");
        assert!(text.contains("hookspath = \"/dev/null\"") && text.contains("storage = \"/r/.git/lfs\""), "{text}");
    }

    #[test]
    fn a_partial_clone_stays_one() {
        let text =
            text(&[("extensions.partialclone", "origin"), ("remote.origin.promisor", "true"), ("extensions.worktreeconfig", "true")]);
        assert!(text.starts_with("[core]\n\trepositoryformatversion = \"1\"\n"), "{text}");
        assert!(text.contains("partialclone = \"origin\"") && text.contains("promisor = \"true\""), "{text}");
        assert!(!text.contains("worktreeconfig"), "{text}");
    }
}
