//! README's console blocks, executed: what it shows is what happens.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::golden;
use crate::screen::Screen;
use crate::support::World;

fn readme() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

/// The blocks of a language, as lists of lines.
fn blocks(language: &str) -> Vec<Vec<String>> {
    let text = readme();
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().lines().map(str::to_owned).collect()).collect()
}

/// A command of a block without its comment.
fn command(line: &str) -> Option<&str> {
    line.strip_prefix("$ ").map(|command| command.split("   #").next().unwrap().split("  #").next().unwrap().trim())
}

/// What differs between any two runs: ids and times.
fn normalized(text: &str) -> String {
    let id = regex_lite::Regex::new(r"\b[0-9a-f]{10}\b").unwrap();
    let time = regex_lite::Regex::new(r"\b\d+(\.\d+)? s\b").unwrap();
    time.replace_all(&id.replace_all(text, "<id>"), "<time>").into_owned()
}

fn script(world: &World, name: &str, text: &str) {
    world.write(name, text);
    fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a line as somebody types it: through a shell, with git finding git-ralph on PATH.
#[track_caller]
fn typed(world: &World, line: &str) -> String {
    let output = world.command("sh", &["-c", line]).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{line}\n{said}");
    said
}

#[test]
fn the_first_two_commands_are_the_ones_that_ci_runs() {
    let first: Vec<Vec<String>> = blocks("console").into_iter().take(2).collect();
    let commands: Vec<&str> = first.iter().flatten().filter_map(|line| command(line)).collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    assert!(commands[0].starts_with("cargo install") && commands[0].ends_with("git ralph demo") && commands[1] == "cargo test");
}

#[test]
fn the_run_goes_as_it_is_shown() {
    let world = World::new();
    let block = blocks("console").into_iter().find(|block| block.iter().any(|line| line.contains("./my-agent"))).unwrap();
    let mut commands = block.iter().filter_map(|line| command(line));
    typed(&world, commands.next().unwrap());
    world.change("greeter", &blocks("toml")[0].join("\n"));
    script(&world, "check.sh", "#!/bin/sh\nsleep 0.1\nsh greet.sh | grep -q 'Hello, world'\n");
    script(
        &world,
        "my-agent",
        "#!/bin/sh\ncat >/dev/null\n\
         if [ $RALPH_STORY = greet ]; then echo \"echo 'Hello, world'\" >greet.sh\n\
         elif [ $RALPH_ATTEMPT = 1 ]; then echo 'echo $1' >greet.sh\n\
         echo \"<promise>FAILED: greet.sh must still say 'world' when no name is given</promise>\"; exit\n\
         else echo 'echo \"Hello, ${1:-world}\"' >greet.sh; fi\n\
         echo '<promise>COMPLETE</promise>'\n",
    );
    let start = commands.next().unwrap();
    let shown: Vec<&str> = block.iter().skip_while(|line| command(line) != Some(start)).skip(1).map(String::as_str).collect();
    let happened = normalized(&typed(&world, start));
    assert!(happened.starts_with(&normalized(&shown.join("\n"))), "{happened}");
    assert_eq!(commands.next(), None);
}

/// What differs between any two moments of a live view: times, and the spinner.
fn steady(view: &str) -> String {
    let spinner = regex_lite::Regex::new("^[\u{2800}-\u{28ff}]").unwrap();
    let clock = regex_lite::Regex::new(r"\b\d+:\d\d\b").unwrap();
    let estimate = regex_lite::Regex::new(r"about \d+[sm]").unwrap();
    estimate.replace_all(&clock.replace_all(&spinner.replace(view, "⠹"), "1:05"), "about 2m").into_owned()
}

#[test]
fn the_live_view_is_the_one_that_is_shown() {
    let world = World::new();
    world.change("greeter", &blocks("toml")[0].join("\n"));
    script(&world, "check.sh", "#!/bin/sh\nsh greet.sh | grep -q 'Hello, world'\n");
    let (usage, go) = (r#""usage":{"input_tokens":11200,"output_tokens":800}"#, world.outside("go"));
    world.program(
        "claude",
        &format!(
            r#"cat >/dev/null
            tool='{{"type":"tool_use","name":"Edit","input":{{"file_path":"'"$PWD"'/greet.sh"}}}}'
            printf '{{"type":"assistant","message":{{"id":"1","model":"opus","content":[%s],{usage}}}}}\n' "$tool"
            if [ $RALPH_STORY = name ]; then while [ ! -e {} ]; do sleep 0.02; done; fi
            echo 'echo "Hello, ${{1:-world}}"' >greet.sh
            printf '{{"type":"result","subtype":"success","result":"<promise>COMPLETE</promise>","total_cost_usd":0.25,{usage}}}\n'"#,
            go.display()
        ),
    );
    let screen = Screen::sized(&world, &["start", "greeter", "--model", "opus", "--finish", "keep"], 80);
    screen.wait_for("24.0k tokens");
    screen.wait_for("Edit greet.sh");
    let mut shown = Vec::new();
    world.wait_for("a whole frame", || {
        let rows = screen.rows();
        let first = rows.iter().position(|row| row.contains("name (attempt 1)")).unwrap_or(0);
        shown = rows[first..first + 3].iter().map(|row| steady(row)).collect();
        rows[first + 2].contains("claude (opus)")
    });
    fs::write(go, "").unwrap();
    assert_eq!(screen.end().0, 0);
    let text = readme();
    let (before, rest) = text.split_once("```text\n").unwrap();
    let (_, after) = rest.split_once("```").unwrap();
    golden::compare("README.md", &format!("{before}```text\n{}\n```{after}", shown.join("\n")));
}

#[test]
fn stories_come_from_where_the_readme_says() {
    let world = World::new();
    world.git(&["config", "ralph.mine.cmd", "cat >/dev/null; echo x >>work; echo '<promise>COMPLETE</promise>'"]);
    world.git(&["config", "ralph.agent", "mine"]);
    world.write("openspec/changes/add-greeting/proposal.md", "## Why\n\nGreetings.\n");
    world.write("openspec/changes/add-greeting/tasks.md", "## 1. Greet\n\n- [ ] 1.1 Say hello\n");
    world.write("specs/001-albums/spec.md", "# Feature Specification: Albums\n");
    world.write("specs/001-albums/tasks.md", "# Tasks: Albums\n\n## Phase 1: Setup\n\n- [ ] T001 Make a folder\n");
    world.write("prd.json", "{\"userStories\": [{\"id\": \"US-1\", \"title\": \"One\", \"priority\": 1, \"passes\": false}]}\n");
    world.write("docs/plans/plan.md", "# Plan\n\n### Task 1: First\n\n- [ ] do it\n");
    let block = blocks("console").into_iter().find(|block| block.iter().any(|line| line.contains("--from specs/"))).unwrap();
    let commands: Vec<&str> = block.iter().filter_map(|line| command(line)).collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for line in commands {
        typed(&world, line);
        let change = line.split(' ').nth(3).unwrap();
        if line.contains(" new ") {
            typed(&world, &format!("git ralph start {change} --finish cleanup"));
        } else {
            typed(&world, &format!("git ralph finish {change} --cleanup"));
        }
    }
    assert!(
        world.read("prd.json").contains("\"passes\": true") && world.read("openspec/changes/add-greeting/tasks.md").contains("- [x] 1.1")
    );
}

#[test]
fn the_user_keeps_working_while_stories_run_as_the_readme_shows() {
    let world = World::new();
    let section = |needle: &str| {
        let block = blocks("console").into_iter().find(|block| block.iter().any(|line| line.contains(needle))).unwrap();
        block.iter().filter_map(|line| command(line)).map(str::to_owned).collect::<Vec<String>>()
    };
    script(&world, "my-agent", "#!/bin/sh\ncat >/dev/null\necho $RALPH_STORY >\"$RALPH_STORY.txt\"\necho '<promise>COMPLETE</promise>'\n");
    world.write(".gitignore", ".env\nnode_modules/\n");
    world.write(".env", "SECRET\n");
    world.write("mine", "not committed\n");
    world.git(&["add", "my-agent", ".gitignore"]);
    world.change("greeter", "[[story]]\nid = \"greet\"\n");
    let isolated = section("--isolate");
    assert_eq!(isolated.len(), 3, "{isolated:?}");
    typed(&world, &isolated[0]);
    assert_eq!((world.branch(), world.exists("greet.txt")), ("main".to_owned(), false));
    assert!(typed(&world, &isolated[1]).contains("repo.ralph/greeter"));
    typed(&world, &isolated[2]);
    assert_eq!((world.read("greet.txt"), world.read("mine"), world.branch()), ("greet\n".into(), "not committed\n".into(), "main".into()));
    // Several at once, with the change file that is shown.
    let npm = world.outside("npm-ran").display().to_string();
    world.program("npm", &format!("test \"$1\" = ci && test \"$(cat .env)\" = SECRET && mkdir node_modules && echo $RALPH_SLOT >>{npm}"));
    let toml = blocks("toml").into_iter().find(|block| block.iter().any(|line| line.starts_with("touches"))).unwrap();
    world.change("shop", &toml.join("\n"));
    for line in section(".worktreeinclude") {
        typed(&world, &line);
    }
    for story in ["schema", "queries", "page", "docs"] {
        assert_eq!(world.read(&format!("{story}.txt")), format!("{story}\n"));
    }
    let mut slots: Vec<String> = fs::read_to_string(npm).unwrap().lines().map(str::to_owned).collect();
    slots.sort();
    slots.dedup();
    assert!(slots.len() > 1, "more than one clone was set up: {slots:?}");
    assert!(!world.exists("node_modules"));
}

#[test]
fn every_command_that_the_readme_names_exists() {
    let world = World::new();
    let text = readme();
    let mut seen = 0;
    for row in text.lines().filter(|line| line.starts_with("| `git ralph ")) {
        let name = row["| `git ralph ".len()..].split([' ', '`']).next().unwrap();
        world.ralph(&[name, "--help"]).code(0);
        seen += 1;
    }
    assert!(seen > 12, "{seen}");
    let help = world.ralph(&["-h"]).code(0).stdout;
    for name in help
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .filter(|name| name.chars().all(|c| c.is_ascii_lowercase()))
    {
        assert!(name == "help" || name == "demo" || text.contains(&format!("`git ralph {name}")), "README does not name {name}");
    }
}
