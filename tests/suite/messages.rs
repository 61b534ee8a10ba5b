//! Tests messages about wrong input: the command line as typed, and every word of standard error.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use git_ralph::cli::Cli;

use crate::support::{World, program_from_scratch};

/// A repository with a change `work`, an agent, and files that are not agents.
fn world() -> World {
    let world = World::new();
    world.stories(2, "");
    world.agent("true");
    world.write("plain", "not a program\n");
    fs::create_dir(world.path("folder")).unwrap();
    world
}

/// Runs each line, split at spaces, and compares standard error; `REPO` stands for the path of the repository.
#[track_caller]
fn check(world: &World, table: &[(&str, i32, &str)]) {
    for (line, code, expected) in table {
        let args: Vec<&str> = line.split(' ').map(|word| if word == "''" { "" } else { word }).collect();
        let output = world.ralph(&args).code(*code);
        let said = output.stderr.replace(world.repo.to_str().unwrap(), "REPO");
        assert_eq!(said.trim_end(), *expected, "git ralph {line}");
    }
}

#[test]
fn a_usage_error_is_reported_in_two_lines() {
    let table = [
        ("strat work", 129, "error: 'strat' is not a git ralph command; did you mean 'start'?\nhint: git ralph start work"),
        ("xyzzy", 129, "error: 'xyzzy' is not a git ralph command\nhint: git ralph -h"),
        ("--bogus", 129, "error: unknown option '--bogus'\nhint: git ralph -h"),
        ("start work --bogus", 129, "error: unknown option '--bogus'\nhint: git ralph start -h"),
        ("finish --cleanpu", 129, "error: unknown option '--cleanpu'; did you mean '--cleanup'?\nhint: git ralph finish -h"),
        ("start work extra", 129, "error: unexpected argument 'extra'\nhint: git ralph start -h"),
        ("new", 129, "error: missing argument: <CHANGE>\nhint: git ralph new -h"),
        ("start work --only", 129, "error: '--only <STORY>' needs a value\nhint: git ralph start -h"),
        ("status --json=x", 129, "error: '--json' takes no value\nhint: git ralph status -h"),
        ("finish --cleanup --keep", 129, "error: '--cleanup' cannot be used with '--keep'\nhint: git ralph finish -h"),
        ("start --agent a -- b", 129, "error: '--agent <NAME>' cannot be used with '-- CMD'\nhint: git ralph start -h"),
        ("start --agent a --agent b", 129, "error: '--agent <NAME>' can be given only once\nhint: git ralph start -h"),
    ];
    check(&world(), &table);
}

#[test]
fn a_bad_value_of_an_option_is_named_with_what_is_expected() {
    let table = [
        ("--max-cost -5", "'--max-cost <USD>': '-5' is not an amount of dollars, such as 2.50"),
        ("--max-cost x", "'--max-cost <USD>': 'x' is not an amount of dollars, such as 2.50"),
        ("--max-tokens -1", "'--max-tokens <N>': '-1' is not a number of tokens, such as 500000, 500k or 2M"),
        ("--max-retries x", "'--max-retries <N>': 'x' is not a whole number"),
        ("--max-retries -1", "'--max-retries <N>': -1 is too small, the least is 0"),
        ("--max-retries 4294967296", "'--max-retries <N>': 4294967296 is too large, the most is 4294967295"),
        ("--jobs 0", "'--jobs <N>': 0 is too small, the least is 1"),
        ("--limit 0", "'--limit <N>': 0 is too small, the least is 1"),
        ("--limit x", "'--limit <N>': 'x' is not a whole number"),
        ("--attempt-timeout -5m", "'--attempt-timeout <D>': '-5m' is not a duration such as '45m', '1h 30m' or '90s'"),
        ("--idle-timeout soon", "'--idle-timeout <D>': 'soon' is not a duration such as '45m', '1h 30m' or '90s'"),
        ("--finish later", "'--finish <MODE>': 'later' is not one of ask, cleanup, keep"),
    ];
    let world = world();
    for (options, expected) in table {
        check(&world, &[(&format!("start work {options}"), 129, &format!("error: bad value for {expected}\nhint: git ralph start -h"))]);
    }
    let log = "error: bad value for '--attempt <N>': -1 is too small, the least is 1\nhint: git ralph log -h";
    check(&world, &[("log --attempt -1", 129, log)]);
}

