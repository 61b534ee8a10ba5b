//! Tests `git ralph worker` alone: a process with a hub on the same disk, and pipes as the connection.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use crate::support::{Output, Running, World, is_gone, send, which};

const BASE_REF: &str = "refs/ralph/work/remote/1/1-base";
const RESULT: &str = "refs/ralph/work/remote/1/1";

/// A world with a hub that has the base of an attempt, and a separate directory for temporary files.
struct Far {
    world: World,
    base: String,
}

impl Far {
    fn new() -> Self {
        let mut world = World::new();
        let tmp = world.outside("tmp");
        fs::create_dir(&tmp).unwrap();
        world.set_env("TMPDIR", tmp.to_str().unwrap());
        let far = Far { base: world.git(&["rev-parse", "HEAD"]), world };
        far.world.git(&["init", "-q", "--bare", &far.hub()]);
        far.world.git(&["push", "-q", &far.hub(), &format!("HEAD:{BASE_REF}")]);
        far
    }

    fn hub(&self) -> String {
        self.world.outside("hub.git").to_str().unwrap().to_owned()
    }

    /// The command line of a worker with an agent.
    fn words<'a>(&'a self, hub: &'a str, options: &[&'a str], agent: &[&'a str]) -> Vec<&'a str> {
        let fixed = ["worker", "--hub", hub, "--base", &self.base, "--base-ref", BASE_REF, "--result", RESULT, "--grace", "1"];
        fixed.into_iter().chain(options.iter().copied()).chain(["--"]).chain(agent.iter().copied()).collect()
    }

    fn spawn(&self, options: &[&str], agent: &[&str]) -> Child {
        let hub = self.hub();
        let mut command = self.world.command(env!("CARGO_BIN_EXE_git-ralph"), &self.words(&hub, options, agent));
        command.stdin(Stdio::piped()).spawn().unwrap()
    }

    fn work(&self, input: &str, options: &[&str], agent: &[&str]) -> Output {
        let mut child = self.spawn(options, agent);
        // A worker that has already refused does not read its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Running { child }.finish()
    }

    /// The commit of a ref on the hub, if it exists.
    fn on_hub(&self, rev: &str) -> Option<String> {
        let output = self.world.command(&which("git"), &["--git-dir", &self.hub(), "rev-parse", "-q", "--verify", rev]).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim_end().to_owned())
    }

    fn file(&self, name: &str) -> String {
        self.world.git(&["--git-dir", &self.hub(), "show", &format!("{RESULT}:{name}")])
    }

    /// The directories that workers have left.
    fn left(&self) -> Vec<PathBuf> {
        let tmp = fs::read_dir(self.world.outside("tmp")).unwrap();
        let roots = tmp.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        roots.flat_map(|root| fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()).collect()
    }

    /// Waits for the agent of a worker, which writes its process id to a file; returns the id.
    fn pid_in(&self, name: &str) -> String {
        let file = self.world.outside(name);
        self.world.wait_for("the agent", || fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')));
        fs::read_to_string(file).unwrap().trim().to_owned()
    }
}

