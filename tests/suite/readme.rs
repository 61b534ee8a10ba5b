//! Tests the commands of the README and the how-to pages: their output is what the pages show.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::document::{Page, command, typed};
use crate::golden;
use crate::screen::Screen;
use crate::support::World;

fn readme() -> Page {
    Page::read("README.md")
}

/// The change file that the README shows.
fn change_file(page: &Page) -> String {
    page.blocks("toml")[0].lines.join("\n")
}

fn script(world: &World, name: &str, text: &str) {
    world.write(name, text);
    fs::set_permissions(world.path(name), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_first_two_commands_are_the_ones_that_ci_runs() {
    let readme = readme();
    let first: Vec<&str> = readme.text().lines().filter_map(command).take(2).collect();
    assert!(first[0].starts_with("cargo install") && first[0].ends_with("git ralph demo") && first[1] == "cargo test", "{first:?}");
}

#[test]
fn the_first_run_goes_as_it_is_shown() {
    let mut world = World::new();
    let readme = readme();
    script(&world, "check.sh", "sh greet.sh | grep -q 'Hello, world'\n");
    world.git(&["add", "check.sh"]);
    world.git(&["commit", "-qm", "check"]);
    world.program(
        "claude",
        r#"test "$1" = --version && exit
        cat >/dev/null; echo 'echo "Hello, ${1:-world}"' >greet.sh
        echo '{"type":"result","subtype":"success","result":"<promise>COMPLETE</promise>"}'"#,
    );
    fs::write(world.outside("stories.toml"), change_file(&readme)).unwrap();
    world.set_env("EDITOR", &format!("cp {}", world.outside("stories.toml").display()));
    let commands = readme.commands("--agent claude");
    assert_eq!(commands.len(), 7, "{commands:?}");
    for line in &commands {
        let said = typed(&world, line);
        if line.contains("start") {
            assert!(said.contains("2 of 2 done"), "{said}");
            assert_eq!((world.branch(), world.exists("greet.sh")), ("main".to_owned(), false), "the checkout is not involved until finish");
        }
    }
    assert_eq!((world.branch(), world.git(&["status", "--short"])), ("main".to_owned(), "?? greet.sh".to_owned()));
}

#[test]
fn the_commands_that_recover_work_do_what_the_readme_says() {
    let world = World::new();
    world.change("greeter", "max-retries = 1\n[[story]]\nid = \"name\"\n");
    let agent = "cat >/dev/null; echo $RALPH_ATTEMPT >greet.sh; test $RALPH_ATTEMPT = 1 && exit 1; echo '<promise>COMPLETE</promise>'";
    world.ralph(&["start", "greeter", "--", "sh", "-c", agent]).code(0);
    let readme = readme();
    let block = readme.blocks("sh").into_iter().find(|block| block.lines.iter().any(|line| line.contains("restore"))).unwrap();
    for line in block.lines {
        let said = typed(&world, line);
        match line.split_whitespace().nth(2).unwrap() {
            "log" => assert!(said.contains("refs/ralph/greeter/attempts/name/1"), "{said}"),
            "undo" => assert!(!world.exists("greet.sh")),
            _ => assert_eq!(world.read("greet.sh"), "1\n"),
        }
    }
}

#[test]
fn the_options_of_an_unattended_run_exist() {
    let world = World::new();
    world.change("shop", "[[story]]\nid = \"a\"\n");
    for page in [readme(), Page::read("docs/unattended.md")] {
        let lines = page.text().lines().map(|line| command(line).unwrap_or(line));
        let starts: Vec<String> = lines.filter(|line| line.starts_with("git ralph start ")).map(str::to_owned).collect();
        for line in starts.iter().filter(|line| line.contains("--keep-going")) {
            typed(&world, &format!("{} --dry-run -- true", line.replace("greeter", "shop")));
        }
        assert!(starts.iter().any(|line| line.contains("--keep-going")));
    }
}

/// Replaces what changes constantly in a live view: times, and the spinner.
fn steady(view: &str) -> String {
    let spinner = regex_lite::Regex::new("^[\u{2800}-\u{28ff}]").unwrap();
    let clock = regex_lite::Regex::new(r"\b\d+:\d\d\b").unwrap();
    let estimate = regex_lite::Regex::new(r"about \d+[sm]").unwrap();
    estimate.replace_all(&clock.replace_all(&spinner.replace(view, "⠹"), "1:05"), "about 2m").into_owned()
}

#[test]
fn the_live_view_is_the_one_that_is_shown() {
    let world = World::new();
    let readme = readme();
    world.change("greeter", &change_file(&readme));
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
    let screen = Screen::sized(&world, &["start", "greeter", "--agent", "claude", "--model", "opus", "--finish", "keep"], 80);
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
    let (before, rest) = readme.text().split_once("```text\n").unwrap();
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
    let commands = readme().commands("--from specs/");
    assert_eq!(commands.len(), 4, "{commands:?}");
    for line in &commands {
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
fn the_user_keeps_working_while_stories_run_as_the_page_shows() {
    let world = World::new();
    let page = Page::read("docs/parallel.md");
    script(&world, "my-agent", "#!/bin/sh\ncat >/dev/null\necho $RALPH_STORY >\"$RALPH_STORY.txt\"\necho '<promise>COMPLETE</promise>'\n");
    world.write(".gitignore", ".env\nnode_modules/\n");
    world.write(".env", "SECRET\n");
    world.write("mine", "not committed\n");
    world.git(&["add", "my-agent", ".gitignore"]);
    world.change("greeter", "[[story]]\nid = \"greet\"\n");
    let isolated = page.commands("--isolate");
    assert_eq!(isolated.len(), 3, "{isolated:?}");
    typed(&world, &isolated[0]);
    assert_eq!((world.branch(), world.exists("greet.txt")), ("main".to_owned(), false));
    assert!(typed(&world, &isolated[1]).contains("repo.ralph/greeter"));
    typed(&world, &isolated[2]);
    assert_eq!((world.read("greet.txt"), world.read("mine"), world.branch()), ("greet\n".into(), "not committed\n".into(), "main".into()));
    // Tests several jobs, with the change file from the page.
    let npm = world.outside("npm-ran").display().to_string();
    world.program("npm", &format!("test \"$1\" = ci && test \"$(cat .env)\" = SECRET && mkdir node_modules && echo $RALPH_SLOT >>{npm}"));
    world.change("shop", &change_file(&page));
    for line in page.commands(".worktreeinclude") {
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
    let readme = readme();
    let (text, mut seen) = (readme.text(), 0);
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

#[test]
fn an_agent_of_your_own_works_as_the_page_shows() {
    let world = World::new();
    let page = Page::read("docs/own-agent.md");
    let blocks = page.blocks("sh");
    let agent = blocks.iter().find(|block| block.lines[0].starts_with("#!")).unwrap();
    script(&world, "my-agent", &agent.lines.join("\n"));
    world.change("greeter", "[[story]]\nid = \"greet\"\n");
    typed(&world, &page.commands("./my-agent")[0]);
    assert_eq!(world.git(&["show", "ralph/greeter:greet.sh"]), "echo 'Hello, world'");
    for line in blocks.iter().flat_map(|block| &block.lines).filter(|line| line.starts_with("git config")) {
        typed(&world, line);
    }
    assert!(!world.ralph(&["config"]).code(0).stderr.contains("warning"), "every key is known");
}
