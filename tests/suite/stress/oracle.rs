//! Checks that nothing was lost: every content and commit that existed at a recorded moment can still be found, unless the user removed
//! it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::plan::Command;
use super::play::{Stage, files};
use crate::kill_matrix::ending::Ending;
use crate::support::{World, which};

/// The result of a run.
#[derive(Debug, Default)]
pub struct Finding {
    /// The number of bytes that were searched for.
    pub bytes: usize,
    /// The contents that were not found.
    pub lost: Vec<String>,
    /// Other violations.
    pub wrong: Vec<String>,
}

/// The content without the carriage returns that line-ending conversion adds and removes.
fn plain(content: &[u8]) -> Vec<u8> {
    let is_kept = |at: usize| content[at] != b'\r' || content.get(at + 1) != Some(&b'\n');
    (0..content.len()).filter(|at| is_kept(*at)).map(|at| content[at]).collect()
}

/// Contents and commits, with the place where each was seen first.
#[derive(Default)]
struct Seen {
    contents: HashMap<Vec<u8>, String>,
    commits: HashMap<String, String>,
}

impl Seen {
    /// Everything below a directory: files, and what is reachable in repositories. git's own files count only if `git_too`.
    fn below(world: &World, dir: &Path, git_too: bool) -> Self {
        let mut seen = Seen::default();
        let mut repositories = HashSet::new();
        files(dir, &mut |path, content| {
            let inside = path.strip_prefix(dir).unwrap();
            if let Some(repository) = git_dir(path) {
                repositories.insert(repository);
                if !git_too {
                    return;
                }
            }
            if inside.ends_with("config") {
                // git rewrites the whole file for every setting, so only lines with a token from the plan count.
                let lines = content.split(|byte| *byte == b'\n').filter(|line| line.windows(5).any(|word| word == b"token"));
                seen.contents.extend(lines.map(|line| (line.to_vec(), inside.display().to_string())));
            } else if !content.is_empty() && !inside.ends_with(".git") {
                seen.contents.entry(plain(&content)).or_insert_with(|| inside.display().to_string());
            }
        });
        for repository in repositories {
            seen.reachable(world, &repository);
        }
        seen
    }

    /// Adds everything that is reachable from the refs, HEAD, the index and the stash of a repository.
    fn reachable(&mut self, world: &World, repository: &Path) {
        let script = format!(
            "cd '{}' && export GIT_DIR=. GIT_WORK_TREE=. && {{ {git} rev-list --objects --all $({git} rev-parse -q --verify HEAD) \
             $({git} log -g --format=%H refs/stash -- 2>/dev/null) -- | cut -d' ' -f1; {git} ls-files -s | cut -d' ' -f2; }} | \
             {git} cat-file --batch",
            repository.display(),
            git = which("git")
        );
        let output = world.command("sh", &["-c", &script]).output().unwrap().stdout;
        let mut rest = &output[..];
        while let Some(line_end) = rest.iter().position(|byte| *byte == b'\n') {
            let head = String::from_utf8_lossy(&rest[..line_end]).into_owned();
            rest = &rest[line_end + 1..];
            // The object may be missing, for example the commit of a submodule.
            let [oid, kind, size] = head.split(' ').collect::<Vec<_>>()[..] else { continue };
            let size: usize = size.parse().unwrap();
            match kind {
                "blob" => drop(self.contents.insert(plain(&rest[..size]), "object".to_owned())),
                "commit" => drop(self.commits.insert(oid.to_owned(), String::new())),
                _ => {}
            }
            rest = &rest[size + 1..];
        }
    }
}

/// The repository that a file belongs to: the nearest parent directory with HEAD, objects and refs.
fn git_dir(path: &Path) -> Option<PathBuf> {
    let is_one = |dir: &&Path| dir.join("HEAD").exists() && dir.join("objects").is_dir() && dir.join("refs").is_dir();
    path.ancestors().skip(1).find(is_one).map(Path::to_owned)
}

/// Everything that was recorded at any moment, without what the user removed.
fn required(stage: &Stage<'_>) -> Seen {
    let mut required = Seen::default();
    let at = |name: &str| {
        let mut seen = Seen::below(&stage.world, &stage.out("snaps").join(name), false);
        let commits = fs::read_to_string(stage.out("snaps").join(format!("{name}.commits"))).unwrap_or_default();
        // git-ralph makes the first commit of the run, and a killed start may make another one.
        let commits = commits.lines().filter_map(|line| line.split_once(' ')).filter(|(_, subject)| !subject.contains("initial state"));
        seen.commits.extend(commits.map(|(oid, subject)| (oid.to_owned(), subject.to_owned())));
        seen
    };
    let add = |required: &mut Seen, name: &str, seen: Seen| {
        for (content, place) in seen.contents {
            required.contents.entry(content).or_insert_with(|| format!("{name}: {place}"));
        }
        for (commit, subject) in seen.commits {
            required.commits.entry(commit).or_insert_with(|| format!("{name}: {subject}"));
        }
    };
    let mut turn = 0;
    let mut found = Seen::default();
    for (name, by_user) in &stage.moments {
        while stage.out(&format!("snaps/agent-{turn}")).exists() && is_before(stage, turn, name) {
            add(&mut required, &format!("agent-{turn}"), at(&format!("agent-{turn}")));
            turn += 1;
        }
        let seen = at(name);
        if *by_user {
            for content in found.contents.keys().filter(|content| !seen.contents.contains_key(*content)) {
                required.contents.remove(content);
            }
        }
        if name.ends_with("-found") {
            found = seen;
        } else {
            add(&mut required, name, seen);
        }
    }
    let made = fs::read_to_string(stage.out("commits")).unwrap_or_default();
    required.commits.extend(made.lines().map(|oid| (oid.to_owned(), "a commit that was made".to_owned())));
    required
}

