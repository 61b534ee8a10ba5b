//! Checks the repository: its state, identity, hooks, signing and disk space.

use std::path::Path;

use anyhow::Result;

use super::super::context::Context;
use super::check;
use crate::config::git_config::boolean;
use crate::error::Problem;
use crate::git::is_anonymous;
use crate::report::{Check, Health};
use crate::run::left_workspaces;
use crate::shell_word::quoted;
use crate::workspace::Leftover;

const MIB: u64 = 1024 * 1024;
/// With less than this, not even a small run gets far.
const TOO_LITTLE: u64 = 64 * MIB;
const LITTLE: u64 = 1024 * MIB;
/// The hooks that `git commit` runs.
const OF_COMMITS: [&str; 4] = ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"];

/// The check for a directory that is not in a repository.
pub fn nowhere(error: &anyhow::Error) -> Check {
    let check = Check::new("repository", Health::Red, crate::error::words(error));
    let hint = error.chain().find_map(|cause| cause.downcast_ref::<Problem>()).and_then(|problem| problem.hints(&[]).first().cloned());
    check.fixed_by(hint.unwrap_or_else(|| "cd <a repository>, or git init".to_owned()))
}

/// All checks of the repository.
pub async fn checks(context: &Context) -> Vec<Check> {
    vec![
        check("repository", repository(context).await),
        check("identity", identity(context).await),
        check("hooks", hooks(context).await),
        check("signing", signing(context).await),
        disk(context),
    ]
    .into_iter()
    .chain(workspaces(context))
    .collect()
}

/// Private clones that no open run needs; `None` if there are none.
fn workspaces(context: &Context) -> Option<Check> {
    let name = "workspaces";
    match left_workspaces(&context.repo, &context.store, context.workspaces_around().as_deref(), None) {
        Ok(left) if left.is_empty() => None,
        Ok(left) => {
            let size: u64 = left.iter().map(Leftover::bytes).sum();
            let found = format!("{} left by finished and aborted runs, {} MiB", left.len(), size.div_ceil(MIB));
            Some(Check::new(name, Health::Note, found).fixed_by("git ralph prune"))
        }
        Err(error) => Some(Check::new(name, Health::Note, crate::error::words(&error))),
    }
}

/// Checks that no git operation is in progress, and that the directories are writable.
async fn repository(context: &Context) -> Result<Check> {
    let (name, place) = ("repository", &context.repo.place);
    for dir in [&place.common_dir, &place.git_dir, &place.top] {
        if rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_err() {
            let found = format!("{} cannot be written", dir.display());
            return Ok(Check::new(name, Health::Red, found).fixed_by(format!("chmod u+w {}", quoted(&dir.display().to_string()))));
        }
    }
    if let Some(operation) = context.repo.under_way().await? {
        let found = format!("a {operation} is under way in this work tree");
        return Ok(Check::new(name, Health::Red, found).fixed_by(format!("git status   to see how to finish or abort the {operation}")));
    }
    Ok(Check::new(name, Health::Green, format!("{}, on {}", place.top.display(), place.head.words())))
}

async fn identity(context: &Context) -> Result<Check> {
    let answer = context.repo.git.call(["var", "GIT_COMMITTER_IDENT"]).answer().await?;
    let name = "identity";
    if answer.code != 0 {
        let found = "none is configured: commits would be made as git-ralph <git-ralph@localhost>";
        return Ok(Check::new(name, Health::Note, found).fixed_by("git config user.name <you>, and git config user.email <address>"));
    }
    let ident = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    let who = ident.split_once('>').map_or(ident.clone(), |(who, _)| format!("{who}>"));
    Ok(Check::new(name, Health::Green, who))
}

/// Lists the commit hooks, and what checkpoints do about them.
async fn hooks(context: &Context) -> Result<Check> {
    let name = "hooks";
    let plain = context.as_user();
    let dir = plain.call(["rev-parse", "--path-format=absolute", "--git-path", "hooks"]).line().await?;
    let is_there = |hook: &&str| rustix::fs::access(Path::new(&dir).join(hook), rustix::fs::Access::EXEC_OK).is_ok();
    let there: Vec<&str> = OF_COMMITS.into_iter().filter(is_there).collect();
    let gates = context.config.read_last("ralph.hooks", boolean)?.unwrap_or(false);
    let words = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Ok(match (gates, there.is_empty()) {
        (true, _) => Check::new(name, Health::Green, format!("{words}; pre-commit and commit-msg are gates (ralph.hooks)")),
        (false, true) => Check::new(name, Health::Green, "none that a commit would run"),
        (false, false) => Check::new(name, Health::Note, format!("{words}: checkpoints do not run them"))
            .fixed_by("git config ralph.hooks true   to run pre-commit and commit-msg as gates"),
    })
}

/// Checks whether checkpoints are signed. If they should be, signs a trial commit in a temporary object directory.
async fn signing(context: &Context) -> Result<Check> {
    let name = "signing";
    let wanted = context.config.read_last("ralph.sign", boolean)?.unwrap_or(false);
    if !wanted {
        let asked = context.as_user().call(["config", "--type=bool", "--get", "commit.gpgSign"]).answer().await?;
        return Ok(if asked.stdout.starts_with(b"true") {
            Check::new(name, Health::Note, "commit.gpgSign is set, but checkpoints are not signed")
                .fixed_by("git config ralph.sign true   to sign them, if the key needs no passphrase prompt")
        } else {
            Check::new(name, Health::Green, "checkpoints are not signed")
        });
    }
    let scratch = tempfile::tempdir()?;
    let repo = context.repo.clone();
    let repo = if is_anonymous(&repo.git).await? { repo.under_stand_in() } else { repo };
    let git = repo.git.with_env([("GIT_OBJECT_DIRECTORY", scratch.path().as_os_str().to_owned())]);
    let tree = git.call(["mktree"]).input("").line().await?;
    let answer = git.call(["commit-tree", "-S", &tree]).input("a trial signature\n").answer().await?;
    Ok(if answer.code == 0 {
        Check::new(name, Health::Green, "checkpoints are signed (ralph.sign); a trial signature worked")
    } else {
        let why = answer.errors().lines().last().unwrap_or_default().trim().to_owned();
        Check::new(name, Health::Red, format!("a trial signature failed: {why}"))
            .fixed_by("git config user.signingKey <key>, or git config ralph.sign false")
    })
}

fn disk(context: &Context) -> Check {
    let name = "disk";
    let places = [&context.repo.place.common_dir, &context.repo.place.top];
    let free = places
        .iter()
        .filter_map(|dir| rustix::fs::statvfs(dir.as_path()).ok())
        .map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
        .min();
    let Some(free) = free else { return Check::new(name, Health::Note, "cannot find out how much space is free") };
    let words = if free < LITTLE { format!("{} MiB free", free / MIB) } else { format!("{} GiB free", free / MIB / 1024) };
    match free {
        free if free < TOO_LITTLE => {
            Check::new(name, Health::Red, words).fixed_by("git ralph prune   to delete data of old runs, or make room in another way")
        }
        free if free < LITTLE => Check::new(name, Health::Note, format!("only {words}")).fixed_by("git ralph prune"),
        _ => Check::new(name, Health::Green, words),
    }
}
