//! Tests that the files an attempt writes do not influence how it or the next attempt is judged and landed.

use std::fs;

use crate::support::{COMPLETE, World};

const UNGATE: &str = "sed -i 's/^verify.*/verify = []/' .git/ralph/work.toml";

/// A gate that a story passes only if it has created its own file.
const OWN_FILE: &str = "test -e ok$RALPH_STORY";

#[test]
fn an_attempt_that_was_accepted_before_a_kill_passes_its_gates_again_before_it_lands() {
    for (args, file) in [(&[][..], "repo/f"), (&["--isolate"], "repo.ralph/work/1/f")] {
        let world = World::new();
        let gated = world.outside("gated").display().to_string();
        world.stories(1, &format!("max-retries = 0\nverify = [\"touch {gated}; grep -q good f\"]"));
        world.agent(&format!("echo good >f; {COMPLETE}"));
        let killed = world.outside("killed").display().to_string();
        world.fake_git(&format!(
            "case \"$*\" in *' add '*|*commit-tree*|*update-ref*) if test -e {gated} && mkdir {killed} 2>/dev/null; then kill -9 $PPID; exit 1; fi;; esac"
        ));
        world.start(args).code(-9);
        assert_eq!((world.count("attempt-accepted"), world.count("checkpoint-landed")), (1, 0));
        fs::write(world.outside(file), "bad\n").unwrap();
        world.ralph(&["resume"]).code(1);
        assert_eq!((world.count("checkpoint-landed"), world.count("attempt-rejected")), (0, 1), "{args:?}");
        world.ralph(&["abort"]).code(0);
    }
}

#[test]
fn an_agent_that_empties_its_gates_in_the_change_file_is_judged_by_them_and_the_file_is_back() {
    let world = World::new();
    world.stories(1, "max-retries = 0\nverify = ['false']");
    let before = world.read(".git/ralph/work.toml");
    world.agent(&format!("{UNGATE}; {COMPLETE}"));
    let output = world.start(&[]).code(1).says("gate failed: false").says("work.toml changed during the attempt and was restored");
    assert_eq!(world.read(".git/ralph/work.toml"), before);
    let aside = world.run_dir().join("moved/1-1/work.toml");
    assert!(fs::read_to_string(&aside).unwrap().contains("verify = []"));
    let hint = format!("hint: cp {} {} && git ralph resume work", aside.display(), world.path(".git/ralph/work.toml").display());
    assert!(output.stderr.contains(&hint), "{}", output.stderr);
    assert_eq!(world.count("checkpoint-landed"), 0);
}

#[test]
fn the_change_file_is_back_after_an_attempt_that_lands_and_gates_the_next_story() {
    let world = World::new();
    world.stories(2, &format!("max-retries = 0\nverify = ['{OWN_FILE}']"));
    let before = world.read(".git/ralph/work.toml");
    world.agent(&format!("test $RALPH_STORY = 1 && {{ touch ok1; {UNGATE}; }}; {COMPLETE}"));
    world.start(&[]).code(1).says(&format!("2: gate failed: {OWN_FILE}"));
    assert_eq!((world.count("checkpoint-landed"), world.read(".git/ralph/work.toml")), (1, before));
    world.ralph(&["log"]).code(0).says("    warning: ").says("work.toml changed during the attempt");
    world.ralph(&["status"]).code(0).says("warning: ").says("work.toml changed during the attempt");
}

#[test]
fn a_gate_that_rewrites_the_change_file_gates_the_next_story_all_the_same() {
    let world = World::new();
    world.stories(2, &format!("max-retries = 0\nverify = ['{OWN_FILE}', './mine']"));
    world.agent(&format!(
        "test $RALPH_STORY = 1 && {{ touch ok1; printf '#!/bin/sh\\n{}\\n' >mine; chmod +x mine; }}; {COMPLETE}",
        UNGATE.replace('\'', "\"")
    ));
    world.start(&[]).code(1).says(&format!("2: gate failed: {OWN_FILE}"));
    assert!(world.read(".git/ralph/work.toml").contains(OWN_FILE));
}