/// Whether the snapshot at the end of an agent was written before that of another moment.
fn is_before(stage: &Stage<'_>, turn: usize, name: &str) -> bool {
    let written = |name: &str| fs::metadata(stage.out(&format!("snaps/{name}.stash"))).and_then(|meta| meta.modified()).unwrap();
    written(&format!("agent-{turn}")) < written(name)
}

/// Checks everything.
pub fn look(stage: &Stage<'_>, before: &Ending) -> Finding {
    let required = required(stage);
    let found = Seen::below(&stage.world, &stage.world.repo, true);
    let mut finding = Finding { bytes: required.contents.keys().map(Vec::len).sum(), ..Finding::default() };
    for (content, place) in &required.contents {
        if !found.contents.contains_key(content) {
            finding.lost.push(format!("{place}: {:?}", String::from_utf8_lossy(content)));
        }
    }
    for (commit, place) in &required.commits {
        if !found.commits.contains_key(commit) {
            finding.lost.push(format!("{place}: commit {commit}"));
        }
    }
    finding.lost.sort();
    finding.wrong.extend(unearned(stage));
    finding.wrong.extend(refs(stage));
    finding.wrong.extend(ending(stage, before));
    finding
}

/// Stories that have landed although no agent completed them with passing gates.
fn unearned(stage: &Stage<'_>) -> Vec<String> {
    let earned = fs::read_to_string(stage.out("earned")).unwrap_or_default();
    let earned: Vec<String> = earned.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    let events = stage.events();
    let landed = events.iter().filter(|event| event["event"] == "checkpoint-landed");
    let landed = landed.map(|event| format!("{} {}", event["story"].as_str().unwrap_or_default(), event["attempt"]));
    landed.filter(|landed| !earned.contains(landed)).map(|landed| format!("story and attempt {landed} landed unearned")).collect()
}

/// Refs and stash entries of the user that differ from the user's last version. A branch that an agent advanced may be ahead.
fn refs(stage: &Stage<'_>) -> Vec<String> {
    let read = |name: &str, kind: &str| fs::read_to_string(stage.out(&format!("snaps/{name}.{kind}"))).unwrap_or_default();
    let parse = |text: &str| -> BTreeMap<String, String> {
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        pairs.filter(|(name, _)| !name.starts_with("refs/heads/ralph/")).map(|(name, oid)| (name.to_owned(), oid.to_owned())).collect()
    };
    let (mut expected, mut found) = (BTreeMap::new(), BTreeMap::new());
    let mut last = BTreeMap::new();
    for (number, (name, by_user)) in stage.moments.iter().enumerate() {
        last = parse(&read(name, "refs"));
        if number == 0 {
            expected = last.clone();
        } else if *by_user {
            expected.extend(last.clone().into_iter().filter(|(name, oid)| found.get(name) != Some(oid)));
        }
        found = last.clone();
    }
    let is_ancestor = |old: &str, new: &str| {
        stage.world.command(&which("git"), &["merge-base", "--is-ancestor", old, new]).status().is_ok_and(|status| status.success())
    };
    let mut wrong = Vec::new();
    for (name, oid) in expected {
        let now = last.get(&name).cloned().unwrap_or_default();
        if now != oid && !(name.starts_with("refs/heads/") && is_ancestor(&oid, &now)) {
            wrong.push(format!("{name} is {now} instead of {oid}"));
        }
    }
    wrong
}

/// Checks how the run ended: after an abort everything is as before the start, after a cleanup the work is in the work tree.
fn ending(stage: &Stage<'_>, before: &Ending) -> Vec<String> {
    let last = stage.plan.steps.last().map(|step| step.command);
    let events = stage.events();
    let Some(over) = events.last().map(|event| event["event"].clone()) else { return Vec::new() };
    let user_came = stage.moments.iter().skip(1).any(|(_, by_user)| *by_user);
    if over == "aborted" && !user_came {
        // Branches made by agents remain; `refs` checks those of the user.
        let differences = Ending::of_the_users(&stage.world).differences(before);
        return differences.into_iter().filter(|text| !text.starts_with("branches ")).collect();
    }
    if over == "finished" && last == Some(Command::Cleanup) && !user_came {
        return landed_work(stage, &events);
    }
    Vec::new()
}

/// Checks that the file written by the last landed attempt is in the work tree.
fn landed_work(stage: &Stage<'_>, events: &[serde_json::Value]) -> Vec<String> {
    if events.iter().any(|event| event["event"] == "undone") {
        return Vec::new();
    }
    let earned = fs::read_to_string(stage.out("earned")).unwrap_or_default();
    let Some(landed) = events.iter().rfind(|event| event["event"] == "checkpoint-landed") else { return Vec::new() };
    let story = landed["story"].as_str().unwrap_or_default();
    let key = format!("{story} {} ", landed["attempt"]);
    let Some(turn) = earned.lines().find_map(|line| line.strip_prefix(&key)) else { return Vec::new() };
    let there = fs::read_to_string(stage.world.path(&format!("landed-{story}"))).unwrap_or_default();
    let wanted = format!("token-landed-{turn}");
    if there.contains(&wanted) { Vec::new() } else { vec![format!("landed-{story} is {there:?} after the cleanup, without {wanted}")] }
}
