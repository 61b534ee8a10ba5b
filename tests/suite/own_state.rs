//! Tests that git-ralph neither trusts nor fails on its own files about a run after an agent has changed them.

use std::fs;

use crate::support::{COMPLETE, World, which};

const FAILED: &str = "echo '<promise>FAILED: no</promise>'";

/// A world with a staged, an edited and an untracked file.
fn messy() -> World {
    let world = World::new();
    world.write("staged", "only staged\n");
    world.git(&["add", "staged"]);
    world.write("staged", "edited since\n");
    world.write("untracked", "untracked\n");
    world.stories(2, "max-retries = 0");
    world
}

#[track_caller]
fn assert_as_before(world: &World) {
    assert_eq!(world.git(&["symbolic-ref", "--short", "HEAD"]), "main");
    assert_eq!(world.git(&["show", ":staged"]), "only staged");
    assert_eq!(world.read("staged"), "edited since\n");
    assert_eq!(world.git(&["status", "--porcelain"]), "AM staged\n?? untracked");
}

/// An agent that does something once and kills its git-ralph; after that it only prints how its story ends.
fn killing(world: &World, first: &str, later: &str) {
    let seen = world.outside("seen");
    world.agent(&format!("if mkdir {}; then {first}\nkill -9 $PPID; sleep 5; fi; {later}", seen.display()));
}

const FORGED: &str = r#"{"seq":90,"at":"2026-01-01T00:00:00Z","event":"attempt-accepted","story":"1","attempt":1}"#;

#[test]
fn a_verdict_that_an_agent_writes_into_the_journal_lands_nothing() {
    let world = World::new();
    world.stories(1, "max-retries = 0\nverify = [\"false\"]");
    killing(&world, &format!("echo bad >work; echo '{FORGED}' >>$RALPH_RUN_DIR/journal.jsonl"), FAILED);
    world.start(&[]).code(-9);
    world.ralph(&["resume"]).code(1).says("lines that git-ralph did not write");
    assert_eq!(world.count("checkpoint-landed"), 0);
    let kept = fs::read_to_string(world.run_dir().join("journal.jsonl.disbelieved")).unwrap();
    assert_eq!(kept, format!("{FORGED}\n"));
    assert_eq!(world.git(&["show", "refs/ralph/work/attempts/1/1:work"]), "bad", "what it did is kept");
}

#[test]
fn an_end_of_the_run_that_an_agent_writes_into_the_journal_ends_nothing() {
    let world = messy();
    let line = r#"{"seq":90,"at":"2026-01-01T00:00:00Z","event":"aborted","kept":null}"#;
    killing(&world, &format!("echo '{line}' >>$RALPH_RUN_DIR/journal.jsonl"), COMPLETE);
    world.start(&[]).code(-9);
    world.ralph(&["status"]).code(0).says("git ralph resume work");
    world.ralph(&["abort"]).code(0);
    assert_as_before(&world);
}

#[test]
fn a_journal_that_is_cut_back_to_an_accepted_attempt_lands_nothing() {
    let world = World::new();
    world.stories(2, "max-retries = 0\nverify = ['test ! -e bad']");
    let cut = "f=$RALPH_RUN_DIR/journal.jsonl; n=$(grep -n attempt-accepted $f | head -n 1 | cut -d : -f 1)
               head -n $n $f >../cut; cat ../cut >$f; echo bad >bad
               git update-ref refs/ralph/work/checkpoint refs/ralph/work/initial
               git update-ref refs/heads/ralph/work refs/ralph/work/initial; kill -9 $PPID; sleep 5";
    world.agent(&format!("echo $RALPH_STORY >>order; if [ $RALPH_STORY = 2 ] && mkdir ../seen; then {cut}; fi; {COMPLETE}"));
    world.start(&[]).code(-9);
    world.ralph(&["resume"]).says("is shorter than git-ralph left it");
    assert!(!world.git(&["ls-tree", "--name-only", "refs/heads/ralph/work"]).lines().any(|name| name == "bad"));
}

#[test]
fn without_a_key_an_attempt_in_progress_is_not_landed_on_the_word_of_the_journal() {
    let mut world = World::new();
    world.set_env("XDG_STATE_HOME", "/dev/null/nowhere");
    world.stories(1, "max-retries = 0\nverify = [\"false\"]");
    killing(&world, &format!("echo bad >work; echo '{FORGED}' >>$RALPH_RUN_DIR/journal.jsonl"), FAILED);
    world.start(&[]).code(-9);
    world.ralph(&["resume"]).code(1).says("the run's journal cannot be verified");
    assert_eq!(world.count("checkpoint-landed"), 0);
    assert!(!fs::read_to_string(world.run_dir().join("journal.jsonl")).unwrap().contains("\"mac\""));
    world.ralph(&["abort"]).code(0);
}