#[test]
fn a_template_that_an_agent_plants_is_not_used_for_the_next_prompt() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("test $RALPH_STORY = 1 && echo planted >.git/ralph/prompt.md; touch f$RALPH_STORY; {COMPLETE}"));
    world.start(&["--limit", "1"]).code(0).says("prompt.md changed during the attempt");
    world.ralph(&["resume"]).code(0);
    assert!(!world.prompt("2", 1).contains("planted"));
}

#[test]
fn settings_that_steer_a_run_or_name_commands_are_put_back_and_named_after_an_attempt_that_lands() {
    let world = World::new();
    world.stories(2, "max-retries = 0");
    for value in [OWN_FILE, "true"] {
        world.git(&["config", "--add", "ralph.verify", value]);
    }
    world.git(&["config", "alias.mine", "status"]);
    world.git(&["config", "core.editor", "vi"]);
    world.agent(&format!(
        "test $RALPH_STORY = 1 && {{ touch ok1; git config --unset-all ralph.verify; git config alias.mine '!sh'; git config alias.evil '!sh'
         git config core.hooksPath /tmp/hooks; git config filter.x.clean evil; git config core.fsmonitor evil; git config --unset core.editor
         git config include.path /tmp/more; git config svn.authorsProg evil; git config annex.x-command evil; git config user.name Agent; git config remote.origin.url /tmp/remote; }}; {COMPLETE}"
    ));
    let named =
        "alias.evil, alias.mine, annex.x-command, core.editor, core.fsmonitor, core.hookspath, filter.x.clean, include.path, ralph.verify";
    world.start(&["--limit", "1"]).code(0).says(&format!("{named}, svn.authorsprog in config"));
    assert_eq!(world.git(&["config", "--get-all", "ralph.verify"]), format!("{OWN_FILE}\ntrue"));
    assert_eq!((world.git(&["config", "alias.mine"]), world.git(&["config", "core.editor"])), ("status".to_owned(), "vi".to_owned()));
    let all = world.git(&["config", "--local", "--list"]);
    assert!(!all.contains("evil") && !all.contains("hookspath") && !all.contains("include"), "{all}");
    assert!(all.contains("user.name=Agent") && all.contains("remote.origin.url=/tmp/remote"), "other settings stay: {all}");
    assert!(fs::read_to_string(world.run_dir().join("moved/1-1/git-dir/config")).unwrap().contains("evil"));
    world.ralph(&["resume"]).code(1).says(&format!("2: gate failed: {OWN_FILE}"));
    world.ralph(&["log"]).code(0).says("ralph.verify, svn.authorsprog in config of the git directory changed during the attempt");
}

/// Settings that name a command or change how git reads the repository.
const ATTACKS: &[&str] = &[
    "core.fsmonitor",
    "core.hooksPath",
    "core.editor",
    "core.pager",
    "core.sshCommand",
    "core.askPass",
    "core.gitProxy",
    "core.excludesFile",
    "core.attributesFile",
    "core.alternateRefsCommand",
    "core.autocrlf",
    "core.eol",
    "core.fileMode",
    "core.ignoreCase",
    "core.ignoreStat",
    "core.trustctime",
    "core.checkStat",
    "core.quotePath",
    "core.useReplaceRefs",
    "core.notesRef",
    "index.version",
    "index.skipHash",
    "index.sparse",
    "alias.st",
    "filter.a.clean",
    "filter.a.smudge",
    "filter.a.process",
    "include.path",
    "includeIf.onbranch:main.path",
    "url.https://e/.insteadOf",
    "url.https://e/.pushInsteadOf",
    "credential.helper",
    "credential.https://a.helper",
    "gpg.program",
    "gpg.ssh.program",
    "user.signingKey",
    "diff.external",
    "diff.a.command",
    "diff.a.textconv",
    "diff.tool",
    "merge.a.driver",
    "merge.default",
    "merge.tool",
    "difftool.a.cmd",
    "mergetool.a.path",
    "pager.log",
    "interactive.diffFilter",
    "sequence.editor",
    "uploadpack.packObjectsHook",
    "remote.origin.uploadpack",
    "remote.origin.receivepack",
    "protocol.ext.allow",
    "submodule.a.update",
    "submodule.a.ignore",
    "status.showUntrackedFiles",
    "add.ignoreErrors",
    "clean.requireForce",
    "gc.pruneExpire",
    "gc.reflogExpire",
    "gc.recentObjectsHook",
    "maintenance.auto",
    "init.templateDir",
    "trailer.a.command",
    "tar.a.command",
    "web.browser",
    "browser.a.cmd",
    "man.a.path",
    "instaweb.httpd",
    "sendemail.smtpServer",
    "imap.tunnel",
    "hook.a.command",
    "lfs.customtransfer.a.path",
    "lfs.standalonetransferagent",
    "extensions.partialClone",
    "feature.manyFiles",
    "guitool.a.cmd",
    "svn.authorsProg",
    "ralph.verify",
    "ralph.hooks",
    "ralph.evil.cmd",
];

