//! All settings of a run, layered: flag, `git -c`, change file, git config, built-in default.

use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ChangeFile;
use super::git_config::{GitConfig, Layer, boolean, limit, number, tokens};
use super::setting::{Origin, Setting};
use crate::cost::Cost;

const MINUTE: Duration = Duration::from_secs(60);

/// Which agent is to work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentChoice {
    /// A program with its arguments.
    Command(Vec<String>),
    /// One that is configured by name.
    Named(String),
}

/// What happens when the loop has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// Ask on a terminal, else leave the run open.
    Ask,
    /// Back on the original branch, everything uncommitted.
    Cleanup,
    /// Stay on the run's branch.
    Keep,
}

impl FromStr for Finish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ask" => Ok(Finish::Ask),
            "cleanup" => Ok(Finish::Cleanup),
            "keep" => Ok(Finish::Keep),
            _ => Err(format!("'{text}' is not one of ask, cleanup, keep")),
        }
    }
}

/// What happens when an allowance of the agent is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitWait {
    /// Wait until it comes back.
    Wait,
    /// End the loop; the run stays open.
    Stop,
}

impl FromStr for LimitWait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "wait" => Ok(LimitWait::Wait),
            "stop" => Ok(LimitWait::Stop),
            _ => Err(format!("'{text}' is not one of wait, stop")),
        }
    }
}

/// Whether the terminal is to call the user when the loop has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bell {
    /// Always.
    Ring,
    /// Never.
    Silent,
    /// Unless the terminal says that the user is looking at it.
    Auto,
}

impl FromStr for Bell {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Bell::Auto),
            _ => match boolean(text) {
                Ok(true) => Ok(Bell::Ring),
                Ok(false) => Ok(Bell::Silent),
                Err(_) => Err(format!("'{text}' is not one of true, false, auto")),
            },
        }
    }
}

/// What the command line says; nothing here has a default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Flags {
    /// `--agent` or `-- CMD…`.
    pub agent: Option<AgentChoice>,
    /// `--model`.
    pub model: Option<String>,
    /// `--max-cost`.
    pub max_cost: Option<Cost>,
    /// `--max-tokens`.
    pub max_tokens: Option<u64>,
    /// `--max-retries`.
    pub max_retries: Option<u32>,
    /// `--verify`, all of them.
    pub verify: Option<Vec<String>>,
    /// `--attempt-timeout`.
    #[serde(serialize_with = "write_limit", deserialize_with = "read_limit")]
    pub attempt_timeout: Option<Option<Duration>>,
    /// `--idle-timeout`.
    #[serde(serialize_with = "write_limit", deserialize_with = "read_limit")]
    pub idle_timeout: Option<Option<Duration>>,
    /// `--finish`.
    pub finish: Option<Finish>,
    /// `--only`, all of them.
    pub only: Vec<String>,
}

impl Flags {
    /// These flags, and for what they do not say, the ones of an earlier command.
    #[must_use]
    pub fn over(self, earlier: Flags) -> Flags {
        Flags {
            // A model belongs to the agent that it was named for.
            model: if self.agent.is_some() { self.model } else { self.model.or(earlier.model) },
            agent: self.agent.or(earlier.agent),
            max_cost: self.max_cost.or(earlier.max_cost),
            max_tokens: self.max_tokens.or(earlier.max_tokens),
            max_retries: self.max_retries.or(earlier.max_retries),
            verify: self.verify.or(earlier.verify),
            attempt_timeout: self.attempt_timeout.or(earlier.attempt_timeout),
            idle_timeout: self.idle_timeout.or(earlier.idle_timeout),
            finish: self.finish.or(earlier.finish),
            only: if self.only.is_empty() { earlier.only } else { self.only },
        }
    }
}

/// Writes a limit of none as no time: nothing at all is what a limit that was not asked for is written as.
fn write_limit<S: Serializer>(limit: &Option<Option<Duration>>, serializer: S) -> Result<S::Ok, S::Error> {
    limit.map(Option::unwrap_or_default).serialize(serializer)
}

fn read_limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Duration>>, D::Error> {
    let limit = Option::<Duration>::deserialize(deserializer)?;
    Ok(limit.map(|limit| Some(limit).filter(|limit| !limit.is_zero())))
}

