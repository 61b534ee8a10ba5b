//! The isolated environment of a test: its own home directory, repository, configuration and programs.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The time limit of a command; only one that hangs takes this long.
pub const LIMIT: Duration = Duration::from_secs(60);

/// More than a second, so that git can tell the times of a file and of the index apart.
const A_SECOND: Duration = Duration::from_millis(1100);

pub const COMPLETE: &str = "echo '<promise>COMPLETE</promise>'";

/// A script that git accepts as a signing program.
pub const SIGNING: &str =
    "cat >/dev/null; printf '[GNUPG:] SIG_CREATED \\n' >&2; echo '-----BEGIN PGP SIGNATURE-----'; echo; echo '-----END PGP SIGNATURE-----'";

/// A repository with one commit on `main`, and everything around it.
pub struct World {
    root: TempDir,
    /// The directory in which commands run.
    pub repo: PathBuf,
    env: Vec<(String, String)>,
}

/// The output of a command and how it ended.
#[derive(Debug)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

impl Output {
    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, expected, "\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(
            self.stderr.contains(text) || self.stdout.contains(text),
            "'{text}' is not said in\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout,
            self.stderr
        );
        self
    }
}

impl World {
    pub fn new() -> Self {
        let world = World::empty();
        world.git(&["init", "-q", "-b", "main"]);
        world.git(&["config", "user.name", "Test"]);
        world.git(&["config", "user.email", "test@example.com"]);
        world.write("README", "hello\n");
        world.git(&["add", "-A"]);
        world.git(&["commit", "-q", "-m", "first"]);
        world
    }

    /// A world with a directory that is not a repository.
    pub fn empty() -> Self {
        let root = tempfile::Builder::new().prefix("ralph-test-").tempdir().unwrap();
        let (repo, home, bin) = (root.path().join("repo"), root.path().join("home"), root.path().join("bin"));
        for dir in [&repo, &home, &bin] {
            fs::create_dir(dir).unwrap();
        }
        let program = Path::new(env!("CARGO_BIN_EXE_git-ralph")).parent().unwrap();
        let path = format!("{}:{}:{}", bin.display(), program.display(), path_without_clients());
        let env = [
            ("PATH", path.as_str()),
            ("HOME", home.to_str().unwrap()),
            ("TZ", "UTC"),
            ("LC_ALL", "C"),
            ("TERM", "xterm-256color"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
        ];
        let env = env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        World { repo: repo.canonicalize().unwrap(), env, root }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.repo.join(name)
    }

    /// A file outside of the repository.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Whether attempts of the change `work` run in private clones. `RALPH_TEST_MODE=isolated` runs tests that were written for runs in
    /// place a second time; files that they look for in the work tree are then read from the run's branch.
    pub fn is_isolated() -> bool {
        std::env::var("RALPH_TEST_MODE").is_ok_and(|mode| mode == "isolated")
    }

    /// Whether this is isolated mode, in which the test does not apply, for the given reason.
    pub fn is_in_place_only(_why: &str) -> bool {
        World::is_isolated()
    }

    /// The branch that the checkout is on while a run is open: an isolated run leaves it where it is.
    pub fn branch_of_checkout() -> &'static str {
        if World::is_isolated() { "main" } else { "ralph/work" }
    }

    /// A file of the run's branch; `None` unless in isolated mode and while the branch exists.
    fn on_branch(&self, name: &str) -> Option<Vec<u8>> {
        if !World::is_isolated() || name.starts_with(".git/") || !self.has_ref("refs/heads/ralph/work") {
            return None;
        }
        let output = self.command(&which("git"), &["cat-file", "blob", &format!("refs/heads/ralph/work:{name}")]).output().unwrap();
        output.status.success().then_some(output.stdout)
    }