/// A value that git can read, so that the settings can be compared one by one.
fn harmful(key: &str) -> &str {
    match key {
        "core.fileMode" => "false",
        "core.eol" => "crlf",
        "core.checkStat" => "minimal",
        "index.version" => "2",
        "core.notesRef" => "refs/notes/x",
        "submodule.a.ignore" => "all",
        "status.showUntrackedFiles" => "no",
        "protocol.ext.allow" => "always",
        "submodule.a.update" => "none",
        "gc.pruneExpire" | "gc.reflogExpire" => "now",
        _ => "true",
    }
}

#[test]
fn every_setting_that_names_a_command_or_blinds_git_is_restored_and_named_whether_the_attempt_lands_or_fails() {
    // A handful at a time: where many settings have changed, the file is restored as a whole.
    for (attacks, verdict) in ATTACKS.chunks(20).flat_map(|some| [(some, COMPLETE), (some, "echo '<promise>FAILED: no</promise>'")]) {
        let world = World::new();
        world.stories(1, "max-retries = 0");
        let before = world.read(".git/config");
        let set: String = attacks.iter().map(|key| format!("git config --file .git/config '{key}' '{}'\n", harmful(key))).collect();
        world.agent(&format!("echo x >work\n{set}{verdict}"));
        let said = world.start(&[]).stderr;
        for key in attacks {
            let (head, variable) = key.rsplit_once('.').unwrap();
            let (section, subsection) = head.split_once('.').map_or((head, String::new()), |(section, sub)| (section, format!("{sub}.")));
            let named = format!("{}.{subsection}{}", section.to_lowercase(), variable.to_lowercase());
            assert!(said.contains(&named), "{named} with {verdict}: {said}");
        }
        assert_eq!(world.read(".git/config"), before, "{verdict}");
    }
}

#[test]
fn hooks_that_a_landed_attempt_plants_are_removed_and_saved() {
    let world = World::new();
    world.stories(1, "");
    world.hook("post-commit", "true");
    world.agent(&format!("echo evil >.git/hooks/pre-push; echo evil >.git/hooks/post-commit; touch work; {COMPLETE}"));
    world.start(&[]).code(0).says("the agent changed hooks in the git directory; it is restored");
    assert!(!world.exists(".git/hooks/pre-push"));
    assert_eq!(world.read(".git/hooks/post-commit"), "#!/bin/sh\ntrue\n");
    assert_eq!(fs::read_to_string(world.run_dir().join("moved/1-1/git-dir/hooks/pre-push")).unwrap(), "evil\n");
}