#[test]
fn the_result_holds_the_files_the_commits_and_the_learnings_and_nothing_else_stays() {
    let far = Far::new();
    let agent = "cat >seen; cat \"$RALPH_LEARNINGS\" >known; echo 'a new one' >>\"$RALPH_LEARNINGS\"
        echo one >one; git add one; git commit -qm mine; git branch left-behind; git reset -q --hard HEAD~1
        echo two >two; git add two; git commit -qm second; echo three >three; echo secret >x.ignored; mkdir deep; rm README
        git init -q deep/nested; echo n >deep/nested/file
        test \"$PWD\" = \"$RALPH_WORKSPACE\" && echo \"$RALPH_STORY\" >story; echo said; echo complained >&2; exit 7";
    far.world.write(".gitignore", "*.ignored\n");
    far.world.git(&["add", "-A"]);
    far.world.git(&["commit", "-qm", "ignore"]);
    let far = Far { base: far.world.git(&["rev-parse", "HEAD"]), ..far };
    far.world.git(&["push", "-qf", &far.hub(), &format!("HEAD:{BASE_REF}")]);
    let options = [
        "--learnings-bytes",
        "4",
        "--prompt-bytes",
        "6",
        "--identity",
        "An Agent <a@b>",
        "--env",
        "RALPH_STORY=the story",
        "--env",
        "RALPH_RUN=t/",
    ];
    let output = far.work("old\nPROMPT", &options, &["sh", "-c", agent]).code(7);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("said\n", "complained\n"));
    let files = ["seen", "known", "two", "three", "story"].map(|name| far.file(name));
    assert_eq!(files, ["PROMPT", "old", "two", "three", "the story"]);
    let listed = far.world.git(&["--git-dir", &far.hub(), "ls-tree", "-r", "--name-only", RESULT]);
    assert_eq!(listed, ".gitignore\nknown\nseen\nstory\nthree\ntwo");
    let log = |rev: &str| far.world.git(&["--git-dir", &far.hub(), "log", "--format=%s, %an", rev, "--"]);
    assert_eq!(log(&format!("{RESULT}^1")), "second, An Agent\nignore, Test\nfirst, Test");
    let all = log(RESULT);
    assert!(all.contains("mine, An Agent") && all.contains("files of the repository in deep/nested"), "{all}");
    let message = far.world.git(&["--git-dir", &far.hub(), "log", "-1", "--format=%b", RESULT]);
    for part in [r#""token":"t/""#, r#""exit":{"kind":"code","code":7}"#, r#""stdout":5"#, r#""learnings":"a new one\n""#] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    assert_eq!(far.on_hub(BASE_REF).unwrap(), far.base);
    assert_eq!(far.left(), Vec::<PathBuf>::new());
}

