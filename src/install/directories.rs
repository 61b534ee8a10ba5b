//! The directories for the manual pages and completion scripts, below a prefix or for a single user.

use std::path::{Path, PathBuf};

use super::{COMPLETIONS, Installed, PAGES};
use crate::config::Environment;
use crate::error::Problem;

/// The directories that the files are installed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The parent of `man1` and `man5`.
    pub man: PathBuf,
    /// Searched by bash-completion's loader.
    pub bash: PathBuf,
    /// On zsh's fpath.
    pub zsh: PathBuf,
    /// Searched by fish for completions.
    pub fish: PathBuf,
    /// Read by fish when it starts.
    pub fish_start: PathBuf,
}

impl Places {
    /// The directories below a prefix, as in packages.
    #[must_use]
    pub fn below(prefix: &Path) -> Self {
        let share = prefix.join("share");
        Places {
            man: share.join("man"),
            bash: share.join("bash-completion/completions"),
            zsh: share.join("zsh/site-functions"),
            fish: share.join("fish/vendor_completions.d"),
            fish_start: share.join("fish/vendor_conf.d"),
        }
    }

    /// The directories for one user: the manual next to the program if that is writable, everything else in the home
    /// directory.
    ///
    /// # Errors
    /// If HOME is not set.
    pub fn of_user(environment: &Environment) -> Result<Self, Problem> {
        let [data, config] = Self::own_directories(environment)?;
        let beside = beside_program(environment).filter(|dir| is_writable(dir));
        Ok(Places {
            man: beside.unwrap_or_else(|| data.join("man")),
            bash: data.join("bash-completion/completions"),
            zsh: data.join("zsh/site-functions"),
            fish: config.join("fish/completions"),
            fish_start: config.join("fish/conf.d"),
        })
    }

    /// The user's own directories, for data and for configuration.
    ///
    /// # Errors
    /// If HOME is not set.
    pub fn own_directories(environment: &Environment) -> Result<[PathBuf; 2], Problem> {
        let home = environment.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let home = home.ok_or_else(|| Problem::fatal("HOME is not set").hint("git ralph setup --prefix /usr/local"))?;
        let of = |(variable, usual): (&str, &str)| {
            let set = environment.get(variable).map(PathBuf::from).filter(|dir| dir.is_absolute());
            set.unwrap_or_else(|| home.join(usual))
        };
        Ok([("XDG_DATA_HOME", ".local/share"), ("XDG_CONFIG_HOME", ".config")].map(of))
    }

    /// All directories in which an earlier `setup` by this user may have installed files.
    ///
    /// # Errors
    /// If HOME is not set.
    pub fn all_of_user(environment: &Environment) -> Result<Vec<Self>, Problem> {
        let places = Self::of_user(environment)?;
        let share = places.bash.ancestors().nth(2).map(Path::to_owned).unwrap_or_default();
        let mans = beside_program(environment).into_iter().chain([share.join("man")]);
        let others = mans.filter(|man| *man != places.man).map(|man| Places { man, ..places.clone() });
        let others: Vec<Places> = others.collect();
        Ok([places].into_iter().chain(others).collect())
    }

    /// All files with their paths.
    #[must_use]
    pub fn files(&self) -> Vec<Installed> {
        let page = |name: &str| self.man.join(format!("man{}", name.rsplit('.').next().unwrap_or_default())).join(name);
        let pages = PAGES.iter().map(|shipped| Installed { path: page(shipped.name), text: shipped.text });
        let completions = COMPLETIONS.iter().map(|shipped| Installed { path: self.completion(shipped.name), text: shipped.text });
        pages.chain(completions).collect()
    }

    fn completion(&self, name: &str) -> PathBuf {
        match name {
            "git-ralph.bash" => self.bash.join("git-ralph"),
            "git-ralph.fish" => self.fish.join(name),
            "git-ralph.conf.fish" => self.fish_start.join("git-ralph.fish"),
            _ => self.zsh.join(name),
        }
    }

    /// Whether `man` finds the pages without configuration: it searches next to every `bin` on PATH.
    #[must_use]
    pub fn man_is_found(&self, environment: &Environment) -> bool {
        let path = environment.path();
        std::env::split_paths(&path).any(|dir| man_of(&dir).is_some_and(|man| man == self.man))
            || ["/usr/share/man", "/usr/local/share/man"].iter().any(|man| self.man == Path::new(man))
    }
}

/// The manual directory that belongs to a `bin` directory.
fn man_of(bin: &Path) -> Option<PathBuf> {
    bin.ends_with("bin").then(|| Some(bin.parent()?.join("share/man")))?
}

/// The manual directory next to the program on PATH.
fn beside_program(environment: &Environment) -> Option<PathBuf> {
    let found = which::which_in("git-ralph", Some(environment.path()), &environment.cwd).ok()?;
    man_of(found.parent()?)
}

/// Whether files can be created in the directory, or the directory itself if it is missing.
fn is_writable(dir: &Path) -> bool {
    let existing = dir.ancestors().find(|dir| dir.symlink_metadata().is_ok());
    existing.is_some_and(|dir| dir.is_dir() && rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok())
}
