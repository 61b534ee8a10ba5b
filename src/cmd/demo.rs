//! `git ralph demo`: runs the same code as `start` in a scratch repository, with a scripted agent.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::start;
use crate::cli::{Demo, FinishArgs, RunOptions, Start};
use crate::config::{Environment, Finish, Flags};
use crate::error::{ExitStatus, Problem};
use crate::git::Git;
use crate::report::output;
use crate::shell_word::quoted;

const CHANGE: &str = r#"title = "A greeter"
context = "A greeter in plain shell: greet.sh, with its tests in check.sh."
verify = ["sh check.sh"]

[[story]]
id = "greet"
title = "Greet the world"
prompt = "Write greet.sh: it prints 'Hello, world'."

[[story]]
id = "name"
title = "Greet by name"
prompt = "greet.sh NAME prints 'Hello, NAME'."
after = ["greet"]

[[story]]
id = "shout"
title = "Shout"
prompt = "greet.sh --shout NAME prints in capitals."
after = ["name"]
"#;

const LANGUAGES: &str = r#"title = "Greetings in other languages"
verify = ["sh check.sh"]
order = "any"
jobs = 2

[[story]]
id = "french"
title = "Greet in French"

[[story]]
id = "german"
title = "Greet in German"

[[story]]
id = "spanish"
title = "Greet in Spanish"
"#;

const CHECK: &str = r#"# The gate: every line that has been promised so far must hold.
[ ! -f greet.sh ] || [ "$(sh greet.sh)" = "Hello, world" ] || { echo "greet.sh without a name is wrong: $(sh greet.sh)"; exit 1; }
if grep -q shout greet.sh 2>/dev/null; then
    [ "$(sh greet.sh --shout Ada)" = "HELLO, ADA" ] || { echo "expected HELLO, ADA but got: $(sh greet.sh --shout Ada)"; exit 1; }
fi
"#;

const NEXT: &str = "
== where to go next
In a repository of yours:

  git ralph doctor           which agents are installed, and whether they work
  git ralph new <change>     writes a change file; fill in the stories
  git ralph start <change>   works through them
  git ralph setup            installs the manual (git help ralph) and shell completion
";

/// How long a section stays on screen before the next one.
const READING: Duration = Duration::from_millis(1500);

/// Plays the demo.
pub async fn run(args: Demo, environment: Environment) -> Result<ExitStatus> {
    let (dir, scratch) = place(&args)?;
    let show = Show {
        git: Git::plain(dir.clone(), isolated(&environment)),
        inside: environment.moved_to(&dir, isolated(&environment)),
        dir,
        slowly: environment.can_draw() && !args.fast,
    };
    show.prepare().await?;
    let ending = show.play().await?;
    match scratch {
        Some(scratch) if args.clean => scratch.close().context("cannot delete the scratch repository")?,
        Some(scratch) => output::data(&format!("\nthe scratch repository is {}\n", scratch.keep().display())),
        None => {}
    }
    Ok(ending)
}

/// A demo that is being played.
struct Show {
    git: Git,
    /// The environment in the scratch repository.
    inside: Environment,
    dir: PathBuf,
    /// Whether it pauses, so that a person can follow.
    slowly: bool,
}

impl Show {
    async fn play(&self) -> Result<ExitStatus> {
        self.section("the change", &format!("{}/.git/ralph/greeter.toml", self.dir.display())).await;
        output::data(CHANGE);
        self.section("the loop, with a scripted agent (its tokens and costs are made up)", "git ralph start greeter").await;
        let ending = self.start("greeter").await?;
        if ending != ExitStatus::Done {
            return Ok(ending);
        }
        self.section("the checkpoints", "git log --oneline ralph/greeter").await;
        self.show(&["log", "--format=%h %s", "ralph/greeter"]).await?;
        self.section("work of failed attempts is saved", "git for-each-ref refs/ralph/greeter/attempts").await;
        self.show(&["for-each-ref", "--format=%(refname)", "refs/ralph/greeter/attempts"]).await?;
        self.section("the end", "git ralph finish --cleanup greeter").await;
        self.finish("greeter").await?;
        self.section("everything is uncommitted on the original branch", "git status --short --branch").await;
        self.show(&["status", "--short", "--branch"]).await?;

        self.section("two stories at a time, in private clones (jobs = 2)", "git ralph start languages").await;
        let ending = self.start("languages").await?;
        if ending != ExitStatus::Done {
            return Ok(ending);
        }
        self.section("your checkout was not touched; now the result is merged into it", "git ralph finish --cleanup languages").await;
        self.finish("languages").await?;
        self.show(&["status", "--short", "--branch"]).await?;
        output::data(NEXT);
        Ok(ExitStatus::Done)
    }

