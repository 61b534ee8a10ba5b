//! Compares the table of hazards in docs/reliability.md with the table here; `RALPH_BLESS=1` rewrites it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Hazard, what git-ralph does, and the test that shows it. A row without a test is a heading.
const TABLE: &[(&str, &str, &str)] = &[
    ("Kill anywhere", "", ""),
    (
        "git-ralph is killed before or after any git call of `start`",
        "`resume` ends where an undisturbed run ends",
        "a_start_killed_at_any_git_call_ends_in_the_same_place",
    ),
    (
        "a git call of `start` dies, fails or hangs",
        "a clear error; the same command or `resume` ends in the same place",
        "a_start_whose_git_fails_at_any_call_ends_in_the_same_place",
    ),
    (
        "the last journal line is missing, torn or full of zeros",
        "the line is dropped, and the step is repeated",
        "a_start_killed_at_any_journal_write_ends_in_the_same_place",
    ),
    (
        "the agent kills git-ralph",
        "the unfinished attempt is saved and rolled back",
        "an_agent_that_kills_its_start_or_resume_changes_nothing_about_where_it_ends",
    ),
    (
        "`finish --cleanup` is killed, also half-way through the work tree",
        "the same command again ends in the same place",
        "a_cleanup_killed_at_any_git_call_or_journal_write_ends_in_the_same_place",
    ),
    (
        "another command changes or closes the run while the question at its end waits",
        "the answer has no effect, and git-ralph says so",
        "while_the_question_waits_status_says_so_and_other_commands_work",
    ),
    (
        "a branch that the user kept is there when the next run of the change starts",
        "`abort` puts it back; after other endings it stays under a ref that `prune` deletes only if it is named",
        "an_abort_puts_a_kept_branch_back_in_its_place",
    ),
    (
        "`abort` is killed when it has put such a branch back",
        "the same command again leaves the branch alone",
        "an_abort_that_is_killed_after_its_last_ref_leaves_the_kept_branch_alone",
    ),
    (
        "`undo` is disturbed",
        "the same command again ends in the same place",
        "an_undo_disturbed_at_any_git_call_or_journal_write_ends_in_the_same_place",
    ),
    (
        "the loop is killed before it has followed a `hint`, `skip`, `retry` or `done`",
        "the request waits, and `resume` follows it",
        "requests_that_a_killed_loop_did_not_handle_are_handled_by_resume",
    ),
    (
        "the loop is killed after it has followed one",
        "it is not followed a second time",
        "a_request_that_a_loop_handled_before_it_was_killed_is_not_handled_again",
    ),
    (
        "the loop is killed while a story that the user has done by hand is about to land",
        "`resume` lands it",
        "a_story_that_was_done_by_hand_lands_although_the_loop_is_killed_on_the_way",
    ),
    (
        "the user discards work before a cleanup that is killed",
        "it does not come back",
        "work_that_the_user_throws_away_does_not_come_back_with_a_cleanup_that_was_killed",
    ),
    (
        "the user stages something after a finish or an abort was killed",
        "it stays reachable",
        "content_staged_after_a_finish_or_an_abort_was_killed_stays_reachable",
    ),
    ("the user stages something after a start was killed", "it stays reachable", "content_staged_after_a_start_was_killed_stays_reachable"),
    (
        "the user commits on a detached HEAD after a start was killed",
        "the commits are kept under a ref",
        "commits_on_a_detached_head_after_a_start_was_killed_stay_reachable",
    ),
    (
        "the user commits on the run's branch after a finish or an abort was killed",
        "the commit is kept with the run's last state",
        "commits_after_a_finish_or_an_abort_was_killed_stay_reachable",
    ),
    (
        "the user edits files after a finish or an abort was killed",
        "the edits are carried over, and saved with the run",
        "edits_after_a_finish_or_an_abort_was_killed_are_not_lost_by_completing_it",
    ),
    (
        "such edits conflict with what the finish or abort restores",
        "the finish or abort is completed, the edits are kept under a ref and reported",
        "edits_that_conflict_with_a_finish_or_an_abort_that_was_killed_are_kept_under_a_ref",
    ),
    (
        "the user switches branches after a finish was killed",
        "they still get the run's work",
        "a_user_who_switches_branches_after_a_killed_finish_still_gets_the_work",
    ),
    ("a start died before it touched anything", "it does not count as a run", "a_start_that_died_before_it_touched_anything_is_no_run"),
    (
        "an agent outlives a killed loop",
        "`resume` terminates it, even if it ignores SIGTERM",
        "orphans_that_ignore_term_are_ended_on_resume",
    ),
    (
        "an attempt leaves processes without parent, session or environment",
        "git-ralph adopts them, terminates them and reports it",
        "an_orphan_that_cleared_its_environment_is_ended_and_reported",
    ),
    (
        "they ignore TERM and have children of their own",
        "all of them are killed after the grace period",
        "an_orphan_that_ignores_term_is_killed_after_the_grace_with_all_that_it_started",
    ),
    (
        "users, agents and kills do anything, following random plans",
        "everything ever written is in the work tree, under a ref, or in the run's directory; nothing lands without a promise and passing gates",
        "nothing_is_lost_whatever_users_agents_and_kills_do",
    ),
    ("What an agent says", "", ""),
    (
        "says COMPLETE and goes on, says FAILED too (also `Tests: FAILED`), or says it in a comment, a quotation, a fence or its thoughts",
        "not a promise: a promise is the last line of the final message, and alone on it; `0 tests FAILED` is no failure",
        "no_message_of_any_client_that_takes_its_promise_back_is_a_success",
    ),
    (
        "the last message in the stream is from a sub-agent, another session, a tool or a warning",
        "only the client's own final message counts",
        "the_words_of_helpers_tools_and_warnings_are_not_the_final_message",
    ),
    (
        "the final message is on a line of several megabytes, or preceded by other output on its line",
        "it is read; a line that is too long counts as work in progress",
        "a_result_is_read_however_long_its_line_is_and_unreadable_lines_count_as_work",
    ),
    (
        "a command promises and then fails, or is killed behind a shell",
        "the promise does not count",
        "a_promise_before_a_failing_or_killed_command_does_not_count",
    ),
    (
        "ends with a question",
        "its last lines are on the screen, in the events and in `log`",
        "the_question_that_an_agent_ends_with_is_on_the_screen_in_the_events_and_in_the_log",
    ),
    (
        "prints markup, scripts, control sequences, direction overrides or 100 MB",
        "`report` shows it as text and cuts it",
        "whatever_an_agent_prints_is_text_and_takes_little_room",
    ),
    (
        "prints a key or a token, or writes one into a file",
        "`report` and `log` mask it where its form is known, and count it",
        "secrets_are_masked_in_every_format_and_in_the_log_and_counted",
    ),
    ("What an agent does to git", "", ""),
    ("commits, then fails", "the commits are in the rescue ref, the branch is back at the checkpoint", "revert_on_failure"),
    (
        "commits, then ends on another branch that does not contain the checkpoint",
        "both histories are merged before the gates run, and land; or both are in the rescue ref",
        "work_on_the_branch_is_landed_when_the_agent_ends_elsewhere",
    ),
    (
        "does work on another branch that fails a gate",
        "the gate runs on it, and the attempt fails",
        "gates_see_work_that_is_merged_from_another_line_of_history",
    ),
    (
        "commits, goes back to the checkpoint and works on",
        "what lands is what the gates saw; the abandoned commits are kept under a ref and reported",
        "commits_that_an_agent_has_abandoned_do_not_land_unseen_and_are_kept",
    ),
    (
        "rewrites the gates in the change file",
        "judged by the gates it started with; the file is restored, the agent's version is kept and reported",
        "an_agent_that_empties_its_gates_in_the_change_file_is_judged_by_them_and_the_file_is_back",
    ),
    (
        "rewrites them and lands",
        "the next story is judged by the original gates",
        "the_change_file_is_back_after_an_attempt_that_lands_and_gates_the_next_story",
    ),
    (
        "rewrites them and kills git-ralph",
        "the change file and the settings are restored before `resume` reads them",
        "an_agent_that_ungates_itself_and_kills_git_ralph_is_gated_after_the_resume",
    ),
    (
        "changes `ralph.*` or settings that name commands, and lands",
        "restored and reported; other settings stay",
        "settings_that_steer_a_run_or_name_commands_are_put_back_and_named_after_an_attempt_that_lands",
    ),
    (
        "changes settings by which git reads or writes the work tree (`core.symlinks`, `core.fileMode`, `core.autocrlf`, …), and lands",
        "restored and reported before git reads the work tree",
        "settings_that_change_how_git_reads_the_work_tree_are_put_back_before_a_landing_and_an_abort",
    ),
    ("plants hooks and lands", "removed, kept and reported", "hooks_that_a_landed_attempt_plants_are_removed_and_saved"),
    ("removes or bypasses a hook that is a gate", "the hook runs", "the_hooks_that_are_gates_are_those_from_before_the_attempt"),
    (
        "rewrites the script of its gate",
        "lands; reported with the checkpoint, in `log` and in `status`",
        "a_checkpoint_that_changes_a_file_that_its_gate_uses_says_so",
    ),
    (
        "changes a tracked file that the user's git configuration includes, such as one with `ralph.verify`",
        "lands, with the settings that the loop began with; reported with the checkpoint, in `log` and in `status`",
        "a_checkpoint_that_changes_a_file_that_the_configuration_includes_says_so",
    ),
    (
        "commits an ignored file",
        "it is part of the checkpoint, in place and in a private clone",
        "an_ignored_file_that_the_agent_has_committed_is_in_the_checkpoint_and_no_warning_says_otherwise",
    ),
    (
        "writes an ignored file that its gate uses",
        "lands; reported with the checkpoint, in `log` and in `status`",
        "an_ignored_file_that_a_gate_uses_and_the_attempt_has_written_is_reported",
    ),
    (
        "uses up the budget",
        "it is ended, saved and rolled back; that uses no retry",
        "an_attempt_that_uses_up_the_budget_is_ended_and_kept_and_the_next_process_goes_on_with_it",
    ),
    (
        "git-ralph is killed between the verdict and the landing, and files are changed meanwhile",
        "the gates run again before it lands",
        "an_attempt_that_was_accepted_before_a_kill_passes_its_gates_again_before_it_lands",
    ),
    ("says it is done and has changed nothing", "lands with a warning", "a_promise_without_a_change_lands_with_a_warning"),
    (
        "the same, where `ralph.emptyDiff` is `fail`",
        "the attempt fails, and the next prompt says why",
        "a_promise_without_a_change_fails_if_the_settings_say_so_and_the_next_prompt_says_why",
    ),
    (
        "renames, deletes, rewinds or amends the run's branch, or switches to an orphan branch",
        "the branch is restored, the commits are kept",
        "an_agent_that_renames_deletes_or_rewinds_our_branch_changes_nothing",
    ),
    ("commits on a detached HEAD and leaves them", "they are kept under a ref", "commits_that_only_the_log_of_head_knows_are_kept"),
    (
        "deletes or rewrites the user's branches, tags and stash, and runs `gc --prune=now`",
        "all are restored, the agent's versions are kept",
        "branches_tags_and_stash_entries_that_the_agent_destroys_come_back",
    ),
    (
        "destroys what came between two attempts",
        "it is restored too",
        "refs_newer_than_the_start_are_restored_when_a_later_attempt_destroys_them",
    ),
    (
        "deletes or replaces a symbolic ref",
        "it points where it pointed before; moving along with its target does not count as a change",
        "a_symbolic_ref_moves_with_its_target_and_is_restored_as_a_symbolic_ref",
    ),
    (
        "another run works in another work tree meanwhile",
        "its branch is left alone",
        "a_run_in_another_work_tree_is_not_the_agents_doing_and_no_news_here",
    ),
    (
        "a branch is rewritten in the other work tree that it is checked out in",
        "it is left alone and reported; its old value is kept",
        "a_branch_rewritten_where_it_is_checked_out_is_left_alone_and_its_old_commit_is_saved",
    ),
    ("stashes, then fails", "its entry goes with the attempt and is kept there", "stash_entries_of_a_failed_agent_are_removed_and_saved"),
    (
        "git-ralph is killed while it rebuilds the stash",
        "no entry is lost, and the next command completes it",
        "a_kill_while_the_stash_is_rebuilt_loses_no_entry",
    ),
    ("the reflog of the stash has expired", "the entry is kept and restored", "a_stash_whose_log_has_expired_keeps_its_tip"),
    (
        "the user stashes between a crash and `resume`",
        "the entry stays in the stash",
        "a_stash_entry_that_the_user_makes_between_a_crash_and_the_resume_stays_in_the_stash",
    ),
    ("commits to another branch", "left alone and reported", "a_branch_that_gains_commits_is_left_alone_and_reported"),
    (
        "leaves a merge, rebase, cherry-pick or bisect under way",
        "its files are moved aside, its commits are kept",
        "operations_left_under_way_are_moved_aside",
    ),
    ("leaves a rebase with an autostash", "the autostash is in the rescue ref", "an_autostash_of_a_rebase_left_under_way_is_kept"),
    (
        "git is killed and leaves the lock file of git-ralph's own index",
        "moved aside, also on a system that cannot list processes: git inherits the lock of the run",
        "a_cleanup_killed_at_any_git_call_or_journal_write_ends_in_the_same_place",
    ),
    ("leaves lock files", "moved aside if no living process may own them", "locks_left_by_dead_processes_stop_nothing"),
    (
        "the user has the editor of `git commit` open, which keeps `index.lock`",
        "the lock is left alone; a start in place is refused",
        "a_commit_whose_editor_is_open_keeps_its_lock_and_an_in_place_start_is_refused",
    ),
    (
        "edits `.git/config`, hooks or `info/`, then fails",
        "restored; the agent's versions are in the run's directory",
        "configuration_and_hooks_are_restored_after_a_failed_attempt_and_its_version_is_saved",
    ),
    (
        "changes `info/exclude` or `info/attributes`, and lands",
        "restored before the landing; the agent's versions are in the run's directory",
        "rules_in_the_git_directory_that_a_landed_attempt_overwrites_are_restored_and_its_version_is_saved",
    ),
    (
        "plants `shallow`, `info/grafts` or refs below `refs/replace/`, and lands",
        "removed, saved and reported",
        "grafts_shallow_entries_and_replace_refs_that_a_landed_attempt_plants_are_removed_and_reported",
    ),
    (
        "runs `git init` in a directory of tracked files, then fails",
        "the new git directory is moved into the run's directory; one that was there before stays",
        "a_repository_that_a_failed_attempt_makes_of_a_tracked_directory_is_moved_away_and_one_of_the_users_stays",
    ),
    (
        "plants them to hide history from its gates",
        "removed before the gates run, in place and in a private clone",
        "gates_see_the_history_without_what_an_attempt_planted_to_hide_it",
    ),
    (
        "fetches with `--depth`",
        "the entries of `shallow` that the fetched commits need stay, so the repository stays readable; others are removed",
        "entries_of_shallow_that_a_shallow_fetch_needs_stay_and_planted_ones_go",
    ),
    (
        "deletes `info/exclude`",
        "restored and reported as deleted",
        "a_file_of_the_git_directory_that_an_attempt_deletes_is_restored_and_no_version_of_the_attempt_is_promised",
    ),
    (
        "changes a setting that names a command or changes how git reads the repository: `core.*`, `filter.*`, `include.path`, `gc.*`, …",
        "restored and named, whether the attempt lands or fails",
        "every_setting_that_names_a_command_or_blinds_git_is_restored_and_named_whether_the_attempt_lands_or_fails",
    ),
    (
        "changes such settings in `config.worktree` of another work tree",
        "restored and named",
        "settings_of_another_work_tree_that_name_a_command_are_restored_whether_the_attempt_lands_or_fails",
    ),
    (
        "changes the patterns of the user's sparse checkout",
        "the attempt fails, patterns and files are restored",
        "an_attempt_that_changes_the_patterns_of_a_users_sparse_checkout_does_not_land",
    ),
    (
        "sets `core.bare`, `core.worktree` or `core.ignoreStat`",
        "restored even when the attempt lands",
        "settings_that_blind_git_are_put_back_even_when_the_attempt_lands",
    ),
    ("turns on sparse checkout", "the attempt fails, nothing is hidden", "a_sparse_checkout_by_the_agent_hides_nothing"),
    ("removes or garbles HEAD, the index or the logs", "repaired", "a_deleted_head_or_index_is_restored"),
    (
        "makes branches whose names conflict with the run's (`ralph/<change>/x`, `ralph`)",
        "moved aside and kept",
        "branches_above_or_below_ours_are_moved_out_of_the_way",
    ),
    ("deletes `.git/ralph`", "the run's files are restored from hard links", "an_agent_that_deletes_our_state_stops_nothing"),
    (
        "deletes `.git/ralph` after something was moved there",
        "the moved files are restored from hard links, too",
        "files_moved_aside_are_restored_when_an_agent_deletes_the_state_of_the_run",
    ),
    ("edits files behind hooks that are links", "the links stay", "hooks_that_are_links_stay_links_and_are_no_change"),
    ("What could stop a rollback", "", ""),
    (
        "a required clean filter fails or its program is gone",
        "files are saved byte for byte and restored from copies; reported",
        "a_clean_filter_that_fails_or_is_missing_stops_neither_rollback_nor_abort",
    ),
    (
        "a required clean filter hangs",
        "git is stopped after `ralph.gitTimeout`, or ten minutes; then as above",
        "a_clean_filter_that_hangs_stops_neither_rollback_nor_abort",
    ),
    (
        "a file is invalid in its working-tree-encoding",
        "saved byte for byte",
        "a_file_that_is_invalid_in_its_encoding_stops_neither_rollback_nor_abort",
    ),
    (
        "a filter fails when an attempt is to land",
        "the attempt fails: no checkpoint holds unconverted files",
        "a_checkpoint_is_never_made_of_files_that_a_filter_could_not_convert",
    ),
    (
        "the agent leaves a configuration that git cannot read",
        "the configuration from before the attempt is restored, the agent's is kept",
        "a_configuration_that_git_cannot_read_is_replaced_by_the_one_of_before_the_attempt",
    ),
    (
        "the same, or `core.bare`, or a broken HEAD, and git-ralph is killed",
        "the next command repairs it before it runs git",
        "a_repository_that_git_refuses_after_a_kill_can_be_aborted",
    ),
    (
        "the git directory is on another file system than the work tree",
        "files are copied aside instead of renamed",
        "obstacles_are_moved_aside_even_if_the_git_directory_is_on_another_file_system",
    ),
    (
        "a ref names a missing object",
        "the user's refs are restored; any other is left alone and reported, with the command to fix it",
        "a_ref_that_names_a_missing_object_stops_nothing",
    ),
    (
        "the agent deletes, moves or overwrites objects, some or all of them",
        "they are restored from hard links before git runs; no branch is reported as broken",
        "objects_that_an_attempt_deletes_moves_or_overwrites_are_restored_and_no_branch_is_reported_as_broken",
    ),
    (
        "the agent destroys the commit of a branch",
        "git-ralph does not claim that the branch is restored",
        "a_branch_whose_commit_was_destroyed_is_not_reported_as_restored",
    ),
    ("the agent removes `shallow` from a shallow clone", "it is restored", "a_shallow_clone_stays_one_that_git_can_read"),
    ("a branch or tag is called HEAD", "every command works as usual", "a_branch_called_head_is_not_mistaken_for_head"),
    ("the agent removes `objects/info/alternates`", "it is restored", "alternates_that_an_agent_removes_come_back"),
    (
        "the agent makes the work tree or git's directories read-only",
        "permissions are restored, and reported",
        "directories_that_an_agent_makes_read_only_are_usable_again",
    ),
    (
        "the agent moves the git directory, or puts a file or another repository in its place",
        "it is moved back; whatever was in its place is kept",
        "a_git_directory_that_was_moved_or_replaced_is_back_in_its_place",
    ),
    (
        "the agent edits a file within a second of the last checkpoint, and keeps its size and its time of modification",
        "the edit is in the checkpoint, or it is saved and rolled back",
        "edits_within_a_second_that_keep_size_and_times_are_landed_as_the_gates_saw_them_and_rolled_back",
    ),
    (
        "the agent moves the work tree, or puts a link or another directory in its place",
        "it is moved back; whatever was in its place is renamed and not written to",
        "a_work_tree_that_was_moved_is_back_and_no_other_directory_is_taken_for_it",
    ),
    (
        "parts of the git directory are overwritten with garbage, or replaced by another kind of file",
        "moved aside, and restored from what was recorded",
        "parts_of_the_git_directory_that_are_garbage_or_of_another_kind_stop_nothing",
    ),
    ("the agent deletes the git directory", "reported as such", "a_git_directory_that_was_deleted_is_named"),
    (
        "thousands of refs have to be restored",
        "writing them has no time limit other than `ralph.gitTimeout`",
        "writing_refs_has_no_time_limit_of_questions",
    ),
    (
        "files that git cannot add (`git~1`, `.GIT/`), or cannot read",
        "moved aside by a rollback; later attempts do not see them",
        "files_that_git_cannot_add_are_moved_aside_and_spoil_no_later_attempt",
    ),
    ("the same at an abort", "moved aside and reported", "an_abort_moves_files_that_git_cannot_add_aside_and_says_where"),
    (
        "the original branch has moved, or something could not be restored",
        "the abort does not claim that everything is restored",
        "an_abort_does_not_claim_that_a_moved_branch_is_unchanged",
    ),
    ("What a cloned repository may hold", "", ""),
    (
        "`.gitmodules` names a path outside of the work tree",
        "it is not treated as a submodule: nothing outside is touched",
        "a_path_in_gitmodules_that_leads_out_of_the_work_tree_is_no_submodule",
    ),
    (
        "`.gitmodules` names a repository that is not tracked as a submodule",
        "it is not treated as a submodule",
        "a_repository_that_gitmodules_names_but_git_does_not_track_is_no_submodule",
    ),
    (
        "a source is a link out of the repository, or into `.git`",
        "refused: neither read nor written",
        "a_source_that_is_a_link_out_of_the_repository_is_neither_read_nor_written",
    ),
    (
        "a source of any kind is such a link, or below a linked directory; also for `new --from`",
        "refused",
        "no_kind_of_source_is_read_through_a_link_or_a_linked_directory_that_leaves_the_tree",
    ),
    (
        "the agent makes the source a link out of the repository",
        "nothing is written through it",
        "a_source_that_an_agent_makes_a_link_is_not_written_through",
    ),
    ("names that a shell would run", "quoted in every hint", "a_hint_can_be_pasted_whatever_the_names_in_it_are"),
    (
        "files with permissions for their owner alone",
        "git-ralph's copies have the same permissions",
        "copies_of_files_that_are_for_their_owner_alone_are_so_too",
    ),
    ("What an agent does to the state of its run", "", ""),
    (
        "writes a verdict into the journal and kills git-ralph",
        "the line is not believed, because it lacks the keyed digest; it is kept beside the journal",
        "a_verdict_that_an_agent_writes_into_the_journal_lands_nothing",
    ),
    (
        "writes the end of the run into the journal",
        "not believed, the run is open",
        "an_end_of_the_run_that_an_agent_writes_into_the_journal_ends_nothing",
    ),
    (
        "cuts the journal back to a moment before a landing",
        "the attempt in progress at that point is rolled back, not landed",
        "a_journal_that_is_cut_back_to_an_accepted_attempt_lands_nothing",
    ),
    (
        "the same where no key can be kept outside of the repository",
        "an attempt in progress is rolled back, not landed",
        "without_a_key_an_attempt_in_progress_is_not_landed_on_the_word_of_the_journal",
    ),
    ("a garbage line in the journal", "every command continues with the lines before it", "a_garbage_line_stops_no_command"),
    (
        "truncates the journal, or puts a FIFO, a directory or a link in its place, and kills git-ralph",
        "`status` works, `abort` restores the original state",
        "an_abort_succeeds_whatever_an_agent_has_done_to_the_journal",
    ),
    (
        "does that while git-ralph is running",
        "the journal is written again from memory",
        "a_journal_that_an_agent_spoils_is_written_again_from_memory",
    ),
    (
        "corrupts the copy of the user's index",
        "the index is rebuilt from what was staged",
        "a_damaged_copy_of_the_users_index_is_rebuilt_from_the_staged_content",
    ),
    (
        "edits git-ralph's copies of the configuration",
        "the copy outside the repository counts",
        "a_configuration_that_an_agent_writes_into_our_copy_is_not_the_users",
    ),
    (
        "sets assume-unchanged or skip-worktree in git-ralph's private index",
        "that index is not used",
        "bits_in_the_private_index_that_hide_files_do_not_blind_a_rollback",
    ),
    ("plants links in the run's directory", "not followed, moved aside", "links_that_an_agent_plants_are_not_followed"),
    (
        "calls `git ralph abort` and the like",
        "refused, except for commands that only read",
        "commands_that_change_something_are_refused_inside_an_attempt",
    ),
    (
        "leaves a request such as `done` for the loop, by a command or as a file",
        "the command is refused, the file is ignored",
        "an_agent_can_leave_no_request_for_the_loop",
    ),
    ("deletes or replaces the lock file", "the lock is still held", "a_lock_that_an_agent_deletes_or_replaces_is_still_held"),
    (
        "deletes refs below `refs/ralph/`, or all refs, and runs `gc --prune=now`",
        "they are restored with their objects",
        "refs_below_refs_ralph_that_an_agent_deletes_come_back_with_their_objects",
    ),
    (
        "moves a rescue ref",
        "it is restored, the other commit is kept",
        "a_rescue_ref_that_an_agent_moves_is_restored_and_the_other_commit_is_saved",
    ),
    (
        "staged content is deleted from the repository for good",
        "`abort` installs an index that git can use, and reports what is missing",
        "an_abort_installs_no_index_whose_objects_are_gone",
    ),
    ("What is in the tree", "", ""),
    ("ignored files, and `.gitignore` vanishes", "never committed, never removed", "ignored_files_are_neither_committed_nor_removed"),
    ("small ignored files are deleted", "they are restored", "small_ignored_files_that_the_agent_deletes_are_restored"),
    (
        "small ignored files are edited by an attempt that fails",
        "restored; the agent's versions are in the run's directory",
        "small_ignored_files_that_a_failed_attempt_edits_are_restored_and_its_versions_are_saved",
    ),
    (
        "small ignored files are edited by attempts that land",
        "they stay edited, every earlier version is kept; an abort restores the version from before the start",
        "an_ignored_file_that_landed_attempts_edit_stays_so_and_every_version_before_is_kept",
    ),
    (
        "a small ignored file that one attempt made is edited or deleted by a later one",
        "it stays edited or deleted; a copy of every earlier version is in the run's directory",
        "an_ignored_file_that_one_attempt_makes_and_a_later_one_edits_or_deletes_is_kept_as_a_copy",
    ),
    (
        "a small ignored file that `ralph.onStory` made between two attempts is deleted by the second",
        "a copy of it is in the run's directory",
        "an_ignored_file_that_a_command_of_the_users_makes_between_two_attempts_is_copied_before_the_second",
    ),
    (
        "ignored files and directories that were not copied are changed",
        "rollback and abort name them",
        "ignored_files_that_cannot_be_restored_are_reported",
    ),
    (
        "repositories inside the work tree",
        "their files stay, or are moved whole with a failed attempt",
        "nested_repositories_keep_their_files",
    ),
    (
        "a landed attempt has left a repository inside the work tree, and the run is aborted",
        "it stays where it is, and the abort names it",
        "an_abort_names_repositories_that_a_landed_attempt_has_left_in_the_work_tree",
    ),
    (
        "the user's repositories inside the work tree (untracked, gitlinks, ignored) are edited, rewound, deleted or cleaned away",
        "restored after a failed attempt and by an abort; the changed versions are moved aside",
        "repositories_of_the_users_come_back_whatever_a_failed_attempt_does_to_them",
    ),
    (
        "attempts that land change them",
        "they stay changed, every earlier state is kept; an abort restores the state from before the start",
        "a_repository_of_the_users_that_landed_attempts_change_stays_so_until_an_abort",
    ),
    (
        "an attempt changes only the index of one of them",
        "restored after a failed attempt and by an abort; an index that git merely refreshes does not count as changed",
        "content_staged_in_a_nested_repository_is_restored_after_a_failed_attempt_and_an_abort",
    ),
    (
        "one of them is too big to be copied",
        "it is named before the first attempt",
        "a_repository_that_is_too_big_to_be_copied_is_named_before_the_first_attempt",
    ),
    (
        "files and directories change places",
        "restored; ignored files in the way are moved, not removed",
        "files_and_directories_that_change_places_are_restored_with_their_ignored_files",
    ),
    ("a directory becomes a link out of the repository", "the outside is not touched", "a_link_out_of_the_repository_is_not_followed"),
    (
        "names with newlines, quotes, or bytes that are not UTF-8",
        "kept and restored",
        "names_that_are_no_utf8_or_hold_newlines_are_kept_and_restored",
    ),
    ("FIFOs, also as `.gitignore` or in place of a file", "moved aside; git does not block on them", "fifos_and_sockets_stop_nothing"),
    ("modes and dangling links", "restored", "modes_and_links_survive_a_failed_attempt"),
    (
        "an attempt or a landed story adds `.gitattributes` rules and converts files",
        "restored byte for byte by rollback, undo and abort",
        "rules_that_an_attempt_brings_change_no_bytes_that_it_leaves_behind",
    ),
    (
        "binary data and lone CRs under a plain `text`",
        "restored byte for byte",
        "files_marked_as_text_that_do_not_look_like_text_are_restored_byte_for_byte",
    ),
    (
        "a required filter can no longer be run",
        "files are restored without it, small ones byte for byte",
        "a_filter_that_cannot_be_run_does_not_stop_a_rollback_or_an_abort",
    ),
    (
        "the agent turns sparse checkout off and writes to excluded paths",
        "those files are moved aside, sparse checkout is restored",
        "files_that_an_agent_creates_at_paths_excluded_by_sparse_checkout_are_removed_with_its_attempt",
    ),
    (
        "a rollback or an abort, and files that the attempt left alone",
        "they keep their inode, and with it hard links, times and extended attributes",
        "files_that_an_attempt_leaves_alone_keep_their_hard_links_times_and_everything_else",
    ),
    ("files with mode 0600, 0640, 0700", "the same after rollback and abort", "private_files_stay_private"),
    ("directories with mode 0700, 0750", "the same after rollback and abort", "private_directories_stay_private"),
    (
        "the user has files at paths that sparse checkout excludes",
        "kept, landed and restored like all others",
        "the_users_files_at_paths_excluded_by_sparse_checkout_survive_attempts_and_abort",
    ),
    (
        "the agent breaks the `.git` of a submodule",
        "it is moved aside, and the rollback continues",
        "a_submodule_whose_git_file_an_agent_breaks_does_not_stop_a_rollback",
    ),
    (
        "the agent sets `core.autocrlf` for everything",
        "files are written as at the start",
        "line_ends_that_an_agent_configures_for_everything_change_nothing_of_the_users",
    ),
    (
        "committed files with other line endings than `autocrlf`, `eol` or attributes would write",
        "byte for byte as before, and `git status` stays empty",
        "line_ends_of_committed_files_stay_as_they_are_whatever_a_checkout_would_write",
    ),
    (
        "CRLF under `text=auto` or `autocrlf`, mode 0600, empty directories",
        "restored byte for byte",
        "raw_bytes_modes_and_empty_directories_of_the_user_survive_attempts_and_abort",
    ),
    (
        "dirty submodules, and an agent that edits, commits in or deletes them",
        "restored; the changed state is saved in refs of the submodule",
        "submodules_come_back_with_their_dirty_files",
    ),
    (
        "stories that land write in a submodule without committing there, then `undo`",
        "every state is saved in refs of the submodule, the undo restores the state at its checkpoint",
        "every_state_of_a_submodule_between_landed_stories_is_kept_and_an_undo_restores_it",
    ),
    (
        "a second run of the change saves something in the same submodule",
        "it uses another ref name",
        "a_second_run_leaves_what_the_first_has_rescued_in_a_submodule",
    ),
    (
        "an attempt adds a submodule and fails",
        "moved whole into the run's directory",
        "a_submodule_that_a_failed_attempt_adds_goes_with_it",
    ),
    (
        "a submodule that is not in the index, because the user has stashed the commit that adds it",
        "it is restored like any other, also when the attempt lands",
        "a_submodule_that_only_the_stash_names_comes_back_whatever_an_attempt_does_to_it",
    ),
    (
        "the agent deletes `.git/modules`, or replaces a submodule with another repository",
        "the submodule is restored with its own commits; the other repository is moved aside",
        "a_submodule_comes_back_when_an_attempt_deletes_its_git_directory_or_puts_another_repository_in_its_place",
    ),
    (
        "the agent removes or edits a linked work tree inside the work tree",
        "a removed one is restored, with its index; edits stay, and there is a copy from before",
        "a_linked_work_tree_inside_the_work_tree_comes_back_when_an_attempt_removes_it_and_is_left_alone_when_it_is_edited",
    ),
    (
        "another user, such as root in a container, makes files during the attempt",
        "saved, or moved aside where only that user can read them; the work tree is restored",
        "files_of_another_owner_in_a_directory_of_an_ordinary_user_are_rescued_or_moved_aside_and_restored",
    ),
    (
        "the same in directories of that user",
        "saved; rollback and abort restore the rest, name the files that stay, and print the command to fix them",
        "files_in_directories_of_another_owner_stop_neither_rollback_nor_abort_and_are_reported_with_a_command",
    ),
    (
        "the same in directories that only that user may look into",
        "named by rollback and abort; a directory that was unreadable before the run is left alone",
        "a_directory_that_only_another_owner_may_look_into_is_named_by_rollback_and_abort_and_one_of_before_the_run_is_not",
    ),
    (
        "read-only directories, unreadable files and directories",
        "made readable, saved, restored",
        "read_only_and_unreadable_paths_of_an_ordinary_user_are_rescued_and_restored",
    ),
    (
        "the agent overwrites an ignored file and all its copies in the run's directory, or deletes all of the run's files",
        "the ignored file is restored from a copy outside the repository",
        "an_ignored_file_comes_back_when_an_attempt_writes_into_its_copies_or_deletes_all_of_them",
    ),
    ("names that differ only in case", "both are kept", "a_name_that_changes_its_case_is_not_lost"),
    (
        "a 64 MiB file",
        "kept, landed and restored by git; git-ralph's own memory use stays small",
        "a_big_file_survives_rollback_and_landing_and_never_is_in_our_memory",
    ),
    ("What the user does", "", ""),
    (
        "stages something while the index has conflicts, then edits the file",
        "it is saved with the rest; each conflicting version has a name of its own",
        "content_staged_beside_a_conflict_stays_reachable",
    ),
    (
        "makes an ignored file or a repository between a stop or a kill and `resume`, and the next attempt deletes it",
        "it is restored",
        "an_ignored_file_and_a_repository_that_the_user_makes_before_a_resume_come_back",
    ),
    (
        "commits on a branch after a kill, and git is killed while git-ralph examines the branch",
        "a clear error; the branch is not reset",
        "a_branch_that_moves_on_is_not_set_back_when_git_is_killed_while_it_is_asked",
    ),
    (
        "makes a file that git cannot add, then resumes",
        "refused before an agent could lose it",
        "an_edit_that_git_cannot_keep_is_refused_before_an_agent_can_lose_it",
    ),
    (
        "edits a file while a rollback is restoring it",
        "the edit is moved aside and reported, the loop continues",
        "an_edit_between_the_snapshot_and_the_end_of_a_rollback_is_moved_aside_and_stops_nothing",
    ),
    (
        "edits a file while an abort, an undo or a cleanup is restoring it",
        "the edit is moved aside and reported",
        "an_edit_during_an_abort_an_undo_or_a_cleanup_is_moved_aside",
    ),
    ("edits while the agent works", "part of the checkpoint, or in the rescue ref", "user_edits_during_the_loop"),
    (
        "edits between a stop and `resume`",
        "part of the next checkpoint; a failed attempt gives them back",
        "edits_between_a_clean_stop_and_the_resume_are_kept_and_go_into_the_next_checkpoint",
    ),
    (
        "edits, and the agent then discards the edits",
        "reachable under a ref",
        "edits_that_were_adopted_stay_reachable_whatever_the_agent_makes_of_them",
    ),
    (
        "staged, unstaged, intent-to-add, deletions, renames, untracked, then `abort`",
        "index and work tree are restored, the index byte for byte",
        "abort_restores_everything",
    ),
    ("has content that is only staged", "reachable over `finish` and `abort`", "staged_content_stays_reachable_over_finish_and_abort"),
    (
        "stages something, deletes the file, then resumes",
        "it is kept under a ref before the attempt starts",
        "content_staged_before_a_resume_stays_reachable_whatever_the_outcome_of_the_attempt",
    ),
    (
        "something is only staged while an attempt works, and that lands",
        "it is kept under a ref and reported",
        "content_staged_during_a_landed_attempt_is_saved_and_reported",
    ),
    ("starts a second run on a kept branch", "the branch and its rescue refs are kept", "a_kept_branch_is_not_lost_by_a_second_start"),
    ("`start --restart` of an open run", "the old run is kept", "a_second_start_of_an_open_run_is_refused_and_restart_rescues_it"),
    (
        "the original branch moves on and conflicts",
        "nothing is touched, the files are named",
        "a_conflict_with_a_moved_original_touches_nothing",
    ),
    (
        "the original branch is deleted, renamed, or checked out elsewhere",
        "refused with an explanation",
        "an_original_branch_that_is_gone_or_in_use_is_a_clear_error",
    ),
    (
        "the user presses Ctrl-Z",
        "git-ralph and the agent are suspended, `fg` continues both",
        "ctrl_z_suspends_the_agent_too_and_fg_continues_both",
    ),
    (
        "git-ralph is suspended or frozen, or the machine sleeps, for longer than an agent may be silent",
        "the attempt continues: that time counts neither as silence nor as working time",
        "time_in_which_git_ralph_was_stopped_is_no_silence_of_the_agent",
    ),
    (
        "the terminal is resized while a loop runs",
        "the live view adapts, no event line is lost",
        "the_live_view_survives_resizes_and_no_event_line_is_lost",
    ),
    (
        "git-ralph is ended by SIGTERM, or panics, while it reads keys",
        "the terminal's settings are restored",
        "a_terminal_has_its_settings_again_after_a_panic",
    ),
    ("Isolated runs", "", ""),
    (
        "the agent deletes refs, expires reflogs, runs `gc`, removes its `.git`, adds settings, hooks and filters",
        "the checkout, its index, refs and stash are unchanged to the byte; git-ralph runs nothing that the agent configured",
        "the_checkout_is_byte_for_byte_the_same_whatever_the_agent_does_in_its_own_git",
    ),
    (
        "the agent pushes, to a remote or to a path",
        "refused, with an explanation; it can fetch, commit and see all branches and tags",
        "a_clone_has_the_users_branches_tags_remotes_and_settings_and_cannot_push",
    ),
    (
        "the user edits, commits and switches branches while agents work",
        "nothing is disturbed; `finish` asks for the branch that the run was started on",
        "the_user_may_edit_commit_and_switch_while_agents_work",
    ),
    (
        "the checkout has changes that conflict with the result",
        "`finish` changes nothing and names the files; without a conflict it merges, and what is staged stays staged",
        "a_finish_merges_into_a_dirty_checkout_and_a_conflict_changes_nothing_and_names_the_files",
    ),
    (
        "`finish --keep` or `abort`",
        "the checkout is not touched; the result is on the branch or under a ref; the clones are removed",
        "keep_leaves_the_branch_and_abort_leaves_the_checkout_alone",
    ),
    (
        "an attempt fails",
        "its files and commits are saved under a ref; the next attempt starts from a clean checkout",
        "the_work_of_a_failed_attempt_is_saved_and_the_next_one_starts_clean",
    ),
    (
        "the work needs ignored files or installed dependencies",
        "files that are listed and ignored are copied, and never committed; `setup` runs once per clone",
        "ignored_files_that_worktreeinclude_names_are_copied_and_setup_runs_once_per_workspace",
    ),
    (
        "a gate fails because an ignored file is missing in a new clone",
        "the files that were not copied are named once, with the two ways to get them there",
        "a_gate_that_fails_in_a_new_workspace_names_ignored_files_that_were_not_copied",
    ),
    (
        "`setup` fails",
        "the loop ends before the first agent, with the end of its output; no attempt is spent",
        "a_setup_that_fails_stops_before_the_first_agent_and_costs_nothing",
    ),
    (
        "the user changes `setup` or `.worktreeinclude` during a run",
        "the next `resume` sets the clones up again; the user's edits in them are saved",
        "a_setup_that_the_user_changes_runs_again_with_the_next_resume",
    ),
    (
        "the clones would be inside a repository, or where something else is",
        "refused before anything is created",
        "workspaces_are_never_made_inside_a_repository_or_over_something_else",
    ),
    ("a command is typed inside a clone", "it applies to the run of that clone", "commands_work_from_inside_a_workspace"),
    (
        "the agent links `.git/info` or `.git/hooks` of its clone to those of the user",
        "the links are removed; the user's files stay",
        "files_of_the_users_git_directory_stay_when_an_agent_links_its_own_to_them",
    ),
    (
        "the agent deletes its clone, or puts a link in its place",
        "the clone is created again; nothing behind the link is touched",
        "an_agent_that_deletes_or_replaces_its_workspace_harms_nothing_else",
    ),
    (
        "git-ralph is killed while an agent works in a clone",
        "`resume` terminates the agent, saves its work, and continues",
        "an_isolated_run_that_is_killed_goes_on_where_it_was",
    ),
    (
        "several isolated runs and one in place at the same time",
        "each has its own lock, branch and clones",
        "two_isolated_runs_and_one_in_place_go_on_side_by_side",
    ),
    (
        "the stories come from a file in the tree",
        "it is read from the run's branch and marked there, one story per checkpoint",
        "a_source_is_read_from_the_branch_and_marked_there",
    ),
    (
        "the user edits that file in the checkout meanwhile",
        "reported once per loop and in `status`, with the commands that bring the edit in",
        "an_edit_of_the_source_in_the_checkout_is_reported_once_until_it_is_on_the_branch",
    ),
    ("sha256 objects, reftable refs, an unborn branch", "works", "all_kinds_of_repositories_can_be_isolated"),
    (
        "a shallow, partial or sparse clone, a detached HEAD, a linked work tree, a subdirectory",
        "works",
        "shallow_partial_sparse_detached_and_linked_checkouts_can_be_isolated",
    ),
    (
        "`ralph.hooks` is true",
        "the hooks of the user's checkout run in the clone, as gates",
        "hooks_of_the_user_are_gates_in_a_private_clone_too",
    ),
    (
        "the user edits files in a clone between two commands",
        "the edits are saved under a ref and reported",
        "edits_that_a_user_makes_in_a_workspace_between_two_commands_are_saved",
    ),
    (
        "the user commits on the run's branch after an `undo` was killed",
        "the commits are kept under a ref",
        "commits_of_a_user_after_an_undo_that_was_killed_are_kept",
    ),
    (
        "the user commits on the run's branch, and closes the run",
        "`finish --cleanup` brings the commits along; `abort` keeps them under a ref",
        "commits_of_a_user_on_the_branch_are_part_of_the_result_and_kept_by_an_abort",
    ),
    (
        "the user commits, stages or edits something in a clone, and closes the run",
        "everything is saved under a ref, with its commits, before the clones are removed",
        "files_that_the_user_leaves_in_a_workspace_are_saved_when_the_run_is_closed",
    ),
    (
        "a failed attempt adds ignore rules in a clone, and files that they hide",
        "the files are moved into the run's directory before the next attempt, and land with no other story",
        "files_hidden_by_the_ignore_rules_of_one_attempt_land_with_no_other_story",
    ),
    (
        "an agent turns on sparse checkout in its clone",
        "the attempt fails: files that git hid are not files that the agent deleted",
        "an_agent_that_turns_on_sparse_checkout_in_its_clone_does_not_land_the_files_it_hid_as_deleted",
    ),
    (
        "an agent leaves a rebase or a merge with an autostash in its clone",
        "the autostash is saved with the attempt",
        "an_autostash_that_an_agent_leaves_in_its_clone_is_saved",
    ),
    (
        "an agent adds a submodule in its clone",
        "the gitlink lands; the agent's commits and edits in the submodule are saved under a ref of the user's repository",
        "a_submodule_that_an_agent_adds_in_its_clone_lands_and_its_commits_are_saved",
    ),
    (
        "an agent commits on the run's branch in its clone, and ends on another branch",
        "both are merged before the gates run, and land",
        "work_on_both_branches_of_a_clone_lands",
    ),
    ("Agents on other machines", "", ""),
    (
        "the connection to a worker breaks while its agent works",
        "the worker ends the agent with all of its processes and pushes what there is; the attempt is interrupted, uses no retry, and its work is saved",
        "a_connection_that_breaks_is_an_interrupted_attempt_and_costs_no_retry",
    ),
    (
        "the connection breaks before the agent starts",
        "the agent is not started, and the worker leaves nothing behind",
        "a_connection_that_closes_before_the_agent_starts_leaves_nothing",
    ),
    (
        "half of the prompt arrives",
        "the agent is not started",
        "a_prompt_that_ends_early_starts_no_agent_and_its_proper_end_is_no_end_of_the_connection",
    ),
    (
        "the worker cannot push",
        "the attempt is interrupted and uses no retry",
        "a_worker_that_cannot_fetch_or_push_is_an_interrupted_attempt",
    ),
    (
        "the connection breaks after the push",
        "the result counts, if all of the agent's output has arrived",
        "a_result_that_was_pushed_counts_although_the_connection_breaks_after_it",
    ),
    (
        "git-ralph is killed while an agent works on another machine",
        "`resume` saves what the worker has pushed, and deletes the run's refs on the hub",
        "after_a_kill_resume_brings_what_the_worker_has_pushed_and_clears_the_hub",
    ),
    (
        "the hub cannot be reached when a run is closed",
        "the run is closed, and the refs that are left on the hub are named",
        "abort_after_a_kill_clears_the_hub_and_a_hub_that_is_gone_is_reported",
    ),
    (
        "a worker is killed",
        "the next worker ends its agent and removes its workspace",
        "leftovers_of_a_killed_worker_are_ended_and_removed_by_the_next_one_and_a_living_worker_is_left_alone",
    ),
    (
        "a worker comes late, when the attempt is over",
        "it pushes nothing",
        "a_worker_that_comes_late_pushes_nothing_when_the_attempt_is_over",
    ),
    ("the hub gets a push to another ref", "the hook in [runners](runners.md) refuses it", "a_hub_takes_pushes_below_refs_ralph_only"),
    (
        "`--sandbox=auto` with a worker",
        "no sandbox, and a warning that says so",
        "with_a_worker_an_automatic_sandbox_is_off_and_nothing_claims_there_is_one",
    ),
    (
        "a run in place, submodules, filters, a shallow or partial clone",
        "refused before anything is created",
        "a_worker_refuses_unsupported_work_before_it_creates_anything",
    ),
    ("Several stories at once", "", ""),
    (
        "stories that do not depend on each other",
        "they are worked on at the same time, and all land",
        "stories_that_do_not_need_each_other_are_worked_on_at_the_same_time_and_all_land",
    ),
    (
        "two stories change the same lines",
        "the second one is attempted again from the tip, with the conflict in its prompt; that uses no retry",
        "a_conflict_costs_no_retry_and_is_in_the_next_prompt",
    ),
    (
        "two stories pass the gates separately, but not together",
        "the gates run on the merge, and the second story is attempted again",
        "two_stories_whose_gates_pass_apart_and_fail_together_do_not_both_land_untested",
    ),
    (
        "other stories keep landing before a slow one",
        "after the second conflict nothing lands before it",
        "a_story_that_is_beaten_twice_lands_before_any_other",
    ),
    (
        "one bad attempt waits among good ones",
        "a batch whose gates fail is halved until the bad one is found; the good ones land",
        "attempts_that_wait_are_tested_as_one_batch_and_a_batch_that_fails_is_halved",
    ),
    (
        "stories depend on each other, or touch the same paths",
        "they do not run at the same time",
        "stories_with_after_wait_and_those_that_touch_the_same_paths_do_not_run_together",
    ),
    (
        "stories form a list",
        "they are worked on one after the other, with a warning that names `order`",
        "a_list_is_worked_on_one_after_the_other_however_many_jobs_there_are",
    ),
    ("`--limit` with several jobs", "no more stories are started than may land", "a_limit_on_stories_holds_over_all_workspaces"),
    (
        "`stop --now`, Ctrl-C or `kill -9` while several agents work",
        "all of them are ended, their work is saved, and `resume` completes the run",
        "a_stop_ends_all_agents_and_resume_lands_everything",
    ),
    ("several agents reach a usage limit", "the run pauses once", "one_usage_limit_pauses_all_workspaces_once"),
    (
        "the user commits on the run's branch",
        "the commit is adopted, and what lands is merged with it",
        "commits_of_the_user_on_the_branch_are_merged_with_what_lands",
    ),
    (
        "agents tick boxes of the same file at the same time",
        "boxes are ticked when a story lands, so they do not conflict",
        "marks_of_stories_that_land_at_the_same_time_do_not_conflict",
    ),
    (
        "notices of overlapping attempts",
        "`log` shows each with its own attempt",
        "log_shows_a_notice_with_the_attempt_that_it_is_about_also_when_another_one_lands_first",
    ),
    (
        "an agent merges a branch differently from a story that has landed",
        "its changes since its base are merged; nothing that has landed is reverted",
        "a_merge_made_by_the_agent_reverts_nothing_that_another_story_has_landed",
    ),
    ("Runners", "", ""),
    (
        "a job waits in a cluster's queue for longer than an agent may be silent, or work",
        "no time limit counts until the agent starts; `ralph.runnerTimeout` limits the wait",
        "the_time_in_a_runners_queue_is_no_silence_and_no_part_of_the_attempts_time",
    ),
    (
        "a job is cancelled, a node is lost or `srun` is killed; the runner's exit status may be 0",
        "the attempt is rolled back, uses no retry, and is repeated after a pause",
        "a_runner_that_is_killed_or_loses_its_agent_costs_no_retry_whatever_its_exit_status",
    ),
    (
        "a runner starts nothing: a wrong partition, no controller",
        "the loop ends after three times in a row and quotes the runner; no retry is used",
        "a_runner_that_starts_nothing_ends_the_loop_without_a_retry_spent_and_says_why",
    ),
    (
        "a runner loses every agent",
        "the loop ends after ten times in a row without progress; a `resume` tries again",
        "a_runner_that_fails_every_time_ends_the_loop_and_a_resume_tries_again",
    ),
    (
        "a runner loses a gate or cannot start it",
        "the gate is run again; it has not failed",
        "a_gate_that_a_runner_loses_is_run_again_and_is_not_a_gate_that_failed",
    ),
    (
        "`stop --now`, or Ctrl-C once or twice, while a job is queued",
        "the runner is asked to end, so that it takes the job out of the queue",
        "a_queued_job_is_removed_from_the_queue_by_a_stop_by_one_ctrl_c_and_by_two",
    ),
    (
        "git-ralph is killed while a job is queued",
        "`resume` asks the runner to end first",
        "a_queued_job_of_a_killed_git_ralph_is_removed_from_the_queue_by_a_resume",
    ),
    (
        "a runner does not end when it is asked to",
        "it is killed, and a warning says that the agent may still be running elsewhere",
        "a_killed_runner_that_may_have_left_a_program_running_is_reported",
    ),
    ("Error messages of clients", "", ""),
    (
        "an error message only sounds like a usage limit: `(not your usage limit)`, a limit of context, threads, turns or images",
        "git-ralph does not wait: the messages of each client are in a table",
        "a_client_that_only_mentions_a_limit_is_not_waited_for_and_a_misconfigured_one_costs_no_retries",
    ),
    (
        "a login has expired, an organisation is disabled or paused, credits or budgets are used up, a model does not exist",
        "the loop ends at once and quotes the client; no retry is used",
        "an_expired_login_or_used_up_credits_end_the_loop_at_once_and_cost_no_retry",
    ),
    (
        "a usage limit is still in force after every wait",
        "the loop ends after 10 waits in a row, or 30 if the client gives no reset time; the run stays open",
        "a_limit_that_is_there_after_every_wait_ends_the_loop_and_a_resume_tries_again",
    ),
    ("the same failure repeats without end", "the loop ends", "every_play_ends_whatever_happens_again_and_again_forever"),
    (
        "a reset time is given in another time zone, or in a form git-ralph does not understand",
        "the right moment, or a wait of unknown length; never a wrong time",
        "a_reset_is_the_same_moment_wherever_the_machine_is",
    ),
    (
        "the machine's time zone is not the client's",
        "a zone in the message counts, else that of the machine",
        "the_program_reads_a_reset_in_the_zone_of_its_client_and_else_in_that_of_the_machine",
    ),
    ("The environment", "", ""),
    ("failing hooks of every kind", "none runs", "no_hook_runs_and_none_can_stop_a_checkpoint"),
    ("`ralph.hooks = true` and a failing hook", "a failed gate", "with_ralph_hooks_a_failing_hook_is_a_failed_gate"),
    (
        "`commit.gpgSign` is set, but no signing agent is available",
        "not signed, unless `ralph.sign` is true",
        "a_signature_is_made_only_if_ralph_sign_says_so",
    ),
    (
        "templates, editors, pagers, aliases, fsmonitor, split index, gc, autocrlf, …",
        "nothing changes",
        "the_users_configuration_changes_nothing",
    ),
    (
        "`GIT_DIR`, `GIT_INDEX_FILE`, … in the environment",
        "only the repository in question is touched",
        "git_variables_of_the_surroundings_change_nothing",
    ),
    ("sha256 and reftable repositories", "work like any other", "other_formats_of_repositories_work"),
    ("the user has sparse checkout and filters", "they stay as they are", "a_users_sparse_checkout_and_filters_stay_as_they_are"),
    ("assume-unchanged and skip-worktree", "edits are saved, and the flags are restored", "hidden_edits_are_saved_and_stay_hidden"),
    (
        "unborn branch, detached HEAD, linked work tree, submodule",
        "the run returns to where it started",
        "a_run_from_an_unborn_branch_goes_back_to_it",
    ),
    (
        "a run inside a submodule is killed",
        "it can be finished like any other",
        "a_run_inside_a_submodule_and_with_a_separate_git_directory_finishes_after_a_kill",
    ),
    (
        "a repository that belongs to another user (`safe.directory`)",
        "refused with git's own message",
        "a_repository_of_another_user_is_refused_in_gits_words",
    ),
    (
        "a rebase, cherry-pick, revert or bisect in progress, conflicts, or the branch checked out elsewhere",
        "refused, nothing touched",
        "starting_in_the_middle_of_something_is_refused_and_changes_nothing",
    ),
    (
        "a merge in progress, a branch called `ralph`, a bare repository",
        "refused, nothing touched",
        "starting_where_it_cannot_work_changes_nothing",
    ),
    ("the disk is full", "a clear error; `resume` continues when there is room again", "a_full_disk_is_a_clear_error_and_nothing_is_lost"),
    (
        "the disk is read-only",
        "a clear error; `resume` continues when it is writable again",
        "a_read_only_disk_is_a_clear_error_and_nothing_is_lost",
    ),
    ("Runners and the sandbox", "", ""),
    (
        "a runner is missing, or names an unknown placeholder",
        "a fatal error before anything is created",
        "an_unknown_placeholder_and_a_missing_runner_are_fatal_before_anything_is_made",
    ),
    (
        "the runner is changed while an attempt waits for its gates",
        "the gates run with the runner that the attempt began with",
        "the_runner_of_an_attempts_gates_is_the_one_that_the_attempt_began_with",
    ),
    (
        "a runner and its agent ignore TERM",
        "both are killed after the grace period",
        "an_agent_that_ignores_term_behind_a_runner_is_killed_when_its_time_is_up",
    ),
    (
        "a runner ends, and processes that it started elsewhere on the machine do not",
        "they are found by their mark, ended and reported",
        "a_program_that_a_runner_started_elsewhere_and_did_not_end_is_ended_and_reported",
    ),
    (
        "a sandbox is asked for, and bubblewrap is missing or not allowed",
        "a fatal error before anything is created, with the remedy; `auto` warns and continues without one",
        "a_sandbox_that_is_asked_for_and_does_not_work_is_fatal_before_anything_is_made",
    ),
    (
        "a setting asks for the sandbox of another system",
        "a fatal error before anything is created; the hint names the sandbox of this system",
        "the_sandbox_of_another_system_is_fatal_with_the_one_of_this_system_as_the_hint",
    ),
    (
        "an agent plants a program called `bwrap` where it can write",
        "git-ralph does not use it",
        "a_bubblewrap_that_an_agent_could_have_written_is_passed_over",
    ),
    (
        "an agent in the sandbox writes to git directories",
        "they are read-only, those of linked work trees too (`tests/real-sandbox` tries about 50 more things)",
        "a_linked_work_tree_has_both_git_directories_read_only",
    ),
];

fn page() -> String {
    let mut page = "# Reliability\n\nWhat can go wrong during a run, what git-ralph does about it, and the test in `tests/suite/` that shows it. The tables come from\n`tests/suite/reliability.rs`; `RALPH_BLESS=1 cargo test reliability` rewrites this page. What is not covered is in [limits](limits.md),\nwith what is different on [other systems than Linux](limits.md#other-systems-than-linux). The idea behind the tables is in [what is never lost](never-lost.md).\n".to_owned();
    for (hazard, happens, test) in TABLE {
        if test.is_empty() {
            let _ = write!(page, "\n## {hazard}\n\n| hazard | what happens | test |\n|---|---|---|\n");
        } else {
            let _ = writeln!(page, "| {hazard} | {happens} | `{test}` |");
        }
    }
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
        let before = sources.split(&format!("\nfn {test}()")).next().filter(|before| before.len() < sources.len());
        let attributes = before.and_then(|before| before.rsplit("\n\n").next());
        assert!(attributes.is_some_and(|lines| lines.contains("#[test]")), "there is no test {test}");
    }
}
