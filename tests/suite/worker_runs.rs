//! Tests runs whose agents work on another machine, through `git ralph worker`; a script that joins its arguments as ssh does is the
//! connection.

use std::fs;
use std::path::PathBuf;

use crate::support::{COMPLETE, Output, World, is_gone, send, which};

/// A world with a hub, and a program `connect` that runs a command as ssh would on another machine: it joins the words for a shell, in a
/// new session, with none of our environment except for a directory for temporary files.
struct Fleet {
    world: World,
}

impl Fleet {
    fn new() -> Self {
        let mut world = World::new();
        let tmp = world.outside("far-tmp");
        fs::create_dir(&tmp).unwrap();
        let path = world.env().iter().find(|(name, _)| name == "PATH").unwrap().1.clone();
        let far = format!("PATH={path} HOME={} TMPDIR={} GIT_CONFIG_NOSYSTEM=1", world.outside("home").display(), tmp.display());
        // Another machine inherits no open files, and so no lock.
        let alone = r#"for fd in /proc/self/fd/*; do n=${fd##*/}; test "$n" -gt 2 && eval "exec $n>&-"; done; exec sh -c "$1""#;
        world.program(
            "connect",
            &format!(
                "shift; echo $$ >>{}
                 {{ cat | setsid env -i {far} bash -c '{alone}' bash \"$*\"; echo $? >$0.status; }} | cat; exit $(cat $0.status)",
                world.outside("connections").display()
            ),
        );
        world.set_env("GIT_CONFIG_GLOBAL", "/dev/null");
        let fleet = Fleet { world };
        fleet.world.git(&["config", "ralph.grace", "3s"]);
        fleet.world.git(&["init", "-q", "--bare", &fleet.hub()]);
        fleet.accept_only_ralph();
        fleet
    }

    fn hub(&self) -> String {
        self.world.outside("hub.git").to_str().unwrap().to_owned()
    }

    /// Installs the hub's hook from the documentation.
    fn accept_only_ralph(&self) {
        let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/runners.md")).unwrap();
        let hook = page.split("```sh hub-hook\n").nth(1).expect("docs/runners.md shows the hook").split("```").next().unwrap();
        let path = self.world.outside("hub.git/hooks/update");
        fs::write(&path, hook).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn runner(&self) -> String {
        format!("connect far {} worker --hub {}", env!("CARGO_BIN_EXE_git-ralph"), self.hub())
    }

    fn start(&self, options: &[&str], agent: &[&str]) -> Output {
        let runner = self.runner();
        let fixed = ["start", "work", "--isolate", "--runner", &runner];
        self.world.ralph(&[&fixed[..], options, &["--"], agent].concat())
    }

    fn on_hub(&self) -> String {
        self.world.git(&["--git-dir", &self.hub(), "for-each-ref", "--format=%(refname)"])
    }

    /// The directories that workers have left.
    fn left(&self) -> Vec<PathBuf> {
        let roots = fs::read_dir(self.world.outside("far-tmp")).unwrap().map(|entry| entry.unwrap().path());
        roots.flat_map(|root| fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()).collect()
    }

    fn outcomes(&self) -> Vec<String> {
        let rejected = self.world.events().into_iter().filter(|event| event["event"] == "attempt-rejected");
        rejected.map(|event| event["outcome"]["outcome"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn an_agent_works_on_another_machine_and_its_work_is_gated_and_landed_here() {
    let fleet = Fleet::new();
    let world = &fleet.world;
    let gate = format!("test ! -e no && test \"$(pwd)\" != / && echo gated >>{}", world.outside("gated").display());
    world.stories(2, &format!("verify = ['''{gate}''']\nsetup = ['touch set-up']\nmax-retries = 1"));
    let agent = "cat >prompt-$RALPH_STORY; cp \"$RALPH_LEARNINGS\" known-$RALPH_STORY; echo \"learned in $RALPH_STORY\" >>\"$RALPH_LEARNINGS\"
        test -e set-up && pwd >where-$RALPH_STORY; echo \"$1\" >>words; git add words; git commit -qm \"mine $RALPH_STORY\"
        test $RALPH_STORY$RALPH_ATTEMPT = 21 && touch no; echo \"$RALPH_CHANGE $RALPH_ATTEMPT $RALPH_SLOT\" >env-$RALPH_STORY; echo '<promise>COMPLETE</promise>'";
    fleet.start(&[], &["sh", "-c", agent, "sh", "it's \"two\" $words"]).code(0).says("all stories of work are done");
    assert_eq!(world.git(&["show", "ralph/work:words"]), "it's \"two\" $words\nit's \"two\" $words");
    assert_eq!(world.git(&["show", "ralph/work:env-2"]), "work 2 0", "the gate failed here after the first attempt");
    assert_eq!(fs::read_to_string(world.outside("gated")).unwrap(), "gated\ngated\n");
    let place = world.git(&["show", "ralph/work:where-1"]);
    assert!(place.starts_with(world.outside("far-tmp").to_str().unwrap()), "{place}");
    assert!(world.prompt("1", 1).contains("$RALPH_LEARNINGS"));
    assert_eq!(world.git(&["show", "ralph/work:prompt-1"]), world.prompt("1", 1).trim_end());
    assert_eq!(world.git(&["show", "ralph/work:known-2"]), "learned in 1\nlearned in 2");
    assert!(world.has_ref("refs/ralph/work/attempts/2/1"), "the work of the failed attempt is saved");
    assert!(world.git(&["log", "--all", "--format=%s"]).contains("mine 2"), "the agent's own commits are kept");
    assert_eq!((fleet.on_hub(), fleet.left()), (String::new(), Vec::new()), "nothing is left on the hub and on the machine");
    assert_eq!(world.git(&["for-each-ref", "refs/ralph/work/remote"]), "");
    world.ralph(&["finish", "--cleanup"]).code(0);
    assert_eq!(world.read("words").lines().count(), 2);
}

#[test]
fn a_hub_takes_pushes_below_refs_ralph_only() {
    let fleet = Fleet::new();
    let hub = fleet.hub();
    fleet.world.git(&["push", "-q", &hub, "HEAD:refs/ralph/work/remote/1/1-base"]);
    fleet.world.git(&["push", "-q", &hub, ":refs/ralph/work/remote/1/1-base"]);
    for name in ["refs/heads/main", "refs/tags/v1", "refs/ralphs/x/y"] {
        let pushed = fleet.world.command(&which("git"), &["push", &hub, &format!("HEAD:{name}")]).output().unwrap();
        let said = String::from_utf8_lossy(&pushed.stderr).into_owned();
        assert!(!pushed.status.success() && said.contains("refs/ralph/"), "{said}");
    }
    assert_eq!(fleet.on_hub(), "");
}

#[test]
fn a_connection_that_breaks_is_an_interrupted_attempt_and_costs_no_retry() {
    let fleet = Fleet::new();
    let world = &fleet.world;
    world.stories(1, "max-retries = 0");
    // Kills the connection at the far end during the first attempt.
    let agent = format!(
        "echo half >half; echo $$ >{}; if test $RALPH_ATTEMPT = 1; then kill -9 -$(tail -1 {}); sleep 600; fi; echo whole >whole; rm -f half; {COMPLETE}",
        world.outside("pid").display(),
        world.outside("connections").display()
    );
    fleet.start(&[], &["sh", "-c", &agent]).code(0);
    assert_eq!(fleet.outcomes(), ["lost"]);
    assert_eq!(world.git(&["show", "ralph/work:whole"]), "whole");
    assert_eq!(world.git(&["show", "refs/ralph/work/attempts/1/1:half"]), "half", "what the first attempt left has been saved");
    assert_eq!((fleet.on_hub(), fleet.left()), (String::new(), Vec::new()));
}

#[test]
fn a_result_that_was_pushed_counts_although_the_connection_breaks_after_it() {
    let fleet = Fleet::new();
    let world = &fleet.world;
    world.stories(1, "max-retries = 0");
    // The hub cuts the connection as soon as it has the result.
    let hook = format!("#!/bin/sh\ncase $1 in */1/1) kill -9 -$(tail -1 {});; esac", world.outside("connections").display());
    let path = world.outside("hub.git/hooks/post-update");
    fs::write(&path, hook).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fleet.start(&[], &["sh", "-c", &format!("echo done >file; {COMPLETE}")]).code(0);
    assert_eq!((fleet.outcomes(), world.git(&["show", "ralph/work:file"])), (Vec::new(), "done".to_owned()));
    assert_eq!((fleet.on_hub(), fleet.left()), (String::new(), Vec::new()));
}

#[test]
fn a_worker_that_cannot_fetch_or_push_is_an_interrupted_attempt() {
    let fleet = Fleet::new();
    let world = &fleet.world;
    world.stories(1, "max-retries = 0");
    let refused = world.outside("refused");
    let agent = format!("if test $RALPH_ATTEMPT = 1; then touch {}; fi; echo x$RALPH_ATTEMPT >file; {COMPLETE}", refused.display());
    // The hub refuses everything once, before the push of the first attempt.
    let path = world.outside("hub.git/hooks/update");
    fs::write(&path, format!("#!/bin/sh\nif test -e {0}; then rm {0}; echo later >&2; exit 1; fi", refused.display())).unwrap();
    fleet.start(&[], &["sh", "-c", &agent]).code(0);
    assert_eq!((fleet.outcomes(), world.git(&["show", "ralph/work:file"])), (vec!["lost".to_owned()], "x2".to_owned()));
    assert_eq!((fleet.on_hub(), fleet.left()), (String::new(), Vec::new()));
}

#[test]
fn after_a_kill_resume_brings_what_the_worker_has_pushed_and_clears_the_hub() {
    let fleet = Fleet::new();
    let world = &fleet.world;
    world.stories(1, "max-retries = 0");
    let pid = world.outside("pid");
    let agent = format!("echo half >half; echo $$ >{}; test $RALPH_ATTEMPT = 2 || sleep 600; {COMPLETE}", pid.display());
    let runner = fleet.runner();
    let running = world.spawn(&["start", "work", "--isolate", "--runner", &runner, "--", "sh", "-c", &agent]);
    world.wait_for("the agent", || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
    running.signal("KILL");
    running.finish();
    assert!(fleet.on_hub().contains("refs/ralph/work/remote/1/1-base"));
    let first = fs::read_to_string(&pid).unwrap();
    world.ralph(&["resume"]).code(0);
    assert!(is_gone(&first), "the agent on the other machine has ended");
    assert_eq!(world.git(&["show", "refs/ralph/work/attempts/1/1:half"]), "half");
    assert_eq!((fleet.on_hub(), fleet.left()), (String::new(), Vec::new()));
    world.ralph(&["finish", "--cleanup"]).code(0);
}

#[test]
fn abort_after_a_kill_clears_the_hub_and_a_hub_that_is_gone_is_reported() {
    let fleet = Fleet::new();
    let world = &fleet.world;
    world.stories(1, "");
    let pid = world.outside("pid");
    let agent = format!("echo $$ >{}; sleep 600", pid.display());
    let runner = fleet.runner();
    let running = world.spawn(&["start", "work", "--isolate", "--runner", &runner, "--", "sh", "-c", &agent]);
    world.wait_for("the agent", || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
    running.signal("KILL");
    running.finish();
    let (hub, aside) = (world.outside("hub.git"), world.outside("aside.git"));
    fs::rename(&hub, &aside).unwrap();
    world.ralph(&["abort"]).code(0).says("could not be deleted on the hub");
    assert!(is_gone(&fs::read_to_string(&pid).unwrap()));
}

#[test]
fn a_worker_refuses_unsupported_work_before_it_creates_anything() {
    let fleet = Fleet::new();
    let world = &fleet.world;
    world.stories(1, "");
    let runner = fleet.runner();
    let start = |options: &[&str]| world.ralph(&[&["start", "work"], options, &["--", "true"]].concat());
    start(&["--runner", &runner]).code(2).says("need an isolated run").says("git ralph start --isolate work");
    start(&["--isolate", "--runner", "connect far git-ralph worker"]).code(128).says("without --hub");
    start(&["--isolate", "--runner", "connect far git-ralph worker --hub /no/hub"]).code(128).says("cannot reach the hub /no/hub");
    world.git(&["config", "ralph.gateRunner", &runner]);
    start(&["--isolate", "--runner", &runner]).code(128).says("'git ralph worker' cannot be their runner");
    world.git(&["config", "--unset", "ralph.gateRunner"]);
    start(&["--isolate", "--sandbox", "--runner", &runner]).code(128).says("does not run its agent in a sandbox");
    world.write(".gitmodules", "");
    start(&["--isolate", "--runner", &runner]).code(2).says("the repository has submodules");
    fs::remove_file(world.path(".gitmodules")).unwrap();
    world.write("deep/.gitattributes", "*.bin filter=lfs\n");
    start(&["--isolate", "--runner", &runner]).code(2).says("go through a filter");
    fs::remove_file(world.path("deep/.gitattributes")).unwrap();
    world.write(".git/shallow", "");
    start(&["--isolate", "--runner", &runner]).code(2).says("shallow");
    assert!(!world.outside("repo.ralph").exists() && world.git(&["for-each-ref", "refs/ralph"]).is_empty());
    fs::remove_file(world.path(".git/shallow")).unwrap();
    // A run that was started in place stays in place.
    world.ralph(&["start", "work", "--", "sh", "-c", "echo '<promise>FAILED: no</promise>'"]).code(1);
    world.git(&["config", "ralph.runner", &runner]);
    world.ralph(&["resume"]).code(2).says("need an isolated run").says("git ralph start --restart --isolate work");
    assert!(!world.outside("connections").exists(), "no connection was made");
}

#[test]
fn with_a_worker_an_automatic_sandbox_is_off_and_nothing_claims_there_is_one() {
    let fleet = Fleet::new();
    let world = &fleet.world;
    world.stories(1, "");
    world.program("bwrap", "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"");
    let out = fleet.start(&["--sandbox=auto"], &["sh", "-c", &format!("echo done >far; {COMPLETE}")]).code(0);
    let out = out.says("warning: no sandbox: a worker on another machine does not run its agent in a sandbox");
    assert!(!out.stderr.contains("bubblewrap"), "{}", out.stderr);
    let started = world.events().into_iter().find(|event| event["event"] == "run-started").unwrap();
    assert!(!started.to_string().contains("bwrap"), "{started}");
    world.git(&["config", "ralph.runner", &fleet.runner()]);
    world.git(&["config", "ralph.sandbox", "auto"]);
    let doctor = world.ralph(&["doctor"]);
    assert!(doctor.stdout.contains("a worker on another machine does not run its agent in a sandbox"), "{}", doctor.stdout);
    assert!(!doctor.stdout.contains("bubblewrap works"), "{}", doctor.stdout);
}

#[test]
fn stopping_a_run_ends_the_agent_on_the_other_machine_and_saves_its_work() {
    let fleet = Fleet::new();
    let world = &fleet.world;
    world.stories(1, "");
    let pid = world.outside("pid");
    let agent = format!("echo half >half; echo $$ >{}; sleep 600", pid.display());
    let runner = fleet.runner();
    let running = world.spawn(&["start", "work", "--isolate", "--runner", &runner, "--", "sh", "-c", &agent]);
    world.wait_for("the agent", || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')));
    send("TERM", &running.pid().to_string());
    running.finish().code(130);
    assert!(is_gone(&fs::read_to_string(&pid).unwrap()));
    assert_eq!(fleet.outcomes(), ["interrupted"]);
    assert_eq!(world.git(&["show", "refs/ralph/work/attempts/1/1:half"]), "half");
    assert_eq!((fleet.on_hub(), fleet.left()), (String::new(), Vec::new()));
}