    pub fn read(&self, name: &str) -> String {
        if let Some(bytes) = self.on_branch(name) {
            return String::from_utf8(bytes).unwrap();
        }
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn exists(&self, name: &str) -> bool {
        self.on_branch(name).is_some() || self.path(name).symlink_metadata().is_ok()
    }

    /// Writes the change file of `work` with stories `1` to `n`, preceded by `head`.
    pub fn stories(&self, n: usize, head: &str) {
        let stories: String = (1..=n).map(|id| format!("[[story]]\nid = \"{id}\"\ntitle = \"Story {id}\"\n")).collect();
        self.change("work", &format!("{head}\n{stories}"));
    }

    pub fn change(&self, name: &str, text: &str) {
        let common = self.git(&["rev-parse", "--path-format=absolute", "--git-common-dir"]);
        let dir = Path::new(common.trim()).join("ralph");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("{name}.toml")), text).unwrap();
    }

    /// A scripted agent: a shell script that tests pass to `start` as the command.
    pub fn agent(&self, script: &str) -> String {
        self.program("agent", script)
    }

    /// An agent that waits before it exits. git then recognises unchanged files by their times, without reading them, as with a real
    /// agent.
    pub fn unhurried_agent(&self, script: &str) -> String {
        self.agent(&format!("trap 'sleep {}' EXIT\n{script}", A_SECOND.as_secs_f32()))
    }

    /// Waits until git trusts the times of all files written so far.
    pub fn let_files_age(&self) {
        std::thread::sleep(A_SECOND);
    }

    /// An agent that, in the first story, leaves an unfinished merge and deletes an ignored file. In each story it records which of the
    /// two it finds.
    pub fn careless_agent(&self) {
        self.write(".git/info/exclude", ".env\n");
        self.write(".env", "SECRET\n");
        self.git(&["worktree", "add", "-q", "-b", "side", "../side"]);
        fs::write(self.path("../side/side"), "side\n").unwrap();
        self.git(&["-C", "../side", "add", "side"]);
        self.git(&["-C", "../side", "commit", "-qm", "side"]);
        self.git(&["worktree", "remove", "../side"]);
        self.agent(&format!(
            "ls .env .git/MERGE_HEAD >seen-by-$RALPH_STORY 2>/dev/null
             test $RALPH_STORY = 1 && {{ {} merge -q --no-commit --no-ff side; rm .env; }}; {COMPLETE}",
            which("git")
        ));
    }

    /// Installs a program that precedes all others on PATH, and returns its path.
    pub fn program(&self, name: &str, script: &str) -> String {
        let path = self.root.path().join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Replaces git: runs `script` (with the arguments in `$*`), then the real git as `$REAL_GIT "$@"`.
    pub fn fake_git(&self, script: &str) {
        let real = which("git");
        self.program("git", &format!("REAL_GIT={real}\n{script}\nexec {real} \"$@\""));
    }

    /// Commits a file on the original branch, without touching the run.
    pub fn move_original(&self, file: &str, text: &str) {
        self.git(&["switch", "-q", "main"]);
        self.write(file, text);
        self.git(&["add", file]);
        self.git(&["commit", "-qm", "moved on"]);
        self.git(&["switch", "-q", "ralph/work"]);
    }

    /// A command with the directory and environment of the world and an empty standard input.
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = program_from_scratch(program);
        command.args(args).current_dir(&self.repo).env_clear().envs(self.env.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Installs a hook in the repository.
    pub fn hook(&self, name: &str, script: &str) {
        let path = format!(".git/hooks/{name}");
        self.write(&path, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(self.path(&path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Sets a variable for all commands that are started later.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// Removes a variable for all commands that are started later.
    pub fn unset_env(&mut self, name: &str) {
        self.env.retain(|(known, _)| known != name);
    }

    /// The environment of the world, for a test that starts programs itself.
    pub fn env(&self) -> &[(String, String)] {
        &self.env
    }

    #[track_caller]
    pub fn git(&self, args: &[&str]) -> String {
        let output = self.command(&which("git"), args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Runs git-ralph to its end; the test fails if it hangs.
    #[track_caller]
    pub fn ralph(&self, args: &[&str]) -> Output {
        self.spawn(args).finish()
    }

    /// `git ralph start work -- <agent>`, with more options.
    #[track_caller]
    pub fn start(&self, options: &[&str]) -> Output {
        let agent = self.outside("bin/agent");
        let mut args = vec!["start", "work"];
        args.extend(World::is_isolated().then_some("--isolate"));
        args.extend(options);
        args.extend(["--", agent.to_str().unwrap()]);
        self.ralph(&args)
    }

    pub fn spawn(&self, args: &[&str]) -> Running {
        Running { child: self.command(env!("CARGO_BIN_EXE_git-ralph"), args).spawn().unwrap() }
    }

    /// Starts `git ralph start work -- <agent>` and returns while it runs.
    pub fn spawn_start(&self, options: &[&str]) -> Running {
        let agent = self.outside("bin/agent");
        let mut args = vec!["start", "work"];
        args.extend(World::is_isolated().then_some("--isolate"));
        args.extend(options);
        args.extend(["--", agent.to_str().unwrap()]);
        self.spawn(&args)
    }

    /// The subjects of the commits of a branch, newest first.
    pub fn subjects(&self, rev: &str) -> Vec<String> {
        self.git(&["log", "--format=%s", rev, "--"]).lines().map(str::to_owned).collect()
    }

    pub fn branch(&self) -> String {
        self.git(&["symbolic-ref", "--short", "HEAD"])
    }

    pub fn has_ref(&self, name: &str) -> bool {
        self.command(&which("git"), &["rev-parse", "-q", "--verify", name]).output().unwrap().status.success()
    }

    /// The directory of the change's first run.
    pub fn run_dir(&self) -> PathBuf {
        self.path(".git/ralph/runs/work/1")
    }

    pub fn prompt(&self, story: &str, attempt: u32) -> String {
        let path = self.run_dir().join(format!("attempts/{story}/{attempt}/prompt.md"));
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub fn events(&self) -> Vec<serde_json::Value> {
        let journal = fs::read_to_string(self.run_dir().join("journal.jsonl")).unwrap();
        let event = |line| {
            let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
            // The digest that chains the lines of the journal is not part of the event.
            event.as_object_mut().unwrap().remove("mac");
            event
        };
        // While git-ralph runs, the last line may not be complete yet.
        journal.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(event).collect()
    }

    /// How often an event of that name is in the journal.
    pub fn count(&self, event: &str) -> usize {
        self.events().iter().filter(|value| value["event"] == event).count()
    }

    /// Waits until a condition is true.
    #[track_caller]
    pub fn wait_for(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < LIMIT, "still waiting for {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The highest number that a signal may have on any system.
const LAST_SIGNAL: i32 = 64;

/// A command that ignores and blocks no signal, whatever the test itself inherited, for example from `nohup` or from a script that ended
/// with `&`.
#[expect(unsafe_code, reason = "dispositions and mask have no safe interface")]
pub fn program_from_scratch(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    // SAFETY: between fork and exec only async-signal-safe calls are made, and the signal set is a plain struct that is initialised first.
    unsafe {
        command.pre_exec(|| {
            for signal in 1..=LAST_SIGNAL {
                // This fails for signals that cannot be ignored and for those reserved by libc.
                libc::signal(signal, libc::SIG_DFL);
            }
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            Ok(())
        });
    }
    command
}

/// Sends a signal to a process.
#[track_caller]
pub fn send(signal: &str, pid: &str) {
    assert!(program_from_scratch("kill").args([&format!("-{signal}"), pid.trim()]).status().unwrap().success());
}

/// A running git-ralph.
pub struct Running {
    pub child: Child,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: &str) {
        send(signal, &self.pid().to_string());
    }

    /// Waits for the end; also returns the peak memory in kB. The output must be short, because it is read only at the end.
    #[track_caller]
    pub fn finish_and_measure(self) -> (Output, u64) {
        let started = Instant::now();
        let mut peak = 0;
        // A process that has ended has no memory.
        while let Some(now) = memory(self.pid()) {
            peak = peak.max(now);
            if started.elapsed() > LIMIT {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(peak > 0, "nothing was measured");
        (self.finish(), peak)
    }

    #[track_caller]
    pub fn finish(mut self) -> Output {
        let mut pipes = (self.child.stdout.take().unwrap(), self.child.stderr.take().unwrap());
        let out = std::thread::spawn(move || text(&mut pipes.0));
        let err = std::thread::spawn(move || text(&mut pipes.1));
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if started.elapsed() > LIMIT {
                self.child.kill().unwrap();
                panic!("git-ralph hangs\n{}\n{}", out.join().unwrap(), err.join().unwrap());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let code = status.code().unwrap_or_else(|| -status.signal().unwrap());
        Output { stdout: out.join().unwrap(), stderr: err.join().unwrap(), code }
    }
}

fn text(pipe: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A PATH without real clients, so that no test starts one that happens to be installed.
fn path_without_clients() -> String {
    let path = std::env::var("PATH").unwrap();
    let has_client = |dir: &&str| git_ralph::agent::PROFILES.iter().any(|profile| Path::new(dir).join(profile.name).exists());
    path.split(':').filter(|dir| !has_client(dir)).collect::<Vec<_>>().join(":")
}

/// The peak memory of a process in kB.
#[cfg(target_os = "linux")]
fn memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().trim_end_matches(" kB").parse().ok()
}

/// The current memory of a process in kB.
#[cfg(not(target_os = "linux"))]
fn memory(pid: u32) -> Option<u64> {
    told_by_ps("rss=", &pid.to_string()).parse().ok().filter(|kilobytes| *kilobytes > 0)
}

/// Whether a process has ended; a zombie counts as ended.
#[cfg(target_os = "linux")]
pub fn is_gone(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", pid.trim())).map_or(true, |stat| stat.contains(") Z "))
}

/// Whether a process has ended; a zombie counts as ended.
#[cfg(not(target_os = "linux"))]
pub fn is_gone(pid: &str) -> bool {
    let state = told_by_ps("stat=", pid.trim());
    state.is_empty() || state.starts_with('Z')
}

#[cfg(not(target_os = "linux"))]
fn told_by_ps(field: &str, pid: &str) -> String {
    let output = program_from_scratch("ps").args(["-o", field, "-p", pid]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A shell script that commits another content of a file on the original branch without touching the work tree; `text` is for `printf`.
pub fn moving_main(file: &str, text: &str) -> String {
    format!(
        "(export GIT_INDEX_FILE=$PWD/../other; git read-tree main; blob=$(printf '{text}' | git hash-object -w --stdin); \
         git update-index --cacheinfo 100644,$blob,{file}; git update-ref refs/heads/main $(git commit-tree $(git write-tree) -p main -m moved))"
    )
}

/// The path of the real program, whatever the world has on its PATH.
pub fn which(name: &str) -> String {
    let path = std::env::var("PATH").unwrap();
    let found = path.split(':').map(|dir| Path::new(dir).join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("no {name} on PATH")).to_str().unwrap().to_owned()
}
