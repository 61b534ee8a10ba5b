//! The program that stands in for git: it counts calls and, at one of them, does something to git or to git-ralph.

use std::fs;

use crate::support::{World, which};

/// What happens at the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// git-ralph is killed before git has done anything.
    Kill,
    /// git-ralph is killed when git has done its work.
    KillAfter,
    /// git-ralph and git are killed when few of the files of the work tree have been switched.
    KillEarly,
    /// git-ralph and git are killed when most of the files of the work tree have been switched.
    KillLate,
    /// git is killed before it has done anything.
    Die,
    /// git is killed when it has done its work.
    DieAfter,
    /// git says that it cannot.
    Fail,
    /// git does its work and says that it could not.
    FailAfter,
    /// git does not come back.
    Hang,
    /// Not git but the agent, at one of its moments, kills git-ralph.
    Agent,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Kill => "kill",
            Mode::KillAfter => "kill-after",
            Mode::KillEarly => "kill-early",
            Mode::KillLate => "kill-late",
            Mode::Die => "die",
            Mode::DieAfter => "die-after",
            Mode::Fail => "fail",
            Mode::FailAfter => "fail-after",
            Mode::Hang => "hang",
            Mode::Agent => "agent",
        }
    }
}

/// One call of an undisturbed run.
#[derive(Debug)]
pub struct Call {
    /// How many lines the journal had by then.
    pub lines: usize,
    /// What git was asked, without the settings that every call has.
    pub words: String,
}

/// A shell function for the agent: kills git-ralph if this is the moment to. The `first` one is before it does anything.
pub fn moment(world: &World) -> String {
    format!(
        "moment() {{
           test -r {plan} || return 0
           read mode at <{plan}
           test $mode = agent || return 0
           n=1; until (set -C; echo 0 $1 >{calls}/$n) 2>/dev/null; do n=$((n+1)); done
           test $n = $at || return 0
           echo >{fired}; kill -9 $PPID; exit 1
         }}",
        plan = world.outside("plan").display(),
        calls = world.outside("calls").display(),
        fired = world.outside("fired").display(),
    )
}

/// What a killed `git read-tree -m -u <from> <to>` leaves: some files are switched, the index is not, its lock is there.
const SWITCH: &str = r#"switch() {
  some=$1; for word; do from=$to; to=$word; done
  index=$GIT_INDEX_FILE; export GIT_INDEX_FILE=$index.half
  $git read-tree $to
  $git diff-tree -r --name-only --no-renames $from $to | awk "$some" | while read -r path; do
    if $git ls-files --error-unmatch -- "$path" >/dev/null 2>&1; then rm -f "$path"; $git checkout-index -f -- "$path"; else rm -f "$path"; fi
  done
  rm $index.half; touch -d '1 minute ago' $index.lock
}"#;

/// Puts it in front of git. It is written once: what it does is in a file, for a program that is being written while
/// another thread starts one cannot be run.
pub fn install(world: &World) {
    let outside = |name: &str| world.outside(name).display().to_string();
    let script = format!(
        "{SWITCH}
         git={git}
         test -r {plan} || exec {git} \"$@\"
         read mode at words <{plan}
         test $mode = agent && exec {git} \"$@\"
         if test $mode = kill-at; then
           tail -n 1 {repo}/.git/ralph/runs/work/1/journal.jsonl 2>/dev/null | grep -q \"\\\"event\\\":\\\"$at\\\"\" || exec {git} \"$@\"
           test -z \"$words\" || {{ {git} \"$@\"; status=$?; }}
           case $* in *\"$words\"*) echo >{fired}; kill -9 $PPID;; esac
           exit $status
         fi
         lines=0
         test $mode = count && lines=$(cat {repo}/.git/ralph/runs/work/*/journal.jsonl 2>/dev/null | wc -l)
         set -C; n=1; until echo \"$lines $*\" >{calls}/$n; do n=$((n+1)); done 2>/dev/null
         test $n = $at || exec {git} \"$@\"
         echo >{fired}
         case $mode in
         kill) kill -9 $PPID;;
         kill-after) {git} \"$@\"; kill -9 $PPID;;
         kill-early) case $* in *'read-tree -m -u '*) switch 'NR % 4 == 0' \"$@\";; esac; kill -9 $PPID;;
         kill-late) case $* in *'read-tree -m -u '*) switch 'NR % 4' \"$@\";; esac; kill -9 $PPID;;
         die) kill -9 $$;;
         die-after) {git} \"$@\"; kill -9 $$;;
         fail) echo 'fatal: not today' >&2; exit 128;;
         fail-after) {git} \"$@\"; echo 'fatal: not today' >&2; exit 128;;
         hang) exec sleep 600;;
         esac",
        plan = outside("plan"),
        calls = outside("calls"),
        fired = outside("fired"),
        git = which("git"),
        repo = world.repo.display(),
    );
    world.program("git", &script);
}

/// Something shall happen at call `at`.
pub fn arm(world: &World, mode: Mode, at: usize) {
    plan(world, mode.name(), &at.to_string());
}

/// git-ralph shall be killed when an event is the last one in the journal: at the next call, or after the next one with some words.
pub fn arm_at(world: &World, event: &str, words: &str) {
    plan(world, "kill-at", &format!("{event} {words}"));
}

fn plan(world: &World, mode: &str, at: &str) {
    let calls = world.outside("calls");
    let _ = fs::remove_dir_all(&calls);
    let _ = fs::remove_file(world.outside("fired"));
    fs::create_dir(&calls).unwrap();
    fs::write(world.outside("plan"), format!("{mode} {at}\n")).unwrap();
}

/// From now on git is git; says whether the call has come.
pub fn disarm(world: &World) -> bool {
    fs::remove_file(world.outside("plan")).unwrap();
    world.outside("fired").exists()
}

/// Counts only.
pub fn count(world: &World) {
    plan(world, "count", "0");
}

/// The calls since `count`, in their order.
pub fn calls(world: &World) -> Vec<Call> {
    let call = |n| fs::read_to_string(world.outside("calls").join(format!("{n}"))).ok().map(|text| parse(text.trim_end()));
    (1..).map_while(call).collect()
}

fn parse(line: &str) -> Call {
    let mut words = line.split(' ');
    let lines = words.next().unwrap().parse().unwrap();
    let mut rest = Vec::new();
    while let Some(word) = words.next() {
        if word == "-c" && rest.is_empty() {
            words.next();
        } else {
            rest.push(word);
        }
    }
    Call { lines, words: rest.join(" ") }
}
