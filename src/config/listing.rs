//! All settings as text with their origins, as `git ralph config` shows them.

use anyhow::Result;

use super::git_config::{BadValue, Entry, GitConfig};
use super::key::Key;
use super::layers::Value;
use super::setting::{Origin, Setting};
use super::setting_type::SettingType;
use super::table::KEYS;

/// One setting with its effective value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The key as it is written.
    pub key: String,
    /// The value; several for a list.
    pub values: Vec<String>,
    /// A description of what applies if there is no value.
    pub instead: Option<&'static str>,
    /// Where it was set.
    pub origin: Origin,
    /// Why the value is invalid, if it is.
    pub problem: Option<String>,
}

impl Listed {
    /// A setting; `words` describe what applies if it has no value.
    pub(super) fn of<T: SettingType>(key: &str, setting: Option<&Setting<Value<T>>>, words: &'static str) -> Listed {
        let values = setting.map(|setting| T::shown(&setting.value)).unwrap_or_default();
        let instead = values.is_empty().then_some(words);
        Listed {
            key: key.to_owned(),
            values,
            instead,
            origin: setting.map_or(Origin::Default, |setting| setting.origin.clone()),
            problem: None,
        }
    }

    /// The entries of a key `ralph.<name>.…`, one per agent that has it, as written in git's configuration.
    pub(super) fn of_agents<T: SettingType>(key: &str, git: &GitConfig) -> Vec<Listed> {
        let mut listed: Vec<Listed> = Vec::new();
        for entry in git.entries().iter().filter(|entry| Key::of(&entry.key).is_some_and(|found| found.name == key)) {
            if listed.iter().any(|known| known.key == entry.key) {
                continue;
            }
            let last = git.last(&entry.key);
            let origin = last.as_ref().map_or(Origin::Default, |setting| setting.origin.clone());
            let values = if T::IS_LIST { git.all_layers(&entry.key) } else { last.map(|setting| setting.value).into_iter().collect() };
            listed.push(Listed { key: entry.key.clone(), values, instead: None, origin, problem: None });
        }
        listed
    }
}

/// Resolves settings, and leaves out every invalid value that `resolve` reports. The invalid values are returned too.
///
/// # Errors
/// If `resolve` fails for any other reason.
pub fn resolve_without_bad<T>(git: &GitConfig, resolve: impl Fn(&GitConfig) -> Result<T>) -> Result<(T, Vec<BadValue>)> {
    let (mut git, mut found) = (git.clone(), Vec::new());
    loop {
        let error = match resolve(&git) {
            Ok(settings) => return Ok((settings, found)),
            Err(error) => error,
        };
        let bad = error.downcast::<BadValue>()?;
        git = git.without(&bad);
        found.push(bad);
    }
}

/// Replaces the listed settings that have an invalid value.
pub fn list_bad(listed: &mut [Listed], bad: &[BadValue]) {
    for bad in bad {
        // If several layers have an invalid value, only the strongest one is listed.
        if let Some(listed) = listed.iter_mut().find(|listed| listed.key == bad.key && listed.problem.is_none()) {
            let (values, origin, problem) = (vec![bad.entry.value.clone()], bad.entry.origin(), Some(bad.why.clone()));
            *listed = Listed { key: bad.key.clone(), values, instead: None, origin, problem };
        }
    }
}

/// Entries under `ralph.` with an unknown key, each with the key that may be meant.
pub fn unknown_entries(git: &GitConfig) -> impl Iterator<Item = (&Entry, Option<&'static str>)> {
    let unknown = |entry: &&Entry| entry.key.starts_with("ralph.") && Key::of(&entry.key).is_none();
    git.entries().iter().filter(unknown).map(|entry| {
        let names = KEYS.iter().map(|key| (key.name, key.name.to_lowercase())).collect::<Vec<_>>();
        let near = crate::nearest::to(&entry.key, names.iter().map(|(_, lower)| lower.as_str()));
        let found = near.and_then(|near| names.iter().find(|(_, lower)| lower == near)).map(|(name, _)| *name);
        (entry, found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, Settings};

    fn listed(entries: &[(&str, &str, &str)]) -> (GitConfig, Vec<Listed>) {
        let bytes: Vec<u8> = entries.iter().flat_map(|(s, k, v)| format!("{s}\0file:x\0{k}\n{v}\0").into_bytes()).collect();
        let git = GitConfig::parse(&bytes).unwrap();
        let settings = Settings::resolve(&Flags::default(), None, &git).unwrap();
        let list = settings.listing(&git);
        (git, list)
    }

    #[test]
    fn every_key_is_listed_and_its_default_is_what_the_table_says() {
        let (_, list) = listed(&[]);
        for key in KEYS.iter().filter(|key| !key.name.contains('<')) {
            let found = list.iter().find(|listed| listed.key == key.name).unwrap();
            let shown = found.values.first().map_or(key.default, String::as_str);
            assert_eq!(crate::config::parse_duration(shown).map_err(drop), crate::config::parse_duration(key.default).map_err(drop));
            assert_eq!(found.origin, Origin::Default, "{}", key.name);
            assert!(crate::config::parse_duration(shown).is_ok() || shown == key.default, "{}: {shown}", key.name);
        }
    }

    #[test]
    fn a_setting_is_listed_with_its_layer() {
        let (_, list) = listed(&[
            ("global", "ralph.verify", "a"),
            ("local", "ralph.verify", "b"),
            ("local", "ralph.mine.cmd", "run"),
            ("command", "ralph.gittimeout", "2m"),
            ("local", "ralph.onstory", "notify"),
        ]);
        let of =
            |key: &str| list.iter().find(|listed| listed.key == key).map(|listed| (listed.values.join("|"), listed.origin.to_string()));
        assert_eq!(of("ralph.verify"), Some(("a|b".into(), "local git config (file:x)".into())));
        assert_eq!(of("ralph.mine.cmd"), Some(("run".into(), "local git config (file:x)".into())));
        assert_eq!(of("ralph.gitTimeout"), Some(("2m".into(), "git -c".into())));
        assert_eq!(of("ralph.onStory"), Some(("notify".into(), "local git config (file:x)".into())));
    }

    #[test]
    fn an_unknown_key_is_reported_with_a_suggestion() {
        let (git, _) = listed(&[("local", "ralph.maxretires", "3"), ("local", "ralph.mine.cmd", "x"), ("local", "color.ui", "auto")]);
        let found: Vec<_> = unknown_entries(&git).map(|(entry, near)| (entry.key.as_str(), near)).collect();
        assert_eq!(found, [("ralph.maxretires", Some("ralph.maxRetries"))]);
    }
}
