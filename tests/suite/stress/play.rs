//! Plays a plan with real processes: the repository, the agents, the user, the kills. Records what the oracle checks.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::plan::{Attempt, Command, Deed, Kill, Plan, Step, Verdict};
use crate::kill_matrix::scene::{copy, in_memory};
use crate::kill_matrix::stand_in::{self, Mode};
use crate::support::{World, which};

/// Shell functions that the scripts of the user and of the agents share. `$OUT` is the directory for all records.
///
/// `snap` records the current state: the files, the index and the files that control git; the commits; refs and stash. Actions that fail
/// are ignored, because only the resulting state counts.
const LIBRARY: &str = r#"
export GIT_EDITOR=true
put() {
  mkdir -p "$(dirname "$1")"
  end=; case $1 in *.crlf) end='\r';; esac
  printf "%s$end\nand more$end\n" "$2" >"$1"
}
commit() { message=$1; shift; git commit -q --allow-empty -m "$message" "$@" && git rev-parse HEAD >>$OUT/commits; }
elsewhere() {
  (export GIT_INDEX_FILE=$OUT/elsewhere; git read-tree $1; blob=$(echo $2 | git hash-object -w --stdin)
   git update-index --add --cacheinfo 100644,$blob,theirs/$2
   git update-ref refs/heads/$1 $(git commit-tree $(git write-tree) -p $1 -m "$2"))
}
submodule() {
  git init -q $OUT/lib && (cd $OUT/lib; echo $1 >file; git add file; git -c user.name=x -c user.email=x@y commit -qm lib) &&
  git -c protocol.file.allow=always submodule add -q $OUT/lib lib && git -C lib config user.name x && git -C lib config user.email x@y
}
stash() { git log -g --format=%H refs/stash; }
snap() {
  mkdir -p $OUT/snaps/$1/.git-settings
  find . -mindepth 1 -maxdepth 1 ! -name .git -exec cp -a -t $OUT/snaps/$1 {} +
  cp -a .git/config .git/hooks .git/info $OUT/snaps/$1/.git-settings
  git checkout-index -qaf --prefix=$OUT/snaps/$1/.index/
  git log --format='%H %s' --branches --tags $(git rev-parse -q --verify HEAD) $(stash) -- >$OUT/snaps/$1.commits
  test -e lib/.git && git -C lib log --format='%H %s' --branches HEAD -- >>$OUT/snaps/$1.commits
  git for-each-ref --format='%(refname) %(objectname)' refs/heads refs/tags >$OUT/snaps/$1.refs
  stash >$OUT/snaps/$1.stash
} >/dev/null 2>&1
deed() { eval "$1" >/dev/null 2>&1 </dev/null; }
end() {
  test $1 = complete && put landed-$RALPH_STORY token-landed-$turn
  snap agent-$turn
  test $1 = complete && ! test -e red && echo $RALPH_STORY $RALPH_ATTEMPT $turn >>$OUT/earned
}
"#;