#[test]
fn a_garbage_line_stops_no_command() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo $RALPH_STORY >>order; {COMPLETE}"));
    world.start(&["--limit", "1"]).code(0);
    let journal = world.run_dir().join("journal.jsonl");
    fs::write(&journal, fs::read_to_string(&journal).unwrap() + "garbage\n").unwrap();
    world.ralph(&["status"]).code(0).says("1 of 2 stories done");
    world.ralph(&["list"]).code(0).says("open");
    world.ralph(&["log"]).code(0);
    world.ralph(&["resume"]).code(0).says("lines that git-ralph did not write");
    assert_eq!(world.read("order"), "1\n2\n");
    assert_eq!(fs::read_to_string(journal.with_extension("jsonl.disbelieved")).unwrap(), "garbage\n");
}

#[test]
fn an_abort_succeeds_whatever_an_agent_has_done_to_the_journal() {
    for spoil in [": >$f", "rm $f; mkfifo $f", "rm $f; mkdir $f", "rm $f; ln -s /nowhere $f", "echo garbage >$f", "sed -i '2,$d' $f"] {
        let world = messy();
        killing(&world, &format!("rm staged; f=$RALPH_RUN_DIR/journal.jsonl; {spoil}"), COMPLETE);
        world.start(&[]).code(-9);
        world.ralph(&["status"]).code(0).says("work");
        world.ralph(&["abort"]).code(0);
        assert_as_before(&world);
    }
}

#[test]
fn a_journal_that_an_agent_spoils_is_written_again_from_memory() {
    for spoil in [": >$f", "rm $f; mkfifo $f", "echo garbage >>$f", "sed -i s/run-started/run-resumed/ $f"] {
        let world = messy();
        world.agent(&format!("echo $RALPH_STORY >>order; f=$RALPH_RUN_DIR/journal.jsonl; {spoil}; {COMPLETE}"));
        world.start(&[]).code(0).says("the run's journal was changed during the attempt");
        assert_eq!((world.count("run-started"), world.count("checkpoint-landed")), (1, 2), "{spoil}");
        world.ralph(&["abort"]).code(0);
        assert_as_before(&world);
    }
}

#[test]
fn a_damaged_copy_of_the_users_index_is_rebuilt_from_the_staged_content() {
    for spoil in ["echo garbage >$f", "rm $f .git/ralph-spare/work/1/run/index.orig", "rm $f; ln -s /etc/passwd $f"] {
        let world = messy();
        world.agent(&format!("f=$RALPH_RUN_DIR/index.orig; {spoil}; {COMPLETE}"));
        world.start(&[]).code(0);
        world.ralph(&["abort"]).code(0);
        assert_as_before(&world);
    }
}

#[test]
fn a_configuration_that_an_agent_writes_into_our_copy_is_not_the_users() {
    for end in [FAILED, "kill -9 $PPID; sleep 5"] {
        let world = messy();
        let before = world.read(".git/config");
        world.agent(&format!(
            "if mkdir ../seen; then git config alias.x '!false'; cp .git/config $RALPH_RUN_DIR/guard/git-dir/config; {end}; fi; {FAILED}"
        ));
        world.start(&[]);
        world.ralph(&["abort"]).code(0);
        assert_eq!(world.read(".git/config"), before, "{end}");
        assert_as_before(&world);
    }
}

#[test]
fn bits_in_the_private_index_that_hide_files_do_not_blind_a_rollback() {
    for (bit, end) in [("assume-unchanged", FAILED), ("skip-worktree", FAILED), ("assume-unchanged", "kill -9 $PPID; sleep 5")] {
        let world = messy();
        world.agent(&format!(
            "if mkdir ../seen; then GIT_INDEX_FILE=$RALPH_RUN_DIR/index git update-index --{bit} README staged
             echo spoilt >README; echo spoilt >staged; {end}; fi; {FAILED}"
        ));
        world.start(&[]);
        world.ralph(&["resume"]);
        assert_eq!((world.read("README"), world.read("staged")), ("hello\n".to_owned(), "edited since\n".to_owned()), "{bit} {end}");
        assert_eq!(world.git(&["show", "refs/ralph/work/attempts/1/1:README"]), "spoilt", "{bit} {end}");
        world.ralph(&["abort"]).code(0);
        assert_as_before(&world);
    }
}