#[test]
fn a_mistyped_name_is_corrected_in_the_hint() {
    let no_change = "there is no change 'wrok': .git/ralph/wrok.toml does not exist; did you mean 'work'?";
    let no_run = "there is no open run of 'wrok'; did you mean 'work'?";
    let table = [
        ("start wrok --only 1", 128, format!("fatal: {no_change}\nhint: git ralph start work --only 1")),
        ("status wrok", 128, format!("fatal: {no_change}\nhint: git ralph status work")),
        ("config --json wrok", 128, format!("fatal: {no_change}\nhint: git ralph config --json work")),
        ("resume wrok", 2, format!("error: {no_run}\nhint: git ralph resume work")),
        ("finish --keep wrok", 2, format!("error: {no_run}\nhint: git ralph finish --keep work")),
        ("log wrok", 128, "fatal: there is no change and no story 'wrok'; did you mean 'work'?\nhint: git ralph log work".to_owned()),
        (
            "prune --change=wrok",
            128,
            "fatal: there is no change 'wrok'; did you mean 'work'?\nhint: git ralph prune --change=work".to_owned(),
        ),
        (
            "start work --agent claud",
            128,
            "fatal: there is no agent 'claud'; did you mean 'claude'?\nhint: git ralph start work --agent claude".to_owned(),
        ),
        (
            "start far-off",
            128,
            "fatal: there is no change 'far-off': .git/ralph/far-off.toml does not exist\nhint: git ralph new far-off".to_owned(),
        ),
        (
            "start work --only 11 -- true",
            128,
            "fatal: 'work' has no story '11'; did you mean '1'?\nhint: git ralph start work --only 1 -- true".to_owned(),
        ),
    ];
    let world = world();
    for (line, code, expected) in &table {
        check(&world, &[(line, *code, expected)]);
    }
}

#[test]
fn every_change_that_could_be_meant_is_a_command_of_its_own() {
    let world = world();
    world.change("demo1", "[[story]]\nid = 'a'\n");
    let words = "error: which change? none is named, and there is no terminal to ask on";
    check(&world, &[("start", 129, &format!("{words}\nhint: git ralph start demo1\nhint: git ralph start work"))]);
    let empty = World::new();
    check(&empty, &[("start", 2, "error: there is no change to start\nhint: git ralph new my-change")]);
}

#[test]
fn the_reason_why_an_agent_cannot_be_started_is_reported() {
    let installed = "hint: git ralph doctor   to see which agents are installed";
    let mut world = world();
    let dir = world.outside("dir-on-path");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("unready"), "").unwrap();
    let path = world.env().iter().find(|(name, _)| name == "PATH").unwrap().1.clone();
    world.set_env("PATH", &format!("{path}:{}", dir.display()));
    let unready = dir.join("unready");
    check(
        &world,
        &[
            ("start work -- ./none", 128, "fatal: the agent 'REPO/none' does not exist"),
            ("start work -- ./plain", 128, "fatal: the agent 'REPO/plain' is not executable\nhint: chmod u+x -- REPO/plain"),
            ("start work -- ./folder", 128, "fatal: the agent 'REPO/folder' is a directory, not a program"),
            ("start work -- none", 128, &format!("fatal: the agent 'none' was not found on PATH\n{installed}")),
            ("start work -- plain", 128, &format!("fatal: the agent 'plain' was not found on PATH; did you mean './plain'?\n{installed}")),
            ("start work -- ''", 128, &format!("fatal: the command of the agent is empty\n{installed}")),
            (
                "start work -- unready",
                128,
                &format!("fatal: the agent 'unready' is not executable: {0}\nhint: chmod u+x -- {0}", unready.display()),
            ),
        ],
    );
}

/// Access is never denied to root, so the test runs git-ralph as an ordinary user.
#[test]
fn a_path_that_is_denied_comes_with_the_command_that_opens_it() {
    let world = world();
    crate::surroundings::give_away(&world);
    let modes = |mode: &str, path: &str| {
        assert!(program_from_scratch("chmod").arg(mode).arg(world.path(path)).status().unwrap().success());
    };
    let said = |args: &[&str]| {
        let output = crate::surroundings::nobodys(&world, args).output().unwrap();
        assert_eq!(output.status.code(), Some(128));
        String::from_utf8_lossy(&output.stderr).replace(world.repo.to_str().unwrap(), "REPO")
    };
    modes("000", ".git/ralph/work.toml");
    let start = said(&["start", "work", "--", "true"]);
    assert_eq!(start, "fatal: cannot read .git/ralph/work.toml: Permission denied\nhint: chmod u+rw -- REPO/.git/ralph/work.toml\n");
    modes("500", ".git/ralph");
    let new = said(&["new", "other"]);
    assert_eq!(new, "fatal: cannot write REPO/.git/ralph/schema.json: permission denied\nhint: chmod u+rwx -- REPO/.git/ralph\n");
    assert!(program_from_scratch("chown").arg("0").arg(world.path(".git/ralph")).status().unwrap().success());
    let new = said(&["new", "other"]);
    assert!(new.ends_with("hint: sudo chown -R 65534 -- REPO/.git/ralph\n"), "{new}");
}