    async fn start(&self, change: &str) -> Result<ExitStatus> {
        let run = RunOptions { settings: Flags { finish: Some(Finish::Ask), ..Flags::default() }, ..RunOptions::default() };
        start::run(Start { change: Some(change.to_owned()), restart: false, run }, self.inside.clone()).await
    }

    async fn finish(&self, change: &str) -> Result<()> {
        let finish = FinishArgs { change: Some(change.to_owned()), cleanup: true, keep: false, dry_run: false, quiet: false };
        super::finish::run(&finish, self.inside.clone()).await.map(drop)
    }

    async fn show(&self, args: &[&str]) -> Result<()> {
        output::data(&(self.git.call(args.iter().copied()).line().await? + "\n"));
        Ok(())
    }

    async fn section(&self, title: &str, command: &str) {
        if self.slowly {
            tokio::time::sleep(READING).await;
        }
        output::data(&format!("\n{} {command}\n", console::style(format!("== {title}:")).bold()));
    }

    async fn prepare(&self) -> Result<()> {
        let (git, dir) = (&self.git, &self.dir);
        git.call(["init", "-q", "-b", "main"]).output().await?;
        fs::write(dir.join("README.md"), "# A greeter\n")?;
        fs::write(dir.join("check.sh"), CHECK)?;
        git.call(["add", "-A"]).output().await?;
        git.call(["commit", "-q", "-m", "A greeter to be"]).output().await?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let slowly = if self.slowly { " --slowly" } else { "" };
        let command = format!("{} demo-agent{slowly}", quoted(&program.to_string_lossy()));
        let name = "demo";
        let settings = [
            ("ralph.agent".to_owned(), name),
            (format!("ralph.{name}.format"), "claude"),
            (format!("ralph.{name}.cmd"), command.as_str()),
            // The demo itself does what the hints suggest.
            ("advice.ralphNextStep".to_owned(), "false"),
        ];
        for (key, value) in &settings {
            git.call(["config", key, value]).output().await?;
        }
        fs::create_dir_all(dir.join(".git/ralph"))?;
        fs::write(dir.join(".git/ralph/greeter.toml"), CHANGE)?;
        fs::write(dir.join(".git/ralph/languages.toml"), LANGUAGES)?;
        Ok(())
    }
}

fn place(args: &Demo) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    match &args.dir {
        Some(dir) => {
            fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
            let dir = dir.canonicalize()?;
            if fs::read_dir(&dir)?.next().is_some() {
                bail!(
                    Problem::refused(format!("{} is not empty", dir.display())).hint("git ralph demo   to use a new temporary directory")
                );
            }
            Ok((dir, None))
        }
        None => {
            let scratch = tempfile::Builder::new().prefix("git-ralph-demo-").tempdir().context("cannot create a scratch directory")?;
            Ok((scratch.path().canonicalize()?, Some(scratch)))
        }
    }
}

/// The environment of the demo, with its own configuration and identity, so that it looks the same everywhere.
fn isolated(environment: &Environment) -> Vec<(OsString, OsString)> {
    let mut env = environment.for_git();
    let own = [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "git-ralph demo"),
        ("GIT_AUTHOR_EMAIL", "demo@localhost"),
        ("GIT_COMMITTER_NAME", "git-ralph demo"),
        ("GIT_COMMITTER_EMAIL", "demo@localhost"),
    ];
    env.extend(own.map(|(name, value)| (name.into(), value.into())));
    env
}
