//! The repository that commands are killed in: everything a user can have lying about, and an agent that fails once.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::stand_in;
use crate::support::{COMPLETE, World, program_from_scratch, which};

/// A world that can be put back to where a command starts, as often as there are points to kill it at.
pub struct Scene {
    pub world: World,
    memory: TempDir,
}

impl Scene {
    /// Makes the repository, gets it to where the command starts, and keeps a copy of that.
    pub fn new(prepare: fn(&World)) -> Self {
        let memory = in_memory();
        let mut world = World::new();
        copy(&world.repo, &memory.path().join("repo"));
        // Programs stay where they are: a file system in memory may not let them run.
        world.repo = memory.path().join("repo");
        // What is kept outside of the repository goes back with it.
        let state_home = world.path(".git/state-home");
        world.set_env("XDG_STATE_HOME", state_home.to_str().unwrap());
        stand_in::install(&world);
        mess(&world);
        world.stories(2, "max-retries = 3");
        world.agent(&agent(&world));
        let scene = Scene { world, memory };
        scene.save("messy");
        prepare(&scene.world);
        scene.save("before");
        scene
    }

    /// Keeps the repository and the workspaces beside it as they are now under a name. They stay at one path: journals hold absolute
    /// ones.
    pub fn save(&self, name: &str) {
        copy(&self.world.repo, &self.memory.path().join(name));
        copy_if_there(&self.workspaces(), &self.memory.path().join(format!("{name} beside")));
    }

    /// Puts the repository and the workspaces back to what was kept.
    pub fn restore(&self, name: &str) {
        copy(&self.memory.path().join(name), &self.world.repo);
        copy_if_there(&self.memory.path().join(format!("{name} beside")), &self.workspaces());
    }

    /// Where the private clones of isolated runs are.
    pub fn workspaces(&self) -> PathBuf {
        self.memory.path().join("repo.ralph")
    }

    /// Puts the key of the run back, as it was under a name: a run that is closed has let go of it.
    pub fn restore_key(&self, name: &str) {
        let (from, to) = (self.memory.path().join(name).join(".git/state-home"), self.world.path(".git/state-home"));
        if from.exists() {
            copy(&from, &to);
        }
    }

    /// The journal of the newest run.
    pub fn journal(&self) -> Option<PathBuf> {
        let runs = fs::read_dir(self.world.path(".git/ralph/runs/work")).ok()?;
        let numbers = runs.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let path = self.world.path(&format!(".git/ralph/runs/work/{}/journal.jsonl", numbers.max()?));
        path.exists().then_some(path)
    }

    /// A crash takes the end of the journal everywhere, a truncation only in the repository: from here on it is the crash.
    pub fn forget_length(&self) {
        let script = "if [ -d .git/state-home ]; then find .git/state-home -name tip -delete; fi";
        assert!(self.world.command("sh", &["-c", script]).status().unwrap().success());
    }

    /// Its whole lines.
    pub fn events(&self) -> Vec<serde_json::Value> {
        let text = self.journal().map(|path| fs::read(path).unwrap()).unwrap_or_default();
        let whole = |line: &&[u8]| line.ends_with(b"\n");
        text.split_inclusive(|byte| *byte == b'\n').take_while(whole).map_while(|line| serde_json::from_slice(line).ok()).collect()
    }
}

/// Thousands of commands wait for the disk otherwise; whether a sync works is not what is tried here.
pub fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("ralph-test-").tempdir_in(parent).unwrap()
}

/// The same of something that need not be there; then it is not there afterwards either.
fn copy_if_there(from: &Path, to: &Path) {
    if from.exists() {
        copy(from, to);
    } else if to.exists() {
        fs::remove_dir_all(to).unwrap();
    }
}

pub fn copy(from: &Path, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).unwrap();
    }
    let status = program_from_scratch("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(status.success(), "cp -a {} {}", from.display(), to.display());
}

/// Staged, unstaged, both in one file, intended, deleted, renamed, untracked, ignored, links and executable bits.
fn mess(world: &World) {
    fs::remove_dir_all(world.path(".git/hooks")).unwrap();
    world.write(".gitignore", "*.log\n");
    for name in ["staged", "unstaged", "both", "gone", "old-name", "script", "sub/inner", "removed"] {
        world.write(name, &format!("{name} as committed\n1\n2\n3\n"));
    }
    symlink("staged", world.path("link")).unwrap();
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "second"]);
    world.write("staged", "staged\n");
    world.write("both", "the staged half\n");
    world.git(&["add", "staged", "both"]);
    world.write("both", "the unstaged half\n");
    world.write("unstaged", "unstaged\n");
    world.write("intended", "intended\n");
    world.git(&["add", "-N", "intended"]);
    world.git(&["rm", "-q", "gone"]);
    world.git(&["mv", "old-name", "new-name"]);
    fs::remove_file(world.path("removed")).unwrap();
    fs::set_permissions(world.path("script"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(world.path("link")).unwrap();
    symlink("unstaged", world.path("link")).unwrap();
    symlink("/nowhere", world.path("dangling")).unwrap();
    world.write("untracked", "untracked\n");
    world.write("sub/untracked", "untracked\n");
    world.write("debug.log", "ignored\n");
}

/// Both stories may be worked on at the same time, and each agent waits a moment for the other.
pub fn side_by_side(world: &World) {
    world.stories(2, "order = \"any\"\nmax-retries = 3");
    world.agent(&format!(
        "at=\"$RALPH_ROOT/.git/at\"; echo >>$at-$RALPH_STORY
         n=0; until test -e $at-$((3-RALPH_STORY)) || test $n = 15; do sleep 0.02; n=$((n+1)); done
         {}",
        agent(world)
    ));
}

/// The first attempt at story 1 commits on the branch and beside it, stages, edits, creates and removes, then fails.
///
/// It calls git by its path, so that only git-ralph's own calls are counted. A word is `said` once the agent has written
/// it somewhere: from then on nothing may lose it.
fn agent(world: &World) -> String {
    format!(
        "git() {{ {git} \"$@\"; }}
         {moment}
         said() {{ echo $1 >>\"$RALPH_ROOT/.git/said\"; }}
         moment first
         case $RALPH_STORY/$RALPH_ATTEMPT in
         1/1)
           echo word-committed >committed; git add committed; git commit -qm word-below; said word-committed; said word-below
           moment later
           git checkout -q --detach; echo word-detached >detached; git add detached
           git commit -qm word-beside; said word-detached; said word-beside
           echo word-staged >both; git add both; said word-staged
           echo word-edited >both; said word-edited
           moment later
           echo word-created >created; said word-created
           rm unstaged; chmod -x script; ln -sf sub link; mkdir deep; mv sub/inner deep
           moment later
           echo '<promise>FAILED: not this time</promise>';;
         1/*)
           echo one >one; git add one; git commit -qm 'own commit'
           moment later
           echo more >>README; echo 'one more' >'one more'; rm sub/untracked
           {COMPLETE};;
         2/*)
           echo two >two; chmod +x two; git add two; echo again >>two
           moment later
           {COMPLETE};;
         esac",
        git = which("git"),
        moment = stand_in::moment(world),
    )
}