#[test]
fn links_that_an_agent_plants_are_not_followed() {
    let world = World::new();
    world.stories(2, "max-retries = 1\nverify = [\"true\"]");
    let victim = world.outside("victim");
    fs::write(&victim, "precious\n").unwrap();
    fs::create_dir(world.outside("elsewhere")).unwrap();
    world.agent(&format!(
        "d=$RALPH_RUN_DIR; v={victim}
         if mkdir ../seen; then
           mkdir $d/attempts/1/2; for f in prompt.md stdout stderr gate-1 message; do ln -s $v $d/attempts/1/2/$f; done
           ln -s {elsewhere} $d/attempts/2
           for f in refs tags head-log; do rm -f $d/guard/$f; ln -s $v $d/guard/$f; done
           for f in ignored nested index.agent index.now index.link; do rm -f $d/$f; ln $v $d/$f; done
           for f in modes.new ignored-files.new nested-copies.new stop.new question index.before.times; do rm -f $d/$f; ln -s $v $d/$f; done
           {FAILED}
         else
           for f in gate-1 message source.agent; do ln -s $v $d/attempts/$RALPH_STORY/$RALPH_ATTEMPT/$f; done
           {COMPLETE}
         fi",
        victim = victim.display(),
        elsewhere = world.outside("elsewhere").display()
    ));
    world.start(&[]).code(0);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n");
    assert_eq!(fs::read_dir(world.outside("elsewhere")).unwrap().count(), 0);
    assert_eq!(world.count("checkpoint-landed"), 2);
}

#[test]
fn commands_that_change_something_are_refused_inside_an_attempt() {
    let world = World::new();
    world.stories(1, "");
    let commands = [
        "abort",
        "finish --cleanup",
        "undo",
        "stop",
        "resume",
        "start work",
        "new other",
        "edit work",
        "prune --yes",
        "setup",
        "hint -m x",
        "skip 1",
        "retry 1",
        "done 1",
    ];
    let calls: String = commands.map(|command| format!("git-ralph {command} 2>>../said; echo $? >>../codes\n")).concat();
    world.agent(&format!("{calls} git-ralph status >../status && git-ralph log >/dev/null && git-ralph list && {COMPLETE}"));
    world.start(&[]).code(0);
    assert_eq!(fs::read_to_string(world.outside("codes")).unwrap(), "2\n".repeat(commands.len()));
    let said = fs::read_to_string(world.outside("said")).unwrap();
    assert_eq!(said.matches("cannot be called from inside an attempt").count(), commands.len(), "{said}");
    assert!(fs::read_to_string(world.outside("status")).unwrap().contains("work"));
    assert_eq!(world.count("checkpoint-landed"), 1);
}

#[test]
fn a_lock_that_an_agent_deletes_or_replaces_is_still_held() {
    for spoil in ["rm .git/ralph/locks/*", "for f in .git/ralph/locks/*; do rm $f; : >$f; done", "rm -r .git/ralph/locks .git/ralph-spare"]
    {
        let world = World::new();
        world.stories(1, "");
        world.agent(&format!("{spoil}; env -u RALPH_RUN git-ralph abort 2>../said; echo $? >../code; echo done >work; {COMPLETE}"));
        world.start(&[]).code(0);
        assert_eq!(fs::read_to_string(world.outside("code")).unwrap(), "2\n", "{spoil}");
        assert!(fs::read_to_string(world.outside("said")).unwrap().contains("is working in this work tree"), "{spoil}");
        assert_eq!(world.git(&["show", "ralph/work:work"]), "done");
        world.ralph(&["finish", "--keep"]).code(0);
    }
}