/// Creates the repository that every plan starts from: two branches beside the original one, two tags, and ignored names.
const REPOSITORY: &str = "
git init -q -b main; rm -rf .git/hooks/*
git config user.name Test; git config user.email test@example.com; git config gc.auto 0
printf '.env\\n*.ign\\n' >.gitignore; echo '*.crlf -text' >.gitattributes
for file in a b c.txt d.crlf sub/e sub/deep/f; do put $file first-$file; done
git add -A; git commit -qm first
git branch topic; git checkout -q -b side; put a side-a; put only-side only-side; git add -A; git commit -qm side
git checkout -q main; put b second-b; git commit -qam second
git tag -a -m v1 v1; git tag v2 side";

/// A plan that is being played.
pub struct Stage<'a> {
    pub plan: &'a Plan,
    pub world: World,
    /// The temporary directory of the repository.
    _memory: TempDir,
    /// What happened, to explain a loss.
    pub told: String,
    pub kills: usize,
    /// The names of the recorded moments, in order; `true` if the user acted between the previous moment and this one.
    pub moments: Vec<(String, bool)>,
}

impl<'a> Stage<'a> {
    /// Creates the repository and performs the user's actions before the start.
    pub fn new(plan: &'a Plan) -> Self {
        let memory = in_memory();
        let mut world = World::empty();
        world.repo = memory.path().join("repo");
        fs::create_dir(&world.repo).unwrap();
        stand_in::install(&world);
        for dir in ["out", "out/turns", "out/snaps"] {
            fs::create_dir(world.outside(dir)).unwrap();
        }
        let out = world.outside("out").display().to_string();
        fs::write(world.outside("out/library"), format!("OUT={out}\ngit() {{ {} \"$@\"; }}\n{LIBRARY}", which("git"))).unwrap();
        fs::write(world.outside("out/agent"), agent(&out, &plan.attempts)).unwrap();
        let stage = Stage { plan, world, _memory: memory, told: String::new(), kills: 0, moments: Vec::new() };
        stage.shell(REPOSITORY);
        let gates = format!("verify = ['test ! -e red', 'test ! -e {out}/deadly || {{ rm {out}/deadly; kill -9 $PPID; }}']");
        stage.world.stories(usize::try_from(plan.stories).unwrap(), &format!("max-retries = 1\n{gates}"));
        stage.shell(&deeds(&plan.before));
        stage
    }

    pub fn out(&self, name: &str) -> PathBuf {
        self.world.outside("out").join(name)
    }

    /// Copies the repository and all records to a directory for inspection.
    pub fn keep(&self, to: &Path) {
        copy(&self.world.repo, &to.join("repo"));
        copy(&self.out(""), &to.join("out"));
    }

    fn shell(&self, script: &str) {
        let script = format!(". {}\n{script}", self.out("library").display());
        let output = self.world.command("sh", &["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
    }

    fn snap(&mut self, name: &str, user: bool) {
        self.shell(&format!("snap {name}; true"));
        self.moments.push((name.to_owned(), user));
    }

    /// The journal of the newest run.
    fn journal(&self) -> Option<PathBuf> {
        let runs = fs::read_dir(self.world.path(".git/ralph/runs/work")).ok()?;
        let numbers = runs.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let path = self.world.path(&format!(".git/ralph/runs/work/{}/journal.jsonl", numbers.max()?));
        path.exists().then_some(path)
    }

    /// The events in the complete lines of the journal.
    pub fn events(&self) -> Vec<serde_json::Value> {
        let text = self.journal().map(|path| fs::read(path).unwrap()).unwrap_or_default();
        text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Whether no run is open.
    pub fn is_over(&self) -> bool {
        self.events().last().is_none_or(|event| event["event"] == "finished" || event["event"] == "aborted")
    }

    /// Plays the whole plan.
    pub fn play(&mut self) -> Result<(), String> {
        for (number, step) in self.plan.steps.iter().enumerate() {
            self.user(&step.user, &format!("step-{number}"));
            self.step(step)?;
        }
        if !self.is_over() {
            self.give_in()?;
        }
        self.user(&self.plan.after, "after");
        Ok(())
    }

    /// Performs actions of the user, and records the state before and after them.
    fn user(&mut self, deeds_of_user: &[Deed], name: &str) {
        if !deeds_of_user.is_empty() {
            self.snap(&format!("{name}-found"), false);
            self.shell(&deeds(deeds_of_user));
        }
        self.snap(name, !deeds_of_user.is_empty());
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        if let Some(kill) = step.kill {
            self.arm(kill);
        }
        let code = self.ralph(step.command);
        let fired = step.kill.is_some() && stand_in::disarm(&self.world);
        self.kills += usize::from(fired || code == -9);
        if fired && matches!(step.kill, Some(Kill::RalphInJournal(_))) {
            self.tear();
        }
        // A refusal is not a failure: there may be nothing to undo or to finish, or a run to resume first.
        if fired || matches!(code, 0..=2 | -9) { Ok(()) } else { Err(format!("{:?} ends with {code}", step.command)) }
    }

    fn arm(&self, kill: Kill) {
        match kill {
            Kill::RalphBefore(at) => stand_in::arm(&self.world, Mode::Kill, at),
            Kill::RalphAfter(at) => stand_in::arm(&self.world, Mode::KillAfter, at),
            Kill::RalphAtEvent(event) | Kill::RalphInJournal(event) => stand_in::arm_at(&self.world, event, ""),
            Kill::GitBefore(at) => stand_in::arm(&self.world, Mode::Die, at),
            Kill::GitAfter(at) => stand_in::arm(&self.world, Mode::DieAfter, at),
        }
    }

    /// Appends the beginning of a journal line, as a process leaves it that is killed while writing.
    fn tear(&self) {
        if let Some(path) = self.journal() {
            fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"{\"at\":\"20").unwrap();
        }
    }

    fn ralph(&mut self, command: Command) -> i32 {
        let agent = self.out("agent").display().to_string();
        let words: &[&str] = match command {
            Command::Work if self.journal().is_some() => &["resume"],
            Command::Work => &["start", "work", "--", "sh", &agent],
            Command::Undo => &["undo"],
            Command::Cleanup => &["finish", "--cleanup"],
            Command::Keep => &["finish", "--keep"],
            Command::Abort => &["abort"],
        };
        let output = self.world.ralph(words);
        let _ = writeln!(self.told, "$ git ralph {}  -> {}\n{}{}", words.join(" "), output.code, output.stdout, output.stderr);
        output.code
    }

    /// Follows the hint after the last command was refused. Only two refusals are allowed: a cleanup that conflicts with a moved original
    /// branch, and one that finds HEAD elsewhere while an attempt still has to be judged.
    fn give_in(&mut self) -> Result<(), String> {
        if self.told.contains("git ralph resume work   if the agent switched branches") {
            self.ralph(Command::Work);
            if let Some(last) = self.plan.steps.last() {
                self.ralph(last.command);
            }
        }
        if self.told.contains("git ralph finish --keep   to stay") {
            self.ralph(Command::Keep);
        }
        if self.is_over() { Ok(()) } else { Err("the run does not come to its end".to_owned()) }
    }
}

fn deeds(deeds: &[Deed]) -> String {
    deeds.iter().fold(String::new(), |script, deed| script + "deed " + &quoted(&deed.shell) + "\n") + "true"
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The agent of all stories. Each process takes the next attempt of the plan; later processes only do their work.
fn agent(out: &str, attempts: &[Attempt]) -> String {
    let mut script =
        format!(". {out}/library\nturn=0; until mkdir {out}/turns/$turn 2>/dev/null; do turn=$((turn+1)); done\ncase $turn in\n");
    for (turn, attempt) in attempts.iter().enumerate() {
        let _ = writeln!(script, "{turn})");
        for (number, deed) in attempt.deeds.iter().enumerate() {
            if attempt.kills_after == Some(number) {
                script.push_str(KILL);
            }
            let _ = writeln!(script, "deed {}", quoted(&deed.shell));
        }
        if attempt.kills_after == Some(attempt.deeds.len()) {
            script.push_str(KILL);
        }
        if attempt.gate_kills {
            let _ = writeln!(script, "echo >{out}/deadly");
        }
        let _ = writeln!(script, "{};;", ending(attempt.verdict));
    }
    let _ = writeln!(script, "*) {};;\nesac", ending(Verdict::Complete));
    script
}

const KILL: &str = "snap agent-$turn; kill -9 $PPID; exit 1\n";

fn ending(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Complete => "end complete; echo '<promise>COMPLETE</promise>'; exit 0",
        Verdict::Failed => "end failed; echo '<promise>FAILED: not this time</promise>'; exit 0",
        Verdict::Vanished => "end vanished; exit 0",
        Verdict::Broken => "end broken; exit 1",
        Verdict::CompleteButBroken => "end broken; echo '<promise>COMPLETE</promise>'; exit 1",
        Verdict::Killed => "end killed; kill -9 $$",
    }
}

/// Visits the files of a directory with their contents; links and special files are left out.
pub fn files(dir: &Path, visit: &mut dyn FnMut(&Path, Vec<u8>)) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files(&entry.path(), visit);
        } else if kind.is_file() {
            visit(&entry.path(), fs::read(entry.path()).unwrap_or_default());
        }
    }
}
