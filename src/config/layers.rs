//! The layers in which a setting can be set: option, `git -c`, change file, git's configuration files, built-in default.

use anyhow::{Result, anyhow};

use super::git_config::{GitConfig, GitLayer};
use super::setting::{Origin, Setting};
use super::setting_type::{SettingType, TimeLimit};
use super::table::Settings;

/// The value of a setting of the given type.
pub type Value<T> = <T as SettingType>::Value;

/// Where to look for the value of a setting.
pub struct Layers<'a> {
    /// The path of the change file.
    pub path: Option<&'a str>,
    /// git's configuration.
    pub git: &'a GitConfig,
}

impl Layers<'_> {
    /// The value from the strongest layer that has one. `flag` and `in_file` are the values of the option and the
    /// change file.
    ///
    /// # Errors
    /// If git's configuration contains an invalid value.
    pub fn strongest<T: SettingType>(
        &self,
        key: &str,
        flag: Option<(Value<T>, &'static str)>,
        in_file: Option<Value<T>>,
    ) -> Result<Option<Setting<Value<T>>>> {
        if let Some((value, option)) = flag {
            return Ok(Some(Setting::new(value, Origin::Flag(option))));
        }
        if let Some(setting) = self.git.setting::<T>(GitLayer::Command, key)? {
            return Ok(Some(setting));
        }
        if let Some(value) = in_file {
            return Ok(Some(Setting::new(value, Origin::ChangeFile(self.path.unwrap_or_default().to_owned()))));
        }
        self.git.setting::<T>(GitLayer::Files, key)
    }
}

/// The value that was found, or else the default, which is parsed like any other value.
///
/// # Errors
/// If the default is invalid, which a test of the table rules out.
pub fn or_default<T: SettingType>(found: Option<Setting<Value<T>>>, key: &str, default: &str) -> Result<Setting<Value<T>>> {
    if let Some(setting) = found {
        return Ok(setting);
    }
    let value = T::from_text(default).map_err(|why| anyhow!("bad value for {key} in {}: {why}", Origin::Default))?;
    Ok(Setting::new(value, Origin::Default))
}

/// The time limit of git-ralph's own git calls, if it is set. It is read separately, because it is needed before the
/// change is known, and because an invalid value of another setting must not stop `doctor`.
///
/// # Errors
/// If the value is invalid.
pub fn git_timeout(git: &GitConfig) -> Result<Option<Setting<Value<TimeLimit>>>> {
    Layers { path: None, git }.strongest::<TimeLimit>("ralph.gitTimeout", None, None)
}

impl Settings {
    /// Whether attempts should run in private clones.
    #[must_use]
    pub fn wants_isolation(&self) -> bool {
        self.isolate.value || self.jobs.value > 1 || matches!(self.jobs.origin, Origin::Flag(_))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{ChangeFile, FileSettings, Flags, GitConfig, Settings};

    fn git(entries: &[(&str, &str, &str)]) -> GitConfig {
        let bytes: Vec<u8> = entries.iter().flat_map(|(s, k, v)| format!("{s}\0file:x\0{k}\n{v}\0").into_bytes()).collect();
        GitConfig::parse(&bytes).unwrap()
    }

    #[test]
    fn the_strongest_layer_wins_and_is_named() {
        let settings = FileSettings { max_retries: Some(4), ..FileSettings::default() };
        let file = ChangeFile { settings, ..ChangeFile::default() };
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
    fn a_list_is_taken_whole_from_the_strongest_layer() {
        let file = |gates: &[&str]| ChangeFile {
            settings: FileSettings { verify: Some(gates.iter().map(|gate| (*gate).to_owned()).collect()), ..FileSettings::default() },
            ..ChangeFile::default()
        };
        let verify = |file: Option<&ChangeFile>, entries: &[_]| {
            let file = file.map(|file| (file, "x.toml"));
            Settings::resolve(&Flags::default(), file, &git(entries)).unwrap().verify.value
        };
        let files = [("global", "ralph.verify", "a"), ("local", "ralph.verify", "b")];
        let both = [("global", "ralph.verify", "a"), ("command", "ralph.verify", "c"), ("command", "ralph.verify", "")];
        assert_eq!(verify(None, &[]), Vec::<String>::new());
        assert_eq!(verify(None, &files), ["a", "b"]);
        assert_eq!(verify(Some(&file(&["d"])), &files), ["d"]);
        assert_eq!(verify(Some(&file(&["d"])), &both), Vec::<String>::new());
    }
}
