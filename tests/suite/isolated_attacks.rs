//! Tests isolated runs against agents that write where they should not: into the run's records of its clones, beside the clones, and
//! through links.

use std::fs;

use crate::support::{COMPLETE, World, is_gone, which};

const FAILED: &str = "echo '<promise>FAILED: no</promise>'";

#[test]
fn an_index_that_an_agent_has_forged_hides_nothing_from_the_checkpoint() {
    // The gate passes on the agent's file. If git-ralph trusted the index instead of reading the file, a different one would land.
    let world = World::new();
    world.write("checked", "bad\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "bad"]);
    world.stories(1, "max-retries = 0\nverify = [\"grep -q good checked\"]");
    let git = which("git");
    world.agent(&format!(
        "echo good >checked; new=new; echo n >$new
         for index in \"$RALPH_RUN_DIR\"/workspaces/*/index; do
           GIT_INDEX_FILE=$index {git} --git-dir=\"$RALPH_ROOT/.git\" --work-tree=\"$PWD\" update-index --assume-unchanged checked || exit 1
           GIT_INDEX_FILE=$index {git} --git-dir=\"$RALPH_ROOT/.git\" --work-tree=\"$PWD\" update-index --skip-worktree checked || exit 1
         done
         for dir in \"$RALPH_RUN_DIR\"/workspaces/*/; do printf 'new\\0' >$dir/ignored; printf 'new\\0' >$dir/nested; done
         {COMPLETE}"
    ));
    world.start(&["--isolate"]).code(0);
    assert_eq!(world.git(&["show", "ralph/work:checked"]), "good");
    assert_eq!(world.git(&["show", "ralph/work:new"]), "n");
}

#[test]
fn a_forged_index_is_not_trusted_after_a_kill_either() {
    let world = World::new();
    world.write("checked", "bad\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "bad"]);
    let deadly = world.outside("deadly");
    fs::write(&deadly, "").unwrap();
    // The gate kills git-ralph once, so the next process judges the attempt.
    world.stories(
        1,
        &format!("max-retries = 0\nverify = ['test ! -e {0} || {{ rm {0}; kill -9 $PPID; }}; grep -q good checked']", deadly.display()),
    );
    let git = which("git");
    world.agent(&format!(
        "echo good >checked; GIT_INDEX_FILE=\"$RALPH_RUN_DIR/workspaces/1/index\" {git} --git-dir=\"$RALPH_ROOT/.git\" --work-tree=\"$PWD\" update-index --assume-unchanged checked || exit 1
         {git} rev-parse HEAD^{{tree}} >\"$RALPH_RUN_DIR/workspaces/1/tree\"; {COMPLETE}"
    ));
    world.start(&["--isolate"]).code(-9);
    world.ralph(&["resume"]).code(0);
    assert_eq!(world.git(&["show", "ralph/work:checked"]), "good");
    assert_eq!(world.count("attempt-started"), 1);
}

#[test]
fn symbolic_links_in_place_of_the_runs_files_overwrite_nothing() {
    let world = World::new();
    world.write(".gitignore", "env/\nlink\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "rules"]);
    world.write("env/secret", "SECRET\n");
    world.git(&["config", "ralph.workspaceInclude", "env/"]);
    let precious = world.outside("precious");
    fs::create_dir(&precious).unwrap();
    for name in ["index", "tree", "ready", "ignored", "included", "secret", "turning", ".git-ralph", "config"] {
        fs::write(precious.join(name), "mine\n").unwrap();
    }
    world.stories(5, "max-retries = 1");
    let p = precious.display();
    world.agent(&format!(
        "if test $RALPH_ATTEMPT = 1; then case $RALPH_STORY in
           1) for file in index tree ready ignored included turning; do ln -sf {p}/$file \"$RALPH_RUN_DIR/workspaces/1/$file\"; done;;
           2) mv \"$RALPH_RUN_DIR/workspaces/1\" \"$RALPH_RUN_DIR/workspaces/gone\"; ln -s {p} \"$RALPH_RUN_DIR/workspaces/1\";;
           3) rm -rf env; ln -s {p} env; ln -sf {p}/.git-ralph ../.git-ralph;;
           4) cd /; rm -rf \"$RALPH_WORKSPACE/.git\"; ln -s {p} \"$RALPH_WORKSPACE/.git\";;
           5) cd /; dir=${{RALPH_WORKSPACE%/*}}; mv $dir $dir.gone; ln -s {p} $dir;;
         esac; {FAILED}; else cd \"$RALPH_WORKSPACE\"; test \"$(cat env/secret)\" = SECRET || exit 1; echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}; fi"
    ));
    world.start(&["--isolate"]).code(0).says("all stories of work are done");
    for entry in fs::read_dir(&precious).unwrap().map(Result::unwrap) {
        assert_eq!(fs::read_to_string(entry.path()).unwrap(), "mine\n", "{}", entry.path().display());
    }
    assert_eq!(fs::read_dir(&precious).unwrap().count(), 9);
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), ".gitignore\nREADME\ns1\ns2\ns3\ns4\ns5");
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert!(!world.outside("repo.ralph/work").exists());
}

#[test]
fn an_owner_file_that_an_agent_deletes_or_forges_neither_stops_the_run_nor_saves_its_workspaces() {
    for forged in [
        "rm ../.git-ralph",
        "printf '/x/.git\\n/x\\nother\\nrun\\n' >../.git-ralph",
        "cd /; rm -rf \"${RALPH_WORKSPACE%/*}\"; mkdir \"${RALPH_WORKSPACE%/*}\"",
    ] {
        let world = World::new();
        world.change("work", "order = \"any\"\nmax-retries = 1\nverify = [\"true\"]\n[[story]]\nid = \"1\"\n[[story]]\nid = \"2\"\n");
        world
            .agent(&format!("if test $RALPH_ATTEMPT = 1; then {forged}; {FAILED}; exit; fi; echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
        world.start(&["--isolate"]).code(0);
        assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\ns1\ns2", "{forged}");
        world.ralph(&["finish", "--cleanup"]).code(0);
        assert!(!world.outside("repo.ralph/work").exists(), "{forged}");
    }
}

#[test]
fn a_forged_owner_file_leads_no_command_to_another_repository() {
    let (world, other) = (World::new(), World::new());
    for world in [&world, &other] {
        world.stories(1, "max-retries = 0");
        world.agent(&format!("echo x >x; {COMPLETE}"));
        world.start(&["--isolate"]).code(0);
    }
    let forged = world.outside("repo.ralph/work/.git-ralph");
    fs::copy(other.outside("repo.ralph/work/.git-ralph"), &forged).unwrap();
    let inside = world.outside("repo.ralph/work/1");
    let output = world.command(env!("CARGO_BIN_EXE_git-ralph"), &["abort"]).current_dir(&inside).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && words.contains("which has no record of it"), "{words}");
    assert!(other.has_ref("refs/heads/ralph/work") && world.has_ref("refs/heads/ralph/work"));
}

#[test]
fn a_workspace_that_was_deleted_or_replaced_never_lands_as_a_checkpoint_without_files() {
    let world = World::new();
    world.stories(2, "max-retries = 1");
    world.agent(&format!(
        "if test $RALPH_ATTEMPT = 1; then cd /; rm -rf \"$RALPH_WORKSPACE\"; test $RALPH_STORY = 1 || ln -s \"$RALPH_ROOT\" \"$RALPH_WORKSPACE\"
         else echo $RALPH_STORY >s$RALPH_STORY; fi; {COMPLETE}"
    ));
    world.start(&["--isolate"]).code(0).says("has deleted or replaced the directory");
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\ns1\ns2");
}

#[test]
fn a_read_only_workspace_is_saved_used_again_and_removed() {
    let world = World::new();
    world.write("dir/file", "one\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "dir"]);
    world.stories(2, "max-retries = 1");
    world.agent(&format!(
        "echo $RALPH_STORY >>dir/file; echo n >dir/new$RALPH_STORY; find . -path ./.git -prune -o -print | xargs chmod a-w; chmod -R a-w .git
         if test $RALPH_STORY$RALPH_ATTEMPT = 11; then {FAILED}; else {COMPLETE}; fi"
    ));
    world.start(&["--isolate"]).code(0);
    assert_eq!(world.git(&["show", "ralph/work:dir/file"]), "one\n1\n2");
    assert_eq!(world.git(&["show", "refs/ralph/work/attempts/1/1:dir/new1"]), "n");
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert!(!world.outside("repo.ralph").exists());
}

#[test]
fn broken_and_hostile_objects_do_not_get_into_the_users_repository() {
    let world = World::new();
    world.stories(3, "max-retries = 0");
    let git = which("git");
    world.agent(&format!(
        "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b
         blob=$(echo evil | {git} hash-object -w --stdin)
         case $RALPH_STORY in
           1) tree=$(printf '100644 blob %s\\t.git\\n' $blob | {git} mktree); {git} update-ref HEAD $({git} commit-tree -p HEAD -m hostile $tree);;
           2) tree=$(printf '100644 blob %040d\\tmissing\\n' 7 | {git} mktree --missing); {git} update-ref HEAD $({git} commit-tree -p HEAD -m broken $tree)
              {git} update-ref refs/tags/blob $blob; {git} update-ref refs/heads/good $({git} commit-tree -p HEAD~1 -m good HEAD~1^{{tree}});;
           3) echo true >true; {git} add true; {git} commit -qm lie; id=$({git} rev-parse HEAD:true); file=.git/objects/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-)
              other=.git/objects/$(echo $blob | cut -c1-2)/$(echo $blob | cut -c3-); chmod u+w $file; cp -f $other $file;;
         esac
         echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"
    ));
    world.start(&["--isolate"]).code(0);
    world.git(&["fsck", "--strict", "--no-dangling"]);
    let landed = world.git(&["ls-tree", "--name-only", "ralph/work"]);
    assert_eq!(landed, "README\ns1\ns2\ns3\ntrue");
    assert!(world.git(&["log", "--all", "--format=%s"]).contains("good"), "what is whole is kept");
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a process that has left its session")]
#[test]
fn a_process_that_an_agent_leaves_behind_writes_into_no_other_story() {
    let world = World::new();
    world.change(
        "work",
        "order = \"any\"\nmax-retries = 0\nverify = [\"sleep 0.2\"]\n[[story]]\nid = \"1\"\n[[story]]\nid = \"2\"\n[[story]]\nid = \"3\"\n",
    );
    let pids = world.outside("pids");
    // The stray process leaves its session, environment and parent, and continues to write.
    world.agent(&format!(
        "(env -i setsid sh -c 'echo $$ >>{}; while :; do echo stray >>stray; echo stray >>README; sleep 0.01; done' </dev/null >/dev/null 2>&1 &)
         until test -s stray; do sleep 0.01; done
         echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}",
        pids.display()
    ));
    world.start(&["--isolate"]).code(0);
    for pid in fs::read_to_string(&pids).unwrap().lines() {
        assert!(is_gone(pid), "{pid} is still at work");
    }
    // What the stray process wrote while its own agent was at work belongs to that story.
    for story in ["2", "3"] {
        let of = world.git(&["show", "--format=%b", "--name-only", &format!(":/checkpoint: {story}")]);
        assert!(of.contains(&format!("s{story}")), "{of}");
    }
    world.git(&["fsck", "--no-dangling"]);
}

#[test]
fn gates_do_not_see_files_that_agents_write_into_the_clone_for_merges() {
    let world = World::new();
    world.write("check", "exit 1\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "check"]);
    world.change("work", "order = \"any\"\nmax-retries = 0\nverify = [\"test ! -e a || test ! -e b\"]\n[[story]]\nid = \"a\"\n[[story]]\nid = \"b\"\n[[story]]\nid = \"c\"\n[[story]]\nid = \"d\"\n");
    let at = world.outside("at").display().to_string();
    // The second agent removes `a` from the clone for merges, if it finds that clone.
    world.agent(&format!(
        "mkdir -p {at}; touch {at}/$RALPH_STORY-$RALPH_ATTEMPT; n=0; while test $(ls {at} | wc -l) -lt 4 && test $n -lt 100; do sleep 0.02; n=$((n+1)); done
         if test -d ../landing; then rm -f ../landing/a ../landing/b; echo stray >../landing/stray; fi
         for k in landing 1 2 3 4; do for file in tree index; do printf x >>\"$RALPH_RUN_DIR/workspaces/$k/$file\"; done; done 2>/dev/null
         test $RALPH_ATTEMPT = 1 && echo $RALPH_STORY >$RALPH_STORY; {COMPLETE}"
    ));
    world.start(&["--jobs", "4"]).code(0);
    let landed = world.git(&["ls-tree", "--name-only", "ralph/work"]);
    let has = |name: &str| landed.lines().any(|line| line == name);
    assert!(has("a") != has("b") && has("c") && has("d") && !has("stray"), "{landed}");
}

#[test]
fn a_commit_that_claims_to_be_a_checkpoint_lands_no_other_story() {
    use crate::kill_matrix::stand_in::{arm_at, disarm, install};
    let world = World::new();
    install(&world);
    world.change("work", "order = \"any\"\nmax-retries = 0\n[[story]]\nid = \"a\"\n[[story]]\nid = \"b\"\n");
    let git = which("git");
    // Each agent commits with the trailers of the other story, and git-ralph is killed right after a landing.
    world.agent(&format!(
        "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b
         echo $RALPH_STORY >$RALPH_STORY; {git} add -A
         for other in a b; do test $other = $RALPH_STORY || {git} commit -q --allow-empty -m \"checkpoint: $other\" -m \"Ralph-Change: work
Ralph-Story: $other
Ralph-Attempt: $RALPH_ATTEMPT\"; done
         {COMPLETE}"
    ));
    arm_at(&world, "attempt-queued", "update-ref");
    world.start(&["--jobs", "2"]).code(-9);
    assert!(disarm(&world));
    world.ralph(&["resume"]).code(0);
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\na\nb");
    assert_eq!(world.count("checkpoint-landed"), 2);
}

#[test]
fn a_landing_that_was_killed_behind_its_refs_is_recognised_though_the_user_has_committed_since() {
    use crate::kill_matrix::stand_in::{arm_at, disarm, install};
    let world = World::new();
    install(&world);
    world.stories(2, "max-retries = 0");
    world.agent(&format!("echo $RALPH_STORY >s$RALPH_STORY; {COMPLETE}"));
    arm_at(&world, "attempt-queued", "update-ref");
    world.start(&["--isolate"]).code(-9);
    assert!(disarm(&world));
    world.git(&["worktree", "add", "-q", "../user", "ralph/work"]);
    fs::write(world.outside("user/by-user"), "mine\n").unwrap();
    world.git(&["-C", "../user", "add", "-A"]);
    world.git(&["-C", "../user", "commit", "-qm", "by the user"]);
    world.git(&["worktree", "remove", "../user"]);
    world.ralph(&["resume"]).code(0);
    let subjects = world.subjects("ralph/work");
    assert_eq!(subjects.iter().filter(|subject| *subject == "checkpoint: 1").count(), 1, "{subjects:?}");
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\nby-user\ns1\ns2");
}

#[test]
fn files_hidden_by_the_ignore_rules_of_one_attempt_land_with_no_other_story() {
    let world = World::new();
    world.stories(1, "max-retries = 1");
    world.agent(&format!(
        "test $RALPH_ATTEMPT = 1 && {{ echo junk >>.gitignore; echo x >junk; mkdir sub; echo x >sub/junk; {FAILED}; exit; }}
         find . -name junk >\"$RALPH_RUN_DIR/seen\"; echo good >good; {COMPLETE}"
    ));
    world.start(&["--isolate"]).code(0).says("junk is ignored by rules that the attempt added; moved to");
    assert_eq!(world.git(&["ls-tree", "-r", "--name-only", "ralph/work"]), "README\ngood");
    assert_eq!(fs::read_to_string(world.run_dir().join("seen")).unwrap(), "");
    assert_eq!(fs::read_to_string(world.run_dir().join("workspaces/1/moved/hidden/sub/junk")).unwrap(), "x\n");
}

#[test]
fn an_agent_that_turns_on_sparse_checkout_in_its_clone_does_not_land_the_files_it_hid_as_deleted() {
    let world = World::new();
    world.write("dir/file", "f\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.stories(1, "max-retries = 1");
    let git = which("git");
    for mode in ["--cone", "--no-cone /README"] {
        world.agent(&format!("echo x >x; test $RALPH_ATTEMPT = 2 || {git} sparse-checkout set {mode}; {COMPLETE}"));
        world.start(&["--isolate"]).code(0).says("the attempt changed sparse checkout");
        assert_eq!(world.git(&["ls-tree", "-r", "--name-only", "ralph/work"]), "README\ndir/file\nx", "{mode}");
        world.ralph(&["abort"]).code(0);
    }
}

#[test]
fn an_autostash_that_an_agent_leaves_in_its_clone_is_saved() {
    let world = World::new();
    world.git(&["switch", "-q", "-c", "other"]);
    world.write("README", "other\n");
    world.git(&["commit", "-qam", "other"]);
    world.git(&["switch", "-q", "main"]);
    world.write("g", "g\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "g"]);
    let git = which("git");
    for command in ["rebase --autostash other", "merge --autostash -q other"] {
        world.stories(1, "max-retries = 0");
        world.agent(&format!("echo mine >README; {git} commit -qam mine; echo dirty >g; {git} {command} >/dev/null 2>&1; {FAILED}"));
        world.start(&["--isolate"]).code(1);
        let saved = world.git(&["log", "-p", "-m", "--format=%s", "refs/ralph/work/attempts/1/1"]);
        assert!(saved.contains("+dirty"), "{command}: {saved}");
        world.ralph(&["abort"]).code(0);
    }
}

#[test]
fn work_on_both_branches_of_a_clone_lands() {
    let world = World::new();
    world.stories(1, "max-retries = 0\nverify = [\"test -e w\", \"test -e more\"]");
    let git = which("git");
    world.agent(&format!("echo w >w; {git} add w; {git} commit -qm work; {git} checkout -q --orphan else; {git} rm -q --cached w; rm w; {git} commit -qm else; echo more >more; {COMPLETE}"));
    world.start(&["--isolate"]).code(0).says("its changes were moved to the run's branch");
    assert_eq!(world.git(&["ls-tree", "-r", "--name-only", "ralph/work"]), "README\nmore\nw");
}

#[test]
fn files_of_the_users_git_directory_stay_when_an_agent_links_its_own_to_them() {
    for verdict in [COMPLETE, "echo '<promise>FAILED: no</promise>'"] {
        let world = World::new();
        let names = ["exclude", "attributes", "grafts"];
        for name in names {
            world.write(&format!(".git/info/{name}"), "# mine\n");
        }
        world.write(".git/hooks/pre-push", "mine\n");
        world.stories(1, "max-retries = 0\nverify = ['true']");
        let users = world.path(".git").display().to_string();
        world.agent(&format!(
            "echo x >work; rm -rf .git/info .git/hooks; ln -s {users}/info .git/info; ln -s {users}/hooks .git/hooks; {verdict}"
        ));
        world.start(&["--isolate"]);
        for name in names {
            assert_eq!(fs::read_to_string(world.path(&format!(".git/info/{name}"))).unwrap(), "# mine\n", "{name}");
        }
        assert_eq!(fs::read_to_string(world.path(".git/hooks/pre-push")).unwrap(), "mine\n");
    }
}