#[test]
fn places_that_are_no_work_tree_are_named() {
    let empty = World::empty();
    let nowhere = "not a git repository (or any of the parent directories): .git";
    check(&empty, &[("list", 128, &format!("fatal: {nowhere}\nhint: git init   to make this directory a repository"))]);
    empty.git(&["init", "-q", "--bare"]);
    let bare = "error: this is a bare repository: git-ralph needs a work tree\nhint: git worktree add ../work-tree";
    check(&empty, &[("list", 2, bare), ("start", 2, bare)]);
}

#[test]
fn a_machine_without_git_and_a_directory_that_is_gone_are_named() {
    let mut world = World::new();
    let gone = world.path("gone");
    fs::create_dir(&gone).unwrap();
    let mut command = world.command("sh", &["-c", "rmdir ../gone && exec git-ralph list"]);
    let output = command.current_dir(&gone).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "fatal: cannot find out the current directory: No such file or directory\n");
    world.set_env("PATH", "/nowhere");
    check(&world, &[("list", 128, "fatal: git was not found on PATH: No such file or directory")]);
}

#[test]
fn sources_and_names_that_cannot_be_used_are_named() {
    let world = world();
    let wrong = "is not a valid change name:";
    let table = [
        ("new x --from nope", "the source nope does not exist".to_owned()),
        ("new x --from .", ".: expected a tasks.md or a prd.json in it".to_owned()),
        ("new x --from folder", "folder: expected a tasks.md or a prd.json in it".to_owned()),
        ("new a/b", format!("'a/b' {wrong} only letters, digits, '.', '_' and '-' are allowed")),
        ("new ''", format!("'' {wrong} it is empty")),
    ];
    for (line, expected) in &table {
        check(&world, &[(line, 128, &format!("fatal: {expected}"))]);
    }
    let exists = "error: REPO/.git/ralph/work.toml exists already\nhint: git ralph start work";
    check(&world, &[("new work", 2, exists)]);
    check(
        &World::new(),
        &[(
            "list",
            0,
            "there are no changes yet\nhint: git ralph new my-change\nhint: Disable this message with \"git config advice.ralphNextStep false\"",
        )],
    );
}

#[test]
fn a_bare_number_is_a_number_of_seconds_everywhere() {
    let world = world();
    let shown = |world: &World, args: &[&str]| {
        let text = world.ralph(args).code(0).stdout;
        text.lines().find(|line| line.starts_with("ralph.attemptTimeout ")).unwrap().split_whitespace().nth(1).unwrap().to_owned()
    };
    for (value, expected) in [("90", "90s"), ("\"90\"", "90s"), ("\"none\"", "none"), ("0", "none")] {
        world.stories(1, &format!("attempt-timeout = {value}"));
        assert_eq!(shown(&world, &["config", "work"]), expected, "{value} in the change file");
        world.git(&["config", "ralph.attemptTimeout", value.trim_matches('"')]);
        assert_eq!(shown(&world, &["config"]), expected, "{value} in git's configuration");
        world.start(&["--dry-run", "--attempt-timeout", value.trim_matches('"')]).code(0);
    }
}

/// The texts of hints in the code that are string literals.
fn hints(code: &str) -> Vec<String> {
    let starts = [".hint(\"", ".hint(format!(\"", ".hint(\n                \""];
    starts.iter().flat_map(|start| code.split(start).skip(1).map(|rest| rest.split("\"").next().unwrap().to_owned())).collect()
}