/// Every setting with its value and where that came from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The agent, if any layer names one.
    pub agent: Option<Setting<AgentChoice>>,
    /// The model that it is told to use.
    pub model: Option<Setting<String>>,
    /// What a run may cost.
    pub max_cost: Option<Setting<Cost>>,
    /// How many tokens a run may use.
    pub max_tokens: Option<Setting<u64>>,
    /// What happens when an allowance is used up.
    pub limit_wait: Setting<LimitWait>,
    /// The first wait for an allowance whose time is not known.
    pub limit_pause: Setting<Duration>,
    /// Retries after a first attempt.
    pub max_retries: Setting<u32>,
    /// Gates for every story.
    pub verify: Setting<Vec<String>>,
    /// Time limit for an attempt.
    pub attempt_timeout: Setting<Option<Duration>>,
    /// Time limit without output.
    pub idle_timeout: Setting<Option<Duration>>,
    /// Time limit for one gate.
    pub verify_timeout: Setting<Option<Duration>>,
    /// Silence after the promise that counts as lingering.
    pub linger_timeout: Setting<Duration>,
    /// Between TERM and KILL.
    pub grace: Setting<Duration>,
    /// What happens at the end.
    pub finish: Setting<Finish>,
    /// Whether the repository's hooks are gates.
    pub hooks: Setting<bool>,
    /// Whether checkpoints are signed.
    pub sign: Setting<bool>,
    /// The command that is told when the loop has ended.
    pub on_finish: Option<Setting<String>>,
    /// The command that is told when a story has landed or failed.
    pub on_story: Option<Setting<String>>,
    /// Whether the terminal calls the user.
    pub bell: Setting<Bell>,
}

/// A layered value before its default.
struct Layers<'a> {
    flags: &'a Flags,
    file: Option<(&'a ChangeFile, &'a str)>,
    git: &'a GitConfig,
}

impl Layers<'_> {
    fn pick<T>(
        &self,
        flag: Option<(T, &'static str)>,
        from_file: impl Fn(&ChangeFile) -> Option<T>,
        key: &str,
        read: impl Fn(&str) -> Result<T, String> + Copy,
    ) -> Result<Option<Setting<T>>> {
        if let Some((value, name)) = flag {
            return Ok(Some(Setting::new(value, Origin::Flag(name))));
        }
        if let Some(setting) = self.git.get(Layer::Command, key, read)? {
            return Ok(Some(setting));
        }
        if let Some((file, path)) = self.file
            && let Some(value) = from_file(file)
        {
            return Ok(Some(Setting::new(value, Origin::ChangeFile(path.to_owned()))));
        }
        self.git.get(Layer::Files, key, read)
    }

    fn verify(&self) -> Setting<Vec<String>> {
        if let Some(gates) = &self.flags.verify {
            return Setting::new(gates.clone(), Origin::Flag("--verify"));
        }
        if let Some(setting) = self.git.all(Layer::Command, "ralph.verify") {
            return setting;
        }
        if let Some((file, path)) = self.file
            && let Some(gates) = &file.verify
        {
            return Setting::new(gates.clone(), Origin::ChangeFile(path.to_owned()));
        }
        self.git.all(Layer::Files, "ralph.verify").unwrap_or_else(|| Setting::new(Vec::new(), Origin::Default))
    }
}

