//! Reads the process environment once, and derives the environments of git, agents and gates from it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// `GIT_*` variables that git-ralph's own git calls keep: configuration files, ssh, author and committer, `git -c`.
const KEPT: [&str; 7] = [
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_CONFIG_PARAMETERS",
    "GIT_EXEC_PATH",
    "GIT_CONFIG_COUNT",
];
const KEPT_PREFIXES: [&str; 6] = ["GIT_SSH", "GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_TRACE"];
/// Set for every git call of git-ralph, so that git never prompts, pages or opens an editor.
const SILENT: [(&str, &str); 8] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("GIT_ASKPASS", "true"),
    ("GIT_MERGE_AUTOEDIT", "no"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("LC_ALL", "C"),
];

/// A snapshot of the environment that the process was started with.
#[derive(Clone, Debug)]
pub struct Environment {
    vars: BTreeMap<OsString, OsString>,
    /// The directory in which the user typed the command.
    pub cwd: PathBuf,
    /// Whether git-ralph can ask questions: input and output are a terminal that can draw them.
    pub interactive: bool,
    /// Whether standard error is a terminal, so that the live view can be drawn.
    pub screen: bool,
    /// Whether standard output is a terminal, so that long text is paged.
    pub display: bool,
}

impl Environment {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// If the working directory no longer exists.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn capture() -> std::io::Result<Self> {
        let screen = std::io::stderr().is_terminal();
        let mut environment = Environment {
            vars: std::env::vars_os().collect(),
            cwd: std::env::current_dir()?,
            interactive: false,
            screen,
            display: std::io::stdout().is_terminal(),
        };
        environment.interactive = environment.can_draw() && std::io::stdin().is_terminal();
        Ok(environment)
    }

    /// The same environment with another working directory and other variables, and without questions.
    #[must_use]
    pub fn moved_to(&self, cwd: &Path, vars: Vec<(OsString, OsString)>) -> Self {
        Environment {
            vars: vars.into_iter().collect(),
            cwd: cwd.to_owned(),
            interactive: false,
            screen: self.screen,
            display: self.display,
        }
    }

    /// Whether the terminal on standard error supports cursor movement; one without `TERM` or with `TERM=dumb` does not.
    #[must_use]
    pub fn can_draw(&self) -> bool {
        self.screen && self.get("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The directory for the user's state files, outside of any repository.
    #[must_use]
    pub fn state_home(&self) -> Option<PathBuf> {
        let set = self.get("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        set.or_else(|| self.get("HOME").map(|home| Path::new(home).join(".local/state")).filter(|path| path.is_absolute()))
    }

    /// Expands `~/` at the beginning of a path, as written in configuration files.
    #[must_use]
    pub fn expanded(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), self.get("HOME")) {
            (Some(rest), Some(home)) => Path::new(home).join(rest),
            _ => path.into(),
        }
    }

    /// The search path for programs, without the directory that git puts in front of it.
    #[must_use]
    pub fn path(&self) -> OsString {
        let path = self.get("PATH").unwrap_or_default();
        let Some(exec_path) = self.get("GIT_EXEC_PATH").map(Path::new) else { return path.to_owned() };
        let kept = std::env::split_paths(path).filter(|dir| dir != exec_path);
        std::env::join_paths(kept).unwrap_or_else(|_| path.to_owned())
    }

    /// The environment for locating the repository: that of the user, but without prompts.
    #[must_use]
    pub fn for_discovery(&self) -> Vec<(OsString, OsString)> {
        self.merged(self.vars.clone(), &SILENT)
    }

    /// The user's environment, unchanged.
    #[must_use]
    pub fn as_typed(&self) -> Vec<(OsString, OsString)> {
        self.vars.clone().into_iter().collect()
    }

    /// The environment of a pager, with the variables that git sets for one unless the user has set them.
    #[must_use]
    pub fn for_pager(&self) -> Vec<(OsString, OsString)> {
        let mut vars = self.vars.clone();
        for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
            vars.entry(name.into()).or_insert_with(|| value.into());
        }
        vars.insert("GIT_PAGER_IN_USE".into(), "1".into());
        vars.into_iter().collect()
    }

    /// The environment of git-ralph's own git calls, without `GIT_*` variables that would
    /// change what git sees, such as `GIT_INDEX_FILE`.
    #[must_use]
    pub fn for_git(&self) -> Vec<(OsString, OsString)> {
        let kept = self.vars.iter().filter(|(name, _)| {
            let name = name.to_string_lossy();
            !name.starts_with("GIT_") || KEPT.contains(&name.as_ref()) || KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        });
        self.merged(kept.map(|(k, v)| (k.clone(), v.clone())).collect(), &SILENT)
    }

    /// The environment of agents and gates: without `GIT_*` variables of this process, without prompts, plus the given variables.
    #[must_use]
    pub fn for_children(&self, extra: &[(&str, OsString)]) -> Vec<(OsString, OsString)> {
        let mut vars: BTreeMap<_, _> = self
            .vars
            .iter()
            .filter(|(name, _)| {
                let name = name.to_string_lossy();
                !name.starts_with("GIT_") || name.starts_with("GIT_SSH") || is_config_place(&name)
            })
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        vars.insert("PATH".into(), self.path());
        for (name, value) in [("GIT_TERMINAL_PROMPT", "0"), ("GIT_EDITOR", "true"), ("GIT_PAGER", "cat")] {
            vars.insert(name.into(), value.into());
        }
        // Settings that would block the agent's commits, or delete objects that no ref keeps yet.
        let quiet = [("commit.gpgSign", "false"), ("gc.auto", "0"), ("maintenance.auto", "false")];
        vars.insert("GIT_CONFIG_COUNT".into(), quiet.len().to_string().into());
        for (n, (key, value)) in quiet.iter().enumerate() {
            vars.insert(format!("GIT_CONFIG_KEY_{n}").into(), key.into());
            vars.insert(format!("GIT_CONFIG_VALUE_{n}").into(), value.into());
        }
        for (name, value) in extra {
            vars.insert(name.into(), value.clone());
        }
        vars.into_iter().collect()
    }

    fn merged(&self, mut vars: BTreeMap<OsString, OsString>, over: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        for (name, value) in over {
            vars.insert(name.into(), value.into());
        }
        vars.into_iter().collect()
    }
}

/// The index of the word that the shell wants completed, if the shell started this process for a completion.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "asked on every start, before anything else is read")]
pub fn completion_word() -> Option<usize> {
    std::env::var_os("GIT_RALPH_COMPLETE")?.to_str()?.parse().ok()
}

/// Whether a variable says where configuration is found. That depends on the machine, not on this repository.
fn is_config_place(name: &str) -> bool {
    matches!(name, "GIT_CONFIG_GLOBAL" | "GIT_CONFIG_SYSTEM" | "GIT_CONFIG_NOSYSTEM" | "GIT_CEILING_DIRECTORIES")
}