#[test]
fn the_hooks_that_are_gates_are_those_from_before_the_attempt() {
    for (evades, kept) in [("rm .git/hooks/pre-commit", "hooks"), ("git config core.hooksPath /nowhere", "config")] {
        let world = World::new();
        world.stories(1, "max-retries = 0");
        world.git(&["config", "ralph.hooks", "true"]);
        world.hook("pre-commit", "exit 1");
        world.agent(&format!("touch work; {evades}; {COMPLETE}"));
        world.start(&[]).code(1).says("gate failed: git add -A && git hook run");
        assert!(world.run_dir().join("moved/1-1/git-dir").join(kept).exists(), "{evades}");
    }
}

#[test]
fn an_agent_that_ungates_itself_and_kills_git_ralph_is_gated_after_the_resume() {
    let world = World::new();
    world.stories(1, "max-retries = 0\nverify = ['false']");
    world.git(&["config", "ralph.verifyTimeout", "7m"]);
    let before = (world.read(".git/ralph/work.toml"), world.read(".git/config"));
    world.agent(&format!(
        "test $RALPH_ATTEMPT = 1 && {{ {UNGATE}; git config ralph.verifyTimeout 1; git config ralph.maxRetries 9; kill -9 $PPID; }}; {COMPLETE}"
    ));
    world.start(&[]).code(-9);
    world.ralph(&["resume"]).code(1).says("work.toml changed during the attempt").says("ralph.maxretries, ralph.verifytimeout in config");
    assert_eq!((world.read(".git/ralph/work.toml"), world.read(".git/config")), before);
    assert_eq!((world.count("checkpoint-landed"), world.count("gate-ended")), (0, 1));
}

#[test]
fn an_abort_restores_a_change_file_that_a_killed_attempt_has_rewritten() {
    let world = World::new();
    world.stories(1, "verify = ['false']");
    let before = world.read(".git/ralph/work.toml");
    world.agent(&format!("{UNGATE}; kill -9 $PPID"));
    world.start(&[]).code(-9);
    world.ralph(&["abort"]).code(0).says("work.toml changed during the attempt");
    assert_eq!(world.read(".git/ralph/work.toml"), before);
}

fn reachable(world: &World, from: &str, subject: &str) -> bool {
    world.subjects(from).iter().any(|line| line == subject)
}

#[test]
fn commits_that_an_agent_has_abandoned_do_not_land_unseen_and_are_kept() {
    let world = World::new();
    world.stories(1, "verify = ['test ! -e broken']");
    world.agent(&format!(
        "echo broken >broken; git add broken; git commit -qm broken; git checkout -q -b other HEAD~1; echo good >good; {COMPLETE}"
    ));
    world.start(&[]).code(0).says("commits of the agent that are not in the checkpoint are saved as refs/ralph/work/abandoned/1/1");
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\ngood");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert!(reachable(&world, "refs/ralph/work/abandoned/1/1", "broken") && !reachable(&world, "ralph/work", "broken"));
    world.ralph(&["abort"]).code(0);
    assert!(reachable(&world, "--all", "broken"));
}

#[test]
fn gates_see_work_that_is_merged_from_another_line_of_history() {
    let world = World::new();
    world.stories(2, "max-retries = 0\nverify = ['test ! -e broken || test ! -e more']");
    world.agent(&format!(
        "test $RALPH_STORY = 1 && {{ echo a >a; {COMPLETE}; exit; }}
         echo broken >broken; git add broken; git commit -qm broken; git checkout -q main; echo more >more; {COMPLETE}"
    ));
    world.start(&[]).code(1).says("gate failed: test ! -e broken");
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\na");
    assert_eq!(world.git(&["ls-tree", "--name-only", "refs/ralph/work/attempts/2/1"]), "README\na\nbroken\nmore");
}

