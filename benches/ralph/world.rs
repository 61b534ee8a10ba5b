//! The environment for measurements: a repository of a given size, isolated from the user's configuration.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::gauge::Stamps;
use crate::player;

/// A repository with a home directory of its own.
pub struct World {
    root: TempDir,
    repo: PathBuf,
}

impl World {
    /// Creates a repository with that many files in one pack, all of them checked out.
    pub fn new(files: usize) -> Result<Self> {
        let root = tempfile::Builder::new().prefix("ralph-bench-").tempdir()?;
        let repo = root.path().canonicalize()?.join("repo");
        for dir in ["repo", "home", "counting"] {
            fs::create_dir(root.path().join(dir))?;
        }
        let world = World { root, repo };
        world.git(&["init", "-q", "-b", "main"])?;
        world.git(&["config", "user.name", "Bench"])?;
        world.git(&["config", "user.email", "bench@example.com"])?;
        world.import(files)?;
        world.git(&["reset", "-q", "--hard"])?;
        world.git(&["status", "-s"])?;
        Ok(world)
    }

    fn import(&self, files: usize) -> Result<()> {
        let mut command = self.command("git", &["fast-import", "--quiet"]);
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        let pipe = child.stdin.take().context("no pipe")?;
        let mut out = std::io::BufWriter::new(pipe);
        write!(out, "commit refs/heads/main\ncommitter B <b@example.com> 1700000000 +0000\ndata 5\nfirst\n")?;
        for number in 0..files {
            let text = format!("file {number}\n").repeat(20);
            let path = format!("d{}/s{}/f{}", number / 1000, number / 100 % 10, number % 100);
            write!(out, "M 100644 inline {path}\ndata {}\n{text}\n", text.len())?;
        }
        drop(out);
        ensure!(child.wait()?.success(), "git fast-import failed");
        Ok(())
    }

    /// The path of the repository.
    pub fn repo(&self) -> &Path {
        &self.repo
    }

    /// The path of a file beside the repository.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The file to which agents write their stamps.
    pub fn stamps(&self) -> PathBuf {
        self.outside("stamps")
    }

    /// Reads and deletes the stamps of the agents.
    pub fn take_stamps(&self) -> Result<Stamps> {
        Stamps::take(&self.stamps())
    }

    /// Writes a change with that many stories.
    pub fn stories(&self, count: usize) -> Result<()> {
        let stories: String = (1..=count).map(|id| format!("[[story]]\nid = \"{id}\"\ntitle = \"Story {id}\"\n")).collect();
        let dir = self.repo.join(".git/ralph");
        fs::create_dir_all(&dir)?;
        Ok(fs::write(dir.join("x.toml"), stories)?)
    }

    /// A command with the directory and the environment of this world.
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.args(args).current_dir(&self.repo).env_clear().env("PATH", path).env("HOME", self.outside("home"));
        command.env("LC_ALL", "C").env("TZ", "UTC").env("GIT_CONFIG_NOSYSTEM", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs git, which must succeed, and returns its output.
    pub fn git(&self, args: &[&str]) -> Result<String> {
        let output = self.command("git", args).stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
        ensure!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// A git-ralph command, not yet started.
    pub fn ralph(&self, args: &[&str]) -> Command {
        self.command(env!("CARGO_BIN_EXE_git-ralph"), args)
    }

    /// Runs git-ralph, which must end with one of these exit statuses.
    pub fn ralph_ends(&self, args: &[&str], codes: &[i32]) -> Result<()> {
        let output = self.ralph(args).stderr(Stdio::piped()).output()?;
        let code = output.status.code().unwrap_or(-1);
        ensure!(codes.contains(&code), "git ralph {args:?} ended with {code}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// A shell script in which `$player` is the agent and `$stamps` its file, as in `$player edit $stamps`.
    pub fn shell(&self, script: &str) -> Result<Command> {
        let mut command = self.command("sh", &["-c", script]);
        command.env("player", format!("{} {}", self_path()?, player::WORD)).env("stamps", self.stamps());
        Ok(command)
    }

    /// The command line of an agent with this role, to be put after `start x --`.
    pub fn agent(&self, part: &str) -> Result<Vec<String>> {
        Ok(vec![self_path()?, player::WORD.to_owned(), part.to_owned(), self.stamps().display().to_string()])
    }

    /// Configures the agent `pour`, which prints that many bytes in a format, and returns its command.
    pub fn pours(&self, part: &str, format: &str, bytes: u64) -> Result<String> {
        let command = format!("{} {bytes}", self.agent(part)?.join(" "));
        self.git(&["config", "ralph.pour.cmd", &command])?;
        self.git(&["config", "ralph.pour.format", format])?;
        Ok(command)
    }

    /// `git ralph <args> -- <agent>`.
    pub fn with_agent(&self, args: &[&str], part: &str) -> Result<Vec<String>> {
        let args = args.iter().map(|arg| (*arg).to_owned()).chain(["--".to_owned()]);
        Ok(args.chain(self.agent(part)?).collect())
    }

    /// A script that adds a commit that changes another file to the original branch.
    pub fn moving_on(&self) -> String {
        let index = self.outside("other-index").display().to_string();
        format!(
            "set -e; export GIT_INDEX_FILE='{index}'; git read-tree main; blob=$(echo moved | git hash-object -w --stdin); \
             git update-index --add --cacheinfo 100644,$blob,d0/s1/f1; \
             git update-ref refs/heads/main $(echo moved | git commit-tree $(git write-tree) -p main)"
        )
    }

    /// Puts a wrapper before git that writes each command line to the stamps.
    pub fn counting(&self, mut command: Command) -> Result<Command> {
        let path = std::env::var("PATH").unwrap_or_default();
        let real = path.split(':').map(|dir| Path::new(dir).join("git")).find(|git| git.is_file()).context("no git on PATH")?;
        let dir = self.outside("counting");
        let (stamps, real) = (self.stamps().display().to_string(), real.display().to_string());
        fs::write(dir.join("git"), format!("#!/bin/sh\necho \"G $*\" >>'{stamps}'\nexec '{real}' \"$@\"\n"))?;
        fs::set_permissions(dir.join("git"), fs::Permissions::from_mode(0o755))?;
        command.env("PATH", format!("{}:{path}", dir.display()));
        Ok(command)
    }
}

/// Borrows the words.
pub fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// The subcommand of a git call, without the settings before it.
pub fn subcommand(line: &str) -> &str {
    let mut words = line.split(' ');
    while let Some(word) = words.next() {
        match word {
            "-c" => drop(words.next()),
            word if word.starts_with('-') => {}
            word => return word,
        }
    }
    ""
}

fn self_path() -> Result<String> {
    Ok(std::env::current_exe()?.display().to_string())
}
