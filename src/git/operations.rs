//! Lists the files that an unfinished merge, rebase, cherry-pick, revert or bisect has in the git directory.

use std::path::Path;

use super::Oid;
use crate::safe_read;

/// One file or directory of an unfinished operation.
#[derive(Clone, Copy, Debug)]
pub struct OperationFile {
    /// Its path in the git directory.
    pub name: &'static str,
    /// The operation that is under way while the file exists; none if the file may outlive its operation.
    pub operation: Option<&'static str>,
    /// The files that contain commit ids: this file, or files in this directory.
    pub commits: &'static [&'static str],
}

const fn file(name: &'static str) -> OperationFile {
    OperationFile { name, operation: None, commits: &[] }
}

const fn of(name: &'static str, operation: &'static str, commits: &'static [&'static str]) -> OperationFile {
    OperationFile { name, operation: Some(operation), commits }
}

/// All files that are moved aside if an operation was left unfinished. In a reftable repository the first three are refs.
pub const OPERATION_FILES: [OperationFile; 19] = [
    of("MERGE_HEAD", "merge", &["MERGE_HEAD"]),
    of("CHERRY_PICK_HEAD", "cherry-pick", &["CHERRY_PICK_HEAD"]),
    of("REVERT_HEAD", "revert", &["REVERT_HEAD"]),
    of("rebase-merge", "rebase", &["rebase-merge/autostash", "rebase-merge/orig-head", "rebase-merge/stopped-sha"]),
    of("rebase-apply", "rebase", &["rebase-apply/autostash", "rebase-apply/orig-head", "rebase-apply/stopped-sha"]),
    of("sequencer", "cherry-pick or revert", &[]),
    of("BISECT_LOG", "bisect", &[]),
    of("BISECT_START", "bisect", &[]),
    OperationFile { name: "MERGE_AUTOSTASH", operation: None, commits: &["MERGE_AUTOSTASH"] },
    OperationFile { name: "REBASE_HEAD", operation: None, commits: &["REBASE_HEAD"] },
    file("MERGE_MSG"),
    file("MERGE_MODE"),
    file("MERGE_RR"),
    file("AUTO_MERGE"),
    file("SQUASH_MSG"),
    file("BISECT_NAMES"),
    file("BISECT_TERMS"),
    file("BISECT_EXPECTED_REV"),
    file("BISECT_ANCESTORS_OK"),
];

/// Also names a commit that an operation left, but is not part of an operation, so it is never moved.
const ORIG_HEAD: &str = "ORIG_HEAD";

/// The commits that only the files of an unfinished operation name, such as an autostash or the original head of a rebase.
#[must_use]
pub fn operation_commits(git_dir: &Path) -> Vec<Oid> {
    let files = OPERATION_FILES.iter().flat_map(|file| file.commits).chain([&ORIG_HEAD]);
    files
        .filter_map(|name| safe_read::text(&git_dir.join(name)).ok())
        .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>())
        .collect()
}
