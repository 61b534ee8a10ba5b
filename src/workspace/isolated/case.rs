//! Refuses workspaces on a file system that ignores case, if the checkout has files whose names differ only in case: a clone there would
//! have one file for both, and a checkpoint would overwrite one with the other.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::git_dir::ignores_case;
use crate::error::Problem;
use crate::git::Repo;

/// The most files that an error names.
const NAMED: usize = 5;

/// Refuses the directory `dir` for workspaces if it ignores case and the checkout needs a directory that does not.
///
/// # Errors
/// A [`Problem`] that names the files.
pub async fn check_case(dir: &Path, repo: &Repo) -> Result<()> {
    let there = dir.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    if !finds_other_case(there, &repo.place.common_dir).with_context(|| format!("cannot use {}", there.display()))? {
        return Ok(());
    }
    let paths = same_but_for_case(repo.files_of_checkout().await?);
    if paths.is_empty() {
        return Ok(());
    }
    let more = paths.len().saturating_sub(NAMED);
    let mut list: String = paths.iter().take(NAMED).map(|path| format!("\n\t{}", path.display())).collect();
    if more > 0 {
        list.push_str(&format!("\n\tand {more} more"));
    }
    bail!(
        Problem::refused(format!("{} ignores case, and these files differ only in case:{list}", there.display()))
            .hint("git config ralph.workspaceDir ~/ralph-workspaces   if that directory does not ignore case")
    )
}

/// Whether the directory `there` ignores case. A directory on the same file system as the git directory behaves as that does.
fn finds_other_case(there: &Path, git_dir: &Path) -> io::Result<bool> {
    if fs::metadata(there)?.dev() == fs::metadata(git_dir)?.dev() {
        return Ok(ignores_case(git_dir));
    }
    let probe = there.join(format!(".git-ralph-case-{}", std::process::id()));
    fs::File::create_new(&probe)?;
    let found = there.join(format!(".GIT-RALPH-CASE-{}", std::process::id())).exists();
    fs::remove_file(&probe)?;
    Ok(found)
}

/// The paths that differ from another one only in case, in any of their parts.
fn same_but_for_case(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut known: HashMap<String, PathBuf> = HashMap::new();
    let mut found = Vec::new();
    for path in paths.iter().flat_map(|path| path.ancestors()).filter(|path| !path.as_os_str().is_empty()) {
        let folded = path.to_string_lossy().to_lowercase();
        match known.get(&folded) {
            None => drop(known.insert(folded, path.to_owned())),
            Some(other) if other != path => {
                for path in [other.as_path(), path] {
                    if !found.iter().any(|known: &PathBuf| known == path) {
                        found.push(path.to_owned());
                    }
                }
            }
            Some(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_directories_that_differ_only_in_case_are_found() {
        let found = |paths: &[&str]| same_but_for_case(paths.iter().map(PathBuf::from).collect());
        assert!(found(&["a", "b", "dir/a", "dir/b"]).is_empty());
        assert_eq!(found(&["a", "A", "b"]), [PathBuf::from("a"), "A".into()]);
        assert_eq!(found(&["dir/x", "Dir/y"]), [PathBuf::from("dir"), "Dir".into()]);
        assert_eq!(found(&["\u{e4}", "\u{c4}"]), [PathBuf::from("\u{e4}"), "\u{c4}".into()]);
    }
}
