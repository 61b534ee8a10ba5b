//! The final state of a repository, without commit ids and times, so that two runs of the same command can be compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Order;
use super::scene::Scene;
use crate::support::{World, which};

/// The parts of the state, by name, each as text.
#[derive(Debug, PartialEq, Eq)]
pub struct Ending(BTreeMap<&'static str, String>);

impl Ending {
    /// The whole state that must be equal.
    pub fn of(scene: &Scene, order: Order) -> Self {
        let Ending(mut parts) = Ending::of_the_users(&scene.world);
        let world = &scene.world;
        let refs = world.git(&["for-each-ref", "--format=%(refname) %(tree) %(subject)", "refs/ralph/"]);
        // An interrupted attempt is saved under an additional ref, and the next attempt has another number. `lost` looks into all of these
        // refs.
        let varies = |line: &str| ["/attempts/", "/abandoned/", "/adopted/"].iter().any(|part| line.contains(part));
        let refs: Vec<&str> = refs.lines().filter(|line| !varies(line)).collect();
        parts.insert("refs", refs.join("\n"));
        parts.insert("journal", journal(scene, order));
        parts.insert("workspaces", format!("are there: {}", scene.workspaces().exists()));
        if order == Order::Any {
            // Which of two stories lands first, and so the state in between, differs from run to run.
            let subject = |line: &str| line.rsplit_once("checkpoint: ").map_or(line, |(rest, _)| rest).to_owned();
            parts.insert("refs", refs.iter().map(|line| subject(line)).collect::<Vec<_>>().join("\n"));
            parts.insert("branches", branches(world));
        }
        Ending(parts)
    }

    /// The user's part of the state: HEAD, branches, index, work tree.
    pub fn of_the_users(world: &World) -> Self {
        let mut parts = BTreeMap::new();
        parts.insert("HEAD", fs::read_to_string(world.path(".git/HEAD")).unwrap());
        let branches = world.git(&["for-each-ref", "--format=%(refname)", "refs/heads/"]);
        let log = |name: &str| format!("{name}:\n{}\n", world.git(&["log", "--topo-order", "--format=%T %s", name, "--"]));
        parts.insert("branches", branches.lines().map(log).collect());
        parts.insert("index", world.git(&["status", "--porcelain=v2", "--ignored", "-uall"]));
        let mut files = String::new();
        list(&world.repo, Path::new(""), &mut files);
        parts.insert("files", files);
        parts.insert("merge", format!("under way: {}", world.exists(".git/MERGE_HEAD")));
        parts.insert("locks", locks(&world.path(".git")));
        Ending(parts)
    }

    /// The parts that differ from the expected ones.
    pub fn differences(&self, expected: &Ending) -> Vec<String> {
        let differs = |(name, text): (&&str, &String)| {
            let wanted = expected.0.get(*name)?;
            (wanted != text).then(|| format!("{name} is\n{text}\ninstead of\n{wanted}"))
        };
        self.0.iter().filter_map(differs).collect()
    }
}

/// The branches, each with its final tree and the sorted subjects of its commits.
fn branches(world: &World) -> String {
    let names = world.git(&["for-each-ref", "--format=%(refname) %(tree)", "refs/heads/"]);
    let branch = |line: &str| {
        let mut subjects = world.subjects(line.split(' ').next().unwrap());
        subjects.sort();
        format!("{line}:\n{}\n", subjects.join("\n"))
    };
    names.lines().map(branch).collect()
}

/// The landed stories with their numbers of files, in order, and how the run ended.
fn journal(scene: &Scene, order: Order) -> String {
    let events = scene.events();
    let landed = events.iter().filter(|event| event["event"] == "checkpoint-landed");
    let mut landed: Vec<String> = landed.map(|event| format!("{} with {}", event["story"], event["files"])).collect();
    if order == Order::Any {
        landed.sort();
    }
    let last = events.last().map(|event| format!("{} {} {}", event["event"], event["end"]["why"], event["mode"]));
    format!("landed {}, ended {}", landed.join(" "), last.unwrap_or_default())
}

fn list(top: &Path, dir: &Path, into: &mut String) {
    let mut names: Vec<_> = fs::read_dir(top.join(dir)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    for name in names.iter().filter(|name| *name != ".git") {
        let path = dir.join(name);
        let whole = top.join(&path);
        let meta = whole.symlink_metadata().unwrap();
        if meta.is_dir() {
            list(top, &path, into);
        } else if meta.is_symlink() {
            let _ = writeln!(into, "{} -> {}", path.display(), fs::read_link(whole).unwrap().display());
        } else {
            let text = fs::read_to_string(whole).unwrap();
            let _ = writeln!(into, "{} {:o} {text:?}", path.display(), meta.permissions().mode() & 0o111);
        }
    }
}

/// Lock files that would stop the next git command; those that git-ralph has moved aside do not count.
fn locks(dir: &Path) -> String {
    let mut found = String::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_name() == "stale-locks" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            found.push_str(&locks(&entry.path()));
        } else if entry.path().extension().is_some_and(|kind| kind == "lock") {
            let _ = writeln!(found, "{}", entry.path().display());
        }
    }
    found
}

/// The words that the agent wrote, to files or as commit subjects, and that are no longer reachable from any ref.
pub fn lost(scene: &Scene) -> Vec<String> {
    let Ok(said) = fs::read_to_string(scene.world.path(".git/said")) else { return Vec::new() };
    let kept = scene.world.git(&["log", "--all", "-m", "-p", "--format=+%s"]);
    said.lines().filter(|word| !kept.contains(&format!("+{word}"))).map(|word| format!("'{word}' is lost")).collect()
}

/// What `git fsck` reports as broken or missing.
pub fn broken(scene: &Scene) -> Option<String> {
    let output = scene.world.command(&which("git"), &["fsck", "--no-dangling", "--no-progress"]).output().unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}