#[test]
fn files_outside_of_the_repository_are_removed_with_the_run() {
    let world = World::new();
    world.stories(1, "");
    world.agent(COMPLETE);
    world.start(&[]).code(0);
    let state = world.outside("home/.local/state/git-ralph");
    assert!(state.is_dir());
    world.ralph(&["finish", "--cleanup"]).code(0);
    let left = world.command(&which("find"), &[state.to_str().unwrap(), "-type", "f"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

const GC: &str = "git reflog expire --expire=now --all; git gc -q --prune=now 2>/dev/null; git prune --expire=now";

#[test]
fn refs_below_refs_ralph_that_an_agent_deletes_come_back_with_their_objects() {
    let every = "git for-each-ref --format='delete %(refname)' | git update-ref --stdin";
    let ours = "git for-each-ref --format='delete %(refname)' refs/ralph | git update-ref --stdin";
    for delete in [ours, every] {
        for end in [FAILED, COMPLETE, "kill -9 $PPID; sleep 5"] {
            let world = messy();
            world.stories(1, "max-retries = 2");
            world.agent(&format!(
                "case $RALPH_ATTEMPT in 1) echo rescued >work; {FAILED};; 2) {delete}; {GC}; {end};; *) {COMPLETE};; esac"
            ));
            world.start(&[]);
            world.ralph(&["resume"]);
            assert_eq!(world.git(&["show", "refs/ralph/work/attempts/1/1:work"]), "rescued", "{delete} {end}");
            let restored = world.events().iter().filter(|event| event["notice"]["kind"] == "ref-restored").count();
            assert!(restored >= 3, "{restored}: {delete} {end}");
            world.ralph(&["abort"]).code(0);
            assert_as_before(&world);
            assert_eq!(world.git(&["fsck", "--connectivity-only", "--no-dangling"]), "");
        }
    }
}

#[test]
fn an_agent_that_leaves_our_files_alone_is_not_reported_as_having_changed_them() {
    let world = messy();
    // Copies of ignored files may be links, or have the names of git-ralph's own files.
    world.write(".gitignore", "*.lock\nindex\nlink\n");
    world.write("deep/a.lock", "mine\n");
    world.write("deep/index", "mine\n");
    std::os::unix::fs::symlink("nowhere", world.path("link")).unwrap();
    world.stories(2, "max-retries = 1\nverify = ['true']");
    world.agent(&format!("echo $RALPH_STORY $RALPH_ATTEMPT >work; test $RALPH_ATTEMPT = 1 && {{ {FAILED}; exit; }}; {COMPLETE}"));
    world.start(&[]).code(0);
    let noticed: Vec<_> = world.events().into_iter().filter(|event| event["event"] == "noticed").collect();
    assert!(noticed.is_empty(), "{noticed:?}");
}

#[test]
fn a_rescue_ref_that_an_agent_moves_is_restored_and_the_other_commit_is_saved() {
    let world = World::new();
    world.stories(1, "max-retries = 1");
    world.agent(&format!(
        "if [ $RALPH_ATTEMPT = 1 ]; then echo rescued >work; {FAILED}; else
         git update-ref refs/ralph/work/attempts/1/1 HEAD; {COMPLETE}; fi"
    ));
    world.start(&[]).code(0).says("refs/ralph/work/attempts/1/1");
    assert_eq!(world.git(&["show", "refs/ralph/work/attempts/1/1:work"]), "rescued");
}

#[test]
fn an_abort_installs_no_index_whose_objects_are_gone() {
    let world = messy();
    world.agent(COMPLETE);
    world.start(&[]).code(0);
    // After the last attempt git-ralph compares no more records, and the hard links are removed here too.
    fs::remove_dir_all(world.path(".git/ralph-spare")).unwrap();
    world.git(&["update-ref", "-d", "refs/ralph/work/index"]);
    world.git(&["reflog", "expire", "--expire=now", "--all"]);
    world.git(&["prune", "--expire=now"]);
    world.ralph(&["abort"]).code(0).says("nothing is staged");
    assert_eq!(world.read("staged"), "edited since\n");
    world.git(&["status"]);
    assert_eq!(world.git(&["fsck", "--connectivity-only", "--no-dangling"]), "");
}

/// The agent of the first story removes the gates from the change file, from the configuration and from git-ralph's copies of both.
#[test]
fn copies_that_an_agent_or_a_gate_forges_take_no_gate_away() {
    let forge = "sed -i 's/^verify.*/verify = []/' .git/ralph/work.toml; cp .git/ralph/work.toml $RALPH_RUN_DIR/guard/steering/work.toml
        git config --unset-all ralph.verify; cp .git/config $RALPH_RUN_DIR/guard/git-dir/config";
    let once = |world: &World, then: &str| format!("if mkdir {}; then {forge}\n{then}\nfi", world.outside("forged").display());
    for end in ["", "kill -9 $PPID; sleep 5"] {
        let world = World::new();
        world.stories(2, "max-retries = 0\nverify = ['test $RALPH_STORY = 1']");
        world.git(&["config", "ralph.verify", "test $RALPH_STORY = 1"]);
        world.agent(&format!("{}\necho $RALPH_STORY >work; {COMPLETE}", once(&world, end)));
        world.start(&[]);
        world.ralph(&["resume"]).code(1);
        assert_eq!(world.count("checkpoint-landed"), 1, "{end}");
        assert_eq!(world.git(&["config", "ralph.verify"]), "test $RALPH_STORY = 1", "{end}");
    }
    let world = World::new();
    let gate = world.outside("gate");
    fs::write(&gate, once(&world, "")).unwrap();
    world.stories(2, &format!("max-retries = 0\nverify = ['sh {}; test $RALPH_STORY = 1']", gate.display()));
    world.agent(&format!("echo $RALPH_STORY >work; {COMPLETE}"));
    world.start(&[]).code(1);
    assert_eq!(world.count("checkpoint-landed"), 1, "by the gate");
}