#[test]
fn encoded_words_reach_the_agent_unchanged_through_two_shells() {
    let far = Far::new();
    let hub = far.hub();
    let agent = [
        "sh",
        "-c",
        "printf%20%27%25s,%27%20%22%24@%22%20%22%24WORD%22%20%3Eseen",
        "sh",
        "it%27s",
        "two%20words",
        "%",
        "%24HOME",
        "%22q%22%0Ax",
    ];
    let words = far.words(&hub, &["--encoded", "--env", "WORD=a%20%3B%20b"], &agent);
    let line = format!("{} {}", env!("CARGO_BIN_EXE_git-ralph"), words.join(" "));
    let again = format!("sh -c '{line}'");
    let ran = far.world.command("sh", &["-c", &again]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(far.file("seen"), "it's,two words,,$HOME,\"q\"\nx,a ; b,");
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds a process that has left its session")]
#[test]
fn when_the_connection_closes_the_agent_ends_with_all_that_it_started_and_its_work_is_pushed() {
    let far = Far::new();
    let (pid, child) = (far.world.outside("pid"), far.world.outside("child"));
    let agent = format!(
        "echo half >work; setsid sh -c 'trap \"\" TERM HUP; echo $$ >{}; while :; do sleep 1; done' & echo $$ >{}; sleep 600",
        child.display(),
        pid.display()
    );
    let mut worker = far.spawn(&["--prompt-bytes", "0"], &["sh", "-c", &agent]);
    let (pid, child) = (far.pid_in("pid"), far.pid_in("child"));
    // Closes the connection: nothing reads the output of the worker any more.
    drop((worker.stdin.take(), worker.stdout.take()));
    far.world.wait_for("the end of the worker", || worker.try_wait().unwrap().is_some());
    assert!(is_gone(&pid) && is_gone(&child), "the agent and its child have ended");
    assert_eq!(far.file("work"), "half");
    let message = far.world.git(&["--git-dir", &far.hub(), "log", "-1", "--format=%b", RESULT]);
    assert!(message.contains(r#""kind":"interrupted""#), "{message}");
    assert_eq!(far.left(), Vec::<PathBuf>::new());
}

#[test]
fn a_prompt_that_ends_early_starts_no_agent_and_its_proper_end_is_no_end_of_the_connection() {
    let far = Far::new();
    let agent = ["sh", "-c", "sleep 1; echo done >file"];
    far.work("half a", &["--prompt-bytes", "12"], &agent).code(128).says("before the whole prompt had arrived");
    assert_eq!((far.on_hub(RESULT), far.left()), (None, Vec::new()));
    far.work("half a promp", &["--prompt-bytes", "12"], &agent).code(0);
    assert_eq!(far.file("file"), "done");
}

#[test]
fn a_connection_that_closes_before_the_agent_starts_leaves_nothing() {
    let far = Far::new();
    let marker = far.world.outside("started");
    let mut worker = far.spawn(&["--prompt-bytes", "9"], &["touch", marker.to_str().unwrap()]);
    drop(worker.stdout.take());
    far.world.wait_for("the end of the worker", || worker.try_wait().unwrap().is_some());
    let mut said = String::new();
    worker.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("the connection has ended before the agent was started"), "{said}");
    assert_eq!((marker.exists(), far.on_hub(RESULT), far.left()), (false, None, Vec::new()));
}

#[test]
fn a_worker_takes_only_a_ref_below_refs_ralph_a_full_id_and_a_hub_that_is_no_option() {
    let far = Far::new();
    let hub = far.hub();
    let table = [
        (hub.as_str(), far.base.as_str(), "refs/heads/main", "'refs/heads/main' is not a ref below refs/ralph/<change>/"),
        (&hub, &far.base, "refs/ralph/work/x:refs/heads/main", "is not a ref below"),
        (&hub, "HEAD", RESULT, "'HEAD' is not the full id of a commit"),
        ("--upload-pack=touch evil", &far.base, RESULT, "'--upload-pack=touch evil' is not the URL of a hub"),
        ("ext::sh -c 'touch evil'", &far.base, RESULT, "transport 'ext' not allowed"),
    ];
    for (hub, base, result, why) in table {
        let hub = format!("--hub={hub}");
        let words = ["worker", &hub, "--base", base, "--result", result, "--", "true"];
        far.world.ralph(&words).code(128).says(why);
    }
    assert!(!far.world.exists("evil") && far.left().is_empty());
    let other = "0".repeat(39) + "1";
    let words = ["worker", "--hub", &hub, "--base", &other, "--base-ref", BASE_REF, "--result", RESULT, "--", "true"];
    far.world.ralph(&words).code(128).says(&format!("the hub has {} at {BASE_REF}, and not 0000000000", &far.base[..10]));
    let words = ["worker", "--hub", "/no/such/hub", "--base", &other, "--result", RESULT, "--", "true"];
    far.world.ralph(&words).code(128).says("cannot fetch from the hub").says("/no/such/hub");
}

#[cfg_attr(ralph_portable, ignore = "needs Linux: it finds what a killed worker left running by its mark")]
#[test]
fn leftovers_of_a_killed_worker_are_ended_and_removed_by_the_next_one_and_a_living_worker_is_left_alone() {
    let far = Far::new();
    let agent = |name: &str| format!("echo $$ >{}; sleep 600", far.world.outside(name).display());
    let mut killed = far.spawn(&["--prompt-bytes", "0"], &["sh", "-c", &agent("first")]);
    let mut living = far.spawn(&["--prompt-bytes", "0"], &["sh", "-c", &agent("second")]);
    let (first, second) = (far.pid_in("first"), far.pid_in("second"));
    send("KILL", &killed.id().to_string());
    killed.wait().unwrap();
    assert!(!is_gone(&first), "nothing has ended the agent of the killed worker yet");
    assert_eq!(far.left().len(), 2);
    far.work("", &[], &["true"]).code(0);
    assert!(is_gone(&first) && !is_gone(&second));
    assert_eq!(far.left().len(), 1, "the directory of the living worker");
    drop(living.stdout.take());
    far.world.wait_for("the end of the worker", || living.try_wait().unwrap().is_some());
    assert_eq!(far.left(), Vec::<PathBuf>::new());
}

#[test]
fn a_directory_for_workers_that_others_could_write_to_is_refused() {
    let far = Far::new();
    far.work("", &[], &["true"]).code(0);
    let root = fs::read_dir(far.world.outside("tmp")).unwrap().next().unwrap().unwrap().path();
    fs::remove_dir(&root).unwrap();
    std::os::unix::fs::symlink(far.world.outside("home"), &root).unwrap();
    far.work("", &[], &["true"]).code(128).says("is not a directory that only you can use");
    let dir = far.world.outside("home");
    far.work("", &["--dir", dir.to_str().unwrap()], &["true"]).code(0);
}

#[test]
fn a_worker_that_comes_late_pushes_nothing_when_the_attempt_is_over() {
    let far = Far::new();
    let agent = format!("git --git-dir={} update-ref -d {BASE_REF}; echo x >x", far.hub());
    far.work("", &[], &["sh", "-c", &agent]).code(128).says("cannot push to the hub");
    assert_eq!((far.on_hub(RESULT), far.on_hub(BASE_REF), far.left()), (None, None, Vec::new()));
}

#[test]
fn setup_commands_run_before_the_agent_and_their_files_are_not_part_of_the_result() {
    let far = Far::new();
    far.world.write(".gitignore", "deps\n");
    far.world.git(&["add", "-A"]);
    far.world.git(&["commit", "-qm", "ignore"]);
    let far = Far { base: far.world.git(&["rev-parse", "HEAD"]), ..far };
    far.world.git(&["push", "-qf", &far.hub(), &format!("HEAD:{BASE_REF}")]);
    let setup = ["--setup", "mkdir deps; echo d >deps/d; echo setting up"];
    let output = far.work("", &setup, &["sh", "-c", "cp deps/d copy; rm .gitignore; echo said"]).code(0);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("said\n", "setting up\n"));
    assert_eq!(far.world.git(&["--git-dir", &far.hub(), "ls-tree", "-r", "--name-only", RESULT]), "README\ncopy");
    far.work("", &["--setup", "exit 3"], &["true"]).code(128).says("the setup command 'exit 3' failed on the worker");
}

#[test]
fn a_hub_of_the_other_object_format_and_a_shallow_history_work() {
    let far = Far::new();
    let (repo, hub) = (far.world.outside("sha256"), far.world.outside("sha256.git"));
    let (repo, hub) = (repo.to_str().unwrap(), hub.to_str().unwrap());
    far.world.git(&["init", "-q", "--object-format=sha256", repo]);
    far.world.git(&["init", "-q", "--bare", "--object-format=sha256", hub]);
    for n in ["one", "two"] {
        far.world.git(&["-C", repo, "-c", "user.name=T", "-c", "user.email=t@e", "commit", "-q", "--allow-empty", "-m", n]);
    }
    far.world.git(&["-C", repo, "push", "-q", hub, &format!("HEAD:{BASE_REF}")]);
    let base = far.world.git(&["-C", repo, "rev-parse", "HEAD"]);
    let agent = ["sh", "-c", "git log --format=%s >log"];
    let words = ["worker", "--hub", hub, "--base", &base, "--base-ref", BASE_REF, "--result", RESULT, "--depth", "1", "--"];
    far.world.ralph(&[&words[..], &agent[..]].concat()).code(0);
    assert_eq!(far.world.git(&["--git-dir", hub, "show", &format!("{RESULT}:log")]), "two");
    assert_eq!(far.world.git(&["--git-dir", hub, "log", "--format=%s", &format!("{RESULT}^1")]), "two\none");
}
