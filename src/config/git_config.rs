//! Parses git's configuration, which git-ralph reads with a single `git config` call.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::setting::{Origin, Setting};
use super::setting_type::SettingType;

/// The arguments of that call.
pub const QUERY: [&str; 6] = [
    "config",
    "-z",
    "--show-scope",
    "--show-origin",
    "--get-regexp",
    "^(ralph\\.|include(if\\..*)?\\.path$|color\\.(ui|ralph)$|advice\\.ralph|(user|author|committer)\\.(name|email)$)",
];

/// git's term for the reach of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The machine.
    System,
    /// The user.
    Global,
    /// The repository.
    Local,
    /// The work tree.
    Worktree,
    /// This command: `git -c`.
    Command,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::System => "system",
            Scope::Global => "global",
            Scope::Local => "local",
            Scope::Worktree => "worktree",
            Scope::Command => "command",
        })
    }
}

/// One line of configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The scope of the file.
    pub scope: Scope,
    /// The file as git names it.
    pub place: String,
    /// Section and variable in lower case, subsection as written.
    pub key: String,
    /// The value; a key without one is `true`.
    pub value: String,
}

impl Entry {
    /// Where the entry was set.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match self.scope {
            Scope::Command => Origin::Command,
            scope => Origin::Git { scope, place: self.place.clone() },
        }
    }
}

/// An invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadValue {
    /// The key of the setting.
    pub key: String,
    /// The line of configuration.
    pub entry: Entry,
    /// A sentence that says what is expected.
    pub why: String,
}

impl BadValue {
    fn new(key: &str, entry: &Entry, why: String) -> Self {
        BadValue { key: key.to_owned(), entry: entry.clone(), why }
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad value for {} in {}: {}", self.key, self.entry.origin(), self.why)
    }
}

impl std::error::Error for BadValue {}

/// All entries under `ralph.`, the relevant ones under `color.` and `advice.`, the author's identity, and the names of included files;
/// weakest first, in git's order.
#[derive(Clone, Debug, Default)]
pub struct GitConfig(Vec<Entry>);

/// Which part of git's configuration is meant: `git -c` overrides the change file, configuration files do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitLayer {
    /// `git -c`.
    Command,
    /// Files of the scopes worktree, local, global and system.
    Files,
}

impl GitConfig {
    /// Parses the output of [`QUERY`].
    ///
    /// # Errors
    /// If the output does not have the documented format.
    pub fn parse(output: &[u8]) -> Result<Self> {
        let mut fields = output.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let mut entries = Vec::new();
        while let Some(scope) = fields.next().filter(|field| !field.is_empty()) {
            let scope = match scope.as_ref() {
                "system" => Scope::System,
                "global" => Scope::Global,
                "local" => Scope::Local,
                "worktree" => Scope::Worktree,
                "command" => Scope::Command,
                other => bail!("git config names the unknown scope '{other}'"),
            };
            let (Some(place), Some(pair)) = (fields.next(), fields.next()) else {
                bail!("git config ended in the middle of an entry");
            };
            let (key, value) = pair.split_once('\n').unwrap_or((&pair, "true"));
            entries.push(Entry { scope, place: place.into_owned(), key: key.to_owned(), value: value.to_owned() });
        }
        Ok(GitConfig(entries))
    }

    /// All entries, weakest first.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// The files in the work tree that git reads configuration from, relative to its top directory.
    #[must_use]
    pub fn files_in(&self, top: &Path) -> BTreeSet<PathBuf> {
        let file_of = |entry: &Entry| entry.place.strip_prefix("file:").map(|place| top.join(place));
        let includes = |entry: &&Entry| entry.key.starts_with("include") && entry.key.ends_with(".path");
        // A path in an include is relative to the file that it is in.
        let included = self.0.iter().filter(includes).filter_map(|entry| Some(file_of(entry)?.parent()?.join(&entry.value)));
        let real = |path: PathBuf| {
            let dir = path.parent()?.canonicalize().ok()?;
            Some(path.canonicalize().unwrap_or_else(|_| dir.join(path.file_name().unwrap_or_default())))
        };
        let inside = |path: PathBuf| Some(path.strip_prefix(top).ok()?.to_owned());
        self.0.iter().filter_map(file_of).chain(included).filter_map(real).filter_map(inside).collect()
    }

    fn in_layer(&self, layer: GitLayer, key: &str) -> impl Iterator<Item = &Entry> {
        let key = canonical(key);
        self.0
            .iter()
            .filter(move |entry| (entry.scope == Scope::Command) == (layer == GitLayer::Command))
            .filter(move |entry| entry.key == key)
    }

    /// The value of a setting in one layer.
    ///
    /// # Errors
    /// If the value is invalid. The error names the key, the value and its origin.
    pub fn setting<T: SettingType>(&self, layer: GitLayer, key: &str) -> Result<Option<Setting<T::Value>>> {
        let entries: Vec<&Entry> = self.in_layer(layer, key).collect();
        let Some(last) = entries.last() else { return Ok(None) };
        let texts: Vec<&str> = entries.iter().map(|entry| entry.value.as_str()).collect();
        let value = T::from_git(&texts).map_err(|why| BadValue::new(key, last, why))?;
        Ok(Some(Setting::new(value, last.origin())))
    }

    /// This configuration without the entries that caused a bad value: those with the same key in the same layer.
    #[must_use]
    pub fn without(mut self, bad: &BadValue) -> Self {
        let in_layer = |entry: &Entry| (entry.scope == Scope::Command) == (bad.entry.scope == Scope::Command);
        self.0.retain(|entry| entry.key != bad.entry.key || !in_layer(entry));
        self
    }

