//! The repository in which commands are killed: it has files in every state, and an agent that fails once.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::stand_in;
use crate::support::{COMPLETE, World, program_from_scratch, which};

/// A world that can be restored to the state before a command, once per point of the matrix.
pub struct Scene {
    pub world: World,
    memory: TempDir,
}

impl Scene {
    /// Creates the repository, prepares the state in which the command starts, and saves a copy of it.
    pub fn new(prepare: fn(&World)) -> Self {
        let memory = in_memory();
        let mut world = World::new();
        copy(&world.repo, &memory.path().join("repo"));
        // Only the repository moves: a file system in memory may be mounted noexec, so programs stay.
        world.repo = memory.path().join("repo");
        // Files that git-ralph keeps outside of the repository must be saved and restored with it.
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

    /// Saves a copy of the repository and of the workspaces beside it. The originals stay at one path, because journals hold absolute
    /// paths.
    pub fn save(&self, name: &str) {
        copy(&self.world.repo, &self.memory.path().join(name));
        copy_if_there(&self.workspaces(), &self.memory.path().join(format!("{name} beside")));
    }

    /// Restores the repository and the workspaces from a copy.
    pub fn restore(&self, name: &str) {
        copy(&self.memory.path().join(name), &self.world.repo);
        copy_if_there(&self.memory.path().join(format!("{name} beside")), &self.workspaces());
    }

    /// The directory of the private clones.
    pub fn workspaces(&self) -> PathBuf {
        self.memory.path().join("repo.ralph")
    }

    /// Restores the key of the run from a copy, because git-ralph deletes the key when it closes a run.
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

    /// Deletes the record of the journal's length outside of the repository, so that a shorter journal looks like a crash and not like a
    /// truncation.
    pub fn forget_length(&self) {
        let script = "if [ -d .git/state-home ]; then find .git/state-home -name tip -delete; fi";
        assert!(self.world.command("sh", &["-c", script]).status().unwrap().success());
    }

    /// The events in the complete lines of the journal.
    pub fn events(&self) -> Vec<serde_json::Value> {
        let text = self.journal().map(|path| fs::read(path).unwrap()).unwrap_or_default();
        let whole = |line: &&[u8]| line.ends_with(b"\n");
        text.split_inclusive(|byte| *byte == b'\n').take_while(whole).map_while(|line| serde_json::from_slice(line).ok()).collect()
    }
}

/// A directory in memory: on a disk, thousands of commands would wait for syncs, which are not tested here.
pub fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("ralph-test-").tempdir_in(parent).unwrap()
}

/// Copies a directory that may be missing; then the target is deleted too.
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

/// Creates files that are staged, unstaged, both, intent-to-add, deleted, renamed, untracked or ignored, links, and executable files.
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

/// Lets both stories run at the same time; each agent waits a moment for the other.
pub fn side_by_side(world: &World) {
    world.stories(2, "order = \"any\"\nmax-retries = 3");
    world.agent(&format!(
        "at=\"$RALPH_ROOT/.git/at\"; echo >>$at-$RALPH_STORY
         n=0; until test -e $at-$((3-RALPH_STORY)) || test $n = 15; do sleep 0.02; n=$((n+1)); done
         {}",
        agent(world)
    ));
}

/// The first attempt at story 1 commits on the branch and on another one, stages, edits, creates and removes files, then fails.
///
/// It calls git by its path, so that only git-ralph's own calls are counted. It records a word as `said` once it has written it to a file
/// or a commit; from then on the word must not be lost.
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