impl Settings {
    /// Resolves every setting; `file` comes with the path that errors and listings call it.
    ///
    /// # Errors
    /// If a value in git's configuration cannot be read.
    pub fn resolve(flags: &Flags, file: Option<(&ChangeFile, &str)>, git: &GitConfig) -> Result<Self> {
        let layers = Layers { flags, file, git };
        let default = |value| Setting::new(value, Origin::Default);
        let some_limit = |text: &str| limit(text).and_then(|limit| limit.ok_or_else(|| "a limit is needed here".to_owned()));
        Ok(Settings {
            agent: layers.pick(
                flags.agent.clone().map(|agent| (agent, "--agent")),
                |file| file.agent.clone(),
                "ralph.agent",
                |text| Ok(AgentChoice::Named(text.to_owned())),
            )?,
            model: layers.pick(
                flags.model.clone().map(|model| (model, "--model")),
                |file| file.model.clone(),
                "ralph.model",
                |text| Ok(text.to_owned()),
            )?,
            max_cost: layers.pick(flags.max_cost.map(|cost| (cost, "--max-cost")), |file| file.max_cost, "ralph.maxCost", str::parse)?,
            max_tokens: layers.pick(flags.max_tokens.map(|n| (n, "--max-tokens")), |file| file.max_tokens, "ralph.maxTokens", tokens)?,
            limit_wait: layers
                .pick(None, |_| None, "ralph.limitWait", LimitWait::from_str)?
                .unwrap_or(Setting::new(LimitWait::Wait, Origin::Default)),
            limit_pause: layers.pick(None, |_| None, "ralph.limitPause", some_limit)?.unwrap_or(Setting::new(5 * MINUTE, Origin::Default)),
            max_retries: layers
                .pick(flags.max_retries.map(|n| (n, "--max-retries")), |file| file.max_retries, "ralph.maxRetries", number)?
                .unwrap_or(Setting::new(3, Origin::Default)),
            verify: layers.verify(),
            attempt_timeout: layers
                .pick(flags.attempt_timeout.map(|d| (d, "--attempt-timeout")), |file| file.attempt_timeout, "ralph.attemptTimeout", limit)?
                .unwrap_or(default(Some(60 * MINUTE))),
            idle_timeout: layers
                .pick(flags.idle_timeout.map(|d| (d, "--idle-timeout")), |file| file.idle_timeout, "ralph.idleTimeout", limit)?
                .unwrap_or(default(Some(15 * MINUTE))),
            verify_timeout: layers
                .pick(None, |file| file.verify_timeout, "ralph.verifyTimeout", limit)?
                .unwrap_or(default(Some(30 * MINUTE))),
            linger_timeout: layers
                .pick(None, |_| None, "ralph.lingerTimeout", some_limit)?
                .unwrap_or(Setting::new(Duration::from_secs(10), Origin::Default)),
            grace: layers
                .pick(None, |_| None, "ralph.grace", some_limit)?
                .unwrap_or(Setting::new(Duration::from_secs(10), Origin::Default)),
            finish: layers
                .pick(flags.finish.map(|f| (f, "--finish")), |file| file.finish, "ralph.finish", Finish::from_str)?
                .unwrap_or(Setting::new(Finish::Ask, Origin::Default)),
            hooks: layers.pick(None, |_| None, "ralph.hooks", boolean)?.unwrap_or(Setting::new(false, Origin::Default)),
            sign: layers.pick(None, |_| None, "ralph.sign", boolean)?.unwrap_or(Setting::new(false, Origin::Default)),
            on_finish: layers.pick(None, |_| None, "ralph.onFinish", command)?,
            on_story: layers.pick(None, |_| None, "ralph.onStory", command)?,
            bell: layers.pick(None, |_| None, "ralph.bell", Bell::from_str)?.unwrap_or(Setting::new(Bell::Auto, Origin::Default)),
        })
    }
}

fn command(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("a command is needed here".to_owned()) } else { Ok(text.to_owned()) }
}

/// The time limit of our own git calls: `ralph.gitTimeout`, if set.
///
/// # Errors
/// If the value cannot be read.
pub fn git_timeout(git: &GitConfig) -> Result<Option<Setting<Option<Duration>>>> {
    let command = git.get(Layer::Command, "ralph.gitTimeout", limit)?;
    command.map_or_else(|| git.get(Layer::Files, "ralph.gitTimeout", limit), |found| Ok(Some(found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(entries: &[(&str, &str, &str)]) -> GitConfig {
        let bytes: Vec<u8> = entries.iter().flat_map(|(s, k, v)| format!("{s}\0file:x\0{k}\n{v}\0").into_bytes()).collect();
        GitConfig::parse(&bytes).unwrap()
    }

    #[test]
    fn the_strongest_layer_wins_and_is_named() {
        let file = ChangeFile { max_retries: Some(4), ..ChangeFile::default() };
        let files = [("global", "ralph.maxretries", "5")];
        let both = [("global", "ralph.maxretries", "5"), ("command", "ralph.maxretries", "6")];
        let flags = Flags { max_retries: Some(7), ..Flags::default() };
        let none = Flags::default();
        let retries = |flags, file, entries: &[_]| {
            let setting = Settings::resolve(flags, file, &git(entries)).unwrap().max_retries;
            (setting.value, setting.origin.to_string())
        };
        assert_eq!(retries(&none, None, &[]), (3, "built-in default".into()));
        assert_eq!(retries(&none, None, &files), (5, "global git config (file:x)".into()));
        assert_eq!(retries(&none, Some((&file, "x.toml")), &files), (4, "x.toml".into()));
        assert_eq!(retries(&none, Some((&file, "x.toml")), &both), (6, "git -c".into()));
        assert_eq!(retries(&flags, Some((&file, "x.toml")), &both), (7, "option --max-retries".into()));
    }

    #[test]
    fn flags_are_read_back_as_they_were_written() {
        for limit in [None, Some(None), Some(Some(MINUTE))] {
            let flags = Flags { attempt_timeout: limit, idle_timeout: limit, ..Flags::default() };
            let text = serde_json::to_string(&flags).unwrap();
            assert_eq!(serde_json::from_str::<Flags>(&text).unwrap(), flags, "{text}");
        }
    }
}