#[test]
fn work_that_was_brought_over_lands_as_the_gates_saw_it_after_a_kill_too() {
    let world = World::new();
    world.write("f", "1\n2\n3\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    let armed = world.outside("armed");
    fs::write(&armed, "").unwrap();
    let gate = format!("rm {} 2>/dev/null && kill -9 $PPID; grep -q one f && grep -q two f", armed.display());
    world.stories(2, "max-retries = 0");
    world.agent(&format!(
        "test $RALPH_STORY = 1 && {{ sed -i 's/1/one/' f; {COMPLETE}; exit; }}
         git checkout -q -b side main; sed -i 's/3/two/' f; git commit -qam side; touch g; {COMPLETE}"
    ));
    world.start(&["--limit", "1"]).code(0);
    world.ralph(&["resume", "--verify", &gate]).code(-9);
    world.ralph(&["resume", "--verify", "false"]).code(0).says("its changes were moved to the run's branch");
    assert_eq!(world.git(&["show", "ralph/work:f"]), "one\n2\ntwo");
    assert_eq!(world.git(&["ls-tree", "--name-only", "ralph/work"]), "README\nf\ng");
    assert!(reachable(&world, "ralph/work", "side") && reachable(&world, "ralph/work", "checkpoint: 1"));
}

#[test]
fn a_gate_that_switches_to_another_branch_lands_nothing() {
    let world = World::new();
    world.stories(1, "max-retries = 0\nverify = ['git stash -qu && git switch -q main']");
    world.write("mine", "uncommitted\n");
    world.agent(&format!("echo work >work; {COMPLETE}"));
    world.start(&[]).code(1).says("the work tree is that of main, without the last checkpoint");
    assert_eq!((world.count("checkpoint-landed"), world.read("mine").as_str()), (0, "uncommitted\n"));
}

#[test]
fn a_checkpoint_that_changes_a_file_that_its_gate_uses_says_so() {
    let world = World::new();
    world.write("check.sh", "exit 1\n");
    world.write("Makefile", "test:\n\ttrue\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.stories(2, "verify = ['sh ./check.sh', 'make -s']");
    world.agent(&format!("test $RALPH_STORY = 1 && echo 'exit 0' >check.sh; touch f$RALPH_STORY; {COMPLETE}"));
    let said = "the checkpoint changes check.sh, which the gate 'sh ./check.sh' uses";
    let output = world.start(&[]).code(0).says(&format!("warning: 1: {said}"));
    assert_eq!(output.stderr.matches("which the gate").count(), 1, "{}", output.stderr);
    for command in ["log", "status"] {
        let output = world.ralph(&[command]).code(0).says(&format!("warning: {said}"));
        assert_eq!(output.stdout.matches("which the gate").count(), 1, "{command}: {}", output.stdout);
        assert!(world.ralph(&[command, "--json"]).code(0).stdout.contains(said), "{command}");
    }
}

#[test]
fn a_checkpoint_that_changes_a_file_that_the_configuration_includes_says_so() {
    for (include, file) in [("../team.conf", "team.conf"), ("../conf/later", "conf/later")] {
        let world = World::new();
        world.write("team.conf", "[ralph]\n\tverify = test -e ok\n");
        world.write("conf/keep", "");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "more"]);
        world.git(&["config", "include.path", include]);
        world.stories(1, "");
        world.agent(&format!("touch ok; printf '[ralph]\\n' >{file}; {COMPLETE}"));
        let said = format!("the checkpoint changes {file}, which your git configuration includes");
        world.start(&[]).code(0).says(&format!("warning: 1: {said}"));
        world.ralph(&["log"]).code(0).says(&format!("warning: {said}"));
        world.ralph(&["status"]).code(0).says(&format!("warning: {said}"));
    }
}

