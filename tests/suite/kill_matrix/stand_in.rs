//! The wrapper around git: it counts the calls and, at one of them, kills or disturbs git or git-ralph.

use std::fs;

use crate::support::{World, which};

/// What the wrapper does at the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Kills git-ralph before git has done anything.
    Kill,
    /// Kills git-ralph after git has done its work.
    KillAfter,
    /// Kills git-ralph and git when git has switched a few of the files in the work tree.
    KillEarly,
    /// Kills git-ralph and git when git has switched most of the files in the work tree.
    KillLate,
    /// Kills git before it has done anything.
    Die,
    /// Kills git after it has done its work.
    DieAfter,
    /// git fails without doing anything.
    Fail,
    /// git does its work, then reports a failure.
    FailAfter,
    /// git hangs.
    Hang,
    /// The agent, not git, kills git-ralph, at one of its moments.
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

/// One git call of an undisturbed run.
#[derive(Debug)]
pub struct Call {
    /// The number of lines in the journal at that time.
    pub lines: usize,
    /// The arguments of git, without the settings that every call has.
    pub words: String,
}

/// A shell function for the agent that kills git-ralph at the selected moment. The moment `first` comes before the agent does anything.
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

/// Leaves what a killed `git read-tree -m -u <from> <to>` leaves: some files are switched, the index is not, and its lock exists.
const SWITCH: &str = r#"switch() {
  some=$1; for word; do from=$to; to=$word; done
  index=$GIT_INDEX_FILE; export GIT_INDEX_FILE=$index.half
  $git read-tree $to
  $git diff-tree -r --name-only --no-renames $from $to | awk "$some" | while read -r path; do
    if $git ls-files --error-unmatch -- "$path" >/dev/null 2>&1; then rm -f "$path"; $git checkout-index -f -- "$path"; else rm -f "$path"; fi
  done
  rm $index.half; touch -d '1 minute ago' $index.lock
}"#;

/// Installs the wrapper. It is written once, and a file controls what it does: a script that is still open for writing in a process that
/// another thread has just forked cannot be executed.
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

/// Makes the wrapper act at call `at`.
pub fn arm(world: &World, mode: Mode, at: usize) {
    plan(world, mode.name(), &at.to_string());
}

/// Makes the wrapper kill git-ralph when an event is the last one in the journal: at the next call, or after the next call with these
/// words.
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

/// Makes the wrapper only call git; returns whether it has acted.
pub fn disarm(world: &World) -> bool {
    fs::remove_file(world.outside("plan")).unwrap();
    world.outside("fired").exists()
}

/// Makes the wrapper only count calls.
pub fn count(world: &World) {
    plan(world, "count", "0");
}

/// The calls since `count`, in order.
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
