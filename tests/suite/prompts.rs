//! Tests questions on a real terminal: answers by keys, and the content of the screen.

use crate::screen::Screen;
use crate::support::{COMPLETE, World, send};

const DOWN: &str = "\u{1b}[B";
const ENTER: &str = "\r";
const CTRL_C: &str = "\u{3}";

fn world() -> World {
    let world = World::new();
    world.stories(1, "");
    world.agent(&format!("echo x >new; {COMPLETE}"));
    world
}

fn start(world: &World) -> Screen {
    Screen::new(world, &["start", "work", "--", world.outside("bin/agent").to_str().unwrap()])
}

#[test]
fn the_completion_choice_describes_both_and_names_the_original_branch() {
    let world = world();
    let mut screen = start(&world);
    screen.wait_for("How should the run be completed?");
    screen.wait_for("cleanup  back to main, all changes uncommitted; delete ralph/work");
    screen.wait_for("keep     stay on ralph/work with its checkpoints; main is not changed");
    screen.press(ENTER);
    assert_eq!(screen.end().0, 0);
    assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("main".to_owned(), "?? new".to_owned()));
}

#[test]
fn prune_asks_and_no_is_the_default() {
    let world = world();
    world.start(&["--finish", "cleanup"]).code(0);
    for (keys, code, there) in [(ENTER, 2, true), (CTRL_C, 130, true), ("n", 2, true), ("y", 0, false)] {
        let mut screen = Screen::new(&world, &["prune"]);
        screen.wait_for("refs/ralph/work/done");
        screen.wait_for("for good? (y/n)");
        screen.press(keys);
        assert_eq!(screen.end().0, code, "{keys:?}");
        assert_eq!(world.has_ref("refs/ralph/work/done"), there, "{keys:?}");
    }
}

#[test]
fn keep_can_be_chosen() {
    let world = world();
    let mut screen = start(&world);
    screen.wait_for("keep     stay on");
    screen.press(DOWN);
    screen.press(ENTER);
    assert_eq!(screen.end().0, 0);
    assert_eq!(world.branch(), "ralph/work");
    world.ralph(&["resume"]).code(2);
}

#[test]
fn ctrl_c_at_the_choice_leaves_the_run_open_and_the_cursor_visible() {
    let world = world();
    let mut screen = start(&world);
    screen.wait_for("keep     stay on");
    screen.press(CTRL_C);
    let (code, text) = screen.end();
    assert_eq!(code, 130, "{text}");
    assert!(text.contains("git ralph finish --cleanup work"), "{text}");
    assert_eq!(world.branch(), "ralph/work");
    let mut screen = Screen::new(&world, &["finish"]);
    screen.wait_for("keep     stay on");
    screen.press(CTRL_C);
    assert_eq!(screen.end().0, 130);
    let mut screen = Screen::new(&world, &["finish"]);
    screen.wait_for("cleanup  back to main");
    screen.press(ENTER);
    assert_eq!(screen.end().0, 0);
    assert_eq!(world.branch(), "main");
}

#[test]
fn ctrl_c_in_the_loop_ends_the_agent_and_offers_the_choice() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo x >s$RALPH_STORY; test $RALPH_STORY = 2 && {{ echo at work; sleep 600; }}; {COMPLETE}"));
    let mut screen = start(&world);
    screen.wait_for("at work");
    screen.wait_for("1/2 stories");
    screen.press(CTRL_C);
    screen.wait_for("The run is paused, 1 of 2 stories done. What now?");
    screen.press(DOWN);
    screen.press(ENTER);
    assert_eq!(screen.end().0, 130);
    assert_eq!((world.branch(), world.git(&["status", "--porcelain"])), ("main".to_owned(), "?? s1".to_owned()));
}

#[test]
fn an_open_run_can_be_resumed_restarted_or_left_on_a_terminal() {
    let world = World::new();
    world.stories(2, "");
    world.agent(&format!("echo $RALPH_STORY >>order; {COMPLETE}"));
    world.start(&["--limit", "1"]).code(0);
    let mut screen = start(&world);
    screen.wait_for("A run of 'work' is open. What now?");
    screen.press(DOWN);
    screen.press(DOWN);
    screen.press(ENTER);
    assert_eq!(screen.end().0, 2);
    assert_eq!(world.read("order"), "1\n");
    let mut screen = start(&world);
    screen.wait_for("A run of 'work' is open. What now?");
    screen.press(ENTER);
    screen.wait_for("How should the run be completed?");
    screen.press(ENTER);
    assert_eq!(screen.end().0, 0);
    assert_eq!(world.read("order"), "1\n2\n");
}

