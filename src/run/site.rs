//! The site of a run: the repository, its configuration, its changes and its other runs.

use anyhow::{Result, bail};

use super::{ChangeReader, Holder, Lock, Store};
use crate::config::{Environment, GitConfig, git_config};
use crate::error::Problem;
use crate::git::{Git, Repo};
use crate::shell_word::quoted;

/// A repository with everything that a run needs.
#[derive(Clone, Debug)]
pub struct Site {
    /// The environment of the command.
    pub environment: Environment,
    /// All settings under `ralph.`.
    pub config: GitConfig,
    /// The repository.
    pub repo: Repo,
    /// The runs of the repository.
    pub store: Store,
    /// The changes of the repository.
    pub changes: ChangeReader,
}

/// Reads all settings of git-ralph from git's configuration.
pub async fn read_config(git: &Git) -> Result<GitConfig> {
    let answer = git.call(git_config::QUERY).answer().await?;
    let errors = answer.errors();
    git_config::read(answer.code, &answer.stdout, &errors)
}

impl Site {
    /// git in the directory in which the user typed the command.
    #[must_use]
    pub fn plain_git(&self) -> Git {
        Git::plain(self.environment.cwd.clone(), self.environment.for_discovery())
    }

    /// Takes the lock with this name. Orphans of a killed run are ended.
    ///
    /// # Errors
    /// A [`Problem`] if another git-ralph holds it.
    pub async fn lock(&self, name: &str) -> Result<Lock> {
        let (path, owner_file) = (self.store.lock_file(name), self.store.owner_file(name));
        match Lock::take_over(&path, owner_file.as_deref()).await? {
            Ok(lock) => Ok(lock),
            Err(Holder::Owner(pid)) => {
                bail!(Problem::refused(format!("another git ralph (process {pid}) is working in this work tree")).hint("git ralph stop"))
            }
            Err(Holder::Orphans(pids)) if pids.is_empty() => {
                let why = "processes of a killed run hold its lock, and this system does not say which; end them and try again";
                bail!(Problem::refused(why).hint(format!("fuser {}", quoted(&path.display().to_string()))))
            }
            Err(Holder::Orphans(pids)) => {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                bail!(Problem::refused(format!("cannot end processes that a killed run left: {}", pids.join(" "))))
            }
        }
    }
}