/// What is wrong with a hint, if anything: it must be a command, without words that the shell would take for redirections.
fn unpastable(hint: &str) -> Option<&'static str> {
    const PROGRAMS: [&str; 13] = ["git", "cd", "chmod", "sudo", "rm", "mv", "cp", "cat", "echo", "fuser", "{done}", "{again}", "{back}"];
    let command = hint.split("   ").next().unwrap_or_default();
    let unquoted: String = command.split('\'').step_by(2).collect();
    // The command may be preceded by a variable assignment.
    match command.split(' ').find(|word| !word.contains('=')) {
        Some(program) if !PROGRAMS.contains(&program) => Some("is not a command"),
        _ if unquoted.contains('<') || unquoted.contains(", ") => Some("cannot be typed as it stands"),
        _ => None,
    }
}

#[test]
fn every_hint_can_be_pasted_into_a_shell() {
    let all: Vec<String> = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
        .iter()
        .flat_map(|path| hints(fs::read_to_string(path).unwrap().split("#[cfg(test)]").next().unwrap()))
        .collect();
    assert!(all.len() > 40, "only {} hints were found", all.len());
    let faults: Vec<String> = all.iter().filter_map(|hint| unpastable(hint).map(|why| format!("'{hint}' {why}"))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(unpastable("finish the merge first").is_some() && unpastable("git switch <branch>").is_some());
    assert!(unpastable("git ralph hint -m '<text>'   with your words").is_none());
}

/// Every source file below a directory.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|kind| kind == "rs"))
        .collect()
}

/// The commands in the code: strings that begin with `git ralph` at the start of a literal or after `&& `, without the explanation.
fn commands(code: &str) -> Vec<String> {
    let starts = ["\"git ralph ", "\"  git ralph ", "&& git ralph ", "git_ralph(\""];
    let cut = |rest: &str| {
        let rest = rest.split(['"', '\n']).next().unwrap_or_default();
        rest.split("   ").next().unwrap_or_default().split(" && ").next().unwrap_or_default().trim_end_matches([':', ';']).to_owned()
    };
    // The helper adds the arguments of these commands.
    let whole = |start: &str, command: String| if start.starts_with("git_ralph") { command + " {}" } else { command };
    starts.iter().flat_map(|start| code.split(start).skip(1).map(move |rest| whole(start, cut(rest)))).collect()
}

/// The command with a value for every placeholder: `{change}`, `<command that …>`.
fn filled_in(command: &str) -> String {
    let mut text = String::new();
    let mut depth = 0;
    for c in command.chars() {
        match c {
            '{' | '<' => depth += 1,
            '}' | '>' if depth > 0 => {
                depth -= 1;
                text.push_str(if depth == 0 { "1" } else { "" });
            }
            _ if depth == 0 => text.push(c),
            _ => {}
        }
    }
    text
}

/// Strings that look like commands but are not typed by users: reflog messages, titles, and clap's usage lines.
const NO_HINTS: [&str; 5] = ["finish", "start: earlier run", "resume", "prune", "start"];

/// What is wrong with a command, if anything.
fn fault(command: &str) -> Option<String> {
    let line = filled_in(command);
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let own = words.split(|word| *word == "--").next().unwrap();
    if let Err(error) = Cli::try_parse_from(["git-ralph"].iter().chain(&words))
        && own.last() != Some(&"-h")
    {
        return Some(error.to_string());
    }
    let takes_value = |word: &str| matches!(word, "--attempt" | "--prefix" | "--dir" | "--change" | "--max-retries" | "--to" | "-m");
    let is_argument = |at: usize| !own[at].starts_with('-') && !takes_value(own[at - 1]);
    let first_argument = (1..own.len()).find(|at| is_argument(*at));
    let last_option = (1..own.len()).rfind(|at| own[*at].starts_with('-'));
    (first_argument.zip(last_option)).filter(|(argument, option)| argument < option).map(|_| "options come before arguments".to_owned())
}

#[test]
fn every_hint_is_a_command_that_exists_with_its_options_first() {
    let (mut checked, mut faults) = (0, Vec::new());
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        if path.to_str().unwrap().contains("/src/cli/") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let code: Vec<&str> = text.split("#[cfg(test)]").next().unwrap().lines().filter(is_code).collect();
        let found = commands(&code.join("\n"));
        for command in found.iter().filter(|command| !NO_HINTS.contains(&command.as_str()) && !command.starts_with('{')) {
            checked += 1;
            faults.extend(fault(command).map(|why| format!("{}: git ralph {command}: {why}", path.display())));
        }
    }
    assert!(checked > 30, "only {checked} commands were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(
        fault("finish {change} --cleanup").is_some()
            && fault("finish --all {change}").is_some()
            && fault("finish --cleanup {change}").is_none()
    );
}
