//! Tests change files: `new` writes them, `list` lists them, and errors in them name the file, the line and the key.

use crate::support::{COMPLETE, World};

#[test]
fn new_writes_a_template_that_can_be_started_once_it_is_edited() {
    let world = World::new();
    let output = world.ralph(&["new", "work"]).code(0);
    assert_eq!(output.stdout, format!("{}\n", world.path(".git/ralph/work.toml").display()));
    world.agent(COMPLETE);
    world.start(&[]).code(2).says("still says");
    let template = world.read(".git/ralph/work.toml");
    assert!(template.contains("Say what is to be done"), "{template}");
    world.write(
        ".git/ralph/work.toml",
        &template.replace("Say what is to be done", "Write a parser").replace("Describe the story for the agent.", "Parse it."),
    );
    world.start(&[]).code(0);
    world.ralph(&["new", "work"]).code(2).says("exists already");
}

#[test]
fn list_shows_every_change_and_where_it_stands() {
    let world = World::new();
    world.stories(2, "title = 'The work'");
    world.change("broken", "verfy = []\n");
    world.change("idle", "[[story]]\nid = '1'\n");
    world.agent(COMPLETE);
    world.start(&["--limit", "1"]).code(0);
    let output = world.ralph(&["list"]).code(0);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines[0].starts_with("broken") && lines[0].contains("unknown key 'verfy'; did you mean 'verify'?"), "{lines:?}");
    assert!(lines[1].starts_with("idle") && lines[1].contains("not started"), "{lines:?}");
    assert!(
        lines[2].starts_with("work") && lines[2].contains("open") && lines[2].contains("1/2") && lines[2].contains("The work"),
        "{lines:?}"
    );
    let json: serde_json::Value = serde_json::from_str(&world.ralph(&["list", "--json"]).code(0).stdout).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["changes"][2]["done"], 1);
}

#[test]
fn a_bad_change_file_is_fatal_and_touches_nothing() {
    let world = World::new();
    world.agent(COMPLETE);
    for (text, words) in [
        ("verfy = []\n[[story]]\nid = '1'\n", ".git/ralph/work.toml:1: unknown key 'verfy'; did you mean 'verify'?"),
        ("[[story]]\nid = 1\n", ".git/ralph/work.toml:2: 'id' must be a string, not an integer"),
        ("[[story]]\nid = '1'\n[[story]]\nid = '1'\n", ".git/ralph/work.toml:4: two stories have the id '1'"),
        ("[[story]]\nid = '1'\nafter = ['2']\n", ".git/ralph/work.toml:2: story '1' has 'after' the unknown story '2'"),
        ("[[story]]\nid = '1'\nafter = ['1']\n", ".git/ralph/work.toml:2: 'after' goes in a circle: 1 -> 1"),
        ("title = 'x'\n", ".git/ralph/work.toml: it has neither a [[story]]"),
        ("[[story]\n", ".git/ralph/work.toml:1: "),
    ] {
        world.change("work", text);
        world.start(&[]).code(128).says("fatal: ").says(words);
        assert_eq!(world.branch(), "main");
        assert!(!world.exists(".git/ralph/runs") && !world.exists(".git/ralph/locks"));
    }
}

#[test]
fn a_change_name_that_is_not_one_safe_ref_component_is_fatal() {
    let world = World::new();
    for name in ["a/b", "..", "a..b", "x.lock", ".x", "a b", "a~1", "ä"] {
        world.ralph(&["new", name]).code(128).says("fatal: ").says("is not a valid change name");
        world.ralph(&["start", name, "--", "true"]).code(128).says("is not a valid change name");
    }
    assert!(!world.exists(".git/ralph"));
}

#[test]
fn a_mistyped_change_gets_the_nearest_name_as_a_hint() {
    let world = World::new();
    world.stories(1, "");
    world
        .ralph(&["start", "wrok", "--", "true"])
        .code(128)
        .says("there is no change 'wrok'")
        .says("did you mean 'work'?")
        .says("hint: git ralph start work -- true");
}

#[test]
fn the_layers_of_settings_are_flag_command_file_config_default() {
    let world = World::new();
    world.agent("exit 0");
    let attempts = |args: &[&str]| {
        world.ralph(args).code(1);
        let count = world.git(&["for-each-ref", "refs/ralph/work/attempts/"]).lines().count();
        world.ralph(&["abort", "-q"]).code(0);
        count
    };
    let agent = world.outside("bin/agent");
    let start = ["start", "work", "--", agent.to_str().unwrap()];
    world.stories(1, "");
    world.git(&["config", "ralph.maxRetries", "1"]);
    assert_eq!(attempts(&start), 2);
    world.stories(1, "max-retries = 0");
    assert_eq!(attempts(&start), 1);
    assert_eq!(attempts(&["start", "work", "--max-retries", "2", "--", agent.to_str().unwrap()]), 3);
    world.git(&["config", "ralph.maxRetries", "many"]);
    world.stories(1, "");
    world
        .ralph(&start)
        .code(128)
        .says("bad value for ralph.maxRetries in local git config (file:.git/config): 'many' is not a whole number");
}
