//! Checks what is installed on the machine: git, the manual, shell completion.

use std::path::Path;
use std::time::Duration;

use crate::config::Environment;
use crate::git::Git;
use crate::install::{Places, State};
use crate::process::{Exit, MISSING, Program, capture};
use crate::report::{Check, Health};

/// The oldest git that the tests run with.
const OLDEST: (u32, u32) = (2, 39);
/// Features of git that git-ralph uses or meets, and the git version that introduced each.
const LEARNED: [((u32, u32), &str); 3] = [
    ((2, 36), "core.fsync, which puts a checkpoint on the disk"),
    ((2, 38), "git merge-tree --write-tree, which isolated runs need to land"),
    ((2, 45), "repositories whose refs are in the reftable format"),
];
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks the version of git.
pub async fn git(environment: &Environment) -> Check {
    let asked = Git::plain(environment.cwd.clone(), environment.for_discovery()).call(["--version"]).line().await;
    let version = match asked {
        Ok(version) => version,
        Err(error) => {
            return Check::new("git", Health::Red, crate::error::words(&error)).fixed_by("install git, and add it to PATH");
        }
    };
    let needed = format!("git {}.{} or later is needed", OLDEST.0, OLDEST.1);
    match numbers(&version) {
        Some(found) if found < OLDEST => {
            Check::new("git", Health::Red, format!("{version}, {needed}{}", lacking(found))).fixed_by("update git")
        }
        Some(found) => Check::new("git", Health::Green, format!("{version}{}", lacking(found))),
        None => Check::new("git", Health::Note, format!("cannot tell which version {version} is; {needed}")),
    }
}

/// The features that this version of git lacks, as the end of a sentence.
fn lacking(found: (u32, u32)) -> String {
    let lacks: Vec<String> =
        LEARNED.iter().filter(|(since, _)| found < *since).map(|((major, minor), what)| format!("{what} ({major}.{minor})")).collect();
    if lacks.is_empty() { String::new() } else { format!("; lacks {}", lacks.join("; ")) }
}

/// What this system cannot do for a run. Empty if it can do everything.
pub fn system() -> Vec<Check> {
    let note = |what: &&str| Check::new("system", Health::Note, format!("on this system git-ralph cannot {what}"));
    MISSING.iter().map(note).collect()
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("git version ")?.split('.').map(|number| number.parse::<u32>().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Checks whether `git help ralph` finds its page.
pub async fn manual(environment: &Environment) -> Check {
    let name = "manual";
    let program = Program {
        program: "man".into(),
        args: vec!["-w".into(), "git-ralph".into()],
        env: environment.as_typed(),
        cwd: environment.cwd.clone(),
    };
    match capture(&program, None, Some(PATIENCE)).await {
        Ok(ran) if ran.exit == Exit::Success => {
            Check::new(name, Health::Green, format!("git help ralph shows {}", String::from_utf8_lossy(&ran.stdout).trim()))
        }
        Ok(_) => Check::new(name, Health::Note, "man finds no page git-ralph").fixed_by("git ralph setup"),
        Err(_) => Check::new(name, Health::Note, "man is not installed; git ralph <command> -h helps too"),
    }
}

/// Checks whether completion is installed for the shells.
pub fn completion(environment: &Environment) -> Check {
    let name = "completion";
    let system = ["/usr", "/usr/local", "/opt/homebrew"].map(|prefix| Places::below(Path::new(prefix)));
    let debian = Places { zsh: "/usr/share/zsh/vendor-completions".into(), ..Places::below(Path::new("/usr")) };
    let places: Vec<Places> = Places::all_of_user(environment).unwrap_or_default().into_iter().chain(system).chain([debian]).collect();
    let states: Vec<(&str, Option<State>)> = ["bash", "zsh", "fish"].into_iter().map(|shell| (shell, state(&places, shell))).collect();
    let of =
        |wanted: Option<State>| states.iter().filter(|(_, state)| *state == wanted).map(|(shell, _)| *shell).collect::<Vec<_>>().join(", ");
    let (current, old, missing) = (of(Some(State::Current)), of(Some(State::Other)), of(None));
    match (old.is_empty(), missing.is_empty()) {
        (true, true) => Check::new(name, Health::Green, current),
        (false, _) => Check::new(name, Health::Note, format!("the files for {old} are from another version")).fixed_by("git ralph setup"),
        (true, false) => Check::new(name, Health::Note, format!("not installed for {missing}")).fixed_by("git ralph setup"),
    }
}

/// The state of a shell's files: current if they are so in any place, else those of another version.
fn state(places: &[Places], shell: &str) -> Option<State> {
    let files = places.iter().flat_map(|places| {
        let dir = match shell {
            "bash" => &places.bash,
            "zsh" => &places.zsh,
            _ => &places.fish,
        };
        places.files().into_iter().filter(move |file| file.path.parent() == Some(dir))
    });
    let found: Vec<State> = files.filter_map(|file| file.state().ok()).collect();
    [State::Current, State::Other].into_iter().find(|state| found.contains(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_vendors_print_them() {
        assert_eq!(numbers("git version 2.39.5 (Apple Git-154)"), Some((2, 39)));
        assert_eq!(numbers("git version 2.47.3"), Some((2, 47)));
        assert_eq!(numbers("git version 3.0.rc1"), Some((3, 0)));
        assert_eq!(numbers("hub version 2"), None);
    }

    #[test]
    fn an_older_git_is_reported_with_what_it_lacks() {
        assert_eq!(lacking((2, 45)), "");
        assert_eq!(lacking((2, 39)), "; lacks repositories whose refs are in the reftable format (2.45)");
        assert!(lacking((2, 37)).contains("merge-tree --write-tree") && !lacking((2, 37)).contains("core.fsync"));
        assert!(lacking((1, 9)).contains("core.fsync"));
    }
}
