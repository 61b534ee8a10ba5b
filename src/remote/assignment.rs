//! The command line of a worker: recognises a runner that starts a worker, and adds the arguments of an attempt.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use super::hub::{Hub, HubRef};
use crate::error::Problem;
use crate::git::Oid;
use crate::portable_word::encoded;

/// A runner that ends with `git-ralph worker` or `git ralph worker` and options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRunner {
    /// The repository that both machines can reach.
    pub hub: Hub,
}

impl WorkerRunner {
    /// The worker that a runner starts. `None` if the runner starts no worker.
    ///
    /// # Errors
    /// A [`Problem`] if the worker's options lack `--hub`.
    pub fn of(runner: &[String]) -> Result<Option<Self>> {
        let Some(at) = (0..runner.len()).find_map(|at| behind_worker(runner, at)) else { return Ok(None) };
        let options = &runner[at..];
        let given = options.iter().enumerate().find_map(|(at, word)| match word.strip_prefix("--hub") {
            Some("") => options.get(at + 1).cloned(),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None => None,
        });
        match given {
            Some(url) => Ok(Some(WorkerRunner { hub: Hub::new(url.into())? })),
            None => bail!(
                Problem::fatal("the runner starts 'git ralph worker' without --hub, so the worker has nothing to fetch from")
                    .hint("git ralph worker -h   for its options")
            ),
        }
    }
}

/// The position of the worker's options, if the worker's command begins at `at`.
fn behind_worker(words: &[String], at: usize) -> Option<usize> {
    let name = |at: usize| words.get(at).and_then(|word| Path::new(word).file_name()).and_then(OsStr::to_str);
    match (name(at)?, name(at + 1)?, name(at + 2)) {
        ("git-ralph", "worker", _) => Some(at + 2),
        ("git", "ralph", Some("worker")) => Some(at + 3),
        _ => None,
    }
}

/// One attempt, described for a worker.
#[derive(Clone, Debug)]
pub struct Assignment<'a> {
    /// The commit that the attempt starts from.
    pub base: &'a Oid,
    /// The ref on the hub that points to this commit.
    pub base_ref: &'a HubRef,
    /// The ref on the hub that the worker pushes the result to.
    pub result: &'a HubRef,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Environment variables for the agent.
    pub env: &'a [(OsString, OsString)],
    /// Shell commands that set the workspace up.
    pub setup: &'a [String],
    /// The author name and email address for the agent's commits.
    pub identity: &'a str,
    /// How many bytes of learnings precede the prompt on standard input.
    pub learnings_bytes: usize,
    /// The length of the prompt in bytes.
    pub prompt_bytes: usize,
    /// The text that begins the worker's reports.
    pub report: &'a str,
    /// The agent's program and its arguments.
    pub agent: &'a [OsString],
}

impl Assignment<'_> {
    /// The arguments after the words of the runner. They pass through any number of shells unchanged: `ssh` joins them, and the remote
    /// shell splits them again.
    #[must_use]
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<String> = vec!["--encoded".to_owned()];
        let plain = [
            ("--base", self.base.to_string()),
            ("--base-ref", self.base_ref.name().to_owned()),
            ("--result", self.result.name().to_owned()),
            ("--grace", self.grace.as_secs().max(1).to_string()),
            ("--learnings-bytes", self.learnings_bytes.to_string()),
            ("--prompt-bytes", self.prompt_bytes.to_string()),
            ("--report", self.report.to_owned()),
            ("--identity", encoded(self.identity.as_ref())),
        ];
        words.extend(plain.into_iter().flat_map(|(option, value)| [option.to_owned(), value]));
        for (name, value) in self.env {
            let entry: OsString = [name.as_os_str(), OsStr::new("="), value].into_iter().collect();
            words.extend(["--env".to_owned(), encoded(&entry)]);
        }
        words.extend(self.setup.iter().flat_map(|command| ["--setup".to_owned(), encoded(command.as_ref())]));
        words.push("--".to_owned());
        words.extend(self.agent.iter().map(|word| encoded(word)));
        words.into_iter().map(OsString::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub_of(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        WorkerRunner::of(&words).unwrap().map(|worker| worker.hub.url().to_string_lossy().into_owned())
    }

    #[test]
    fn a_worker_is_recognised_by_its_name_and_the_word_behind_it() {
        let table = [
            ("ssh host git-ralph worker --hub ssh://hub/x.git", Some("ssh://hub/x.git")),
            ("ssh -p 22 me@host /opt/bin/git-ralph worker --depth 1 --hub=/srv/hub.git --dir /scratch", Some("/srv/hub.git")),
            ("srun git ralph worker --hub /srv/hub.git", Some("/srv/hub.git")),
            ("ssh a ssh b git-ralph worker --hub u", Some("u")),
            ("srun -n1", None),
            ("ssh git-ralph", None),
            ("ssh worker --hub x", None),
            ("docker run git-ralph-worker --hub x", None),
            ("ssh host git worker ralph", None),
        ];
        for (line, hub) in table {
            assert_eq!(hub_of(line).as_deref(), hub, "{line}");
        }
    }

    #[test]
    fn a_worker_without_a_hub_is_an_error_and_so_is_a_hub_that_is_an_option() {
        for line in ["ssh host git-ralph worker", "ssh host git-ralph worker --hub", "git ralph worker --hub=--x"] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert!(WorkerRunner::of(&words).is_err(), "{line}");
        }
    }
}