#[test]
fn a_changed_hook_in_the_work_tree_that_is_a_gate_is_reported() {
    let world = World::new();
    world.write("hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    world.git(&["add", "-A"]);
    world.git(&["update-index", "--chmod=+x", "hooks/pre-commit"]);
    world.git(&["commit", "-qm", "more"]);
    world.git(&["checkout", "-q", "-f", "HEAD", "--", "hooks"]);
    world.git(&["config", "core.hooksPath", "hooks"]);
    world.git(&["config", "ralph.hooks", "true"]);
    world.stories(1, "");
    world.agent(&format!("printf '#!/bin/sh\\nexit 0\\n' >hooks/pre-commit; {COMPLETE}"));
    world.start(&[]).code(0).says("the checkpoint changes hooks/pre-commit, which the gate 'pre-commit' uses");
}

#[test]
fn an_ignored_file_that_a_gate_uses_and_the_attempt_has_written_is_reported() {
    let world = World::new();
    world.write(".gitignore", "out\nlog\nold\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.write("old", "from before\n");
    world.let_files_age();
    world.stories(1, "verify = ['test -e out && cat old >log']");
    world.agent(&format!("touch out f; {COMPLETE}"));
    let said = "uses out, which the attempt wrote and git ignores, so it is not in the checkpoint";
    let output = world.start(&[]).code(0).says(said);
    assert_eq!(output.stderr.matches("git ignores").count(), 1, "{}", output.stderr);
    world.ralph(&["log"]).code(0).says(said);
    world.ralph(&["status"]).code(0).says(said);
}

#[test]
fn an_ignored_file_that_the_agent_has_committed_is_in_the_checkpoint_and_no_warning_says_otherwise() {
    for isolate in ["false", "true"] {
        let world = World::new();
        world.git(&["config", "ralph.isolate", isolate]);
        world.write(".gitignore", "*.out\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-qm", "ignore"]);
        world.stories(2, "verify = ['git ls-files --error-unmatch 1.out']");
        world.agent(&format!(
            "out=$RALPH_STORY.out; echo A >$out; git add -f $out; git commit -qm agents; echo B >$out; echo C >c.out; {COMPLETE}"
        ));
        let output = world.start(&[]).code(0).says("the checkpoint changes 1.out, which the gate");
        assert!(!output.stderr.contains("so it is not in the checkpoint"), "isolate = {isolate}: {}", output.stderr);
        let files = world.git(&["ls-tree", "--name-only", "ralph/work"]);
        assert_eq!(files, ".gitignore\n1.out\n2.out\nREADME", "isolate = {isolate}: {}", output.stderr);
        assert_eq!(world.git(&["show", "ralph/work:2.out"]), "B", "isolate = {isolate}");
    }
}

#[test]
fn a_promise_without_a_change_lands_with_a_warning() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("test $RALPH_STORY = 2 && touch f; {COMPLETE}"));
    let said = "the agent says it is done, but nothing has changed";
    let output = world.start(&[]).code(0).says(&format!("warning: 1: {said}"));
    assert_eq!(output.stderr.matches(said).count(), 1, "{}", output.stderr);
    assert_eq!(world.count("checkpoint-landed"), 2);
    world.ralph(&["log"]).code(0).says(&format!("warning: {said}"));
    world.ralph(&["status"]).code(0).says(&format!("warning: {said}"));
}

#[test]
fn a_promise_without_a_change_fails_if_the_settings_say_so_and_the_next_prompt_says_why() {
    let world = World::new();
    world.write("tasks.md", "# Tasks\n\n- [ ] one\n- [ ] two\n");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "more"]);
    world.git(&["config", "ralph.emptyDiff", "fail"]);
    world.change("work", "source = 'tasks.md'\n");
    // Neither a tick in the story's own box nor an edit that the user made earlier counts as work.
    world.agent(&format!("test $RALPH_ATTEMPT = 1 && sed -i '0,/\\[ \\]/s//[x]/' tasks.md || touch f$RALPH_STORY; {COMPLETE}"));
    let output = world.start(&["--limit", "1"]).code(0);
    assert!(output.stderr.contains("the agent said that it is done, but nothing has changed"), "{}", output.stderr);
    world.write("README", "edited by the user\n");
    world.ralph(&["resume"]).code(0);
    assert_eq!((world.count("attempt-rejected"), world.count("checkpoint-landed")), (2, 2));
    let story = world.events().iter().find(|event| event["event"] == "attempt-rejected").unwrap()["story"].as_str().unwrap().to_owned();
    assert!(world.prompt(&story, 2).contains("the agent said that it is done, but nothing has changed"));
    assert_eq!(world.read("README"), "edited by the user\n");
}