#[test]
fn a_change_can_be_picked_on_a_terminal() {
    let world = world();
    world.change("another", "[[story]]\nid = '1'\n");
    world.git(&["config", "ralph.mine.cmd", world.outside("bin/agent").to_str().unwrap()]);
    world.git(&["config", "ralph.agent", "mine"]);
    let mut screen = Screen::new(&world, &["start", "--finish", "keep"]);
    screen.wait_for("Which change?");
    screen.press(DOWN);
    screen.press(ENTER);
    assert_eq!(screen.end().0, 0);
    assert_eq!(world.branch(), "ralph/work");
}

#[test]
fn sigterm_at_the_choice_leaves_the_run_open() {
    let world = world();
    let screen = start(&world);
    screen.wait_for("keep     stay on");
    send("TERM", &screen.child.process_id().unwrap().to_string());
    let (code, text) = screen.end();
    assert_eq!(code, 130, "{text}");
    assert_eq!(world.branch(), "ralph/work");
}

#[test]
fn with_no_agent_configured_an_installed_one_is_proposed() {
    let world = world();
    world.program("goose", "cat > /dev/null; echo x > new; echo '<promise>COMPLETE</promise>'");
    let mut screen = Screen::new(&world, &["start", "work", "--finish", "keep"]);
    screen.wait_for("No agent is configured. Use goose, which is installed?");
    screen.press("n");
    let (code, text) = screen.end();
    assert_eq!((code, world.branch()), (2, "main".to_owned()));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("goose runs with its permission prompts switched off: it can run any command"), "{text}");
    assert!(text.contains("with --isolate it works in a private clone, but a clone is not a sandbox"), "{text}");
    let mut screen = Screen::new(&world, &["start", "work", "--finish", "keep"]);
    screen.wait_for("No agent is configured. Use goose, which is installed?");
    screen.press("y");
    assert_eq!((screen.end().0, world.branch()), (0, "ralph/work".to_owned()));
}

#[test]
fn a_wait_for_a_usage_limit_shows_its_end_on_the_screen() {
    let world = world();
    let line = r#"{"type":"result","subtype":"success","is_error":true,"result":"You have hit your limit, resets in 2 hours"}"#;
    world.program(
        "claude",
        &format!("cat > /dev/null; echo '{}'; exit 1", line.replace("have hit", "hit").replace("You hit", "You\u{2019}ve hit")),
    );
    let mut screen = Screen::new(&world, &["start", "work", "--agent", "claude"]);
    screen.wait_for("1 waits");
    screen.wait_for("until ");
    screen.press(CTRL_C);
    screen.wait_for("The run is paused, 0 of 1 story done. What now?");
    screen.press(ENTER);
    assert_eq!((screen.end().0, world.branch()), (130, "ralph/work".to_owned()));
}

#[test]
fn ctrl_c_that_arrives_as_a_signal_ends_a_question_too() {
    let world = world();
    let screen = start(&world);
    screen.wait_for("How should the run be completed?");
    // As if Ctrl-C had been pressed between two keys: the signal without the key.
    send("INT", &screen.child.process_id().unwrap().to_string());
    assert_eq!(screen.end().0, 130);
    assert_eq!(world.branch(), "ralph/work");
}

#[test]
fn new_offers_the_sources_that_it_finds_in_the_repository() {
    let world = World::new();
    world.write("prd.json", "{\"userStories\": [{\"id\": \"US-1\", \"title\": \"First\"}]}");
    world.write("openspec/changes/add-it/tasks.md", "## 1. A\n- [ ] 1.1 a\n");
    world.write("openspec/changes/empty/tasks.md", "nothing\n");
    let mut screen = Screen::new(&world, &["new", "work"]);
    screen.wait_for("Where are the stories?");
    screen.wait_for("openspec/changes/add-it");
    screen.wait_for("prd.json");
    assert!(!screen.text().contains("openspec/changes/empty"), "{}", screen.text());
    screen.press(DOWN);
    screen.press(ENTER);
    assert_eq!(screen.end().0, 0);
    assert!(world.read(".git/ralph/work.toml").contains("source = \"prd.json\""));
    let mut screen = Screen::new(&world, &["new", "other"]);
    screen.wait_for("none of these");
    screen.press("\u{1b}[A");
    screen.press(ENTER);
    screen.wait_for("Open it in your editor now? (y/n)");
    screen.press("n");
    assert_eq!(screen.end().0, 0);
    assert!(world.read(".git/ralph/other.toml").contains("[[story]]"));
}
