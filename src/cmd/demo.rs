//! `git ralph demo`: the same code path as `start`, in a scratch repository, with a scripted agent.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::start;
use crate::cli::{Demo, RunOptions, Start};
use crate::config::{Environment, Finish, Flags};
use crate::error::{ExitStatus, Problem};
use crate::git::Git;
use crate::report::output;

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

const CHECK: &str = r#"# The gate: every line that has been promised so far must hold.
[ ! -f greet.sh ] || [ "$(sh greet.sh)" = "Hello, world" ] || { echo "greet.sh without a name is wrong: $(sh greet.sh)"; exit 1; }
if grep -q shout greet.sh 2>/dev/null; then
    [ "$(sh greet.sh --shout Ada)" = "HELLO, ADA" ] || { echo "expected HELLO, ADA but got: $(sh greet.sh --shout Ada)"; exit 1; }
fi
"#;

/// Shows the loop.
pub async fn run(args: Demo, environment: Environment) -> Result<ExitStatus> {
    let (dir, scratch) = place(&args)?;
    let git = Git::plain(dir.clone(), isolated(&environment));
    prepare(&git, &dir).await?;
    section("the change", &format!("{}/.git/ralph/greeter.toml", dir.display()));
    output::data(CHANGE);
    section("the loop", "git ralph start greeter -- <scripted agent>");
    let agent = std::env::current_exe().context("cannot find this program")?;
    let run = RunOptions {
        agent_command: vec![agent.to_string_lossy().into_owned(), "demo-agent".to_owned()],
        settings: Flags { finish: Some(Finish::Ask), ..Flags::default() },
        ..RunOptions::default()
    };
    let inside = environment.moved_to(&dir, isolated(&environment));
    let started = Start { change: Some("greeter".to_owned()), restart: false, run };
    let ending = start::run(started, inside.clone()).await?;
    if ending != ExitStatus::Done {
        return Ok(ending);
    }
    section("the checkpoints", "git log --oneline ralph/greeter");
    output::data(&(git.call(["log", "--format=%h %s", "ralph/greeter"]).line().await? + "\n"));
    section("what failed is kept", "git for-each-ref refs/ralph/greeter/attempts");
    output::data(&(git.call(["for-each-ref", "--format=%(refname)", "refs/ralph/greeter/attempts"]).line().await? + "\n"));
    section("the end", "git ralph finish --cleanup greeter");
    let finish = crate::cli::FinishArgs { change: Some("greeter".to_owned()), cleanup: true, keep: false, dry_run: false, quiet: false };
    super::finish::run(&finish, inside).await?;
    section("everything is uncommitted on the original branch", "git status --short --branch");
    output::data(&(git.call(["status", "--short", "--branch"]).line().await? + "\n"));
    match scratch {
        Some(scratch) if args.clean => scratch.close().context("cannot delete the scratch repository")?,
        Some(scratch) => output::data(&format!("\nthe scratch repository is {}\n", scratch.keep().display())),
        None => {}
    }
    Ok(ExitStatus::Done)
}

fn place(args: &Demo) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    match &args.dir {
        Some(dir) => {
            fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
            let dir = dir.canonicalize()?;
            if fs::read_dir(&dir)?.next().is_some() {
                bail!(Problem::refused(format!("{} is not empty", dir.display())).hint("git ralph demo --dir <new directory>"));
            }
            Ok((dir, None))
        }
        None => {
            let scratch = tempfile::Builder::new().prefix("git-ralph-demo-").tempdir().context("cannot create a scratch directory")?;
            Ok((scratch.path().canonicalize()?, Some(scratch)))
        }
    }
}

async fn prepare(git: &Git, dir: &Path) -> Result<()> {
    git.call(["init", "-q", "-b", "main"]).output().await?;
    fs::write(dir.join("README.md"), "# A greeter\n")?;
    fs::write(dir.join("check.sh"), CHECK)?;
    git.call(["add", "-A"]).output().await?;
    git.call(["commit", "-q", "-m", "A greeter to be"]).output().await?;
    fs::create_dir_all(dir.join(".git/ralph"))?;
    fs::write(dir.join(".git/ralph/greeter.toml"), CHANGE)?;
    Ok(())
}

/// The demo is the same everywhere: no configuration but its own, an identity of its own.
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

fn section(title: &str, command: &str) {
    output::data(&format!("\n== {title}: {command}\n"));
}
