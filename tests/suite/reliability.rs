//! The table of hazards in docs/reliability.md: written by this test, compared in every other run.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Hazard, what happens, the test that shows it; a row without a test is a heading.
const TABLE: &[(&str, &str, &str)] = &[
    ("Kill anywhere", "", ""),
    (
        "git-ralph is killed before or after any git call of `start`",
        "`resume` ends where an undisturbed run ends",
        "a_start_killed_at_any_git_call_ends_in_the_same_place",
    ),
    (
        "a git call of `start` dies, fails or hangs",
        "an error with words; the same command or `resume` ends in the same place",
        "a_start_whose_git_fails_at_any_call_ends_in_the_same_place",
    ),
    (
        "the last journal line is missing, torn or full of zeros",
        "it is dropped, and the step is done again",
        "a_start_killed_at_any_journal_write_ends_in_the_same_place",
    ),
    (
        "the agent kills git-ralph",
        "the half attempt is rescued and rolled back",
        "an_agent_that_kills_its_start_or_resume_changes_nothing_about_where_it_ends",
    ),
    (
        "`finish --cleanup` is killed, also half-way through the work tree",
        "the same command again ends in the same place",
        "a_cleanup_killed_at_any_git_call_or_journal_write_ends_in_the_same_place",
    ),
    (
        "`undo` is disturbed",
        "the same command again ends in the same place",
        "an_undo_disturbed_at_any_git_call_or_journal_write_ends_in_the_same_place",
    ),
    (
        "the user has thrown work away before a cleanup that was killed",
        "it does not come back",
        "work_that_the_user_throws_away_does_not_come_back_with_a_cleanup_that_was_killed",
    ),
    (
        "the user stages something after a finish or an abort was killed",
        "it stays reachable",
        "what_is_only_staged_after_a_finish_or_an_abort_was_killed_stays_reachable",
    ),
    (
        "the user edits files after a finish or an abort was killed",
        "the edits come along, and are kept with the run",
        "edits_after_a_finish_or_an_abort_was_killed_are_not_lost_by_completing_it",
    ),
    (
        "the user switches branches after a finish was killed",
        "he gets the run's work all the same",
        "a_user_who_switches_branches_after_a_killed_finish_gets_the_work_all_the_same",
    ),
    ("a start died before it touched anything", "it is no run", "a_start_that_died_before_it_touched_anything_is_no_run"),
    ("an agent outlives a killed loop", "it is ended on `resume`, even if it ignores TERM", "orphans_that_ignore_term_are_ended_on_resume"),
    (
        "an attempt leaves processes without parent, session or environment",
        "they become ours, and are ended and said",
        "an_orphan_that_cleared_its_environment_is_ended_and_said",
    ),
    (
        "they ignore TERM and have children of their own",
        "killed after the grace, all of them",
        "an_orphan_that_ignores_term_is_killed_after_the_grace_with_all_that_it_started",
    ),
    ("What an agent does to git", "", ""),
    ("commits, then fails", "the commits are in the rescue, the branch is back at the checkpoint", "revert_on_failure"),
    (
        "commits, then ends on another branch",
        "both lines are landed, or both are in the rescue",
        "work_on_the_branch_is_landed_when_the_agent_ends_elsewhere",
    ),
    (
        "renames, deletes, rewinds or amends our branch, or leaves it for an orphan",
        "the branch is where it belongs, the commits are kept",
        "an_agent_that_renames_deletes_or_rewinds_our_branch_changes_nothing",
    ),
    ("commits on a detached HEAD and leaves them", "they are kept under a ref", "commits_that_only_the_log_of_head_knows_are_kept"),
    (
        "deletes or rewrites the user's branches, tags and stash, and runs `gc --prune=now`",
        "all are back, its versions are kept",
        "branches_tags_and_stash_entries_that_the_agent_destroys_come_back",
    ),
    (
        "destroys what came between two attempts",
        "it comes back too",
        "what_came_between_two_attempts_comes_back_when_the_later_one_destroys_it",
    ),
    (
        "deletes or replaces a symbolic ref",
        "it stands for what it stood for; one that merely moves with its target is no change",
        "a_ref_that_stands_for_another_one_moves_with_it_and_comes_back_as_what_it_was",
    ),
    (
        "another run works in another work tree meanwhile",
        "its branch is left alone and said",
        "a_run_in_another_work_tree_is_not_the_agents_doing",
    ),
    (
        "a branch is rewritten in the other work tree that it is checked out in",
        "it is left alone and said, what it was is kept",
        "a_branch_that_is_rewritten_where_it_is_checked_out_is_left_alone_and_what_it_was_is_kept",
    ),
    ("stashes, then fails", "its entry goes with the attempt and is kept there", "what_a_failed_agent_stashes_goes_with_it_and_is_kept"),
    ("commits to another branch", "left alone, and said", "a_branch_that_merely_moves_on_is_left_alone_and_said"),
    (
        "leaves a merge, rebase, cherry-pick or bisect under way",
        "its files are moved aside, its commits are kept",
        "operations_left_under_way_are_moved_aside",
    ),
    ("leaves a rebase with an autostash", "the autostash is in the rescue", "an_autostash_of_a_rebase_left_under_way_is_kept"),
    ("leaves lock files", "moved aside if nobody has them open", "locks_left_by_dead_processes_stop_nobody"),
    (
        "edits `.git/config`, hooks or `info/`, then fails",
        "as before; its versions are in the run's directory",
        "configuration_and_hooks_of_a_failed_attempt_are_taken_back_and_kept",
    ),
    (
        "sets `core.bare`, `core.worktree` or `core.ignoreStat`",
        "put back even when the attempt lands",
        "settings_that_blind_git_are_put_back_even_when_the_attempt_lands",
    ),
    ("turns on sparse checkout", "the attempt fails, nothing is hidden", "a_sparse_checkout_by_the_agent_hides_nothing"),
    ("removes or garbles HEAD, the index or the logs", "put right", "a_removed_head_or_index_is_put_right"),
    ("makes branches above or below ours", "moved out of the way, kept", "branches_above_or_below_ours_are_moved_out_of_the_way"),
    ("deletes `.git/ralph`", "the run's files have second names, and are back", "an_agent_that_deletes_our_state_stops_nothing"),
    ("edits files behind hooks that are links", "the links stay", "hooks_that_are_links_stay_links_and_are_no_change"),
    ("What is in the tree", "", ""),
    ("ignored files, and `.gitignore` vanishes", "never committed, never removed", "ignored_files_are_neither_committed_nor_removed"),
    ("small ignored files are deleted", "they come back", "small_ignored_files_that_the_agent_deletes_come_back"),
    (
        "repositories inside the work tree",
        "their files stay, or are moved whole with a failed attempt",
        "nested_repositories_keep_their_files",
    ),
    (
        "files and directories change places",
        "as before; ignored files in the way are moved, not removed",
        "files_and_directories_that_change_places_come_back_with_what_was_ignored_in_them",
    ),
    ("a directory becomes a link out of the repository", "what is outside is not touched", "a_link_out_of_the_repository_is_not_followed"),
    (
        "names with newlines, quotes, or bytes that are no UTF-8",
        "kept and restored",
        "names_that_are_no_utf8_or_hold_newlines_are_kept_and_restored",
    ),
    ("FIFOs, also as `.gitignore` or in place of a file", "moved aside; git is not blocked for ever", "fifos_and_sockets_stop_nobody"),
    ("modes and dangling links", "as before", "modes_and_links_survive_a_failed_attempt"),
    (
        "rules (`.gitattributes`) that an attempt or a landed story brings, and files that it converts",
        "byte for byte as before after rollback, undo and abort",
        "rules_that_an_attempt_brings_change_no_bytes_that_it_leaves_behind",
    ),
    (
        "binary data and lone CRs under a plain `text`",
        "byte for byte as before",
        "what_is_set_to_text_and_looks_like_none_comes_back_as_it_was",
    ),
    (
        "a required filter that cannot be run any more",
        "files come back without it, small ones byte for byte",
        "a_filter_that_cannot_be_run_does_not_stop_a_rollback_or_an_abort",
    ),
    (
        "the agent turns sparse checkout off and writes where files are left out",
        "that is moved aside, sparse checkout is as it was",
        "what_an_agent_puts_where_sparse_checkout_leaves_files_out_goes_with_its_attempt",
    ),
    ("files with mode 0600, 0640, 0700", "the same after rollback and abort", "files_that_are_not_for_everybody_stay_so"),
    ("directories with mode 0700, 0750", "the same after rollback and abort", "directories_that_are_not_for_everybody_stay_so"),
    (
        "files of the user's where sparse checkout leaves files out",
        "kept, landed and given back like all others",
        "what_the_user_has_where_sparse_checkout_leaves_files_out_survives_attempts_and_abort",
    ),
    (
        "the agent breaks the `.git` of a submodule",
        "it is moved aside, the rollback goes on",
        "a_submodule_whose_git_file_an_agent_breaks_does_not_stop_a_rollback",
    ),
    (
        "the agent sets `core.autocrlf` for everything",
        "files are written as at the start",
        "line_ends_that_an_agent_configures_for_everything_change_nothing_of_the_users",
    ),
    (
        "committed files with other line ends than `autocrlf`, `eol` or attributes would write",
        "byte for byte as before, and `git status` stays empty",
        "line_ends_of_committed_files_stay_as_they_are_whatever_a_checkout_would_write",
    ),
    (
        "CRLF under `text=auto` or `autocrlf`, mode 0600, empty directories",
        "byte for byte as before",
        "raw_bytes_modes_and_empty_directories_of_the_user_survive_attempts_and_abort",
    ),
    (
        "dirty submodules, and an agent that edits, commits in or deletes them",
        "as before; what they had become is kept in them",
        "submodules_come_back_with_their_dirty_files",
    ),
    (
        "an attempt adds a submodule and fails",
        "moved whole into the run's directory",
        "a_submodule_that_a_failed_attempt_adds_goes_with_it",
    ),
    (
        "read-only directories, unreadable files and directories",
        "opened up, rescued, restored",
        "read_only_and_unreadable_paths_of_an_ordinary_user_are_rescued_and_restored",
    ),
    ("names that differ in case only", "both are kept", "a_name_that_changes_its_case_is_not_lost"),
    (
        "a file as big as 64 MiB",
        "kept, landed and restored by git alone; our own memory stays small",
        "a_big_file_survives_rollback_and_landing_and_never_is_in_our_memory",
    ),
    ("What the user does", "", ""),
    (
        "makes a file that git cannot add, then resumes",
        "refused before an agent can lose it",
        "an_edit_that_git_cannot_keep_is_refused_before_an_agent_can_lose_it",
    ),
    ("edits while the agent works", "part of the checkpoint, or in the rescue", "user_edits_during_the_loop"),
    (
        "edits between a stop and `resume`",
        "part of the next checkpoint, given back by a failed attempt",
        "edits_between_a_clean_stop_and_the_resume_are_kept_and_go_into_the_next_checkpoint",
    ),
    (
        "edits that the agent then discards",
        "reachable under a ref",
        "edits_that_were_adopted_stay_reachable_whatever_the_agent_makes_of_them",
    ),
    (
        "staged, unstaged, intent-to-add, deletions, renames, untracked, then `abort`",
        "index and work tree as before, the index to the byte",
        "abort_gives_everything_back_as_it_was",
    ),
    ("content that is only staged", "reachable over `finish` and `abort`", "what_is_only_staged_stays_reachable_over_finish_and_abort"),
    ("starts a second run on a kept branch", "the branch and its rescues are kept", "a_kept_branch_is_not_lost_by_a_second_start"),
    ("`start --restart` of an open run", "the old run is kept", "a_second_start_of_an_open_run_is_refused_and_restart_rescues_it"),
    (
        "the original branch moves on and conflicts",
        "nothing is touched, the files are named",
        "a_conflict_with_a_moved_original_touches_nothing",
    ),
    (
        "the original branch is deleted, renamed, or checked out elsewhere",
        "refused with words",
        "an_original_that_is_gone_or_in_use_is_refused_with_words",
    ),
    ("What the surroundings say", "", ""),
    ("hooks of every kind that fail", "none runs", "no_hook_runs_and_none_can_stop_a_checkpoint"),
    ("`ralph.hooks = true` and a failing hook", "a red gate", "with_ralph_hooks_a_failing_hook_is_a_red_gate"),
    ("`commit.gpgSign` with no agent", "not signed, unless `ralph.sign` says so", "a_signature_is_made_only_if_ralph_sign_says_so"),
    (
        "templates, editors, pagers, aliases, fsmonitor, split index, gc, autocrlf, …",
        "nothing changes",
        "the_users_configuration_changes_nothing",
    ),
    ("`GIT_DIR`, `GIT_INDEX_FILE`, … in the environment", "nothing else is touched", "git_variables_of_the_surroundings_change_nothing"),
    ("sha256 and reftable repositories", "as any other", "other_formats_of_repositories_work"),
    ("the user's sparse checkout and filters", "as they are", "a_users_sparse_checkout_and_filters_stay_as_they_are"),
    ("assume-unchanged and skip-worktree", "edits are saved, and hidden again", "hidden_edits_are_saved_and_stay_hidden"),
    (
        "unborn branch, detached HEAD, linked work tree, submodule",
        "back to where it started",
        "a_run_from_an_unborn_branch_goes_back_to_it",
    ),
    (
        "a run inside a submodule is killed",
        "finished as any other",
        "a_run_inside_a_submodule_and_with_a_separate_git_directory_finishes_after_a_kill",
    ),
    ("a repository of somebody else's (`safe.directory`)", "git's own words", "a_repository_of_somebody_elses_is_refused_in_gits_words"),
    (
        "rebase, cherry-pick, revert, bisect, conflicts, or the branch checked out elsewhere",
        "refused, nothing touched",
        "starting_in_the_middle_of_something_is_refused_and_changes_nothing",
    ),
    (
        "a merge is under way, a branch `ralph` exists, a bare repository",
        "refused, nothing touched",
        "starting_where_it_cannot_work_changes_nothing",
    ),
    ("the disk is full", "a clear error; works again when there is room", "a_full_disk_is_a_clear_error_and_nothing_is_lost"),
    ("the disk is read-only", "a clear error; works again when it is not", "a_read_only_disk_is_a_clear_error_and_nothing_is_lost"),
];

