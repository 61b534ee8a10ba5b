//! Every setting as words, with where it was set: what `git ralph config` shows.

use std::time::Duration;

use super::keys::{KEYS, Key};
use super::{AgentChoice, Bell, Entry, Finish, GitConfig, LimitWait, Origin, Setting, Settings};

/// One setting as it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key, as it is written.
    pub key: String,
    /// Its value, or values where it may have several.
    pub values: Vec<String>,
    /// What holds instead, in words, where it has none.
    pub instead: Option<&'static str>,
    /// Where it was set.
    pub origin: Origin,
}

/// Every setting, in the order of the table of keys; of agents those keys that are set.
#[must_use]
pub fn listing(settings: &Settings, git: &GitConfig, git_timeout: Option<&Setting<Option<Duration>>>) -> Vec<Listed> {
    KEYS.iter()
        .flat_map(|key| if key.name.contains("<name>") { of_agents(key, git) } else { vec![one(key, settings, git_timeout)] })
        .collect()
}

/// Entries under `ralph.` that nothing reads, with the key that may be meant.
pub fn strangers(git: &GitConfig) -> impl Iterator<Item = (&Entry, Option<&'static str>)> {
    let unknown = |entry: &&Entry| entry.key.starts_with("ralph.") && Key::of(&entry.key).is_none();
    git.entries().iter().filter(unknown).map(|entry| {
        let names = KEYS.iter().map(|key| (key.name, key.name.to_lowercase())).collect::<Vec<_>>();
        let near = crate::nearest::to(&entry.key, names.iter().map(|(_, lower)| lower.as_str()));
        let found = near.and_then(|near| names.iter().find(|(_, lower)| lower == near)).map(|(name, _)| *name);
        (entry, found)
    })
}

fn of_agents(key: &Key, git: &GitConfig) -> Vec<Listed> {
    let mut listed: Vec<Listed> = Vec::new();
    for entry in git.entries().iter().filter(|entry| Key::of(&entry.key).is_some_and(|found| found.name == key.name)) {
        if listed.iter().any(|known| known.key == entry.key) {
            continue;
        }
        let values = match (key.name.ends_with(".args"), git.last(&entry.key)) {
            (true, _) => git.all_layers(&entry.key),
            (false, last) => last.map(|setting| setting.value).into_iter().collect(),
        };
        let origin = git.last(&entry.key).map_or(Origin::Default, |setting| setting.origin);
        listed.push(Listed { key: entry.key.clone(), values, instead: None, origin });
    }
    listed
}

fn one(key: &Key, settings: &Settings, git_timeout: Option<&Setting<Option<Duration>>>) -> Listed {
    let (values, origin) = value(key.name, settings, git_timeout);
    let instead = values.is_empty().then_some(key.default);
    Listed { key: key.name.to_owned(), values, instead, origin }
}

fn value(key: &str, settings: &Settings, git_timeout: Option<&Setting<Option<Duration>>>) -> (Vec<String>, Origin) {
    match key {
        "ralph.agent" => optional(settings.agent.as_ref(), agent),
        "ralph.model" => optional(settings.model.as_ref(), String::clone),
        "ralph.verify" => (settings.verify.value.clone(), settings.verify.origin.clone()),
        "ralph.maxRetries" => plain(&settings.max_retries, u32::to_string),
        "ralph.maxCost" => optional(settings.max_cost.as_ref(), |cost| cost.as_dollars().to_string()),
        "ralph.maxTokens" => optional(settings.max_tokens.as_ref(), u64::to_string),
        "ralph.limitWait" => plain(&settings.limit_wait, |wait| if *wait == LimitWait::Wait { "wait" } else { "stop" }.to_owned()),
        "ralph.limitPause" => plain(&settings.limit_pause, |pause| duration(*pause)),
        "ralph.attemptTimeout" => plain(&settings.attempt_timeout, limit),
        "ralph.idleTimeout" => plain(&settings.idle_timeout, limit),
        "ralph.verifyTimeout" => plain(&settings.verify_timeout, limit),
        "ralph.lingerTimeout" => plain(&settings.linger_timeout, |time| duration(*time)),
        "ralph.grace" => plain(&settings.grace, |time| duration(*time)),
        "ralph.gitTimeout" => optional(git_timeout, limit),
        "ralph.finish" => plain(&settings.finish, |finish| finish_word(*finish).to_owned()),
        "ralph.hooks" => plain(&settings.hooks, bool::to_string),
        "ralph.sign" => plain(&settings.sign, bool::to_string),
        "ralph.onFinish" => optional(settings.on_finish.as_ref(), String::clone),
        "ralph.onStory" => optional(settings.on_story.as_ref(), String::clone),
        "ralph.bell" => plain(&settings.bell, |bell| bell_word(*bell).to_owned()),
        _ => (Vec::new(), Origin::Default),
    }
}

fn plain<T>(setting: &Setting<T>, words: impl Fn(&T) -> String) -> (Vec<String>, Origin) {
    (vec![words(&setting.value)], setting.origin.clone())
}

fn optional<T>(setting: Option<&Setting<T>>, words: impl Fn(&T) -> String) -> (Vec<String>, Origin) {
    setting.map_or((Vec::new(), Origin::Default), |setting| plain(setting, words))
}

fn agent(choice: &AgentChoice) -> String {
    match choice {
        AgentChoice::Named(name) => name.clone(),
        AgentChoice::Command(words) => format!("-- {}", words.join(" ")),
    }
}

fn finish_word(finish: Finish) -> &'static str {
    match finish {
        Finish::Ask => "ask",
        Finish::Cleanup => "cleanup",
        Finish::Keep => "keep",
    }
}

fn bell_word(bell: Bell) -> &'static str {
    match bell {
        Bell::Ring => "true",
        Bell::Silent => "false",
        Bell::Auto => "auto",
    }
}

fn limit(limit: &Option<Duration>) -> String {
    limit.map_or_else(|| "none".to_owned(), duration)
}

/// As it can be written in the configuration.
fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        s if s % 3600 == 0 => format!("{}h", s / 3600),
        s if s % 60 == 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;

    fn listed(entries: &[(&str, &str, &str)]) -> (GitConfig, Vec<Listed>) {
        let bytes: Vec<u8> = entries.iter().flat_map(|(s, k, v)| format!("{s}\0file:x\0{k}\n{v}\0").into_bytes()).collect();
        let git = GitConfig::parse(&bytes).unwrap();
        let settings = Settings::resolve(&Flags::default(), None, &git).unwrap();
        let timeout = crate::config::git_timeout(&git).unwrap();
        let list = listing(&settings, &git, timeout.as_ref());
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
    fn what_is_set_is_listed_with_its_layer() {
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
    fn what_nothing_reads_is_named_with_what_may_be_meant() {
        let (git, _) = listed(&[("local", "ralph.maxretires", "3"), ("local", "ralph.mine.cmd", "x"), ("local", "color.ui", "auto")]);
        let found: Vec<_> = strangers(&git).map(|(entry, near)| (entry.key.as_str(), near)).collect();
        assert_eq!(found, [("ralph.maxretires", Some("ralph.maxRetries"))]);
    }
}