    /// The strongest value of a key in any layer.
    #[must_use]
    pub fn last(&self, key: &str) -> Option<Setting<String>> {
        let entry = self.last_entry(key)?;
        Some(Setting::new(entry.value.clone(), entry.origin()))
    }

    fn last_entry(&self, key: &str) -> Option<&Entry> {
        let key = canonical(key);
        self.0.iter().rfind(|entry| entry.key == key)
    }

    /// All values of a multi-valued key from all layers.
    #[must_use]
    pub fn all_layers(&self, key: &str) -> Vec<String> {
        let values = |layer| gathered(self.in_layer(layer, key).map(|entry| entry.value.as_str()));
        values(GitLayer::Files).into_iter().chain(values(GitLayer::Command)).collect()
    }

    /// The strongest value of a key in any layer, parsed by `read`.
    ///
    /// # Errors
    /// If the value is invalid. The error names the key, the value and its origin.
    pub fn read_last<T>(&self, key: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>> {
        let Some(entry) = self.last_entry(key) else { return Ok(None) };
        Ok(Some(read(&entry.value).map_err(|why| BadValue::new(key, entry, why))?))
    }

    /// Whether the configuration alone determines the name and the email address of commits.
    #[must_use]
    pub fn names_the_user(&self) -> bool {
        let says = |key| self.last(key).is_some_and(|setting| setting.value.chars().any(char::is_alphanumeric));
        let differs = |entry: &Entry| entry.key.starts_with("author.") || entry.key.starts_with("committer.");
        says("user.name") && says("user.email") && !self.0.iter().any(differs)
    }

    /// The subsections that have the given variable; for `cmd` these are the configured agents.
    pub fn subsections_with<'a>(&'a self, variable: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter_map(move |entry| {
            entry.key.strip_prefix("ralph.")?.strip_suffix(variable)?.strip_suffix('.').filter(|name| !name.is_empty())
        })
    }
}

/// A key in git's canonical form: section and variable in lower case, the subsection unchanged.
fn canonical(key: &str) -> String {
    match (key.split_once('.'), key.rsplit_once('.')) {
        (Some((section, _)), Some((head, variable))) => {
            let middle = head.get(section.len()..).unwrap_or_default();
            format!("{}{middle}.{}", section.to_lowercase(), variable.to_lowercase())
        }
        _ => key.to_lowercase(),
    }
}

/// All values of a multi-valued key; an empty value clears those before it, as in git.
pub fn gathered<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut values = Vec::new();
    for text in texts {
        if text.is_empty() {
            values.clear();
        } else {
            values.push(text.to_owned());
        }
    }
    values
}

/// Reads a boolean like git.
///
/// # Errors
/// A sentence that says what is expected.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text.trim().to_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" | "" => Ok(false),
        _ => Err(format!("'{text}' is neither true nor false")),
    }
}

/// Reads the configuration from the exit code and output of [`QUERY`].
///
/// # Errors
/// If git failed; the error contains git's message.
pub fn read(code: i32, stdout: &[u8], stderr: &str) -> Result<GitConfig> {
    match code {
        0 => GitConfig::parse(stdout),
        1 => Ok(GitConfig::default()),
        _ => bail!("git config failed: {}", stderr.trim()),
    }
    .context("cannot read the configuration")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::setting_type::{Number, TextList};

    fn config(entries: &[(&str, &str, &str)]) -> GitConfig {
        let mut bytes = Vec::new();
        for (scope, key, value) in entries {
            bytes.extend(format!("{scope}\0file:x\0{key}\n{value}\0").bytes());
        }
        GitConfig::parse(&bytes).unwrap()
    }

    #[test]
    fn the_last_value_of_a_layer_wins_and_keeps_its_origin() {
        let config =
            config(&[("global", "ralph.maxretries", "1"), ("local", "ralph.maxretries", "2"), ("command", "ralph.maxretries", "9")]);
        let files = config.setting::<Number>(GitLayer::Files, "ralph.maxRetries").unwrap().unwrap();
        assert_eq!((files.value, files.origin.to_string()), (2, "local git config (file:x)".to_owned()));
        let command = config.setting::<Number>(GitLayer::Command, "ralph.maxRetries").unwrap().unwrap();
        assert_eq!((command.value, command.origin), (9, Origin::Command));
    }

    #[test]
    fn a_bad_value_names_its_key_and_place() {
        let config = config(&[("global", "ralph.maxretries", "many")]);
        let error = config.setting::<Number>(GitLayer::Files, "ralph.maxRetries").unwrap_err().to_string();
        assert_eq!(error, "bad value for ralph.maxRetries in global git config (file:x): 'many' is not a whole number");
    }

    #[test]
    fn a_subsection_keeps_its_case_and_may_hold_dots() {
        let config = config(&[("local", "ralph.My.Agent.cmd", "run")]);
        assert_eq!(config.last("ralph.My.Agent.cmd").unwrap().value, "run");
        assert_eq!(config.subsections_with("cmd").collect::<Vec<_>>(), ["My.Agent"]);
    }

    #[test]
    fn an_empty_value_clears_a_multi_valued_key() {
        let config = config(&[("global", "ralph.verify", "a"), ("local", "ralph.verify", ""), ("local", "ralph.verify", "b")]);
        assert_eq!(config.setting::<TextList>(GitLayer::Files, "ralph.verify").unwrap().unwrap().value, ["b"]);
    }

    #[test]
    fn a_key_without_a_value_is_true() {
        let config = GitConfig::parse(b"local\0file:x\0ralph.quiet\0").unwrap();
        assert_eq!(config.last("ralph.quiet").unwrap().value, "true");
    }
}