fn page() -> String {
    let mut page = "# Reliability\n\nWhat can happen to a run, what happens then, and the test in `tests/suite/` that shows it. The table is written by\n`RALPH_BLESS=1 cargo test reliability` and compared by every other run. What is known not to be covered is below it.\n".to_owned();
    for (hazard, happens, test) in TABLE {
        if test.is_empty() {
            let _ = write!(page, "\n## {hazard}\n\n| hazard | what happens | test |\n|---|---|---|\n");
        } else {
            let _ = writeln!(page, "| {hazard} | {happens} | `{test}` |");
        }
    }
    page.push_str(
        "\n## Limits\n\n- `rm -rf .git` takes everything: only a copy outside of the repository helps.\n\
         - Ignored directories, and ignored files over 1 MiB, that an agent deletes or edits are not brought back.\n\
         - Files with mixed line ends, or behind a filter, over 1 MiB each or 32 MiB together come back as a checkout writes them.\n\
         - Permissions that are the usual ones at the start, and that an attempt changes without git noticing, are not put back.\n\
         - What is in a submodule is kept in the submodule's own refs, not in the rescue of the attempt; submodules of submodules\n  \
         are not looked into.\n\
         - What the user changes in `.git/config` or the hooks while an attempt runs goes with it when it fails; it is kept in the\n  \
         run's directory.\n\
         - An agent that breaks `core.bare` or HEAD and then outlives a killed git-ralph leaves a repository that git itself refuses\n  \
         until the setting is put back by hand.\n",
    );
    page
}

#[test]
fn the_page_on_reliability_is_this_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reliability.md");
    if std::env::var_os("RALPH_BLESS").is_some() {
        fs::write(&path, page()).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), page(), "run RALPH_BLESS=1 cargo test reliability");
}

#[test]
fn every_test_that_the_page_names_exists() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite");
    let sources: String = fs::read_dir(dir).unwrap().filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok()).collect();
    for (_, _, test) in TABLE.iter().filter(|row| !row.2.is_empty()) {
        assert!(sources.contains(&format!("#[test]\nfn {test}()")), "there is no test {test}");
    }
}
